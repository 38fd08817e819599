"""The messages that a failed test asked for: those that its assertion is about, or that have or lack what it expected.

A way begins at each of them. A value counts if few messages hold it, and a number if it is what an earlier stage of a
way counted, and the number that the test has is what the stage counts where messages stop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from leveret.story.entities import CopyLife, Fact, MessageLife
from leveret.story.ways.amounts import Amounts
from leveret.story.ways.inquiry import Inquiry, key
from leveret.story.ways.replies import Replies
from leveret.story.words import UNACKED
from leveret.trace import events


class Roots:
    """The messages that a test asked for."""

    def __init__(self, inquiry: Inquiry, replies: Replies) -> None:
        self._inquiry: Final = inquiry
        self._asked: Final = inquiry.asked
        # By their numbers; the values that the test missed in them; those that it has too often.
        self.messages: Final[dict[int, MessageLife]] = {}
        self.values: Final[dict[int, object]] = {}
        self.repeated: Final[dict[int, MessageLife]] = {}
        # Those that it has in another order.
        self.reordered: list[MessageLife] = []
        # The refused publishes that were asked for.
        self.refused: Final[list[Fact]] = []
        self._find_named()
        self._find_held()
        self._find_counted()
        self._find_totalled()
        self._find_summed()
        self.repeated.update({life.number: life for life in Amounts(inquiry).came_again()})
        self._find_correlated()
        if self._asked.is_falsy and not self.messages:
            self._find_untaken()
        self._find_kept_back()
        self._find_dropped()
        if self._asked.is_wait:
            self._add(*(life for life in inquiry.lives if not all(map(_is_done, life.last_ends))))
        if self._asked.is_timeout and not self.messages:
            self._find_unanswered(replies)
        self._add(*self.repeated.values(), *self.reordered)

    def _add(self, *lives: MessageLife) -> None:
        self.messages.update({life.number: life for life in lives})

    def _find_named(self) -> None:
        messages = self._inquiry.timeline.messages
        self._add(*(messages[number] for number in self._asked.messages if number in messages))

    def _find_held(self) -> None:
        """Find the messages that hold the values of a comparison."""
        asked = self._asked
        held = self._inquiry.holders([*asked.missing, *asked.repeated, *asked.reordered])
        for value in asked.missing:
            for life in held.get(key(value), ()):
                self._add(life)
                self.values[life.number] = value
        replaced = self._inquiry.holders(asked.replaced)
        for value in asked.replaced:
            for life in replaced.get(key(value), ()):
                if life.number not in self.values and self._is_awaited(life):
                    self._add(life)
                    self.values[life.number] = value
        for value in asked.repeated:
            self.repeated.update({life.number: life for life in held.get(key(value), ())})
        short = {name: expected for name, (expected, found) in asked.counts.items() if expected > found}
        counted = {name: self._inquiry.holders([name]).get(key(name), []) for name in short}
        # They count messages if each of them does.
        for name, lives in counted.items() if all(len(counted[name]) == short[name] for name in short) else ():
            self._add(*lives)
            self.values.update({life.number: name for life in lives})
        in_order = [held.get(key(value), []) for value in asked.reordered]
        if all(len(lives) == 1 for lives in in_order):
            self.reordered = [lives[0] for lives in in_order]

    def _find_counted(self) -> None:
        """Find the messages that a count misses: it expected what was published, and has what arrived."""
        count = self._asked.count or self._asked.total
        if count is None or self.messages or not any(count):
            return
        expected, found = count
        if found > expected and self._asked.queues:
            for queue in map(self._inquiry.queue, self._asked.queues):
                self._add(*(() if queue is None else (copy.message for copy in queue.ready.values())))
            return
        for group, refused in self._groups():
            deliveries = sum(len(copy.deliveries) for life in group for copy in life.copies.values())
            if len(group) == expected < found <= deliveries:
                self.repeated.update({life.number: life for life in group})
                return
            stopped = [life for life in group if not self._is_through(life)]
            if len(group) + len(refused) == expected and len(group) - len(stopped) == found and found < expected:
                self._add(*stopped)
                self.refused.extend(refused)
                return
            if self._asked.queues and found < expected:
                # What was sent to the very queue at which the test looked.
                self.refused.extend(refused)

    def _groups(self) -> Iterator[tuple[list[MessageLife], list[Fact]]]:
        """Yield the messages that went one way: into one queue, through one exchange, or from one client."""
        ways: dict[tuple[str, object], tuple[list[MessageLife], list[Fact]]] = {}
        for life in self._inquiry.lives:
            if life.published is None:
                continue
            message = life.message
            queues = [("queue", copy.queue.name) for copy in life.copies.values()]
            publisher = None if life.publisher is None else life.publisher.number
            for way in dict.fromkeys((*queues, _addressed(message.exchange, message.routing_key), ("from", publisher))):
                ways.setdefault(way, ([], []))[0].append(life)
        for fact in self._inquiry.timeline.refusals:
            subject = fact.subject or {}
            if subject.get("problem") == "publish":
                way = _addressed(subject.get("exchange", ""), subject.get("routing_key", ""))
                for one in (way, ("from", fact.conn)):
                    ways.setdefault(one, ([], []))[1].append(fact)
        wanted = set(self._asked.queues)
        yield from (group for (kind, name), group in ways.items() if not wanted or (kind == "queue" and name in wanted))

    def _is_through(self, life: MessageLife) -> bool:
        """Return whether a message came through: a client took it, or it lies where the test looks."""
        wanted = self._asked.queues
        ends = life.last_ends
        if wanted:
            return any(copy.queue.name in wanted and copy.is_ready for copy in ends)
        return any(copy.state in (events.ACKED, events.NO_ACK) for copy in ends)

    def _find_totalled(self) -> None:
        """Find the messages whose value a total has several times: as often as they were delivered."""
        if self._asked.total is None or self.messages:
            return
        expected, found = self._asked.total
        if expected <= 0 or found % expected or found <= expected:
            return
        lives = self._inquiry.holders([expected]).get(key(expected), [])
        if sum(len(copy.deliveries) for life in lives for copy in life.copies.values()) == found // expected:
            self.repeated.update({life.number: life for life in lives})

    def _find_summed(self) -> None:
        """Find the messages whose numbers a total misses: the others have what it has."""
        if self._asked.total is None or self.messages or self._asked.total[0] <= self._asked.total[1]:
            return
        expected, found = self._asked.total
        fed_by = set(self._inquiry.fed_by)
        for group, _ in self._groups():
            numbers = [_numbers(life) for life in group]
            stopped = [life for life in group if not self._is_through(life)]
            # Beside one alone, the total may be no sum at all.
            stopped = [] if len(group) - len(stopped) == 1 else stopped
            # Nor is it one of messages that lie in other queues than those that fill it.
            reached = {copy.queue for life in stopped for copy in life.copies.values()}
            stopped = [] if fed_by and reached and reached.isdisjoint(fed_by) else stopped
            for name in numbers[0] if numbers and stopped else ():
                missed = sum(_numbers(life).get(name, 0) for life in stopped)
                if missed == expected - found and sum(one.get(name, 0) for one in numbers) == expected:
                    self._add(*stopped)
                    return

    def _find_correlated(self) -> None:
        """Find the requests with the correlation id that a lookup missed, and what came to the queue for the reply."""
        asked = self._asked.correlation
        if isinstance(asked, str):
            lives = [life for life in self._inquiry.lives if life.property("correlation_id") == asked]
            wanted = {life.property("reply_to") for life in lives} - {None}
            self._add(*lives, *(life for life in self._inquiry.lives if life.message.routing_key in wanted))

    def _find_untaken(self) -> None:
        """Find the messages of the queues that fill what is empty, if no client has settled any."""
        for queue in self._inquiry.fed_by:
            lives = [life for life in self._inquiry.lives if life.has_reached(queue.name)]
            if lives and not any(map(self._is_through, lives)):
                self._add(*lives)

    def _is_awaited(self, life: MessageLife) -> bool:
        """Return whether consumers waited for a message that came to none of them.

        It waits in their queue, or reached none, and its exchange leads to a queue of theirs to which nothing came.
        """
        copies, bindings = life.copies.values(), self._inquiry.timeline.bindings
        if life.lost is None:
            return bool(copies) and all(one.is_ready and not one.deliveries and one.queue.consumers for one in copies)
        led = {one.destination for one in bindings if one.source == (life.vhost, life.message.exchange)}
        empty = (queue for queue in self._inquiry.timeline.queues.values() if queue not in self._inquiry.reached)
        return not copies and any(one.place in led and one.consumers for one in empty)

    def _find_kept_back(self) -> None:
        """Find the messages that wait in the queues that fill what is short.

        There is nothing of it and their consumers have others, or a client was refused its ack and so gave them back.
        """
        asked = self._asked
        is_nothing = asked.is_falsy or any(found == 0 for _, found in filter(None, (asked.count, asked.total)))
        for queue in self._inquiry.fed_by if not self.messages else ():
            if is_nothing and queue.unacked and queue.living_consumers:
                self._add(*(copy.message for copy in queue.ready.values()))
            left = [copy for copy in queue.ready.values() if copy.deliveries and copy.deliveries[-1].is_left]
            self._add(*(one.message for one in left if (by := one.deliveries[-1].connection) and by.refusals))

    def _find_dropped(self) -> None:
        """Find the messages that a client held when it died, if they were to fill what a total is short of."""
        total = self._asked.total
        if (
            total is None
            or self.messages
            or total[0] <= total[1]
            or not any(one.is_client for one in self._asked.deaths)
        ):
            return
        for queue in self._inquiry.fed_by:
            self._add(*(copy.message for copy in queue.unacked.values()))

    def _find_unanswered(self, replies: Replies) -> None:
        """Find the requests without a reply, and what was published to the queues for their replies in vain.

        If all have replies, one of them may not show which request it answers.
        """
        asking = list(replies.unanswered())
        if not asking:
            self._add(*replies.unmatched())
        wanted = {life.property("reply_to") for life in asking}
        self._add(*asking)
        self._add(
            *(
                life
                for life in self._inquiry.lives
                if life.message.routing_key in wanted and (life.lost is not None or not life.message.exchange)
            )
        )


def _addressed(exchange: str, routing_key: str) -> tuple[str, object]:
    """Return the place to which a client publishes: an exchange, or by the default one a queue."""
    return ("exchange", exchange) if exchange else ("queue", routing_key)


def _numbers(life: MessageLife) -> dict[object, float]:
    """Return the numbers in the body of a message by the names of their fields; one that is alone has no name."""
    try:
        body = json.loads(life.message.body)
    except (ValueError, RecursionError):
        return {}
    fields = body if isinstance(body, dict) else {None: body}
    return {name: value for name, value in fields.items() if type(value) in (int, float)}


def is_taken(life: MessageLife) -> bool:
    """Return whether a client took a message: it acked a copy, or read it from a stream."""
    copies = life.copies.values()
    return any(one.state in (events.ACKED, events.NO_ACK) or (one.queue.is_stream and one.deliveries) for one in copies)


def _is_done(copy: CopyLife) -> bool:
    """Return whether nothing more will happen to a copy by itself."""
    return not copy.is_ready and copy.state != UNACKED
