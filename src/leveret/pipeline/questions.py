"""What the lead of a fleet asks: which tests are flaky and why, which causes failed tests share, what a branch changes.

Each question is answered from the tables, as lines of text, and by the same tests of chance as `changes`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from leveret.pipeline.history import badness, summed
from leveret.pipeline.kernel.columns import Array
from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.levels import LevelChange, changes_in, difference, fisher
from leveret.pipeline.kernel.subjects.changes import RUNS, EverySeries, changes
from leveret.pipeline.kernel.subjects.counts import OUTCOMES
from leveret.pipeline.kernel.subjects.tests import FAILURES
from leveret.pipeline.reading import Read
from leveret.pipeline.sources import pages_of
from leveret.pipeline.warehouse.state import FileState
from leveret.pipeline.wording import change_text
from leveret.wording import count_text, masked

Files = Mapping[str, FileState]

# How likely chance may make failed and passed runs differ in something.
_CHANCE: Final = 0.01
# The fewest runs of the base of a branch, and the fewest turns of a flaky test.
_LEAST: Final = 3
_NAMED: Final = 5
_OF_TESTS: Final = ("run", "worker", "test", "outcome", "error", "page", "page_hash")


def flaky(read: Read, files: Files, runs: Sequence[str]) -> Iterator[str]:
    """Yield lines on each test that passed and failed in turn over the last of these runs, given oldest first.

    They say how often it fails and since when, in what its failed runs differ from those that passed, and the causes
    that its pages name.
    """
    runs = runs[-RUNS:]
    counts = read("run_counts", runs=runs, where={"measure": ["outcome"]})
    since = {row["test"]: row for row in changes(counts).to_pylist() if row["holds"]}
    found: dict[str, tuple[str, dict[str, bool]]] = {}
    for test, outcomes in sorted(_outcomes(counts, runs).items()):
        change = since.get(test, {"since_run": None})
        begins = [*outcomes].index(change["since_run"]) if change["since_run"] in outcomes else 0
        has_failed = dict([*outcomes.items()][begins:])
        if not _is_flaky([*has_failed.values()]):
            continue
        rate = f"{test} fails in {sum(has_failed.values())} of {count_text(len(has_failed), 'run')}"
        if begins:
            before = sum([*outcomes.values()][:begins])
            commit = change["since_commit"]
            named = f"commit {commit[:12]}" if commit else f"run {change['since_run']}"
            rate += f" since {named}, and in {before} of {begins} before"
        found[test] = rate, has_failed
    if not found:
        return
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in read("tests", runs=runs, columns=_OF_TESTS, where={"test": found}).to_pylist():
        if row["run"] in found[row["test"]][1]:
            rows[row["test"]].append(row)
    surroundings = _Surroundings(read, runs)
    for test, (rate, has_failed) in found.items():
        yield rate
        yield from (f"  {line}" for line in _differing(surroundings, rows[test], has_failed))
        failed = [row for row in rows[test] if row["outcome"] in FAILURES]
        for sentence, of in _counted((*fact, row) for row, facts in _facts(failed, files) for fact in facts):
            yield f"  in {len(of)} of {count_text(len(failed), 'failure')}: {sentence}"


def _is_flaky(has_failed: Sequence[bool]) -> bool:
    """Return whether a test passes and fails in turn.

    One that was broken for some runs and then mended turns far less often than chance would have it.
    """
    turns = sum(left != right for left, right in pairwise(has_failed))
    expected = 2 * sum(has_failed) * has_failed.count(False) / len(has_failed)
    return turns >= _LEAST and 2 * turns >= expected


def _outcomes(counts: pa.Table, runs: Sequence[str]) -> dict[str, dict[str, bool]]:
    """Return for each test whether it failed in each of these runs, without those in which it was skipped."""
    worst = {(row["run"], row["test"]): row["n"] for row in grouped(counts, ("run", "test"), highest=["n"])}
    position = {run: at for at, run in enumerate(runs)}
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for run, test in sorted(worst, key=lambda key: position[key[0]]):
        if OUTCOMES[worst[run, test]] != "skipped":
            found[test][run] = OUTCOMES[worst[run, test]] in FAILURES
    return found


class _Surroundings:
    """In what the runs of tests may differ: their worker, branch and Python, and the test that ran before."""

    def __init__(self, read: Read, runs: Sequence[str]) -> None:
        self._workers: Final = {(row["run"], row["worker"]): row for row in read("runs", runs=runs).to_pylist()}
        # By run, worker and test, the one before its first attempt.
        self._earlier: Final[dict[tuple[str, str, str], str | None]] = {}
        of_worker: dict[tuple[str, str], list[str]] = defaultdict(list)
        starts = read("control", runs=runs, columns=("run", "worker", "seq", "test"), where={"kind": ["test_start"]})
        for row in sorted(starts.to_pylist(), key=itemgetter("seq")):
            of_worker[row["run"], row["worker"]].append(row["test"])
        for worker, tests in of_worker.items():
            for earlier, test in zip([None, *tests], tests, strict=False):
                self._earlier.setdefault((*worker, test), earlier)

    def of(self, row: Row) -> Iterator[str]:
        """Yield in what surroundings the test of a row of `tests` ran, as text."""
        worker = row["run"], row["worker"]
        about = self._workers.get(worker, {})
        for template, value in (
            ("on worker {}", row["worker"]),
            ("on branch {}", about.get("branch")),
            ("on Python {}", about.get("python")),
            ("right after {}", self._earlier.get((*worker, row["test"]))),
        ):
            if value:
                yield template.format(value)


def _differing(surroundings: _Surroundings, rows: Iterable[Row], has_failed: Mapping[str, bool]) -> Iterator[str]:
    """Yield in what the failed runs of a test differ from those that passed, if chance alone rarely does that."""
    where: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for text in surroundings.of(row):
            where[text].add(row["run"])
    count, failures = len(has_failed), sum(has_failed.values())
    for text, runs in sorted(where.items()):
        failed = sum(has_failed[run] for run in runs)
        if fisher(failed, len(runs), failures, count) * len(where) <= _CHANCE:
            yield f"{text}: {failed} of {failures} failures, and {len(runs) - failed} of {count - failures} passes"


def causes(read: Read, files: Files, runs: Sequence[str]) -> Iterator[str]:
    """Yield a line for each cause of failed tests in these runs, the most frequent first, and one with its tests.

    A cause is the first that the page of the test names, or else the last line of the error, and what a client was
    refused.
    """
    rows = read("tests", runs=runs, columns=_OF_TESTS, where={"outcome": FAILURES}).to_pylist()
    refused: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in read("run_counts", runs=runs, where={"measure": ["refused"]}).to_pylist():
        refused[row["run"], row["test"]].add(row["reason"])

    def cause(row: Row, facts: Sequence[tuple[str, str]]) -> tuple[str, str, Row]:
        error = masked(((row["error"] or "").strip().splitlines() or ["no error was recorded"])[-1])
        codes = ", ".join(sorted(refused[row["run"], row["test"]]))
        kind, text = facts[0] if facts else (error, error)
        return f"{codes} {kind}", f"refused with code {codes}: {text}" if codes and codes not in text else text, row

    for text, of in _counted(cause(row, facts) for row, facts in _facts(rows, files)):
        tests = sorted({row["test"] for row in of})
        seen = len({row["run"] for row in of})
        yield f"{count_text(len(tests), 'test')} in {count_text(seen, 'run')}: {text}"
        more = f" and {len(tests) - _NAMED} others" if len(tests) > _NAMED else ""
        yield f"  {', '.join(tests[:_NAMED])}{more}"


def _facts(rows: Sequence[Row], files: Files) -> Iterator[tuple[Row, list[tuple[str, str]]]]:
    """Yield each row of `tests` with the causes in the JSON beside its page: which kind each is, and its sentence.

    Causes of one kind have the same names, of queues and clients, and follow from the same kind of cause.
    """
    for row, page in zip(rows, pages_of(rows, files), strict=True):
        try:
            facts = json.loads(page.with_suffix(".json").read_text(encoding="utf-8")) if page is not None else {}
            found = [(_kind_of(cause), str(cause["sentence"])) for cause in facts.get("causes", ())]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            # The file is gone, or is not leveret's.
            found = []
        yield row, found


def _kind_of(cause: Mapping[str, Any]) -> str:
    names = [f"{name}={masked(value)}" for name, value in sorted(cause["names"].items()) if isinstance(value, str)]
    because = _kind_of(cause["because"]) if "because" in cause else ""
    return f"{cause['kind']} {names} {because}"


def _counted(found: Iterable[tuple[str, str, Row]]) -> list[tuple[str, list[Row]]]:
    """Return the rows of each kind, the most frequent kind first, with the text of the first of them."""
    by_kind: dict[str, list[Row]] = defaultdict(list)
    texts: dict[str, str] = {}
    for kind, text, row in found:
        by_kind[kind].append(row)
        texts[kind] = min(text, texts.get(kind, text))
    return sorted(((texts[kind], of) for kind, of in by_kind.items()), key=lambda pair: (-len(pair[1]), pair[0]))


def branch(read: Read, runs: Sequence[str], base: Sequence[str], then: str) -> list[str]:
    """Return a line for each number that differs between the runs of a branch and those of its base.

    The noise of the base is left out: a number counts if runs that were shuffled between both would rarely differ as
    much. `then` is how a line names the base. Raises ValueError if the base has too few runs.
    """
    if len(base) < _LEAST:
        raise ValueError(f"{then} has {count_text(len(base), 'run')}; to know its noise, it needs {_LEAST} or more")
    every = EverySeries(read("run_counts", runs=[*base, *runs]))
    is_its = every.run_names.is_in(runs)
    found = []
    for series in every.series:
        of_branch = is_its[series.runs]
        values, later = series.values[np.argsort(of_branch, kind="stable")], int(of_branch.sum())
        change = _beside_base(values, later, series.measure, every.spells[series.measure]) if later else None
        if change is not None:
            found.append([every.names_of(series) | change._asdict()])
    return [change_text(row, then=then) for row in sorted(summed(every.believed(found)), key=badness)]


def _beside_base(values: Array, later: int, measure: str, spell: float) -> LevelChange | None:
    """Return how the last values, those of a branch, differ from those of its base before them.

    If the base has changed meanwhile, a branch may be like the base before or after that. So it has to differ from
    both.
    """
    base, its = values[: len(values) - later], values[len(values) - later :]
    changed = changes_in(base, measure, spell)
    if any(change.kind == "growth" for change in changed):
        return None
    edges = [0, *(change.start or 0 for change in changed), len(base)]
    parts = [base[begin:end] for begin, end in pairwise(edges) if end - begin >= _LEAST]
    found = [difference(np.concatenate([part, its]), len(part), measure, spell) for part in parts]
    kept = [change for change in found if change is not None and change.chance <= _CHANCE]
    return kept[-1] if kept and len(kept) == len(parts) else None
