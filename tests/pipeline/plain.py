"""Every table of the pipeline in plain Python, one event after the other, as the reference for the pipeline's rows.

It follows the meaning of events and tables (docs/reference/pipeline-tables.md) and shares no code with the pipeline. It
is slow and holds everything in memory. It leaves out columns that are numbers for names (`holder`).
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise
from typing import Any

Row = dict[str, Any]

ENDS = {"acked", "expired", "dropped", "dead_lettered", "purged"}
SETTLES = ENDS | {"nacked", "rejected", "requeued"}
DELIVERIES = {"delivered", "got"}
ABOUT_COPIES = SETTLES | DELIVERIES | {"enqueued"}
NUMBERS = {"acked": 4, "nacked": 5, "rejected": 6, "requeued": 7, "expired": 8, "dropped": 9, "dead_lettered": 10}
NUMBERS["purged"] = 11
REASONS = ["rejected", "expired", "maxlen", "delivery_limit"]
CONTROL = {"conn_open", "conn_close", "chan_open", "chan_close", "exchange_declare", "exchange_delete"}
CONTROL |= {"queue_declare", "queue_delete", "bind", "unbind", "consume", "cancel", "qos", "test_start", "test_end"}
CONTROL |= {"fault"}
CONTROL_COLUMNS = ["seq", "ts", "kind", "test", "vhost", "conn", "chan", "exchange", "routing_key", "queue", "consumer"]
CONTROL_COLUMNS += ["count", "reason", "attrs"]


@dataclass
class Trace:
    """One file of a worker of a run, with its events as dictionaries in the order of `seq`."""

    run: str
    worker: str
    day: Any
    events: list[Row]
    commit: str | None = None
    truncated: bool = False

    @property
    def began(self) -> int | None:
        """The microsecond at which the run began, as `random_traces.write` writes it."""
        return None if self.day is None else ((self.day - date(1970, 1, 1)).days * 24 + 10) * 3_600_000_000

    @property
    def file(self) -> Row:
        return {"day": self.day, "run": self.run, "worker": self.worker}


def tables(traces: list[Trace]) -> dict[str, list[Row]]:
    """Return all tables over these files."""
    files = [_File(trace) for trace in traces]
    found: dict[str, list[Row]] = defaultdict(list)
    for file in files:
        for name, rows in file.tables().items():
            found[name] += rows
    found["latency_hist"] = _latency_hist(found["copies"])
    found["queue_stats"] = _queue_stats(found["test_queues"], found["latency_hist"])
    found["consumer_stats"] = _consumer_stats(found["consumers"])
    found["routes"] = _counted(found["_routes"], "n")
    found["run_lineage"] = _counted(found["_lineage"], "n")
    found["run_coverage"] = _run_coverage(found)
    found["fingerprints"] = _fingerprints(found, {trace.run: trace.commit for trace in traces})
    found["run_shapes"], found["run_clients"] = _shapes(files)
    found["message_shapes"] = _message_shapes(found["run_shapes"])
    found["run_counts"] = _run_counts(found, traces)
    found["changes"] = _changes(found["run_counts"])
    found["lineage"] = _lineage(found["run_lineage"])
    found["coverage"] = _coverage(found["run_coverage"])
    found["flaky"] = _flaky(found["fingerprints"])
    return {name: rows for name, rows in found.items() if not name.startswith("_")}


@dataclass
class _Copy:
    events: list[Row] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Row]:
        return [event for event in self.events if event["kind"] in kinds]

    def first(self, kinds: set[str], what: str = "seq") -> Any:
        return min((e[what] for e in self.events if e["kind"] in kinds and e.get(what) is not None), default=None)

    def last(self, kinds: set[str]) -> Any:
        return max((event["seq"] for event in self.events if event["kind"] in kinds), default=None)

    @property
    def enqueued_seq(self) -> int | None:
        return self.first({"enqueued"})

    @property
    def delivered_seq(self) -> int | None:
        return self.first(DELIVERIES)

    @property
    def is_open(self) -> bool:
        return not self.of(*ENDS)

    @property
    def is_ready(self) -> bool:
        return self.events[-1]["kind"] in ("enqueued", "requeued")

    @property
    def outcome(self) -> str:
        for kind in ("acked", "dead_lettered", "dropped", "expired", "purged"):
            if self.of(kind):
                return kind
        if self.events[-1]["kind"] in DELIVERIES:
            return "unacked"
        return "ready" if self.is_ready else "undecided"

    @property
    def src_copy(self) -> int | None:
        return max((e["src_copy"] for e in self.events if e.get("src_copy") is not None), default=None)

    @property
    def death(self) -> int | None:
        codes = [REASONS.index(e["reason"]) + 1 for e in self.of("dead_lettered") if e.get("reason") in REASONS]
        return max(codes, default=None)


class _File:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.events = sorted(trace.events, key=lambda event: event["seq"])
        self.copies: dict[tuple[Any, ...], _Copy] = defaultdict(_Copy)
        self.queues: dict[tuple[Any, ...], list[_Copy]] = defaultdict(list)
        for event in self.events:
            if event.get("copy") is not None and event["kind"] in ABOUT_COPIES:
                key = tuple(event.get(name) for name in ("test", "vhost", "queue", "msg", "copy"))
                if key not in self.copies:
                    self.queues[key[:3]].append(self.copies[key])
                self.copies[key].events.append(event)
        self.attrs = {
            event["seq"]: json.loads(event["attrs"]) if event.get("attrs") else {}
            for event in self.events
            if event["kind"] in CONTROL
        }

    def tables(self) -> dict[str, list[Row]]:
        messages = list(self._messages())
        tests = list(self._tests(messages))
        queues = list(self._test_queues())
        return {
            "control": [self._control(event) for event in self.events if self._is_control(event)],
            "copies": [self._copy(key, copy) for key, copy in self.copies.items()],
            "messages": messages,
            "tests": tests,
            "consumers": list(self._consumers()),
            "test_queues": queues,
            "violations": list(self._violations(messages)),
            "fault_effect": list(self._fault_effect(tests, queues)),
            "_routes": list(self._routes()),
            "_lineage": list(self._deaths()),
        }

    def _is_control(self, event: Row) -> bool:
        return event["kind"] in CONTROL and event.get("msg") is None

    def _control(self, event: Row) -> Row:
        return {**self.trace.file, **{name: event.get(name) for name in CONTROL_COLUMNS}}

    def _copy(self, key: tuple[Any, ...], copy: _Copy) -> Row:
        deliveries = copy.of(*DELIVERIES)
        settlements = [event for event in copy.events if event["kind"] in SETTLES]
        settlement, last = (settlements[0], settlements[-1]) if settlements else (None, None)
        sizes = [event["size"] for event in copy.events if event.get("size") is not None]
        return {
            **self.trace.file,
            **dict(zip(("test", "vhost", "queue", "msg", "copy"), key, strict=True)),
            "src_copy": copy.src_copy,
            "size": max(sizes, default=None),
            "enqueued_at": copy.first({"enqueued"}, "ts"),
            "enq_seq": copy.enqueued_seq,
            "enqueues": len(copy.of("enqueued")),
            "first_delivered_at": copy.first(DELIVERIES, "ts"),
            "deliver_seq": copy.delivered_seq,
            "first_redelivered": deliveries[0].get("redelivered") if deliveries else None,
            "unflagged": sum(event.get("redelivered") is False for event in deliveries),
            "last_deliver_seq": copy.last(DELIVERIES),
            "settle_seq": settlement and settlement["seq"],
            "settle_kind": settlement and NUMBERS[settlement["kind"]],
            "last_settle_seq": last and last["seq"],
            "last_settle_kind": last and NUMBERS[last["kind"]],
            "settled_at": copy.first(ENDS, "ts"),
            "end_seq": copy.first(ENDS),
            "ack_seq": copy.first({"acked"}),
            "ready_seq": copy.last({"enqueued", "requeued"}),
            "last_seq": copy.events[-1]["seq"],
            "deliveries": len(deliveries),
            "acks": len(copy.of("acked")),
            "nacks": len(copy.of("nacked")),
            "rejects": len(copy.of("rejected")),
            "requeues": len(copy.of("requeued")),
            "expiries": len(copy.of("expired")),
            "drops": len(copy.of("dropped")),
            "dead_letters": len(copy.of("dead_lettered")),
            "purges": len(copy.of("purged")),
            "dl_reason": copy.death,
            "outcome": copy.outcome,
        }

    def _messages(self) -> Iterator[Row]:
        copies_of: dict[int, list[_Copy]] = defaultdict(list)
        for key, copy in self.copies.items():
            copies_of[key[3]].append(copy)
        told: dict[int, set[str]] = defaultdict(set)
        for event in self.events:
            if event["kind"] in ("returned", "confirmed", "nacked_confirm"):
                told[event["msg"]].add(event["kind"])
        for event in self.events:
            if event["kind"] != "published":
                continue
            msg = event["msg"]
            copies, kinds = copies_of[msg], told[msg]
            is_open = any(copy.is_open for copy in copies)
            if is_open:
                outcome = "open"
            elif copies:
                outcome = max(copies, key=lambda copy: copy.first(ENDS)).outcome
            else:
                outcome = "returned" if "returned" in kinds else "dropped"
            ends = [at for copy in copies if (at := copy.first(ENDS, "ts")) is not None]
            yield {
                **self.trace.file,
                **{name: event.get(name) for name in ("test", "vhost", "msg", "seq", "exchange", "routing_key")},
                "published_at": event.get("ts"),
                "publish_number": event.get("tag"),
                "copies": len(copies),
                "returned": "returned" in kinds,
                "confirmed": True if "confirmed" in kinds else False if "nacked_confirm" in kinds else None,
                "hops": sum(copy.src_copy is not None for copy in copies),
                "outcome": outcome,
                "end_to_end_us": None if is_open or not ends else max(ends) - event["ts"],
            }

    def _tests(self, messages: list[Row]) -> Iterator[Row]:
        attempts: dict[str, list[Row]] = defaultdict(list)
        for event in self.events:
            if event["kind"] in ("test_start", "test_end") and event.get("test") is not None:
                attempts[event["test"]].append(event)
        for test, events in attempts.items():
            last = events[-1]
            attrs = self.attrs[last["seq"]] if last["kind"] == "test_end" else {}
            starts = sum(event["kind"] == "test_start" for event in events)
            ends = [self.attrs[event["seq"]] for event in events if event["kind"] == "test_end"]
            failures = [end for end in ends if end.get("outcome") in ("failed", "error")]
            yield {
                **self.trace.file,
                "test": test,
                "outcome": attrs.get("outcome"),
                "duration": attrs.get("duration"),
                "retries": max(starts - 1, 0),
                "published": sum(row["test"] == test for row in messages),
                "failures": len(failures),
                **{name: failures[-1].get(name) if failures else None for name in ("error", "page", "page_hash")},
            }

    def _consumers(self) -> Iterator[Row]:
        seen: dict[tuple[Any, ...], list[tuple[Row, Row | None, bool]]] = defaultdict(list)
        for event, end, is_first in self._deliveries():
            names = ("test", "vhost", "queue", "conn", "chan", "consumer")
            seen[tuple(event.get(name) for name in names)].append((event, end, is_first))
        for key, deliveries in seen.items():
            endings = Counter(end["kind"] for _, end, _ in deliveries if end is not None)
            spans = [(event["seq"], end["seq"] if end else math.inf) for event, end, _ in deliveries]
            counts = {
                "redeliveries": sum(not is_first for _, _, is_first in deliveries),
                "acked": endings["acked"],
                "nacked": endings["nacked"],
                "rejected": endings["rejected"],
                "max_unacked": max(sum(begin <= at < end for begin, end in spans) for at, _ in spans),
            }
            yield {
                **self.trace.file,
                **dict(zip(("test", "vhost", "queue", "conn", "chan", "consumer"), key, strict=True)),
                "first_seq": deliveries[0][0]["seq"],
                "last_seq": deliveries[-1][0]["seq"],
                "deliveries": len(deliveries),
                **(counts if key[-1] is not None else dict.fromkeys(counts)),
            }

    def _deliveries(self) -> Iterator[tuple[Row, Row | None, bool]]:
        """Yield each delivery, the next event that settled the copy, and whether it was the copy's first delivery."""
        found = []
        for copy in self.copies.values():
            for place, event in enumerate(copy.events):
                if event["kind"] in DELIVERIES:
                    end = next((later for later in copy.events[place:] if later["kind"] in SETTLES), None)
                    found.append((event, end, event["seq"] == copy.delivered_seq))
        yield from sorted(found, key=lambda told: told[0]["seq"])

    def _test_queues(self) -> Iterator[Row]:
        for key, copies in self.queues.items():
            deaths = Counter(copy.death for copy in copies)
            yield {
                **self.trace.file,
                **dict(zip(("test", "vhost", "queue"), key, strict=True)),
                "copies": len(copies),
                "deliveries": sum(len(copy.of(*DELIVERIES)) for copy in copies),
                "redeliveries": sum(max(len(copy.of(*DELIVERIES)) - 1, 0) for copy in copies),
                "acked": sum(bool(copy.of("acked")) for copy in copies),
                "leaked": sum(copy.is_open for copy in copies),
                **{f"dead_{reason}": deaths[code] for code, reason in enumerate(REASONS, start=1)},
                "dropped": sum(bool(copy.of("dropped")) for copy in copies),
                "max_depth": _max_depth(copies),
                "late": sum(_is_late(copy, copies) for copy in copies),
                "passed": sum(_is_passed(copy, copies) for copy in copies),
                "unordered": sum(_is_unordered(copy, copies) for copy in copies),
            }

    def _violations(self, messages: list[Row]) -> Iterator[Row]:
        unfinished = self._unfinished()
        for key, copy in self.copies.items():
            for rule, text, *seqs in self._broken(key, copy):
                if rule in ("unacked_at_end", "lost") and key[0] in unfinished:
                    continue
                names = ("test", "vhost", "queue", "msg", "copy")
                yield {
                    **self.trace.file,
                    **dict(zip(names, key, strict=True)),
                    "rule": rule,
                    "text": text,
                    "seqs": seqs,
                }
        for row in messages:
            is_missing = row["publish_number"] is not None and row["confirmed"] is None
            if is_missing and row["test"] not in unfinished:
                told = {name: row[name] for name in ("test", "vhost", "msg")}
                text = f"publish {row['publish_number']} of its channel was neither confirmed nor nacked"
                rule = {"rule": "confirm_missing", "text": text, "seqs": []}
                yield {**self.trace.file, **told, "queue": None, "copy": None, **rule}

    def _unfinished(self) -> set[str | None]:
        """Return the tests whose end is missing from a cut file."""
        if not self.trace.truncated:
            return set()
        state: dict[str | None, str] = {}
        for event in self.events:
            state.setdefault(event.get("test"), "test_start")
            if event["kind"] in ("test_start", "test_end"):
                state[event.get("test")] = event["kind"]
        return {test for test, last in state.items() if last != "test_end"}

    def _broken(self, key: tuple[Any, ...], copy: _Copy) -> Iterator[tuple[Any, ...]]:
        """Yield each rule that the copy breaks, the text for readers, and the events that it names."""
        acks = [event["seq"] for event in copy.of("acked")]
        deliveries = copy.of(*DELIVERIES)
        seqs = [event["seq"] for event in deliveries]
        if len(acks) > 1:
            yield "acked_twice", f"acknowledged {len(acks)} times"
        if acks and any(seq < acks[0] for seq in seqs) and any(seq > acks[0] for seq in seqs):
            yield "delivered_after_ack", f"acknowledged at {acks[0]}, delivered again at {seqs[-1]}", acks[0], seqs[-1]
        if acks and not any(seq < acks[0] for seq in seqs):
            yield "ack_without_delivery", f"acknowledged at {acks[0]}, before any delivery", acks[0]
        if copy.is_open and copy.events[-1]["kind"] in DELIVERIES:
            yield "unacked_at_end", f"delivered at {seqs[-1]} and never settled", seqs[-1]
        if self._has_wrong_flag(copy, deliveries):
            yield "redelivered_flag_wrong", "its deliveries and their redelivered flags do not agree"
        if not self._goes_by_priority(key[:3]):
            yield from self._overtaken(copy, self._of_same_attempt(copy, self.queues[key[:3]]))
        if self._is_repeated(key, copy):
            yield "duplicate_enqueue", "the queue had this message already, from the same origin"
        texts = [
            f"delivered to channel {event['chan']} of connection {event['conn']} while the channel was closed"
            for event in deliveries
            if self._is_closed(event)
        ]
        if texts:
            yield "delivered_to_closed_channel", min(texts)
        limits = [limit for event in deliveries if (limit := self._exceeded_prefetch(event)) is not None]
        if limits:
            text = "delivered to a consumer that already held as many as its prefetch of "
            yield "prefetch_exceeded", min(f"{text}{limit}" for limit in limits)

    def _overtaken(self, copy: _Copy, siblings: list[_Copy]) -> Iterator[tuple[Any, ...]]:
        younger = [other.delivered_seq for other in siblings if _is_younger(other, copy)]
        delivered = [seq for seq in younger if seq is not None]
        if _is_passed(copy, siblings):
            text = f"ready since {copy.events[-1]['seq']} and never delivered, although a younger message was delivered"
            yield "lost", f"{text} at {max(delivered)}", copy.events[-1]["seq"], max(delivered)
        if _is_late(copy, siblings):
            text = f"first delivered at {copy.delivered_seq}, after a younger message at {min(delivered)}"
            yield "out_of_order", text, copy.delivered_seq, min(delivered)

    def _of_same_attempt(self, copy: _Copy, siblings: list[_Copy]) -> list[_Copy]:
        """Leave out siblings of other attempts: a retried test has a fresh broker with a new queue of that name."""

        def attempt(of: _Copy) -> int:
            starts = [event for event in self.events if event["kind"] == "test_start"]
            test, came = of.events[0].get("test"), of.enqueued_seq
            return sum(start["test"] == test and came is not None and start["seq"] <= came for start in starts)

        return [other for other in siblings if attempt(other) == attempt(copy)]

    def _has_wrong_flag(self, copy: _Copy, deliveries: list[Row]) -> bool:
        for place, event in enumerate(deliveries):
            flag = event.get("redelivered")
            is_exempt = place == 0 and copy.src_copy is not None
            if flag is not None and flag != (place > 0) and not is_exempt:
                return True
        return False

    def _goes_by_priority(self, place: tuple[Any, ...]) -> bool:
        """Return whether x-max-priority was declared, or, unless it is a classic queue, a message has a priority."""
        arguments = [
            self.attrs[event["seq"]].get("arguments", {})
            for event in self.events
            if event["kind"] == "queue_declare" and (event.get("test"), event.get("vhost"), event.get("queue")) == place
        ]
        if any("x-max-priority" in each for each in arguments):
            return True
        if any(each.get("x-queue-type") == "classic" for each in arguments):
            return False
        messages = {key[3] for key in self.copies if key[:3] == place}
        return any(
            "priority" in json.loads(event.get("attrs") or "{}").get("properties", {})
            for event in self.events
            if event["kind"] == "published" and event.get("msg") in messages
        )

    def _is_repeated(self, key: tuple[Any, ...], copy: _Copy) -> bool:
        if len(copy.of("enqueued")) > 1:
            return True
        return any(
            other is not copy
            and other_key[:4] == key[:4]
            and other.src_copy == copy.src_copy
            and other.enqueued_seq is not None
            and copy.enqueued_seq is not None
            and other.enqueued_seq < copy.enqueued_seq
            for other_key, other in self.copies.items()
        )

    def _is_closed(self, delivery: Row) -> bool:
        """Return whether the channel, by its last event before the delivery, or the connection had closed."""
        is_closed = False
        for event in self.events:
            if event["seq"] >= delivery["seq"] or event.get("conn") is None:
                continue
            if event["conn"] != delivery.get("conn"):
                continue
            if event["kind"] == "conn_close":
                return True
            if event.get("chan") == delivery.get("chan") and event["kind"] in ("chan_open", "chan_close"):
                is_closed = event["kind"] == "chan_close"
        return is_closed

    def _exceeded_prefetch(self, delivery: Row) -> int | None:
        """Return the prefetch of the delivery's consumer if it holds more with this delivery, else None."""
        consumer = _consumer_of(delivery)
        if delivery["kind"] != "delivered":
            return None
        consume = self._consume_before(consumer, delivery["seq"])
        if consume is None:
            return None
        attrs = self.attrs[consume["seq"]]
        prefetch = attrs.get("prefetch_count") or 0
        if prefetch == 0 or attrs.get("no_ack"):
            return None
        held = 0
        for event, end, _ in self._all_deliveries:
            begins = event["kind"] == "delivered" and _consumer_of(event) == consumer
            if begins and consume["seq"] < event["seq"] <= delivery["seq"]:
                held += end is None or end["seq"] > delivery["seq"]
        return prefetch if held > prefetch else None

    @property
    def _all_deliveries(self) -> list[tuple[Row, Row | None, bool]]:
        if not hasattr(self, "_known_deliveries"):
            self._known_deliveries = list(self._deliveries())
        return self._known_deliveries

    def _consume_before(self, consumer: tuple[Any, ...], seq: int) -> Row | None:
        last = None
        for event in self.events:
            if event["kind"] == "consume" and event["seq"] < seq and _consumer_of(event) == consumer:
                last = event
        return last

    def _fault_effect(self, tests: list[Row], queues: list[Row]) -> Iterator[Row]:
        struck = Counter(
            (event.get("test"), self.attrs[event["seq"]].get("fault"), self.attrs[event["seq"]].get("on"))
            for event in self.events
            if event["kind"] == "fault"
        )
        outcomes = {row["test"]: row["outcome"] for row in tests}
        for (test, fault, on), count in struck.items():
            seen = [row for row in queues if row["test"] == test]
            yield {
                **self.trace.file,
                "test": test,
                "fault": fault,
                "on": on,
                "struck": count,
                "outcome": outcomes.get(test),
                "copies": sum(row["copies"] for row in seen),
                "redeliveries": sum(row["redeliveries"] for row in seen),
                "dead_letters": sum(row[f"dead_{reason}"] for row in seen for reason in REASONS),
                "leaked": sum(row["leaked"] for row in seen),
            }

    def _routes(self) -> Iterator[Row]:
        published = {event["msg"]: event for event in self.events if event["kind"] == "published"}
        died = {event["copy"]: event for event in self.events if event["kind"] == "dead_lettered"}
        for event in self.events:
            if event["kind"] not in ("published", "enqueued", "dead_lettered"):
                continue
            told = event
            if event["kind"] == "enqueued" and event.get("exchange") is None:
                src_copy = event.get("src_copy")
                known = published.get(event["msg"]) if src_copy is None else died.get(src_copy)
                if known is None:
                    continue
                told = known
            yield {
                "day": self.trace.day,
                "run": self.trace.run,
                "vhost": event.get("vhost"),
                "kind": event["kind"],
                "exchange": told.get("exchange"),
                "routing_key": told.get("routing_key"),
                "queue": event.get("queue"),
            }

    def shapes(self, defined: dict[str, Row]) -> Iterator[tuple[str, Row, str, Any]]:
        """Yield the messages that count with their shape, and what clients did, with the shape and the queue."""
        passed = {row["test"] for row in self._tests([]) if row["outcome"] == "passed" and not row["failures"]}
        clients: dict[int, str] = {}
        for event in self.events:
            if event["kind"] == "conn_open":
                name = self.attrs[event["seq"]].get("client", "a client")
                clients.pop(event["conn"], None)
                if not name.startswith("test"):
                    clients[event["conn"]] = re.sub(r"\d+", "{number}", name)
        published = [event for event in self.events if event["kind"] == "published"]
        shown = {
            event["seq"]
            for event in published
            if event.get("shape") in defined and event.get("test") in {*passed, None}
        }
        counted = {event["seq"]: event for event in published if event.get("conn") in clients and event["seq"] in shown}
        for event in counted.values():
            yield clients[event["conn"]], event, "published", None
        # Should a message be published twice, the last publish has its fate.
        sent = {event["msg"]: event for event in published}
        for copy in self.copies.values():
            for place, delivery in enumerate(copy.events):
                message = sent.get(delivery["msg"])
                if delivery["kind"] not in DELIVERIES or message is None or message["seq"] not in shown:
                    continue
                action = _action(copy.events[place:])
                if action is not None and delivery.get("conn") in clients:
                    yield clients[delivery["conn"]], message, action, delivery.get("queue")
                    if action in ("acked", "no_ack"):
                        counted[message["seq"]] = message
        for event in counted.values():
            yield "", event, "", None

    def _deaths(self) -> Iterator[Row]:
        sources = {key[4]: (key[2], copy.death) for key, copy in self.copies.items() if copy.of("dead_lettered")}
        for key, copy in self.copies.items():
            if copy.src_copy is None:
                continue
            queue, death = sources.get(copy.src_copy, (None, None))
            reason = None if death is None else REASONS[death - 1]
            where = {"day": self.trace.day, "run": self.trace.run, "test": key[0], "vhost": key[1]}
            for _ in copy.of("enqueued"):
                yield {**where, "from_queue": queue, "reason": reason, "to_queue": key[2]}


