"""The table of features: what RabbitMQ does over AMQP 0-9-1, and the proof that leveret does the same.

`tools/features.toml` holds the rows with their proofs, most of them under the behaviours that a feature consists of. A
row is proven on a version if at least one of its scenarios has a transcript of that version, because leveret's tests
compare it with every transcript. Otherwise the row follows documents or a test alone.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import filter as fnmatching
from functools import cache
from pathlib import Path
from typing import Final, cast

from leveret.core.compat import VERSIONS as KNOWN_VERSIONS
from tests.semantics import scenarios
from tests.semantics.scenario import SCENARIOS, transcripts

scenarios.load_all()

TABLE: Final = Path(__file__).parents[2] / "tools/features.toml"
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

    def scenarios(self) -> set[str]:
        """Return the names of the scenarios that prove it."""
        return {name for proof in self.proof if not is_test(proof) for name in matching(proof)}

    def count(self, version: str) -> int:
        """Return how many scenarios prove it on a version."""
        return _counts(self).get(version, 0)

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


@cache
def rows() -> tuple[Row, ...]:
    """Return all rows, by area, in the order of the table."""
    return tuple(_row(area, name, found) for area, features in _table().items() for name, found in features.items())


def is_test(proof: str) -> bool:
    """Return whether a proof is a test, by its path, and no scenario."""
    return proof.startswith("tests/")


@cache
def matching(pattern: str) -> list[str]:
    """Return the scenarios that a pattern selects; most patterns are names."""
    if "*" not in pattern:
        return [pattern] * (pattern in SCENARIOS)
    beginning = pattern.partition("*")[0]
    # To compare with a pattern takes long.
    return fnmatching([name for name in SCENARIOS if name.startswith(beginning)], pattern)


def recorded_among(names: Iterable[str]) -> Counter[str]:
    """Return how many of these scenarios have a transcript, by version."""
    return Counter(version for name in names for version in _recorded_versions(name))


@cache
def _counts(row: Row) -> Counter[str]:
    return recorded_among(row.scenarios())


@cache
def _recorded_versions(name: str) -> list[str]:
    it = SCENARIOS[name]
    return [version for version in it.versions if transcripts.load(version, it.area, it.name) is not None]


def _row(area: str, name: str, found: Sequence[object] | Mapping[str, object]) -> Row:
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
    )


def _behaviour(name: str, proof: list[str] | str) -> Behaviour:
    return Behaviour(name, reason=proof) if isinstance(proof, str) else Behaviour(name, tuple(proof))


@cache
def _table() -> Mapping[str, Mapping[str, Sequence[object] | Mapping[str, object]]]:
    """Return the table as it is written; reading TOML is slow."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))
