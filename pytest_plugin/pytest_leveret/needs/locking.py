"""Measured needs in a lock: what each consumer accepts of each field, in place of the guess from what it received."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from leveret.trace.shapes.leaves import path_text
from pytest_leveret.contract.lock import ANY, Lock, read, types_text, update
from pytest_leveret.needs.bodies import NULL, RETYPED, MessageKind
from pytest_leveret.needs.effects import BREAKS, NOTHING
from pytest_leveret.needs.findings import REQUIRED, TYPED, UNREAD, USED, FieldNeed, Findings, MessageNeeds
from pytest_leveret.needs.report import name_of

# What a consumer accepts beside a type if it takes the other type that `bodies.retyped` makes of it. The text "true"
# says nothing about other texts.
_BESIDE: Final = {
    "integer": "decimal",
    "number": "decimal",
    "string": "integer",
    "object": "array",
    "array": "object",
    "null": "string",
}
_WRITE: Final = "write it with pytest --leveret-contract=write first"


def write_needs(findings: Findings, file: Path) -> list[str]:
    """Write what was measured to the lock in a file, and return lines that say what was written, and what was not.

    Raises ValueError if the file is no lock, OSError if it cannot be read or written.
    """
    if not file.exists():
        return [f"{file.name} does not exist yet; {_WRITE}"]
    written, missing = 0, list[MessageKind]()

    def measured() -> Lock:
        nonlocal written
        lock, written, missing[:] = read(file), 0, []
        for message in findings.sorted():
            kind, needs = message.kind, needs_of(message)
            place = (kind.vhost, kind.exchange, kind.routing_key, kind.name)
            readers = [
                consumer
                for key, known in lock.messages.items()
                for consumer in known.consumers.values()
                if key[:4] == place and consumer.queue == kind.queue
            ]
            for consumer in readers:
                consumer.needs = {**consumer.needs, **needs}
            written += bool(readers and needs)
            missing.extend([] if readers else [kind])
        return lock

    update(file, measured)
    lines = [f"{file.name} has the needs for {written} of {len(findings.messages)} kinds of messages"]
    return lines + [f"{file.name} lacks {name_of(kind)}; {_WRITE}" for kind in missing]


def needs_of(message: MessageNeeds) -> dict[str, str]:
    """Return the needs of a consumer as its entry in a lock holds them, where they are certain."""
    texts = {f"body.{path_text(path)}": need_text(need) for path, need in message.fields.items()}
    return {place: text for place, text in texts.items() if text} if message.has_effects else {}


def need_text(need: FieldNeed) -> str:
    """Return what a consumer accepts in a field, in the words of a lock; empty if that is not certain."""
    if need.verdict == UNREAD:
        return ANY
    if need.verdict not in (REQUIRED, USED, TYPED) or (need.is_open and need.verdict != REQUIRED):
        return ""
    types = set(need.types)
    null = need.severity(NULL)
    # With null, a consumer that does without the field does as it does without it.
    if null == NOTHING or (null not in (None, BREAKS) and need.verdict != REQUIRED):
        types.add("null")
    if need.severity(RETYPED) == NOTHING:
        types |= {_BESIDE[name] for name in need.types if name in _BESIDE}
    return types_text(types, is_optional=need.verdict != REQUIRED)
