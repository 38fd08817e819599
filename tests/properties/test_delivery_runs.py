"""Runs of deliveries: a backlog delivered in one run gives the same bytes and events as one by one."""

from __future__ import annotations

import random

import pytest
from pamqp.commands import Basic

from tests.protocol.peer import Server, declare, octets, publish_octets

AUTOMATIC, OTHER = 1, 2
QUEUES = ("plain", "limited", "quorum")


def conversation(seed: int) -> bytes:
    """Make backlogs of equal and different messages, some requeued, with consumers that come and go."""
    dice = random.Random(seed)
    parts, next_tag = [], 1
    for number in range(40):
        queue = dice.choice(QUEUES)
        body = dice.choice((b"", b"%d" % number, b"x" * 5000))
        parts.append(publish_octets(OTHER, body, queue) * dice.choice((1, 2, 7, 300)))
        if dice.random() < 0.3:
            parts.append(octets(OTHER, Basic.Get(queue="plain"), Basic.Nack(next_tag, requeue=True)))
            next_tag += 1
        if dice.random() < 0.5:
            tag = f"c{number}"
            parts.append(octets(AUTOMATIC, Basic.Consume(queue=queue, consumer_tag=tag, no_ack=True)))
            parts.append(publish_octets(OTHER, body, queue) * dice.choice((0, 1, 3)))
            if dice.random() < 0.8:
                parts.append(octets(AUTOMATIC, Basic.Cancel(consumer_tag=tag)))
    return b"".join(parts)


def outcome(data: bytes, *, one_by_one: bool) -> tuple[bytes, list[str]]:
    server = Server()
    peer = server.peer(channels=(AUTOMATIC, OTHER))
    peer.send(OTHER, declare("plain"), declare("limited", max_length=100_000), declare("quorum", queue_type="quorum"))
    if one_by_one:
        # A fault inspects each delivery and lets it pass.
        server.node.hooks.faults.deliver = lambda *delivery: False
    peer.send_octets(data)
    assert server.node.internal_errors == []
    return peer.read_octets(), [repr(event) for event in server.events()]


@pytest.mark.parametrize("seed", range(20))
def test_a_run_of_deliveries_is_sent_and_recorded_like_single_ones(seed: int) -> None:
    data = conversation(seed)

    assert outcome(data, one_by_one=False) == outcome(data, one_by_one=True)
