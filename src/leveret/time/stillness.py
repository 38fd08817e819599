"""Stillness: when clients have reacted to what they were sent, as far as that can be known.

A broker sees bytes, not intentions. A worker that acknowledges first and then publishes the next message looks done in
between. So a broker counts as still if it is idle, if no thread of this process or of a client's is at work (where the
system reports it, see `server.threads`), and if no client has been active for a moment. The moment is a millisecond if
the threads of every client can be seen, and `UNSEEN_S` if a client lives on another machine or belongs to another user.

One thing cannot be known: whether a client that holds no message and waits for something else, such as a web service or
a sleep, is going to publish. Such a test must wait for that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from leveret.clocks import SystemClock
from leveret.engine.engine import Engine
from leveret.observe.calls.callers import handling_line, standing
from leveret.observe.texts.state import DeliveryKey, connections, held_texts, holdings
from leveret.server import native
from leveret.server.threads import SELF, Threads, processes_of

SEEN_S: Final = 0.001
UNSEEN_S: Final = 0.02
# Threads that only poll from time to time are busy for less than this part of it.
IDLE_SHARE: Final = 0.3
# A moment that took this many times as long shows nothing, because what delayed this thread has delayed clients too.
_LATE: Final = 3
# How many times as long clients get that are at work.
_PATIENCE: Final = 10

# How often clients are woken that have not settled what they got.
_WAKE_EVERY_US: Final = 100_000

_REAL: Final = SystemClock()

Reasons = Callable[[], list[str]]


class Stillness:
    """A way to wait until the clients of one broker have nothing to do."""

    def __init__(self, engine: Engine) -> None:
        """Watch that engine."""
        self._engine = engine
        self._threads = Threads()
        # The ports of each connection, the client's first, and the processes that have its socket.
        self._processes: dict[tuple[int, int], set[str]] = {}

    def wait(self, reasons: Reasons, settle: float, standing: Collection[tuple[int, int]] = ()) -> list[str]:
        """Wait until there are no `reasons` and all is still. Return what is left after `settle` seconds.

        While clients are visibly at work on what is left, or a handler of this process waits for something else, such
        as a web service, they get up to ten times as long: a slow machine must not change what a test shows. What was
        `standing` before has not begun to handle anything.
        """
        settle_us = round(settle * 1_000_000)
        limit = _REAL.now() + settle_us
        latest = limit + (_PATIENCE - 1) * settle_us
        while True:
            now = _REAL.now()
            left = self._engine.wait_while(reasons, min(limit - now, _WAKE_EVERY_US) / 1_000_000)
            if left and limit - now > _WAKE_EVERY_US:
                self.wake_clients()
                continue
            if left and limit < latest and (handling_line(standing) is not None or self.are_clients_at_work()):
                limit = min(latest, _REAL.now() + settle_us)
                continue
            if left:
                return left
            arrival_count = self.arrival_count()
            if not self.are_clients_at_work() and self.arrival_count() == arrival_count:
                return []
            if _REAL.now() >= limit:
                return ["clients are at work"]

    def wake_clients(self) -> None:
        """Send a heartbeat to each client.

        A client's loop may sleep although it has something to send: kombu's does not look at what is ready before it
        polls (`create_loop` in kombu/asynchronous/hub.py, seen in 5.7). So a Celery worker with the solo pool sends its
        last acks up to ten seconds late, to RabbitMQ too, unless something arrives.
        """
        self._engine.ask(self._beat)

    def _beat(self) -> None:
        for connection in connections(self._engine.node):
            connection.beat()

    def arrival_count(self) -> int:
        """Return how often clients were active, including what has arrived by now."""
        return self._engine.ask(lambda: self._engine.loop.arrival_count)

    def are_clients_at_work(self) -> bool:
        """Watch for a moment, and return whether a thread was at work.

        If a thread was busy for a small part of it, watch for another moment: a thread that waits for the interpreter
        looks idle.
        """
        moment = SEEN_S if self._are_all_seen() else UNSEEN_S
        share = self._busy_share(moment)
        if 0 < share <= IDLE_SHARE:
            share = self._busy_share(moment)
        return share > IDLE_SHARE

    def _busy_share(self, moment: float) -> float:
        started_at = _REAL.now()
        self._threads.look()
        native.pause(moment)
        is_late = _REAL.now() - started_at > _LATE * moment * 1_000_000
        return 1.0 if is_late else self._threads.busy_share()

    def _are_all_seen(self) -> bool:
        if not self._threads.can_tell:
            return False
        with self._engine.lock:
            clients = {(client.peer[1], client.local[1]) for client in connections(self._engine.node)}
        if clients != self._processes.keys():
            self._find_processes(clients)
        return all(self._processes.values())

    def _find_processes(self, clients: set[tuple[int, int]]) -> None:
        by_pair = {pair: self._processes.get(pair) for pair in clients}
        new = processes_of([pair for pair, processes in by_pair.items() if not processes])
        self._processes = {pair: processes or new.get(pair, set()) for pair, processes in by_pair.items()}
        self._threads.processes = {SELF, *(process for processes in self._processes.values() for process in processes)}


class Newcomers:
    """What keeps a broker from being idle, except what was in progress when this was created."""

    def __init__(self, engine: Engine, but_for: Iterable[DeliveryKey] | None = None) -> None:
        """Remember what is in progress now, or of the deliveries only `but_for`. Call it on the loop's thread."""
        self._engine = engine
        # Where threads and tasks stand that have nothing of what comes next. With `but_for`, any may be handling.
        self.standing = standing() if but_for is None else frozenset()
        self._held = set(held(engine) if but_for is None else but_for)
        self._unread = set(_unread(engine))

    def held_texts(self) -> list[str]:
        """Return a text for each client and queue of new messages that are held. Call it on the loop's thread."""
        return held_texts(self._engine.node, but_for=self._held)

    def reasons(self) -> list[str]:
        """Return what is new and not done. Call it on the loop's thread or under the lock."""
        held_count = sum(key not in self._held for key in held(self._engine))
        unread_count = sum(key not in self._unread for key in _unread(self._engine))
        reasons = [f"{held_count} deliveries not settled"] if held_count else []
        return reasons + ([f"{unread_count} clients do not read"] if unread_count else []) + self._engine.awake


def held(engine: Engine, *, by_get: bool = False) -> list[DeliveryKey]:
    """Return what clients hold, or only what they got by basic.get. Call it on the loop's thread or under the lock."""
    return [holding.key for holding in holdings(engine.node) if not by_get or holding.delivery.consumer is None]


def _unread(engine: Engine) -> list[int]:
    return [transport.fd for transport in engine.loop.transports if transport.outbox_bytes]
