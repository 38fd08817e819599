"""Code that gets a message again and again: a replay comes to its end, and names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker
from leveret.recording.judging import Outcomes

from .conftest import order
from .services import ACK, REJECT, Action, Billing, Client

POISON = 5


class Requeues(Client):
    def act(self, tag: int, action: Action) -> None:
        if action == REJECT:
            self.channel.basic_nack(tag, requeue=True)
        else:
            super().act(tag, action)


class RequeuesAtFirst(Client):
    """A client that gets what it asks for at the 200th attempt."""

    attempts = 0

    def act(self, tag: int, action: Action) -> None:
        self.attempts += action == REJECT
        if action == REJECT and self.attempts < 200:
            self.channel.basic_nack(tag, requeue=True)
        else:
            super().act(tag, action)


class SendsAgain(Client):
    def on_order(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if json.loads(body)["total"] < 0:
            channel.basic_publish("", "billing", body, properties)
            self.act(method.delivery_tag, ACK)
        else:
            super().on_order(channel, method, properties, body)


class AcksAndSendsAgain(SendsAgain):
    def on_order(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if json.loads(body)["total"] < 0:
            self.act(method.delivery_tag, ACK)
            channel.basic_publish("", "billing", body, properties)
        else:
            super().on_order(channel, method, properties, body)


class RetriesLater(Client):
    def declare(self) -> None:
        super().declare()
        back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "billing", "x-message-ttl": 100}
        self.channel.queue_declare("retry", durable=True, arguments=back)

    def on_order(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        if json.loads(body)["total"] < 0:
            channel.basic_publish("", "retry", body, properties)
            self.act(method.delivery_tag, ACK)
        else:
            super().on_order(channel, method, properties, body)


def run(client: type[Client]) -> None:
    client(Billing())


@pytest.fixture
def path(orders: Callable[..., Path]) -> Path:
    return orders([order(number) for number in range(8)])


def played(path: Path, client: type[Client] = Client, **how: Any) -> Outcomes:
    with Broker(checks="all=off") as broker:
        replay = broker.replay(path)
        with broker.worker(run, args=(client,)):
            return replay.play(settle=0.5, **how)


def test_a_message_that_is_requeued_without_end_is_named(path: Path) -> None:
    before, now = played(path), played(path, Requeues)

    assert now.differences(before) == [
        "orders 'order.made': in billing now requeued without end, no longer rejected to billing.dead "
        "(1 time, first #5)"
    ]
    assert now.differences(played(path, Requeues)) == []


@pytest.mark.parametrize(
    ("client", "order", "sentence"),
    [
        (SendsAgain, "one at a time", "without end"),
        (SendsAgain, "as recorded", "without end"),
        # Which message it sends again is not certain. So all count together, and a slow machine may not come so far.
        (AcksAndSendsAgain, "one at a time", "all messages: now sends 'billing'"),
    ],
)
def test_a_message_that_is_sent_to_its_own_queue_again_is_named(
    path: Path, client: type[Client], order: str, sentence: str
) -> None:
    before, now = played(path, order=order), played(path, client, order=order)

    said = "\n".join(now.differences(before))
    assert sentence in said
    assert "total" not in said


def test_what_is_sent_without_end_is_compared_with_what_the_recorded_service_sent(orders: Callable[..., Path]) -> None:
    recording = orders([order(number) for number in range(8)], firehose=True)

    with pytest.raises(AssertionError, match=r"sends 'billing' \d+ times, and 0 times in the recording"):
        played(recording, SendsAgain).assert_as_recorded()


def test_a_loop_of_retries_in_held_time_comes_to_an_end_and_is_named(path: Path) -> None:
    said = played(path, RetriesLater).differences(played(path))

    assert "orders 'order.made': now sends 'retry' without end (1 time, first #5)" in said


def test_a_message_that_is_settled_after_many_attempts_is_no_endless_loop(path: Path) -> None:
    assert played(path, RequeuesAtFirst).of(POISON) == [
        "ended billing: requeued more than 20 times (nacked), then rejected to billing.dead"
    ]
