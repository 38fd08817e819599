"""A schedule: which faults apply at which steps, in order. The empty schedule is the plain run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from leveret.exploration.step import Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leveret.exploration.kinds import Kind

_THEN: Final = ", then "


@dataclass(frozen=True, slots=True)
class Placement:
    """One fault at one step, such as `lost after conn 1 chan 1 client->server basic.ack #2`."""

    kind: str
    step: Step

    @classmethod
    def parse(cls, text: str, kinds: Mapping[str, Kind]) -> Self:
        """Return the placement of this name. Raises ValueError if the text is not a placement."""
        match = re.fullmatch(r"(.+?) (conn .+)", text.strip())
        if match is None or match[1] not in kinds:
            names = ", ".join(map(repr, kinds))
            raise ValueError(f"only={text!r} does not begin with a kind of fault; expected one of {names}")
        return cls(match[1], Step.parse(match[2]))

    def __str__(self) -> str:
        return f"{self.kind} {self.step}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """All the faults of one run."""

    placements: tuple[Placement, ...] = ()

    @classmethod
    def parse(cls, text: str, kinds: Mapping[str, Kind]) -> Self:
        """Return the schedule of this name, as a report writes it. Raises ValueError if the text is not a schedule."""
        return cls(tuple(Placement.parse(part, kinds) for part in text.split(_THEN.strip())))

    def __str__(self) -> str:
        return _THEN.join(map(str, self.placements)) or "no fault"
