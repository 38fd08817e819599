"""The fingerprint of a test: what a client could tell of how the broker treated its messages, as counted facts.

What depends on chance or on who is quicker is left out or made equal: names that broker and clients make up, the number
of deliveries (a consumer may be sent more than it will ever look at), and what a client leaves behind that hangs up. It
imports nothing of pytest, and is made of plain values to pass between processes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.message_view import MessageView
from leveret.observe.wording import MADE_UP
from leveret.trace import events
from leveret.trace.events import Event

if TYPE_CHECKING:
    from leveret.core.model.message import Message

# What a shared prefetch limit is called; RabbitMQ denies it as global_qos.
SHARED: Final = "for the whole channel"
_SINGLE: Final = "for each consumer"
# The header, and the fact of one that a client had published; from 4.0 on RabbitMQ counts that anew.
X_DEATH: Final = "x-death"

# Why a message goes back to its queue while nobody hangs up on it.
_ON_PURPOSE: Final = ("nacked", "rejected", "recovered", "consumer_timeout")

_MADE_UP: Final = (
    # Names of the broker, and what clients make after their pattern.
    (re.compile(r"\b(amq\.gen|amq\.ctag|amq\.rabbitmq\.reply-to)[-.][\w=+/-]+"), r"\1-*"),
    # The version a test runs on, which may stand in a name made from the test's.
    (re.compile(r"rabbitmq-\d+\.\d+"), "rabbitmq-*"),
    (MADE_UP, "*"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something seen: `what` happened `where`, and for what is there on every version, how it looked."""

    what: str
    where: str
    # Empty for what can only be counted.
    value: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A client was refused, by name, and the line that was in the call or that opened the connection."""

    client: str
    code: int
    text: str
    line: str


class Fingerprint:
    """What the brokers of one test showed."""

    def __init__(self) -> None:
        self.facts: Counter[Fact] = Counter()
        self.refusals: dict[Refusal, None] = {}
        # False when no broker had a record to show.
        self.is_recorded = False
        # False when something was under way, cut short, or forgotten: then a count says nothing.
        self.is_complete = True
        # How much clients sent of themselves: where that differs, so may everything that follows.
        self.published_count = 0
        # The line that called the broker last.
        self.last_call = ""

    def add(self, trace: Iterable[Event], *, is_complete: bool) -> None:
        """Add what one broker's trace says."""
        self.is_complete = self.is_complete and is_complete
        view = _View()
        for event in trace:
            self.is_recorded = True
            self.facts.update(view.facts(event))
            if event.kind == events.REFUSED:
                self.refusals[_refusal(event)] = None
            elif event.kind == events.CALLED:
                self.last_call = event.caller or ""
            elif event.kind == events.PUBLISHED:
                self.published_count += 1
            elif event.kind == events.REQUEUED and event.reason not in _ON_PURPOSE:
                self.is_complete = False

    def plain(self) -> dict[str, object]:
        """The same in plain values."""
        return {
            "facts": [(fact.what, fact.where, fact.value, count) for fact, count in self.facts.items()],
            "refusals": [asdict(refusal) for refusal in self.refusals],
            "is_recorded": self.is_recorded,
            "is_complete": self.is_complete,
            "published_count": self.published_count,
            "last_call": self.last_call,
        }


class _View:
    """What has to be remembered of a trace to say what its next event means."""

    def __init__(self) -> None:
        self._clients: dict[int | None, str] = {}
        # Copies that came from another queue, and those that went to one.
        self._arrived: set[object] = set()
        self._seen: set[object] = set()
        # Messages that a client published with an x-death of its own, until they are handed out as dead letters.
        self._republished: set[object] = set()

    def facts(self, event: Event) -> list[Fact]:
        match event.kind:
            case events.CONN_OPEN:
                self._clients[event.conn] = normal(event.client)
            case events.PUBLISHED if X_DEATH in (event.message.properties.headers or ()):
                self._republished.add(event.message.id)
            case events.ENQUEUED if event.src_copy is not None:
                self._arrived.add(event.copy)
            case kind if kind in events.DELIVERIES:
                return self._delivered(event)
            case events.ACKED:
                return [Fact("acked by no-ack" if event.reason else "acked", _place(event))]
            case events.NACKED | events.REJECTED | events.EXPIRED:
                return [Fact(event.kind, _place(event))]
            case events.DEAD_LETTERED:
                return [Fact(f"dead-lettered ({event.reason})", _place(event))]
            case events.DROPPED:
                return [Fact(f"dropped ({event.reason})", _place(event))]
            case events.RETURNED:
                return [Fact("returned", f"to the publisher ({event.reason})")]
            case events.CANCEL if event.reason is not None:
                return [Fact(f"consumer cancelled by the broker ({event.reason})", _place(event))]
            case events.QOS if event.count and event.is_global_asked:
                where = f"that {self._clients.get(event.conn, 'a client')} sets with global=True"
                return [Fact("prefetch limit", where, SHARED if event.is_global else _SINGLE)]
        return []

    def _delivered(self, event: Event) -> list[Fact]:
        """How a message looked when it was first handed out; later it is redelivered on every version."""
        if event.copy in self._seen:
            return []
        self._seen.add(event.copy)
        is_letter = event.copy in self._arrived
        facts = [Fact("dead letter" if is_letter else "message", _place(event), f"redelivered={event.redelivered}")]
        if is_letter and event.message.id in self._republished:
            # Later deaths count on from this one on every version.
            self._republished.discard(event.message.id)
            facts.append(Fact(X_DEATH, f"{_place(event)} of what a client published with one", _deaths(event)))
        return facts


def normal(text: str) -> str:
    """A name or text without what is made up anew in each run."""
    for pattern, replacement in _MADE_UP:
        text = pattern.sub(replacement, text)
    return text


def _place(event: Event) -> str:
    return f"in {normal(event.queue)}" if event.queue else "by exchange " + repr(normal(event.message.exchange))


def _deaths(event: Event) -> str:
    deaths = MessageView(cast("Message", event.message)).deaths
    return " and ".join(f"{normal(death.queue)} ({death.reason}) x{death.count}" for death in deaths)


def _refusal(event: Event) -> Refusal:
    line = f"during the call at {event.caller}" if event.caller else ""
    if not line and event.opener:
        line = f"on the connection opened at {event.opener}"
    return Refusal(normal(event.client), event.code, normal(event.text), line)
