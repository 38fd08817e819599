"""Methods among publishes and acknowledgements: the outcome is the same with and without the fast paths."""

from __future__ import annotations

import random

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.properties.fast_paths import outcome
from tests.protocol.peer import declare, octets, publish_octets

CHANNELS = (1, 2, 3)
# Small, so that a frame that is longer is not sent in thousands of pieces.
FRAME_MAX = 8192
OPENING = {
    1: (declare("a"), declare("b", max_length=3)),
    2: (Confirm.Select(), Basic.Consume(queue="a", consumer_tag="c2")),
    3: (Tx.Select(), Basic.Qos(prefetch_count=2), Basic.Consume(queue="b", consumer_tag="c3")),
}
METHODS = (
    Basic.Get(queue="a"),
    Basic.Get(queue="missing"),
    Basic.Qos(prefetch_count=7),
    Basic.Cancel(consumer_tag="c2"),
    Basic.Consume(queue="b", consumer_tag="c2", no_ack=True),
    Basic.Recover(requeue=True),
    Basic.Nack(1, multiple=True, requeue=True),
    Basic.Reject(2, requeue=False),
    Channel.Flow(active=True),
    Exchange.Declare(exchange="e", exchange_type="topic"),
    Queue.Bind(queue="a", exchange="e", routing_key="#"),
    Queue.Declare(queue="a", durable=True, arguments={"x-max-length": 1}),
    Queue.Purge(queue="b"),
    Queue.Delete(queue="gone"),
    Tx.Commit(),
)
# They close the connection and end the conversation.
FATAL = (
    Basic.Qos(prefetch_size=1),
    Basic.QosOk(),
    Channel.Open(),
    Exchange.Declare(exchange="e", exchange_type="none such"),
)


def corrupted(frame: bytes, dice: random.Random) -> bytes:
    """Change one byte of a frame: kind, channel, size, method, arguments or, most often, the frame end."""
    at = dice.choice((dice.randrange(len(frame)), len(frame) - 1))
    return frame[:at] + bytes((frame[at] ^ dice.choice((1, 2, 0x80)),)) + frame[at + 1 :]


def conversation(dice: random.Random, *, is_corrupt: bool) -> bytes:
    """Make methods and publishes on some channels; reopen closed channels.

    If `is_corrupt`, one thing is wrong: a byte, a publish without content, or a method that is longer than a frame may
    be.
    """
    parts = []
    for number in range(60):
        channel = dice.choice(CHANNELS)
        parts.append(octets(channel, dice.choice(METHODS if dice.random() < 0.99 else FATAL)))
        if dice.random() < 0.3:
            parts.append(publish_octets(channel, b"%d" % number, dice.choice(("a", "b"))))
        if dice.random() < 0.2:
            parts.append(octets(channel, Channel.CloseOk(), Channel.Open(), *OPENING[channel]))
    if is_corrupt:
        at, channel = dice.randrange(len(parts)), dice.choice(CHANNELS)
        too_long = octets(channel, Queue.Declare(queue="long", durable=True, arguments={"x": "y" * FRAME_MAX}))
        bare = octets(channel, Basic.Publish(routing_key="a"))
        parts[at] = dice.choice((corrupted(parts[at], dice), bare, too_long))
    return b"".join(parts)


@pytest.mark.parametrize("is_corrupt", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_methods_have_the_same_outcome_with_and_without_the_fast_paths(seed: int, is_corrupt: bool) -> None:
    dice = random.Random(seed)
    data = conversation(dice, is_corrupt=is_corrupt)
    size = dice.choice((len(data), 50, 7))

    fast, plain = (
        outcome(OPENING, data, is_plain=is_plain, size=size, frame_max=FRAME_MAX) for is_plain in (False, True)
    )

    assert fast == plain
