"""The differences between two runs, or between two commits."""

from __future__ import annotations

from datetime import date

import pytest

from leveret.pipeline.diff import Compared, RunDifference, diff, lines
from leveret.pipeline.reading import Read
from leveret.pipeline.report.subject import choose
from tests.pipeline.in_memory import reader_of_traces
from tests.pipeline.plain import Trace

PURGED = "removed with or from its queue"


def _trace(run: str, commit: str, *tests: tuple[str, int, str], outcome: str | None = "passed") -> Trace:
    """Return a run of tests, each with a queue of its own: its name, the number of its messages, and their end.

    `outcome` is that of the last test. If it is None, the run was killed during this test.
    """
    events: list[dict[str, object]] = []
    for name, messages, end in tests:
        queue, test = f"of_{name}", {"test": name}
        events.append({"kind": "test_start", **test})
        for _ in range(messages):
            about = {"vhost": "/", "queue": queue, "msg": len(events), "copy": len(events), **test}
            address = {"vhost": "/", "exchange": "", "routing_key": queue}
            events.append({"kind": "published", **address, "msg": about["msg"], **test})
            events.append({"kind": "enqueued", **about, **address})
            events.append({"kind": "got", **about, "redelivered": False})
            events.append({"kind": end, **about})
        ending = "passed" if name != tests[-1][0] else outcome
        if ending is not None:
            events.append({"kind": "test_end", "attrs": f'{{"outcome":"{ending}","duration":1}}', **test})
    numbered = [{"seq": seq, "ts": seq, **event} for seq, event in enumerate(events)]
    return Trace(run, "main", date(2026, 1, 1), numbered, commit)


@pytest.fixture(scope="module")
def read() -> Read:
    return reader_of_traces(
        [
            _trace("a", "old", ("test_it", 2, "acked"), ("test_race", 1, "acked")),
            _trace("b", "new", ("test_it", 2, "purged"), ("test_race", 3, "acked")),
            _trace("c", "old", ("test_it", 2, "acked"), ("test_race", 2, "acked")),
            _trace("d", "new", ("test_it", 6, "purged"), ("test_race", 3, "acked")),
        ]
    )


def _diff(read: Read, left: str, right: str) -> Compared:
    runs = read("runs")
    return diff(read, choose(runs, left), choose(runs, right))


def _told(differences: list[RunDifference]) -> set[tuple[str | None, ...]]:
    return {(each.place.side, each.place.queue, each.place.difference, each.left, each.right) for each in differences}


def test_runs_differ_in_what_became_of_messages(read: Read) -> None:
    found = _diff(read, "a", "b")

    assert _told(found.differences) == {
        ("queue", "of_test_it", "acked", "2", None),
        ("test", "test_it", "flow", "of_test_it: 2 acknowledged", f"of_test_it: 2 {PURGED}"),
    }


def test_run_does_not_differ_from_itself(read: Read) -> None:
    assert _diff(read, "a", "a").all == []


def test_commit_stands_for_the_mean_of_its_runs(read: Read) -> None:
    found = _diff(read, "old", "new")

    assert ("queue", "of_test_it", "copies", "2", "4") in _told(found.differences)
    flows = f"of_test_it: 2 {PURGED} | of_test_it: 6 {PURGED}"
    assert ("test", "test_it", "flow", "of_test_it: 2 acknowledged", flows) in _told(found.differences)


def test_differences_of_tests_known_to_be_flaky_are_kept_apart(read: Read) -> None:
    found = _diff(read, "a", "b")

    assert found.flaky_tests == ["test_race"]
    assert _told(found.of_flaky) == {
        *(("queue", "of_test_race", name, "1", "3") for name in ("copies", "deliveries", "acked")),
        ("test", "test_race", "flow", "of_test_race: 1 acknowledged", "of_test_race: 3 acknowledged"),
    }


def test_flaky_test_that_differs_only_in_how_often_is_kept_apart() -> None:
    left = [_trace(f"left-{run}", "left", ("test_race", n, "acked")) for run, n in enumerate((1, 1, 2))]
    right = [_trace(f"right-{run}", "right", ("test_race", n, "acked")) for run, n in enumerate((1, 2))]

    found = _diff(reader_of_traces([*left, *right]), "left", "right")

    assert found.differences == []
    assert ("queue", "of_test_race", "copies", "1.333", "1.5") in _told(found.of_flaky)
    assert found.flaky_tests == ["test_race"]


