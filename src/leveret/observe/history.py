"""The history of the messages in a trace, for the text of a failing assertion.

`Histories` reads the raw events once and follows every copy of every message. Dead-lettering keeps the number of the
message. The last event of each copy says what happened to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.matching import Matcher
from leveret.observe.message_view import MessageView
from leveret.observe.searching import NO_ACK, reason_of
from leveret.observe.state import connections
from leveret.observe.wording import count_text, span_text
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Node
    from leveret.trace.events import RawEvent


@dataclass(slots=True)
class CopyHistory:
    """The history of a copy: its queue, and its last events."""

    queue: str
    last: Event
    last_delivery: Event | None = None
    delivery_count: int = 0


@dataclass(slots=True)
class MessageHistory:
    """The history of a message: its publish, and its copies in order."""

    message: Message
    vhost: str
    published: Event | None
    copies: dict[int, CopyHistory]
    # The event that returned or dropped it, if it reached no queue.
    unrouted: Event | None = None
    # The confirm or nack sent to its publisher, in confirm mode.
    answer: Event | None = None


class Histories:
    """The histories of all messages in a trace."""

    def __init__(self, raw_events: Iterable[RawEvent], node: Node) -> None:
        self._node: Final = node
        self._by_message: Final[dict[int, MessageHistory]] = {}
        self._clients: Final[dict[int, str]] = {}
        # The queues a dead letter arrived in, by the number of the copy that died.
        self._arrivals: Final[dict[int, list[str]]] = {}
        # The line of the test's latest call to the broker, and the lines at which it published, by message.
        self._caller: str | None = None
        self._lines: Final[dict[int, str | None]] = {}
        for raw in raw_events:
            if raw[0] in events.ABOUT_MESSAGES:
                self._add(Event(raw))
            elif raw[0] == events.CONN_OPEN:
                opened = Event(raw)
                self._clients[opened.conn or 0] = opened.client
            elif raw[0] == events.CALLED:
                self._caller = Event(raw).caller

    def matching(self, matcher: Matcher, vhost: str, *, first: str | None) -> list[MessageHistory]:
        """Return the messages whose content matches, those with a copy in the queue `first` before the others."""
        content = [criterion for criterion in matcher.criteria if criterion.name != "redelivered"]
        matching = [
            history
            for history in self._by_message.values()
            if history.vhost == vhost and all(criterion.matches(MessageView(history.message)) for criterion in content)
        ]
        return sorted(
            matching, key=lambda history: all(copy_history.queue != first for copy_history in history.copies.values())
        )

    def describe(self, history: MessageHistory, *, first: str | None) -> list[str]:
        """Return what happened to a message: a line for each copy, those in the queue `first` before the others."""
        if history.unrouted is not None and not history.copies:
            verb = "was returned" if history.unrouted.kind == events.RETURNED else "was dropped"
            return [f"{verb} ({history.unrouted.reason}): it reached no queue"]
        if not history.copies:
            return ["it reached no queue"]
        copies = sorted(history.copies.items(), key=lambda item: item[1].queue != first)
        return [f"in {copy_history.queue!r}: {self._end_text(copy, copy_history)}" for copy, copy_history in copies]

    def describe_answer(self, history: MessageHistory) -> str:
        """Return how the broker answered the publisher of a message."""
        published, answer = history.published, history.answer
        if answer is not None:
            return "confirmed" if answer.kind == events.CONFIRMED else "nacked by the broker"
        if published is not None and published.conn is None:
            return "not confirmed: the test published it itself"
        if published is not None and published.tag is None:
            return "not confirmed: its channel is not in confirm mode"
        return "neither confirmed nor nacked"

    def who(self, event: Event) -> str:
        """Return who caused an event: a client's connection and channel, or the test and its line."""
        number = cast("int | None", event.get("conn"))
        if number is None:
            line = self._lines.get(event.message.id) if event.kind in events.ABOUT_MESSAGES else None
            return "the test" if line is None else f"the test at {line}"
        return f"{self.client(number)} (connection {number}, channel {event.get('chan')})"

    def client(self, number: int | None) -> str:
        """Return the client's name for a connection, open or closed; None is the test itself."""
        if number is None:
            return "the test"
        for connection in connections(self._node):
            if connection.number == number and connection.client_name:
                return connection.client_name
        return self._clients.get(number) or f"connection {number}"

    def _add(self, event: Event) -> None:
        message = cast("Message", event.message)
        history = self._by_message.get(message.id)
        if history is None:
            history = self._by_message[message.id] = MessageHistory(message, event.vhost, None, {})
        copy = cast("int | None", event.get("copy"))
        if copy is None:
            if event.kind == events.PUBLISHED:
                history.published = event
                if event.conn is None:
                    self._lines[history.message.id] = self._caller
            elif event.kind in (events.RETURNED, events.DROPPED):
                # A returned message is dropped as well. Keep the return, because it says more.
                history.unrouted = history.unrouted or event
            elif event.kind in events.ANSWERS:
                history.answer = event
            return
        copy_history = history.copies.get(copy)
        if copy_history is None:
            copy_history = history.copies[copy] = CopyHistory(cast("str", event.queue), event)
        if event.kind in events.DELIVERIES:
            copy_history.last_delivery = event
            copy_history.delivery_count += 1
        elif event.kind == events.ENQUEUED and event.src_copy is not None:
            self._arrivals.setdefault(event.src_copy, []).append(copy_history.queue)
        copy_history.last = event

    def _end_text(self, copy: int, copy_history: CopyHistory) -> str:
        event = copy_history.last
        by = f" by {self._holder(copy_history)}" if copy_history.last_delivery is not None else ""
        match event.kind:
            case events.ENQUEUED:
                return f"still ready after {self._age(event)}, never delivered"
            case events.REQUEUED:
                return (
                    f"ready again ({event.reason}) after {count_text(copy_history.delivery_count, 'delivery attempt')}"
                )
            case kind if kind in events.DELIVERIES:
                return f"unacked for {self._age(event)}, held{by}"
            case events.ACKED if event.reason == NO_ACK:
                return f"delivered with no_ack{by}, so no client acknowledged it"
            case events.EXPIRED:
                return "expired"
            case events.DROPPED:
                return f"dropped ({reason_of(event)}){by}"
            case events.PURGED:
                return "deleted with its queue" if event.reason == "queue_deleted" else "purged"
            case events.DEAD_LETTERED:
                arrived = ", ".join(map(repr, self._arrivals.get(copy, ()))) or "no queue"
                return f"dead-lettered ({event.reason}) to exchange {event.exchange!r}, which routed it to {arrived}"
            case kind:
                return f"{kind}{by}"

    def _holder(self, copy_history: CopyHistory) -> str:
        assert copy_history.last_delivery is not None
        tag = copy_history.last_delivery.get("consumer")
        what = "a basic.get" if tag is None else str(tag)
        return f"{what} of {self.client(copy_history.last_delivery.conn)}"

    def _age(self, event: Event) -> str:
        return span_text(self._node.now - event.at)
