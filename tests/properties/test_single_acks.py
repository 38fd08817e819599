"""Single acknowledgements: the path that takes them from the bytes has the same effect as the plain one."""

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
    """Make mostly single acknowledgements in sequence, and sometimes another settlement."""
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
    """Make publishes and settlements on some channels; reopen a channel after a tag that it does not know."""
    dice = random.Random(seed)
    parts, tags = [], dict.fromkeys(CHANNELS, 1)
    for _ in range(60):
        channel = dice.choice(CHANNELS)
        parts.append(publish_octets(PLAIN, b"%d" % len(parts), dice.choice(("a", "b", "quorum"))) * dice.choice((1, 4)))
        parts.append(settlements(dice, channel, tags[channel]))
        tags[channel] += dice.choice((0, 1, 1, 2, 5))
        if channel == TRANSACTED:
            parts.append(octets(channel, dice.choice((Tx.Commit(), Tx.Rollback()))))
        if dice.random() < 0.1:
            parts.append(octets(channel, Channel.CloseOk(), Channel.Open(), *OPENING[channel]))
            tags[channel] = 1
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(30))
def test_the_fast_and_the_plain_path_of_an_acknowledgement_agree(seed: int) -> None:
    data = conversation(seed)
    size = random.Random(seed).choice((len(data), 1000, 64))

    assert outcome(OPENING, data, is_plain=False, size=size) == outcome(OPENING, data, is_plain=True, size=size)
