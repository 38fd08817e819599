"""Transcripts: one JSON file per version and area, a list of lines per connection and channel.

If an older version answered exactly as 4.3, its file says so instead of repeating the lines.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

Transcript = dict[str, list[str]]
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


def recorded() -> list[tuple[str, str, str]]:
    """Return the area, name and version of every transcript."""
    paths = sorted(_ROOT.glob("*/*.json"))
    return [(path.stem, name, path.parent.name) for path in paths for name in json.loads(path.read_text())]


def save(version: str, area: str, recorded: dict[str, Transcript], known: list[str]) -> None:
    """Write transcripts into the file of the area; ``known`` are the names that still exist, in their order."""
    merged = {**_read(version, area), **recorded}
    kept = {name: _shortened(version, area, name, merged[name]) for name in known if name in merged}
    path = _path(version, area)
    path.parent.mkdir(parents=True, exist_ok=True)
    _read.cache_clear()
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _shortened(version: str, area: str, name: str, transcript: Transcript | str) -> Transcript | str:
    same = version != LATEST and transcript == _read(LATEST, area).get(name)
    return _SAME if same else transcript
