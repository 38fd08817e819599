"""A rule: which fault applies, on which occasions, after how many of them, and how often. It is also the test's handle.

An invalid rule raises at the line that adds it. The error suggests the closest spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from leveret.core.wire import methods as wire
from leveret.errors import did_you_mean
from leveret.faults.fault import Fault
from leveret.observe.assertions.matching import Matcher, is_equal
from leveret.trace import events
from leveret.wording import count_text

if TYPE_CHECKING:
    from random import Random

    from leveret.faults.occasion import Occasion, Point

ACCEPT: Final = "accept"
# A client's channel.close-ok only frees a channel number, so rules cannot wait for it.
CLIENT_METHODS: Final = {
    kind.NAME: kind for kind in wire.METHODS.values() if "C" in kind.SENDERS and kind is not wire.ChannelCloseOk
}
SERVER_METHODS: Final = {kind.NAME: kind for kind in wire.METHODS.values() if "S" in kind.SENDERS}
EVENTS: Final = tuple(name for name, kind in events.TABLE.items() if kind.category != "test")
NAMES: Final = (*dict.fromkeys([*CLIENT_METHODS, *SERVER_METHODS]), *EVENTS, ACCEPT)
_WITH_MESSAGE: Final = ("basic.publish", "basic.ack", "basic.nack", "basic.reject")
_SENT_WITH_MESSAGE: Final = ("basic.deliver", "basic.get-ok", "basic.return")
# The keywords that limit a rule to a place, each with the attribute of an occasion that they compare.
PLACES: Final = {
    "vhost": "vhost",
    "client": "client_name",
    "connection": "connection_number",
    "channel": "channel_number",
    "queue": "queue",
    "consumer": "consumer",
}
# The methods of a connection that come before its virtual host is known.
_OF_HANDSHAKE: Final = tuple(
    f"connection.{name}" for name in ("start", "start-ok", "secure", "secure-ok", "tune", "tune-ok", "open", "open-ok")
)
# The complaint about an unused rule lists at most this many of the values it saw instead.
_SHOWN_MISSES: Final = 4
OPTIONS: Final = ("on", "do", "after", "times", "probability", "optional", "sent_by", *PLACES)
# What the name of a point means to the user, for the error about a fault that cannot apply where its rule waits.
_POINT_TEXTS: Final[dict[Point, str]] = {
    "accept": f"new connections (on={ACCEPT!r})",
    "method": "methods that clients send",
    "reply": "methods that the broker sends",
    "deliver": "basic.deliver",
    "confirm": "basic.publish",
    "event": "events",
    "now": "what exists at once (without on=)",
}


class Misses:
    """The occasions that a rule waited for but that did not match, by reason."""

    __slots__ = ("_count", "_reasons")

    def __init__(self) -> None:
        self._count = 0
        # The first few different values, by reason.
        self._reasons: Final[dict[str, dict[str, None]]] = {}

    def note(self, reason: str, *seen: object) -> None:
        """Count one more occasion for this reason."""
        self._count += 1
        values = self._reasons.setdefault(reason, {})
        if len(values) < _SHOWN_MISSES:
            values.update(dict.fromkeys(map(repr, seen)))

    def summary(self, on: str) -> str:
        """Return what was seen, such as "2 basic.ack did not match; clients seen: 'shop'"."""
        if not self._count:
            return "nothing matched"
        came = [f"{self._count} {on} did not match"] if on != "now" else []
        came += [f"{why}: {', '.join(values)}" if values else why for why, values in self._reasons.items()]
        return "; ".join(came)


class Rule(AbstractContextManager["Rule"]):
    """A fault and when it applies. `fired` counts how often it has applied."""

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
        test: str | None = None,
    ) -> None:
        __tracebackhide__ = True
        if not isinstance(do, Fault):
            raise TypeError(_not_a_fault_text(do))
        self.fault = do
        self.point: Final = _point(on, sent_by, do)
        # The name of the occasions it waits for; "now" without `on=`.
        self.on: Final = on if on is not None else "now"
        self.after: Final = _count("after", after, 0)
        self.times: Final = None if times is None else _count("times", times, 1)
        if probability is not None and not 0 < probability <= 1:
            raise ValueError(f"probability={probability!r} must be above 0 and at most 1")
        self.probability: Final = probability
        self.optional = optional
        # The test that added it, on a broker that serves several.
        self.test: Final = test
        self.places: Final = {name: value for name, value in places.items() if value is not None}
        self.matcher: Final = Matcher(matcher)
        self._refuse_impossible()
        # How often the fault has applied.
        self.fired = 0
        # How many occasions have matched, including those that `after` and `probability` let pass.
        self.seen = 0
        self.misses: Final = Misses()
        self.is_removed = False
        # Whether a test has already failed because the rule never fired.
        self.is_reported = False
        self.on_remove: Callable[[Rule], None] | None = None
        self.on_unused: Callable[[Rule], None] | None = None

    def _refuse_impossible(self) -> None:
        __tracebackhide__ = True
        if self.point == "event" and self.fault.needs_connection and "conn" not in events.FIELDS[self.on]:
            raise ValueError(
                f"on={self.on!r}: {self.fault.name} needs a connection, and this event has none; "
                "wait for a method, or for an event of a connection"
            )
        if self.fault.needs_channel and self.on.startswith("connection."):
            raise ValueError(
                f"on={self.on!r}: {self.fault.name} needs a channel, and this method has none; "
                "wait for a method of a channel"
            )
        if self.point == "now" and self.after:
            raise ValueError(
                f"after={self.after!r}: without on=, {self.fault.name} applies at once and counts no occasions; "
                "name a method or an event with on="
            )
        if self.matcher.criteria and not self._may_have_message:
            raise ValueError(
                f"{self.matcher!r} never matches: {self.on} has no message; "
                "leave it out, or wait for a method or an event that has a message"
            )
        for place in self.places:
            if not self._may_have(place):
                raise ValueError(
                    f"{place}={self.places[place]!r} never matches: {self.on} has no {place}; leave {place}= out"
                )

    @property
    def _may_have_message(self) -> bool:
        if self.point == "event":
            return "message" in events.FIELDS[self.on]
        with_message = _WITH_MESSAGE if self.point in ("method", "confirm") else _SENT_WITH_MESSAGE
        return self.on in with_message

    def _may_have(self, place: str) -> bool:
        if place in ("client", "vhost") and self.point == "accept":
            return False
        if place == "vhost":
            if self.point == "event":
                return "vhost" in events.FIELDS[self.on]
            return self.on not in _OF_HANDSHAKE and not (self.point == "now" and self.fault.target == "node")
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
        """Whether it will never fire again."""
        return self.is_removed or (self.times is not None and self.fired >= self.times)

    @property
    def is_unused(self) -> bool:
        """Whether it fired less often than it should: `times`, or once. With a probability, one chance is enough."""
        had_chance = self.probability is not None and self.seen > self.after
        return self.fired < (self.times or 1) and not self.optional and not had_chance

    def fires(self, occasion: Occasion, dice: Random) -> bool:
        """Return whether to apply the fault on this occasion, and count the match."""
        if self.is_spent or not self._matches(occasion):
            return False
        refusal = occasion.refusal
        if refusal is not None:
            self.misses.note("refused", refusal)
            return False
        if not self.fault.can_apply(occasion):
            self.misses.note(self.fault.unmet)
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
            actual = getattr(occasion, PLACES[place])
            if not is_equal(expected, actual):
                self.misses.note(f"{place}s seen", actual)
                return False
        message = occasion.message if self.matcher.criteria else None
        if not self.matcher.criteria or (message is not None and self.matcher.matches(message)):
            return True
        self.misses.note("messages seen", message)
        return False

    def concerns(self, test: str | None) -> bool:
        """Return whether a report on a test names the rule: the test has added it, or it may still fire."""
        return self.test in (None, test) or not self.is_removed

    def remove(self) -> None:
        """Stop firing and undo lasting effects. Removing a rule twice is fine."""
        if self.on_remove is not None:
            self.on_remove(self)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        __tracebackhide__ = True
        self.remove()
        if error is None and self.is_unused and not self.is_reported and self.on_unused is not None:
            self.on_unused(self)

    def complaint(self) -> str:
        """Return the text for a rule that never fired, or not as often as it should."""
        if self.fired:
            often = f"fired only {count_text(self.fired, 'time')} of times={self.times}"
            return f"{self!r} {often}, so the test did not see the rest; leave times= out, or lower it"
        matched = f"{count_text(self.seen, 'occasion')} matched, after={self.after}"
        return f"{self!r} never fired: {matched if self.seen else self.misses.summary(self.on)}"

    def __repr__(self) -> str:
        parts = [f"on {self.on}"] if self.on != "now" else []
        parts += [f"{name}={_shown(value)}" for name, value in self.places.items()]
        parts += [repr(self.matcher)] if self.matcher.criteria else []
        parts += [f"after={self.after}"] if self.after else []
        parts += [f"times={self.times}"] if self.times is not None else []
        parts += [f"probability={self.probability}"] if self.probability is not None else []
        return f"<{self.fault!r} {', '.join(parts)}>" if parts else f"<{self.fault!r}>"


def _not_a_fault_text(do: object) -> str:
    """Return the error for a `do` that is not a fault: a name, a class, or None."""
    from leveret import faults

    kinds = {name: kind for name, kind in vars(faults).items() if isinstance(kind, type) and issubclass(kind, Fault)}
    named = [name for name, kind in kinds.items() if do is kind or (isinstance(do, str) and do in (name, kind.name))]
    name = named[0] if named else "ResetPeer"
    given = "do= is missing" if do is None else f"do={do!r} is not a fault"
    return f"{given}; pass an instance of a fault, such as do={name}(...) (from leveret.faults import {name})"


def _shown(value: object) -> str:
    return repr(value.pattern) if isinstance(value, re.Pattern) else repr(value)


def _point(on: str | None, sent_by: str | None, fault: Fault) -> Point:
    """Return the point of a rule. Raises ValueError if the name is unknown or the fault cannot apply there."""
    __tracebackhide__ = True
    if sent_by not in (None, "client", "broker"):
        raise ValueError(f"sent_by={sent_by!r} is unknown; expected 'client' or 'broker'")
    point = _named_point(on, sent_by, fault)
    if point not in fault.points:
        wrong = f"{fault.name} needs on=" if on is None else f"on={on!r}: {fault.name} cannot apply there"
        raise ValueError(f"{wrong}; it applies to {', '.join(_POINT_TEXTS[name] for name in fault.points)}")
    return point


def _named_point(on: str | None, sent_by: str | None, fault: Fault) -> Point:
    __tracebackhide__ = True
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
        raise ValueError(f"sent_by={sent_by!r}: the {sent_by} never sends {on}; leave sent_by= out")
    hint = _hint(on) or "; expected an AMQP method like basic.publish, or an event like delivered"
    raise ValueError(f"unknown method or event {on!r}{hint}")


def _hint(on: str) -> str:
    """Return the name with the most similar spelling, or the longest one that begins or ends as `on` does."""
    alike = [name for name in NAMES if on.startswith(name) or name.startswith(on) or name.endswith(f".{on}")]
    return did_you_mean(on, NAMES) or (f"; did you mean {max(alike, key=len)!r}?" if alike and on else "")


def _count(name: str, value: object, least: int) -> int:
    __tracebackhide__ = True
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} must be a whole number, {least} or more")
    return value
