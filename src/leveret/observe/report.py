"""The report: the state of a broker in words, what it refused, and the last that happened there.

A failed test shows it, and so does whatever waited in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.observe.idle import describe
from leveret.observe.journal import refusal_lines, tail_lines
from leveret.trace.events import printable

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.trace.recorder import Recorder

_TAIL: Final = 20


def report_text(node: Node, recorder: Recorder, title: str) -> str:
    """All of it, below a title."""
    raw_events = recorder.raw()
    parts = [title, describe(node)]
    parts += _section("refused:", refusal_lines(raw_events))
    parts += _section("errors inside leveret:", [line for error in node.internal_errors for line in _traceback(error)])
    return printable("\n".join([*parts, _tail(recorder, raw_events)]))


def is_shown_by(error: BaseException) -> bool:
    """Whether an error that waited in vain shows a broker's state itself, and so says all there is to say."""
    return "\nconnections:" in str(error)


def _tail(recorder: Recorder, raw_events: list[tuple[object, ...]]) -> str:
    if not recorder.is_on:
        return "nothing was recorded: record='off'"
    count = f"{len(raw_events)}+" if recorder.has_dropped else f"{len(raw_events)}"
    return _section(f"last of {count} events:", tail_lines(raw_events, _TAIL))[0] if raw_events else "no events"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["\n".join([title, *(f"  {line}" for line in lines)])] if lines else []


def _traceback(error: BaseException) -> list[str]:
    from traceback import format_exception

    return "".join(format_exception(error)).splitlines()
