"""The names that other tools have for what leveret has: what to use instead of each (see `other_names.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

_TABLES: Final = {
    kind: {names: answer for answer, names in table.items()}
    for kind, table in tomllib.loads(
        files(__package__).joinpath("other_names.toml").read_text(encoding="utf-8")
    ).items()
}
# What a fixture of another plugin returns, in words of ours.
FIXTURES: Final[Mapping[str, str]] = _TABLES.pop("fixtures")
# Answers for any object, and for the module.
EVERYWHERE: Final[Mapping[str, str]] = _TABLES.pop("everywhere")
# Answers by foreign names, which are separated by spaces, for each kind of object.
OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = {**_TABLES, "Aio": {**_TABLES["Aio"], **_TABLES["Broker"]}}


def answer_to(name: str, table: Mapping[str, str]) -> str | None:
    """Return the answer to a foreign name in one of these tables, None if it has none."""
    return next((answer for others, answer in table.items() if name in others.split()), None)
