"""The messages of a story: what each was, its copies in queues, what became of it, and what caused it.

A dead letter keeps the number of its message, so its cause is an event: the death of the copy that it comes from. A
reply goes to the queue that the request named, with the request's correlation id. A publish made on a connection while
it held exactly one delivery was probably caused by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any, Final

from leveret.page.bodies import Body
from leveret.page.frameworks import Framework, framework_of
from leveret.page.lanes import Lanes, shown_name
from leveret.page.readings.reading import Reading, StoryEvent
from leveret.story.entities import CopyLife, MessageLife, arrival_text, end_text
from leveret.story.words import BAD, GOOD, PLAIN, UNACKED, WARN, Tone, channel_text, deliveries_text, end_of
from leveret.trace.events import as_python
from leveret.trace.redaction import REDACTED, plain

COLOURS: Final = 12
# The fault that withholds confirms.
WITHHELD: Final = "withhold_confirms"
# A message that came back this often has a problem.
_OFTEN: Final = 2
_DEATHS: Final = "x-death"
_OF_DEATH: Final = ("queue", "reason", "count", "exchange", "routing_keys")


class MessageStory:
    """The story of one message."""

    def __init__(self, number: int, name: str, life: MessageLife, body: Body, reading: Reading) -> None:
        # The number is unique in the story.
        self.number = number
        self.life = life
        self.body = body
        # What the broker's failure texts call it, with the broker if there are two.
        self.name = name
        self.events: list[StoryEvent] = []
        # The events of its copies.
        self.copy_events: dict[int, list[StoryEvent]] = {}
        self.publisher: str | None = None
        self.line: str | None = None
        message = life.message
        self.exchange, self.routing_key = message.exchange, message.routing_key
        values = message.properties.to_python()
        shown = {name: values.get(name) for name in ("message_id", "correlation_id")} | values
        headers = shown.pop("headers", None)
        self.properties = {name: plain(value) for name, value in shown.items() if value is not None}
        self.headers = reading.redaction.shown(headers) if isinstance(headers, Mapping) else None
        self.framework: Framework | None = framework_of(
            self.exchange, self.headers or {}, self.properties, self.body.json
        )
        # Whether a fault withholds its answer.
        self.is_withheld = False
        self.caused_by: dict[str, Any] | None = None
        self.causes: list[dict[str, Any]] = []
        self._redaction: Final = reading.redaction
        self._has_acks: Final = reading.has_acks

    @property
    def copies(self) -> dict[int, CopyLife]:
        """Its copies in queues, by their numbers."""
        return self.life.copies

    @property
    def vhost(self) -> str:
        """The virtual host in which it was published."""
        return self.life.vhost

    @property
    def _deaths(self) -> list[dict[str, Any]]:
        """Its deaths, as its last dead letter has them."""
        letters = [copy.facts[0].message for copy in self.copies.values() if copy.source_number is not None]
        headers = as_python(letters[-1].properties.headers) if letters else None
        deaths = self._redaction.shown(headers).get(_DEATHS) if isinstance(headers, Mapping) else None
        return [death for death in deaths if isinstance(death, dict)] if isinstance(deaths, list) else []

    def state(self, copy: CopyLife) -> str:
        """Return how a copy of it stands."""
        return copy.stand if self._has_acks or copy.stand != UNACKED else "delivered"

    @property
    def _is_unanswered(self) -> bool:
        published = self.life.published
        return published is not None and published.tag is not None and self.life.answer is None

    @property
    def label(self) -> str:
        """What the message says in a few characters."""
        if self.framework is not None and self.framework.label:
            return self.framework.label
        return self.body.label or self.routing_key or self.exchange

    def _outcome(self, texts: Mapping[int, str], about: Container[str], unconsumed: Container[str]) -> tuple[str, str]:
        """Return what became of the message, its problems first, and the tone of that. `texts` say how copies stand."""
        problems, ends = self._problems(), self._ends(texts)
        counts = Counter(text for text, _, _ in ends)
        counted = [text if count == 1 else f"{text} ({count} copies)" for text, count in counts.items()]
        text = "; ".join([*dict.fromkeys(problems), *counted])
        if not self.copies:
            return text, BAD if problems or self.life.lost is not None else WARN
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

    def _ends(self, texts: Mapping[int, str]) -> list[tuple[str, Tone, str]]:
        """Return the ends of the copies that count: their texts, tones and queues."""
        if not self.copies:
            lost = self.life.lost
            return [("reached no queue" if lost is None else f"{lost.kind} ({lost.get('reason')})", WARN, "")]
        ends = self.life.last_ends
        return [(texts[copy.number], end_of(self.state(copy)).tone, copy.queue.name) for copy in ends]

    def _end_text(self, copy: CopyLife) -> str:
        """Return how a copy stands, as a drawing says it."""
        filling = {
            "queue": repr(shown_name(copy.queue.name)),
            "holder": _holder(copy),
            "often": deliveries_text(len(copy.deliveries)),
            "reason": str(copy.last.get("reason")),
            # A dead letter that has arrived is drawn.
            "target": "" if copy.letters else arrival_text(copy),
        }
        return end_text(self.state(copy), lambda name: filling.get(name, ""), is_drawn=True)

    def shown(
        self, lanes: Lanes, colour: int, about: Container[str] = (), unconsumed: Container[str] = ()
    ) -> dict[str, Any]:
        """Return the message as a page takes it.

        `about` are the queues that the failure is about, and `unconsumed` those that never had a consumer. What waits
        in one of the latter is no problem, unless the failure is about it.
        """
        ends = {number: self._end_text(copy) for number, copy in self.copies.items()}
        outcome, tone = self._outcome(ends, about, unconsumed)
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
            "body": self.body.shown if self.body.shown["hash"] else None,
            "events": [event["i"] for event in self.events],
            "copies": [self._shown_copy(copy, ends[number], lanes) for number, copy in self.copies.items()],
            "deaths": [{name: death.get(name.replace("_", "-")) for name in _OF_DEATH} for death in self._deaths],
            "causes": self.causes,
            "caused_by": self.caused_by,
            "outcome": outcome,
            "tone": tone,
        }
        return {name: value for name, value in shown.items() if value not in (None, [], {})}

    def _shown_copy(self, copy: CopyLife, end: str, lanes: Lanes) -> dict[str, Any]:
        shown = {
            "copy": copy.number,
            "queue": lanes.id_of("queue", *copy.queue.place),
            "from_copy": copy.source_number,
            "deliveries": len(copy.deliveries) or None,
            "state": self.state(copy),
            "end": end,
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


def link(cause: MessageStory, effect: MessageStory, how: str, *, is_guess: bool) -> None:
    """Link a message to the one that it follows from."""
    guess: dict[str, Any] = {"guess": True} if is_guess else {}
    cause.causes.append({"message": effect.number, "how": how, **guess})
    effect.caused_by = {"message": cause.number, "how": how, **guess}
