"""Transcripts: one JSON file for each version and area, an answer on each line.

If an older version answered exactly as 4.3, its file says so instead of repeating the answers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from .scenario import Transcript

LATEST = "4.3"
_SAME = f"as {LATEST}"
_ROOT = Path(__file__).parent / "transcripts"


def _path(version: str, area: str) -> Path:
    return _ROOT / version / f"{area}.json"


@functools.cache
def _read(version: str, area: str) -> dict[str, Transcript | str]:
    path = _path(version, area)
    return json.loads(path.read_text()) if path.exists() else {}


def load(version: str, area: str, name: str) -> Transcript | None:
    """Return what that version answered, or None if it was not recorded."""
    found = _read(version, area).get(name)
    return load(LATEST, area, name) if isinstance(found, str) else found


def recorded() -> Iterator[tuple[str, str, Transcript]]:
    """Yield the area, the name and the answers of every transcript."""
    for path in sorted(_ROOT.glob("*/*.json")):
        for name, answers in json.loads(path.read_text()).items():
            if not isinstance(answers, str):
                yield path.stem, name, answers


def save(version: str, area: str, recorded: dict[str, Transcript], known: list[str]) -> None:
    """Write transcripts into the file of the area; ``known`` are the names that still exist, in their order."""
    merged = {**_read(version, area), **recorded}
    kept = {name: _shortened(version, area, name, merged[name]) for name in known if name in merged}
    path = _path(version, area)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ",\n".join(f"{json.dumps(name)}: {_text(found)}" for name, found in kept.items())
    # Another recording may read the file meanwhile.
    written = path.with_suffix(".new")
    written.write_text("{\n" + text + "\n}\n")
    written.replace(path)
    _read.cache_clear()


def _text(found: Transcript | str) -> str:
    if isinstance(found, str):
        return json.dumps(found)
    return "[\n" + ",\n".join(" " + json.dumps(answer, ensure_ascii=False, sort_keys=True) for answer in found) + "\n]"


def _shortened(version: str, area: str, name: str, transcript: Transcript | str) -> Transcript | str:
    same = version != LATEST and transcript == _read(LATEST, area).get(name)
    return _SAME if same else transcript
