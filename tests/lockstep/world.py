"""The small world of a program: its channels, and how its queues and exchanges are declared.

The world leaves out what would make a server's answer depend on chance; see exclusions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .side import Place

SHORT_MS = 1000
LONG_MS = 3_600_000
KEYS = ("a", "a", "a", "a.b", "a.b", "b", "", "a.b.c", "q1", "q2")
HISTORY = "x-recent-history"
# What a program may concentrate on.
THEMES = ("transactions", "limits", "requests", "deaths", "credit", "priorities", "policies", "policies", "refusals")
_ALL_FLAVOURS = ("classic", "mixed", "quorum", "stream")
_FLAVOURS = {"limits": "classic", "requests": "classic", "credit": "stream", "deaths": "classic"}
SYSTEM = ("amq.direct", "amq.fanout", "amq.topic", "amq.headers")
MISSING_EXCHANGE = "x9"
MISSING_QUEUE = "q9"
REPLY_TO = "amq.rabbitmq.reply-to"

Arguments = dict[str, object]


@dataclass
class Design:
    """How a queue or exchange is usually declared."""

    name: str
    type: str
    fields: dict[str, object]
    arguments: Arguments = field(default_factory=dict)

    def declaration(self) -> dict[str, object]:
        return {**self.fields, **({"arguments": self.arguments} if self.arguments else {})}


class World:
    """The channels, queues and exchanges of one program."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        # Half of the programs concentrate on one thing, with few queues and mostly the acts that concern it.
        self.theme = self.chance.choice(THEMES) if self._maybe(0.5) else ""
        # Time is real on the other server, so only some programs wait.
        self.has_time = self.chance.random() < 0.12 and not self.theme
        self.has_dead_letters = self.theme == "deaths" if self.theme else self._maybe(0.55)
        self.places = self._some_places()
        flavour = _FLAVOURS.get(self.theme) or self.chance.choices(_ALL_FLAVOURS, (43, 27, 17, 13))[0]
        count = self.chance.randint(1, 2) if self.theme else self.chance.randint(2, 4)
        names = [f"q{number}" for number in range(1, count + 1)]
        self.queues = [self._queue(name, flavour) for name in names]
        if self.theme == "deaths":
            self._add_graveyard()
        self._keep_dead_letters_apart()
        is_even = (
            not self.has_dead_letters and not any(map(_depends_on_speed, self.queues)) and self.theme != "policies"
        )
        # Whether one step may publish several messages.
        self.has_bursts = is_even and flavour != "stream"
        self.exchanges = [self._exchange(f"x{number}") for number in range(1, self.chance.randint(1, 3) + 1)]
        # Whether channels get shared limits beside those of consumers.
        self.has_shared_limits = self.theme == "limits"

    def ttl(self) -> int:
        """Return a TTL in milliseconds that certainly passes, or certainly does not, whatever the speed of a server."""
        return (
            self.chance.choice((0, SHORT_MS, SHORT_MS, LONG_MS)) if self.has_time else self.chance.choice((0, LONG_MS))
        )

    def definition(self) -> Arguments:
        """Return the definition of a policy for the first queue, which may dead-letter to the second."""
        found: Arguments = {}
        values: tuple[tuple[str, float, tuple[object, ...]], ...] = (
            ("max-length", 0.6, (0, 1, 2, 3, 5, 10)),
            ("overflow", 0.5, ("drop-head", "reject-publish", "reject-publish", "reject-publish-dlx")),
            ("max-length-bytes", 0.15, (0, 4, 10, 40)),
            ("message-ttl", 0.15, (0, LONG_MS)),
            ("delivery-limit", 0.15, (0, 1, 2)),
            ("expires", 0.05, (LONG_MS,)),
        )
        for key, likely, choices in values:
            if self._maybe(likely):
                found[key] = self.chance.choice(choices)
        if self._maybe(0.4):
            found |= {"dead-letter-exchange": "", "dead-letter-routing-key": "q2"}
        return found or {"max-length": 2}

    def key(self) -> str:
        """Return a routing key."""
        return self.chance.choice(KEYS)

    def _maybe(self, likely: float) -> bool:
        return self.chance.random() < likely

    def _exchange_name(self, *, any_default: bool = False) -> str:
        draw = self.chance.random()
        if draw < 0.01:
            return MISSING_EXCHANGE
        if any_default and draw < 0.4:
            return ""
        return self.chance.choice(SYSTEM) if draw < 0.3 else f"x{self.chance.randint(1, 3)}"

    def _add_graveyard(self) -> None:
        """Let the first queue dead-letter to a queue of its own, or by the headers that a death adds."""
        first, grave = self.queues[0], Design("q2", "classic", {"queue": "q2", "durable": True})
        if self._maybe(0.5):
            grave = self._quorum("q2")
        self.queues = [first, grave]
        is_direct = self._maybe(0.5)
        first.arguments["x-dead-letter-exchange"] = "" if is_direct else "amq.headers"
        first.arguments["x-dead-letter-routing-key"] = "q2"

    def _some_places(self) -> list[Place]:
        places = [(1, 1)]
        if self.theme:
            return [*places, (1, 2)] if self._maybe(0.4) else places
        for place, likely in (((1, 2), 0.6), ((2, 1), 0.45), ((2, 2), 0.15), ((3, 1), 0.1)):
            if self._maybe(likely):
                places.append(place)
        return places

    def _queue(self, name: str, flavour: str) -> Design:
        if flavour == "stream" and (name == "q1" or self._maybe(0.3)):
            return self._stream(name)
        is_quorum = flavour == "quorum" or (flavour in ("mixed", "stream") and self._maybe(0.5))
        return self._quorum(name) if is_quorum else self._classic(name)

    def _classic(self, name: str) -> Design:
        fields: dict[str, object] = {"queue": name, "durable": self._maybe(0.75)}
        fields |= {flag: True for flag, likely in (("exclusive", 0.12), ("auto_delete", 0.12)) if self._maybe(likely)}
        arguments = self._common_arguments()
        if self._maybe(0.8 if self.theme == "priorities" else 0.2):
            arguments["x-max-priority"] = self.chance.choice((0, 1, 3, 5, 10))
        if self._maybe(0.1):
            arguments["x-queue-type"] = "classic"
        return Design(name, "classic", fields, arguments)

    def _quorum(self, name: str) -> Design:
        arguments: Arguments = {"x-queue-type": "quorum", **self._common_arguments()}
        if self._maybe(0.25):
            arguments["x-delivery-limit"] = self.chance.choice((0, 1, 2, -1))
        if self._maybe(0.1):
            arguments["x-dead-letter-strategy"] = "at-most-once"
        if self._maybe(0.1) and not {"x-max-length", "x-max-length-bytes"} & set(arguments):
            arguments["x-delayed-retry-type"] = self.chance.choice(("all", "failed", "returned", "disabled"))
            arguments["x-delayed-retry-min"] = LONG_MS
        return Design(name, "quorum", {"queue": name, "durable": True}, arguments)

    def _keep_dead_letters_apart(self) -> None:
        """Let at most one classic queue dead-letter new messages, and none beside quorum queues; see exclusions."""
        racing = [queue for queue in self.queues if queue.type == "classic" and _drops_at_once(queue)]
        is_alone = not any(queue.type == "quorum" for queue in self.queues)
        for queue in racing[1:] if is_alone else racing:
            queue.arguments.pop("x-dead-letter-exchange", None)
            queue.arguments.pop("x-dead-letter-routing-key", None)

    def _stream(self, name: str) -> Design:
        arguments: Arguments = {"x-queue-type": "stream"}
        if self._maybe(0.2):
            arguments["x-max-length-bytes"] = 1_000_000
        if self._maybe(0.2):
            arguments["x-max-age"] = "1D"
        return Design(name, "stream", {"queue": name, "durable": True}, arguments)

    def _common_arguments(self) -> Arguments:
        arguments: Arguments = {}
        if self._maybe(0.15):
            arguments["x-message-ttl"] = self.ttl()
        if self._maybe(0.22):
            arguments["x-max-length"] = self.chance.choice((0, 1, 2, 2, 3, 5))
        if self._maybe(0.08):
            arguments["x-max-length-bytes"] = self.chance.choice((0, 4, 10, 40, 100))
        if self._maybe(0.2):
            arguments["x-overflow"] = self.chance.choice(("drop-head", "reject-publish", "reject-publish-dlx"))
        if self.has_dead_letters and self._maybe(0.6):
            arguments["x-dead-letter-exchange"] = self._exchange_name(any_default=True)
            if self._maybe(0.55):
                is_default = not arguments["x-dead-letter-exchange"]
                key = self.chance.choice(("q1", "q2", "q3")) if is_default and self._maybe(0.7) else self.key()
                arguments["x-dead-letter-routing-key"] = key
        if self._maybe(0.1):
            arguments["x-single-active-consumer"] = True
        if self.has_time and self._maybe(0.05):
            arguments["x-expires"] = LONG_MS
        return arguments

    def _exchange(self, name: str) -> Design:
        kind = self.chance.choices(("direct", "fanout", "topic", "headers", HISTORY), (6, 6, 6, 6, 1))[0]
        fields: dict[str, object] = {"exchange": name, "type": kind, "durable": self._maybe(0.8)}
        fields |= {flag: True for flag, likely in (("auto_delete", 0.1), ("internal", 0.06)) if self._maybe(likely)}
        arguments: Arguments = {}
        if self._maybe(0.15):
            arguments["alternate-exchange"] = self._exchange_name()
        return Design(name, kind, fields, arguments)


def _depends_on_speed(queue: Design) -> bool:
    """Return whether timing decides what a burst of publishes leaves in the queue; see exclusions."""
    is_refusing_late = queue.type == "quorum" and queue.arguments.get("x-overflow") == "reject-publish"
    return is_refusing_late or queue.arguments.get("x-message-ttl") == 0


def _drops_at_once(queue: Design) -> bool:
    """Return whether an arriving message may cause a dead letter; see exclusions."""
    limits = {"x-max-length", "x-max-length-bytes"} & set(queue.arguments)
    return bool(limits) or queue.arguments.get("x-message-ttl") == 0
