"""The table of features: what RabbitMQ does over AMQP 0-9-1, and the proof that leveret does the same.

`table.toml` holds the rows with their proofs, most of them under the behaviours that a feature consists of.
`scenarios.json` counts the scenarios among the proofs that have transcripts, which were recorded from real servers. A
row is proven on a version if at least one of its scenarios has a transcript of that version, because leveret's tests
compare it with every transcript. Otherwise the row follows documents or a test alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, cast

from leveret.core.compat import VERSIONS as KNOWN_VERSIONS
from leveret.core.compat import Compat

VERSIONS: Final = tuple(KNOWN_VERSIONS)
# The versions with transcripts.
RECORDED: Final = ("4.3", "4.0", "3.10")
# The state of a row on one version, in addition to the number of scenarios that prove it.
DOCUMENTED: Final = "documented"
ABSENT: Final = "absent"
NOT_THERE: Final = "not there"
PROVEN: Final = "proven"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A rule that RabbitMQ follows, as part of a feature. The name begins with the section of the rule."""

    name: str
    # Scenarios, with `*` for any text.
    proof: tuple[str, ...] = ()
    # Why no scenario proves it.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One feature of RabbitMQ."""

    area: str
    name: str
    # Scenarios, with `*` for any text, and tests by their path. They include those of the behaviours.
    proof: tuple[str, ...]
    behaviours: tuple[Behaviour, ...] = ()
    # The versions of RabbitMQ that lack it.
    absent: tuple[str, ...] = ()
    # How leveret differs from the server.
    differs: str = ""
    # What happens instead, if leveret lacks it.
    instead: str = ""
    # How many scenarios prove it, by version.
    scenario_counts: tuple[tuple[str, int], ...] = ()

    def count(self, version: str) -> int:
        """Return how many scenarios prove it on a version."""
        return dict(self.scenario_counts).get(version, 0)

    def state(self, version: str) -> str:
        """Return the state on a version: ABSENT, NOT_THERE, PROVEN or DOCUMENTED."""
        if version in self.absent:
            return ABSENT
        if self.instead:
            return NOT_THERE
        return PROVEN if self.count(version) else DOCUMENTED

    @property
    def remark(self) -> str:
        """What to know in addition to the proof. Empty if all is as on the server."""
        return self.instead or self.differs


@dataclass(frozen=True, slots=True)
class Recorded:
    """The scenarios of one area (a file of them), by version."""

    area: str
    counts: tuple[tuple[str, int], ...]


def rows() -> tuple[Row, ...]:
    """Return all rows, by area, in the order of the table."""
    counts = cast(dict[str, dict[str, dict[str, int]]], _counted()["rows"])
    return tuple(
        _row(area, name, found, counts.get(area, {}).get(name, {}))
        for area, features in _table().items()
        for name, found in features.items()
    )


def recorded() -> tuple[Recorded, ...]:
    """Return how many scenarios each area and version has."""
    counted = cast(dict[str, dict[str, int]], _counted()["areas"])
    return tuple(Recorded(area, tuple(counts.items())) for area, counts in counted.items())


def refuse_unknown(version: str) -> None:
    """Raise ValueError for a version that leveret does not know."""
    Compat.for_version(version)


def _row(area: str, name: str, found: Sequence[object] | Mapping[str, object], counts: Mapping[str, int]) -> Row:
    values: Mapping[str, object] = found if isinstance(found, Mapping) else {"proof": found}
    entries = cast(Sequence[str | Mapping[str, list[str] | str]], values.get("proof", ()))
    behaviours = [_behaviour(*item) for entry in entries if not isinstance(entry, str) for item in entry.items()]
    own = [entry for entry in entries if isinstance(entry, str)]
    return Row(
        area,
        name,
        tuple(dict.fromkeys([*own, *(proof for behaviour in behaviours for proof in behaviour.proof)])),
        tuple(behaviours),
        absent=tuple(cast(Sequence[str], values.get("absent", ()))),
        differs=str(values.get("differs", "")),
        instead=str(values.get("instead", "")),
        scenario_counts=tuple(counts.items()),
    )


def _behaviour(name: str, proof: list[str] | str) -> Behaviour:
    return Behaviour(name, reason=proof) if isinstance(proof, str) else Behaviour(name, tuple(proof))


@cache
def _table() -> Mapping[str, Mapping[str, Sequence[object] | Mapping[str, object]]]:
    """Return the table as it is written; reading TOML is slow."""
    return tomllib.loads(_text("table.toml"))


def _counted() -> dict[str, object]:
    return cast(dict[str, object], json.loads(_text("scenarios.json")))


def _text(name: str) -> str:
    return (files(__name__) / name).read_text(encoding="utf-8")
