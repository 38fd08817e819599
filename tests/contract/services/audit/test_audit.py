"""The tests of the audit."""

import json

import pika
import pytest
from audit import Audit

EVENT = {
    "event_id": "e-1",
    "occurred_at": "2026-03-01T10:00:00Z",
    "actor": {"login": "ada", "ip": "127.0.0.1", "agent": "curl"},
    "target": "account 7",
    "session": "s-1",
    "version": 3,
}


@pytest.fixture
def audit(leveret, tmp_path):
    service = Audit(leveret.url, str(tmp_path / "audit.db"))
    assert service.work_off() == 0
    yield service
    service.database.close()


def publish(url, event):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        connection.channel().basic_publish("events", "account.locked", json.dumps(event))


def test_an_event_is_kept(leveret, audit):
    publish(leveret.url, EVENT)

    assert audit.work_off() == 1
    row = ("e-1", "2026-03-01T10:00:00Z", "ada", "locked", "account 7", "127.0.0.1")
    assert audit.database.execute("select * from entries").fetchall() == [row]


def test_an_event_that_comes_twice_is_kept_once(leveret, audit):
    for _ in range(2):
        publish(leveret.url, EVENT)

    assert audit.work_off() == 2
    assert audit.database.execute("select count(*) from entries").fetchone() == (1,)
