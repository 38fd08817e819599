"""The names of clients, for readers that go along with the events: the live feed and the strict checks."""

from __future__ import annotations

from typing import Final, cast

from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.trace.events import Event
from leveret.wording import client_place_text


class Clients:
    """The names of the clients of one broker, and where the test called it, found while facts go by."""

    KINDS: Final = frozenset({events.CONN_OPEN, events.CALLED})

    def __init__(self) -> None:
        self.known: Final[dict[int, str | None]] = {}
        # The line of the test's latest call to the broker.
        self._caller: Caller | None = None

    def take(self, fact: Event) -> None:
        """Take the next fact; only those of the `KINDS` matter."""
        if fact.kind == events.CALLED:
            self._caller = fact.caller
        elif fact.kind == events.CONN_OPEN:
            self.known[cast("int", fact.conn)] = fact.client

    def who(self, fact: Event) -> str:
        """Return who caused a fact: a client's connection and channel, or the test and its line."""
        number = cast("int | None", fact.get("conn"))
        if number is None:
            return "the test" if self._caller is None else f"the test at {self._caller}"
        name = self.known.get(number) or "a client"
        return client_place_text(name, number, cast("int | None", fact.get("chan")))
