"""The processes that run trials side by side, one job after another.

A process is a fork of this one, a child of the fork server or a new program: `start` decides. It connects to a port of
its own, and nothing of it is read before it has shown the key. Jobs and outcomes are plain values that can be pickled.
Where there is fork, no process outlives this one.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Client, Connection, wait
from time import monotonic
from typing import Final, Generic, NamedTuple, Self, TypeVar

from leveret.workers.processes import Fork, Note, Process

J = TypeVar("J")
O = TypeVar("O")  # noqa: E741

# How long a job may take before its process is ended, how long a process may take to start, and to end.
HANG_S: Final = 60.0
START_S: Final = 60.0
_END_S: Final = 10.0
# How long it may take to show its key, and to do a last job.
_KEY_S: Final = 30.0
_LAST_S: Final = 30.0
_TICK_S: Final = 0.2
_KEPT_LINES: Final = 200
_KEY_BYTES: Final = 16


class Address(NamedTuple):
    """Where a process connects, and the key that it shows."""

    port: int
    key: bytes

    def connect(self) -> Connection:
        """Return a connection of this process to the one that has started it."""
        connection = Client(("127.0.0.1", self.port))
        connection.send_bytes(self.key)
        return connection


Start = Callable[[Address, Note], Process | Fork]


class NotStartedError(Exception):
    """A process that did not connect."""

    def __init__(self, output: str | None) -> None:
        """`output` is what it printed before it ended; None if it runs and takes too long."""
        what = f"ended:\n{output}" if output is not None else f"did not start in {START_S:.0f} s"
        super().__init__(what)
        self.output: Final = output


@dataclass(slots=True)
class Done(Generic[J, O]):
    """A job that is over, and its outcome, or why there is none."""

    job: J
    outcome: O | None
    # How many jobs were given before it, and how many its process had done before.
    number: int = 0
    turn: int = 0
    error: str = ""


class Pool(Generic[J, O]):
    """The processes, as many as there are cores. They start with the first jobs."""

    def __init__(
        self,
        start: Start,
        *,
        fork: Callable[[Connection], None] | None = None,
        count: int | None = None,
        hang_s: float = HANG_S,
    ) -> None:
        """`fork` serves a connection in a fork of this process, if no other thread runs here, in place of `start`.

        With a `count` of 1, no two processes ever run at the same time.
        """
        self._start: Final = start
        # Only Linux ends a fork with its parent.
        self._fork: Final = fork if sys.platform == "linux" and threading.active_count() == 1 else None
        self._hang_s: Final = hang_s
        self._players: Final[list[_Player[J]]] = []
        self._ending: Final[list[_Player[J]]] = []
        self._over: Final[deque[Done[J, O]]] = deque()
        self._given_count = 0
        self.count: Final = count or os.cpu_count() or 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        for player in self._players:
            player.hang_up()
        for player in (*self._ending, *self._players):
            player.end(_END_S if kind is None and player.job is None else 0)

    def each(self, jobs: Iterable[J]) -> Iterator[Done[J, O]]:
        """Do jobs, and yield each in their order when it is over. Raises NotStartedError."""
        given, early, following = iter(jobs), dict[int, Done[J, O]](), self._given_count
        for done in self.drive(lambda: next(given, None)):
            early[done.number] = done
            while following in early:
                yield early.pop(following)
                following += 1

    def drive(self, next_job: Callable[[], J | None]) -> Iterator[Done[J, O]]:
        """Do jobs, and yield each when it is over, until there is no next one while all processes are idle.

        Raises NotStartedError.
        """
        while True:
            if not self._over:
                self._hand_out(next_job)
                if not self._busy:
                    return
                self._await_some()
            while self._over:
                yield self._over.popleft()

    def rest(self) -> None:
        """Wait until no job runs. None begins before `drive` goes on."""
        while self._busy:
            self._await_some()

    def dismiss(self, job: J) -> Iterator[O]:
        """Give each idle process a last job, and yield the outcomes."""
        idle = [player for player in self._players if player.job is None and player.turns]
        for player in idle:
            player.connection.send(job)
        for player in idle:
            with suppress(EOFError, OSError):
                if player.connection.poll(_LAST_S):
                    yield player.connection.recv()[0]

    @property
    def _busy(self) -> list[_Player[J]]:
        return [player for player in self._players if player.job is not None]

    def _await_some(self) -> None:
        """Wait for the end of some job, for a moment."""
        busy = self._busy
        ready = wait([player.connection for player in busy], _TICK_S)
        for player in busy:
            if player.connection in ready:
                self._over.append(self._received(player))
            elif monotonic() - player.began > self._hang_s:
                self._over.append(self._lost(player, f"no end after {self._hang_s:.0f} s"))

    def _hand_out(self, next_job: Callable[[], J | None]) -> None:
        idle = [player for player in self._players if player.job is None]
        free = self.count - len(self._players)
        jobs: list[J] = []
        while len(jobs) < len(idle) + free and (job := next_job()) is not None:
            jobs.append(job)
        # All of them start side by side before the first is waited for.
        while len(idle) < len(jobs):
            idle.append(_Player(self._begun))
            self._players.append(idle[-1])
        for player, job in zip(idle, jobs, strict=False):
            player.give(job, self._given_count)
            self._given_count += 1

    def _begun(self, address: Address, note: Note) -> Process | Fork:
        return self._start(address, note) if self._fork is None else Fork(partial(self._serve_in_fork, address))

    def _serve_in_fork(self, address: Address) -> None:
        assert self._fork is not None
        for player in self._players:
            player.hang_up()
        self._fork(address.connect())

    def _received(self, player: _Player[J]) -> Done[J, O]:
        try:
            outcome, is_last = player.connection.recv()
        except (EOFError, OSError) as error:
            return self._lost(player, repr(error))
        done = self._done(player, outcome)
        player.turns += 1
        if is_last:
            self._drop(player)
        return done

    def _lost(self, player: _Player[J], why: str) -> Done[J, O]:
        self._players.remove(player)
        player.end(0)
        return self._done(player, None, why)

    def _done(self, player: _Player[J], outcome: O | None, error: str = "") -> Done[J, O]:
        job, player.job = player.job, None
        assert job is not None
        return Done(job, outcome, player.number, player.turns, error)

    def _drop(self, player: _Player[J]) -> None:
        """Let another process take its place. What it has begun, it ends by itself."""
        player.hang_up()
        self._players.remove(player)
        self._ending.append(player)
        if self.count == 1:
            self._ending.pop().end(_END_S)


class _Player(Generic[J]):
    """One process, as this side holds it."""

    def __init__(self, start: Start) -> None:
        self._output: Final[deque[str]] = deque(maxlen=_KEPT_LINES)
        self._key: Final = secrets.token_bytes(_KEY_BYTES)
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_TICK_S)
        self._process: Final = start(Address(self._listener.getsockname()[1], self._key), self._output.append)
        self._connection: Connection | None = None
        # The job that it does, if any, its number, and when it was given.
        self.job: J | None = None
        self.number = 0
        self.began = 0.0
        self.turns = 0

    @property
    def connection(self) -> Connection:
        """The connection to it, once it has a job."""
        assert self._connection is not None
        return self._connection

    def give(self, job: J, number: int) -> None:
        """Give it a job. Raises NotStartedError if it does not connect."""
        if self._connection is None:
            self._connection = self._accepted()
        self.job, self.number, self.began = job, number, monotonic()
        # It may have ended: then nothing will come of the job.
        with suppress(OSError):
            self._connection.send(job)

    def hang_up(self) -> None:
        """Close its connection, so that it ends."""
        self._listener.close()
        if self._connection is not None:
            self._connection.close()

    def end(self, seconds: float) -> None:
        """Wait for its end, and kill it after that time, with all its children."""
        self.hang_up()
        if not self._process.wait(seconds):
            self._process.kill()
            self._process.wait(_END_S)
        self._process.close()

    def _accepted(self) -> Connection:
        limit = monotonic() + START_S
        while monotonic() < limit and self._process.code() is None:
            with suppress(EOFError, OSError):
                accepted, _ = self._listener.accept()
                # A test may have set a default timeout.
                accepted.setblocking(True)
                connection = Connection(accepted.detach())
                if connection.poll(_KEY_S) and secrets.compare_digest(connection.recv_bytes(), self._key):
                    return connection
                connection.close()
        has_ended = self._process.code() is not None
        self.end(0)
        raise NotStartedError("\n".join(self._output).strip() if has_ended else None)


def serve(connection: Connection, run: Callable[[J], tuple[O, bool] | None]) -> None:
    """Do one job after another until the other side hangs up, or a job was the last that this process can do.

    `run` returns the outcome, and whether it was the last; None if it has sent both itself, and it was.
    """
    with suppress(EOFError, OSError):
        while (answer := run(connection.recv())) is not None:
            connection.send(answer)
            if answer[1]:
                break
