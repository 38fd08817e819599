"""Random traces of a well-behaved broker, or of one that did exactly one wrong thing in a test.

`make(seed, ...)` simulates clients and a small broker and writes down the events by schema version 1. If a fault is
planted, `Made.planted` lists the violations that must be found; the pipeline must find no others. This module does not
use the pipeline.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from tests.pipeline.plain import Trace, _matches

FAULTS = (
    *("acked_twice", "delivered_after_ack", "ack_without_delivery", "unacked_at_end", "lost", "out_of_order"),
    *("duplicate_enqueue", "redelivered_flag_wrong", "delivered_to_closed_channel", "prefetch_exceeded"),
    "confirm_missing",
)
# The fields of a few shapes, with their types.
SHAPES: tuple[dict[str, list[str]], ...] = (
    {"headers.$": ["object"], "properties.$": ["object"], "body.$": ["object"], "body.id": ["integer"]},
    {"headers.$": ["object"], "headers.tenant": ["uuid"], "body.$": ["object"], "body.note": ["word"]},
    {"headers.$": ["object"], "body.$": ["object"], "body.note": ["null"], "body.tags": ["map"], "body.tags.{key}": []},
    {
        "body.$": ["object"],
        "body.lines": ["array"],
        "body.lines[]": ["object"],
        "body.lines[].sku": ["string", "integer", "absent"],
        "body.lines[].n": ["number"],
    },
    {"headers.$": ["object"], "body.$": ["text"]},
)
# test, queue, msg, copy, rule
Planted = tuple[str, str | None, int, int | None, str]


@dataclass
class Made:
    """A trace, and the violations that were planted in it."""

    trace: Trace
    planted: set[Planted]


@dataclass(eq=False)
class Copy:
    id: int
    msg: int
    exchange: str
    key: str
    src: int | None
    deliveries: int = 0


@dataclass(eq=False)
class Queue:
    name: str
    arguments: dict[str, Any]
    are_messages_prioritized: bool
    ready: list[Copy] = field(default_factory=list)

    @property
    def has_priorities(self) -> bool:
        return "x-max-priority" in self.arguments or (
            self.are_messages_prioritized and self.arguments.get("x-queue-type") == "quorum"
        )


@dataclass(eq=False)
class Channel:
    conn: int
    number: int
    confirms: bool
    is_open: bool = True
    tag: int = 0
    published: int = 0


@dataclass(eq=False)
class Consumer:
    channel: Channel
    queue: Queue
    tag: str
    prefetch: int
    no_ack: bool


@dataclass(eq=False)
class Held:
    copy: Copy
    queue: Queue
    channel: Channel
    consumer: Consumer | None
    tag: int


def make(seed: int, *, tests: int = 3, fault: str | None = None, run: str | None = None, worker: str = "gw0") -> Made:
    """Return a trace of some tests; `fault` is planted in at most one of them, if a test gives the opportunity."""
    return _Player(random.Random(seed), run or f"run{seed}", worker).play(tests, fault)


def several(count: int, *, seed: int) -> list[Made]:
    """Return this many traces, a clean one and one of every fault in turn; some runs have two workers."""
    made = []
    for number in range(count):
        fault = (None, *FAULTS)[number % (len(FAULTS) + 1)]
        has_second_worker = number % 5 == 1
        run = f"run{seed}-{number - 1 if has_second_worker else number}"
        made.append(make(seed + number, fault=fault, run=run, worker="gw1" if has_second_worker else "gw0"))
        if has_second_worker:
            made[-1].trace.day, made[-1].trace.commit = made[-2].trace.day, made[-2].trace.commit
    return made


def disturbed(trace: Trace, seed: int) -> Trace:
    """Return the trace with gaps, events that are recorded under another test, and ids that are far apart.

    A recorder loses events if it is stopped, and a broker that several tests share settles the copies of one test
    during another. Nothing can be said about the violations of such a trace beforehand.
    """
    dice = random.Random(seed)
    tests = [None, *sorted({event["test"] for event in trace.events if "test" in event})]
    distance = dice.choice((1, 10**9, 1 << 58))
    events = []
    is_moved, other = False, None
    for event in trace.events:
        if dice.random() < 0.1:
            is_moved, other = dice.random() < 0.3, dice.choice(tests)
        if dice.random() < 0.03:
            continue
        moved = dict(event)
        if is_moved and event["kind"] not in ("test_start", "test_end"):
            moved["test"] = other
        for name in ("msg", "copy", "src_copy"):
            if name in event:
                # Every seventh id is near the one before it.
                moved[name] = event[name] // 7 * distance + event[name] % 7
        events.append({name: value for name, value in moved.items() if value is not None})
    return replace(trace, events=events)


def history(seed: int) -> list[Trace]:
    """Return 40 runs of the same tests. From the thirteenth on, one test leaves one more message in each run, and some
    copies of the others are delivered twice. From the seventeenth on, a test fails in every other run.
    """
    made = several(1, seed=seed)[0].trace
    end = max(at for at, event in enumerate(made.events) if event["kind"] == "test_end")
    more = {"kind": "enqueued", "test": made.events[end]["test"], "vhost": "/", "queue": "growing"}
    runs = []
    for number in range(40):
        outcome = "failed" if number > 16 and number % 2 == 0 else "passed"
        race = [{"kind": "test_end", "test": "race", "attrs": json.dumps({"outcome": outcome, "duration": 1.5})}]
        left = [{**more, "msg": 10_000 + n, "copy": 10_000 + n} for n in range(max(number - 11, 0))]
        events = [
            again
            for event in [*made.events[:end], *left, *made.events[end:], *race]
            for again in ([event, event] if number > 11 and event["kind"] == "delivered" else [event])
        ]
        # Each event has a number of its own, and other tests than those of other traces.
        told = [
            {**event, "seq": seq, "test": f"{event['test']} of a history"} for seq, event in enumerate(events, start=1)
        ]
        day = date(2026, 2, 1) + timedelta(days=number)
        runs.append(Trace(f"history-{number:02}", "main", day, told, f"commit-{number:02}"))
    return runs


def write(path: Path, trace: Trace) -> None:
    """Write a trace as a file of the recorder."""
    started = None if trace.day is None else f"{trace.day.isoformat()}T10:00:00Z"
    head = {"leveret": "trace", "v": 1, "run": trace.run, "worker": trace.worker, "commit": trace.commit}
    lines = [json.dumps({**head, "started": started}), *map(json.dumps, trace.events)]
    # What is cut is the beginning of another event.
    path.write_text("\n".join(lines) + ('\n{"seq"' if trace.truncated else "\n"))


class _Player:
    def __init__(self, dice: random.Random, run: str, worker: str) -> None:
        self.dice = dice
        self.trace = Trace(run, worker, date(2026, 1, 1 + dice.randrange(3)), [], f"c{dice.randrange(3)}")
        self.planted: set[Planted] = set()
        # The dice of what messages are like, so that what happens to them does not depend on it.
        self.shapes = random.Random(f"{run} {worker}")
        self.defined: set[str] = set()
        self.now = 1_000_000_000
        self.numbers = {"msg": 0, "copy": 0, "conn": 0, "seq": dice.randrange(5)}
        self.says_address = dice.random() < 0.7
        self.are_messages_prioritized = dice.random() < 0.3
        self.fault: str | None = None
        # A retried test declares its queues as before.
        self.arguments: dict[tuple[str | None, str], dict[str, Any]] = {}

    def play(self, tests: int, fault: str | None) -> Made:
        chosen = self.dice.randrange(tests)
        for number in range(tests):
            self.test: str | None = f"tests/test_{number}.py::test[{self.dice.randrange(2)}]"
            for attempt in range(1 + (self.dice.random() < 0.15)):
                self.fault = fault if number == chosen and attempt == 0 else None
                self._play_test()
        if fault is None and self.dice.random() < 0.1:
            self._cut()
        return Made(self.trace, self.planted)

    def _cut(self) -> None:
        self.trace.truncated = True
        begins = max(place for place, event in enumerate(self.trace.events) if event["kind"] == "test_start")
        del self.trace.events[self.dice.randrange(begins + 1, len(self.trace.events)) :]

    def emit(self, kind: str, **columns: Any) -> Any:
        self.numbers["seq"] += self.dice.choice((1, 1, 1, 3))
        self.now += self.dice.choice((0, 1, 7, 1_000, 250_000))
        row = {"seq": self.numbers["seq"], "ts": self.now, "wall": self.now, "kind": kind, "test": self.test, **columns}
        if kind not in ("test_start", "test_end"):
            row["vhost"] = self.vhost
        if isinstance(row.get("attrs"), dict):
            row["attrs"] = json.dumps(row["attrs"])
        self.trace.events.append({name: value for name, value in row.items() if value is not None})
        return row["seq"]

    def next(self, name: str) -> int:
        self.numbers[name] += 1
        return self.numbers[name]

    def _play_test(self) -> None:
        dice = self.dice
        self.emit("test_start", attrs={})
        self.vhost = dice.choice(("/", "/", "v"))
        self.exchanges = {"": "direct"}
        self.bindings: list[tuple[str, str, str, str]] = []
        self.queues: list[Queue] = []
        self.channels: list[Channel] = []
        self.consumers: list[Consumer] = []
        self.held: list[Held] = []
        self._declare()
        for _ in range(dice.randrange(1, 3)):
            self._connect()
        for _ in range(dice.randrange(5, 45)):
            self._step()
            if self.fault is not None and dice.random() < 0.3:
                self._plant(self.fault)
        for _ in range(30):
            if self.fault is None:
                break
            self._step()
            self._plant(self.fault)
        self._finish()
        outcome = dice.choice(("passed", "passed", "failed", "error"))
        attrs = {"outcome": outcome, "duration": dice.randrange(1000) / 64}
        if outcome in ("failed", "error"):
            attrs |= {"error": f"AssertionError: seen at {self.numbers['seq']}\nassert 'ä' == \"{outcome}\""}
        if outcome == "failed":
            attrs |= {"page": f"../pages/{self.numbers['seq']}.html", "page_hash": f"{self.numbers['seq']:016x}"}
        self.emit("test_end", attrs=attrs)

    def _declare(self) -> None:
        dice = self.dice
        for name, kind in (("orders", "direct"), ("events", "topic"), ("all", "fanout"), ("dlx", "fanout")):
            self.exchanges[name] = kind
            self.emit("exchange_declare", exchange=name, attrs={"type": kind, "arguments": {}})
        for name in ("q1", "q2", "q3")[: dice.randrange(1, 4)]:
            arguments: dict[str, Any] = {}
            if dice.random() < 0.4:
                arguments["x-dead-letter-exchange"] = "dlx"
            if dice.random() < 0.2:
                arguments["x-max-length"] = dice.randrange(1, 4)
            if dice.random() < 0.15:
                arguments["x-max-priority"] = 5
            elif self.are_messages_prioritized or dice.random() < 0.5:
                arguments["x-queue-type"] = dice.choice(("classic", "quorum"))
            self._queue(name, arguments)
        for name in ("dead1", "dead2")[: dice.randrange(3)]:
            self._queue(name, {"x-queue-type": "classic"} if self.are_messages_prioritized else {})
            self._bind("dlx", "queue", name, "")
        for queue in [queue for queue in self.queues if queue.name.startswith("q")]:
            for _ in range(dice.randrange(3)):
                exchange = dice.choice(("orders", "events", "all"))
                self._bind(exchange, "queue", queue.name, dice.choice(("a", "a.b", "a.*", "#", "*.b", "a.#.b", "c+")))
        if dice.random() < 0.3:
            self._bind("orders", "exchange", "events", dice.choice(("a", "a.b")))

    def _queue(self, name: str, arguments: dict[str, Any]) -> None:
        arguments = self.arguments.setdefault((self.test, name), arguments)
        self.queues.append(Queue(name, arguments, self.are_messages_prioritized))
        self.emit("queue_declare", queue=name, attrs={"arguments": arguments})

    def _bind(self, exchange: str, kind: str, destination: str, key: str) -> None:
        self.bindings.append((exchange, kind, destination, key))
        attrs = {"destination_kind": kind, "destination": destination, "arguments": {}}
        queue = destination if kind == "queue" else None
        self.emit("bind", exchange=exchange, routing_key=key, queue=queue, attrs=attrs)

    def _connect(self) -> None:
        conn = self.next("conn")
        client = self.shapes.choice(("shop-1", "billing", "test-suite", None))
        attrs = {"peer": "127.0.0.1:1", "client": client}
        self.emit("conn_open", conn=conn, attrs={name: value for name, value in attrs.items() if value is not None})
        for number in range(1, self.dice.randrange(2, 4)):
            self._open(conn, number)

    def _open(self, conn: int, number: int) -> None:
        channel = Channel(conn, number, confirms=self.dice.random() < 0.5)
        self.channels.append(channel)
        self.emit("chan_open", **self._at(channel))
        if self.dice.random() < 0.7:
            self._consume(channel)

    def _at(self, channel: Channel) -> dict[str, Any]:
        return {"conn": channel.conn, "chan": channel.number}

    def _consume(self, channel: Channel) -> None:
        dice = self.dice
        queue = dice.choice(self.queues)
        consumer = Consumer(channel, queue, f"c{dice.randrange(2)}", dice.randrange(4), dice.random() < 0.2)
        if any(other.channel is channel and other.tag == consumer.tag for other in self.consumers):
            return
        if any(held.consumer and held.consumer.channel is channel for held in self.held):
            return
        self.emit("qos", **self._at(channel), count=consumer.prefetch, attrs={"is_global": False})
        attrs = {"no_ack": consumer.no_ack, "prefetch_count": consumer.prefetch}
        self.emit("consume", **self._at(channel), queue=queue.name, consumer=consumer.tag, attrs=attrs)
        self.consumers.append(consumer)

    def _step(self) -> None:
        dice = self.dice
        acts: list[tuple[int, Callable[[], None]]] = [
            (10, self._publish),
            (12, self._deliver_some),
            (8, self._settle_some),
            (2, self._get_some),
            (1, self._expire_some),
            (1, self._strike),
        ]
        if dice.random() < 0.08:
            acts = [(1, self._purge), (2, self._close_channel), (1, self._lose_connection), (1, self._cancel)]
        weights, functions = zip(*acts, strict=True)
        dice.choices(functions, weights)[0]()

    def _open_channels(self) -> list[Channel]:
        return [channel for channel in self.channels if channel.is_open]

    def _publish(self) -> None:
        if channels := self._open_channels():
            exchange = self.dice.choice(list(self.exchanges))
            names = [queue.name for queue in self.queues]
            key = self.dice.choice(names if exchange == "" else ["a", "a.b", "a.x.b", "b", "", "c+", "cc"])
            self._publish_to(self.dice.choice(channels), exchange, key)

    def _publish_to(self, channel: Channel, exchange: str, key: str, *, is_confirmed: bool = True) -> int:
        msg = self.next("msg")
        number = None
        if channel.confirms:
            channel.published += 1
            number = channel.published
        size = self.dice.randrange(2000)
        address = {"exchange": exchange, "routing_key": key}
        attrs = {"properties": {"priority": self.dice.randrange(10)}} if self.are_messages_prioritized else None
        told = {"msg": msg, "tag": number, "size": size, "body_hash": f"{msg:x}", "attrs": attrs}
        self.emit("published", **self._at(channel), **address, **told, shape=self._shape(exchange, key))
        queues = self._route(exchange, key)
        for queue in queues:
            self._enqueue(queue, msg, exchange, key, None, size)
        if not queues:
            kind = self.dice.choice(("returned", "dropped"))
            where = self._at(channel) if kind == "returned" else {}
            self.emit(kind, **where, msg=msg, reason="no route" if kind == "dropped" else "NO_ROUTE")
        if number is not None and is_confirmed:
            kind = "nacked_confirm" if self.dice.random() < 0.1 else "confirmed"
            self.emit(kind, **self._at(channel), msg=msg, tag=number, multiple=False)
        for queue in queues:
            self._shorten(queue)
        return msg

    def _shape(self, exchange: str, key: str) -> str | None:
        """Return the name of a shape; its row is mostly written before its second use. Some messages have none."""
        number = self.shapes.randrange(len(SHAPES) + 1)
        if number == len(SHAPES):
            return None
        name = f"{exchange}/{key}/{number}"
        address = {"exchange": exchange, "routing_key": key}
        if name not in self.defined and self.shapes.random() < 0.8:
            self.defined.add(name)
            self.numbers["seq"] += 1
            attrs = json.dumps({"name": "bill" if number % 2 else "", "fields": SHAPES[number]})
            row = {"seq": self.numbers["seq"], "kind": "shape", **address, "shape": name, "attrs": attrs}
            self.trace.events.append({**row, "test": self.test})
        if self.shapes.random() < 0.02:
            self.numbers["seq"] += 1
            words = {"body.note": {"paid": self.shapes.randrange(1, 4), "open": 2}}
            row = {"seq": self.numbers["seq"], "kind": "shape", "vhost": "/", **address, "test": self.test}
            self.trace.events.append({**row, "attrs": json.dumps({"name": "", "words": words})})
        return name

    def _route(self, exchange: str, key: str) -> list[Queue]:
        if exchange == "":
            return [queue for queue in self.queues if queue.name == key]
        reached, news, names = {exchange}, [exchange], []
        while news:
            source = news.pop()
            for from_exchange, kind, destination, binding_key in self.bindings:
                if from_exchange == source and _matches(self.exchanges[source], binding_key, key):
                    if kind == "queue":
                        names.append(destination)
                    elif destination not in reached:
                        reached.add(destination)
                        news.append(destination)
        return [queue for queue in self.queues if queue.name in names]

    def _enqueue(self, queue: Queue, msg: int, exchange: str, key: str, src: int | None, size: int) -> Copy:
        copy = Copy(self.next("copy"), msg, exchange, key, src)
        address = {"exchange": exchange, "routing_key": key} if self.says_address else {}
        self.emit("enqueued", **self._about(queue, copy), **address, src_copy=src, size=size)
        queue.ready.append(copy)
        return copy

    def _about(self, queue: Queue, copy: Copy) -> dict[str, Any]:
        return {"queue": queue.name, "msg": copy.msg, "copy": copy.id}

    def _shorten(self, queue: Queue) -> None:
        limit = queue.arguments.get("x-max-length")
        while limit is not None and len(queue.ready) > limit:
            copy = queue.ready.pop(0)
            if not self._dead_letter(queue, copy, "maxlen"):
                self.emit("dropped", **self._about(queue, copy), reason="maxlen")

    def _dead_letter(self, queue: Queue, copy: Copy, reason: str) -> bool:
        target = queue.arguments.get("x-dead-letter-exchange")
        if target is None:
            return False
        about = self._about(queue, copy)
        self.emit("dead_lettered", **about, reason=reason, exchange=target, routing_key=copy.key)
        for other in self._route(target, copy.key):
            self._enqueue(other, copy.msg, target, copy.key, copy.id, 10)
        return True

    def _take(self, queue: Queue) -> Copy:
        return queue.ready.pop(self.dice.randrange(len(queue.ready)) if queue.has_priorities else 0)

    def _held_by(self, consumer: Consumer) -> int:
        return sum(held.consumer is consumer for held in self.held)

    def _deliver_some(self) -> None:
        for consumer in self.dice.sample(self.consumers, len(self.consumers)):
            has_room = consumer.prefetch == 0 or consumer.no_ack or self._held_by(consumer) < consumer.prefetch
            if consumer.queue.ready and has_room and consumer.channel.is_open:
                self._deliver(self._take(consumer.queue), consumer)
                return

    def _flag(self, copy: Copy) -> bool:
        if copy.src is not None and copy.deliveries == 0:
            return self.dice.random() < 0.5
        return copy.deliveries > 0

    def _deliver(self, copy: Copy, consumer: Consumer, *, flag: bool | None = None) -> None:
        channel = consumer.channel
        channel.tag += 1
        told = {"tag": channel.tag, "redelivered": self._flag(copy) if flag is None else flag}
        at = {**self._at(channel), **self._about(consumer.queue, copy), **told, "count": copy.deliveries}
        self.emit("delivered", **at, consumer=consumer.tag)
        copy.deliveries += 1
        if consumer.no_ack:
            self._end(Held(copy, consumer.queue, channel, consumer, channel.tag), "acked", reason="no_ack")
        else:
            self.held.append(Held(copy, consumer.queue, channel, consumer, channel.tag))

    def _get(self, queue: Queue, channel: Channel, copy: Copy, *, flag: bool | None = None) -> Held:
        channel.tag += 1
        told = {"tag": channel.tag, "redelivered": self._flag(copy) if flag is None else flag}
        self.emit("got", **self._at(channel), **self._about(queue, copy), **told, count=copy.deliveries)
        copy.deliveries += 1
        return Held(copy, queue, channel, None, channel.tag)

    def _get_some(self) -> None:
        queues = [queue for queue in self.queues if queue.ready]
        if queues and (channels := self._open_channels()):
            queue = self.dice.choice(queues)
            self.held.append(self._get(queue, self.dice.choice(channels), self._take(queue)))

    def _end(self, held: Held, kind: str, **columns: Any) -> None:
        at = {**self._at(held.channel), **self._about(held.queue, held.copy)}
        self.emit(kind, **at, tag=held.tag, multiple=False, **columns)

    def _settle_some(self) -> None:
        if not self.held:
            return
        held = self.held.pop(self.dice.randrange(len(self.held)))
        kind = self.dice.choices(("acked", "nacked", "rejected"), (6, 1, 1))[0]
        self._end(held, kind)
        if kind == "acked":
            return
        if self.dice.random() < 0.5:
            self._requeue(held, kind)
        elif not self._dead_letter(held.queue, held.copy, self.dice.choice(("rejected", "delivery_limit"))):
            self.emit("dropped", **self._about(held.queue, held.copy), reason="rejected")

    def _requeue(self, held: Held, reason: str) -> None:
        self.emit("requeued", **self._about(held.queue, held.copy), reason=reason)
        held.queue.ready.append(held.copy)
        held.queue.ready.sort(key=lambda copy: copy.id)

    def _expire_some(self) -> None:
        queue = self.dice.choice(self.queues)
        if queue.ready:
            copy = queue.ready.pop(0)
            self.emit("expired", **self._about(queue, copy))
            self._dead_letter(queue, copy, "expired")

    def _purge(self) -> None:
        queue = self.dice.choice(self.queues)
        for copy in queue.ready:
            self.emit("purged", **self._about(queue, copy), reason="purged")
        queue.ready.clear()

    def _strike(self) -> None:
        attrs = {"on": self.dice.choice(("basic.ack", "enqueued")), "fault": self.dice.choice(("Drop()", "Delay(1)"))}
        self.emit("fault", attrs=attrs)

    def _close_channel(self) -> None:
        if channels := self._open_channels():
            channel = self.dice.choice(channels)
            if channel.number % 2:
                self.emit("refused", **self._at(channel), attrs={"code": 404, "text": "NOT_FOUND"})
            self.emit("chan_close", **self._at(channel))
            self._ended([channel])
            if self.dice.random() < 0.7:
                self._open(channel.conn, channel.number)

    def _lose_connection(self) -> None:
        if channels := self._open_channels():
            conn = self.dice.choice(channels).conn
            self.emit("conn_close", conn=conn, reason="connection lost")
            self._ended([channel for channel in channels if channel.conn == conn])
            if not self._open_channels():
                self._connect()

    def _ended(self, channels: list[Channel]) -> None:
        for channel in channels:
            channel.is_open = False
        self.consumers = [consumer for consumer in self.consumers if consumer.channel.is_open]
        for held in [held for held in self.held if not held.channel.is_open]:
            self.held.remove(held)
            self._requeue(held, "channel_closed")

    def _cancel(self) -> None:
        if self.consumers:
            consumer = self.consumers.pop(self.dice.randrange(len(self.consumers)))
            self.emit("cancel", **self._at(consumer.channel), queue=consumer.queue.name, consumer=consumer.tag)

    def _finish(self) -> None:
        """Leave nothing unacked. Ready messages may stay, and in a queue with priorities also the older ones."""
        for held in self.held[:]:
            self.held.remove(held)
            if self.dice.random() < 0.7:
                self._end(held, "acked")
            else:
                self._requeue(held, "recovered")
        for queue in self.queues:
            if self.dice.random() < 0.5:
                for copy in queue.ready:
                    self.emit("purged", **self._about(queue, copy), reason="queue_deleted")
                queue.ready.clear()
                self.emit("queue_delete", queue=queue.name)
        for channel in self._open_channels():
            if self.dice.random() < 0.5:
                self.emit("chan_close", **self._at(channel))

    def _plant(self, fault: str) -> None:
        if self.fault is not None and getattr(self, f"_plant_{fault}")():
            self.fault = None

    def _found(self, rule: str, queue: Queue, copy: Copy) -> bool:
        assert self.test is not None
        self.planted.add((self.test, queue.name, copy.msg, copy.id, rule))
        return True

    def _plant_acked_twice(self) -> bool:
        if not self.held:
            return False
        held = self.held.pop()
        self._end(held, "acked")
        self._end(held, "acked")
        return self._found("acked_twice", held.queue, held.copy)

    def _plant_delivered_after_ack(self) -> bool:
        if not self.held:
            return False
        held = self.held.pop()
        self._end(held, "acked")
        self._get(held.queue, held.channel, held.copy)
        return self._found("delivered_after_ack", held.queue, held.copy)

    def _fifo(self, least: int = 1) -> list[Queue]:
        return [queue for queue in self.queues if len(queue.ready) >= least and not queue.has_priorities]

    def _plant_ack_without_delivery(self) -> bool:
        fresh = [(queue, queue.ready[0]) for queue in self._fifo() if queue.ready[0].deliveries == 0]
        if not fresh or not (channels := self._open_channels()):
            return False
        queue, copy = self.dice.choice(fresh)
        queue.ready.remove(copy)
        self._end(Held(copy, queue, self.dice.choice(channels), None, 99), "acked")
        return self._found("ack_without_delivery", queue, copy)

    def _plant_unacked_at_end(self) -> bool:
        # Forgotten: it has no later event, not even when its channel ends.
        takers = [held for held in self.held if held.consumer is None or held.consumer.prefetch == 0]
        if not takers:
            return False
        self.held.remove(takers[0])
        return self._found("unacked_at_end", takers[0].queue, takers[0].copy)

    def _plant_lost(self) -> bool:
        if not self._fifo() or not (channels := self._open_channels()):
            return False
        queue = self._fifo()[0]
        lost = queue.ready.pop(0)
        self._publish_to(channels[0], "", queue.name)
        if not queue.ready:
            queue.ready.append(lost)
            return False
        self.held.append(self._get(queue, channels[0], queue.ready.pop(0)))
        if self.held[-1].copy.deliveries == 1:
            return self._found("lost", queue, lost)
        # That was a redelivery: the next will be a first delivery.
        while queue.ready and self.held[-1].copy.deliveries > 1:
            self.held.append(self._get(queue, channels[0], queue.ready.pop(0)))
        assert self.held[-1].copy.deliveries == 1
        return self._found("lost", queue, lost)

    def _plant_out_of_order(self) -> bool:
        for queue in self._fifo(2):
            first, second = queue.ready[:2]
            if first.deliveries == 0 == second.deliveries and (channels := self._open_channels()):
                for copy in (second, first):
                    queue.ready.remove(copy)
                    self.held.append(self._get(queue, channels[0], copy))
                return self._found("out_of_order", queue, first)
        return False

    def _plant_duplicate_enqueue(self) -> bool:
        for queue in self._fifo():
            copy = queue.ready[-1]
            if "x-max-length" not in queue.arguments:
                second = self._enqueue(queue, copy.msg, copy.exchange, copy.key, copy.src, 10)
                return self._found("duplicate_enqueue", queue, second)
        return False

    def _plant_redelivered_flag_wrong(self) -> bool:
        for queue in self._fifo():
            copy = queue.ready[0]
            if (copy.src is None or copy.deliveries > 0) and (channels := self._open_channels()):
                queue.ready.remove(copy)
                self.held.append(self._get(queue, channels[0], copy, flag=copy.deliveries == 0))
                return self._found("redelivered_flag_wrong", queue, copy)
        return False

    def _plant_delivered_to_closed_channel(self) -> bool:
        reopened = {(channel.conn, channel.number) for channel in self._open_channels()}
        for channel in self.channels:
            if not channel.is_open and (channel.conn, channel.number) not in reopened and self._fifo():
                queue = self._fifo()[0]
                held = self._get(queue, channel, queue.ready.pop(0))
                self._end(held, "acked")
                return self._found("delivered_to_closed_channel", queue, held.copy)
        if self.dice.random() < 0.3:
            self._close_channel()
        return False

    def _plant_prefetch_exceeded(self) -> bool:
        for consumer in self.consumers:
            queue = consumer.queue
            if consumer.no_ack or consumer.prefetch == 0 or queue.has_priorities or "x-max-length" in queue.arguments:
                continue
            while self._held_by(consumer) < consumer.prefetch:
                if not queue.ready:
                    self._publish_to(consumer.channel, "", queue.name)
                self._deliver(queue.ready.pop(0), consumer)
            if not queue.ready:
                self._publish_to(consumer.channel, "", queue.name)
            copy = queue.ready.pop(0)
            self._deliver(copy, consumer)
            return self._found("prefetch_exceeded", queue, copy)
        return False

    def _plant_confirm_missing(self) -> bool:
        for channel in self._open_channels():
            if channel.confirms:
                names = [queue.name for queue in self.queues]
                msg = self._publish_to(channel, "", self.dice.choice(names), is_confirmed=False)
                assert self.test is not None
                self.planted.add((self.test, None, msg, None, "confirm_missing"))
                return True
        return False