def _action(events: list[Row]) -> str | None:
    """Return what the client did that got a copy by the first of these events."""
    at = next((at for at, event in enumerate(events) if event["kind"] in SETTLES), None)
    if at is not None and events[at]["kind"] in ("nacked", "rejected"):
        at = at + 1 if at + 1 < len(events) else None
    if at is None:
        return None
    kind, reason = events[at]["kind"], events[at].get("reason")
    if kind == "acked":
        return "no_ack" if reason == "no_ack" else "acked"
    if kind in ("dead_lettered", "dropped"):
        return "rejected" if reason == "rejected" else None
    return "requeued" if kind == "requeued" and reason in ("nacked", "rejected", "recovered") else None


def _shapes(files: list[_File]) -> tuple[list[Row], list[Row]]:
    """Return the rows of run_shapes and run_clients."""
    defined: dict[str, dict[str, Row]] = defaultdict(dict)
    fields: Counter[tuple[Any, ...]] = Counter()
    clients: Counter[tuple[Any, ...]] = Counter()
    commits = {file.trace.run: file.trace.commit for file in files}
    began = {file.trace.run: file.trace.began for file in files}
    for file in files:
        for event in file.events:
            if event["kind"] == "shape":
                attrs = json.loads(event["attrs"])
                if "shape" in event:
                    defined[file.trace.run][event["shape"]] = {**event, **attrs}
                for field_name, words in attrs.get("words", {}).items():
                    for word, n in words.items():
                        fields[(*_kind(file, event, {**event, **attrs}), field_name, "word", word)] += n
    for file in files:
        for client, event, action, queue in file.shapes(defined[file.trace.run]):
            shape = defined[file.trace.run][event["shape"]]
            kind = _kind(file, event, shape)
            if action:
                clients[(*kind, client, action, queue)] += 1
                continue
            for field_name, types in shape["fields"].items():
                for name in [name for name in types if name != "absent"] + ["present"] * ("absent" not in types):
                    fields[(*kind, field_name, name, None)] += 1
    names = ("day", "run", "vhost", "exchange", "routing_key", "name")
    shapes = [dict(zip((*names, "field", "type", "word"), key, strict=True), n=n) for key, n in fields.items()]
    for row in shapes:
        row.update(commit=commits[row["run"]], began=began[row["run"]])
    clients_names = (*names, "client", "action", "queue")
    return shapes, [dict(zip(clients_names, key, strict=True), n=n) for key, n in clients.items()]


