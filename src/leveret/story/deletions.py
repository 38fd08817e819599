"""How queues came to be deleted: when, and by whom or with which connection.

The model forgets a deleted queue, so this reads the events. The failure texts and the pages say it in the same words.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from leveret.story.clients import Clients
from leveret.story.facts import Fact
from leveret.trace import events
from leveret.wording import short_span_text

_WITH_CONNECTION = "exclusive"


class Deletion(NamedTuple):
    """The deletion of a queue: when, why, and the connection that did it; None is the test, or the broker itself."""

    at: int | None
    conn: int | None
    reason: str | None


class Deletions:
    """The deletions of queues, found while events go by."""

    KINDS: Final = frozenset({events.QUEUE_DECLARE, events.QUEUE_DELETE})

    def __init__(self, clients: Clients) -> None:
        self._clients: Final = clients
        # Who declared a queue: an exclusive one belongs to that connection.
        self._owners: Final[dict[tuple[str, str], int | None]] = {}
        self._deleted: Final[dict[tuple[str, str], list[Deletion]]] = {}

    def take(self, fact: Fact) -> Deletion | None:
        """Take the next fact, and return the deletion if it is one. Only facts of the `KINDS` matter."""
        if fact.kind not in self.KINDS:
            return None
        place, conn = (str(fact.get("vhost") or "/"), str(fact.get("queue"))), cast("int | None", fact.get("conn"))
        if fact.kind == events.QUEUE_DECLARE:
            self._owners[place] = conn
            return None
        reason = cast("str | None", fact.get("reason"))
        by = self._owners.get(place) if conn is None and reason == _WITH_CONNECTION else conn
        deletion = Deletion(fact.at, by, reason)
        self._deleted.setdefault(place, []).append(deletion)
        return deletion

    def who(self, deletion: Deletion) -> str:
        """Return who deleted a queue: "c3 (web)", "the test"."""
        if deletion.conn is None:
            return "the test" if deletion.reason is None else "the broker"
        return self._clients.short(deletion.conn)

    def how(self, deletion: Deletion) -> str:
        """Return how a queue was deleted: "when c3 (web) closed its connection (exclusive)"."""
        who = self.who(deletion)
        match deletion.reason:
            case "exclusive" if deletion.conn is not None:
                owner = self._clients.known.get(deletion.conn)
                is_lost = owner is not None and owner.is_lost
                return f"when {who} {'lost' if is_lost else 'closed'} its connection (exclusive)"
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
        known = reversed(self._deleted.get((vhost, queue), []))
        deletion = next((one for one in known if one.at is None or before is None or one.at <= before), None)
        if deletion is None:
            return None
        ago = "" if deletion.at is None or before is None else f" {short_span_text(before - deletion.at)} before"
        how = self.how(deletion)
        return f"queue {queue!r} was deleted{ago}{',' if ago and not how.startswith('by ') else ''} {how}"
