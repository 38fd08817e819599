"""The journal: the last events and the refusals of a trace, in words, for the report of a failed test.

Pure functions over raw events; client names come from the trace itself, since who matters has often gone by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.denied import denied_feature, ways_out
from leveret.trace import events
from leveret.trace.events import Event, clock_text

if TYPE_CHECKING:
    from leveret.trace.events import RawEvent

_LISTED: Final = 5
# How wide a line may be, and how many of them an event may take.
_WIDTH: Final = 160
_LINES: Final = 8


def tail_lines(raw_events: Sequence[RawEvent], count: int) -> list[str]:
    """The last events, oldest first, with the names of the clients; a line each, and more for long arguments."""
    clients = _clients(raw_events)
    return [line for raw in raw_events[-count:] for line in _event_lines(Event(raw), clients)]


def refusal_lines(raw_events: Sequence[RawEvent]) -> list[str]:
    """What clients were refused, whose line it was, and what to do about denied features; the last few."""
    refusals = [Event(raw) for raw in raw_events if raw[0] == events.REFUSED]
    lines = [f"... and {len(refusals) - _LISTED} refusals before"] if len(refusals) > _LISTED else []
    for refusal in refusals[-_LISTED:]:
        lines += _refusal(refusal)
    for feature in dict.fromkeys(denied_feature(refusal.text) for refusal in refusals):
        lines += ways_out(feature) if feature is not None else []
    return lines


def _refusal(refusal: Event) -> list[str]:
    summary = refusal.text.partition("\n")[0]
    lines = [f"{_who(refusal, {})} was refused: {refusal.code} {summary}"]
    if refusal.caller is not None:
        return [*lines, f"  during the call at {refusal.caller}"]
    if refusal.opener is not None:
        return [*lines, f"  on the connection opened at {refusal.opener}"]
    return lines


def _event_lines(event: Event, clients: dict[int, str]) -> list[str]:
    line = f"{clock_text(event.at)} {_event_text(event, clients)}"
    return [line] if len(line) <= _WIDTH else _wrapped(line)


def _event_text(event: Event, clients: dict[int, str]) -> str:
    if event.kind == events.CALLED:
        return f"the test called {event.call} at {event.caller or 'an unknown line'}"
    if "conn" not in event.fields():
        return f"{event.kind} {event.details()}"
    details = event.details(without=("conn", "chan", "client", "caller", "opener"))
    return f"{_who(event, clients)}: {event.kind} {details}".rstrip()


def _wrapped(line: str) -> list[str]:
    # Imported by whoever has something long to show.
    from textwrap import wrap

    lines = wrap(line, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return lines if len(lines) <= _LINES else [*lines[:_LINES], "    ..."]


def _who(event: Event, clients: dict[int, str]) -> str:
    """Whose doing an event is: a client and the channel it used, or the test."""
    if event.conn is None:
        return "the test"
    name = cast("str | None", event.get("client")) or clients.get(event.conn, "a client")
    place = f"{event.conn}" if event.chan is None else f"{event.conn}, channel {event.chan}"
    return f"{name} (connection {place})"


def _clients(raw_events: Sequence[RawEvent]) -> dict[int, str]:
    opened = (Event(raw) for raw in raw_events if raw[0] == events.CONN_OPEN)
    return {event.conn: event.client for event in opened if event.conn is not None}
