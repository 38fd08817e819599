"""The differences between two runs, or between two commits."""

from __future__ import annotations

from datetime import date

import pytest

from leveret.pipeline.diff import Compared, Difference, diff, lines
from leveret.pipeline.reading import Read
from leveret.pipeline.report.subject import choose
from tests.pipeline.in_memory import reader_of_traces
from tests.pipeline.plain import Trace


def _trace(run: str, commit: str, *tests: tuple[str, int, str]) -> Trace:
    """Return a run of tests, each with a queue of its own: its name, the number of its messages, and their end."""
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
        events.append({"kind": "test_end", "attrs": '{"outcome":"passed","duration":1}', **test})
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


def _told(differences: list[Difference]) -> set[tuple[str | None, ...]]:
    return {(each.place.side, each.place.queue, each.place.difference, each.left, each.right) for each in differences}


def test_runs_differ_in_what_became_of_messages(read: Read) -> None:
    found = _diff(read, "a", "b")

    assert _told(found.differences) == {
        ("queue", "of_test_it", "acked", "2", None),
        ("test", "test_it", "flow", "of_test_it: 2 acked, 0 requeues", "of_test_it: 2 purged, 0 requeues"),
    }


def test_run_does_not_differ_from_itself(read: Read) -> None:
    assert _diff(read, "a", "a").all == []


def test_commit_stands_for_the_mean_of_its_runs(read: Read) -> None:
    found = _diff(read, "old", "new")

    assert ("queue", "of_test_it", "copies", "2", "4") in _told(found.differences)
    flows = "of_test_it: 2 purged, 0 requeues | of_test_it: 6 purged, 0 requeues"
    assert ("test", "test_it", "flow", "of_test_it: 2 acked, 0 requeues", flows) in _told(found.differences)


def test_differences_of_tests_known_to_be_flaky_are_kept_apart(read: Read) -> None:
    found = _diff(read, "a", "b")

    assert found.flaky_tests == ["test_race"]
    # The default exchange is used by both tests; what flaky tests did not change of it stays equal.
    assert _told(found.of_flaky) == {
        *(("queue", "of_test_race", name, "1", "3") for name in ("copies", "deliveries", "acked")),
        ("test", "test_race", "flow", "of_test_race: 1 acked, 0 requeues", "of_test_race: 3 acked, 0 requeues"),
        ("coverage", "", "exchange", "3", "5"),
        ("coverage", "of_test_race", "queue", "1", "3"),
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

    assert folded[-1] == "flaky tests: 6 more differences, which --flaky lists, from test_race"
    assert "queue of_test_race, copies: 1 | 3" not in folded
    assert "queue of_test_race, copies: 1 | 3" in whole
    assert 'coverage "", exchange: 3 | 5' in whole
    assert len(whole) == len(folded) - 1 + 6


def test_behaviour_that_is_new_on_the_right_is_shown(read: Read) -> None:
    found = _diff(read, "b", "d")

    assert found.flaky_tests == []
    assert ("queue", "of_test_it", "copies", "2", "6") in _told(found.differences)
