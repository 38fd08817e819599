"""The history of the messages in a trace, for the text of a failing assertion.

`Histories` words what a timeline shows of messages, their copies and deliveries. What happened before the current test
began explains, but it does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast

from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.observe.assertions.searching import NOT_COMMITTED
from leveret.observe.calls.calls import shown
from leveret.observe.texts.circumstances import Circumstances
from leveret.observe.texts.routes import Unrouted, why_not_dead_lettered
from leveret.observe.texts.state import connections, full_text, holder_text, uncommitted
from leveret.observe.views.message_view import DEATH_HEADERS
from leveret.observe.views.names import existing_queue
from leveret.story.causes import Cause, clause
from leveret.story.entities import NOTABLE_US, CopyLife, DeliveryLife, Fact, MessageLife, arrival_text, end_text
from leveret.story.timeline import Timeline
from leveret.story.words import AGAIN, why
from leveret.trace import events
from leveret.trace.events import Event, named, task_of
from leveret.wording import client_place_text, count_text, place_text, span_text

# How many copies of a message the text describes.
_COPIES: Final = 3


def message_of(life: MessageLife) -> Message:
    """Return a message as it was first seen: as it was published, unless the trace begins later."""
    return cast("Message", life.message)


class Histories:
    """The histories of all messages in a trace."""

    def __init__(self, timeline: Timeline, node: Node) -> None:
        self._node: Final = node
        self._timeline: Final = timeline
        self.circumstances: Final = Circumstances(self._timeline)
        self._began: Final = self._timeline.began
        # The messages to which something happened in the current test, in the order of their numbers.
        self.recent: Final = [life for life in self._timeline.messages.values() if life.last.place >= self._began]

    def recent_of(self, facts: Iterable[Fact]) -> list[Fact]:
        """Return the facts of the current test among some."""
        return [fact for fact in facts if fact.place >= self._began]

    def history_of(self, message_id: int) -> MessageLife:
        """Return the history of a message that is in the trace."""
        return self._timeline.messages[message_id]

    def named(self, history: MessageLife) -> str:
        """Return a message with its number, where it was published to, and by whom; and its headers."""
        published, message = history.published, message_of(history)
        by = "" if published is None else f" from {self.who(published)}"
        return f"{named(message)}{by}{self._earlier_text(message)}{_headers_text(message)}"

    def named_in_queue(self, message: Message) -> str:
        """Return a message of a queue with its number and its content, and the earlier test that published it."""
        return f"{named(message)}{self._earlier_text(message)}"

    def _earlier_text(self, message: Message) -> str:
        test = self.circumstances.earlier_test(message.id)
        return f", published in {test}" if test else ""

    def became(self, history: MessageLife, *, first: str | None) -> list[str]:
        """Return what became of a message: a clause for each copy, those in the queue `first` before the others.

        Of many copies, the youngest are the ones that say how it stands.
        """
        reply = self.circumstances.wrong_reply(history)
        return [*self._clauses(history, first=first), *([reply] if reply else [])]

    def _clauses(self, history: MessageLife, *, first: str | None) -> list[str]:
        if not history.copies:
            return [self._unrouted_text(history)]
        ranked = sorted(history.copies.values(), key=lambda copy: (copy.queue.name != first, -copy.number))
        copies = sorted(ranked[:_COPIES], key=lambda copy: (copy.queue.name != first, copy.number))
        clauses = [self._end_text(copy, is_asked=first in (None, copy.queue.name)) for copy in copies]
        more = len(history.copies) - len(copies)
        return clauses + ([f"has {more} more {'copy' if more == 1 else 'copies'}"] if more > 0 else [])

    def delivery_became(self, history: MessageLife, delivery: Event) -> str:
        """Return what became of a delivery, as a clause: the copy may have been delivered again."""
        copy = history.copies[cast("int", delivery.copy)]
        found = next(one for one in copy.deliveries if one.fact.raw is delivery.raw)
        end = found.requeued
        if end is None:
            return self._end_text(copy, is_asked=True)
        if end.reason != "channel_closed" or found.channel is None:
            return f"was {why(end.kind, end.reason)}"
        client, chan = found.channel.connection, found.channel.number
        if client.closed is None or client.closed.at != end.at:
            return f"was requeued when {place_text(client.number, chan)} closed"
        if not client.is_lost:
            return f"was requeued when {place_text(client.number)} closed its connection"
        return f"was lost with {place_text(client.number)}'s connection, and requeued"

    def is_uncommitted(self, history: MessageLife) -> bool:
        """Return whether a message was published in a transaction that has not been committed."""
        end = history.lost
        return (end is not None and end.reason in NOT_COMMITTED) or history.number in uncommitted(self._node)

    def describe_answer(self, history: MessageLife) -> str:
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
            published = self._timeline.messages[event.message.id].published
            is_own = published is not None and published.conn is None
            call = self._timeline.call_before(published) if published is not None and is_own else None
            return "the test" if call is None or call.caller is None else f"the test at {call.caller.inner}"
        return client_place_text(self.client(number), number, cast("int | None", event.get("chan")))

    def client(self, number: int | None) -> str:
        """Return the client's name for a connection, open or closed; None is the test itself."""
        if number is None:
            return "the test"
        for connection in connections(self._node):
            if connection.number == number and connection.client_name:
                return connection.client_name
        known = self._timeline.connections.get(number)
        return (known.name if known is not None else "") or f"connection {number}"

    def _unrouted_text(self, history: MessageLife) -> str:
        end = history.lost
        if end is None:
            holder = uncommitted(self._node).get(history.number)
            return "reached no queue" if holder is None else f"waits for tx.commit of {holder}"
        if end.reason in NOT_COMMITTED:
            return f"was dropped ({end.reason}): its transaction was not committed"
        if end.kind not in events.RETURNS and end.reason != events.NO_ROUTE:
            return f"was dropped ({end.reason}) and reached no queue"
        message = message_of(history)
        deleted = self._timeline.deletion_text(history.vhost, message.routing_key, end.at)
        return f"was {end.kind}, no route: {clause(Unrouted(self._node).why(history.vhost, message, deleted=deleted))}"

    def _end_text(self, copy: CopyLife, *, is_asked: bool) -> str:
        event = copy.last
        slots: dict[str, Callable[[], str]] = {
            "queue": lambda: repr(copy.queue.name),
            "holder": lambda: self._holder(copy.deliveries[-1]) if copy.deliveries else "",
            "reason": lambda: str(events.reason_of(event.kind, event.get("reason"))),
            "how": lambda: why(event.kind, event.get("reason")),
            "often": lambda: count_text(len(copy.deliveries), "delivery attempt") if copy.state == AGAIN else "",
            "since": lambda: self._since(event),
            "untaken": lambda: self._untaken(event, copy, is_asked=is_asked),
            "target": lambda: arrival_text(copy),
            "why": lambda: _clause(why_not_dead_lettered(self._node, event.vhost, copy.queue.name)),
        }
        return end_text(copy.stand, lambda name: slots[name]())

    def _untaken(self, event: Event, copy: CopyLife, *, is_asked: bool) -> str:
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

    def _holder(self, delivery: DeliveryLife) -> str:
        fact = delivery.fact
        tag = fact.get("consumer")
        channel = "" if fact.conn is None else place_text(fact.conn, fact.chan)
        return holder_text(None if tag is None else str(tag), self.client(fact.conn), channel)

    def _since(self, event: Event) -> str:
        """Return for how long it has been so, if that is long enough to matter."""
        age_us = self._node.now - event.at
        return f" for {span_text(age_us)}" if age_us >= NOTABLE_US else ""


def _clause(cause: Cause | None) -> str:
    return "" if cause is None else clause(cause)


def _headers_text(message: Message) -> str:
    """Return the headers of a message; "" if it has none, or if it is a task, whose content names what matters."""
    table = message.headers
    headers = {} if table is None else table.to_python()
    own = {name: value for name, value in headers.items() if not name.startswith(DEATH_HEADERS)}
    return f", headers {shown(own)}" if own and task_of(headers) is None else ""
