"""Retries over more than an hour, tested in milliseconds, with both ways to move time: `advance` and `autojump`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import aio_pika
import pytest
import pytest_asyncio

from examples.virtual_time.webhooks import LADDER_S, UNDELIVERED, WEBHOOKS, Sender
from leveret import Broker

WEBHOOK = {"url": "https://example.com/hook", "payload": {"id": 7}}


class Receiver:
    """A stand-in for the receiver: it is down `absences_left` times, and records when it was called."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.absences_left = 0
        self.called_at: list[float] = []

    async def post(self, url: str, payload: Any) -> None:
        self.called_at.append(self.broker.clock.now)
        if self.absences_left:
            self.absences_left -= 1
            raise ConnectionError(url)

    @property
    def minutes_between_calls(self) -> list[int]:
        return [round(after - before) // 60 for before, after in pairwise(self.called_at)]


@pytest.fixture
def receiver(leveret: Broker) -> Receiver:
    return Receiver(leveret)


@pytest_asyncio.fixture(autouse=True)
async def sender(leveret: Broker, receiver: Receiver) -> AsyncIterator[Sender]:
    async with await aio_pika.connect(leveret.url) as connection:
        sender = Sender(await connection.channel(), receiver.post)
        await sender.start()
        yield sender


@pytest.mark.asyncio
async def test_a_receiver_that_answers_is_called_once(leveret: Broker, receiver: Receiver) -> None:
    leveret.publish(routing_key=WEBHOOKS, json=WEBHOOK)
    await leveret.aio.wait_idle()

    assert len(receiver.called_at) == 1
    assert [name for name in LADDER_S if leveret.queue(name).ready] == []


@pytest.mark.asyncio
async def test_the_second_try_happens_after_exactly_a_minute(leveret: Broker, receiver: Receiver) -> None:
    receiver.absences_left = 1
    leveret.clock.hold()
    leveret.publish(routing_key=WEBHOOKS, json=WEBHOOK)

    await leveret.aio.clock.advance(59)
    assert len(receiver.called_at) == 1
    await leveret.aio.clock.advance(1)

    assert receiver.minutes_between_calls == [1]
    leveret.assert_empty(WEBHOOKS)


@pytest.mark.asyncio
async def test_a_receiver_that_stays_down_is_called_four_times(leveret: Broker, receiver: Receiver) -> None:
    receiver.absences_left = 100

    with leveret.clock.autojump():
        leveret.publish(routing_key=WEBHOOKS, json=WEBHOOK)
        set_aside = await leveret.aio.assert_published("", routing_key=UNDELIVERED, timeout=5)

    assert receiver.minutes_between_calls == [1, 10, 60]
    assert set_aside.json == WEBHOOK
    assert len(leveret.queue(UNDELIVERED).ready) == 1
