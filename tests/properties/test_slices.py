"""Slices of work: a client sees the same bytes however the work that it causes is cut into turns."""

from __future__ import annotations

import random
from math import inf

import pytest
from pamqp.commands import Basic, Channel, Confirm, Exchange, Queue, Tx

from tests.protocol.peer import Frame, Server, declare, octets, publish_octets

CONFIRMED, TRANSACTED, CONSUMING, FETCHING = CHANNELS = (1, 2, 3, 4)
FAN = [f"fan{number}" for number in range(3)]
CHAIN = [f"chain{number}" for number in range(12)]


def doomed(name: str, exchange: str = "", key: str | None = None, **arguments: object) -> Frame:
    """Declare a queue whose messages expire at once, into an exchange."""
    if key is not None:
        arguments["dead_letter_routing_key"] = key
    return declare(name, message_ttl=0, dead_letter_exchange=exchange, **arguments)


OPENING: dict[int, tuple[Frame, ...]] = {
    CONFIRMED: (
        Exchange.Declare(exchange="fan", exchange_type="fanout", durable=True),
        *(doomed(name, "fan") for name in FAN),
        *(Queue.Bind(queue=name, exchange="fan") for name in FAN),
        *(doomed(name, key=later) for name, later in zip(CHAIN, [*CHAIN[1:], "grave"], strict=True)),
        declare("grave", max_length=5, dead_letter_exchange="amq.fanout"),
        declare("limited", queue_type="quorum", delivery_limit=1, dead_letter_exchange="fan"),
        declare("seen"),
        Queue.Bind(queue="seen", exchange="fan"),
        Queue.Bind(queue="seen", exchange="amq.fanout"),
        Confirm.Select(),
    ),
    TRANSACTED: (Tx.Select(), Basic.Consume(queue="limited", consumer_tag="limited")),
    CONSUMING: (Basic.Qos(prefetch_count=3), Basic.Consume(queue="seen", consumer_tag="seen")),
    FETCHING: (),
}


def conversation(dice: random.Random) -> bytes:
    """Make publishes into cascades, and methods that see or cause some of the work."""
    parts: list[bytes] = []
    for _ in range(25):
        kind = dice.randrange(8)
        channel = dice.choice((CONFIRMED, TRANSACTED))
        if kind < 3:
            exchange, key = dice.choice((("", "chain0"), ("", "chain7"), ("fan", ""), ("", "limited"), ("", "grave")))
            parts.append(publish_octets(channel, b"%d" % len(parts), key, exchange) * dice.choice((1, 3)))
        elif kind == 3:
            parts.append(octets(TRANSACTED, dice.choice((Tx.Commit(), Tx.Rollback()))))
        elif kind == 4:
            settle = dice.choice((Basic.Ack(0, True), Basic.Nack(0, True, True), Basic.Nack(0, True, False)))
            parts.append(octets(dice.choice((CONSUMING, TRANSACTED)), settle))
        elif kind == 5:
            parts.append(octets(FETCHING, Basic.Get(queue=dice.choice(("grave", "seen")), no_ack=True)))
        elif kind == 6:
            parts.append(octets(FETCHING, declare("seen")))
        else:
            closed = dice.choice((TRANSACTED, CONSUMING))
            parts.append(octets(closed, Channel.Close(0, "", 0, 0), Channel.Open(), *OPENING[closed]))
    return b"".join(parts)


def outcome(data: bytes, slices: random.Random | None) -> tuple[bytes, list[str], int]:
    """Return the bytes sent to a client that sends `data`, all events, and how often work was left over."""
    server = Server()
    peer = server.peer(channels=CHANNELS)
    for channel, methods in OPENING.items():
        peer.send(channel, *methods)
    left_over_count = 0
    if slices is None:
        peer.send_octets(data)
    else:
        # The client's bytes arrive at once, as in the other case: their pieces decide how confirms are combined.
        server.node.allowance = slices.randrange(1, 30)
        peer.send_octets(data)
        while server.node.left_over:
            left_over_count += 1
            server.node.allowance = slices.randrange(1, 30)
            server.node.go_on()
        server.node.allowance = inf
    assert server.node.internal_errors == []
    assert not server.node.work_count
    assert peer.connection in server.node.connections.values()
    return peer.read_octets(), [repr(event) for event in server.events()], left_over_count


@pytest.mark.parametrize("seed", range(20))
def test_slices_do_not_change_what_a_client_sees(seed: int) -> None:
    data = conversation(random.Random(seed))

    whole, sliced = outcome(data, None), outcome(data, random.Random(seed))

    assert sliced[:2] == whole[:2]
    assert sliced[2] > 0
