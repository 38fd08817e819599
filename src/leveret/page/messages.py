"""The messages of a story: what each was, its copies in queues, what became of it, and what caused it.

A dead letter keeps the number of its message, so its cause is an event: the death of the copy that it comes from. A
reply goes to the queue that the request named, with the request's correlation id. A publish made on a connection while
it held exactly one delivery was probably caused by it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from leveret.page.bodies import Body
from leveret.page.frameworks import Framework, framework_of
from leveret.page.lanes import Lanes, shown_name
from leveret.page.readings.reading import PageRow, StoryEvent
from leveret.story.entities import CopyLife, MessageLife, end_text
from leveret.story.facts import HAS_ACKS
from leveret.story.words import BAD, GOOD, PLAIN, UNACKED, WARN, Tone, channel_text, deliveries_text, end_of
from leveret.trace import events
from leveret.trace.redaction import REDACTED, Redaction

COLOURS: Final = 12
# The fault that withholds confirms.
WITHHELD: Final = "withhold_confirms"
# A message that came back this often has a problem.
_OFTEN: Final = 2
_DEATHS: Final = "x-death"
# What ends that a connection holds a delivery.
_RELEASING: Final = frozenset({*events.ENDS, *events.REFUSING, *events.REQUEUES})
_OF_DEATH: Final = ("queue", "reason", "count", "exchange", "routing_keys")


class MessageStory:
    """The story of one message."""

    def __init__(self, number: int, name: str, vhost: str, life: MessageLife | None) -> None:
        # The number is unique in the story. Rows of a newer file's kinds show no life.
        self.number = number
        self.vhost = vhost
        self.life = life
        self.copies: dict[int, CopyLife] = {} if life is None else life.copies
        # What the broker's failure texts call it, with the broker if there are two.
        self.name = name
        self.events: list[StoryEvent] = []
        # The events of its copies.
        self.copy_events: dict[int, list[StoryEvent]] = {}
        self.exchange = ""
        self.routing_key = ""
        self.routing_keys: list[str] = []
        self.publisher: str | None = None
        self.line: str | None = None
        self.properties: dict[str, Any] = {}
        self.headers: dict[str, Any] | None = None
        self.body: Body | None = None
        self.framework: Framework | None = None
        self.deaths: list[dict[str, Any]] = []
        # Whether its publisher waits for an answer, and whether a fault withholds it.
        self.is_awaited = False
        self.is_withheld = False
        # Whether what became of its deliveries was recorded.
        self.has_acks = True
        self.caused_by: dict[str, Any] | None = None
        self.causes: list[dict[str, Any]] = []

    def publish(self, row: PageRow, redaction: Redaction) -> None:
        """Take what its publish says."""
        attrs = row["attrs"]
        self.is_awaited = row.get("tag") is not None
        self.exchange, self.routing_key = row.get("exchange") or "", row.get("routing_key") or ""
        self.routing_keys = list(attrs.get("routing_keys") or [self.routing_key])
        self.properties = {name: row[name] for name in ("message_id", "correlation_id") if row.get(name) is not None}
        self.properties |= {name: value for name, value in attrs.get("properties", {}).items() if name != "headers"}
        self.headers = attrs.get("properties", {}).get("headers")
        self.body = Body(attrs.get("body"), row.get("size") or 0, row.get("body_hash") or "", redaction)
        self.framework = framework_of(self.exchange, self.headers or {}, self.properties, self.body.json)

    def take(self, row: PageRow) -> None:
        """Take the next row about this message."""
        self.has_acks = self.has_acks and row["attrs"].get(HAS_ACKS) is not False
        headers = row["attrs"].get("properties", {}).get("headers") or {}
        if row["kind"] in events.ARRIVALS and isinstance(deaths := headers.get(_DEATHS), list):
            self.deaths = [death for death in deaths if isinstance(death, dict)]

    def state(self, copy: CopyLife) -> str:
        """Return how a copy of it stands."""
        return copy.stand if self.has_acks or copy.stand != UNACKED else "delivered"

    @property
    def _is_unanswered(self) -> bool:
        return self.is_awaited and (self.life is None or self.life.answer is None)

    @property
    def label(self) -> str:
        """What the message says in a few characters."""
        if self.framework is not None and self.framework.label:
            return self.framework.label
        label = "" if self.body is None else self.body.label
        return label or self.routing_key or self.exchange

    def outcome(self, about: Container[str] = (), unconsumed: Container[str] = ()) -> tuple[str, str]:
        """Return what became of the message, its problems first, and the tone of that.

        `about` are the queues that the failure is about, and `unconsumed` those that never had a consumer. What waits
        in one of the latter is no problem, unless the failure is about it.
        """
        problems, ends = self._problems(), self._ends()
        text = "; ".join(dict.fromkeys([*problems, *(text for text, _, _ in ends)]))
        if not self.copies:
            return text, BAD if problems or (self.life is not None and self.life.lost) else WARN
        asked = [end for end in ends if end[2] in about]
        tones: list[Tone] = [BAD] if self._is_unanswered else []
        for _, tone, queue in asked or ends:
            is_waiting = queue in unconsumed and queue not in about
            tones.append(PLAIN if is_waiting and tone == WARN else tone)
        return text, next((tone for tone in (BAD, WARN, PLAIN) if tone in tones), GOOD)

    def _problems(self) -> list[str]:
        problems = []
        if self._is_unanswered:
            problems.append("never confirmed (withheld)" if self.is_withheld else "never confirmed")
        for copy in self.copies.values():
            if self.state(copy) == UNACKED:
                problems.append(f"not settled by {_holder(copy)}")
            if copy.requeue_count >= _OFTEN:
                problems.append(f"requeued {copy.requeue_count} times")
        return problems

    def _ends(self) -> list[tuple[str, Tone, str]]:
        """Return the ends of the copies that count: their texts, tones and queues."""
        if self.life is None or not self.copies:
            lost = None if self.life is None else self.life.lost
            return [("reached no queue" if lost is None else f"{lost.kind} ({lost.get('reason')})", WARN, "")]
        ends = self.life.last_ends
        return [(self._end_text(copy), end_of(self.state(copy)).tone, copy.queue.name) for copy in ends]

    def _end_text(self, copy: CopyLife) -> str:
        """Return how a copy stands, as a drawing says it."""
        filling = {
            "queue": repr(shown_name(copy.queue.name)),
            "holder": _holder(copy),
            "often": deliveries_text(len(copy.deliveries)),
            "reason": str(copy.last.get("reason")),
        }
        return end_text(self.state(copy), lambda name: filling.get(name, ""), is_drawn=True)

    def shown(
        self, lanes: Lanes, colour: int, about: Container[str] = (), unconsumed: Container[str] = ()
    ) -> dict[str, Any]:
        """Return the message as a page takes it; `about` and `unconsumed` as in `outcome`."""
        outcome, tone = self.outcome(about, unconsumed)
        shown: dict[str, Any] = {
            "number": self.number,
            "name": None if self.name == f"#{self.number}" else self.name,
            "label": self.label,
            "colour": colour,
            "vhost": self.vhost,
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "publisher": self.publisher,
            "line": self.line,
            "framework": None if self.framework is None else self.framework.name,
            "summary": None if self.framework is None else self.framework.summary,
            "properties": [[name, str(value)] for name, value in self.properties.items()],
            "headers": self.headers,
            "redacted": _redacted(self.headers or {}),
            "body": None if self.body is None else self.body.shown,
            "events": [event["i"] for event in self.events],
            "copies": [self._shown_copy(copy, lanes) for copy in self.copies.values()],
            "deaths": [{name: death.get(name.replace("_", "-")) for name in _OF_DEATH} for death in self.deaths],
            "causes": self.causes,
            "caused_by": self.caused_by,
            "outcome": outcome,
            "tone": tone,
        }
        return {name: value for name, value in shown.items() if value not in (None, [], {})}

    def _shown_copy(self, copy: CopyLife, lanes: Lanes) -> dict[str, Any]:
        shown = {
            "copy": copy.number,
            "queue": lanes.id_of("q", *copy.queue.place),
            "from_copy": copy.source_number,
            "deliveries": len(copy.deliveries) or None,
            "state": self.state(copy),
            "end": self._end_text(copy),
            "events": [event["i"] for event in self.copy_events.get(copy.number, ())],
        }
        return {name: value for name, value in shown.items() if value is not None}


def _holder(copy: CopyLife) -> str:
    last = copy.deliveries[-1:]
    return channel_text(last[0].fact.conn, last[0].fact.chan) if last else ""


def _redacted(table: dict[str, Any]) -> list[str]:
    """Return the names in a table whose values are hidden, with those of the tables in it."""
    names = []
    for name, value in table.items():
        if value == REDACTED:
            names.append(name)
        elif isinstance(value, dict):
            names += [f"{name}.{inner}" for inner in _redacted(value)]
    return names


class Causes:
    """The causes in one broker, found while its rows go by."""

    def __init__(self) -> None:
        # The death of each copy.
        self._deaths: dict[int, StoryEvent] = {}
        # Requests by where their reply goes and its correlation id.
        self._requests: dict[tuple[str, object], MessageStory] = {}
        # What each connection holds, by copy, with the channel; and who holds each copy.
        self._held: dict[int | None, dict[int, tuple[object, MessageStory]]] = {}
        self._holders: dict[int, int | None] = {}

    def take(self, row: PageRow, event: StoryEvent, message: MessageStory, copy: CopyLife | None) -> None:
        """Take the next row about a message."""
        kind = row["kind"]
        if kind == events.PUBLISHED:
            self._published(row, message)
        elif copy is None:
            return
        elif kind in (*events.DEATHS, *events.LOSSES):
            self._deaths[copy.number] = event
        elif kind in events.ARRIVALS and copy.source_number in self._deaths:
            death = self._deaths[copy.source_number]
            death.setdefault("causes", []).append(event)
            event["caused_by"] = death
        if copy is not None:
            self._hold(row, message, copy)

    def held_on(self, conn: int | None, chan: object) -> list[MessageStory]:
        """Return the messages that a channel holds."""
        return [message for channel, message in self._held.get(conn, {}).values() if channel == chan]

    def _published(self, row: PageRow, message: MessageStory) -> None:
        correlation = message.properties.get("correlation_id")
        request = self._requests.get((message.routing_key, correlation)) if not message.exchange else None
        if request is not None and request is not message:
            link(request, message, "reply", is_guess=False)
        else:
            held = self._held.get(row.get("conn"), {})
            if len(held) == 1 and row.get("conn") is not None:
                ((_, cause),) = held.values()
                link(cause, message, f"published while c{row['conn']} held {cause.name}", is_guess=True)
        reply_to = message.properties.get("reply_to")
        if reply_to is not None:
            self._requests[str(reply_to), correlation] = message

    def _hold(self, row: PageRow, message: MessageStory, copy: CopyLife) -> None:
        kind = row["kind"]
        if kind in events.DELIVERIES:
            conn = row.get("conn")
            self._held.setdefault(conn, {})[copy.number] = row.get("chan"), message
            self._holders[copy.number] = conn
        elif kind in _RELEASING or row.get("reason") == events.NO_ACK:
            conn = self._holders.pop(copy.number, None)
            self._held.get(conn, {}).pop(copy.number, None)


def link(cause: MessageStory, effect: MessageStory, how: str, *, is_guess: bool) -> None:
    """Link a message to the one that it follows from."""
    guess: dict[str, Any] = {"guess": True} if is_guess else {}
    cause.causes.append({"message": effect.number, "how": how, **guess})
    effect.caused_by = {"message": cause.number, "how": how, **guess}
