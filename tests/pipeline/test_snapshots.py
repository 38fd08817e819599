"""Snapshots of a state: they hold all of it, in few bytes."""

from __future__ import annotations

import gzip
import random

import pytest

from leveret.pipeline.warehouse.log import Answer, Contents, FileState, RunState, Segment, decode, encode


def many_runs(count: int) -> Contents:
    """Return a warehouse of so many runs: each has one file, and five of them come with an update."""
    dice = random.Random(5)
    state = Contents(number=2 * (count // 5))
    for number in range(count):
        if number % 5 == 0:
            part, answer = (f"{number // 5 * 2 + each:08d}-{dice.randbytes(4).hex()}" for each in (1, 2))
            state.answers[answer] = Answer({f"table_{table}": dice.randrange(10_000) for table in range(18)}, [])
        name = f"20260726T{number // 3600 % 24:02d}{number // 60 % 60:02d}{number % 60:02d}-{dice.randbytes(4).hex()}"
        revision = number // 5 * 2 + 1
        state.runs[name] = RunState(
            [Segment(part, number % 5, 1)],
            {"main": 1},
            dice.randrange(20_000),
            revision,
            answer,
            revision,
            revision + 1,
            "2026-07-26",
        )
        state.answers[answer].runs.append(name)
        path = f"/ci/workspace/shop/build-{number}/traces/{name}.main.jsonl.gz"
        modified_ns = 1_785_000_000_000_000_000 + dice.randrange(10**17)
        state.files[path] = FileState(dice.randrange(200_000), modified_ns, None, name, "main", "2026-07-26")
    return state


def test_a_snapshot_holds_the_whole_state() -> None:
    state = Contents(
        number=12,
        files={
            "/a/r1.main.jsonl": FileState(10, 20, None, "r1", "main", "2026-07-26", True),
            "/a/r1/r1.gw0.jsonl": FileState(11, 21, None, "r1", "gw0", "2026-07-26"),
            "/a/broken.jsonl": FileState(12, 22, "it is empty"),
            "/a/many runs.parquet": FileState(13, 23),
            "/a/gone.jsonl": FileState(14, 24, None, "expired", "main", "2026-01-01"),
        },
        runs={
            "r1": RunState(
                [Segment("p1", 0, 2), Segment("p2", 3, 1)], {"main": 2, "gw0": 1}, 30, 4, "a1", 3, 5, "2026-07-26"
            ),
            "": RunState(revision=2, day="2026-07-27"),
        },
        answers={
            "a1": Answer({"runs": 1, "copies": 0}, ["r1", "expired"], {"own": "own/a1"}),
            "a2": Answer({"runs": 1}, [""]),
        },
        expired_before="2026-02-01",
        keep_days=90,
    )

    assert decode(encode(state)) == state


def test_an_empty_state_has_a_snapshot() -> None:
    assert decode(encode(Contents())) == Contents()


def test_a_snapshot_needs_eighty_bytes_a_run() -> None:
    state = many_runs(2000)

    assert len(encode(state)) < 80 * 2000
    assert decode(encode(state)) == state


def test_a_snapshot_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="snapshot 7 was written by another version of leveret"):
        decode(gzip.compress(b'{"number": 7, "v": 99}'))
