"""Scenarios that are recorded on real servers and replayed on leveret.

`tests.semantics` and `tests.management` each have a language of their own for scenarios. What both do with them is
here: registering, transcripts, the command that records, and the comparison.

A transcript is what a server answered, as JSON: one file for each version and area. If an older version answered
exactly as the latest, its file says so instead of repeating the answers.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ALL_VERSIONS = ("4.3", "4.0", "3.10")
LATEST = "4.3"
_SAME = f"as {LATEST}"
Transcript = Any


@dataclass(frozen=True)
class Scenario:
    """One behaviour: its function, its area (the file it is in) and the versions it holds for."""

    name: str
    area: str
    function: Callable[[Any], None]
    versions: tuple[str, ...] = ALL_VERSIONS
    # Stops or starves the whole node: recorded only on a node of its own.
    needs_own_node: bool = False
    # Runs on a node with the settings of tests.semantics.target.
    has_settings: bool = False

    @property
    def id(self) -> str:
        return f"{self.area}/{self.name}"


class Scenarios(dict[str, Scenario]):
    """The registered scenarios, by id."""

    def scenario(self, function: Callable[[Any], None] | None = None, **options: Any) -> Callable[..., Any]:
        """Register a function as a scenario; its name is the sentence it proves."""

        def register(decorated: Callable[[Any], None]) -> Callable[[Any], None]:
            area = decorated.__module__.rsplit(".", 1)[-1]
            made = Scenario(decorated.__name__, area, decorated, **options)
            assert made.id not in self, f"scenario {made.id} exists twice; rename one of them"
            self[made.id] = made
            return decorated

        return register(function) if function is not None else register

    def of_area(self, area: str) -> list[str]:
        """Return the names of the scenarios of an area, in their order."""
        return [each.name for each in self.values() if each.area == area]

    def cases(self, marks: dict[str, list[pytest.MarkDecorator]] | None = None) -> list[Any]:
        """Return a parameter of pytest for each scenario and version, with the marks of its area."""
        return [
            pytest.param(it, version, id=f"{it.id}-{version}", marks=(marks or {}).get(it.area, []))
            for it in self.values()
            for version in it.versions
        ]


def loader(package: str, path: Iterable[str]) -> Callable[[], None]:
    """Return what imports every module of a package, which registers its scenarios."""

    def load_all() -> None:
        for module in pkgutil.iter_modules(path):
            importlib.import_module(f"{package}.{module.name}")

    return load_all


class Transcripts:
    """The committed transcripts below a folder."""

    def __init__(self, root: Path, text_of: Callable[[dict[str, Transcript]], str]) -> None:
        """`text_of` returns the text of a file."""
        self._root = root
        self._text_of = text_of
        self._files: dict[tuple[str, str], dict[str, Transcript]] = {}

    def _read(self, version: str, area: str) -> dict[str, Transcript]:
        if (version, area) not in self._files:
            path = self._path(version, area)
            self._files[version, area] = json.loads(path.read_text()) if path.exists() else {}
        return self._files[version, area]

    def _path(self, version: str, area: str) -> Path:
        return self._root / version / f"{area}.json"

    def load(self, version: str, area: str, name: str) -> Transcript | None:
        """Return what that version answered, or None if it was not recorded."""
        answers = self._read(version, area).get(name)
        return self.load(LATEST, area, name) if answers == _SAME else answers

    def recorded(self) -> Iterator[tuple[str, str, str]]:
        """Yield the area, the name and the version of every transcript."""
        for path in sorted(self._root.glob("*/*.json")):
            for name in self._read(path.parent.name, path.stem):
                yield path.stem, name, path.parent.name

    def save(self, version: str, area: str, recorded: dict[str, Transcript], known: list[str]) -> None:
        """Write transcripts into the file of the area; `known` are the names that still exist, in their order."""
        merged = {**self._read(version, area), **recorded}
        latest = {} if version == LATEST else self._read(LATEST, area)
        kept = {
            name: _SAME if name in latest and merged[name] == latest[name] else merged[name]
            for name in known
            if name in merged
        }
        path = self._path(version, area)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another recording may read the file meanwhile.
        written = path.with_suffix(".new")
        written.write_text(self._text_of(kept))
        written.replace(path)
        self._files.clear()

    def check(self, scenario: Scenario, version: str, answers: Transcript) -> None:
        """Fail the test with the difference unless the server had answered so."""
        __tracebackhide__ = True
        expected = self.load(version, scenario.area, scenario.name)
        assert expected is not None, f"{scenario.id} has no transcript of {version}"
        if answers != expected:
            pytest.fail(difference(expected, answers), pytrace=False)


def difference(expected: Transcript, answers: Transcript) -> str:
    """Return a readable difference of two transcripts."""
    lines = (json.dumps(it, indent=1, ensure_ascii=False, sort_keys=True).splitlines() for it in (expected, answers))
    return "\n".join(difflib.unified_diff(*lines, "expected", "got", n=3, lineterm=""))


def record(
    scenarios: Scenarios,
    transcripts: Transcripts,
    answer: Callable[[Scenario, str, str], Transcript],
    *,
    repeat: int,
    is_whole: Callable[[Transcript], bool] = bool,
) -> int:
    """Run the command that records. Return how many scenarios did not answer the same each time, as the exit code.

    `answer` runs a scenario on the server of a URL and a version. Every scenario runs several times, because an answer
    that depends on timing proves nothing. One that differs, or is not whole, is printed and not saved.
    """
    parser = argparse.ArgumentParser(description="record what real servers answer")
    parser.add_argument("--oracle", action="append", required=True, metavar="VERSION=URL")
    parser.add_argument("--only", action="append", metavar="AREA[/NAME]")
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--own-node", action="store_true")
    parser.add_argument("--settings", action="store_true", help="the node runs with target.SETTINGS: what asks that")
    parser.add_argument("--new", action="store_true", help="only what has no transcript yet")
    options = parser.parse_args()

    def is_wanted(scenario: Scenario, version: str) -> bool:
        if version not in scenario.versions or (scenario.needs_own_node and not options.own_node):
            return False
        if scenario.has_settings != options.settings:
            return False
        if options.new and transcripts.load(version, scenario.area, scenario.name) is not None:
            return False
        return not options.only or scenario.area in options.only or scenario.id in options.only

    def is_saved(scenario: Scenario, version: str, url: str) -> bool:
        try:
            first, *others = [answer(scenario, url, version) for _ in range(options.repeat)]
        except Exception:
            print(f"{version} {scenario.id} broke down", file=sys.stderr)
            traceback.print_exc()
            return False
        odd = next((each for each in others if each != first), None)
        if odd is None and is_whole(first):
            transcripts.save(version, scenario.area, {scenario.name: first}, scenarios.of_area(scenario.area))
            return True
        print(f"{version} {scenario.id}: not saved")
        print(json.dumps(first, indent=1) if odd is None else difference(first, odd))
        return False

    unsaved = 0
    for pair in options.oracle:
        version, url = pair.split("=", 1)
        saved = [is_saved(it, version, url) for it in scenarios.values() if is_wanted(it, version)]
        print(f"{version}: {sum(saved)} recorded, {len(saved) - sum(saved)} not")
        unsaved += len(saved) - sum(saved)
    return unsaved
