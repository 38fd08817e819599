"""The fingerprint of a test: what clients could observe of how the broker treated their messages, as counted facts.

Everything that depends on chance or timing is left out or normalised: names that the broker and clients generate, the
number of deliveries (a prefetching consumer may get messages that it never looks at), and the messages that a client
leaves behind when it disconnects. The module does not import pytest. A fingerprint consists of plain values, so that it
can pass between processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.views.message_view import MessageView
from leveret.story.facts import CountedFact, Facts
from leveret.trace import events
from leveret.trace.events import Event
from leveret.wording import MADE_UP

if TYPE_CHECKING:
    from leveret.core.model.message import Message

# A shared prefetch limit, which RabbitMQ denies as global_qos.
SHARED: Final = "for the whole channel"
_SINGLE: Final = "for each consumer"
# The header, and the fact about one that a client published. From 4.0 on, RabbitMQ restarts its count.
X_DEATH: Final = "x-death"

# The reasons for a requeue other than a channel or a connection that ends.
_ON_PURPOSE: Final = ("nacked", "rejected", "recovered", "consumer_timeout")

_MADE_UP: Final = (
    # Names that the broker generates, and those that clients generate after the same pattern.
    (re.compile(r"\b(amq\.gen|amq\.ctag|amq\.rabbitmq\.reply-to)[-.][\w=+/-]+"), r"\1-*"),
    # The version a test runs on, which may stand in a name made from the test's.
    (re.compile(r"rabbitmq-\d+\.\d+"), "rabbitmq-*"),
    (MADE_UP, "*"),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused client, by name, and the line that was in the call or that opened the connection."""

    client: str
    code: int
    text: str
    line: str
    # The deprecated feature that the version denies, if that is why.
    feature: str = ""


class Fingerprint:
    """The counted facts and refusals of one test's brokers."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.refusals: dict[Refusal, None] = {}
        # False if no broker recorded a trace.
        self.is_recorded = False
        # False if something was still under way, was cut short, or was dropped from the trace: then counts are not
        # comparable.
        self.is_complete = True
        # How many messages were published. If that differs between versions, all counts may.
        self.published_count = 0

    def add(self, trace: Iterable[Event], *, is_complete: bool) -> None:
        """Add the trace of one broker."""
        self.is_complete = self.is_complete and is_complete
        view = _View()
        for event in trace:
            self.is_recorded = True
            self.facts.update(view.facts(event))
            if event.kind == events.REFUSED:
                self.refusals[_refusal(event)] = None
            elif event.kind == events.PUBLISHED:
                self.published_count += 1
            elif event.kind in events.REQUEUES and event.reason not in _ON_PURPOSE:
                self.is_complete = False

    def plain(self) -> dict[str, object]:
        """Return the fingerprint as plain values."""
        return {
            "facts": [(fact.what, fact.where, fact.value, count) for fact, count in self.facts.items()],
            "refusals": [asdict(refusal) for refusal in self.refusals],
            "is_recorded": self.is_recorded,
            "is_complete": self.is_complete,
            "published_count": self.published_count,
        }


class _View:
    """The state of a trace that is needed to interpret its next event."""

    def __init__(self) -> None:
        self._clients: dict[int | None, str] = {}
        # Copies that were dead-lettered from another queue, and those already delivered once.
        self._arrived: set[object] = set()
        self._seen: set[object] = set()
        # Messages that a client published with an x-death header, until they are delivered as dead letters.
        self._republished: set[object] = set()

    def facts(self, event: Event) -> list[CountedFact]:
        match event.kind:
            case events.CONN_OPEN:
                self._clients[event.conn] = normal(event.client)
            case events.PUBLISHED if X_DEATH in (event.message.properties.headers or ()):
                self._republished.add(event.message.id)
            case kind if kind in events.ARRIVALS and event.src_copy is not None:
                self._arrived.add(event.copy)
            case kind if kind in events.DELIVERIES:
                return self._delivered(event)
            case events.ACKED:
                return [CountedFact("acked by no-ack" if event.reason else "acked", _place(event))]
            case kind if kind in (*events.REFUSING, *events.WITHOUT_REASON):
                return [CountedFact(event.kind, _place(event))]
            case kind if kind in events.RETURNS:
                return [CountedFact(kind, f"to the publisher ({event.reason})")]
            case kind if kind in (*events.DEATHS, *events.LOSSES):
                return [CountedFact(f"{kind.replace('_', '-')} ({event.reason})", _place(event))]
            case events.CANCEL if event.reason is not None:
                return [CountedFact(f"consumer cancelled by the broker ({event.reason})", _place(event))]
            case events.QOS if event.count and event.is_global_asked:
                where = f"that {self._clients.get(event.conn, 'a client')} sets with global=True"
                return [CountedFact("prefetch limit", where, value=SHARED if event.is_global else _SINGLE)]
        return []

    def _delivered(self, event: Event) -> list[CountedFact]:
        """Return the facts about a copy's first delivery. Later deliveries are redelivered on every version."""
        if event.copy in self._seen:
            return []
        self._seen.add(event.copy)
        is_letter = event.copy in self._arrived
        facts = [
            CountedFact(
                "dead letter" if is_letter else "message", _place(event), value=f"redelivered={event.redelivered}"
            )
        ]
        if is_letter and event.message.id in self._republished:
            # On every version, later deaths continue the count from here.
            self._republished.discard(event.message.id)
            where = f"{_place(event)} of a message that a client published with one"
            facts.append(CountedFact(X_DEATH, where, value=_deaths(event)))
        return facts


def normal(text: str) -> str:
    """Return a name or a text with the generated parts replaced, which differ in each run."""
    for pattern, replacement in _MADE_UP:
        text = pattern.sub(replacement, text)
    return text


def _place(event: Event) -> str:
    return f"in {normal(event.queue)}" if event.queue else "by exchange " + repr(normal(event.message.exchange))


def _deaths(event: Event) -> str:
    deaths = MessageView(cast("Message", event.message)).deaths
    return " and ".join(f"{normal(death.queue)} ({death.reason}) x{death.count}" for death in deaths)


def _refusal(event: Event) -> Refusal:
    # The report lists the tests, so the line that called this one is left out.
    line = f"during the call at {event.caller.inner}" if event.caller else ""
    if not line and event.opener:
        line = f"on the connection opened at {event.opener.inner}"
    feature = (event.subject or {}).get("feature", "")
    return Refusal(normal(event.client), event.code, normal(event.text), line, feature)