def _kind(file: _File, event: Row, shape: Row) -> tuple[Any, ...]:
    where = (file.trace.day, file.trace.run, event.get("vhost"))
    return (*where, shape["exchange"], shape["routing_key"], shape["name"])


def _absent(rows: list[Row]) -> list[Row]:
    """Return rows for the fields that objects of messages of one kind lack."""
    counts = {(row["field"], row["type"]): row["n"] for row in rows if row["word"] is None}
    found = []
    for name in {name for name, _ in counts}:
        above, _, last = name.rpartition(".")
        above = f"{above}.$" if above in ("body", "headers", "properties") else above
        n = counts.get((above, "object"), 0) - counts.get((name, "present"), 0)
        if n > 0 and last != "$" and last[0] != "{" and not last.endswith("[]"):
            found.append({**rows[0], "field": name, "type": "absent", "word": None, "n": n})
    return found


def _message_shapes(run_shapes: list[Row]) -> list[Row]:
    kind = ("vhost", "exchange", "routing_key", "name")
    found: list[Row] = []
    for key, rows in _grouped(run_shapes, *kind).items():
        of_kind: list[Row] = []
        for (name, of_type, word), alike in _grouped(rows, "field", "type", "word").items():
            alike.sort(key=lambda row: (row["began"] or -math.inf, row["day"] or date.min, row["run"]))
            of_kind.append(
                {
                    **dict(zip(kind, key, strict=True)),
                    "field": name,
                    "type": of_type,
                    "word": word,
                    "n": sum(row["n"] for row in alike),
                    "runs": len({row["run"] for row in alike}),
                    "first_run": alike[0]["run"],
                    "first_commit": alike[0]["commit"],
                    "last_run": alike[-1]["run"],
                    "last_commit": alike[-1]["commit"],
                }
            )
        nothing = dict.fromkeys(("runs", "first_run", "first_commit", "last_run", "last_commit"))
        found += of_kind + [{**row, **nothing} for row in _absent(of_kind)]
    return found


