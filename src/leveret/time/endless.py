"""The error for time that reaches no end, with what repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from leveret.engine.engine import Engine
from leveret.errors import EndlessTimeError
from leveret.story.words import Names, told
from leveret.trace import events
from leveret.trace.events import Event, RawEvent
from leveret.wording import span_text

# Enough of the end of a trace to hold a loop several times.
_LOOKED_AT: Final = 300
_NAMED: Final = 8
_TWICE: Final = 2
# What a message goes through in a loop.
_LOOPING: Final = frozenset(
    (events.PUBLISHED, *events.PUSHES, *events.DEATHS, *events.REQUEUES, *events.WITHOUT_REASON, *events.REFUSING)
)


class _AnyClient(Names):
    """The names in the text of a loop, in which a client comes back with another number."""

    def who(self, fact: Event) -> str:
        """Return who caused a fact, whatever its connection is."""
        return "a client" if super().who(fact) else ""


def loop_text(raw_events: Sequence[RawEvent]) -> str:
    """Return what the end of a trace repeats, in the order in which it happens; "" if nothing is repeated."""
    names = _AnyClient()
    steps = [told(Event(raw), names) for raw in raw_events[-_LOOKED_AT:] if raw[0] in _LOOPING]
    counts = Counter(steps)
    repeated = [text for text in dict.fromkeys(steps) if counts[text] >= _TWICE]
    more = ", ..." if len(repeated) > _NAMED else ""
    return ", ".join(repeated[:_NAMED]) + more


def endless(engine: Engine, what: str, span_us: int) -> EndlessTimeError:
    """Return the error for time that reaches no end; `what` was done over `span_us` of the broker's time."""
    loop = loop_text(engine.recorder.raw())
    repeats = f"repeating: {loop}" if loop else "the trace does not show what repeats"
    return EndlessTimeError(
        f"{what} over {span_text(span_us)} of the broker's time without reaching an end, {repeats}. "
        "If you intend this, pass a higher limit="
    )
