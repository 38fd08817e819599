"""The table of features: what RabbitMQ does over AMQP 0-9-1, and how sure it is that leveret does the same.

A row stands in `table.toml` with its proofs. What the scenarios among them prove is counted in `scenarios.json`, from
the transcripts recorded of real servers: a row is proven on a version exactly when such a scenario has a transcript of
it, for leveret's tests hold it to every transcript. Where there is none, the row follows documents or a test alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, cast

from leveret.core.compat import VERSIONS as KNOWN_VERSIONS

VERSIONS: Final = tuple(KNOWN_VERSIONS)
# Of these there are transcripts.
RECORDED: Final = ("4.3", "4.0", "3.10")
# What holds for a row on one version, beside the number of scenarios that prove it.
DOCUMENTED: Final = "documented"
ABSENT: Final = "absent"
NOT_THERE: Final = "not there"
PROVEN: Final = "proven"


@dataclass(frozen=True, slots=True)
class Row:
    """One feature of RabbitMQ."""

    area: str
    name: str
    # Scenarios, with `*` for any text, and tests by their path.
    proof: tuple[str, ...]
    # The versions of RabbitMQ that do not have it.
    absent: tuple[str, ...] = ()
    # Where leveret is not as the server.
    differs: str = ""
    # What happens instead, where leveret does not have it.
    instead: str = ""
    # How many scenarios prove it, by version.
    scenario_counts: tuple[tuple[str, int], ...] = ()

    def count(self, version: str) -> int:
        """How many scenarios prove it on a version."""
        return dict(self.scenario_counts).get(version, 0)

    def state(self, version: str) -> str:
        """What holds on a version: ABSENT, NOT_THERE, PROVEN or DOCUMENTED."""
        if version in self.absent:
            return ABSENT
        if self.instead:
            return NOT_THERE
        return PROVEN if self.count(version) else DOCUMENTED

    @property
    def remark(self) -> str:
        """What has to be known beside the proof, empty where all is as on the server."""
        return self.instead or self.differs


@dataclass(frozen=True, slots=True)
class Recorded:
    """The scenarios of one area (a file of them), by version."""

    area: str
    counts: tuple[tuple[str, int], ...]


def rows() -> tuple[Row, ...]:
    """All rows, by area, in the order of the table."""
    table = tomllib.loads(_text("table.toml"))
    counts = cast(dict[str, dict[str, dict[str, int]]], _counted()["rows"])
    return tuple(
        _row(area, name, found, counts.get(area, {}).get(name, {}))
        for area, features in table.items()
        for name, found in features.items()
    )


def recorded() -> tuple[Recorded, ...]:
    """How many scenarios there are of each area and version."""
    counted = cast(dict[str, dict[str, int]], _counted()["areas"])
    return tuple(Recorded(area, tuple(counts.items())) for area, counts in counted.items())


def refuse_unknown(version: str) -> None:
    """Raise ValueError for a version that leveret does not know."""
    if version not in VERSIONS:
        raise ValueError(f"leveret does not know RabbitMQ {version!r}; it knows {', '.join(VERSIONS)}")


def _row(area: str, name: str, found: Sequence[str] | Mapping[str, object], counts: Mapping[str, int]) -> Row:
    if not isinstance(found, Mapping):
        return Row(area, name, tuple(found), scenario_counts=tuple(counts.items()))
    return Row(
        area,
        name,
        tuple(cast(Sequence[str], found.get("proof", ()))),
        absent=tuple(cast(Sequence[str], found.get("absent", ()))),
        differs=str(found.get("differs", "")),
        instead=str(found.get("instead", "")),
        scenario_counts=tuple(counts.items()),
    )


def _counted() -> dict[str, object]:
    return cast(dict[str, object], json.loads(_text("scenarios.json")))


def _text(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
