"""One random workload on leveret and on a RabbitMQ, with the records of it: leveret's trace, and both firehoses.

The workload is a program of the random lockstep machine, which brings both servers to rest after each step; so each
queue delivers in one order. If the machine reports a race, or an action of the server that depends on chance, the
program runs again without that step and all later ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import amqp

from leveret import Broker
from leveret.engine.harness import Harness
from leveret.trace.firehose import Firehose
from leveret.trace.rows import Row
from tests.lockstep.answer import Answer
from tests.lockstep.generator import Generator, generate
from tests.lockstep.machine import REST_SECONDS, Outcome, Player
from tests.lockstep.side import Side
from tests.lockstep.steps import Program, Step
from tests.semantics import target

LENGTH = 30
_END = "all was told"
_PATIENCE_SECONDS = 60
_ATTEMPTS_MAX = 4


def is_timeless(seed: int) -> bool:
    """Return whether the speed of a server cannot change the workload of that seed: its TTLs are 0 or an hour."""
    return not Generator(seed, LENGTH).world.has_time


@dataclass
class Told:
    """The records of one attempt at a workload on both servers."""

    # The value of `test` in its events, in every trace.
    name: str
    program: Program
    # The outcome from the lockstep machine.
    outcome: Outcome
    leveret: list[Row]
    rabbitmq: list[Row]


@dataclass
class Recorded:
    """A workload with RabbitMQ's answers: enough to run it on leveret again."""

    name: str
    program: Program
    answers: list[Answer]

    def line(self) -> str:
        """Return the workload as a line of a file."""
        steps = [step.to_json() for step in self.program]
        return f"{json.dumps({'name': self.name, 'steps': steps, 'answers': self.answers}, separators=(',', ':'))}\n"

    @classmethod
    def of(cls, line: str) -> Recorded:
        """Return the workload that such a line holds."""
        told = json.loads(line)
        return cls(told["name"], tuple(map(Step.from_json, told["steps"])), told["answers"])


class Watcher:
    """A reader of the firehose of a virtual host."""

    def __init__(self, endpoint: target.Endpoint, firehose: Firehose) -> None:
        """Number rows by `firehose`, which other watchers may share."""
        host, port = endpoint.address
        # Not pika, which reads a double as a whole number.
        self._connection = amqp.Connection(f"{host}:{port}", virtual_host=endpoint.vhost, heartbeat=0)
        self._connection.connect()
        self._channel = self._connection.channel()
        queue = self._channel.queue_declare(exclusive=True).queue
        self._channel.queue_bind(queue, "amq.rabbitmq.trace", "#")
        self._channel.basic_consume(queue, no_ack=True, callback=self._note)
        self._firehose = firehose
        self._rows: list[Row] = []

    def _note(self, message: amqp.Message) -> None:
        body = message.body if isinstance(message.body, bytes) else message.body.encode()
        self._rows.append(self._firehose.row(message.delivery_info["routing_key"], message.headers, body))

    def rows(self, test: str) -> list[Row]:
        """Return all rows since the last call, with this name in `test`."""
        self._channel.basic_publish(amqp.Message(b""), routing_key=_END)
        while not self._rows or self._rows[-1]["routing_key"] != _END:
            self._connection.drain_events(timeout=_PATIENCE_SECONDS)
        rows, self._rows = self._rows, []
        return [{**row, "test": test} for row in rows]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def traced_leveret(version: str, folder: Path, name: str) -> Iterator[target.LeveretEndpoint]:
    """Start a fresh broker that writes its trace into the folder under that name, with its firehose on."""
    with Broker(rabbitmq=version, permit=target.PERMIT, trace_dir=folder) as broker:
        endpoint = target.LeveretEndpoint(broker, version)
        endpoint.operator.add_vhost(endpoint.vhost)
        endpoint.operator.set_permissions("guest", endpoint.vhost)
        endpoint.operator.trace_on(endpoint.vhost)
        Harness(broker).begin_test(name)
        yield endpoint


class Played:
    """Workloads on one virtual host of a RabbitMQ."""

    def __init__(self, endpoint: target.Endpoint, folder: Path) -> None:
        """Write leveret's traces into the folder: one file for any number of workloads."""
        self._endpoint = endpoint
        self._folder = folder
        self._firehose = Firehose()
        self._watcher = Watcher(endpoint, Firehose())
        # Attempts that did not run to the end.
        self.stops: list[Told] = []

    def close(self) -> None:
        """Stop reading the firehose."""
        self._watcher.close()

    def play(self, seed: int) -> Told | None:
        """Return the records of that seed's workload, or None if no attempt ran to its end."""
        program = generate(seed, LENGTH)
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            told = self._play_once(f"seed {seed}, attempt {attempt}", program)
            if told.outcome.is_whole:
                return told
            self.stops.append(told)
            program = without_its_end(told.outcome)
        return None

    def _play_once(self, name: str, program: Program) -> Told:
        with traced_leveret(self._endpoint.version, self._folder, name) as embedded:
            leveret, other = Side(embedded), Side(self._endpoint)
            player = Player(leveret, other, None, REST_SECONDS)
            with closing(Watcher(embedded, self._firehose)) as watcher:
                try:
                    outcome = player.play(program)
                finally:
                    other.close(player.queues, player.exchanges)
                    leveret.close(player.queues, player.exchanges)
                return Told(name, program, outcome, watcher.rows(name), self._watcher.rows(name))


def without_its_end(outcome: Outcome) -> Program:
    """Return the steps before the one at which the machine had to stop."""
    played = tuple(step for step, _ in outcome.played)
    return played if outcome.is_cut else played[:-1]


def replay(recorded: Recorded, version: str, folder: Path) -> tuple[Outcome, list[Row]]:
    """Run the workload on leveret against recorded answers; return the outcome and the rows of leveret's firehose."""
    with (
        traced_leveret(version, folder, recorded.name) as embedded,
        closing(Watcher(embedded, Firehose())) as watcher,
    ):
        leveret = Side(embedded)
        player = Player(leveret, None, recorded.answers, 0)
        outcome = player.play(recorded.program)
        leveret.close(player.queues, player.exchanges)
        return outcome, watcher.rows(recorded.name)
