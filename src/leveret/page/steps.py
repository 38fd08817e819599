"""A step of a story: one row as an event that a page can draw, with its words, its two lanes and its tone.

The words, the tones and the kinds of lanes come from `leveret.story.words`. This finds the lanes themselves.
"""

from __future__ import annotations

from typing import Final

from leveret.page.lanes import Lanes, shown_name
from leveret.page.messages import MessageStory
from leveret.page.readings.reading import PageRow, StoryEvent
from leveret.story.facts import Fact
from leveret.story.words import PLAIN, Lane, Names, channel_text, details, told, words_of
from leveret.trace import events
from leveret.trace.caller import Caller

# What says nothing of its own once messages flow.
ALWAYS_SETUP: Final = frozenset({events.CONN_OPEN, events.CHAN_OPEN})
# What prepares the exchange of messages. It is folded until the first message.
SETUP: Final = frozenset(
    name for name, kind in events.TABLE.items() if kind.category == "topology" and name != events.QOS
) | {*ALWAYS_SETUP, events.CALLED, events.PURGED}


class PageNames(Names):
    """The names in a page: messages by their numbers, clients by their connections."""

    def __init__(self, message: str) -> None:
        self._message: Final = message

    def message(self, fact: Fact) -> str:
        """Return what the story calls the message: "#3"."""
        return self._message

    def quoted(self, name: str) -> str:
        """Return a name in quotes, without what is generated in it."""
        return repr(shown_name(name))


def step_of(row: PageRow, fact: Fact, lanes: Lanes, message: MessageStory | None) -> StoryEvent:
    """Return a row, which is also a fact, as an event, without its times and what other rows say of it."""
    kind, words, conn = row["kind"], words_of(fact), row.get("conn")
    if kind == events.CONN_OPEN:
        _name_lane(row, lanes)
    start = _lane(words.start, row, lanes)
    if start is None and kind in events.ANSWERS and message is not None:
        start = lanes.exchange(message.vhost, message.exchange)
    step = {
        "kind": kind,
        "from": start,
        "to": _lane(words.end, row, lanes),
        "channel": None if conn is None else channel_text(conn, row.get("chan")),
        "message": None if message is None else message.number,
        "copy": row.get("copy"),
        "text": told(fact, PageNames("" if message is None else message.name), is_drawn=True),
        "across": words.is_across or None,
        "tone": None if words.tone == PLAIN else words.tone,
        "detail": [list(pair) for pair in details(fact)] or None,
    }
    return {name: value for name, value in step.items() if value is not None}


def _lane(kind: Lane | None, row: PageRow, lanes: Lanes) -> str | None:
    vhost, conn = row.get("vhost") or "/", row.get("conn")
    category = events.TABLE[row["kind"]].category if row["kind"] in events.TABLE else "test"
    match kind:
        case None:
            return None
        case "test":
            return lanes.test()
        case "client":
            # Without a connection, the test did this. A fault without one has no lane.
            return None if conn is None and category == "test" else lanes.client(conn)
        case "exchange":
            return lanes.exchange(vhost, row.get("exchange") or "")
        case "destination" if row["attrs"].get("destination_kind", "queue") != "queue":
            return lanes.exchange(vhost, str(row["attrs"].get("destination")))
        case _:
            return lanes.queue(vhost, row.get("queue") or "")


def _name_lane(row: PageRow, lanes: Lanes) -> None:
    """Give the lane of a client that connects its name, its user and its address."""
    attrs = row["attrs"]
    client = str(attrs.get("client") or "")
    facts = [f"user {attrs['user']}" if attrs.get("user") else "", str(attrs.get("peer") or "")]
    detail = ", ".join(fact for fact in (client, *facts) if fact)
    lanes.client(row.get("conn"), client, detail, Caller.read(attrs.get("opener")))
