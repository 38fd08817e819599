"""What follows from the runs: for each field, what becomes of its message without it, with null, and with another type.

The worst effect in any test counts: a field that one test shows to be required is required.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from leveret.trace.shapes.leaves import Path
from pytest_leveret.needs.bodies import NULL, REMOVED, RETYPED, MessageKind
from pytest_leveret.needs.effects import BREAKS, CHANGES, NOTHING, SEVERITY

# What a consumer makes of a field. It needs it; it reads it, and does without; it needs its type if the field comes; no
# change of it did anything; or it was not measured.
REQUIRED: Final = "required"
USED: Final = "used"
TYPED: Final = "typed"
UNREAD: Final = "never read"
# No change of it did anything, but the code looks it up.
UNNOTICED: Final = "unnoticed"
UNMEASURED: Final = "not measured"


@dataclass(slots=True)
class WorstEffect:
    """The worst that a change did."""

    severity: str
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FieldNeed:
    """One field of one kind of message."""

    types: set[str]
    effects: dict[str, WorstEffect] = field(default_factory=dict)
    # Whether the code was seen to look it up.
    is_read: bool = False
    # Whether the time was over before some run that might have shown more.
    is_open: bool = False

    def add(self, variant: str, effect: WorstEffect) -> None:
        """Add what a change did in one more run."""
        before = self.effects.get(variant)
        if before is None or SEVERITY.index(effect.severity) > SEVERITY.index(before.severity):
            self.effects[variant] = effect

    def severity(self, variant: str) -> str | None:
        """Return the worst that a change did; None if it was not measured."""
        effect = self.effects.get(variant)
        return None if effect is None else effect.severity

    @property
    def verdict(self) -> str:
        """What the consumer makes of the field."""
        removed = self.severity(REMOVED)
        if removed == BREAKS:
            return REQUIRED
        if removed == CHANGES:
            return USED
        others = [self.severity(variant) for variant in (NULL, RETYPED)]
        if any(other not in (None, NOTHING) for other in others):
            return TYPED
        if removed is None or None in others or self.is_open:
            return UNMEASURED
        return UNNOTICED if self.is_read else UNREAD


@dataclass(slots=True)
class MessageNeeds:
    """What was found out about one kind of message."""

    kind: MessageKind
    fields: dict[Path, FieldNeed] = field(default_factory=dict)
    clients: set[str] = field(default_factory=set)
    tests: dict[str, None] = field(default_factory=dict)

    @property
    def has_effects(self) -> bool:
        """Whether any change of any field did anything that could be seen."""
        return any(effect.severity != NOTHING for need in self.fields.values() for effect in need.effects.values())


@dataclass(slots=True)
class Findings:
    """What was found out about all messages."""

    messages: dict[MessageKind, MessageNeeds] = field(default_factory=dict)
    # Tests that fail as they are, or in which no run is like the other, with the reason.
    unusable: dict[str, str] = field(default_factory=dict)
    skipped_count: int = 0
    # Tests that were measured, and those of them that had a broker of leveret's fixtures.
    test_count: int = 0
    broker_count: int = 0
    run_count: int = 0
    unread_count: int = 0
    seconds: float = 0.0
    # How many runs were left when the time was over.
    left_count: int = 0

    def need(self, kind: MessageKind, path: Path) -> FieldNeed:
        """Return what is known of a field."""
        return self.messages[kind].fields[path]

    def sorted(self) -> Iterator[MessageNeeds]:
        """Yield the kinds of messages in order."""
        return iter(sorted(self.messages.values(), key=lambda it: it.kind))
