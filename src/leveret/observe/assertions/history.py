"""The history of the messages in a trace, for the text of a failing assertion.

`Histories` reads the raw events once and follows every copy of every message. Dead-lettering keeps the number of the
message. What happened before the current test began is kept apart: it explains, but it does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.assertions.searching import NO_ACK, NOT_COMMITTED, reason_of
from leveret.observe.calls.calls import shown
from leveret.observe.texts.circumstances import NOTABLE_US, Circumstances
from leveret.observe.texts.routes import why_not_dead_lettered, why_unrouted
from leveret.observe.texts.state import connections, full_text, holder_text, uncommitted
from leveret.observe.views.message_view import DEATH_HEADERS
from leveret.story.deletions import Deletions
from leveret.trace import events
from leveret.trace.events import Event, named, task_of
from leveret.wording import client_place_text, count_text, place_text, span_text

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.trace.events import RawEvent

# How many copies of a message the text describes.
_COPIES: Final = 3
_EXPLAINING: Final = (events.CONN_OPEN, events.CONN_CLOSE, events.QUEUE_DECLARE, events.QUEUE_DELETE)
_REQUEUED: Final = {
    "nacked": "nacked with requeue",
    "rejected": "rejected with requeue",
    "recovered": "requeued by basic.recover",
    "channel_closed": "requeued because its channel closed",
    "consumer_timeout": "requeued because its consumer held it too long",
}


@dataclass(slots=True)
class CopyHistory:
    """The history of a copy: its queue, and its events."""

    queue: str
    # The message as it is in this queue: dead-lettering changes its exchange, its key and its headers.
    message: Message
    events: list[Event] = field(default_factory=list)
    # Those of the current test.
    recent: list[Event] = field(default_factory=list)

    @property
    def deliveries(self) -> list[Event]:
        """The deliveries of the copy, oldest first."""
        return [event for event in self.events if event.kind in events.DELIVERIES]


@dataclass(slots=True)
class MessageHistory:
    """The history of a message: its publish, and its copies in order."""

    message: Message
    vhost: str
    copies: dict[int, CopyHistory] = field(default_factory=dict)
    # The publish, and what happened to the message outside any queue: returned, dropped, confirmed or nacked.
    published: Event | None = None
    events: list[Event] = field(default_factory=list)
    # Whether anything happened to it in the current test, and those of its own events that are of this test.
    is_recent: bool = False
    recent: list[Event] = field(default_factory=list)

    def of_kind(self, *kinds: str) -> Event | None:
        """Return the first of its own events of these kinds, None if there is none."""
        return next((event for event in self.events if event.kind in kinds), None)

    def has_reached(self, queue: str | None) -> bool:
        """Return whether a copy of it was ever in this queue."""
        return any(copy.queue == queue for copy in self.copies.values())


class Histories:
    """The histories of all messages in a trace."""

    def __init__(self, raw_events: Sequence[RawEvent], node: Node) -> None:
        self._node: Final = node
        self._by_message: Final[dict[int, MessageHistory]] = {}
        self._clients: Final[dict[int, str]] = {}
        # When connections closed, and whether the client closed them itself; and the deletions of queues.
        self._closed: Final[dict[int, tuple[int, bool]]] = {}
        self._deletions: Final = Deletions()
        # The queues a dead letter arrived in, by the number of the copy that died.
        self._arrivals: Final[dict[int, list[str]]] = {}
        # The line of the test's latest call to the broker, and the lines at which it published, by message.
        self._caller: str | None = None
        self._lines: Final[dict[int, str | None]] = {}
        self.circumstances: Final = Circumstances()
        began = max((at for at, raw in enumerate(raw_events) if raw[0] == events.TEST_START), default=0)
        for at, raw in enumerate(raw_events):
            if raw[0] in Circumstances.KINDS:
                self.circumstances.take(Event(raw))
            if raw[0] in events.ABOUT_MESSAGES:
                self._add(Event(raw), is_recent=at >= began)
            elif raw[0] == events.CALLED:
                self._caller = Event(raw).caller
            elif raw[0] in _EXPLAINING:
                self._know(Event(raw))

    @property
    def recent(self) -> list[MessageHistory]:
        """The messages to which something happened in the current test, in the order of their numbers."""
        return [history for history in self._by_message.values() if history.is_recent]

    def of(self, message_id: int) -> MessageHistory:
        """Return the history of a message that is in the trace."""
        return self._by_message[message_id]

    def arrivals(self, copy: int | None) -> list[str]:
        """Return the queues in which the dead letter of a copy arrived."""
        return [] if copy is None else self._arrivals.get(copy, [])

    def named(self, history: MessageHistory) -> str:
        """Return a message with its number, where it was published to, and by whom; and its headers."""
        published, message = history.published, history.message
        by = "" if published is None else f" from {self.who(published)}"
        return f"{named(message)}{by}{self._earlier_text(message)}{_headers_text(message)}"

    def named_in_queue(self, message: Message) -> str:
        """Return a message of a queue with its number and its content, and the earlier test that published it."""
        return f"{named(message)}{self._earlier_text(message)}"

    def _earlier_text(self, message: Message) -> str:
        test = self.circumstances.earlier_test(message)
        return f", published in {test}" if test else ""

    def became(self, history: MessageHistory, *, first: str | None) -> list[str]:
        """Return what became of a message: a clause for each copy, those in the queue `first` before the others.

        Of many copies, the youngest are the ones that say how it stands.
        """
        reply = self.circumstances.wrong_reply(history.vhost, history.message)
        return [*self._clauses(history, first=first), *([reply] if reply else [])]

    def _clauses(self, history: MessageHistory, *, first: str | None) -> list[str]:
        if not history.copies:
            return [self._unrouted_text(history)]
        ranked = sorted(history.copies.items(), key=lambda item: (item[1].queue != first, -item[0]))
        copies = sorted(ranked[:_COPIES], key=lambda item: (item[1].queue != first, item[0]))
        clauses = [
            self._end_text(copy, copy_history, is_asked=first in (None, copy_history.queue))
            for copy, copy_history in copies
        ]
        more = len(history.copies) - len(copies)
        return clauses + ([f"has {more} more {'copy' if more == 1 else 'copies'}"] if more > 0 else [])

    def delivery_became(self, history: MessageHistory, delivery: Event) -> str:
        """Return what became of a delivery, as a clause: the copy may have been delivered again."""
        copy_history = history.copies[cast("int", delivery.copy)]
        at = next(index for index, event in enumerate(copy_history.events) if event.raw is delivery.raw)
        later = copy_history.events[at + 1 :]
        end = next((event for event in later if event.kind not in (events.NACKED, events.REJECTED)), None)
        if end is None or end.kind != events.REQUEUED:
            return self._end_text(cast("int", delivery.copy), copy_history, is_asked=True)
        if end.reason != "channel_closed":
            return f"was {_REQUEUED.get(str(end.reason), f'requeued ({end.reason})')}"
        conn = delivery.conn or 0
        closed_at, is_orderly = self._closed.get(conn, (None, True))
        if closed_at != end.at:
            return f"was requeued when {place_text(conn, delivery.chan)} closed"
        if is_orderly:
            return f"was requeued when {place_text(conn)} closed its connection"
        return f"was lost with {place_text(conn)}'s connection, and requeued"

    def is_uncommitted(self, history: MessageHistory) -> bool:
        """Return whether a message was published in a transaction that has not been committed."""
        end = history.of_kind(events.DROPPED)
        return (end is not None and end.reason in NOT_COMMITTED) or history.message.id in uncommitted(self._node)

    def describe_answer(self, history: MessageHistory) -> str:
        """Return how the broker answered the publisher of a message, as a clause."""
        published, answer = history.published, history.of_kind(*events.ANSWERS)
        if answer is not None:
            return "was confirmed" if answer.kind == events.CONFIRMED else "was nacked by the broker"
        if published is not None and published.conn is None:
            return "was not confirmed: the test published it itself"
        if published is not None and published.tag is None:
            return "was not confirmed: its channel is not in confirm mode"
        return "was neither confirmed nor nacked"

    def who(self, event: Event) -> str:
        """Return who caused an event: a client's connection and channel, or the test and its line."""
        number = cast("int | None", event.get("conn"))
        if number is None:
            line = self._lines.get(event.message.id) if event.kind in events.ABOUT_MESSAGES else None
            return "the test" if line is None else f"the test at {line.partition(', called from')[0]}"
        return client_place_text(self.client(number), number, cast("int | None", event.get("chan")))

    def client(self, number: int | None) -> str:
        """Return the client's name for a connection, open or closed; None is the test itself."""
        if number is None:
            return "the test"
        for connection in connections(self._node):
            if connection.number == number and connection.client_name:
                return connection.client_name
        return self._clients.get(number) or f"connection {number}"

    def _know(self, event: Event) -> None:
        """Take an event that explains what happened to messages."""
        conn = event.conn
        if event.kind == events.QUEUE_DECLARE:
            self._deletions.declared(event.vhost, str(event.queue), conn)
        elif event.kind == events.QUEUE_DELETE:
            self._deletions.deleted(event.vhost, str(event.queue), event.at, conn, event.reason)
        elif conn is not None and event.kind == events.CONN_OPEN:
            self._clients[conn] = event.client
            self._deletions.connected(conn, event.client)
        elif conn is not None:
            self._closed[conn] = (event.at, event.reason is None)
            self._deletions.closed(conn, event.reason)

    def _add(self, event: Event, *, is_recent: bool) -> None:
        message = cast("Message", event.message)
        history = self._by_message.get(message.id)
        if history is None:
            history = self._by_message[message.id] = MessageHistory(message, event.vhost)
        history.is_recent = history.is_recent or is_recent
        copy = cast("int | None", event.get("copy"))
        if copy is None:
            self._add_own(history, event, is_recent=is_recent)
            return
        copy_history = history.copies.get(copy)
        if copy_history is None:
            copy_history = history.copies[copy] = CopyHistory(cast("str", event.queue), message)
        if event.kind == events.ENQUEUED and event.src_copy is not None:
            self._arrivals.setdefault(event.src_copy, []).append(copy_history.queue)
        copy_history.events.append(event)
        if is_recent:
            copy_history.recent.append(event)

    def _add_own(self, history: MessageHistory, event: Event, *, is_recent: bool) -> None:
        if event.kind == events.PUBLISHED:
            history.published = event
            if event.conn is None:
                self._lines[history.message.id] = self._caller
        history.events.append(event)
        if is_recent:
            history.recent.append(event)

    def _unrouted_text(self, history: MessageHistory) -> str:
        # A returned message is dropped as well. The return says more.
        end = history.of_kind(events.RETURNED) or history.of_kind(events.DROPPED)
        if end is None:
            holder = uncommitted(self._node).get(history.message.id)
            return "reached no queue" if holder is None else f"waits for tx.commit of {holder}"
        if end.reason in NOT_COMMITTED:
            return f"was dropped ({end.reason}): its transaction was not committed"
        if end.kind == events.DROPPED and end.reason != events.NO_ROUTE:
            return f"was dropped ({end.reason}) and reached no queue"
        verb = "returned" if end.kind == events.RETURNED else "dropped"
        message = history.message
        deleted = self._deletions.text(history.vhost, message.routing_key, end.at)
        return f"was {verb}, no route: {why_unrouted(self._node, history.vhost, message, deleted=deleted)}"

    def _end_text(self, copy: int, copy_history: CopyHistory, *, is_asked: bool) -> str:
        event, place = copy_history.events[-1], f"{copy_history.queue!r}"
        deliveries = copy_history.deliveries
        by = f" by {self._holder(deliveries[-1])}" if deliveries else ""
        match event.kind:
            case events.ENQUEUED:
                return f"is still ready{self._since(event)} in {place}{self._untaken(event) if is_asked else ''}"
            case events.REQUEUED:
                how = _REQUEUED.get(str(event.reason), f"requeued ({event.reason})")
                often = f" after {count_text(len(deliveries), 'delivery attempt')}"
                return f"was {how} and is ready again in {place}{often}{self._full(event)}"
            case kind if kind in events.DELIVERIES:
                return f"is unacked{self._since(event)} in {place}, held{by}"
            case events.ACKED if event.reason == NO_ACK:
                return f"was delivered from {place} with no_ack{by}, so no client acknowledged it"
            case events.EXPIRED:
                return f"expired in {place}{self._lost(event)}"
            case events.DROPPED:
                return f"was dropped from {place} ({reason_of(event)}){by}{self._lost(event)}"
            case events.PURGED:
                return f"was deleted with {place}" if event.reason == "queue_deleted" else f"was purged from {place}"
            case events.DEAD_LETTERED:
                return f"was dead-lettered from {place} ({event.reason}){by} {self._arrival_text(copy, event)}"
            case kind:
                return f"was {kind} in {place}{by}"

    def _arrival_text(self, copy: int, event: Event) -> str:
        arrived = self.arrivals(copy)
        if not arrived:
            return f"to exchange {event.exchange!r}, which led to no queue"
        return f"to {', '.join(map(repr, arrived))}"

    def _untaken(self, event: Event) -> str:
        queue = self._queue_of(event)
        if queue is None or len(queue.consumers):
            return f", never delivered{self._full(event)}"
        left = self.circumstances.consumer_left(event.vhost, queue.name, self._node.now)
        return f", which has no consumers{f': {left}' if left else ''}"

    def _full(self, event: Event) -> str:
        queue = self._queue_of(event)
        full = "" if queue is None else full_text(queue, self._node)
        return f": {full}" if full else ""

    def _queue_of(self, event: Event) -> StoredQueue | None:
        vhost = self._node.vhosts.get(event.vhost)
        return None if vhost is None else vhost.queues.get(str(event.queue))

    def _lost(self, event: Event) -> str:
        why = why_not_dead_lettered(self._node, event.vhost, str(event.queue))
        return f" ({why})" if why else ""

    def _holder(self, delivery: Event) -> str:
        tag = delivery.get("consumer")
        place = "" if delivery.conn is None else place_text(delivery.conn, delivery.chan)
        return holder_text(None if tag is None else str(tag), self.client(delivery.conn), place)

    def _since(self, event: Event) -> str:
        """Return for how long it has been so, if that is long enough to matter."""
        age_us = self._node.now - event.at
        return f" for {span_text(age_us)}" if age_us >= NOTABLE_US else ""


def _headers_text(message: Message) -> str:
    """Return the headers of a message; "" if it has none, or if it is a task, whose content names what matters."""
    table = message.headers
    headers = {} if table is None else table.to_python()
    own = {name: value for name, value in headers.items() if not name.startswith(DEATH_HEADERS)}
    return f", headers {shown(own)}" if own and task_of(headers) is None else ""
