"""A flow: who sent what, through which exchange, into which queue, and what became of it, as lines that can be pinned.

The lines are the same in each run of a test, whatever its threads do. Equal lines are one with a count, what is
generated anew is masked, and only spans that a queue or a message sets are shown. What a client that consumes nothing
sends comes first, in its order. What follows from it comes after, in the order of names: a test cannot control which of
two consumers is faster, nor whether a message comes before or after what its consumer sends of its own accord.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, cast

from leveret.story.clients import Clients
from leveret.story.facts import Fact
from leveret.story.lives import CopyLife, MessageLife
from leveret.story.words import STANDS
from leveret.trace import events
from leveret.trace.events import TracedMessage
from leveret.trace.shapes import message_name
from leveret.wording import count_text, masked, masked_body, masked_name, texts_in


class Flow(str):
    """The text of a flow. It equals any text with the same lines, however these are indented."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return lines_of(self) == lines_of(other) if isinstance(other, str) else NotImplemented

    # Else str's own would be used.
    __ne__ = object.__ne__

    def __hash__(self) -> int:
        return hash(tuple(lines_of(self)))


def _with_reached(
    levels: dict[str, int], sent: list[tuple[str, str]], consumers: Mapping[str, set[str]]
) -> dict[str, int]:
    """Return levels with those of all clients that what is sent leads to."""
    while reached := {
        consumer: levels[publisher] + 1
        for publisher, queue in sent
        if publisher in levels
        for consumer in consumers.get(queue, ())
        if consumer not in levels
    }:
        levels = levels | reached
    return levels


