"""Record what RabbitMQ's firehose and its tracing plugin write about one small workload, as data for these tests.

Run it as `python -m tests.trace.record_samples amqp://guest:guest@127.0.0.1:5672 15672 rabbitmq-4.3`. The second
argument is the port of rabbitmq_management; rabbitmq_tracing must be enabled too. The last argument is the folder below
`samples`. The command works in a virtual host of its own and removes it.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

import pika

SAMPLES = Path(__file__).parent / "samples"
VHOST = "leveret-samples"
# The number of entries that `work` leaves in a log.
EVENTS = 12
PATIENCE_S = 30


def main(amqp: str, management_port: str, name: str) -> None:
    folder = SAMPLES / name
    folder.mkdir(parents=True, exist_ok=True)
    server = Api(amqp, management_port)
    server.call("DELETE", f"vhosts/{VHOST}", missing_ok=True)
    server.call("PUT", f"vhosts/{VHOST}", {})
    server.call("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    try:
        record_firehose(amqp, server, folder / "firehose.jsonl")
        record_log(amqp, server, folder / "tracing-json.log")
    finally:
        server.call("DELETE", f"vhosts/{VHOST}")


class Api:
    """The management API of one node."""

    def __init__(self, amqp: str, port: str) -> None:
        parts = urlsplit(amqp)
        self.root = f"http://{parts.hostname}:{port}/api/"
        user = f"{parts.username}:{parts.password}"
        self.headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}

    def call(self, method: str, path: str, body: object = None, *, missing_ok: bool = False) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, "Content-Type": "application/json"}
        request = urllib.request.Request(self.root + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if missing_ok and error.code == 404:
                return b""
            raise


def record_firehose(amqp: str, server: Api, path: Path) -> None:
    server.call("PUT", f"vhosts/{VHOST}", {"tracing": True})
    with connected(amqp) as watcher:
        channel = watcher.channel()
        channel.queue_declare("firehose", durable=True)
        channel.queue_bind("firehose", "amq.rabbitmq.trace", "#")
        work(amqp)
        lines = []
        for method, properties, body in channel.consume("firehose", auto_ack=True, inactivity_timeout=1):
            if method is None:
                break
            lines.append(
                {
                    "routing_key": method.routing_key,
                    "headers": plain(properties.headers),
                    "body": base64.b64encode(body).decode(),
                }
            )
        channel.cancel()
        channel.queue_delete("firehose")
    server.call("PUT", f"vhosts/{VHOST}", {"tracing": False})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def record_log(amqp: str, server: Api, path: Path) -> None:
    trace = "leveret"
    wanted = {"format": "json", "pattern": "#", "tracer_connection_username": "guest"}
    server.call("PUT", f"traces/{VHOST}/{trace}", {**wanted, "tracer_connection_password": "guest"})
    work(amqp)
    # The plugin writes its log at some later time and sends no notice.
    log, limit = b"", time.monotonic() + PATIENCE_S
    while log.count(b"routing_keys") < EVENTS and time.monotonic() < limit:
        log = server.call("GET", f"trace-files/{trace}.log", missing_ok=True)
    server.call("DELETE", f"traces/{VHOST}/{trace}")
    server.call("DELETE", f"trace-files/{trace}.log", missing_ok=True)
    path.write_bytes(log)


def connected(amqp: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(f"{amqp}/{quote(VHOST, safe='')}"))


def work(amqp: str) -> None:
    """Do a little of everything that leaves an entry in the log."""
    with connected(amqp) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("orders", "topic", durable=True)
        channel.queue_declare("orders.dead", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"}
        channel.queue_declare("orders.work", durable=True, arguments=dead)
        channel.queue_declare("orders.log", durable=True)
        channel.queue_bind("orders.work", "orders", "order.*")
        channel.queue_bind("orders.log", "orders", "#")
        properties = pika.BasicProperties(
            content_type="application/json",
            delivery_mode=2,
            message_id="m-1",
            correlation_id="c-1",
            headers={"customer": "späte", "Authorization": "Bearer 1", "nested": {"n": 7, "list": [1, "two"]}},
        )
        channel.basic_publish("orders", "order.created", b'{"id": 1}', properties)
        channel.basic_publish("orders", "order.created", b"\x00\xff\n", pika.BasicProperties(priority=3))
        channel.basic_publish("orders", "nowhere.else", b"", pika.BasicProperties(timestamp=1_700_000_000))
        channel.basic_publish(
            "", "orders.log", b"line one\nline two", pika.BasicProperties(headers={"CC": ["orders.dead"]})
        )
        channel.basic_publish("", "missing", b"lost")
        first = next(channel.consume("orders.work"))[0]
        channel.cancel()
        method, _, _ = channel.basic_get("orders.work")
        channel.basic_reject(method.delivery_tag, requeue=False)
        assert first.delivery_tag
        method, _, _ = channel.basic_get("orders.dead", auto_ack=True)
        channel.basic_get("orders.dead", auto_ack=True)
        channel.basic_get("orders.log", auto_ack=True)
        channel.queue_delete("orders.work")
        channel.queue_delete("orders.dead")
        channel.queue_delete("orders.log")
        channel.exchange_delete("orders")


def plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


if __name__ == "__main__":
    main(*sys.argv[1:])
