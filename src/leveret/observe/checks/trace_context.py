"""The check for messages that a handler publishes outside of the trace of the message that it handles.

A trace is what the header `traceparent` of W3C says. What a client publishes on a connection that holds a delivery
belongs to that delivery, unless the client publishes the like without holding any. Celery names the task in which
another one was called. Of what else handlers publish, the broker cannot know to which delivery it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from leveret.core.model.message import Message
from leveret.observe.checks.finding import Finding
from leveret.trace import events
from leveret.trace.events import CELERY_EXCHANGES, POSITIONS, Event, RawEvent, named

CHECK: Final = "trace_context_lost"
_HEADER: Final = "traceparent"
_TRACEPARENT: Final = re.compile("(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_MESSAGE: Final = POSITIONS[events.PUBLISHED]["message"]
_OCTETS: Final = _HEADER.encode()
_TASKS_MAX: Final = 10_000


class Context(NamedTuple):
    """What a message carries on: the trace and the span of its publisher, its baggage, and its correlation id."""

    trace: str | None
    span: str | None
    baggage: frozenset[str]
    # None if it is for the reply that the message asks for.
    correlation_id: str | None


class _Handled(NamedTuple):
    """A delivery of a message to a client."""

    event: Event
    context: Context
    # Whether that connection published the message itself.
    is_own: bool
    # Whether it has no trace, or answers to a trace that the connection began, as a test does that drives a service.
    is_unclear: bool


class _Client:
    """What a connection holds, and what it has done."""

    def __init__(self) -> None:
        self.held: Final[dict[object, _Handled]] = {}
        # How many of these have `is_own`, and how many `is_unclear`.
        self.own_count = 0
        self.unclear_count = 0
        # What it got of each trace that it got or began; the traces that it began, None for messages without one that
        # it published of its own accord; and the messages that it published.
        self.traces: Final[dict[str | None, list[Context]]] = {}
        self.begun: Final[dict[str | None, None]] = {}
        self.published: Final[dict[int, None]] = {}
        # To what it publishes while it holds nothing.
        self.own_ways: Final[dict[tuple[str, str], None]] = {}

    def hold(self, event: Event) -> _Handled:
        """Take a delivery."""
        self.release(event.copy)
        context, is_own = context_of(event.message), event.message.id in self.published
        is_unclear = context.trace is None or (context.trace in self.begun and not is_own)
        handled = _Handled(event, context, is_own, is_unclear)
        self.held[event.copy] = handled
        self._count(handled, 1)
        if context.trace is not None and context not in (known := self.traces.setdefault(context.trace, [])):
            known.append(context)
        return handled

    def release(self, copy: object) -> None:
        """Note that a delivery is settled."""
        if (handled := self.held.pop(copy, None)) is not None:
            self._count(handled, -1)

    def _count(self, handled: _Handled, change: int) -> None:
        self.own_count += change * handled.is_own
        self.unclear_count += change * handled.is_unclear


class _Suspect(NamedTuple):
    """A publish that belongs to a delivery."""

    event: Event
    client: _Client
    # The delivery to which it belongs, or the first of several to one of which it does.
    handled: _Handled
    held_count: int
    # What the client got of the trace of the publish; None if it did not know that trace.
    alike: Sequence[Context] | None
    # Whether the client has published one of those messages itself.
    is_fed_by_itself: bool
    # Whether the message itself says to which it belongs.
    is_sure: bool


class TraceContext:
    """The deliveries that clients hold, and what they publish meanwhile."""

    def __init__(self) -> None:
        # Nothing is looked at until a client publishes the first message with a traceparent.
        self._is_on = False
        self._clients: Final[dict[int, _Client]] = {}
        # The last delivery of each task of Celery, for the latest tasks.
        self._tasks: Final[dict[str, _Handled]] = {}

    def feed(self, raw_events: Sequence[RawEvent]) -> list[Finding]:
        """Read the new events and return the findings in them."""
        self._is_on = self._is_on or _has_trace(raw_events)
        if not self._is_on:
            return []
        suspects = [self._take(Event(raw)) for raw in raw_events if raw[0] in _KINDS]
        # Only now is it known what clients publish of their own accord.
        return [finding for it in suspects if it is not None and (finding := _judged(it)) is not None]

    def _take(self, event: Event) -> _Suspect | None:
        if event.kind in events.REQUEUES:
            for client in self._clients.values():
                client.release(event.copy)
        if event.kind in events.REQUEUES or event.conn is None:
            return None
        client = self._clients.setdefault(event.conn, _Client())
        if event.kind == events.PUBLISHED:
            return self._published(event, client)
        if event.kind in events.DELIVERIES:
            handled = client.hold(event)
            if (task := _header(event.message, "id")) is not None:
                self._tasks[task] = handled
                if len(self._tasks) > _TASKS_MAX:
                    del self._tasks[next(iter(self._tasks))]
        elif event.kind == events.CONN_CLOSE:
            del self._clients[event.conn]
        else:
            client.release(event.copy)
        return None

    def _published(self, event: Event, client: _Client) -> _Suspect | None:
        message = event.message
        if message.exchange in CELERY_EXCHANGES:
            return None
        client.published[message.id] = None
        trace = context_of(message).trace
        caller = self._tasks.get(_header(message, "parent_id") or "")
        if caller is not None and caller.context.trace is not None:
            alike = [caller.context] if caller.context.trace == trace else None
            return _Suspect(event, client, caller, 1, alike, is_fed_by_itself=False, is_sure=True)
        if client.held and caller is None:
            first, count, alike = next(iter(client.held.values())), len(client.held), client.traces.get(trace)
            is_own = client.own_count > 0
            return None if client.unclear_count else _Suspect(event, client, first, count, alike, is_own, is_sure=False)
        client.own_ways[message.exchange, message.routing_key] = None
        client.traces.setdefault(trace, [])
        client.begun[trace] = None
        return None


def _judged(suspect: _Suspect) -> Finding | None:
    """Return what a publish has lost of the context of the delivery to which it belongs."""
    message, client, alike = suspect.event.message, suspect.client, suspect.alike
    if not suspect.is_sure and (message.exchange, message.routing_key) in client.own_ways:
        return None
    given = context_of(message)
    if given.trace is None:
        is_usual = suspect.is_fed_by_itself and None in client.begun
        return None if is_usual else _finding(CHECK, suspect)
    if alike is None:
        # A test may publish on the connection of the service, and begin a trace with each message.
        is_usual = suspect.is_fed_by_itself
        return None if is_usual else _finding("trace_restarted", suspect, {"new_trace": given.trace})
    if alike and all(it.baggage - given.baggage for it in alike):
        return _finding("baggage_lost", suspect, {"keys": sorted(alike[0].baggage - given.baggage)})
    correlation_ids = [it.correlation_id for it in alike]
    if alike and message.properties.correlation_id is None and None not in correlation_ids:
        return _finding("correlation_lost", suspect, {"value": correlation_ids[0]})
    return None


_KINDS: Final = frozenset(
    (*(events.PUBLISHED, events.CONN_CLOSE), *events.REQUEUES, *events.DELIVERIES, *events.SETTLING)
)


def _has_trace(raw_events: Sequence[RawEvent]) -> bool:
    """Return whether a client publishes a message with a traceparent. Hot: it reads every event of a test."""
    published = (cast("Message", raw[_MESSAGE]).head[2] for raw in raw_events if raw[0] == events.PUBLISHED)
    return any(isinstance(octets, bytes) and _OCTETS in octets for octets in published)


def context_of(message: events.TracedMessage) -> Context:
    """Return what a message carries on."""
    found = _TRACEPARENT.fullmatch(_header(message, _HEADER) or "")
    pairs = (_header(message, "baggage") or "").split(",")
    keys = frozenset(key for pair in pairs if (key := pair.partition("=")[0].strip()))
    reply_to = cast("Message", message).properties.reply_to
    correlation_id = None if reply_to else message.properties.correlation_id
    return Context(found and found[1], found and found[2], keys, correlation_id)


def _header(message: events.TracedMessage, name: str) -> str | None:
    """Return the text of a header."""
    headers = cast("Message", message).properties.headers
    field = None if headers is None else headers.get(name)
    return field.value.decode(errors="replace") if field is not None and isinstance(field.value, bytes) else None


def _finding(kind: str, suspect: _Suspect, names: Mapping[str, object] | None = None) -> Finding:
    event, first = suspect.event, suspect.handled.event
    what = f"{named(first.message)} of queue {first.queue!r}"
    several = "" if suspect.held_count == 1 else f"one of {suspect.held_count} messages, the first being "
    facts = {"handled": f"{several}{what}", "trace": suspect.handled.context.trace, **(names or {})}
    return Finding(CHECK, event.vhost, facts, cast("Message", event.message), evidence=(first, event), kind=kind)
