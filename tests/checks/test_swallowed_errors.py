"""Errors of publishes without confirms: which of them clients swallow, and what the checks report."""

from __future__ import annotations

import subprocess
import sys

import pika
import pytest

from leveret import Broker
from tests.checks.swallowing import ROWS, Row, Stage

# What counts as an exception that the client raised, for these outcomes.
_RAISING = ("raised", "refused")
_REPORTED = ("swallowed", "refused")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}: {row.does}")
def test_an_error_is_reported_if_the_client_swallows_it(row: Row, found) -> None:
    with Broker() as broker:
        broker.declare_queue("work")
        stage = Stage(broker, f"no-exchange-{ROWS.index(row)}")
        is_raised = False
        try:
            row.act(stage)
        except Exception:
            is_raised = True
        text = found(broker).get("unseen_channel_error", "")

    assert is_raised == (row.outcome in _RAISING)
    assert stage.is_called_back == (row.outcome == "called back")
    assert bool(text) == (row.outcome in _REPORTED)
    assert not text or "NOT_FOUND - no exchange" in text or "fast reply consumer does not exist" in text


@pytest.mark.parametrize(
    ("goes_on", "is_reported"),
    [("connection.close()", True), ("try: channel.queue_declare('work')\nexcept Exception: connection.close()", False)],
)
def test_a_client_in_another_process_is_judged_by_what_it_sends(found, goes_on: str, is_reported: bool) -> None:
    with Broker() as broker:
        program = (
            "import pika, sys\n"
            "connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))\n"
            "channel = connection.channel()\n"
            "channel.basic_publish('shoop', 'k', b'x')\n" + goes_on
        )
        subprocess.run([sys.executable, "-c", program, broker.url], check=True, timeout=60)

        assert ("unseen_channel_error" in found(broker)) == is_reported


def test_a_client_that_throws_what_nothing_handles_has_shown_the_error_once_it_has_read_it(found) -> None:
    with Broker() as broker:
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"product": "amqplib", "connection_name": "shop"}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.basic_publish("shoop", "k", b"x")
            while channel.is_open:
                connection.process_data_events(0.2)

        assert "unseen_channel_error" not in found(broker)