def _consumer_of(event: Row) -> tuple[Any, ...]:
    return tuple(event.get(name) for name in ("test", "vhost", "queue", "conn", "chan", "consumer"))


def _max_depth(copies: list[_Copy]) -> int:
    changes = []
    for copy in copies:
        begin, end = copy.enqueued_seq, copy.first(ENDS)
        if begin is not None:
            changes.append((begin, 1))
            if end is not None and end > begin:
                changes.append((end, -1))
    depth = deepest = 0
    for _, change in sorted(changes):
        depth += change
        deepest = max(deepest, depth)
    return deepest


def _is_younger(other: _Copy, copy: _Copy) -> bool:
    if other.enqueued_seq is None or copy.enqueued_seq is None:
        return False
    return other.enqueued_seq > copy.enqueued_seq


def _is_late(copy: _Copy, siblings: list[_Copy]) -> bool:
    mine = copy.delivered_seq
    if mine is None:
        return False
    return any(
        other.delivered_seq is not None and other.delivered_seq < mine for other in siblings if _is_younger(other, copy)
    )


def _is_passed(copy: _Copy, siblings: list[_Copy]) -> bool:
    if not (copy.is_open and copy.is_ready):
        return False
    since = copy.events[-1]["seq"]
    return any(
        other.delivered_seq is not None and other.delivered_seq > since
        for other in siblings
        if _is_younger(other, copy)
    )


