"""The error for time that reaches no end, with what repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from leveret.engine.engine import Engine
from leveret.errors import EndlessTimeError
from leveret.trace import events
from leveret.trace.events import Event, RawEvent
from leveret.wording import span_text

# Enough of the end of a trace to hold a loop several times.
_LOOKED_AT: Final = 300
_NAMED: Final = 8
_TWICE: Final = 2


def loop_text(raw_events: Sequence[RawEvent]) -> str:
    """Return what the end of a trace repeats, in the order in which it happens; "" if nothing is repeated."""
    steps = [text for raw in raw_events[-_LOOKED_AT:] if (text := _step(Event(raw)))]
    counts = Counter(steps)
    repeated = [text for text in dict.fromkeys(steps) if counts[text] >= _TWICE]
    more = ", ..." if len(repeated) > _NAMED else ""
    return ", ".join(repeated[:_NAMED]) + more


def _step(event: Event) -> str:
    if event.kind in events.DEATHS:
        exchange = event.exchange or "the default exchange"
        return f"dead-lettered from {event.queue} ({event.reason}) to {exchange} with key {event.routing_key}"
    if event.kind in events.REQUEUES:
        return f"requeued to {event.queue} ({event.reason})"
    if event.kind == events.PUBLISHED:
        return f"published to {event.message.exchange or 'the default exchange'} with key {event.message.routing_key}"
    if event.kind in (*events.PUSHES, *events.WITHOUT_REASON, *events.REFUSING):
        preposition = "in" if event.kind in events.WITHOUT_REASON else "from"
        return f"{event.kind} {preposition} {event.queue}"
    return ""


def endless(engine: Engine, what: str, span_us: int) -> EndlessTimeError:
    """Return the error for time that reaches no end; `what` was done over `span_us` of the broker's time."""
    loop = loop_text(engine.recorder.raw())
    repeats = f"repeating: {loop}" if loop else "the trace does not show what repeats"
    return EndlessTimeError(
        f"{what} over {span_text(span_us)} of the broker's time without reaching an end, {repeats}. "
        "If you intend this, pass a higher limit="
    )
