"""The history of the messages in a trace, for the text of a failing assertion.

`Histories` reads the raw events once and follows every copy of every message. Dead-lettering keeps the number of the
message. What happened before the current test began is kept apart: it explains, but it does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.observe.assertions.searching import NOT_COMMITTED
from leveret.observe.calls.calls import shown
from leveret.observe.texts.circumstances import NOTABLE_US, Circumstances
from leveret.observe.texts.routes import Unrouted, why_not_dead_lettered
from leveret.observe.texts.state import connections, full_text, holder_text, uncommitted
from leveret.observe.views.message_view import DEATH_HEADERS
from leveret.observe.views.names import existing_queue
from leveret.story.causes import Cause, clause
from leveret.story.deletions import Deletions
from leveret.story.lives import CopyLife, MessageLife, end_text
from leveret.story.words import AGAIN, why
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.events import Event, RawEvent, named, task_of
from leveret.wording import client_place_text, count_text, place_text, span_text

# How many copies of a message the text describes.
_COPIES: Final = 3

CopyHistory = CopyLife[Event]


class MessageHistory(MessageLife[Event]):
    """The life of a message that a broker still has in its trace."""

    @property
    def message(self) -> Message:
        """The message as it was first seen: as it was published, unless the trace begins later."""
        first = next(iter(self.facts), None) or next(iter(self.copies.values())).facts[0]
        return cast("Message", first.message)


class Histories:
    """The histories of all messages in a trace."""

    def __init__(self, raw_events: Sequence[RawEvent], node: Node) -> None:
        self._node: Final = node
        self._by_message: Final[dict[int, MessageHistory]] = {}
        self.circumstances: Final = Circumstances()
        self._clients: Final = self.circumstances.clients
        self._deletions: Final = Deletions(self._clients)
        # The lines at which the test published, by message.
        self._lines: Final[dict[int, Caller | None]] = {}
        began = events.began_at(raw_events)
        for at, raw in enumerate(raw_events):
            if raw[0] in Circumstances.KINDS:
                self.circumstances.note(Event(raw))
            if raw[0] in events.ABOUT_MESSAGES:
                self._add(Event(raw), is_recent=at >= began)
            elif raw[0] in Deletions.KINDS:
                self._deletions.take(Event(raw))

    @property
    def recent(self) -> list[MessageHistory]:
        """The messages to which something happened in the current test, in the order of their numbers."""
        return [history for history in self._by_message.values() if history.is_recent]

    def history_of(self, message_id: int) -> MessageHistory:
        """Return the history of a message that is in the trace."""
        return self._by_message[message_id]

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
        clauses = [self._end_text(history, copy, is_asked=first in (None, copy.queue)) for _, copy in copies]
        more = len(history.copies) - len(copies)
        return clauses + ([f"has {more} more {'copy' if more == 1 else 'copies'}"] if more > 0 else [])

    def delivery_became(self, history: MessageHistory, delivery: Event) -> str:
        """Return what became of a delivery, as a clause: the copy may have been delivered again."""
        copy_history = history.copies[cast("int", delivery.copy)]
        at = next(index for index, event in enumerate(copy_history.facts) if event.raw is delivery.raw)
        later = copy_history.facts[at + 1 :]
        end = next((event for event in later if event.kind not in events.REFUSING), None)
        if end is None or end.kind not in events.REQUEUES:
            return self._end_text(history, copy_history, is_asked=True)
        if end.reason != "channel_closed":
            return f"was {why(end.kind, end.reason)}"
        conn = delivery.conn or 0
        client = self._clients.known.get(conn)
        if client is None or client.closed_at != end.at:
            return f"was requeued when {place_text(conn, delivery.chan)} closed"
        if not client.is_lost:
            return f"was requeued when {place_text(conn)} closed its connection"
        return f"was lost with {place_text(conn)}'s connection, and requeued"

    def is_uncommitted(self, history: MessageHistory) -> bool:
        """Return whether a message was published in a transaction that has not been committed."""
        end = history.lost
        return (end is not None and end.reason in NOT_COMMITTED) or history.message.id in uncommitted(self._node)

    def describe_answer(self, history: MessageHistory) -> str:
        """Return how the broker answered the publisher of a message, as a clause."""
        published, answer = history.published, history.answer
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
            return "the test" if line is None else f"the test at {line.inner}"
        return client_place_text(self.client(number), number, cast("int | None", event.get("chan")))

    def client(self, number: int | None) -> str:
        """Return the client's name for a connection, open or closed; None is the test itself."""
        if number is None:
            return "the test"
        for connection in connections(self._node):
            if connection.number == number and connection.client_name:
                return connection.client_name
        return self._clients.name(number, f"connection {number}")

    def _add(self, event: Event, *, is_recent: bool) -> None:
        number = event.message.id
        history = self._by_message.get(number)
        if history is None:
            history = self._by_message[number] = MessageHistory(number, event.vhost)
        history.live(event, is_recent=is_recent)
        if event.kind == events.PUBLISHED and event.conn is None:
            self._lines[number] = self._clients.caller

    def _unrouted_text(self, history: MessageHistory) -> str:
        end = history.lost
        if end is None:
            holder = uncommitted(self._node).get(history.message.id)
            return "reached no queue" if holder is None else f"waits for tx.commit of {holder}"
        if end.reason in NOT_COMMITTED:
            return f"was dropped ({end.reason}): its transaction was not committed"
        if end.kind not in events.RETURNS and end.reason != events.NO_ROUTE:
            return f"was dropped ({end.reason}) and reached no queue"
        message = history.message
        deleted = self._deletions.text(history.vhost, message.routing_key, end.at)
        return f"was {end.kind}, no route: {clause(Unrouted(self._node).why(history.vhost, message, deleted=deleted))}"

    def _end_text(self, history: MessageHistory, copy: CopyHistory, *, is_asked: bool) -> str:
        event = copy.facts[-1]
        slots: dict[str, Callable[[], str]] = {
            "queue": lambda: repr(copy.queue),
            "holder": lambda: self._holder(copy.deliveries[-1]) if copy.deliveries else "",
            "reason": lambda: str(events.reason_of(event.kind, event.get("reason"))),
            "how": lambda: why(event.kind, event.get("reason")),
            "often": lambda: count_text(len(copy.deliveries), "delivery attempt") if copy.state == AGAIN else "",
            "since": lambda: self._since(event),
            "untaken": lambda: self._untaken(event, copy, is_asked=is_asked),
            "target": lambda: _arrival_text(history.arrivals(copy.number), event),
            "why": lambda: _clause(why_not_dead_lettered(self._node, event.vhost, copy.queue)),
        }
        return end_text(copy, lambda name: slots[name]())

    def _untaken(self, event: Event, copy: CopyHistory, *, is_asked: bool) -> str:
        """Return why no consumer has taken a copy that is ready."""
        if copy.state == AGAIN:
            return self._full(event)
        queue = existing_queue(self._node, event.vhost, event.queue)
        if not is_asked:
            return ""
        if queue is None or len(queue.consumers):
            return f", never delivered{self._full(event)}"
        left = self.circumstances.consumer_left(event.vhost, queue.name, self._node.now)
        return f", which has no consumers{f': {left}' if left else ''}"

    def _full(self, event: Event) -> str:
        queue = existing_queue(self._node, event.vhost, event.queue)
        full = "" if queue is None else full_text(queue, self._node)
        return f": {full}" if full else ""

    def _holder(self, delivery: Event) -> str:
        tag = delivery.get("consumer")
        channel = "" if delivery.conn is None else place_text(delivery.conn, delivery.chan)
        return holder_text(None if tag is None else str(tag), self.client(delivery.conn), channel)

    def _since(self, event: Event) -> str:
        """Return for how long it has been so, if that is long enough to matter."""
        age_us = self._node.now - event.at
        return f" for {span_text(age_us)}" if age_us >= NOTABLE_US else ""


def _clause(cause: Cause | None) -> str:
    return "" if cause is None else clause(cause)


def _arrival_text(arrived: list[str], death: Event) -> str:
    """Return where a dead letter went."""
    if not arrived:
        return f"to exchange {death.exchange!r}, which led to no queue"
    return f"to {', '.join(map(repr, arrived))}"


def _headers_text(message: Message) -> str:
    """Return the headers of a message; "" if it has none, or if it is a task, whose content names what matters."""
    table = message.headers
    headers = {} if table is None else table.to_python()
    own = {name: value for name, value in headers.items() if not name.startswith(DEATH_HEADERS)}
    return f", headers {shown(own)}" if own and task_of(headers) is None else ""
