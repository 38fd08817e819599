"""Programs with the answers of a real server, a line of JSON each, in ``recorded/VERSION-KIND.jsonl.gz``.

A recording keeps the steps and not only the seed, so it stays valid when the generator changes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .answer import Answer
from .steps import Program, Step

_ROOT = Path(__file__).parent / "recorded"


@dataclass(frozen=True)
class Recording:
    """A program, and the answers to each of its steps."""

    seed: int
    program: Program
    answers: list[Answer]
    kind: str = "programs"


def versions() -> list[str]:
    """Return the versions that have recordings."""
    return sorted({path.name.split("-")[0] for path in _ROOT.glob("*.jsonl.gz")})


def load(version: str) -> list[Recording]:
    """Return all recordings of that version."""
    found = []
    for path in sorted(_ROOT.glob(f"{version}-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found += [_parsed(json.loads(line)) for line in lines]
    return found


def _parsed(entry: dict[str, object]) -> Recording:
    seed, steps, answers = entry["seed"], entry["steps"], entry["answers"]
    assert isinstance(seed, int)
    assert isinstance(steps, list)
    assert isinstance(answers, list)
    return Recording(seed, tuple(map(Step.from_json, steps)), answers, str(entry.get("kind", "programs")))


def save(version: str, kind: str, recordings: Iterable[Recording]) -> Path:
    """Write the file of that version and kind anew."""
    entries = (
        {
            "kind": it.kind,
            "seed": it.seed,
            "steps": [step.to_json() for step in it.program],
            "answers": it.answers,
        }
        for it in recordings
    )
    text = "".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n" for entry in entries)
    _ROOT.mkdir(exist_ok=True)
    path = _ROOT / f"{version}-{kind}.jsonl.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path
