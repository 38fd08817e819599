"""A schedule: which faults strike at which steps, one after the other. The empty one is the plain run."""

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
    """This is one fault at one step, as `lost after conn 1 chan 1 client->server basic.ack #2`."""

    kind: str
    step: Step

    @classmethod
    def parse(cls, text: str, kinds: Mapping[str, Kind]) -> Self:
        """The placement of this name; ValueError for what is none."""
        match = re.fullmatch(r"(.+?) (conn .+)", text.strip())
        if match is None or match[1] not in kinds:
            names = ", ".join(map(repr, kinds))
            raise ValueError(f"{text!r} does not begin with a kind of fault of this exploration: {names}")
        return cls(match[1], Step.parse(match[2]))

    def __str__(self) -> str:
        return f"{self.kind} {self.step}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """This is what goes wrong in one run."""

    placements: tuple[Placement, ...] = ()

    @classmethod
    def parse(cls, text: str, kinds: Mapping[str, Kind]) -> Self:
        """The schedule of this name, as a report writes it; ValueError for what is none."""
        return cls(tuple(Placement.parse(part, kinds) for part in text.split(_THEN.strip())))

    def __str__(self) -> str:
        return _THEN.join(map(str, self.placements)) or "no fault"
