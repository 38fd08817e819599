"""Acknowledgements one by one: the road that takes them from the octets does what the plain one does."""

from __future__ import annotations

import random

import pytest
from pamqp.commands import Basic, Channel, Tx

from tests.properties.fast_paths import outcome
from tests.protocol.peer import declare, octets, publish_octets

PLAIN, LIMITED, TRANSACTED = 1, 2, 3
CHANNELS = (PLAIN, LIMITED, TRANSACTED)
OPENING = {
    PLAIN: (
        declare("a"),
        declare("b", dead_letter_exchange="amq.fanout"),
        declare("quorum", queue_type="quorum"),
        Basic.Consume(queue="a", consumer_tag="a"),
        Basic.Consume(queue="quorum", consumer_tag="quorum"),
    ),
    LIMITED: (Basic.Qos(prefetch_count=3), Basic.Consume(queue="a", consumer_tag="b")),
    TRANSACTED: (Tx.Select(), Basic.Qos(prefetch_count=4), Basic.Consume(queue="b", consumer_tag="c")),
}


def settlements(dice: random.Random, channel: int, tag: int) -> bytes:
    """Mostly one acknowledgement behind the other, beside whatever else settles."""
    if dice.random() < 0.8:
        return octets(channel, *(Basic.Ack(each) for each in range(tag, tag + dice.choice((1, 1, 2, 5)))))
    return octets(
        channel,
        dice.choice(
            (
                Basic.Ack(tag, multiple=True),
                Basic.Nack(tag, requeue=True),
                Basic.Reject(tag, requeue=False),
                Basic.Recover(requeue=True),
                Basic.Get(queue="b"),
                Basic.Cancel(consumer_tag="a"),
            )
        ),
    )


def conversation(seed: int) -> bytes:
    """Publishes and settlements on some channels, each of which is opened anew after a tag that it does not know."""
    dice = random.Random(seed)
    said, tags = [], dict.fromkeys(CHANNELS, 1)
    for _ in range(60):
        channel = dice.choice(CHANNELS)
        said.append(publish_octets(PLAIN, b"%d" % len(said), dice.choice(("a", "b", "quorum"))) * dice.choice((1, 4)))
        said.append(settlements(dice, channel, tags[channel]))
        tags[channel] += dice.choice((0, 1, 1, 2, 5))
        if channel == TRANSACTED:
            said.append(octets(channel, dice.choice((Tx.Commit(), Tx.Rollback()))))
        if dice.random() < 0.1:
            said.append(octets(channel, Channel.CloseOk(), Channel.Open(), *OPENING[channel]))
            tags[channel] = 1
    return b"".join(said)


@pytest.mark.parametrize("seed", range(30))
def test_both_roads_of_an_acknowledgement_come_to_the_same(seed: int) -> None:
    data = conversation(seed)
    size = random.Random(seed).choice((len(data), 1000, 64))

    assert outcome(OPENING, data, is_plain=False, size=size) == outcome(OPENING, data, is_plain=True, size=size)
