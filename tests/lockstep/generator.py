"""Make programs from seeds.

A program first chooses a small world: a few queues, exchanges and keys, so that its steps interact. Then it sets most
of this world up and acts at random. The generator never looks at a server's answers. It guesses what exists by now, and
most acts use that; some are errors on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.semantics import codec

from .side import BROKEN, OWN, Place
from .steps import Program, Step
from .world import LONG_MS, MISSING_EXCHANGE, MISSING_QUEUE, REPLY_TO, SYSTEM, Arguments, Design, World

ELAPSE_MS = 1200
TAGS = tuple(f"c{number}" for number in range(1, 7))
OFFSETS = ("first", "first", "first", "last", "next", 0, 1, 3, 50)
TOPICS = ("#", "#", "*", "a.*", "a.#", "a.#", "#.b", "*.b.*", "a", "a.b", "")
# Expirations of an hour, of no time, and of more time than a server can count, in spellings that are odd or wrong.
ODD_HOURS = ("+3600000", "0003600000", "+0003600000", "4294967295")
ODD_ZEROS = ("+0", "000", "-0")
BROKEN_EXPIRATIONS = ("x", "-1", "1.5", "", " 1", "1 ", "+", "1_0", "0x1", "99999999999999999999", "-0001")
# Where policies are set.
OPERATOR = (OWN, 0)
# Headers that a dead letter has.
_HEADERS_OF_DEATH = ("x-death", "x-first-death-queue", "x-first-death-reason", "x-last-death-exchange")


@dataclass
class _Guess:
    """A guess, from the steps so far, at what exists by now."""

    # With the channel that declared them, if they are exclusive.
    queues: dict[str, Place | None] = field(default_factory=dict)
    exchanges: set[str] = field(default_factory=set)
    has_made_up: bool = False
    has_made_up_tag: bool = False
    # A consumer of a quorum queue that does not acknowledge.
    has_automatic: bool = False
    # Queues with recent publishes.
    filled: list[str] = field(default_factory=list)
    consumers: list[tuple[Place, str]] = field(default_factory=list)
    # Channels with a recent get or consume.
    receivers: list[Place] = field(default_factory=list)
    transactional: list[Place] = field(default_factory=list)

    def forget(self, is_closed: Callable[[Place], bool]) -> None:
        """Drop the consumers, receivers and transactions of closed channels."""
        self.consumers = [it for it in self.consumers if not is_closed(it[0])]
        self.receivers = [it for it in self.receivers if not is_closed(it)]
        self.transactional = [it for it in self.transactional if not is_closed(it)]


_THEMED_LENGTH = 24
_FAVOUR = 10
_DISFAVOUR = 0.1
# The acts that concern a theme.
_FAVOURED = {
    "transactions": ("_publish", "_settle", "_settle_together", "_transact", "_consume", "_qos"),
    "limits": ("_publish", "_publish_together", "_settle", "_qos", "_consume"),
    "requests": ("_request", "_reply", "_get", "_consume", "_close_channel"),
    "deaths": ("_publish", "_settle", "_get", "_bind", "_consume"),
    "credit": ("_publish", "_settle", "_qos", "_consume"),
    "priorities": ("_publish", "_publish_together", "_get", "_settle", "_consume"),
    "policies": ("_publish", "_get", "_settle", "_consume", "_set_policy"),
    "refusals": ("_publish", "_get", "_consume", "_refuse"),
}


class Generator:
    """One program while it is generated."""

    def __init__(self, seed: int, length: int) -> None:
        self.chance = random.Random(seed)
        self.length = length
        self.program: list[Step] = []
        self._bodies = 0
        self._elapsed = 0
        self._there = _Guess()
        self.world = World(self.chance)
        self.places, self.queues, self.exchanges = self.world.places, self.world.queues, self.world.exchanges
        self.mode = self.chance.choices(("plain", "confirm", "tx"), (50, 35, 15))[0]
        if self.world.theme == "transactions":
            self.mode = "tx"
        # A program with a theme shows what it has to show in fewer steps.
        self.length = min(length, _THEMED_LENGTH) if self.world.theme else length
        favoured = _FAVOURED.get(self.world.theme)
        self.acts = [
            (weight if favoured is None else _FAVOUR if act.__name__ in favoured else weight * _DISFAVOUR, act)
            for weight, act in self._acts()
        ]

    def make(self) -> Program:
        """Generate all steps."""
        self._set_up()
        weights = [weight for weight, _ in self.acts]
        while len(self.program) < self.length:
            _, act = self.chance.choices(self.acts, weights)[0]
            act()
        return tuple(self.program[: self.length])

    def _acts(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (30, self._publish),
            (7, self._publish_together),
            (4 if self.mode == "tx" else 1, self._settle_together),
            (0.1, self._request),
            (0.4, self._reply),
            (10, self._get),
            (6, self._consume),
            (24, self._settle),
            (1.6, self._recover),
            (3, self._cancel),
            (2, self._qos),
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
            (1.5, self._close_channel),
            (0.6, self._close_connection),
            (9 if self.mode == "tx" else 0.3, self._transact),
            (8 if self.world.theme == "policies" else 0, self._set_policy),
            (8 if self.world.theme == "refusals" else 0.3, self._refuse),
            (2 if self.mode == "confirm" else 0.2, self._confirm),
            (2.5 if self.world.has_time else 0, self._elapse),
        ]

    # The setup.

    def _set_up(self) -> None:
        for exchange in self.exchanges:
            if self._maybe(0.9):
                self._there.exchanges.add(exchange.name)
                self._add("exchange.declare", exchange.declaration())
        for queue in self.queues:
            if self._maybe(0.9):
                self._declare(queue)
        for _ in range(self.chance.randint(1, 4)):
            self._bind()
        if self.mode == "confirm":
            self._confirm()
        if self._maybe(0.5) or self.world.theme in ("limits", "transactions"):
            self._qos()
        if self.world.theme == "requests":
            fields: dict[str, object] = {"queue": REPLY_TO, "consumer_tag": "r", "no_ack": True}
            self._add("basic.consume", fields, self.places[0])
            self._request()
        for _ in range(self.chance.randint(0, 2)):
            self._consume()

    # The acts.

    def _publish(self) -> None:
        fields = self._message()
        if self._maybe(0.2) and self.world.has_bursts:
            fields["count"] = self.chance.randint(2, 5)
        if self._maybe(0.005):
            fields["immediate"] = True
        self._without_uncertain_expiration(fields, is_burst="count" in fields)
        self._add("basic.publish", fields)

    def _publish_together(self) -> None:
        """Send different publishes in one segment, or one right after the other."""
        is_lost = not self.world.has_bursts or self._maybe(0.3)
        messages = [
            self._lost_message() if is_lost or self._maybe(0.15) else self._sound_message()
            for _ in range(self.chance.randint(2, 8))
        ]
        if is_lost and self._maybe(0.1):
            messages[-1]["properties"] = {"expiration": self.chance.choice(BROKEN_EXPIRATIONS)}
        steps = [["basic.publish", fields] for fields in messages]
        self._add("segment", {"steps": steps, "is_split": self._maybe(0.3)})

    def _lost_message(self) -> dict[str, object]:
        """Return the fields of a publish that reaches no queue."""
        fields: dict[str, object] = {"exchange": "", "routing_key": MISSING_QUEUE, "body": self._body()}
        return {**fields, "mandatory": True} if self._maybe(0.5) else fields

    def _sound_message(self) -> dict[str, object]:
        """Return the fields of a publish that no server refuses; see exclusions."""
        fields = self._message()
        internal = {it.name for it in self.exchanges if it.fields.get("internal")}
        if fields["exchange"] not in {"", *SYSTEM, *self._there.exchanges} - internal:
            fields |= {"exchange": "", "routing_key": self._queue_name()}
        properties = fields.get("properties", {})
        assert isinstance(properties, dict)
        headers = properties.get("headers")
        if isinstance(headers, dict) and not isinstance(headers.get("CC", []), list):
            del headers["CC"]
        sound = {"delivery_mode": (1, 2), "user_id": ("guest",), "expiration": (str(LONG_MS), *ODD_HOURS)}
        for name, values in sound.items():
            if name in properties and properties[name] not in values:
                del properties[name]
        return fields

    def _settle_together(self) -> None:
        """Settle several deliveries in one segment, and commit if the channel is transactional."""
        is_transaction = bool(self._there.transactional) and self._maybe(0.8)
        known = self._there.transactional if is_transaction else self._there.receivers
        steps: list[tuple[str, dict[str, object]]] = []
        for _ in range(self.chance.randint(1, 3)):
            op = self.chance.choices(("basic.ack", "basic.nack", "basic.reject"), (50, 30, 20))[0]
            fields: dict[str, object] = {"delivery": self.chance.choice((0, 0, 1, -1))}
            steps.append((op, fields if op == "basic.ack" else {**fields, "requeue": self._maybe(0.6)}))
        if is_transaction:
            steps.append(("tx.commit", {}))
        place = self.chance.choice(known if known else self.places)
        if self._there.has_automatic:
            for op, fields in steps:
                self._add(op, fields, place)
            return
        self._add("segment", {"steps": [list(step) for step in steps]}, place)

    def _request(self) -> None:
        """Send a request that asks for direct replies, and get it, so that the name for replies is known."""
        place = self.places[0]
        fields = self._sound_message() | {"exchange": "", "routing_key": "q1"}
        properties = fields.setdefault("properties", {})
        assert isinstance(properties, dict)
        properties["reply_to"] = REPLY_TO
        properties.pop("expiration", None)
        self._add("basic.publish", fields, place)
        self._receive("basic.get", {"queue": "q1", "no_ack": self._maybe(0.5)}, place)

    def _reply(self) -> None:
        """Reply to a request, or look for the name for replies, which may be malformed."""
        name = f"reply{self.chance.choice((1, 1, 1, 2))}"
        if self._maybe(0.6):
            fields = {"exchange": "", "routing_key": name, "body": self._body(), "mandatory": self._maybe(0.3)}
            self._add("basic.publish", fields)
            return
        name += BROKEN if self._maybe(0.5) else ""
        self._add("queue.declare", {"queue": REPLY_TO if self._maybe(0.1) else name, "passive": True})

    def _body(self) -> str:
        self._bodies += 1
        return f"m{self._bodies}" + ("x" * self.chance.choice((5, 50, 20_000)) if self._maybe(0.06) else "")

    def _message(self) -> dict[str, object]:
        """Return the fields of a publish."""
        # Dead letters of a policy must not race with another copy of the message; see exclusions.
        exchange = "" if self.world.theme == "policies" or self._maybe(0.5) else self._exchange_to_publish_to()
        key = self._queue_name() if not exchange and self._maybe(0.95) else self.world.key()
        if not exchange and self._there.queues.get(key, "") is None:
            self._there.filled = [*self._there.filled[-5:], key]
        fields: dict[str, object] = {"exchange": exchange, "routing_key": key, "body": self._body()}
        if self._maybe(0.15):
            fields["mandatory"] = True
        if properties := self._properties():
            fields["properties"] = properties
        return fields

    def _without_uncertain_expiration(self, fields: dict[str, object], *, is_burst: bool) -> None:
        """Remove an expiration at once where chance decides what it does; see exclusions."""
        properties = fields.get("properties", {})
        assert isinstance(properties, dict)
        has_company = self.world.has_dead_letters and (fields["exchange"] or self._has_copies(properties))
        if properties.get("expiration") in ("0", *ODD_ZEROS) and (is_burst or has_company):
            del properties["expiration"]

    def _has_copies(self, properties: dict[str, object]) -> bool:
        headers = properties.get("headers")
        return isinstance(headers, dict) and bool({"CC", "BCC"} & set(headers))

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
        draw = self.chance.random()
        if draw < 0.1:
            return self.chance.choice(BROKEN_EXPIRATIONS)
        if draw < 0.3:
            return self.chance.choice(ODD_HOURS)
        if draw < 0.35:
            return self.chance.choice(ODD_ZEROS)
        return str(self.world.ttl())

    def _headers(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, likely in (("k", 0.5), ("n", 0.4), ("b", 0.2), ("z", 0.2)):
            if self._maybe(likely):
                found[name] = self._header_value()
        for name in ("CC", "BCC"):
            if self._maybe(0.2) and self.world.theme != "policies":
                found[name] = [self.world.key() for _ in range(self.chance.randint(0, 2))]
        if self._maybe(0.02):
            found["CC"] = "a"
        return found

    def _header_value(self) -> object:
        return self.chance.choice((1, 2, "v", "w", True, None, 1.5, {"d": 1}, ["v", 2]))

    def _get(self) -> None:
        name = self._queue_name(is_filled=True)
        if self._is_stream(name) and self._maybe(0.95):
            # It would end the connection.
            self._consume()
            return
        self._receive("basic.get", {"queue": name, "no_ack": self._maybe(0.25)})

    def _consume(self) -> None:
        name = self._queue_name(is_filled=True)
        place = self._place_for(name)
        fields: dict[str, object] = {"queue": name, "consumer_tag": self._tag(place)}
        fields |= {flag: True for flag, likely in (("no_ack", 0.2), ("exclusive", 0.06)) if self._maybe(likely)}
        if "no_ack" in fields and any(queue.type == "quorum" for queue in self.queues):
            if self.world.has_bursts or self._there.has_automatic:
                del fields["no_ack"]
            self._there.has_automatic = not self.world.has_bursts
        if self._maybe(0.15) and not self._has_quorum_with("x-single-active-consumer"):
            fields["arguments"] = {"x-priority": self.chance.choice((-1, 1, 5, 10))}
        if self._is_stream(name) and self._maybe(0.97):
            fields.pop("no_ack", None)
            fields["arguments"] = {"x-stream-offset": self.chance.choice(OFFSETS)} if self._maybe(0.85) else {}
            if self._maybe(0.9):
                self.program.append(Step("basic.qos", *place, {"prefetch_count": self.chance.choice((1, 2, 3, 5))}))
        self._there.consumers.append((place, str(fields["consumer_tag"])))
        self._receive("basic.consume", fields, place)

    def _receive(self, op: str, fields: dict[str, object], place: Place | None = None) -> None:
        place = place or self._place_for(str(fields["queue"]))
        self._there.receivers = [*self._there.receivers[-4:], place]
        self._add(op, fields, place)

    def _tag(self, place: Place) -> str:
        if not self._there.has_made_up_tag and self._maybe(0.12):
            self._there.has_made_up_tag = True
            return ""
        free = [tag for tag in TAGS if (place, tag) not in self._there.consumers]
        return self.chance.choice(free if free and self._maybe(0.99) else TAGS)

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
        if delivery != "unknown":
            fields["anywhere"] = True
        self._add(op, fields, self.chance.choice(self._there.receivers) if self._there.receivers else None)

    def _recover(self) -> None:
        op = self.chance.choice(("basic.recover", "basic.recover", "basic.recover-async"))
        is_likely = self._there.receivers and self._maybe(0.8)
        place = self.chance.choice(self._there.receivers) if is_likely else None
        self._add(op, {"requeue": self._maybe(0.97)}, place)

    def _cancel(self) -> None:
        if self._there.consumers and self._maybe(0.85):
            place, tag = self._there.consumers.pop(self.chance.randrange(len(self._there.consumers)))
            self._add("basic.cancel", {"consumer_tag": tag or "ctag1"}, place)
            return
        tag = "ctag1" if self._maybe(0.08) else self.chance.choice(TAGS)
        self._add("basic.cancel", {"consumer_tag": tag})

    def _qos(self) -> None:
        fields: dict[str, object] = {"prefetch_count": self.chance.choice((0, 1, 1, 2, 3, 5))}
        if self._maybe(0.5 if self.world.has_shared_limits else 0.1):
            fields["global_"] = True
        if self._maybe(0.01):
            fields["prefetch_size"] = 10
        self._add("basic.qos", fields)

    def _declare_queue(self) -> None:
        if self._maybe(0.12):
            flags = {"exclusive": True} if self._maybe(0.5) else {"durable": True}
            self._there.has_made_up = True
            self._add("queue.declare", {"queue": "", **flags})
            return
        missing = [queue for queue in self.queues if queue.name not in self._there.queues]
        self._declare(self.chance.choice(missing if missing and self._maybe(0.8) else self.queues))

    def _declare(self, queue: Design) -> None:
        place = self._place_for(queue.name)
        if queue.name not in self._there.queues:
            self._there.queues[queue.name] = place if queue.fields.get("exclusive") else None
        self._add("queue.declare", queue.declaration(), place)

    def _declare_oddly(self) -> None:
        """Declare a queue in a way that may be refused: other flags, other arguments, or broken ones."""
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
                fields, arguments = {"queue": self.chance.choice(("amq.q", "", "q5")), "durable": True}, {}
        self._add("queue.declare", {**fields, "arguments": arguments})

    def _passive(self) -> None:
        if self._maybe(0.2):
            self._add("exchange.declare", {"exchange": self._exchange_name(), "passive": True})
            return
        self._add("queue.declare", {"queue": self._queue_name(), "passive": True})

    def _delete_queue(self) -> None:
        name = self._queue_name()
        flags = [flag for flag in ("if_unused", "if_empty") if self._maybe(0.2)]
        if self._type_of(name) == "quorum" and self._maybe(0.95):
            # They would end the connection.
            flags = []
        place = self._place_for(name)
        if not flags:
            self._there.queues.pop(name, None)
        self._add("queue.delete", {"queue": name, **dict.fromkeys(flags, True)}, place)

    def _purge(self) -> None:
        name = self._queue_name()
        if not self._is_stream(name) or self._maybe(0.05):
            self._add("queue.purge", {"queue": name}, self._place_for(name))

    def _declare_exchange(self) -> None:
        missing = [exchange for exchange in self.exchanges if exchange.name not in self._there.exchanges]
        exchange = self.chance.choice(missing if missing and self._maybe(0.7) else self.exchanges)
        fields = exchange.declaration()
        self._there.exchanges.add(exchange.name)
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
        else:
            self._there.exchanges.discard(str(fields["exchange"]))
        self._add("exchange.delete", fields)

    def _bind(self) -> None:
        name = self._queue_name()
        self._add("queue.bind", {"queue": name, **self._binding("exchange")}, self._place_for(name))

    def _unbind(self) -> None:
        name = self._queue_name()
        self._add("queue.unbind", {"queue": name, **self._binding("exchange")}, self._place_for(name))

    def _bind_exchange(self) -> None:
        self._add("exchange.bind", {"destination": self._own_exchange_name(), **self._binding("source")})

    def _unbind_exchange(self) -> None:
        self._add("exchange.unbind", {"destination": self._own_exchange_name(), **self._binding("source")})

    def _binding(self, end: str) -> dict[str, object]:
        name = self._exchange_name()
        kind = next((it.type for it in self.exchanges if it.name == name), name.removeprefix("amq."))
        key = self.chance.choice(TOPICS) if kind == "topic" else self.world.key()
        fields: dict[str, object] = {end: name, "routing_key": key}
        if kind == "headers" or self._maybe(0.04):
            fields["arguments"] = self._conditions()
        return fields

    def _conditions(self) -> Arguments:
        kinds, weights = ("all", "any", "all-with-x", "any-with-x", "some"), (35, 35, 14, 14, 2)
        if self.world.theme == "deaths":
            weights = (10, 10, 40, 40, 2)
        found: Arguments = {"x-match": self.chance.choices(kinds, weights)[0]} if self._maybe(0.8) else {}
        for name in ("k", "n", "b"):
            if self._maybe(0.4):
                found[name] = self._header_value()
        if self.world.has_dead_letters and str(found.get("x-match", "")).endswith("-with-x"):
            found |= {name: self._value_of_death() for name in _HEADERS_OF_DEATH if self._maybe(0.4)}
        return found

    def _value_of_death(self) -> object:
        return self.chance.choice((None, None, None, "q1", "rejected", "expired", "maxlen", ""))

    def _close_channel(self) -> None:
        place = self.chance.choice(self.places)
        self._there.forget(lambda it: it == place)
        self._add("channel.close", {}, place)

    def _close_connection(self) -> None:
        place = self.chance.choice(self.places)
        self._there.forget(lambda it: it[0] == place[0])
        self._add(self.chance.choice(("connection.close", "connection.drop")), {}, place)

    def _transact(self) -> None:
        if self._there.transactional and self._maybe(0.9):
            op = self.chance.choices(("tx.commit", "tx.rollback"), (2, 1))[0]
            self._add(op, {}, self.chance.choice(self._there.transactional))
        elif self._maybe(0.9):
            place = self.chance.choice(self.places)
            self._there.transactional.append(place)
            self._add("tx.select", {}, place)
        else:
            self._add(self.chance.choice(("tx.commit", "tx.rollback")), {})

    def _confirm(self) -> None:
        self._add("confirm.select", {})

    def _set_policy(self) -> None:
        """Set one of two policies, or clear it."""
        name = self.chance.choice(("p1", "p1", "p2"))
        if self._maybe(0.25):
            self._add("policy.clear", {"name": name}, OPERATOR)
            return
        # Of two policies with equal priority, an arbitrary one applies.
        pattern, priority = (
            self.chance.choice(("^q1$", "^q1$", "^q")),
            1 if name == "p2" else self.chance.choice((0, 2)),
        )
        definition = self.world.definition()
        if pattern == "^q":
            definition.pop("dead-letter-exchange", None)
            definition.pop("dead-letter-routing-key", None)
        if definition:
            fields = {"name": name, "pattern": pattern, "definition": definition, "priority": priority}
            self._add("policy.set", fields, OPERATOR)

    def _refuse(self) -> None:
        """Send what a server refuses by closing the channel, and more before the channel is closed."""
        place = self.chance.choice(self.places)
        is_waiting = self._maybe(0.6)
        followers = _AFTER_REFUSAL if is_waiting and self._maybe(0.5) else _METHODS_AFTER_REFUSAL
        steps = [self.chance.choice(_REFUSED), *self.chance.choices(followers, k=self.chance.randint(1, 3))]
        if followers is _AFTER_REFUSAL and self._maybe(0.2):
            steps.append(self.chance.choice(_LAST_AFTER_REFUSAL))
        self._there.forget(lambda it: it == place)
        self._add("closing" if is_waiting else "segment", {"steps": [list(step) for step in steps]}, place)

    def _elapse(self) -> None:
        if self._elapsed < 2:
            self._elapsed += 1
            self._add("elapse", {"ms": ELAPSE_MS})

    # Random choices.

    def _maybe(self, likely: float) -> bool:
        return self.chance.random() < likely

    def _add(self, op: str, fields: dict[str, object], place: Place | None = None) -> None:
        connection, channel = place or self.chance.choice(self.places)
        self.program.append(Step(op, connection, channel, fields))

    def _place_for(self, queue: str) -> Place:
        """Return a channel that may use the queue, most of the time."""
        owner = self._there.queues.get(queue)
        if owner and self._maybe(0.9):
            return self.chance.choice([place for place in self.places if place[0] == owner[0]])
        return self.chance.choice(self.places)

    def _type_of(self, queue: str) -> str:
        return next((it.type for it in self.queues if it.name == queue), "classic")

    def _has_quorum_with(self, argument: str) -> bool:
        return any(it.type == "quorum" and argument in it.arguments for it in self.queues)

    def _is_stream(self, queue: str) -> bool:
        return self._type_of(queue) == "stream"

    def _queue_name(self, *, is_filled: bool = False) -> str:
        draw = self.chance.random()
        if draw < 0.01:
            return MISSING_QUEUE
        if draw < 0.02:
            return ""
        if draw < (0.09 if self._there.has_made_up else 0.023):
            return "gen1"
        if is_filled and self._there.filled and self._maybe(0.8):
            return self.chance.choice(self._there.filled)
        if self._there.queues and self._maybe(0.92):
            return self.chance.choice(list(self._there.queues))
        return self.chance.choice(self.queues).name

    def _exchange_to_publish_to(self) -> str:
        internal = {it.name for it in self.exchanges if it.fields.get("internal")}
        name = self._exchange_name()
        return "amq.fanout" if name in internal and self._maybe(0.9) else name

    def _exchange_name(self) -> str:
        if self.world.theme == "deaths" and self._maybe(0.7):
            return "amq.headers"
        draw = self.chance.random()
        if draw < 0.01:
            return MISSING_EXCHANGE
        if draw < 0.3:
            return self.chance.choice(SYSTEM)
        if not self._there.exchanges or draw < 0.31:
            return f"x{self.chance.randint(1, 3)}"
        return self._own_exchange_name()

    def _own_exchange_name(self) -> str:
        if self._there.exchanges and self._maybe(0.95):
            return self.chance.choice(sorted(self._there.exchanges))
        return self.chance.choice(self.exchanges).name


# The methods that close the channel, whatever exists.
_REFUSED: tuple[tuple[str, Arguments], ...] = (
    ("queue.declare", {"queue": MISSING_QUEUE, "passive": True}),
    ("exchange.declare", {"exchange": MISSING_EXCHANGE, "passive": True}),
    ("queue.declare", {"queue": "amq.q"}),
    ("queue.bind", {"queue": MISSING_QUEUE, "exchange": "amq.direct"}),
    ("queue.purge", {"queue": MISSING_QUEUE}),
    ("basic.consume", {"queue": MISSING_QUEUE}),
    ("basic.get", {"queue": MISSING_QUEUE}),
    ("basic.ack", {"delivery_tag": 9_999_999}),
    ("basic.publish", {"exchange": MISSING_EXCHANGE, "routing_key": "q1", "body": "refused"}),
    ("exchange.delete", {"exchange": "amq.direct"}),
)
_METHODS_AFTER_REFUSAL: tuple[tuple[str, Arguments], ...] = (
    ("basic.publish", {"exchange": "", "routing_key": "q1", "body": "late"}),
    ("basic.publish", {"exchange": MISSING_EXCHANGE, "routing_key": "q1", "body": "late"}),
    ("basic.get", {"queue": "q1", "no_ack": True}),
    ("basic.consume", {"queue": "q1", "consumer_tag": "late"}),
    ("basic.ack", {"delivery_tag": 1, "multiple": True}),
    ("basic.nack", {"delivery_tag": 0, "multiple": True, "requeue": False}),
    ("basic.qos", {"prefetch_count": 1}),
    ("queue.declare", {"queue": MISSING_QUEUE, "passive": True}),
    ("queue.delete", {"queue": "q1"}),
    ("queue.purge", {"queue": "q1"}),
    ("tx.select", {}),
    ("tx.commit", {}),
    ("confirm.select", {}),
)
# Frames that an open channel may not send in this order.
_AFTER_REFUSAL: tuple[tuple[str, Arguments], ...] = (
    *_METHODS_AFTER_REFUSAL,
    *(
        ("frame", {"kind": kind, "payload": payload.decode("latin-1")})
        for kind, payload in (
            (codec.METHOD, codec.encode_method("basic.publish", routing_key="q1")),
            (codec.METHOD, codec.encode_method("basic.publish", routing_key="q1")),
            (codec.METHOD, b"\x00\x14\x00\x63"),
            (codec.METHOD, b"\x00\x3c\x00\x28\x00"),
            (codec.HEADER, codec.encode_header(3, b"\0\0")),
            (codec.HEADER, codec.encode_header(0, b"\0\0")),
            (codec.HEADER, codec.encode_header(3, b"\0\0", class_id=50)),
            (codec.BODY, b"abc"),
            (codec.BODY, b"abcdef"),
            (codec.HEARTBEAT, b""),
        )
    ),
)

# What the channel's process answers, and what nothing may follow: see exclusions.
_LAST_AFTER_REFUSAL: tuple[tuple[str, Arguments], ...] = tuple(
    ("frame", {"kind": codec.METHOD, "payload": codec.encode_method(name, **fields).decode("latin-1")})
    for name, fields in (("channel.close", {"reply_code": 200, "reply_text": "bye"}), ("channel.open", {}))
)

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


def generate(seed: int, length: int) -> Program:
    """Return the program of a seed."""
    return Generator(seed, length).make()