def test_differences_of_flaky_tests_take_one_line_unless_they_are_wanted(read: Read) -> None:
    compared = _diff(read, "a", "b")

    folded, whole = lines(compared), lines(compared, with_flaky=True)

    assert folded[-1] == "flaky tests: 4 more differences, which --flaky lists, from test_race"
    assert "queue of_test_race, copies: 1 | 3" not in folded
    assert "queue of_test_race, copies: 1 | 3" in whole
    assert len(whole) == len(folded) - 1 + 4


def test_behaviour_that_is_new_on_the_right_is_shown(read: Read) -> None:
    found = _diff(read, "b", "d")

    assert found.flaky_tests == []
    assert ("queue", "of_test_it", "copies", "2", "6") in _told(found.differences)


@pytest.mark.parametrize(("counts", "is_flaky"), [((1, 2, 1, 2), True), ((1, 1, 2, 1), False), ((1, 2, 3, 4), False)])
def test_test_that_comes_back_to_earlier_behaviours_is_flaky_without_two_runs_of_a_commit(
    counts: tuple[int, ...], is_flaky: bool
) -> None:
    before = [_trace(f"run-{run}", f"commit-{run}", ("test_race", n, "acked")) for run, n in enumerate(counts)]

    found = _diff(reader_of_traces([*before, _trace("run-9", "new", ("test_race", 7, "acked"))]), "run-0", "run-9")

    assert found.flaky_tests == (["test_race"] if is_flaky else [])
    assert bool(found.differences) != is_flaky


def test_killed_run_does_not_make_its_test_flaky() -> None:
    read = reader_of_traces(
        [
            _trace("whole", "old", ("test_it", 2, "acked")),
            _trace("killed", "old", ("test_it", 1, "acked"), outcome=None),
            _trace("changed", "new", ("test_it", 3, "acked")),
        ]
    )

    found = _diff(read, "old", "new")

    assert found.of_flaky == []
    assert ("queue", "of_test_it", "copies", "2", "3") in _told(found.differences)


def test_runs_of_a_commit_that_were_cut_are_left_out_of_its_means() -> None:
    both = ("test_it", 2, "acked"), ("test_later", 1, "acked")
    read = reader_of_traces(
        [
            *(_trace(f"whole-{number}", "old", *both) for number in range(2)),
            _trace("killed", "old", both[0], outcome=None),
            _trace("other", "new", *both),
        ]
    )

    found = _diff(read, "old", "new")

    assert found.all == []
    assert lines(found) == ["left: commit old, without 1 run that was cut", "right: commit new"]


def test_run_that_was_cut_is_compared_and_called_cut() -> None:
    read = reader_of_traces(
        [
            _trace("killed", "old", ("test_it", 1, "acked"), outcome=None),
            _trace("whole", "old", ("test_it", 2, "acked")),
        ]
    )

    found = lines(_diff(read, "whole", "killed"))

    assert found[:2] == ["left: run whole", "right: run killed; it was cut, so tests and messages are missing"]
    assert "test test_it, outcome: passed | without an end" in found


@pytest.mark.parametrize(("left", "right"), [("same-1", "same-2"), ("old", "same-2")])
def test_outcome_that_a_flaky_test_had_before_is_kept_apart(left: str, right: str) -> None:
    found = _diff(_flaky_reader("failed"), left, right)

    assert [each.place.difference for each in found.differences if each.place.side == "test"] == []
    assert "outcome" in {each.place.difference for each in found.of_flaky}


@pytest.mark.parametrize(("left", "right"), [("same-1", "same-2"), ("old", "same-2"), ("old", "new")])
def test_outcome_that_is_new_on_the_right_is_shown_for_a_flaky_test_too(left: str, right: str) -> None:
    found = _diff(_flaky_reader("error"), left, right)

    assert ("test", "test_race", "outcome") in {each.place[:2] + each.place[3:] for each in found.differences}


def _flaky_reader(outcome: str) -> Read:
    """Return runs of a test that was flaky on an old commit, and ended so in a later run with messages like before."""
    before = [
        _trace("old-1", "old", ("test_race", 1, "acked")),
        _trace("old-2", "old", ("test_race", 2, "acked"), outcome="failed"),
    ]
    same = [
        _trace("same-1", "new", ("test_race", 1, "acked")),
        _trace("same-2", "new", ("test_race", 1, "acked"), outcome=outcome),
    ]
    return reader_of_traces([*before, *same])


def test_numbers_have_the_words_of_the_report() -> None:
    read = reader_of_traces(
        [_trace("few", "old", ("test_it", 1, "enqueued")), _trace("many", "new", ("test_it", 2, "enqueued"))]
    )

    found = lines(_diff(read, "few", "many"))

    assert "queue of_test_it, left over: 1 | 2" in found
    assert "queue of_test_it, depth: 1 | 2" in found
