"""The steps of a run, named alike in every run: what a client or the broker sends, and the lines of the test.

A step has up to two names. One says which client it was, the other which message, because neither is always the same
from run to run: clients without a name are numbered as they come, and messages may carry random ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.trace.events import content
from leveret.trials.steps import ClientNames
from leveret.wording import MADE_UP, masked, masked_name

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection
    from leveret.faults import Occasion

# A line of the test that is done, and one that begins.
LINE: Final = "line"
BEGINNING: Final = "beginning of line"
_ORDINALS: Final = ("", "", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
# What methods that carry or settle a message do, by the side that sends them.
_ACTS: Final = {
    ("method", "basic.publish"): "publish",
    ("method", "basic.ack"): "ack",
    ("method", "basic.nack"): "nack",
    ("method", "basic.reject"): "reject",
    ("deliver", "basic.deliver"): "delivery",
    ("reply", "basic.ack"): "confirm",
    ("reply", "basic.nack"): "negative confirm",
    ("reply", "basic.return"): "return",
    ("reply", "basic.get-ok"): "get-ok",
}


class Name(NamedTuple):
    """A name of a step: who sends or gets it, what it does, what it is about, where, and the how manieth it is."""

    # "" in the name that says which message it was.
    who: str
    act: str
    about: str
    is_sent_by_client: bool
    nth: int = 1
    # The queue of a delivery or a settlement, the exchange of a publish or a confirm.
    place: str = ""


class Naming:
    """The names of the steps of one run."""

    def __init__(self) -> None:
        self._counts: Final[dict[Name, int]] = {}
        self._clients: Final = ClientNames()

    def names_of(self, occasion: Occasion) -> list[Name]:
        """Return the names of a step that comes now."""
        connection = occasion.connection
        assert connection is not None
        bare = unnumbered(occasion, self._client(connection))
        names = []
        for name in bare:
            nth = self._counts[name] = self._counts.get(name, 0) + 1
            names.append(name._replace(nth=nth))
        return names

    def _client(self, connection: Connection) -> str:
        name = self._clients.get(connection)
        if name is None:
            field = connection.client_properties.get("connection_name")
            if field is None and "product" not in connection.client_properties.to_python():
                # It has not introduced itself yet.
                return "a new client"
            given = masked(connection.client_name)
            if field is None and connection.opener is not None:
                outer = connection.opener.called_from or connection.opener
                given = f"the client of {outer.file} in {outer.function}"
            is_final = field is not None or connection.opened_at is not None
            name = self._clients.name_of(connection, given, is_final=is_final)
        return name


def unnumbered(occasion: Occasion, client: str) -> list[Name]:
    """Return the names of a step without the number, the one with the client first."""
    is_sent_by_client = occasion.point == "method"
    act = _ACTS.get((occasion.point, occasion.on), occasion.on)
    message = occasion.message
    queue = masked_name(occasion.queue or "")
    if message is None:
        about = queue or masked_name(str(getattr(occasion.method, "exchange", "") or ""))
        return [Name(client, act, about, is_sent_by_client)]
    about = masked_name(message.routing_key or message.exchange or queue)
    place = queue or masked_name(message.exchange)
    body = content(message.source)
    names = [Name(client, act, about, is_sent_by_client, place=place)]
    if len(body) <= 40 and not MADE_UP.search(body):
        names.append(Name("", act, f"{about} {body}".strip(), is_sent_by_client, place=place))
    return names


def line_name(number: int, nth: int) -> Name:
    """Return the name of a line of the test."""
    return Name("", LINE, str(number), True, nth)


def text_of(name: Name) -> str:
    """Return a step in words: "billing's second ack of order.created"."""
    if name.act == LINE:
        again = f" for the {_ordinal(name.nth)} time" if name.nth > 1 else ""
        return f"the end of line {name.about}{again}"
    act = act_of(name) + (f" of {name.about}" if name.about else "")
    if not name.who:
        return f"the {act}"
    if name.is_sent_by_client:
        return f"{name.who}'s {act}"
    return f"the {act} to {name.who}"


def act_of(name: Name) -> str:
    """Return what happens in a step: "second ack"."""
    return f"{_ordinal(name.nth)} {name.act}" if name.nth > 1 else name.act


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number}th"
