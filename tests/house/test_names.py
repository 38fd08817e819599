"""A class name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.house.repository import SourceFile

# Names that stand for several things, each with its number of places. This list only gets shorter: `Rule` and `Table`
# are what users write in Python, beside what the pipeline and the core call so.
NOT_YET_ONE: dict[str, int] = {"Rule": 2, "Table": 2}


def test_a_class_name_means_one_thing(source_files: list[SourceFile]) -> None:
    places = defaultdict(list)
    for file in source_files:
        for node in file.nodes(ast.ClassDef):
            places[node.name].append(file.at(node))

    several = {name: sorted(found) for name, found in places.items() if len(found) > 1}

    new = {name: found for name, found in several.items() if len(found) > NOT_YET_ONE.get(name, 1)}
    assert new == {}, "name each class after what it is, so that a reader who meets the name knows it"
    assert {name: len(several.get(name, "-")) for name in NOT_YET_ONE} == NOT_YET_ONE, "shorten NOT_YET_ONE"
