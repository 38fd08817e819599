"""The clients of a story: who was connected, under which name, in which role, and how each connection ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, cast

from leveret.story.facts import Fact
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.wording import client_place_text, place_text

Role = Literal["publisher", "consumer"]
_ROLES: Final[dict[str, Role]] = {events.PUBLISHED: "publisher", **dict.fromkeys(events.DELIVERIES, "consumer")}
_ROLES[events.CONSUME] = "consumer"


@dataclass(slots=True)
class Client:
    """A connection, as the client that opened it names it."""

    number: int
    name: str
    user: str = ""
    peer: str = ""
    # The line of the user's code that waited for it.
    opener: Caller | None = None
    roles: dict[Role, None] = field(default_factory=dict)
    opened_at: int | None = None
    # When it closed, and why; no reason means that the client did it in good order.
    closed_at: int | None = None
    reason: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether its connection broke, or the broker closed it."""
        return self.reason is not None


class Clients:
    """The clients of one broker, and where the test called it, found while facts go by."""

    KINDS: Final = frozenset({events.CONN_OPEN, events.CONN_CLOSE, events.CALLED, *_ROLES})

    def __init__(self) -> None:
        self.known: Final[dict[int, Client]] = {}
        # The line of the test's latest call to the broker.
        self.caller: Caller | None = None

    def take(self, fact: Fact) -> None:
        """Take the next fact; only those of the `KINDS` matter."""
        number = cast("int | None", fact.get("conn"))
        if fact.kind == events.CALLED:
            self.caller = Caller.read(fact.get("caller"))
        elif number is None:
            return
        elif fact.kind == events.CONN_OPEN:
            user, peer = str(fact.get("user") or ""), str(fact.get("peer") or "")
            name, opener = str(fact.get("client") or ""), Caller.read(fact.get("opener"))
            self.known[number] = Client(number, name, user, peer, opener, opened_at=fact.at)
        elif (client := self.known.get(number)) is None:
            return
        elif fact.kind == events.CONN_CLOSE:
            client.closed_at, client.reason = fact.at, cast("str | None", fact.get("reason"))
        elif fact.kind in _ROLES:
            client.roles[_ROLES[fact.kind]] = None

    def successions(self) -> list[list[Client]]:
        """Return the connections that one client opened one after the other: of one name, user and role."""
        found: list[list[Client]] = []
        named: dict[tuple[str, str], list[list[Client]]] = {}
        for client in self.known.values():
            alike = named.setdefault((client.name, client.user), []) if client.name else []
            known = next((one for one in alike if _follows(client, one[-1])), None)
            if known is None:
                found.append([client])
                alike.append(found[-1])
            else:
                known.append(client)
                # What did nothing yet may be of any role.
                client.roles = client.roles or known[0].roles
        return found

    def name(self, number: object, unnamed: str = "a client") -> str:
        """Return the client's name for a connection, open or closed; None is the test itself."""
        if number is None:
            return "the test"
        client = self.known.get(cast("int", number))
        return client.name if client is not None and client.name else unnamed

    def who(self, fact: Fact) -> str:
        """Return who caused a fact: a client's connection and channel, or the test and its line."""
        number = cast("int | None", fact.get("conn"))
        if number is None:
            return "the test" if self.caller is None else f"the test at {self.caller}"
        return client_place_text(self.name(number), number, cast("int | None", fact.get("chan")))

    def short(self, number: int) -> str:
        """Return a client by its number and its name: "c3 (web)"."""
        name = self.name(number, "")
        return f"{place_text(number)} ({name})" if name else place_text(number)


def _follows(client: Client, before: Client) -> bool:
    if before.closed_at is None or client.opened_at is None or before.closed_at > client.opened_at:
        return False
    return not client.roles or not before.roles or client.roles == before.roles
