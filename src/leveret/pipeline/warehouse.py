"""A warehouse: Parquet files in a folder or an object store, and a log of commits that says which of them are current.

    <warehouse>/_commits/00000012.json                  the twelfth commit; creating this file makes the change
    <warehouse>/_commits/00000100.state.json.gz         the sum of the first hundred commits
    <warehouse>/<table>/00000012-5f1e9c3a.parquet       the rows of a table that one task wrote: its part

A task writes its part under a name of its own and returns that name, and the driver commits it. So a task that dies, or
runs twice, changes nothing. A committed file is never rewritten: a reader keeps seeing what it began with until
`vacuum` removes files that are long out of use. The unit of recomputation is a run. The events of a run are in one or
more parts (its segments). Its rows of all other tables are in one part (its answer), which supersedes older rows of the
run elsewhere.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from leveret.errors import ConflictError, NoWarehouseError
from leveret.pipeline.log import State
from leveret.pipeline.storage import Storage, open_storage

COMMITS: Final = "_commits"

_SNAPSHOT_EVERY: Final = 100
_STATE: Final = ".state.json.gz"


class Warehouse:
    """The warehouse at a place: a folder, or a URL as `open_storage` takes it.

    All processes that work on it must be able to access it, Spark's executors too.
    """

    def __init__(self, place: str | Path) -> None:
        self.storage: Final[Storage] = open_storage(place)

    def __repr__(self) -> str:
        return f"Warehouse({self.url!r})"

    @property
    def url(self) -> str:
        """The place, with which another process can open the warehouse."""
        return self.storage.url

    @property
    def is_folder(self) -> bool:
        """Whether the warehouse is a folder, which Spark reads by itself."""
        return "://" not in self.url

    def state(self) -> State:
        """Return the current state; that of a warehouse that does not exist yet is empty."""
        names = [stored.path.removeprefix(f"{COMMITS}/") for stored in self.storage.list(COMMITS)]
        newest = max((name for name in names if name.endswith(_STATE)), default=None)
        state = State() if newest is None else self._snapshot(newest)
        for number in sorted(int(name[:8]) for name in names if name.endswith(".json")):
            if number > state.number:
                state.apply(number, json.loads(self.storage.read(f"{COMMITS}/{number:08d}.json")))
        return state

    def existing(self) -> State:
        """Return the current state. Raises NoWarehouseError if nothing was ever committed here."""
        state = self.state()
        if not state.number:
            raise NoWarehouseError(f"{self.url} is not a warehouse; create it with `ingest`")
        return state

    def new_part(self, number: int) -> str:
        """Return a unique name for the files of a task, for the commit with this number."""
        return f"{number:08d}-{token_hex(4)}"

    def commit(self, commit: Mapping[str, Any], state: State, *, is_exclusive: bool = False) -> None:
        """Write the next commit atomically, and apply it to the state.

        If other processes have committed since the state was read, their commits are applied first. With
        `is_exclusive`, that raises ConflictError instead.
        """
        content = json.dumps(commit, separators=(",", ":")).encode()
        while not self.storage.create(f"{COMMITS}/{state.number + 1:08d}.json", content):
            if is_exclusive:
                raise ConflictError(f"{self.url} was changed by another process meanwhile")
            self.catch_up(state)
        state.apply(state.number + 1, json.loads(content))
        if state.number % _SNAPSHOT_EVERY == 0:
            self.write_snapshot(state)

    def write_snapshot(self, state: State) -> None:
        """Write the sum of all commits, so that they need not be read again."""
        content = gzip.compress(json.dumps(state.to_json(), separators=(",", ":")).encode(), 1)
        self.storage.write(f"{COMMITS}/{state.number:08d}{_STATE}", content)

    def vacuum(self, *, older_than_s: float = 86400.0) -> tuple[int, int]:
        """Remove files that are not current, and commits that are in a snapshot. Return how many files and bytes.

        Files younger than `older_than_s` seconds stay, because another process may still write or read them.
        """
        state = self.state()
        parts = state.event_parts().keys() | state.answers.keys()
        added = {place for answer in state.answers.values() for place in answer.added.values()}
        newest = time.time() - older_than_s
        removed, size_bytes = [], 0
        snapshots = [stored.path for stored in self.storage.list(COMMITS) if stored.path.endswith(_STATE)]
        for stored in self.storage.list():
            table, _, name = stored.path.partition("/")
            if table == COMMITS:
                is_used = not snapshots or stored.path[:-5] >= max(snapshots)[: -len(_STATE)]
            else:
                is_used = name.removesuffix(".parquet") in parts or f"{table}/{name.partition('/')[0]}" in added
            if not is_used and stored.modified_s <= newest:
                removed.append(stored.path)
                size_bytes += stored.size_bytes
        self.storage.delete(removed)
        return len(removed), size_bytes

    def catch_up(self, state: State) -> None:
        """Apply the commits that other processes have made since this state was read."""
        newer = self.state()
        state.number, state.files, state.runs, state.answers = newer.number, newer.files, newer.runs, newer.answers

    def _snapshot(self, name: str) -> State:
        return State.of_json(json.loads(gzip.decompress(self.storage.read(f"{COMMITS}/{name}"))))
