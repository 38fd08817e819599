"""A rule: which fault, on which occasions, after how many of them and how often. It is also the handle a test holds.

It raises, at the line that wrote it, for what cannot be meant, and names the nearest spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from leveret.core.wire import methods as wire
from leveret.errors import did_you_mean
from leveret.faults.fault import Fault, Point
from leveret.observe.matching import Matcher, is_equal
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.faults.occasion import Dice, Occasion

ACCEPT: Final = "accept"
_METHODS: Final = [kind for kind in vars(wire).values() if isinstance(kind, type) and issubclass(kind, wire.Method)]
# A client's channel.close-ok is no step of its own: it frees a number.
CLIENT_METHODS: Final = {kind.NAME: kind for kind in wire.CLIENT_METHODS.values() if kind.NAME != "channel.close-ok"}
SERVER_METHODS: Final = {kind.NAME: kind for kind in _METHODS if hasattr(kind, "encode")} | {
    wire.BasicDeliver.NAME: wire.BasicDeliver
}
EVENTS: Final = tuple(name for name, kind in events.TABLE.items() if kind.category != "test")
NAMES: Final = (*dict.fromkeys([*CLIENT_METHODS, *SERVER_METHODS]), *EVENTS, ACCEPT)
_WITH_MESSAGE: Final = ("basic.publish", "basic.ack", "basic.nack", "basic.reject")
_SENT_WITH_MESSAGE: Final = ("basic.deliver", "basic.get-ok", "basic.return")
PLACES: Final = ("client", "connection", "channel", "queue", "consumer")
# So many of the values that were seen instead are told.
_SHOWN_MISSES: Final = 4
OPTIONS: Final = ("on", "do", "after", "times", "probability", "optional", "sent_by", *PLACES)


class Misses:
    """These are the occasions a rule waited for that were not meant, and what they were instead."""

    __slots__ = ("_count", "_reasons")

    def __init__(self) -> None:
        self._count = 0
        # By reason, the first few different values.
        self._reasons: Final[dict[str, dict[str, None]]] = {}

    def note(self, reason: str, *found: object) -> None:
        """One more, for this reason."""
        self._count += 1
        values = self._reasons.setdefault(reason, {})
        if len(values) < _SHOWN_MISSES:
            values.update(dict.fromkeys(map(repr, found)))

    def told(self, on: str) -> str:
        """What came instead: "2 basic.publish came, clients seen: 'shop'"; "nothing matched" when nothing came."""
        if not self._count:
            return "nothing matched"
        came = [f"{self._count} {on} came"] if on != "now" else []
        came += [f"{why}: {', '.join(values)}" if values else why for why, values in self._reasons.items()]
        return ", ".join(came)


class Rule:
    """This says when a fault strikes; `fired` counts how often it has."""

    def __init__(
        self,
        *,
        on: str | None,
        do: Fault,
        after: int = 0,
        times: int | None = None,
        probability: float | None = None,
        optional: bool = False,
        sent_by: str | None = None,
        places: Mapping[str, object],
        matcher: Mapping[str, object],
    ) -> None:
        if not isinstance(do, Fault):
            raise TypeError(_no_fault_text(do))
        self.fault = do
        self.point: Final = _point(on, sent_by, do)
        # What it waits for; "now" for what happens when the rule is added.
        self.on: Final = on if on is not None else "now"
        self.after: Final = _count("after", after, 0)
        self.times: Final = None if times is None else _count("times", times, 1)
        self.probability: Final = _probability(probability)
        self.optional = optional
        self.places: Final = {name: value for name, value in places.items() if value is not None}
        self.matcher: Final = Matcher(matcher, also_known=OPTIONS)
        self._refuse_impossible()
        # How often it struck; how many occasions matched, whether it struck or not; and those that did not, with what
        # was in the way.
        self.fired = 0
        self.seen = 0
        self.misses: Final = Misses()
        self.is_removed = False
        # Whether a test has been told that it never fired.
        self.is_reported = False
        self.on_remove: Callable[[Rule], None] | None = None
        self.on_unused: Callable[[Rule], None] | None = None

    def _refuse_impossible(self) -> None:
        if self.point == "event" and self.fault.needs_connection and "conn" not in events.FIELDS[self.on]:
            raise ValueError(f"{self.fault.name} cannot act on {self.on}, which is no connection's doing")
        if self.fault.needs_channel and self.on.startswith("connection."):
            raise ValueError(f"{self.fault.name} cannot act on {self.on}, which belongs to no channel")
        if self.point == "now" and self.after:
            raise ValueError(f"{self.fault.name} strikes at once and has nothing to wait for: name it with on=")
        if self.matcher.criteria and not self._may_have_message:
            raise ValueError(f"there is no message on {self.on} that {self.matcher!r} could match")
        for place in self.places:
            if not self._may_have(place):
                raise ValueError(f"{self.on} has no {place}, so {place}={self.places[place]!r} never matches")

    @property
    def _may_have_message(self) -> bool:
        if self.point == "event":
            return "message" in events.FIELDS[self.on]
        known = _WITH_MESSAGE if self.point in ("method", "confirm") else _SENT_WITH_MESSAGE
        return self.on in known

    def _may_have(self, place: str) -> bool:
        if place == "client" and self.point == "accept":
            return False
        if place in ("client", "connection"):
            return self.point != "event" or "conn" in events.FIELDS[self.on]
        if place == "channel":
            return self.point not in ("accept", "event") or "chan" in events.FIELDS.get(self.on, ())
        if self.point == "event":
            return place in events.FIELDS[self.on]
        if self.point == "now":
            return self.fault.target == "consumer"
        if self.point == "deliver" or (self.point == "method" and self.on in _WITH_MESSAGE[1:]):
            return True
        kind = (CLIENT_METHODS if self.point in ("method", "confirm") else SERVER_METHODS).get(self.on)
        return ("queue" if place == "queue" else "consumer_tag") in getattr(kind, "__match_args__", ())

    @property
    def is_spent(self) -> bool:
        """Whether it will never strike again."""
        return self.is_removed or (self.times is not None and self.fired >= self.times)

    @property
    def is_unused(self) -> bool:
        """Whether it should have struck and has not; where chance decides, an occasion is enough."""
        is_lucky = self.probability is not None and self.seen > self.after
        return not self.fired and not self.optional and not is_lucky

    def takes(self, occasion: Occasion, dice: Dice) -> bool:
        """Whether to strike on this occasion; counts both."""
        if self.is_spent or not self._matches(occasion):
            return False
        refusal = occasion.refusal
        if refusal is not None:
            self.misses.note("refused", refusal)
            return False
        if not self.fault.applies(occasion):
            self.misses.note(self.fault.not_here)
            return False
        self.seen += 1
        if self.seen <= self.after:
            return False
        if self.probability is not None and dice.random() >= self.probability:
            return False
        self.fired += 1
        return True

    def _matches(self, occasion: Occasion) -> bool:
        for place, expected in self.places.items():
            found = _place(occasion, place)
            if not is_equal(expected, found):
                self.misses.note(f"{place}s seen", found)
                return False
        message = occasion.message if self.matcher.criteria else None
        if not self.matcher.criteria or (message is not None and self.matcher.matches(message)):
            return True
        self.misses.note("messages seen", message)
        return False

    def remove(self) -> None:
        """Strike no more, and undo what lasts; removing twice is fine."""
        if self.on_remove is not None:
            self.on_remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self.remove()
        if error is None and self.is_unused and not self.is_reported and self.on_unused is not None:
            self.on_unused(self)

    def complaint(self) -> str:
        """What is wrong when it never fired."""
        waited = f"{self.seen} such occasions, after={self.after}" if self.seen else self.misses.told(self.on)
        return f"{self!r} never fired: {waited}"

    def __repr__(self) -> str:
        parts = [f"on {self.on}"] if self.on != "now" else []
        parts += [f"{name}={_shown(value)}" for name, value in self.places.items()]
        parts += [repr(self.matcher)] if self.matcher.criteria else []
        parts += [f"after={self.after}"] if self.after else []
        parts += [f"times={self.times}"] if self.times is not None else []
        parts += [f"probability={self.probability}"] if self.probability is not None else []
        return f"<{self.fault!r} {', '.join(parts)}>" if parts else f"<{self.fault!r}>"


def _no_fault_text(do: object) -> str:
    """What to write instead of something that is no fault: a name, a class, or nothing."""
    from leveret import faults

    kinds = {name: kind for name, kind in vars(faults).items() if isinstance(kind, type) and issubclass(kind, Fault)}
    named = [name for name, kind in kinds.items() if do is kind or (isinstance(do, str) and do in (name, kind.name))]
    name = named[0] if named else "ResetPeer"
    given = "no fault is given with do=" if do is None else f"do={do!r} is no fault"
    return f"{given}; give one, as in do={name}(...), from leveret.faults import {name}"


def _shown(value: object) -> str:
    return repr(value.pattern) if isinstance(value, re.Pattern) else repr(value)


def _place(occasion: Occasion, place: str) -> object:
    if place == "queue":
        return occasion.queue
    if place == "consumer":
        return occasion.consumer
    if place == "channel":
        return occasion.channel_number
    if place == "client":
        return occasion.client_name
    return None if occasion.connection is None else occasion.connection.number


def _point(on: str | None, sent_by: str | None, fault: Fault) -> Point:
    """Where a rule is asked; raises ValueError for a name that does not exist or that the fault cannot act on."""
    if sent_by not in (None, "client", "broker"):
        raise ValueError(f"sent_by={sent_by!r} is neither 'client' nor 'broker'")
    point = _named_point(on, sent_by, fault)
    if point not in fault.points:
        where = f"on {on}" if on is not None else "at once: name a method or an event with on="
        raise ValueError(f"{fault.name} cannot act {where}")
    return point


def _named_point(on: str | None, sent_by: str | None, fault: Fault) -> Point:
    if on is None:
        return "now"
    if on == ACCEPT:
        return "accept"
    if on in EVENTS:
        return "event"
    is_clients = on in CLIENT_METHODS and sent_by != "broker"
    if is_clients:
        return "confirm" if "confirm" in fault.points and on == "basic.publish" else "method"
    if on in SERVER_METHODS and sent_by != "client":
        return "deliver" if on == "basic.deliver" else "reply"
    if on in CLIENT_METHODS or on in SERVER_METHODS:
        raise ValueError(f"{on} is never sent by the {sent_by}")
    hint = did_you_mean(on, NAMES) or "; expected an AMQP method like basic.publish, or an event like delivered"
    raise ValueError(f"unknown method or event {on!r}{hint}")


def _count(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is no number of occasions from {least} on")
    return value


def _probability(value: float | None) -> float | None:
    if value is not None and not 0 < value <= 1:
        raise ValueError(f"probability={value!r} is not above 0 and at most 1")
    return value
