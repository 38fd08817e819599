"""Bytes in any pieces, and corrupt bytes: the same answers, no bug of ours, and no other client disturbed."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp import commands, heartbeat
from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from tests.protocol.peer import (
    PROTOCOL_HEADER,
    Peer,
    Server,
    contents,
    declare,
    methods,
    octets,
    publish_octets,
    select,
    split,
    start_ok,
)

SETTINGS = settings(suppress_health_check=[HealthCheck.too_slow])

OPENING = (
    PROTOCOL_HEADER,
    octets(0, start_ok(capabilities={"consumer_cancel_notify": True})),
    octets(0, commands.Connection.TuneOk(2047, 8192, 60)),
    octets(0, commands.Connection.Open("/")),
)
# A conversation with every kind of frame and most methods, in the pieces that a client would write.
TALK = (
    *OPENING,
    octets(1, Channel.Open()),
    octets(1, Exchange.Declare(exchange="x", exchange_type="topic", durable=True)),
    octets(1, declare("q", dead_letter_exchange="x", message_ttl=60_000, max_length=10)),
    octets(1, Queue.Bind(queue="q", exchange="x", routing_key="#")),
    publish_octets(1, b"a" * 20_000, "k.1", "x", chunk=8000, headers={"b": 1, "a": [1, "x", {"n": None}]}),
    publish_octets(1, b"", "k.2", "x", priority=3, expiration="5000", content_type="text/plain"),
    publish_octets(1, b"lost", "nowhere", mandatory=True),
    octets(0, heartbeat.Heartbeat()),
    octets(1, Basic.Qos(prefetch_count=1), Basic.Get(queue="q")),
    octets(1, Basic.Consume(queue="q", consumer_tag="c", arguments={"x-priority": 2})),
    octets(1, Basic.Nack(1, requeue=True)),
    octets(1, Basic.Reject(2, requeue=False)),
    octets(1, Basic.Ack(3, multiple=True)),
    octets(2, Channel.Open(), Tx.Select()),
    publish_octets(2, b"in tx", "q"),
    octets(2, Tx.Commit(), Tx.Rollback()),
    octets(1, Basic.Cancel(consumer_tag="c"), Basic.Recover(requeue=True)),
    octets(2, Queue.Declare(queue="missing", passive=True)),
    octets(2, Channel.CloseOk()),
    octets(1, Queue.Unbind(queue="q", exchange="x", routing_key="#"), Queue.Purge(queue="q"), Queue.Delete(queue="q")),
    octets(1, Exchange.Delete(exchange="x"), Channel.Close(200, "bye", 0, 0)),
    octets(0, commands.Connection.Close(200, "bye", 0, 0)),
)
WHOLE = b"".join(TALK)


def answer(*pieces: bytes) -> bytes:
    peer = Server().stranger()
    for piece in pieces:
        peer.send_octets(piece)
    assert peer.connection.node.internal_errors == []
    return peer.read_octets()


EXPECTED = answer(*TALK)


def test_the_recorded_conversation_goes_well() -> None:
    received = list(split(EXPECTED))

    assert contents(received) == [b"lost", b"a" * 20_000, b"", b"a" * 20_000, b""]
    assert methods(received, commands.Connection.CloseOk)


def test_one_read_of_all_bytes_gives_the_same_answer() -> None:
    assert answer(WHOLE) == EXPECTED


def test_reads_of_one_byte_give_the_same_answer() -> None:
    assert answer(*(bytes((octet,)) for octet in WHOLE)) == EXPECTED


@settings(SETTINGS, max_examples=60)
@given(st.lists(st.integers(1, len(WHOLE) - 1), max_size=30))
def test_any_division_into_reads_gives_the_same_answer(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]

    assert answer(*(WHOLE[start:end] for start, end in pairwise(edges))) == EXPECTED


CONFIRMED = (
    *OPENING,
    octets(1, Channel.Open(), select(), declare("q", max_length=4, overflow="reject-publish")),
    *(publish_octets(1, b"%d" % number, "q", mandatory=True) for number in range(8)),
    publish_octets(1, b"lost", "nowhere", mandatory=True),
)


@settings(SETTINGS, max_examples=40)
@given(st.lists(st.integers(1, sum(map(len, CONFIRMED)) - 1), max_size=20))
def test_any_division_into_reads_confirms_every_publish_once_and_the_same_way(cuts: list[int]) -> None:
    whole = b"".join(CONFIRMED)
    edges = [0, *sorted(cuts), len(whole)]
    received = list(split(answer(*(whole[start:end] for start, end in pairwise(edges)))))

    outcomes: dict[int, bool] = {}
    for _, item in received:
        if isinstance(item, (Basic.Ack, Basic.Nack)):
            last = item.delivery_tag
            covered = [number for number in range(1, last + 1) if number not in outcomes] if item.multiple else [last]
            assert covered
            outcomes.update(dict.fromkeys(covered, isinstance(item, Basic.Ack)))
    assert outcomes == {number: number not in range(5, 9) for number in range(1, 10)}
    assert len(methods(received, Basic.Return)) == 1


class Bystander:
    """A second connection with a conversation of its own, whose answers are all known."""

    def __init__(self, server: Server) -> None:
        self.peer: Peer = server.peer()
        self.peer.send(1, Queue.Declare(queue="other", durable=True), Basic.Consume(queue="other", no_ack=True))
        self.peer.read()
        self.count = 0

    def is_served(self) -> bool:
        self.count += 1
        body = b"%d" % self.count
        self.peer.publish(1, body, "other")
        received = self.peer.read()
        return contents(received) == [body] and len(methods(received, Basic.Deliver)) == 1


def mutated(dice: random.Random, data: bytes) -> bytes:
    """Return the same bytes with a few changed, removed, doubled or inserted."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(changed))
        kind = dice.randrange(5)
        if kind == 0:
            changed[at] = dice.randrange(256)
        elif kind == 1:
            changed[at] ^= 1 << dice.randrange(8)
        elif kind == 2:
            del changed[at : at + dice.randint(1, 9)]
        elif kind == 3:
            changed[at:at] = dice.randbytes(dice.randint(1, 9))
        else:
            changed[at:at] = changed[at : at + dice.randint(1, 40)]
        if not changed:
            break
    return bytes(changed)


