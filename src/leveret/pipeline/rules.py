"""Rules of your own: conditions in SQL on the rows of a table, which Spark checks after leveret's rules.

leveret's rules are in `leveret.pipeline.kernel.rules`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from leveret.errors import unknown
from leveret.pipeline.kernel.rules import RULES as OF_LEVERET
from leveret.pipeline.kernel.schema import TABLES

PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the `condition` (SQL of Spark) under which a row of the table `about` is wrong, and the `text` of it.

    In the text, {column} stands for the row's value. `of_end` marks a rule about what had not happened by the end of a
    test. Such a rule does not apply to a test whose end is missing because its file was cut.
    """

    name: str
    condition: str
    text: str
    about: str = "copies"
    of_end: bool = False


# The rules that were added, by their names.
RULES: Final[dict[str, Rule]] = {}


def register(rule: Rule) -> None:
    """Add a rule to those that each update checks.

    Raises ValueError if the name is taken, and KeyError if the table does not exist.
    """
    if rule.name in RULES or rule.name in {known.name for known in OF_LEVERET}:
        raise ValueError(f"rule {rule.name!r} exists already; choose another name")
    if rule.about not in TABLES:
        raise KeyError(unknown("table", rule.about, TABLES))
    RULES[rule.name] = rule
