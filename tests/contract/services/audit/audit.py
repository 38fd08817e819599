"""Keeps what happens to accounts in a database. A worker with pika that takes one message after another.

What it cannot read it acknowledges and logs: an audit that blocks the queue would be worse.
"""

from __future__ import annotations

import json
import logging
import sqlite3

import pika

log = logging.getLogger("audit")
SCHEMA = """
create table if not exists entries (
    id text primary key, at text not null, actor text not null, action text not null, target text, ip text
)
"""


class Audit:
    """The service."""

    def __init__(self, url: str, database: str) -> None:
        self._url = url
        self.database = sqlite3.connect(database, check_same_thread=False)
        self.database.execute(SCHEMA)

    def work_off(self) -> int:
        """Take all messages that wait, and return how many there were."""
        count = 0
        with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
            channel = connection.channel()
            channel.exchange_declare("events", "topic", durable=True)
            channel.queue_declare("audit", durable=True)
            channel.queue_bind("audit", "events", "account.#")
            while True:
                method, _, body = channel.basic_get("audit")
                if method is None:
                    return count
                self.record(method.routing_key, body)
                channel.basic_ack(method.delivery_tag)
                count += 1

    def record(self, routing_key: str, body: bytes) -> None:
        """Keep one event."""
        try:
            event = json.loads(body)
            row = (
                event["event_id"],
                event["occurred_at"],
                event["actor"]["login"],
                routing_key.removeprefix("account."),
                event.get("target"),
                event["actor"].get("ip"),
            )
            with self.database:
                self.database.execute("insert or ignore into entries values (?, ?, ?, ?, ?, ?)", row)
        except Exception:
            log.exception("cannot record %r", routing_key)
