"""A step of a story: one fact as an event that a page can draw, with its words, its two lanes and its tone.

The words, the tones and the kinds of lanes come from `leveret.story.words`. This finds the lanes themselves.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from leveret.page.lanes import Lanes, shown_name
from leveret.page.messages import MessageStory
from leveret.page.readings.reading import StoryEvent
from leveret.story.entities import Fact
from leveret.story.words import PLAIN, Lane, Numbers, channel_text, details, filled, words_of
from leveret.trace import events
from leveret.trace.events import Event
from leveret.trace.redaction import Redaction

# What says nothing of its own once messages flow.
ALWAYS_SETUP: Final = frozenset({events.CONN_OPEN, events.CHAN_OPEN})
# What prepares the exchange of messages. It is folded until the first message.
SETUP: Final = frozenset(
    name for name, kind in events.TABLE.items() if kind.category == "topology" and name != events.QOS
) | {*ALWAYS_SETUP, events.CALLED, events.PURGED}


class PageNames(Numbers):
    """The names in a page: messages by their numbers, clients by their connections."""

    def __init__(self, suffix: str) -> None:
        """Of messages, `suffix` names the broker if it is not the first."""
        self._suffix: Final = suffix

    def message(self, fact: Event) -> str:
        """Return what the story calls the message: "#3"."""
        number = super().message(fact)
        return f"{number}{self._suffix}" if number else ""

    def quoted(self, name: str) -> str:
        """Return a name in quotes, without what is generated in it."""
        return repr(shown_name(name))


def step_of(
    fact: Fact, lanes: Lanes, names: PageNames, message: MessageStory | None, redaction: Redaction
) -> StoryEvent:
    """Return a fact as an event, without its times and what other facts say of it."""
    kind, words = fact.kind, words_of(fact)
    conn, chan = fact.raw[events.CHANNEL] if kind in events.BY_SOMEONE else (None, None)
    start = _lane(words.start, fact, lanes)
    if start is None and kind in events.ANSWERS and message is not None:
        start = lanes.place("exchange", message.vhost, message.exchange)
    step = {
        "kind": kind,
        "from": start,
        "to": _lane(words.end, fact, lanes),
        "channel": None if conn is None else channel_text(conn, chan),
        "message": None if message is None else message.number,
        "copy": fact.get("copy"),
        "text": filled(words.text, partial(names.slot, fact), is_drawn=True),
        "across": words.is_across or None,
        "tone": None if words.tone == PLAIN else words.tone,
        "detail": details(fact, redaction) or None,
    }
    return {name: value for name, value in step.items() if value is not None}


def _lane(kind: Lane | None, fact: Fact, lanes: Lanes) -> str | None:
    if kind is None:
        return None
    if kind == "test":
        return lanes.test()
    if kind == "client":
        # Without a connection, the test did this. A fault without one, or what is unknown, has no lane.
        row, conn = events.TABLE.get(fact.kind), fact.conn
        return None if conn is None and (row is None or row.category == "test") else lanes.client(conn)
    if kind == "destination":
        what: Lane = "queue" if fact.destination_kind == "queue" else "exchange"
        return lanes.place(what, str(fact.vhost or "/"), fact.destination or "")
    return lanes.place(kind, str(fact.vhost or "/"), str(fact.get(kind) or ""))
