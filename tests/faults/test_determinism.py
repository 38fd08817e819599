"""The same seed, run twice, gives the same bytes and the same trace."""

from __future__ import annotations

import random

import pytest
from pamqp.commands import Basic

from leveret import faults
from leveret.core.protocol.state import State
from tests.faults.kinds import kinds
from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, declare, octets, publish_octets, select

SEEDS = 100
CHOICES = [
    ("accept", faults.ResetPeer),
    ("connection.start-ok", faults.FailLogin),
    ("queue.declare", faults.CloseConnection),
    ("basic.publish", faults.NackPublish),
    ("basic.publish", faults.WithholdConfirm),
    ("basic.publish", lambda: faults.DelayConfirm(2)),
    ("basic.publish", faults.Drop),
    ("basic.deliver", faults.Duplicate),
    ("basic.deliver", faults.Redeliver),
    ("basic.deliver", faults.Reorder),
    ("basic.deliver", lambda: faults.Delay(1)),
    ("basic.deliver", faults.ResetPeer),
    ("basic.ack", faults.Drop),
    ("basic.ack", faults.CloseChannel),
    ("basic.ack", lambda: faults.Delay(3)),
    ("basic.consume-ok", faults.Withhold),
    ("acked", faults.CancelConsumers),
    ("enqueued", faults.Expire),
    ("enqueued", faults.Restart),
    ("delivered", lambda: faults.Bandwidth(500)),
    ("delivered", lambda: faults.Slicer(11)),
    ("delivered", lambda: faults.Stall(0.5)),
    ("delivered", lambda: faults.Corrupt(20, "both")),
    ("delivered", lambda: faults.LimitData(30)),
    ("enqueued", faults.BlockPublishers),
    ("acked", faults.Blackhole),
    ("acked", faults.HalfClose),
]


Story = tuple[list[bytes], list[str], list[BaseException]]


def run(seed: int) -> tuple[Story, FaultyServer]:
    """Drive peers through a program that the seed chooses, under faults that it chooses too."""
    chance, server = random.Random(seed), FaultyServer(seed=seed)
    for on, fault in chance.sample(CHOICES, 4):
        server.faults.add(on=on, do=fault(), probability=0.3, optional=True)
    peers: list[Peer] = []
    for number in range(30):
        if not peers or peers[-1].connection.state is not State.OPENED or number % 12 == 0:
            peers.append(newcomer(server, number))
        step(server, peers[-1], chance)
        for peer in peers:
            peer.read_octets()
            if peer.connection.is_reset:
                peer.connection.connection_lost()
    server.elapse(60)
    for peer in peers:
        peer.read_octets()
    story = [peer.output for peer in peers], [repr(event) for event in server.events()], server.node.internal_errors
    return story, server


def newcomer(server: FaultyServer, number: int) -> Peer:
    peer = server.peer(channels=(1, 2))
    peer.send(1, declare("q"), select())
    peer.send(2, Basic.Qos(prefetch_count=3), Basic.Consume(queue="q", consumer_tag=f"c{number}"))
    return peer


def step(server: FaultyServer, peer: Peer, chance: random.Random) -> None:
    kind = chance.choice(["publish", "publish", "ack", "ack", "wait"])
    if kind == "publish":
        peer.send_octets(publish_octets(1, chance.randbytes(5)) * chance.randint(1, 3))
    elif kind == "wait":
        server.elapse(chance.random())
    elif 2 in peer.connection.channels and peer.connection.channels[2].unacked:
        peer.send_octets(octets(2, Basic.Ack(next(iter(peer.connection.channels[2].unacked)))))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_same_seed_gives_the_same_bytes_and_the_same_trace(seed):
    (first, _), (second, _) = run(seed), run(seed)

    assert first == second
    assert first[2] == []


def test_every_kind_of_fault_applies_under_some_of_these_seeds():
    struck = {type(rule.fault) for seed in range(SEEDS) for rule in run(seed)[1].faults.rules if rule.fired}

    assert [kind for kind in kinds() if kind not in struck] == []
