"""Numbers that differ by exactly what clients took, or sent, once more or once less than a test expected.

A number is close to many others, so each rule here needs the whole sum: what came again holds the very surplus, or one
of several consumers got the very number that the test has, of as many messages as it expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from leveret.story.asked import said_by
from leveret.story.causes import Cause
from leveret.story.entities import ConsumerLife, MessageLife, QueueLife
from leveret.story.ways.inquiry import Inquiry, key


class Amounts:
    """The numbers that a failed test compared."""

    def __init__(self, inquiry: Inquiry) -> None:
        self._inquiry: Final = inquiry
        asked = inquiry.asked
        # How much more there was than expected, in all, or of what a key names.
        both: list[tuple[str | None, tuple[int, int]]] = [*asked.counts.items()]
        both += [] if asked.total is None else [(None, asked.total)]
        self._surplus: Final = {name: found - expected for name, (expected, found) in both if found > expected}

    def causes(self) -> Iterator[Cause]:
        """Yield what explains a number exactly."""
        yield from self._published_again()
        for queue in self._inquiry.reached:
            if self._is_shared(queue):
                yield sharing(self._inquiry, queue.consumers)

    def came_again(self) -> list[MessageLife]:
        """Return the messages that were delivered more than once and hold the surplus."""
        found = []
        for name, surplus in self._surplus.items():
            lives = [life for life in self._of(name) if _deliveries(life) > 1]
            fields = {field for life in lives for field in _numbers(life)}
            sums = (sum(_numbers(life).get(field, 0) * (_deliveries(life) - 1) for life in lives) for field in fields)
            if surplus not in sums:
                return []
            found += lives
        return found

    def _of(self, name: str | None) -> list[MessageLife]:
        lives = self._inquiry.lives
        return lives if name is None else [life for life in lives if key(name) in map(key, said_by(life))]

    def _published_again(self) -> Iterator[Cause]:
        """Yield that a client published again what holds the surplus, with another id or without one."""
        for name, surplus in self._surplus.items():
            alike: dict[object, list[MessageLife]] = {}
            for life in self._of(name):
                if life.publisher is not None and (numbers := _numbers(life)):
                    message = life.message
                    place = (life.publisher, message.exchange, message.routing_key, repr(_content(life)))
                    if surplus in numbers.values():
                        alike.setdefault(place, []).append(life)
            again = [lives for lives in alike.values() if len(lives) == 2 and _id(lives[0]) != _id(lives[1])]
            if len(again) == 1:
                first, second = again[0]
                ids = "with another message id" if _id(second) else "without its message id"
                facts = (first.published, second.published)
                yield self._inquiry.say("published_again", second, *facts, request=first.number, ids=ids)

    def _is_shared(self, queue: QueueLife) -> bool:
        """Return whether consumers share all that a fanout exchange sends, and one got what the test has."""
        came = {
            copy.message.number for life in self._inquiry.lives for copy in life.copies.values() if copy.queue is queue
        }
        bindings = [one for one in self._inquiry.timeline.bindings if one.destination == queue.place]
        sources = {one.source for one in bindings if one.source[1]}
        exchanges = [exchange for place, exchange in self._inquiry.timeline.exchanges.items() if place in sources]
        is_fanout = bool(exchanges) and all(any(it.type == "fanout" for it in one.declared) for one in exchanges)
        taken = [len({delivery.copy.number for delivery in one.deliveries}) for one in queue.consumers]
        if not is_fanout or len(taken) < 2 or not all(taken):
            return False
        whole = {(len(came), one) for one in taken if one < len(came)} | {(len(came) * len(taken), len(came))}
        return any(pair in whole for pair in self._inquiry.asked.amounts)


def sharing(inquiry: Inquiry, consumers: Sequence[ConsumerLife]) -> Cause:
    """Return that several consumers share their queue."""
    names = [inquiry.name(one.channel.connection) for one in consumers]
    distinct = list(dict.fromkeys(names))
    shown = distinct if len(distinct) > 1 else [f"{len(names)} consumers of {names[0]}"]
    facts = (one.since for one in consumers)
    return inquiry.say("shared", None, *facts, queue=consumers[0].queue.name, clients=shown)


def _deliveries(life: MessageLife) -> int:
    return max((len(copy.deliveries) for copy in life.copies.values()), default=0)


def _content(life: MessageLife) -> object:
    """Return what a message says, without what its library adds: the arguments of a task of dramatiq, else the body."""
    try:
        body = json.loads(life.message.body)
    except (ValueError, RecursionError):
        return life.message.body
    is_task = isinstance(body, dict) and "actor_name" in body
    return (
        {"actor": body["actor_name"], **dict(enumerate(body.get("args", ()))), **body.get("kwargs", {})}
        if is_task
        else body
    )


def _numbers(life: MessageLife) -> Mapping[object, float]:
    content = _content(life)
    fields = content if isinstance(content, dict) else {None: content}
    return {name: value for name, value in fields.items() if isinstance(value, int | float)}


def _id(life: MessageLife) -> object:
    """Return the id of a message: its property, or that in the body of a task of dramatiq."""
    content = _content(life)
    if isinstance(content, dict) and "actor" in content:
        return json.loads(life.message.body).get("message_id")
    return life.property("message_id")
