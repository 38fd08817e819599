"""When a server sends heartbeats, and when it gives up a client that has fallen silent.

Heartbeats go by real time. A real server has to be waited for, leveret is moved ahead as well. So these programs are
few, short and measured: instants of the two servers are equal if they are close to each other.
"""

from __future__ import annotations

import random
import time

from tests.semantics import codec, render, target
from tests.semantics.client import CAPABILITIES, Connection, Log

from .answer import Answer
from .machine import Difference, Outcome
from .steps import Program, Step

# How far apart instants may be. RabbitMQ's intervals are half a second and longer.
_TOLERANCE_SECONDS = 0.22
_SPAN_MS = 50


def generate(seed: int, length: int) -> Program:
    """Return the program of a seed: a heartbeat interval, and when the client sends something until it falls silent."""
    chance = random.Random(seed)
    interval = chance.choice((1, 1, 1, 2, 2, 3))
    acts: list[object] = []
    at = 0
    for _ in range(chance.choice((0, 0, 1, 3, min(length, 8)))):
        at += chance.choice((200, 300, 400, 650)) * interval
        acts.append([at, chance.choice(("beat", "beat", "flow"))])
    watched = at + int((3.3 if chance.random() < 0.8 else 1.6) * interval * 1000)
    return (Step("heartbeats", 1, 0, {"interval": interval, "acts": acts, "watched_ms": watched}),)


def play(program: Program, endpoint: target.Endpoint, version: str, rest: float) -> Outcome:
    """Run the program once on leveret and on that server."""
    with target.leveret(version) as embedded:
        expected = _watch(program[0], embedded)
    return _outcome(program, expected, _watch(program[0], endpoint))


def replay(program: Program, answers: list[Answer], version: str, start: target.Start = target.leveret) -> Outcome:
    """Run the program once on leveret, against the recorded answer of a server."""
    with start(version) as embedded:
        expected = _watch(program[0], embedded)
    return _outcome(program, expected, answers[0])


def _outcome(program: Program, expected: Answer, got: Answer) -> Outcome:
    ours, theirs = expected["1.0"], got["1.0"]
    difference = None if _are_close(ours, theirs) else Difference(0, program[0], expected, got)
    return Outcome([got], [(program[0], "")], difference)


def _are_close(ours: list[str], theirs: list[str]) -> bool:
    if len(ours) != len(theirs):
        return False
    pairs = [(mine.split(" at "), other.split(" at ")) for mine, other in zip(ours, theirs, strict=True)]
    return all(
        mine[0] == other[0] and abs(float(mine[1]) - float(other[1])) <= _TOLERANCE_SECONDS for mine, other in pairs
    )


def _watch(step: Step, endpoint: target.Endpoint) -> Answer:
    """Return when heartbeats came, and when the socket ended, in seconds after tuning."""
    interval, acts, watched_ms = step.fields["interval"], step.fields["acts"], step.fields["watched_ms"]
    assert isinstance(interval, int)
    assert isinstance(acts, list)
    assert isinstance(watched_ms, int)
    connection = Connection(endpoint.address, Log(1, render.Names(endpoint.token), {}), 10.0, 1)
    connection.start()
    connection.log_in("guest", "guest", {"capabilities": CAPABILITIES})
    connection.tune(heartbeat=interval)
    started = time.monotonic()
    connection.open(endpoint.vhost)
    connection.send(1, "channel.open")
    connection.take(1, "channel.open-ok")
    due, lines, now_ms, moved_ms = list(acts), [], 0, 0
    while now_ms < watched_ms and not connection.is_ended:
        if not endpoint.real_time:
            endpoint.elapse_liveness(_SPAN_MS)
            endpoint.elapse(0, [])
            moved_ms += _SPAN_MS
        connection.read_for(0.01 if endpoint.real_time else 0.001)
        now_ms = moved_ms + int((time.monotonic() - started) * 1000)
        arrived, connection.events = connection.events, []
        names = ["ended" if event.name in ("closed", "reset") else event.name for event in arrived]
        lines += [f"{name} at {now_ms / 1000:.2f}" for name in names if name != "channel.flow-ok"]
        while due and due[0][0] <= now_ms and not connection.is_ended:
            if due.pop(0)[1] == "beat":
                connection.send_frame(codec.HEARTBEAT, 0, b"")
            else:
                connection.send(1, "channel.flow", active=True)
    connection.drop()
    # What comes at the very end of the watch may come just after it on the other server.
    margin = watched_ms / 1000 - _TOLERANCE_SECONDS
    return {"1.0": [line for line in lines if float(line.split(" at ")[1]) < margin]}
