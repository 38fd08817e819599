"""How queues came to be deleted: when, and by whom or with which connection.

The model forgets a deleted queue, so this reads the events. The failure texts and the pages say it in the same words.
"""

from __future__ import annotations

from typing import NamedTuple

from leveret.wording import short_span_text

_WITH_CONNECTION = "exclusive"


class Deletion(NamedTuple):
    """The deletion of a queue: when, why, and the connection that did it; None is the test, or the broker itself."""

    at: int | None
    conn: int | None
    reason: str | None


class Deletions:
    """The deletions of queues, found while events go by."""

    def __init__(self) -> None:
        self._clients: dict[int, str] = {}
        self._lost: dict[int, None] = {}
        self._owners: dict[tuple[str, str], int | None] = {}
        self._deleted: dict[tuple[str, str], list[Deletion]] = {}

    def connected(self, conn: int, client: str) -> None:
        """Note that a client connected."""
        self._clients[conn] = client

    def closed(self, conn: int, reason: str | None) -> None:
        """Note that a connection closed; with a reason it was lost."""
        if reason is not None:
            self._lost[conn] = None

    def declared(self, vhost: str, queue: str, conn: int | None) -> None:
        """Note who declared a queue. An exclusive one belongs to that connection."""
        self._owners[vhost, queue] = conn

    def deleted(self, vhost: str, queue: str, at: int | None, conn: int | None, reason: str | None) -> Deletion:
        """Note that a queue was deleted, and return how."""
        by = self._owners.get((vhost, queue)) if conn is None and reason == _WITH_CONNECTION else conn
        deletion = Deletion(at, by, reason)
        self._deleted.setdefault((vhost, queue), []).append(deletion)
        return deletion

    def last(self, vhost: str, queue: str, before: int | None) -> Deletion | None:
        """Return the last deletion of a queue before an instant."""
        known = self._deleted.get((vhost, queue), [])
        return next((one for one in reversed(known) if one.at is None or before is None or one.at <= before), None)

    def who(self, deletion: Deletion) -> str:
        """Return who deleted a queue: "c3 (web)", "the test"."""
        if deletion.conn is None:
            return "the test" if deletion.reason is None else "the broker"
        client = self._clients.get(deletion.conn)
        return f"c{deletion.conn} ({client})" if client else f"c{deletion.conn}"

    def how(self, deletion: Deletion) -> str:
        """Return how a queue was deleted: "when c3 (web) closed its connection (exclusive)"."""
        who = self.who(deletion)
        match deletion.reason:
            case "exclusive" if deletion.conn is not None:
                return f"when {who} {'lost' if deletion.conn in self._lost else 'closed'} its connection (exclusive)"
            case "exclusive":
                return "when its connection closed (exclusive)"
            case "auto_delete":
                return "when its last consumer left (auto-delete)"
            case "expired":
                return "because it was unused for too long (x-expires)"
            case _:
                return f"by {who}"

    def text(self, vhost: str, queue: str, before: int | None) -> str | None:
        """Return that a queue was deleted before an instant, and how; None if it was not."""
        deletion = self.last(vhost, queue, before)
        if deletion is None:
            return None
        ago = "" if deletion.at is None or before is None else f" {short_span_text(before - deletion.at)} before"
        how = self.how(deletion)
        return f"queue {queue!r} was deleted{ago}{',' if ago and not how.startswith('by ') else ''} {how}"
