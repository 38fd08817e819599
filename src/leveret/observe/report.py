"""The report of a failed test: the state of the broker, the errors it sent to clients, and the last events.

A wait that times out shows it too. The names of clients come from the recorded events, because a client that matters
has often disconnected by then. RabbitMQ's text about a denied feature names a line of rabbitmq.conf; a test has no such
file, so the report names what the test can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.advice import advice
from leveret.observe.state import describe
from leveret.trace import events
from leveret.trace.events import Event, clock_text, printable

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.trace.events import RawEvent
    from leveret.trace.recorder import Recorder


_TAIL: Final = 20


def report_text(node: Node, recorder: Recorder, title: str) -> str:
    """Return the whole report under a title."""
    raw_events = recorder.raw()
    parts = [title, describe(node)]
    parts += _section("errors sent to clients:", refusal_lines(raw_events))
    parts += _section("errors inside leveret:", [line for error in node.internal_errors for line in _traceback(error)])
    return printable("\n".join([*parts, _tail(recorder, raw_events)]))


def is_shown_by(error: BaseException) -> bool:
    """Return whether the text of an error already shows the state of a broker, as that of a timeout does."""
    return "\nconnections:" in str(error)


def _tail(recorder: Recorder, raw_events: list[tuple[object, ...]]) -> str:
    if not recorder.is_on:
        return "no events recorded: the broker has record='off'; use record='recent'"
    count = f"{len(raw_events)}+" if recorder.has_dropped else f"{len(raw_events)}"
    return _section(f"last of {count} events:", tail_lines(raw_events, _TAIL))[0] if raw_events else "no events"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["\n".join([title, *(f"  {line}" for line in lines)])] if lines else []


def _traceback(error: BaseException) -> list[str]:
    from traceback import format_exception

    return "".join(format_exception(error)).splitlines()


_LISTED: Final = 5
# The most characters in a line, and the most lines for an event.
_WIDTH: Final = 160
_LINES: Final = 8


def tail_lines(raw_events: Sequence[RawEvent], count: int) -> list[str]:
    """Return the last `count` events as text, oldest first: a line each, or several if the arguments are long."""
    clients = _clients(raw_events)
    return [line for raw in raw_events[-count:] for line in _event_lines(Event(raw), clients)]


def refusal_lines(raw_events: Sequence[RawEvent]) -> list[str]:
    """Return the last errors sent to clients with the lines that caused them, and what to do about them."""
    refusals = [Event(raw) for raw in raw_events if raw[0] == events.REFUSED]
    lines = [f"... and {len(refusals) - _LISTED} earlier errors"] if len(refusals) > _LISTED else []
    for refusal in refusals[-_LISTED:]:
        lines += _refusal(refusal)
    return lines + list(dict.fromkeys(line for refusal in refusals for line in advice(refusal)))


def _refusal(refusal: Event) -> list[str]:
    summary = refusal.text.partition("\n")[0]
    lines = [f"{_who(refusal, {})} got {refusal.code} {summary}"]
    lines += [f"  because {refusal.cause}"] if refusal.cause is not None else []
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
    details = event.details(without=("conn", "chan", "client", "caller", "opener", "cause"))
    return f"{_who(event, clients)}: {event.kind} {details}".rstrip()


def _wrapped(line: str) -> list[str]:
    # Imported here because most reports have no long line.
    from textwrap import wrap

    lines = wrap(line, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return lines if len(lines) <= _LINES else [*lines[:_LINES], "    ..."]


def _who(event: Event, clients: dict[int, str]) -> str:
    """Return who caused an event: a client and the channel it used, or the test."""
    if event.conn is None:
        return "the test"
    name = cast("str | None", event.get("client")) or clients.get(event.conn, "a client")
    place = f"{event.conn}" if event.chan is None else f"{event.conn}, channel {event.chan}"
    return f"{name} (connection {place})"


def _clients(raw_events: Sequence[RawEvent]) -> dict[int, str]:
    opened = (Event(raw) for raw in raw_events if raw[0] == events.CONN_OPEN)
    return {event.conn: event.client for event in opened if event.conn is not None}
