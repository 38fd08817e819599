"""The words of a survey: a table for each kind of message, and what could not be measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from leveret.trace.shapes.leaves import path_text
from leveret.wording import count_text
from pytest_leveret.needs.bodies import NULL, REMOVED, RETYPED, MessageKind
from pytest_leveret.needs.effects import CHANGES, NOTHING
from pytest_leveret.needs.findings import UNMEASURED, UNREAD, FieldNeed, Findings, MessageNeeds, WorstEffect

# A table has three of these cells beside one another.
_CELL_MAX: Final = 60
_HEAD: Final = ("field", "type", "verdict", "without it", "null", "as another type")
# The types that a value of each type is changed into.
_OTHER: Final = {
    "integer": "text",
    "number": "text",
    "boolean": "text",
    "string": "number",
    "object": "array",
    "array": "object",
    "null": "text",
}


def lines_of(findings: Findings, seconds: float) -> Iterator[str]:
    """Yield the lines of the report."""
    for message in findings.sorted():
        yield ""
        yield f"{name_of(message.kind)}: {_whose(message)}"
        yield from _table(message)
        if not message.has_effects and message.fields and not findings.left_count:
            read = [path for path, need in message.fields.items() if need.is_read]
            names = [repr(path_text(path)) for path in (read or [*message.fields])[:2]]
            verb = ("is" if len(names) == 1 else "are") if read else "may be"
            yield (
                f"  no effect seen: {' and '.join(names)} {verb} read, but no test would notice. Assert on what the "
                "consumer does with the message"
            )
    yield ""
    for test, reason in findings.unusable.items():
        yield f"{test} was left out: as it is, {reason}"
    if findings.unread_count:
        yield f"left out: {count_text(findings.unread_count, 'message')} without a JSON body"
    if findings.left_count:
        yield (
            f"--seconds={seconds:g} was over before {count_text(findings.left_count, 'run')}, so some fields are not "
            "measured; give more seconds, or fewer tests with -k"
        )
    if findings.skipped_count:
        yield f"left out as skipped: {count_text(findings.skipped_count, 'test')}"
    if findings.test_count and not findings.broker_count:
        yield "nothing was measured, because these tests use no broker of leveret's fixtures"
    elif findings.test_count and not findings.messages:
        yield "no consumer received a message with a JSON body in these tests"
    yield (
        f"{count_text(findings.test_count, 'test')}, {count_text(findings.run_count, 'run')} with a changed message, "
        f"{findings.seconds:.1f} s"
    )


def name_of(kind: MessageKind) -> str:
    """Return a kind of message as a heading: where it was published to, and the queue."""
    task = f" task {kind.name!r}" if kind.name else ""
    if not kind.exchange and kind.routing_key == kind.queue:
        return f"{kind.queue}{task}"
    return f"{kind.exchange} {kind.routing_key!r} -> {kind.queue}{task}".lstrip()


def _whose(message: MessageNeeds) -> str:
    clients = " and ".join(sorted(message.clients))
    return f"what {clients or 'its consumer'} needs, by {count_text(len(message.tests), 'test')}"


def _table(message: MessageNeeds) -> Iterator[str]:
    rows = [_HEAD, *(_row(path_text(path), need, message) for path, need in message.fields.items())]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(name: str, need: FieldNeed, message: MessageNeeds) -> Sequence[str]:
    verdict = "no effect" if need.verdict == UNREAD and not message.has_effects else need.verdict
    other = " or ".join(sorted({_OTHER[it] for it in need.types}))
    cells = [_cell(need.effects.get(variant)) for variant in (REMOVED, NULL, RETYPED)]
    if need.verdict == UNMEASURED:
        cells = [f"{cell} so far" if cell == "ok" else cell for cell in cells]
    cells[2] = f"{other}: {cells[2]}" if RETYPED in need.effects else cells[2]
    return (name, " or ".join(sorted(need.types)), verdict, *cells)


def _cell(effect: WorstEffect | None) -> str:
    if effect is None:
        return "?"
    if effect.severity == NOTHING:
        return "ok"
    text = ("acked, " if effect.severity == CHANGES else "") + (effect.texts[0] if effect.texts else "differs")
    return text if len(text) <= _CELL_MAX else f"{text[: _CELL_MAX - 3]}..."
