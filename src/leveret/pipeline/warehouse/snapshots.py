"""Snapshots of a state: its bytes, from which a warehouse of many runs is read at once.

A snapshot is JSON in gzip, with a list of values for each file, run and answer.
"""

from __future__ import annotations

import gc
import gzip
import json
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from leveret.pipeline.warehouse.log import VERSION, Answer, FileState, RunState, Segment, State, another_version

# The mappings of a state, and what each holds.
_KINDS: Final[dict[str, Any]] = {"files": FileState, "runs": RunState, "answers": Answer}
_PLAIN: Final = ("number", "expired_before", "keep_days")


def encode(state: State) -> bytes:
    """Return a state as bytes."""
    content: dict[str, Any] = {"v": VERSION, **{name: getattr(state, name) for name in _PLAIN}}
    for name, kind in _KINDS.items():
        values = attrgetter(*(field.name for field in fields(kind)))
        content[name] = {key: values(item) for key, item in getattr(state, name).items()}
    return gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 6)


def decode(snapshot: bytes) -> State:
    """Return the state of which `encode` made these bytes. Raises ValueError if another version of leveret did."""
    # Many objects are made, of which none is garbage: the collector would look at them again and again.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return _decoded(json.loads(gzip.decompress(snapshot)))
    finally:
        if was_enabled:
            gc.enable()


def _decoded(content: dict[str, Any]) -> State:
    if content.get("v") != VERSION:
        raise ValueError(another_version(f"snapshot {content.get('number')}"))
    state = State(**{name: content[name] for name in _PLAIN})
    for name, kind in _KINDS.items():
        setattr(state, name, {key: kind(*values) for key, values in content[name].items()})
    for run in state.runs.values():
        run.segments = [Segment(*segment) for segment in run.segments]
    return state
