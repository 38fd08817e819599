"""A warehouse: Parquet files in a folder or an object store, and a log of commits that says which of them are current.

    <warehouse>/_commits/00000012.json                  the twelfth commit; creating this file makes the change
    <warehouse>/_commits/00000020.state.json.gz         a snapshot: the sum of the first twenty commits
    <warehouse>/<table>/00000012-5f1e9c3a.parquet       the rows of a table that one task wrote: its part

A task writes its part under a name of its own and returns that name, and the driver commits it. So a task that dies, or
runs twice, changes nothing. A committed file is never rewritten: a reader keeps seeing what it began with until
`vacuum` removes files that are long out of use. The unit of recomputation is a run. The events of a run are in one or
more parts (its segments). Its rows of all other tables are in one part (its answer), which supersedes older rows of the
run elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from leveret.errors import ConflictError, NoWarehouseError
from leveret.pipeline.storage import Storage, Stored, open_storage
from leveret.pipeline.warehouse.log import VERSION, Contents, decode, encode

COMMITS: Final = "_commits"

# At most so many commits are read one by one. A snapshot of 100,000 runs takes two seconds to write.
_SNAPSHOT_EVERY: Final = 20
_STATE: Final = ".state.json.gz"
# Files that are younger may still be read, or belong to a commit to come.
GRACE_S: Final = 86400.0
# An object store takes longer to answer than to work.
_READS_AT_ONCE: Final = 16
_ATTEMPTS: Final = 5


def opened(warehouse: Warehouse | str | Path) -> Warehouse:
    """Return a warehouse that is given as one or by its place."""
    return warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)


class Warehouse:
    """The warehouse at a place: a folder, or a URL as `open_storage` takes it.

    All processes that work on it must be able to access it, Spark's executors too.
    """

    def __init__(self, place: str | Path) -> None:
        if "://" not in str(place) and Path(place).is_file():
            raise ValueError(f"{place} is a file; a warehouse is a folder, or s3://BUCKET/PREFIX")
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

    def state(self) -> Contents:
        """Return the current state; that of a warehouse that does not exist yet is empty."""
        for _ in range(_ATTEMPTS):
            # Another process may remove a commit that is listed, once a newer snapshot replaces it.
            with suppress(FileNotFoundError):
                return self._read_state()
        return self._read_state()

    def existing(self) -> Contents:
        """Return the current state. Raises NoWarehouseError if nothing was ever committed here."""
        state = self.state()
        if not state.number:
            raise NoWarehouseError(
                f"{self.url} is not a warehouse; `leveret pipeline update TRACES -w {self.url}` makes one"
            )
        return state

    def new_part(self, number: int) -> str:
        """Return a unique name for the files of a task, for the commit with this number."""
        return f"{number:08d}-{token_hex(4)}"

    def commit(self, commit: Mapping[str, Any], state: Contents, *, is_exclusive: bool = False) -> None:
        """Write the next commit atomically, and apply it to the state.

        If other processes have committed since the state was read, their commits are applied first. With
        `is_exclusive`, that raises ConflictError instead.
        """
        signed = {"v": VERSION, "at": datetime.now(UTC).isoformat(timespec="seconds"), **commit}
        content = json.dumps(signed, separators=(",", ":")).encode()
        # The number after an old state may be free again: its commit is removed once it is in a snapshot.
        is_free = self._newest_snapshot() <= state.number
        while not is_free or not self.storage.create(f"{COMMITS}/{state.number + 1:08d}.json", content):
            if is_exclusive:
                raise ConflictError(f"{self.url} was changed by another process meanwhile")
            self.catch_up(state)
            is_free = True
        state.apply(state.number + 1, json.loads(content))
        if state.number % _SNAPSHOT_EVERY == 0:
            self.write_snapshot(state)

    def write_snapshot(self, state: Contents) -> None:
        """Write the sum of all commits, so that they need not be read again; remove old ones that it replaces."""
        self.storage.write(f"{COMMITS}/{state.number:08d}{_STATE}", encode(state))
        self._forget_commits(GRACE_S)

    def vacuum(self, *, older_than_s: float = GRACE_S) -> tuple[int, int]:
        """Remove files that are not current, and commits that are in a snapshot. Return how many files and bytes.

        Files younger than `older_than_s` seconds stay, because another process may still write or read them. Raises
        NoWarehouseError if nothing was ever committed here.
        """
        newest = time.time() - older_than_s
        old = [stored for stored in self.storage.list() if stored.modified_s <= newest]
        state = self.existing()
        parts = state.event_parts().keys() | state.answers.keys()
        added = {place for answer in state.answers.values() for place in answer.added.values()}
        gone = []
        for stored in old:
            table, _, name = stored.path.partition("/")
            is_part = name.removesuffix(".parquet") in parts
            if table != COMMITS and not is_part and f"{table}/{name.partition('/')[0]}" not in added:
                gone.append(stored)
        self.storage.delete(stored.path for stored in gone)
        self.storage.sweep(older_than_s)
        self._forget_commits(older_than_s)
        return len(gone), sum(stored.size_bytes for stored in gone)

    def catch_up(self, state: Contents) -> None:
        """Apply the commits that other processes have made since this state was read."""
        newer = self.state()
        for field in fields(Contents):
            setattr(state, field.name, getattr(newer, field.name))

    def _log(self) -> tuple[list[Stored], list[Stored]]:
        """Return the commits and the snapshots, oldest first."""
        objects = list(self.storage.list(COMMITS))
        snapshots = [stored for stored in objects if stored.path.endswith(_STATE)]
        return [stored for stored in objects if stored.path.endswith(".json")], snapshots

    def _read_state(self) -> Contents:
        commits, snapshots = self._log()
        state = decode(self.storage.read(snapshots[-1].path)) if snapshots else Contents()
        paths = [stored.path for stored in commits if _number_of(stored) > state.number]
        with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
            for content in pool.map(self.storage.read, paths):
                state.apply(state.number + 1, self._parsed(state.number + 1, content))
        return state

    def _parsed(self, number: int, content: bytes) -> Any:
        try:
            return json.loads(content)
        except ValueError as error:
            raise ValueError(
                f"{self.url}/{COMMITS}/{number:08d}.json is damaged ({error}): restore it from a copy, or make a new "
                "warehouse from the traces"
            ) from None

    def _newest_snapshot(self) -> int:
        _, snapshots = self._log()
        return _number_of(snapshots[-1]) if snapshots else 0

    def _forget_commits(self, older_than_s: float) -> None:
        """Remove commits and snapshots that the newest snapshot replaces, if they are old."""
        commits, snapshots = self._log()
        if snapshots:
            newest = time.time() - older_than_s
            replaced = [stored for stored in [*commits, *snapshots] if _number_of(stored) < _number_of(snapshots[-1])]
            self.storage.delete(stored.path for stored in replaced if stored.modified_s <= newest)


def _number_of(stored: Stored) -> int:
    return int(stored.path.removeprefix(f"{COMMITS}/")[:8])
