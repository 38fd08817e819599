"""Publishes of one method with different properties: taken whole or frame by frame, the outcome is the same."""

from __future__ import annotations

import random

import pytest
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx

from tests.properties.fast_paths import outcome
from tests.protocol.peer import declare, octets, publish_octets

PLAIN, CONFIRMED, TRANSACTED = 1, 2, 3
OPENING = {
    PLAIN: (declare("a"), declare("ranked", max_priority=5), Basic.Consume(queue="a", no_ack=True)),
    CONFIRMED: (Confirm.Select(), declare("full", max_length=2, overflow="reject-publish")),
    TRANSACTED: (Tx.Select(), Queue.Bind(queue="a", exchange="amq.headers", arguments={"k": 1})),
}
TARGETS = (("a", ""), ("ranked", ""), ("full", ""), ("nowhere", ""), ("any", "amq.headers"), ("any", "missing"))
VALID = (
    {},
    {"message_id": "1"},
    {"message_id": "quite another"},
    {"headers": {"k": 1}},
    {"headers": {"CC": ["ranked"], "BCC": ["a"]}},
    {"priority": 3, "expiration": "1000"},
)
INVALID = ({"expiration": "soon"}, {"user_id": "nobody"}, {"headers": {"CC": 1}}, {"reply_to": "amq.rabbitmq.reply-to"})


def conversation(dice: random.Random) -> bytes:
    """Make runs of publishes, each to one target, on some channels; reopen closed channels later."""
    parts = []
    for _ in range(25):
        channel, (key, exchange) = dice.choice(tuple(OPENING)), dice.choice(TARGETS)
        is_mandatory = dice.random() < 0.3
        for _ in range(dice.randint(1, 6)):
            properties = dice.choice(INVALID if dice.random() < 0.03 else VALID)
            content = bytes(dice.choice((0, 1, 30, 30, 3000)))
            chunk = dice.choice((1000, 131064))
            parts.append(
                publish_octets(channel, content, key, exchange, mandatory=is_mandatory, chunk=chunk, **properties)
            )
        if channel == TRANSACTED:
            parts.append(octets(channel, dice.choice((Tx.Commit(), Tx.Rollback()))))
        if dice.random() < 0.2:
            parts.append(octets(channel, Basic.Ack(12_345), Channel.CloseOk(), Channel.Open(), *OPENING[channel]))
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(30))
def test_the_fast_and_the_plain_path_of_a_publish_agree(seed: int) -> None:
    dice = random.Random(seed)
    data = conversation(dice)
    size = dice.choice((len(data), 5000, 700))

    assert outcome(OPENING, data, is_plain=False, size=size) == outcome(OPENING, data, is_plain=True, size=size)


@pytest.mark.parametrize("seed", range(100))
def test_the_fast_and_the_plain_path_of_a_corrupt_publish_agree(seed: int) -> None:
    dice = random.Random(seed)
    pieces = [publish_octets(PLAIN, bytes(30), "ranked", message_id="1")] * 6
    changed = bytearray(pieces[3])
    # Change any byte but those of the body, which is 30 bytes before the frame end.
    changed[dice.choice([*range(len(changed) - 31), -1])] = dice.choice((0, 1, 2, 3, 8, 29, 31, 60, 206, 255))
    pieces[3] = bytes(changed)
    data = b"".join(pieces)

    assert outcome(OPENING, data, is_plain=False, size=500) == outcome(OPENING, data, is_plain=True, size=500)
