"""The account of a soak: what happened to each message, and what a fault may have done to it.

The clients report what they publish, what is confirmed and what they receive. The faults report which messages and
connections they have touched. From both, the ledger knows what is wrong:

- *lost*: confirmed, and never received;
- *duplicated*: received twice without the flag redelivered;
- *out of order*: received behind a later message of the same channel, for the first time, from the same queue, by the
  same consumer. RabbitMQ keeps that order;
- *garbled*: received with a wrong byte.

Each fault that does one of these by definition excuses the messages it has touched, and no others.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

# What each fault may do to a message that it has touched, by the point at which it acted. Any other fault does nothing
# of this to any message.
EXCUSES: dict[tuple[str, str], frozenset[str]] = {
    # A lost publish is confirmed. A lost delivery is settled by an ack of several.
    ("drop", "method"): frozenset({"lost"}),
    ("drop", "deliver"): frozenset({"lost"}),
    ("expire", "event"): frozenset({"lost"}),
    ("duplicate", "deliver"): frozenset({"duplicated", "out of order"}),
    ("reorder", "deliver"): frozenset({"out of order"}),
    ("delay", "deliver"): frozenset({"out of order"}),
}
# One wrong byte may turn any method of its connection into another.
EXCUSED_BY_CORRUPTION = frozenset({"lost", "duplicated", "out of order"})


class MessageId(NamedTuple):
    """One message: the publisher's connection, the queue, and its number among the publisher's messages."""

    session: str
    queue: str
    number: int


def body_of(message: MessageId, size: int) -> bytes:
    """Return the body of a message, of at least `size` bytes."""
    text = f"{message.session} {message.queue} {message.number} ".encode()
    filled = text.ljust(size, b".")
    return b"%08x " % zlib.crc32(filled) + filled


def message_in(body: bytes) -> MessageId | None:
    """Return the message with this body; None if a byte of it is wrong."""
    if body[:9] != b"%08x " % zlib.crc32(body[9:]):
        return None
    session, queue, number, _ = body[9:].decode().split(" ", 3)
    return MessageId(session, queue, int(number))


@dataclass
class Ledger:
    """What the clients and the faults have reported. Any thread may report."""

    confirmed_count: int = 0
    received: set[MessageId] = field(default_factory=set)
    # By violation, what it happened to.
    found: dict[str, list[str]] = field(default_factory=dict)
    # What was found and excused, by violation and fault.
    excused: Counter[tuple[str, str]] = field(default_factory=Counter)
    # How often each client has got on: a confirm, a delivery.
    steps: Counter[str] = field(default_factory=Counter)
    redelivered_count: int = 0

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._touched: dict[MessageId, dict[str, frozenset[str]]] = {}
        self._corrupted_sessions: set[str] = set()
        self._wrong_byte_count = 0
        self._garbled: set[bytes] = set()
        # The last number received in order, by consumer's connection and by publisher's connection and queue.
        self._last: dict[tuple[str, str, str], int] = {}
        # What is wrong, unless a fault turns out to account for it.
        self._suspects: list[tuple[str, MessageId, str]] = []
        # Received without the flag redelivered.
        self._fresh: set[MessageId] = set()
        # Confirmed and not received yet, by queue; and those of them that a fault may have lost.
        self._open: dict[str, set[MessageId]] = {}
        self._doubtful: set[MessageId] = set()

    def confirm(self, client: str, message: MessageId) -> None:
        """Note that a publisher got a confirm."""
        with self._changed:
            self.confirmed_count += 1
            if message not in self.received:
                self._open.setdefault(message.queue, set()).add(message)
            self._step(client)

    def receive(self, client: str, session: str, body: bytes, *, redelivered: bool) -> None:
        """Note that a consumer received a message."""
        with self._changed:
            self._step(client)
            self.redelivered_count += redelivered
            message = message_in(body)
            if message is None:
                self._garbled.add(body)
                if len(self._garbled) > self._wrong_byte_count:
                    self._find("garbled", repr(body[:80]))
                return
            if message not in self.received:
                self.received.add(message)
                self._open.setdefault(message.queue, set()).discard(message)
                self._doubtful.discard(message)
            if redelivered:
                return
            if message in self._fresh:
                self._suspects.append(("duplicated", message, session))
            self._fresh.add(message)
            self._follow(message, session)

    def _follow(self, message: MessageId, session: str) -> None:
        place = (session, message.session, message.queue)
        if message.number < self._last.get(place, -1):
            self._suspects.append(("out of order", message, session))
        elif "out of order" not in self._excuses(message):
            self._last[place] = message.number

    def touch(self, fault: str, point: str, body: bytes | None) -> None:
        """Note that a fault acts on a message."""
        excuses = EXCUSES.get((fault, point), frozenset())
        message = None if body is None else message_in(body)
        if message is not None and excuses:
            with self._changed:
                self._touched.setdefault(message, {})[fault] = excuses

    def expect_wrong_bytes(self, count: int) -> None:
        """Note that as many messages may be received with a wrong byte."""
        with self._changed:
            self._wrong_byte_count += count

    def corrupt(self, sessions: list[str], bodies: list[bytes]) -> None:
        """Note that bytes of these connections were wrong, and the messages that they have carried."""
        with self._changed:
            self._corrupted_sessions.update(sessions)
            for message in filter(None, map(message_in, bodies)):
                self._touched.setdefault(message, {})["corrupt"] = EXCUSED_BY_CORRUPTION

    def _excuses(self, message: MessageId) -> frozenset[str]:
        return frozenset().union(*self._touched.get(message, {}).values())

    def _judge(self, what: str, message: MessageId, session: str = "") -> None:
        faults = [fault for fault, excuses in self._touched.get(message, {}).items() if what in excuses]
        if message.session in self._corrupted_sessions or session in self._corrupted_sessions:
            faults.append("corrupt")
        if faults:
            self.excused[what, faults[0]] += 1
        else:
            self._find(what, f"{message} at {session}" if session else str(message))

    def _find(self, what: str, text: str) -> None:
        self.found.setdefault(what, []).append(text)

    def report(self, what: str, text: str) -> None:
        """Note something else that is wrong."""
        with self._changed:
            self._find(what, text)

    def step(self, client: str) -> None:
        """Note that a client has got on."""
        with self._changed:
            self._step(client)

    def _step(self, client: str) -> None:
        self.steps[client] += 1
        self._changed.notify_all()

    def wait_for_steps(self, clients: list[str], count: int, seconds: float) -> list[str]:
        """Wait until each of the clients has got on `count` times. Return those that have not in time."""
        with self._changed:
            before = {client: self.steps[client] for client in clients}

            def late() -> list[str]:
                return [client for client in clients if self.steps[client] < before[client] + count]

            self._changed.wait_for(lambda: not late(), seconds)
            return late()

    def wait_for_room(self, queue: str, limit: int, seconds: float) -> bool:
        """Wait until fewer than `limit` confirmed messages of a queue are still to be received."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._open.get(queue, ())) < limit, seconds)

    def settle(self) -> list[MessageId]:
        """Judge what was received, now that it is known what the faults have touched.

        Return the messages that are confirmed, and not received, and that no fault may have lost.
        """
        with self._changed:
            suspects, self._suspects = self._suspects, []
            for suspect in suspects:
                self._judge(*suspect)
            for waiting in self._open.values():
                excused = {message for message in waiting if self._may_be_lost(message)}
                self._doubtful |= excused
                waiting -= excused
            return [message for waiting in self._open.values() for message in waiting]

    def _may_be_lost(self, message: MessageId) -> bool:
        return message.session in self._corrupted_sessions or "lost" in self._excuses(message)

    def close(self, seconds: float) -> None:
        """Wait until every confirmed message is received or excused. Count as lost what is still missing by then."""
        with self._changed:
            self._changed.wait_for(lambda: not self.settle(), seconds)
            for message in sorted([*self.settle(), *self._doubtful]):
                self._judge("lost", message)
