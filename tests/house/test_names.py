"""A class name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.house.repository import SourceFile

# Names that still stand for several things, each with its files below src/leveret and pytest_leveret. This list only
# gets shorter. `Rule` and `Table` are what users write beside what the core has long called so.
NOT_YET_ONE: dict[str, int] = {
    **dict.fromkeys(("Change", "Check", "Death", "Diagnosis", "Effect", "Fault", "Finding", "Job", "Outcome"), 2),
    **dict.fromkeys(("Fact", "Play", "State", "Table"), 2),
    **dict.fromkeys(("Kind", "Rule", "Run"), 3),
}


def test_a_class_name_means_one_thing(source_files: list[SourceFile]) -> None:
    places = defaultdict(list)
    for file in source_files:
        for node in file.nodes(ast.ClassDef):
            places[node.name].append(file.at(node))

    several = {name: sorted(found) for name, found in places.items() if len(found) > 1}

    new = {name: found for name, found in several.items() if len(found) > NOT_YET_ONE.get(name, 1)}
    assert new == {}, "name each class after what it is, so that a reader who meets the name knows it"
    assert {name: len(several.get(name, "-")) for name in NOT_YET_ONE} == NOT_YET_ONE, "shorten NOT_YET_ONE"
