"""Repeated publishes: what leveret remembers of the last one has no visible effect.

The same bytes arrive in one read and byte by byte. The fast path recognises a repetition in the first case and cannot
in the second.
"""

from __future__ import annotations

import random

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from leveret.core.model.operators.node_settings import NodeSettings
from tests.protocol.peer import Server, declare, methods, octets, publish_octets, split

PLAIN, CONFIRMED, TRANSACTED = 1, 2, 3
CHANNELS = (PLAIN, CONFIRMED, TRANSACTED)


def publishes(channel: int) -> list[bytes]:
    return [
        publish_octets(channel, b"1" * 10, "a"),
        publish_octets(channel, b"2" * 10, "a"),
        publish_octets(channel, b"", "a"),
        publish_octets(channel, b"3", "b"),
        publish_octets(channel, b"4" * 3000, "b", chunk=1000),
        publish_octets(channel, b"5", "any", "amq.fanout"),
        publish_octets(channel, b"6", "any", "x"),
        publish_octets(channel, b"7", "nowhere", mandatory=True),
        publish_octets(channel, b"8", "nowhere"),
        publish_octets(channel, b"9", "full", mandatory=True),
        publish_octets(channel, b"10", "a", headers={"CC": ["b"]}),
        publish_octets(channel, b"11", "a", headers={"k": 1}, delivery_mode=2, message_id="same"),
        publish_octets(channel, b"12", "a", expiration="1000"),
        publish_octets(channel, b"13", "ranked", priority=3),
    ]


def others(channel: int) -> list[bytes]:
    return [
        octets(channel, Basic.Ack(0, multiple=True)),
        octets(channel, Basic.Nack(0, multiple=True, requeue=True)),
        octets(channel, Basic.Nack(0, multiple=True, requeue=False)),
        octets(channel, Basic.Get(queue="a"), Basic.Get(queue="b", no_ack=True)),
        octets(channel, Basic.Qos(prefetch_count=2), Basic.Consume(queue="a")),
        octets(channel, Basic.Consume(queue="b", no_ack=True)),
        octets(channel, Queue.Purge(queue="a")),
        octets(channel, Queue.Delete(queue="b"), declare("b")),
        octets(channel, Queue.Delete(queue="a"), declare("a", max_length=4)),
        octets(channel, Queue.Bind(queue="a", exchange="amq.fanout")),
        octets(channel, Queue.Unbind(queue="a", exchange="amq.fanout", routing_key="")),
        octets(channel, Exchange.Delete(exchange="x"), Exchange.Declare(exchange="x", exchange_type="topic")),
        octets(channel, Queue.Bind(queue="b", exchange="x", routing_key="#")),
        octets(channel, Basic.Ack(12_345), Channel.CloseOk(), Channel.Open(), *MODES[channel]),
        octets(channel, Basic.Recover(requeue=True)),
    ]


# basic.ack and basic.nack.
CONFIRMS = (b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78")
MODES = {PLAIN: (), CONFIRMED: (Confirm.Select(),), TRANSACTED: (Tx.Select(),)}


def conversation(seed: int) -> bytes:
    """Make frames on a few channels, each repeated up to six times."""
    dice = random.Random(seed)
    parts = []
    for _ in range(40):
        channel = dice.choice(CHANNELS)
        words = publishes(channel) if dice.random() < 0.7 else others(channel)
        parts += [dice.choice(words)] * dice.choice((1, 1, 2, 6))
        if channel == TRANSACTED:
            parts.append(octets(channel, dice.choice((Tx.Commit(), Tx.Commit(), Tx.Rollback()))))
    return b"".join(parts)


def run(data: bytes, size: int, *, tap: bool = True) -> tuple[Server, bytes]:
    server = Server()
    peer = server.peer(channels=CHANNELS)
    peer.send(1, declare("a"), declare("b"), declare("ranked", max_priority=5))
    peer.send(1, declare("full", max_length=2, overflow="reject-publish"), Exchange.Declare(exchange="x"))
    for channel, mode in MODES.items():
        peer.send(channel, *mode)
    if not tap:
        server.node.hooks.tap = None
    peer.read_octets()
    for at in range(0, len(data), size):
        peer.send_octets(data[at : at + size])
    assert server.node.internal_errors == []
    return server, peer.read_octets()


def without_confirms(sent: bytes) -> list[bytes]:
    """Return the frames as sent, without confirms: how those are grouped depends on the reads."""
    frames = []
    while sent:
        size = 8 + int.from_bytes(sent[3:7], "big")
        frames.append(sent[:size])
        sent = sent[size:]
    return [frame for frame in frames if frame[0] != 1 or frame[7:11] not in CONFIRMS]


def settled(sent: bytes) -> list[tuple[int, bool]]:
    """Return publish numbers in order and whether each was taken; a reopened channel starts again."""
    found: list[tuple[int, bool]] = []
    outcomes: dict[int, bool] = {}
    for channel, item in split(sent):
        if channel == CONFIRMED and isinstance(item, Channel.OpenOk):
            found += sorted(outcomes.items())
            outcomes = {}
        elif isinstance(item, Basic.Ack | Basic.Nack):
            last = item.delivery_tag
            covered = [number for number in range(1, last + 1) if number not in outcomes] if item.multiple else [last]
            outcomes.update(dict.fromkeys(covered, isinstance(item, Basic.Ack)))
    return found + sorted(outcomes.items())


def happened(server: Server) -> list[str]:
    return [repr(event) for event in server.events() if event.kind not in ("confirmed", "nacked_confirm")]


@pytest.mark.parametrize("seed", range(40))
def test_one_read_and_reads_of_one_byte_have_the_same_outcome(seed: int) -> None:
    data = conversation(seed)

    (quick, at_once), (slow, piecemeal) = run(data, len(data)), run(data, 1)

    assert without_confirms(at_once) == without_confirms(piecemeal)
    assert settled(at_once) == settled(piecemeal)
    assert happened(quick) == happened(slow)


@pytest.mark.parametrize("seed", range(15))
def test_reads_of_a_random_size_have_the_same_outcome(seed: int) -> None:
    data = conversation(seed)
    size = random.Random(seed).randint(20, 700)

    (quick, in_reads), (slow, piecemeal) = run(data, size), run(data, 1)

    assert without_confirms(in_reads) == without_confirms(piecemeal)
    assert settled(in_reads) == settled(piecemeal)
    assert happened(quick) == happened(slow)


@pytest.mark.parametrize("seed", range(10))
def test_a_tap_changes_nothing_a_client_sees(seed: int) -> None:
    data = conversation(seed)

    (_, watched), (_, unwatched) = run(data, len(data)), run(data, len(data), tap=False)

    assert watched == unwatched


def test_a_repeated_publish_of_another_size_is_refused_above_the_limit() -> None:
    server = Server(settings=NodeSettings(max_message_size=20))
    peer = server.peer()
    peer.send(PLAIN, declare("a"))
    peer.read()

    peer.send_octets(b"".join(publish_octets(PLAIN, bytes(size), "a") for size in (10, 10, 10, 20, 21)))

    (closed,) = methods(peer.read(), Channel.Close)
    assert (closed.reply_code, closed.reply_text) == (
        406,
        "PRECONDITION_FAILED - message size 21 is larger than configured max size 20",
    )
    assert [len(event.message.body) for event in server.events("published")] == [10, 10, 10, 20]