def survive(seed: int, pieces: list[bytes]) -> None:
    """Feed the pieces to a new connection; check that nothing breaks and the bystander is served throughout."""
    server = Server()
    bystander = Bystander(server)
    victim = server.stranger()
    for piece in pieces:
        victim.send_octets(piece)
        victim.read_octets()
        assert bystander.is_served(), seed
    server.elapse(40)
    bystander.peer.read()
    victim.connection.connection_lost()
    assert server.node.internal_errors == [], seed
    assert bystander.is_served(), seed


@pytest.mark.parametrize("part", range(8))
def test_one_changed_step_of_a_conversation_breaks_nothing(part: int) -> None:
    for seed in range(part * 60, part * 60 + 60):
        dice = random.Random(seed)
        pieces = list(TALK)
        at = dice.randrange(len(pieces))
        pieces[at] = mutated(dice, pieces[at])
        survive(seed, pieces)


@pytest.mark.parametrize("part", range(4))
def test_frames_of_random_payloads_break_nothing(part: int) -> None:
    for seed in range(part * 60, part * 60 + 60):
        dice = random.Random(seed)
        opening = list(TALK[: dice.randint(0, len(TALK))])
        survive(seed, [*opening, *(random_frame(dice) for _ in range(5))])


@pytest.mark.parametrize("part", range(2))
def test_random_bytes_break_nothing(part: int) -> None:
    for seed in range(part * 60, part * 60 + 60):
        dice = random.Random(seed)
        opening = list(TALK[: dice.randint(0, len(TALK))])
        survive(seed, [*opening, dice.randbytes(dice.randint(1, 300))])


def random_frame(dice: random.Random) -> bytes:
    """Return a whole frame whose payload is a method with random arguments, or random bytes."""
    kind = dice.choice((1, 1, 1, 1, 2, 3, 8))
    payload = dice.randbytes(dice.choice((0, 1, 4, 14, 30)))
    if kind == 1 and dice.random() < 0.9:
        payload = dice.choice(METHOD_IDS).to_bytes(4, "big") + payload
    channel = dice.choice((0, 1, 1, 2, 3))
    return bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


METHOD_IDS = [
    class_id << 16 | method_id
    for class_id in (10, 20, 30, 40, 50, 60, 85, 90)
    for method_id in (10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 70, 80, 90, 100, 110, 120)
]