def _is_unordered(copy: _Copy, siblings: list[_Copy]) -> bool:
    times = len(copy.of("enqueued"))
    message = copy.events[0]["msg"]
    return times > 1 or (
        times == 1 and any(other.events[0]["msg"] <= message for other in siblings if _is_younger(other, copy))
    )


def _bucket(span: int) -> int:
    return 0 if span == 0 else math.floor(math.log(span) / math.log(1.02)) + 1


def _counted(rows: list[Row], name: str) -> list[Row]:
    counts = Counter(tuple(row.items()) for row in rows)
    return [{**dict(items), name: count} for items, count in counts.items()]


def _grouped(rows: list[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def _latency_hist(copies: list[Row]) -> list[Row]:
    found = []
    for row in copies:
        instants = (row["enqueued_at"], row["first_delivered_at"], row["settled_at"])
        for measure, (begin, end) in zip(("wait", "process"), pairwise(instants), strict=True):
            if begin is not None and end is not None and end >= begin:
                where = {name: row[name] for name in ("day", "run", "vhost", "queue")}
                found.append({**where, "measure": measure, "bucket": _bucket(end - begin)})
    return _counted(found, "n")


def _queue_stats(queues: list[Row], histograms: list[Row]) -> list[Row]:
    key = ("day", "run", "vhost", "queue")
    summed = ["copies", "deliveries", "redeliveries", "acked", "leaked", "dropped"]
    summed += [f"dead_{reason}" for reason in REASONS]
    buckets: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    for row in histograms:
        buckets[(*(row[name] for name in key), row["measure"])][row["bucket"]] = row["n"]
    return [
        {
            **dict(zip(key, values, strict=True)),
            **{name: sum(row[name] for row in rows) for name in summed},
            "max_depth": max(row["max_depth"] for row in rows),
            "wait_hist": buckets[(*values, "wait")],
            "process_hist": buckets[(*values, "process")],
        }
        for values, rows in _grouped(queues, *key).items()
    ]


def _consumer_stats(consumers: list[Row]) -> list[Row]:
    key = ("day", "run", "vhost", "queue", "consumer")
    summed = ("deliveries", "redeliveries", "acked", "nacked", "rejected")
    return [
        {
            **dict(zip(key, values, strict=True)),
            **{name: sum(row[name] for row in rows) for name in summed},
            "max_unacked": max(row["max_unacked"] for row in rows),
        }
        for values, rows in _grouped([row for row in consumers if row["consumer"] is not None], *key).items()
    ]


def _lineage(rows: list[Row]) -> list[Row]:
    key = ("vhost", "from_queue", "reason", "to_queue")
    return [
        {
            **dict(zip(key, values, strict=True)),
            "n": sum(row["n"] for row in group),
            "runs": len({row["run"] for row in group}),
            "tests": len({row["test"] for row in group if row["test"] is not None}),
        }
        for values, group in _grouped(rows, *key).items()
    ]


def _label(vhost: str | None, name: str) -> str:
    return name if vhost in (None, "/") else f"{vhost}/{name}"


def _run_coverage(found: dict[str, list[Row]]) -> list[Row]:
    declared: set[tuple[Any, ...]] = set()
    used: Counter[tuple[Any, ...]] = Counter()
    for row in found["control"]:
        where, attrs = (row["day"], row["run"]), json.loads(row["attrs"] or "{}")
        if row["kind"] == "exchange_declare":
            declared.add((*where, "exchange", _label(row["vhost"], row["exchange"])))
        if row["kind"] == "queue_declare":
            queue = _label(row["vhost"], row["queue"])
            declared.add((*where, "queue", queue))
            if target := attrs.get("arguments", {}).get("x-dead-letter-exchange"):
                declared.add((*where, "dlx", f"{queue} -> {target}"))
        if row["kind"] == "consume":
            declared.add((*where, "consumer", _label(row["vhost"], row["queue"])))
    for row in found["routes"]:
        where = (row["day"], row["run"])
        if row["kind"] == "enqueued":
            used[(*where, "queue", _label(row["vhost"], row["queue"]))] += row["n"]
        else:
            used[(*where, "exchange", _label(row["vhost"], row["exchange"]))] += row["n"]
        if row["kind"] == "dead_lettered":
            used[(*where, "dlx", f"{_label(row['vhost'], row['queue'])} -> {row['exchange']}")] += row["n"]
    for row in found["consumers"]:
        if row["consumer"] is not None:
            name = _label(row["vhost"], row["queue"])
            used[row["day"], row["run"], "consumer", name] += row["deliveries"]
    for (day, run, vhost), rows in _grouped(found["control"], "day", "run", "vhost").items():
        bindings = _bindings(rows)
        declared |= {(day, run, "binding", name) for *_, name in bindings}
        for row in found["routes"]:
            if (row["day"], row["run"], row["vhost"], row["kind"]) == (day, run, vhost, "enqueued"):
                for name in _used_bindings(row, bindings):
                    used[day, run, "binding", name] += row["n"]
    names = ("day", "run", "kind", "name")
    return [
        {**dict(zip(names, key, strict=True)), "declared": key in declared, "messages": used[key]}
        for key in declared | set(used)
    ]


def _bindings(control: list[Row]) -> set[tuple[str, str, str, str, str, str]]:
    """Return the bindings of one virtual host: source, its type, key, kind of destination, destination, name."""
    types = {"amq.topic": "topic", "amq.direct": "direct"}
    for row in control:
        attrs = json.loads(row["attrs"] or "{}")
        if row["kind"] == "exchange_declare" and attrs.get("type"):
            types[row["exchange"]] = attrs.get("arguments", {}).get("x-delayed-type", attrs["type"])
    found = set()
    for row in control:
        if row["kind"] == "bind":
            attrs = json.loads(row["attrs"] or "{}")
            kind = attrs.get("destination_kind", "queue")
            destination = attrs.get("destination", row["queue"])
            key = row["routing_key"] or ""
            arrow = "=>" if kind == "exchange" else "->"
            name = f"{_label(row['vhost'], row['exchange'])} {arrow} {destination} ({key})"
            found.add((row["exchange"], types.get(row["exchange"], ""), key, kind, destination, name))
    return found


def _used_bindings(route: Row, bindings: set[tuple[str, str, str, str, str, str]]) -> set[str]:
    reached, news, used = {route["exchange"]}, [route["exchange"]], set()
    while news:
        source = news.pop()
        for exchange, kind, key, destination_kind, destination, name in bindings:
            if exchange != source or not _matches(kind, key, route["routing_key"] or ""):
                continue
            if destination_kind == "exchange":
                used.add(name)
                if destination not in reached:
                    reached.add(destination)
                    news.append(destination)
            elif destination == route["queue"]:
                used.add(name)
    return used


def _matches(kind: str, binding_key: str, routing_key: str) -> bool:
    if kind == "direct":
        return binding_key == routing_key
    if kind == "topic":
        return _matches_topic(_words(binding_key), _words(routing_key))
    return True


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _matches_topic(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_matches_topic(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _matches_topic(pattern[1:], words[1:])


def _coverage(rows: list[Row]) -> list[Row]:
    return [
        {
            "kind": kind,
            "name": name,
            "declared_in": sum(row["declared"] for row in group),
            "exercised_in": sum(row["messages"] > 0 for row in group),
            "messages": sum(row["messages"] for row in group),
            "never": not any(row["messages"] > 0 for row in group),
        }
        for (kind, name), group in _grouped(rows, "kind", "name").items()
    ]


def _fingerprints(found: dict[str, list[Row]], commits: dict[str, str | None]) -> list[Row]:
    copies = _grouped([row for row in found["copies"] if row["test"] is not None], "day", "run", "test")
    tests = _grouped(found["tests"], "day", "run", "test")
    rows = []
    for key in {**tests, **copies}:
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in copies.get(key, []):
            groups[row["queue"], _outcome_of(row)].append(row)
        parts = []
        for (queue, outcome), group in sorted(groups.items()):
            part = {"queue": queue, "outcome": outcome, "n": len(group)}
            parts.append({**part, "requeues": sum(row["requeues"] for row in group)})

        def began(part: Row, groups: dict[tuple[str, str], list[Row]] = groups) -> tuple[Any, ...]:
            seqs = [row["enq_seq"] for row in groups[part["queue"], part["outcome"]] if row["enq_seq"] is not None]
            return (bool(seqs), min(seqs, default=0), *part.values())

        by_worker = sorted(tests.get(key, []), key=lambda row: row["worker"])
        rows.append(
            {
                **dict(zip(("day", "run", "test"), key, strict=True)),
                "commit": commits[key[1]],
                "outcome": by_worker[0]["outcome"] if by_worker else None,
                "fp": _digest(parts),
                "order_fp": _digest(sorted(parts, key=began)),
                "parts": parts,
            }
        )
    return rows


def _outcome_of(row: Row) -> str:
    names = {"acks": "acked", "dead_letters": "dead_lettered", "drops": "dropped", "expiries": "expired"}
    for column, outcome in {**names, "purges": "purged"}.items():
        if row[column]:
            return outcome
    if row["last_seq"] == row["last_deliver_seq"]:
        return "unacked"
    return "ready" if row["last_seq"] == row["ready_seq"] else "undecided"


def _digest(parts: list[Row]) -> str:
    texts = [":".join(str(value) for value in part.values()) for part in parts]
    return sha256("\n".join(texts).encode()).hexdigest()


def _flaky(fingerprints: list[Row]) -> list[Row]:
    rows = []
    # How far a test got before its run was killed is no behaviour.
    ended = [row for row in fingerprints if row["outcome"] is not None]
    for (commit, test), group in _grouped(ended, "commit", "test").items():
        behaviours = Counter(row["fp"] for row in group)
        shares = [count / len(group) for count in behaviours.values()]
        parts = Counter(tuple(part.items()) for row in group for part in row["parts"])
        differing = [dict(part)["queue"] for part, count in parts.items() if count < len(group)]
        rows.append(
            {
                "commit": commit,
                "test": test,
                "behaviours": len(behaviours),
                "runs": len(group),
                "entropy": round(sum(-share * math.log2(share) for share in shares), 6),
                "first_differing_queue": min(differing, default=None),
            }
        )
    return rows


TEST_OUTCOMES = ["passed", "xfailed", "skipped", "xpassed", "failed", "error"]
SERIES = ["test", "vhost", "queue", "measure", "reason", "to_queue", "exchange", "routing_key", "name", "field"]


def _run_counts(found: dict[str, list[Row]], traces: list[Trace]) -> list[Row]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in found["copies"]:
        if row["enq_seq"] is not None and row["src_copy"] is None:
            counts[row["day"], row["run"], row["test"], row["vhost"], row["queue"], "published", None, None] += 1
    for row in found["test_queues"]:
        for name in ("redeliveries", "leaked", "dropped", "late"):
            key = (row["day"], row["run"], row["test"], row["vhost"], row["queue"], name, None, None)
            counts[key] += row[name]
        key = (row["day"], row["run"], row["test"], row["vhost"], row["queue"], "depth", None, None)
        counts[key] = max(counts[key], row["max_depth"])
    for row in found["messages"]:
        if not row["copies"] and not row["returned"]:
            counts[row["day"], row["run"], row["test"], row["vhost"], None, "dropped", None, None] += 1
    for row in found["run_lineage"]:
        way = (row["from_queue"], "dead_letters", row["reason"], row["to_queue"])
        counts[row["day"], row["run"], row["test"], row["vhost"], *way] += row["n"]
    for key, of in _grouped(found["latency_hist"], "day", "run", "vhost", "queue", "measure").items():
        if key[-1] == "wait":
            buckets = sorted(row["bucket"] for row in of for _ in range(row["n"]))
            counts[*key[:2], None, *key[2:], None, None] = round(1.02 ** max(buckets[(len(buckets) - 1) // 2], 0))
    for row in found["run_shapes"]:
        if row["word"] is None and row["type"] != "present":
            place = (row["exchange"], row["routing_key"], row["name"], row["field"])
            counts[row["day"], row["run"], None, row["vhost"], None, "shape", row["type"], None, *place] = 1
    for trace in traces:
        for event in trace.events:
            if event["kind"] == "refused":
                code = str(json.loads(event["attrs"])["code"])
                counts[trace.day, trace.run, event.get("test"), event.get("vhost"), None, "refused", code, None] += 1
    rows = [(*key, n) for key, n in counts.items() if n]
    for row in found["tests"]:
        if row["outcome"] is not None:
            of_test = (row["day"], row["run"], row["test"], None, None, "outcome", None, None)
            rows.append((*of_test, TEST_OUTCOMES.index(row["outcome"])))
    about = {trace.run: {"began": trace.began, "commit": trace.commit} for trace in traces}
    longer = [(*row[:-1], *[None] * (len(SERIES) + 3 - len(row)), row[-1]) for row in rows]
    return [dict(zip(("day", "run", *SERIES, "n"), row, strict=True)) | about[row[1]] for row in longer]


def _changes(counts: list[Row]) -> list[Row]:
    times = {row["run"]: (row["began"] or 0, row["day"] or date.min, row["run"]) for row in counts}
    commits = {row["run"]: row["commit"] for row in counts}
    every: dict[tuple[Any, ...], tuple[list[str], list[int]]] = {}
    for (test,), of_test in _grouped(counts, "test").items():
        ended = [row for row in of_test if row["measure"] == "outcome"]
        counted = [row for row in ended if row["n"] != 2] if test is not None else of_test
        for key, series in _grouped(of_test, *SERIES).items():
            of = {"outcome": ended, "wait": series, "depth": series, "shape": []}.get(key[3], counted)
            if key[3] == "shape":
                of = [row for row in of_test if row["measure"] == "shape" and _kind_of(row) == _kind_of(series[0])]
            runs = sorted({row["run"] for row in of}, key=times.__getitem__)[-100:]
            by_run = {run: [row["n"] for row in series if row["run"] == run] for run in runs}
            is_highest = key[3] in ("outcome", "depth", "wait", "shape")
            every[key] = runs, [max(of, default=0) if is_highest else sum(of) for of in by_run.values()]
    _adjust_waits(every)
    spells = {measure: _spell(every, measure) for measure in {key[3] for key in every}}
    changed: list[list[Row]] = []
    for key, (runs, values) in every.items():
        found: list[Row] = []
        for start, kind, before, after, length, later, holds, chance in _changes_in(values, key[3], spells[key[3]]):
            row = dict(zip(SERIES, key, strict=True)) | {"kind": kind, "before": before, "after": after}
            row |= {"since_run": None, "since_commit": None, "commit_before": None, "holds": holds}
            if start is not None:
                row |= {"since_run": runs[start], "since_commit": commits[runs[start]]}
                row |= {"commit_before": commits[runs[start - 1]]}
            row |= {"runs_before": length, "runs_after": later, "chance": float(f"{chance:.3g}")}
            found.append(row)
        changed += [found] if found else []
    varying = sum(len(set(values)) > 1 for _, values in every.values())
    least = sorted(min(row["chance"] for row in of) for of in changed)
    kept = max((rank for rank, chance in enumerate(least, 1) if chance * varying <= 0.1 * rank), default=0)
    return [row for of in changed for row in of if kept and min(each["chance"] for each in of) <= least[kept - 1]]


def _kind_of(row: Row) -> tuple[Any, ...]:
    return row["vhost"], row["exchange"], row["routing_key"], row["name"]


def _adjust_waits(every: dict[tuple[Any, ...], tuple[list[str], list[int]]]) -> None:
    ratios: dict[str, list[float]] = defaultdict(list)
    waits = [key for key in every if key[3] == "wait"]
    for key in waits:
        usual = max(_median(every[key][1]), 1)
        for run, value in zip(*every[key], strict=True):
            ratios[run].append(max(value, 1) / usual)
    slow = {run: statistics.median(of) for run, of in ratios.items() if len(of) >= 3}
    for key in waits:
        runs, values = every[key]
        every[key] = runs, [round(value / slow.get(run, 1.0)) for run, value in zip(runs, values, strict=True)]


def _spell(every: dict[tuple[Any, ...], tuple[list[str], list[int]]], measure: str) -> float:
    """Return how many runs of a measure count as one."""
    spread = alike = 0.0
    count = 0
    for key, (_, values) in every.items():
        if key[3] == measure and values:
            edges = [0, *_steps(values), len(values)]
            for side in [values[start:end] for start, end in pairwise(edges)]:
                signs = [(value > _median(side)) - (value < _median(side)) for value in side]
                rest = [sign - sum(signs) / len(signs) for sign in signs]
                spread += sum(value**2 for value in rest)
                alike += sum(left * right for left, right in pairwise(rest))
                count += len(side) if any(rest) else 0
    correlation = alike / spread if spread else 0.0
    return (1 + correlation) / (1 - min(correlation, 0.99)) if correlation * math.sqrt(count) >= 2 else 1.0


def _changes_in(values: list[int], measure: str, spell: float) -> list[tuple[Any, ...]]:
    if len(values) < 6 or len(set(values)) == 1:
        return []
    if measure not in ("outcome", "wait", "shape"):
        middles = [_median(values[at : at + 3]) for at in range(len(values) - 2)]
        smooth = [middles[0], *middles, middles[-1]]
        start = max(at for at, value in enumerate(smooth) if value == min(smooth)) + 1
        risen = values[start:]
        if len(risen) >= 8 and _rises(risen):
            since, before = (start, smooth[start - 1]) if start >= 3 else (None, values[0])
            chance = math.erfc(_trend(risen) / math.sqrt(2))
            return [(since, "growth", before, max(values[-2:]), start, len(risen), True, chance)]
    chances = {at: of ** (1 / spell) for at, of in _steps(values).items() if of ** (1 / spell) <= 0.01}
    edges = [0, *chances, len(values)]
    parts = [values[start:end] for start, end in pairwise(edges)]
    steps = [
        (start, "step", _median(left), _median(right), len(left), len(right), start == edges[-2], chances[start])
        for start, (left, right) in zip(edges[1:], pairwise(parts), strict=False)
        if _median(left) != _median(right) and (measure != "wait" or _is_longer(*sorted(map(_median, (left, right)))))
    ]
    if steps or measure in ("published", "depth", "wait", "shape"):
        return steps
    return _rate([n >= (4 if measure == "outcome" else 1) for n in values], spell)


def _is_longer(shorter: int, longer: int) -> bool:
    return longer >= 2 * shorter and longer - shorter >= 10_000


def _rate(is_bad: list[bool], spell: float) -> list[tuple[Any, ...]]:
    count, bad = len(is_bad), sum(is_bad)
    if bad in (0, count):
        return []
    places, every = range(3, count - 2), math.comb(count, bad)

    def tail(first: int, of_them: int) -> Fraction:
        ways = [math.comb(first, n) * math.comb(count - first, bad - n) for n in range(bad + 1)]
        return Fraction(min(sum(ways[: of_them + 1]), sum(ways[of_them:])), every)

    observed = {first: tail(first, sum(is_bad[:first])) for first in places}
    at = min(observed, key=observed.__getitem__)
    before, after = sum(is_bad[:at]), sum(is_bad[at:])
    if observed[at] > 0.005 or before * (count - at) == after * at:
        return []
    # In how many orders of the runs no place is as unlikely: those with so many bad ones among the first.
    ways = {0: 1}
    for first in range(1, count + 1):
        longer: Counter[int] = Counter()
        for of_them, n in ways.items():
            longer[of_them] += n
            longer[of_them + 1] += n
        ways = {
            of_them: n
            for of_them, n in longer.items()
            if of_them <= bad and not (first in places and tail(first, of_them) <= observed[at])
        }
    chance = max(1 - Fraction(ways.get(bad, 0), every), observed[at])
    adjusted = float(chance) ** (1 / spell)
    return [(at, "rate", before, after, at, count - at, True, adjusted)] if adjusted <= 0.005 else []


def _median(values: list[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]


def _rises(values: list[int]) -> bool:
    size, longer = divmod(len(values), 4)
    lengths = [size + (number < longer) for number in range(4)]
    ends = [sum(lengths[: number + 1]) for number in range(4)]
    quarters = [_median(values[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    return all(left < right for left, right in pairwise(quarters)) and _trend(values) >= 3.29


def _trend(values: list[int]) -> float:
    pairs = [(values[i], values[j]) for j in range(len(values)) for i in range(j)]
    score = sum((right > left) - (right < left) for left, right in pairs)
    sizes = [len(values), *Counter(values).values()]
    spreads = [count * (count - 1) * (2 * count + 5) for count in sizes]
    variance = (spreads[0] - sum(spreads[1:])) / 18
    return score / math.sqrt(variance) if variance else 0.0


def _steps(values: list[int]) -> dict[int, float]:
    """Return where levels begin, with the chance of each."""
    count, best, at = len(values), Fraction(-1), 0
    if count < 6:
        return {}
    # How many pairs of a value before the cut and one after it rise, less those that fall.
    excess = 0
    for size in range(1, count - 2):
        moved, left, right = values[size - 1], values[: size - 1], values[size:]
        excess += sum((value > moved) - (value < moved) for value in right)
        excess -= sum((value < moved) - (value > moved) for value in left)
        if size >= 3 and Fraction(excess * excess, size * (count - size)) > best:
            best, at = Fraction(excess * excess, size * (count - size)), size
    before, after = _median(values[:at]), _median(values[at:])
    if not at or before == after:
        return {}
    middle = Fraction(before + after, 2)
    high = [(value > middle) == (after > before) for value in values if value != middle]
    right = [(value > middle) == (after > before) for value in values[at:] if value != middle]
    total, later = sum(high), sum(right)
    ways = sum(
        math.comb(total, n) * math.comb(len(high) - total, len(right) - n)
        for n in range(later, min(total, len(right)) + 1)
    )
    chance = ways * (count - 5) / math.comb(len(high), len(right))
    if chance > 0.01:
        return {}
    return {**_steps(values[:at]), at: chance, **{at + more: of for more, of in _steps(values[at:]).items()}}
