"""What became of messages: the story of each copy, told from the trace for a failing assertion.

It reads the raw events once, follows every copy of every message (dead-lettering keeps the message's number), and puts
the last thing that happened to a copy into words.
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
class Fate:
    """One copy: where it lay, and what happened to it."""

    queue: str
    # The last event but acks and rejections that something else follows.
    last: Event
    last_delivery: Event | None = None
    delivery_count: int = 0


@dataclass(slots=True)
class Story:
    """One message: how it was published, and its copies in order."""

    message: Message
    vhost: str
    published: Event | None
    fates: dict[int, Fate]
    # Of a message that reached no queue.
    unrouted: Event | None = None
    # What its publisher was told of it, in confirm mode.
    answer: Event | None = None


class Chronicle:
    """Every message in a trace, and what became of it."""

    def __init__(self, raw_events: Iterable[RawEvent], node: Node) -> None:
        self._node: Final = node
        self._stories: Final[dict[int, Story]] = {}
        self._clients: Final[dict[int, str]] = {}
        # Copies made of a dying copy: the queues a dead letter arrived in.
        self._heirs: Final[dict[int, list[str]]] = {}
        # The line at which the test called the broker last, and those at which it published.
        self._caller: str | None = None
        self._lines: Final[dict[int, str | None]] = {}
        for raw in raw_events:
            if raw[0] in events.ABOUT_MESSAGES:
                self._tell(Event(raw))
            elif raw[0] == events.CONN_OPEN:
                opened = Event(raw)
                self._clients[opened.conn or 0] = opened.client
            elif raw[0] == events.CALLED:
                self._caller = Event(raw).caller

    def stories_of(self, matcher: Matcher, vhost: str, *, first: str | None) -> list[Story]:
        """The messages that match by their content, those with a copy in the queue `first` before the others."""
        content = [criterion for criterion in matcher.criteria if criterion.name != "redelivered"]
        matching = [
            story
            for story in self._stories.values()
            if story.vhost == vhost and all(criterion.matches(MessageView(story.message)) for criterion in content)
        ]
        return sorted(matching, key=lambda story: all(fate.queue != first for fate in story.fates.values()))

    def tell(self, story: Story, *, first: str | None) -> list[str]:
        """What became of a message, a line for each copy, those in the queue `first` before the others."""
        if story.unrouted is not None and not story.fates:
            verb = "was returned" if story.unrouted.kind == events.RETURNED else "was dropped"
            return [f"{verb} ({story.unrouted.reason}): it reached no queue"]
        if not story.fates:
            return ["it reached no queue"]
        fates = sorted(story.fates.items(), key=lambda item: item[1].queue != first)
        return [f"in {fate.queue!r}: {self._ending(copy, fate)}" for copy, fate in fates]

    def tell_answer(self, story: Story) -> str:
        """What the publisher of a message was told of it."""
        published, answer = story.published, story.answer
        if answer is not None:
            return "confirmed" if answer.kind == events.CONFIRMED else "nacked by the broker"
        if published is not None and published.conn is None:
            return "not confirmed: the test published it itself"
        if published is not None and published.tag is None:
            return "not confirmed: its channel is not in confirm mode"
        return "neither confirmed nor nacked"

    def who(self, event: Event) -> str:
        """Who caused an event: a client's connection and channel, or the test and its line."""
        number = cast("int | None", event.get("conn"))
        if number is None:
            line = self._lines.get(event.message.id) if event.kind in events.ABOUT_MESSAGES else None
            return "the test" if line is None else f"the test at {line}"
        return f"{self.client(number)} (connection {number}, channel {event.get('chan')})"

    def client(self, number: int | None) -> str:
        """What a client called its connection, also when it has gone; None is the test itself."""
        if number is None:
            return "the test"
        for connection in connections(self._node):
            if connection.number == number and connection.client_name:
                return connection.client_name
        return self._clients.get(number) or f"connection {number}"

    def _tell(self, event: Event) -> None:
        message = cast("Message", event.message)
        story = self._stories.get(message.id)
        if story is None:
            story = self._stories[message.id] = Story(message, event.vhost, None, {})
        copy = cast("int | None", event.get("copy"))
        if copy is None:
            if event.kind == events.PUBLISHED:
                story.published = event
                if event.conn is None:
                    self._lines[story.message.id] = self._caller
            elif event.kind in (events.RETURNED, events.DROPPED):
                # A returned message is dropped as well; that it was returned says more.
                story.unrouted = story.unrouted or event
            elif event.kind in events.ANSWERS:
                story.answer = event
            return
        fate = story.fates.get(copy)
        if fate is None:
            fate = story.fates[copy] = Fate(cast("str", event.queue), event)
        if event.kind in events.DELIVERIES:
            fate.last_delivery = event
            fate.delivery_count += 1
        elif event.kind == events.ENQUEUED and event.src_copy is not None:
            self._heirs.setdefault(event.src_copy, []).append(fate.queue)
        fate.last = event

    def _ending(self, copy: int, fate: Fate) -> str:
        event = fate.last
        by = f" by {self._holder(fate)}" if fate.last_delivery is not None else ""
        match event.kind:
            case events.ENQUEUED:
                return f"still ready after {self._since(event)}, never delivered"
            case events.REQUEUED:
                return f"ready again ({event.reason}) after {count_text(fate.delivery_count, 'delivery')}"
            case kind if kind in events.DELIVERIES:
                return f"unacked since {self._since(event)}, held{by}"
            case events.ACKED if event.reason == NO_ACK:
                return f"delivered with no_ack{by}; nobody acknowledged it"
            case events.EXPIRED:
                return "expired"
            case events.DROPPED:
                return f"dropped ({reason_of(event)}){by}"
            case events.PURGED:
                return "gone with its queue" if event.reason == "queue_deleted" else "purged"
            case events.DEAD_LETTERED:
                arrived = ", ".join(map(repr, self._heirs.get(copy, ()))) or "no queue"
                return f"dead-lettered ({event.reason}) to exchange {event.exchange!r}, which led to {arrived}"
            case kind:
                return f"{kind}{by}"

    def _holder(self, fate: Fate) -> str:
        assert fate.last_delivery is not None
        tag = fate.last_delivery.get("consumer")
        what = "a basic.get" if tag is None else str(tag)
        return f"{what} of {self.client(fate.last_delivery.conn)}"

    def _since(self, event: Event) -> str:
        return span_text(self._node.now - event.at)