def _exact_text(span_us: int) -> str:
    """Return a span of time, to the microsecond: another delay is another flow."""
    minutes, rest = divmod(span_us, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min")) if count]
    return " ".join([*parts, f"{rest / 1_000_000:.10g} s"] if rest or not parts else parts)


def lines_of(text: str) -> list[str]:
    """Return the lines of a flow as they are compared."""
    return [line.strip() for line in text.splitlines() if line.strip()]


class FlowReader:
    """Reads the events of one test, and writes their flow."""

    def __init__(self, *, queue: str | None, client: str | None, bodies: bool | str | Iterable[str]) -> None:
        """With `queue` or `client`, only messages that touched it; `bodies` are True for whole, or names of fields."""
        self._queue: Final = queue
        self._client: Final = None if client is None else masked(client)
        self._bodies: Final = bodies if isinstance(bodies, bool) else texts_in(bodies)
        self._clients: Final = Clients()
        self._lives: Final[dict[int, MessageLife[Fact]]] = {}
        # The names of those that took messages from each queue.
        self._consumers: Final[dict[str, set[str]]] = {}
        self._has_got: Final[set[str]] = set()
        # The names of those to which the broker pushed messages: these may come before or after what they publish.
        self._is_pushed_to: Final[set[str]] = set()
        # The names of those that published before they got anything.
        self._first: Final[set[str]] = set()
        self._messages: Final[dict[int, TracedMessage]] = {}

    def take(self, fact: Fact, message: TracedMessage | None) -> None:
        """Take the next event. `message` is what was published, if it is about that."""
        self._clients.take(fact)
        number = cast("int | None", fact.get("msg"))
        if number is None:
            return
        self._lives.setdefault(number, MessageLife(number, str(fact.get("vhost") or "/"))).live(fact)
        if message is not None:
            self._messages[number] = message
        if fact.kind in events.DELIVERIES:
            name = self._name(fact)
            self._has_got.add(name)
            if fact.kind == events.DELIVERED:
                self._is_pushed_to.add(name)
            self._consumers.setdefault(str(fact.get("queue")), set()).add(name)
        elif fact.kind == events.PUBLISHED:
            name = self._name(fact)
            if name not in self._has_got:
                self._first.add(name)

    def client_names(self) -> list[str]:
        """Return the names of all clients so far, the test's own among them."""
        return list(dict.fromkeys(self._clients.name(number) for number in (None, *self._clients.known)))

    def flow(self) -> Flow:
        """Return the flow so far."""
        lives = [life for life in self._lives.values() if life.published is not None and self._is_wanted(life)]
        levels = self._levels()
        counts: Counter[tuple[int, str, int, str]] = Counter()
        orders: dict[str, dict[str, int]] = {}
        for life in lives:
            assert life.published is not None
            publisher = self._name(life.published)
            line, level = self._line(publisher, life), levels.get(publisher, len(levels))
            lines = orders.setdefault(publisher, {})
            order = lines.setdefault(line, len(lines))
            if publisher in self._is_pushed_to:
                # Of all its messages, only the one that begins a circle is certain to come before others.
                order = min(order, 1) if level == 0 else 0
            counts[level, publisher, order, line] += 1
        return Flow(
            "\n".join(line if count == 1 else f"{line} ({count} times)" for (*_, line), count in sorted(counts.items()))
        )

    def _levels(self) -> dict[str, int]:
        """Return how many queues lie between each client and those that act of their own accord."""
        sent = [
            (self._name(life.published), copy.queue)
            for life in self._lives.values()
            if life.published is not None
            for copy in life.copies.values()
        ]
        levels = _with_reached(dict.fromkeys(self._first - self._is_pushed_to, 0), sent, self._consumers)
        # A circle of consumers begins with the one that published first.
        return _with_reached(dict.fromkeys(self._first - levels.keys(), 0) | levels, sent, self._consumers)

    def _is_wanted(self, life: MessageLife[Fact]) -> bool:
        assert life.published is not None
        if life.published.get("exchange") in events.CELERY_EXCHANGES:
            # They come by the clock, so each run has others.
            return False
        queues = {copy.queue for copy in life.copies.values()}
        names = {self._name(life.published), *(name for queue in queues for name in self._consumers.get(queue, ()))}
        return (self._queue is None or self._queue in queues) and (self._client is None or self._client in names)

    def _line(self, publisher: str, life: MessageLife[Fact]) -> str:
        published = life.published
        assert published is not None
        exchange, key = str(published.get("exchange") or ""), masked_name(str(published.get("routing_key") or ""))
        through = f"{exchange} {key!r} -> " if exchange else ""
        copies = [copy for copy in life.copies.values() if copy.source is None]
        ends = sorted(self._end(life, copy) for copy in copies)
        reached = ", ".join(ends) or f"{'' if exchange else repr(key) + ' '}no queue"
        message = self._messages.get(life.number)
        name = "" if message is None else message_name(message.body, message.properties.to_python())
        return f"{publisher}{f' sends {name}' if name else ''} -> {through}{reached}{self._body(life.number)}"

    def _end(self, life: MessageLife[Fact], copy: CopyLife[Fact]) -> str:
        """Return a queue, what became of the message there, and where that led."""
        names = sorted(self._consumers.get(copy.queue, ())) if copy.deliveries else []
        by = f" by {' or '.join(names)}" if names else ""
        state = STANDS.get(copy.state, copy.state.replace("_", " "))
        if copy.is_dead_lettered:
            last = copy.facts[-1]
            state = f"{last.get('reason')}{self._span(copy)}"
            arrivals = sorted(self._end(life, other) for other in life.copies.values() if other.source == copy.number)
            by += f" -> {', '.join(arrivals)}" if arrivals else ", into nothing"
        again = f" after {count_text(copy.requeue_count, 'requeue')}" if copy.requeue_count else ""
        return f"{masked_name(copy.queue)}: {state}{again}{by}"

    def _span(self, copy: CopyLife[Fact]) -> str:
        """Return how long a message that expired was to live."""
        first, expires = copy.facts[0], copy.facts[0].get("expires")
        if copy.facts[-1].get("reason") != "expired" or not isinstance(expires, int) or first.at is None:
            return ""
        return f" after {_exact_text(expires - first.at)}"

    def _body(self, number: int) -> str:
        message = self._messages.get(number)
        if self._bodies is False or message is None:
            return ""
        text = message.body.decode("utf-8", "replace")
        if self._bodies is True:
            return f" {masked_body(text)}"
        try:
            body = json.loads(text)
        except ValueError:
            return ""
        fields = {name: body[name] for name in self._bodies if name in body} if isinstance(body, Mapping) else {}
        return f" {masked_body(json.dumps(fields))}" if fields else ""

    def _name(self, fact: Fact) -> str:
        return masked(self._clients.name(fact.get("conn")))
