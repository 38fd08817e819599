"""A flow: who sent what, through which exchange, into which queue, and what became of it, as lines that can be pinned.

The lines are the same in each run of a test, whatever its threads do. Equal lines are one with a count, what is
generated anew is masked, and only spans that a queue or a message sets are shown. What a client that consumes nothing
sends comes first, in its order. What follows from it comes after, in the order of names: a test cannot control which of
two consumers is faster, nor whether a message comes before or after what its consumer sends of its own accord.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, cast

from leveret.errors import LeveretWarning
from leveret.story.entities import ConnectionLife, CopyLife, MessageLife
from leveret.story.timeline import Timeline
from leveret.story.words import STANDS
from leveret.trace import events
from leveret.trace.shapes import message_name
from leveret.wording import count_text, listed, masked, masked_body, masked_name, texts_in


class Flow(str):
    """The text of a flow. It equals any text with the same lines, however these are indented.

    If it equals another flow whose messages have other properties that neither shows, it warns with their names.
    """

    def __new__(cls, text: str, unseen: Iterable[tuple[str, str, str]] = ()) -> Flow:
        """`unseen` are a line, the name and the value of each property that it does not show."""
        flow = super().__new__(cls, text)
        flow._unseen = Counter(unseen)
        return flow

    _unseen: Counter[tuple[str, str, str]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str) or lines_of(self) != lines_of(other):
            return False if isinstance(other, str) else NotImplemented
        if isinstance(other, Flow) and self._unseen != other._unseen:
            differing = (self._unseen - other._unseen) + (other._unseen - self._unseen)
            names = sorted({name for _, name, _ in differing})
            text = f"flow() does not compare {listed(names)}, in which these flows differ; pass properties={names!r}"
            warnings.warn(text, LeveretWarning, stacklevel=2)
        return True

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
    """Reads what a timeline shows of the current test, and writes its flow."""

    def __init__(
        self,
        timeline: Timeline,
        *,
        queue: str | None,
        client: str | None,
        bodies: bool | str | Iterable[str],
        properties: bool | str | Iterable[str] = False,
    ) -> None:
        """With `queue` or `client`, only messages that touched it.

        `bodies` are True for whole ones, or names of fields; `properties` True for all, or names of them or of headers.
        """
        self._timeline: Final = timeline
        self._queue: Final = queue
        self._client: Final = None if client is None else masked(client)
        self._bodies: Final = bodies if isinstance(bodies, bool) else texts_in(bodies)
        self._properties: Final = properties if isinstance(properties, bool) else texts_in(properties)
        # The names of those that took messages from each queue.
        self._consumers: Final[dict[str, set[str]]] = {}
        # The names of those to which the broker pushed messages: these may come before or after what they publish.
        self._is_pushed_to: Final[set[str]] = set()
        # The names of those that published before they got anything.
        self._first: Final[set[str]] = set()
        has_got: set[str] = set()
        for fact in timeline.recent:
            if fact.kind in events.DELIVERIES:
                name = self._name(timeline.by(fact))
                has_got.add(name)
                if fact.kind == events.DELIVERED:
                    self._is_pushed_to.add(name)
                self._consumers.setdefault(str(fact.queue), set()).add(name)
            elif fact.kind == events.PUBLISHED:
                name = self._name(timeline.by(fact))
                if name not in has_got:
                    self._first.add(name)
        self._lives: Final = [
            life
            for life in timeline.messages.values()
            if life.published is not None and life.published.place >= timeline.began
        ]

    def client_names(self) -> list[str]:
        """Return the names of all clients, the test's own among them."""
        opened = (one for one in self._timeline.connections.values() if one.opened is not None)
        return list(dict.fromkeys(map(self._timeline.name, (None, *opened))))

    def flow(self) -> Flow:
        """Return the flow."""
        levels = self._levels()
        counts: Counter[tuple[int, str, int, str]] = Counter()
        orders: dict[str, dict[str, int]] = {}
        unseen: list[tuple[str, str, str]] = []
        for life in filter(self._is_wanted, self._lives):
            publisher = self._name(life.publisher)
            line, level = self._line(publisher, life), levels.get(publisher, len(levels))
            lines = orders.setdefault(publisher, {})
            order = lines.setdefault(line, len(lines))
            if publisher in self._is_pushed_to:
                # Of all its messages, only the one that begins a circle is certain to come before others.
                order = min(order, 1) if level == 0 else 0
            counts[level, publisher, order, line] += 1
            unseen += [(line, name, value) for name, value in _named(life) if not self._shows(name)]
        return Flow(
            "\n".join(
                line if count == 1 else f"{line} ({count} times)" for (*_, line), count in sorted(counts.items())
            ),
            unseen,
        )

    def _levels(self) -> dict[str, int]:
        """Return how many queues lie between each client and those that act of their own accord."""
        sent = [(self._name(life.publisher), copy.queue.name) for life in self._lives for copy in life.copies.values()]
        levels = _with_reached(dict.fromkeys(self._first - self._is_pushed_to, 0), sent, self._consumers)
        # A circle of consumers begins with the one that published first.
        return _with_reached(dict.fromkeys(self._first - levels.keys(), 0) | levels, sent, self._consumers)

    def _is_wanted(self, life: MessageLife) -> bool:
        if life.message.exchange in events.CELERY_EXCHANGES:
            # They come by the clock, so each run has others.
            return False
        queues = {copy.queue.name for copy in life.copies.values()}
        names = {self._name(life.publisher), *(name for queue in queues for name in self._consumers.get(queue, ()))}
        return (self._queue is None or self._queue in queues) and (self._client is None or self._client in names)

    def _line(self, publisher: str, life: MessageLife) -> str:
        message = life.message
        exchange, key = message.exchange, masked_name(message.routing_key)
        through = f"{exchange} {key!r} -> " if exchange else ""
        ends = sorted(self._end(copy) for copy in life.copies.values() if copy.source is None)
        reached = ", ".join(ends) or f"{'' if exchange else repr(key) + ' '}no queue"
        name = message_name(message.body, message.properties.to_python())
        shown = [f"{name}={value}" for name, value in _named(life) if self._shows(name)]
        said = f"{self._body(message.body)}{f' with {listed(shown)}' if shown else ''}"
        return f"{publisher}{f' sends {name}' if name else ''} -> {through}{reached}{said}"

    def _shows(self, name: str) -> bool:
        """Return whether the lines have the property, or the header, of this name."""
        shown = self._properties
        return shown if isinstance(shown, bool) else name in shown or name.removeprefix("headers.") in shown

    def _end(self, copy: CopyLife) -> str:
        """Return a queue, what became of the message there, and where that led."""
        queue = copy.queue.name
        names = sorted(self._consumers.get(queue, ())) if copy.deliveries else []
        by = f" by {' or '.join(names)}" if names else ""
        state = STANDS.get(copy.stand, copy.stand.replace("_", " ")) + _span(copy)
        if copy.is_dead_lettered:
            state = f"{copy.last.get('reason')}{_span(copy)}"
            arrivals = sorted(map(self._end, copy.letters))
            by += f" -> {', '.join(arrivals)}" if arrivals else ", into nothing"
        again = f" after {count_text(copy.requeue_count, 'requeue')}" if copy.requeue_count else ""
        return f"{masked_name(queue)}: {state}{again}{by}"

    def _body(self, content: bytes) -> str:
        if self._bodies is False:
            return ""
        text = content.decode("utf-8", "replace")
        if self._bodies is True:
            return f" {masked_body(text)}"
        try:
            body = json.loads(text)
        except ValueError:
            return ""
        fields = {name: body[name] for name in self._bodies if name in body} if isinstance(body, Mapping) else {}
        return f" {masked_body(json.dumps(fields))}" if fields else ""

    def _name(self, client: ConnectionLife | None) -> str:
        return masked(self._timeline.name(client))


def _named(life: MessageLife) -> list[tuple[str, str]]:
    """Return the properties of a message by name, and each of its headers, without what is generated anew."""
    properties = life.message.properties.to_python()
    headers = cast("Mapping[str, object]", properties.pop("headers", None) or {})
    named = properties | {f"headers.{name}": value for name, value in headers.items()}
    return [(name, masked_body(json.dumps(value, default=str))) for name, value in sorted(named.items())]


def _span(copy: CopyLife) -> str:
    """Return how long a message that expired was to live."""
    first = copy.facts[0]
    expires = first.get("expires")
    if events.reason_of(copy.last.kind, copy.last.get("reason")) != "expired" or not isinstance(expires, int):
        return ""
    return f" after {_exact_text(expires - first.at)}"
