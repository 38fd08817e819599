"""The options stand in one table: `Broker`, the marker, the page and the tests have what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from pytest_leveret.options import markers
from pytest_leveret.options.table import BROKER_ONLY, KEYWORDS, OPTIONS, TABLE, Option

from leveret import Broker
from tests.house.repository import SourceFile, without_house

# What the help and the page say of a default that Python writes otherwise.
SAID = {"0": "a free one", "False": "no"}
# The defaults of the keywords of `Broker`.
GIVEN = Broker.__init__.__kwdefaults__ or {}
TABLE_PATH = "pytest_plugin/pytest_leveret/options/table.py"


@pytest.fixture(scope="module")
def page(root: Path) -> dict[str, list[str]]:
    """These are the rows of the page of options, by their first cell."""
    text = (root / "docs/reference/options.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| `\w+` \| `", line)]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_a_word_stands_once() -> None:
    words = [option.word for option in (*TABLE, *BROKER_ONLY)]

    assert sorted(words) == sorted(set(words)), f"{TABLE_PATH} has rows of one name"


def test_broker_takes_the_keywords_of_the_table_with_their_types() -> None:
    kinds = Broker.__init__.__annotations__
    taken = {name: kinds[name] for name in GIVEN}

    listed = {option.word: option.kind.annotation for option in KEYWORDS.values()}

    assert listed == taken, f"{TABLE_PATH} and Broker() in src/leveret/broker.py differ"


def test_the_help_of_broker_names_its_keywords() -> None:
    text = Broker.__init__.__doc__ or ""

    assert [word for word in KEYWORDS if f"`{word}`" not in text] == []


def test_the_help_of_an_option_says_the_default_of_broker() -> None:
    said = {option.word: found[1] for option in OPTIONS if (found := re.search(r"\(default: ([^)]*)\)", option.help))}

    defaults = {word: str(GIVEN[word]) for word in said}

    assert said.keys() >= {"rabbitmq", "seed", "record", "max_redeliveries", "declare", "host", "port"}
    assert [word for word in said if said[word] not in (defaults[word], SAID.get(defaults[word]))] == []


def test_the_marker_takes_the_options_with_the_values_that_its_line_shows() -> None:
    shown = dict(re.findall(r"(\w+)=('[^']*'|\{[^}]*\}|\w+)", markers.LINE.partition("):")[0]))

    assert list(shown) == [option.word for option in OPTIONS]
    assert all(option.kind.check(option.word, eval(shown[option.word])) is not None for option in OPTIONS)


def test_every_option_is_documented_and_tested(page: dict[str, list[str]], python_files: list[SourceFile]) -> None:
    files = [file for file in without_house(python_files) if file.path.startswith(("tests/", "examples/"))]
    tests, words = "\n".join(file.text for file in files), [option.word for option in OPTIONS]

    offences = [f"docs/reference/options.md has no row for {option.word!r}" for option in without(page, OPTIONS)]
    offences += [f"options.md has {word!r}, and {TABLE_PATH} has none" for word in page if word not in words]
    offences += [
        f"no test sets {option.flag} or {option.ini}; write it in tests/plugin"
        for option in OPTIONS
        if option.flag not in tests and option.ini not in tests
    ]

    assert offences == []


def test_the_page_names_an_option_as_every_place_does(page: dict[str, list[str]]) -> None:
    wrong = [
        (option.word, cell)
        for option in OPTIONS
        for cell, name in zip(page[option.word], places(option), strict=False)
        if not cell.startswith(f"`{name}")
    ]

    assert wrong == []


def places(option: Option) -> tuple[str, ...]:
    """Return its names in the marker, on the command line, in the environment and in the ini file."""
    return f"{option.word}=", f"{option.flag}=", option.variable, option.ini


def without(page: dict[str, list[str]], options: Iterable[Option]) -> list[Option]:
    """Return the options that have no row on the page."""
    return [option for option in options if option.word not in page]
