"""This module makes programs out of seeds.

A program first chooses a small world (a few queues, exchanges and keys, so that things meet), then sets most of it up,
then acts at random. Nothing looks at what the servers answer: errors are part of the game.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from .steps import Program, Step

SHORT_MS = 1000
ELAPSE_MS = 1200
LONG_MS = 3_600_000
KEYS = ("", "a", "a.b", "b", "a.b.c", "q1", "q2")
TOPICS = ("#", "*", "a.*", "a.#", "#.b", "*.b.*", "a", "a.b", "")
SYSTEM = ("amq.direct", "amq.fanout", "amq.topic", "amq.headers")
_MISSING_QUEUE, _MISSING_EXCHANGE = "q9", "x9"

Arguments = dict[str, object]


@dataclass
class Design:
    """How a queue or exchange is declared, most of the time."""

    name: str
    type: str
    fields: dict[str, object]
    arguments: Arguments = field(default_factory=dict)

    def declaration(self) -> dict[str, object]:
        return {**self.fields, **({"arguments": self.arguments} if self.arguments else {})}


class Generator:
    """One program in the making."""

    def __init__(self, seed: int, length: int) -> None:
        self.chance = random.Random(seed)
        self.length = length
        self.program: list[Step] = []
        self._bodies = 0
        self._elapsed = 0
        # Time is real on the other server: only some programs wait.
        self.has_time = self.chance.random() < 0.12
        self.has_dead_letters = self._maybe(0.55)
        self.places = self._some_places()
        flavour = self.chance.choices(("classic", "mixed", "quorum"), (55, 30, 15))[0]
        names = [f"q{number}" for number in range(1, self.chance.randint(2, 4) + 1)]
        self.queues = [self._queue(name, flavour) for name in names]
        self.has_bursts = not self.has_dead_letters and not any(map(_depends_on_speed, self.queues))
        self.exchanges = [self._exchange(f"x{number}") for number in range(1, self.chance.randint(1, 3) + 1)]
        self.mode = self.chance.choices(("plain", "confirm", "tx"), (50, 35, 15))[0]
        self.acts = self._acts()

    def make(self) -> Program:
        """All steps."""
        self._set_up()
        weights = [weight for weight, _ in self.acts]
        while len(self.program) < self.length:
            _, act = self.chance.choices(self.acts, weights)[0]
            act()
        return tuple(self.program[: self.length])

    def _some_places(self) -> list[tuple[int, int]]:
        places = [(1, 1)]
        for place, likely in (((1, 2), 0.6), ((2, 1), 0.45), ((2, 2), 0.15), ((3, 1), 0.1)):
            if self._maybe(likely):
                places.append(place)
        return places

    def _queue(self, name: str, flavour: str) -> Design:
        is_quorum = flavour == "quorum" or (flavour == "mixed" and self._maybe(0.5))
        return self._quorum(name) if is_quorum else self._classic(name)

    def _classic(self, name: str) -> Design:
        fields: dict[str, object] = {"queue": name, "durable": self._maybe(0.75)}
        fields |= {flag: True for flag, likely in (("exclusive", 0.12), ("auto_delete", 0.12)) if self._maybe(likely)}
        arguments = self._common_arguments()
        if self._maybe(0.2):
            arguments["x-max-priority"] = self.chance.choice((1, 3, 5, 10))
        if self._maybe(0.1):
            arguments["x-queue-type"] = "classic"
        return Design(name, "classic", fields, arguments)

    def _quorum(self, name: str) -> Design:
        arguments: Arguments = {"x-queue-type": "quorum", **self._common_arguments()}
        if self._maybe(0.25):
            arguments["x-delivery-limit"] = self.chance.choice((0, 1, 2, -1))
        if self._maybe(0.1):
            arguments["x-dead-letter-strategy"] = "at-most-once"
        return Design(name, "quorum", {"queue": name, "durable": True}, arguments)

    def _common_arguments(self) -> Arguments:
        arguments: Arguments = {}
        if self._maybe(0.15):
            arguments["x-message-ttl"] = self._ttl()
        if self._maybe(0.22):
            arguments["x-max-length"] = self.chance.choice((0, 1, 2, 2, 3, 5))
        if self._maybe(0.08):
            arguments["x-max-length-bytes"] = self.chance.choice((0, 4, 10, 40, 100))
        if self._maybe(0.2):
            arguments["x-overflow"] = self.chance.choice(("drop-head", "reject-publish", "reject-publish-dlx"))
        if self.has_dead_letters and self._maybe(0.6):
            arguments["x-dead-letter-exchange"] = self._exchange_name(any_default=True)
            if self._maybe(0.55):
                arguments["x-dead-letter-routing-key"] = self._key()
        if self._maybe(0.1):
            arguments["x-single-active-consumer"] = True
        if self.has_time and self._maybe(0.05):
            arguments["x-expires"] = LONG_MS
        return arguments

    def _ttl(self) -> int:
        return (
            self.chance.choice((0, SHORT_MS, SHORT_MS, LONG_MS)) if self.has_time else self.chance.choice((0, LONG_MS))
        )

    def _exchange(self, name: str) -> Design:
        kind = self.chance.choice(("direct", "fanout", "topic", "headers"))
        fields: dict[str, object] = {"exchange": name, "type": kind, "durable": self._maybe(0.8)}
        fields |= {flag: True for flag, likely in (("auto_delete", 0.1), ("internal", 0.06)) if self._maybe(likely)}
        arguments: Arguments = {}
        if self._maybe(0.15):
            arguments["alternate-exchange"] = self._exchange_name()
        return Design(name, kind, fields, arguments)

    def _acts(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (24, self._publish),
            (8, self._get),
            (7, self._consume),
            (18, self._settle),
            (2, self._recover),
            (3, self._cancel),
            (3, self._qos),
            (3, self._declare_queue),
            (1.2, self._declare_oddly),
            (2, self._passive),
            (1.5, self._delete_queue),
            (1.5, self._purge),
            (1.5, self._declare_exchange),
            (0.7, self._delete_exchange),
            (4, self._bind),
            (1.5, self._unbind),
            (1.5, self._bind_exchange),
            (0.6, self._unbind_exchange),
            (2, self._close_channel),
            (0.7, self._close_connection),
            (5 if self.mode == "tx" else 0.3, self._transact),
            (2 if self.mode == "confirm" else 0.2, self._confirm),
            (2.5 if self.has_time else 0, self._elapse),
        ]

    # What is done at the beginning.

    def _set_up(self) -> None:
        for exchange in self.exchanges:
            if self._maybe(0.85):
                self._add("exchange.declare", exchange.declaration())
        for queue in self.queues:
            if self._maybe(0.9):
                self._declare(queue)
        for _ in range(self.chance.randint(1, 4)):
            self._bind()
        if self.mode == "confirm":
            self._confirm()
        if self._maybe(0.5):
            self._qos()
        for _ in range(self.chance.randint(0, 2)):
            self._consume()

    # The acts.

    def _publish(self) -> None:
        exchange = "" if self._maybe(0.45) else self._exchange_name()
        key = self._queue_name() if not exchange and self._maybe(0.95) else self._key()
        self._bodies += 1
        fields: dict[str, object] = {"exchange": exchange, "routing_key": key, "body": f"m{self._bodies}"}
        if self._maybe(0.2) and self.has_bursts:
            fields["count"] = self.chance.randint(2, 5)
        if self._maybe(0.15):
            fields["mandatory"] = True
        if self._maybe(0.005):
            fields["immediate"] = True
        properties = self._properties()
        if properties.get("expiration") == "0" and ("count" in fields or self._has_copies(properties)):
            del properties["expiration"]
        if properties:
            fields["properties"] = properties
        self._add("basic.publish", fields)

    def _has_copies(self, properties: dict[str, object]) -> bool:
        headers = properties.get("headers")
        return self.has_dead_letters and isinstance(headers, dict) and bool({"CC", "BCC"} & set(headers))

    def _properties(self) -> dict[str, object]:
        found: dict[str, object] = {}
        chosen: tuple[tuple[str, float, Callable[[], object]], ...] = (
            ("delivery_mode", 0.3, lambda: self.chance.choice((1, 2, 2, 2, 0, 3))),
            ("priority", 0.25, lambda: self.chance.choice((0, 1, 2, 4, 5, 9, 40, 255))),
            ("expiration", 0.1, self._expiration),
            ("message_id", 0.1, lambda: f"id{self._bodies}"),
            ("correlation_id", 0.05, lambda: "c"),
            ("content_type", 0.05, lambda: "text/plain"),
            ("reply_to", 0.03, lambda: "q1"),
            ("user_id", 0.02, lambda: self.chance.choice(("guest", "guest", "nobody"))),
            ("timestamp", 0.05, lambda: 12345),
            ("type", 0.03, lambda: "t"),
            ("headers", 0.3, self._headers),
        )
        for name, likely, value in chosen:
            if self._maybe(likely):
                found[name] = value()
        return found

    def _expiration(self) -> str:
        if self._maybe(0.04):
            return self.chance.choice(("x", "-1", "1.5", ""))
        return str(self._ttl())

    def _headers(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, likely in (("k", 0.5), ("n", 0.4), ("b", 0.2), ("z", 0.2)):
            if self._maybe(likely):
                found[name] = self._header_value()
        for name in ("CC", "BCC"):
            if self._maybe(0.2):
                found[name] = [self._key() for _ in range(self.chance.randint(0, 2))]
        if self._maybe(0.02):
            found["CC"] = "a"
        return found

    def _header_value(self) -> object:
        return self.chance.choice((1, 2, "v", "w", True, None, 1.5, {"d": 1}, ["v", 2]))

    def _get(self) -> None:
        self._add("basic.get", {"queue": self._queue_name(), "no_ack": self._maybe(0.25)})

    def _consume(self) -> None:
        fields: dict[str, object] = {"queue": self._queue_name(), "consumer_tag": self._tag()}
        fields |= {flag: True for flag, likely in (("no_ack", 0.2), ("exclusive", 0.06)) if self._maybe(likely)}
        if self.has_bursts and any(queue.type == "quorum" for queue in self.queues):
            fields.pop("no_ack", None)
        if self._maybe(0.15):
            fields["arguments"] = {"x-priority": self.chance.choice((-1, 1, 5, 10))}
        self._add("basic.consume", fields)

    def _tag(self) -> str:
        return "" if self._maybe(0.1) else f"c{self.chance.randint(1, 6)}"

    def _settle(self) -> None:
        op = self.chance.choices(("basic.ack", "basic.nack", "basic.reject"), (45, 35, 20))[0]
        delivery: object = "unknown" if self._maybe(0.015) else self.chance.choice((0, 0, 0, 1, 2, -1, -1))
        fields: dict[str, object] = {"delivery": delivery}
        if op != "basic.reject" and self._maybe(0.3):
            fields["multiple"] = True
            if self._maybe(0.25):
                fields["delivery"] = "all"
        if op != "basic.ack":
            fields["requeue"] = self._maybe(0.55)
        self._add(op, fields)

    def _recover(self) -> None:
        op = self.chance.choice(("basic.recover", "basic.recover", "basic.recover-async"))
        self._add(op, {"requeue": self._maybe(0.97)})

    def _cancel(self) -> None:
        tag = "ctag1" if self._maybe(0.08) else f"c{self.chance.randint(1, 6)}"
        self._add("basic.cancel", {"consumer_tag": tag})

    def _qos(self) -> None:
        fields: dict[str, object] = {"prefetch_count": self.chance.choice((0, 1, 1, 2, 3, 5))}
        if self._maybe(0.1):
            fields["global_"] = True
        if self._maybe(0.01):
            fields["prefetch_size"] = 10
        self._add("basic.qos", fields)

    def _declare_queue(self) -> None:
        if self._maybe(0.12):
            flags = {"exclusive": True} if self._maybe(0.5) else {"durable": True}
            self._add("queue.declare", {"queue": "", **flags})
            return
        self._declare(self.chance.choice(self.queues))

    def _declare(self, queue: Design) -> None:
        self._add("queue.declare", queue.declaration())

    def _declare_oddly(self) -> None:
        """A declare that may be refused: other flags, other arguments, or broken ones."""
        design = self.chance.choice(self.queues)
        fields, arguments = dict(design.fields), dict(design.arguments)
        match self.chance.randint(0, 4):
            case 0:
                fields[self.chance.choice(("durable", "auto_delete", "exclusive"))] = self._maybe(0.5)
            case 1:
                name, value = self.chance.choice(
                    (("x-max-length", 7), ("x-message-ttl", LONG_MS), ("x-max-priority", 7))
                )
                arguments[name] = value
            case 2 if arguments:
                del arguments[self.chance.choice(list(arguments))]
            case 3:
                arguments |= self.chance.choice(_BROKEN)
            case _:
                fields, arguments = {"queue": "amq.q", "durable": True}, {}
        self._add("queue.declare", {**fields, "arguments": arguments})

    def _passive(self) -> None:
        if self._maybe(0.2):
            self._add("exchange.declare", {"exchange": self._exchange_name(), "passive": True})
            return
        self._add("queue.declare", {"queue": self._queue_name(), "passive": True})

    def _delete_queue(self) -> None:
        fields: dict[str, object] = {"queue": self._queue_name()}
        fields |= {flag: True for flag in ("if_unused", "if_empty") if self._maybe(0.2)}
        self._add("queue.delete", fields)

    def _purge(self) -> None:
        self._add("queue.purge", {"queue": self._queue_name()})

    def _declare_exchange(self) -> None:
        fields = self.chance.choice(self.exchanges).declaration()
        if self._maybe(0.12):
            fields["type"] = self.chance.choice(("direct", "fanout", "topic", "headers", "nonsense-type"))
        if self._maybe(0.08):
            fields["durable"] = not fields["durable"]
        if self._maybe(0.04):
            fields["exchange"] = self.chance.choice(("amq.x", "", "amq.direct"))
        self._add("exchange.declare", fields)

    def _delete_exchange(self) -> None:
        fields: dict[str, object] = {"exchange": self._exchange_name()}
        if self._maybe(0.3):
            fields["if_unused"] = True
        self._add("exchange.delete", fields)

    def _bind(self) -> None:
        self._add("queue.bind", {"queue": self._queue_name(), **self._binding("exchange")})

    def _unbind(self) -> None:
        self._add("queue.unbind", {"queue": self._queue_name(), **self._binding("exchange")})

    def _bind_exchange(self) -> None:
        self._add("exchange.bind", {"destination": self._own_exchange_name(), **self._binding("source")})

    def _unbind_exchange(self) -> None:
        self._add("exchange.unbind", {"destination": self._own_exchange_name(), **self._binding("source")})

    def _binding(self, end: str) -> dict[str, object]:
        name = self._exchange_name()
        kind = next((it.type for it in self.exchanges if it.name == name), name.removeprefix("amq."))
        key = self.chance.choice(TOPICS) if kind == "topic" else self._key()
        fields: dict[str, object] = {end: name, "routing_key": key}
        if kind == "headers" or self._maybe(0.04):
            fields["arguments"] = self._conditions()
        return fields

    def _conditions(self) -> Arguments:
        kinds = ("all", "any", "all-with-x", "any-with-x", "all", "any", "all", "any", "all", "any", "some")
        found: Arguments = {"x-match": self.chance.choice(kinds)} if self._maybe(0.8) else {}
        for name in ("k", "n", "b"):
            if self._maybe(0.4):
                found[name] = self._header_value()
        return found

    def _close_channel(self) -> None:
        self._add("channel.close", {})

    def _close_connection(self) -> None:
        self._add(self.chance.choice(("connection.close", "connection.drop")), {})

    def _transact(self) -> None:
        op = self.chance.choices(("tx.select", "tx.commit", "tx.rollback"), (3, 4, 2))[0]
        self._add(op, {})

    def _confirm(self) -> None:
        self._add("confirm.select", {})

    def _elapse(self) -> None:
        if self._elapsed < 2:
            self._elapsed += 1
            self._add("elapse", {"ms": ELAPSE_MS})

    # Small choices.

    def _maybe(self, likely: float) -> bool:
        return self.chance.random() < likely

    def _add(self, op: str, fields: dict[str, object]) -> None:
        connection, channel = self.chance.choice(self.places)
        self.program.append(Step(op, connection, channel, fields))

    def _queue_name(self) -> str:
        draw = self.chance.random()
        if draw < 0.01:
            return _MISSING_QUEUE
        if draw < 0.04:
            return "gen1"
        if draw < 0.055:
            return ""
        return self.chance.choice(self.queues).name

    def _exchange_name(self, *, any_default: bool = False) -> str:
        draw = self.chance.random()
        if draw < 0.015:
            return _MISSING_EXCHANGE
        if any_default and draw < 0.4:
            return ""
        if draw < 0.3:
            return self.chance.choice(SYSTEM)
        # The choice among x1 to x3 is free of whether they exist.
        return (
            f"x{self.chance.randint(1, 3)}" if draw < 0.34 or not self._has_exchanges() else self._own_exchange_name()
        )

    def _has_exchanges(self) -> bool:
        return bool(getattr(self, "exchanges", None))

    def _own_exchange_name(self) -> str:
        return self.chance.choice(self.exchanges).name

    def _key(self) -> str:
        return self.chance.choice(KEYS)


_BROKEN: tuple[Arguments, ...] = (
    {"x-message-ttl": -1},
    {"x-max-length": "5"},
    {"x-overflow": "nowhere"},
    {"x-max-priority": 300},
    {"x-dead-letter-exchange": 5},
    {"x-queue-type": "nonsense"},
    {"x-expires": 0},
    {"x-single-active-consumer": 1},
    {"x-delivery-limit": 3},
    {"x-max-age": "1h"},
)


def _depends_on_speed(queue: Design) -> bool:
    """Whether what a burst leaves in the queue is a matter of timing; see exclusions."""
    is_refusing_late = queue.type == "quorum" and queue.arguments.get("x-overflow") == "reject-publish"
    return is_refusing_late or queue.arguments.get("x-message-ttl") == 0


def generate(seed: int, length: int) -> Program:
    """The program of a seed."""
    return Generator(seed, length).make()
