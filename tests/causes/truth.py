"""Whether a sentence about a cause is true of the recorded events.

Each rule reads one sentence as a person does, and counts again in the events what it claims. Nothing here uses the
diagnosis or the package of the story.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

# A number of messages, and a name in quotes.
_MESSAGES = r"(?P<m>#\d+(?:, #\d+)*(?: and #\d+)?(?: and \d+ more)?)"
_QUEUE = r"'(?P<q>[^']*)'"
_DELIVERED = ("delivered", "got")
_SETTLED = ("acked", "nacked", "rejected")
_SPAN = re.compile(r"(\d+(?:\.\d+)?) (ms|s|min|h)")
_UNITS = {"ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9}
Event = Any
Copy = list[Event]


class Facts:
    """What the events of one broker show until a test failed, in order."""

    def __init__(self, events: Iterable[Event], now: int) -> None:
        self.events = list(events)
        self.now = now
        self.published = {e.message.id: (at, e) for at, e in enumerate(self.events) if e.kind == "published"}
        self.names = {e.conn: e.client for e in self.events if e.kind == "conn_open"}
        self._copies: dict[int, Copy] = {}
        for event in self.events:
            if event.get("copy") is not None:
                self._copies.setdefault(event.copy, []).append(event)

    def name(self, conn: int | None) -> str:
        """Return what a client calls itself."""
        return "the test" if conn is None else str(self.names.get(conn) or "a client")

    def is_named(self, text: str, conn: int | None) -> bool:
        """Return whether a text names a connection, or the client that opened it."""
        return text == self.name(conn) or f"(c{conn}" in text or (conn is None and text.startswith("the test"))

    def copies(self, message: int, queue: str | None = None) -> list[Copy]:
        """Return what happened to each copy of a message, or to those in one queue."""
        return [
            copy for copy in self._copies.values() if copy[0].message.id == message and queue in (None, copy[0].queue)
        ]

    def last_copies(self, message: int, queue: str, kind: str, reason: str | None = None) -> list[Copy]:
        """Return the copies of a message in a queue that ended in a way."""
        ended = (copy for copy in self.copies(message, queue) if copy[-1].kind == kind)
        return [copy for copy in ended if reason is None or copy[-1].get("reason") == reason]

    def of_kind(self, *kinds: str) -> list[Event]:
        """Return the events of some kinds."""
        return [event for event in self.events if event.kind in kinds]

    def holds(self, holder: str, message: int, queue: str, *, until_it_left: bool = False) -> Event | None:
        """Return the delivery with which a client holds a message, or held it until it left."""
        for copy in self.copies(message, queue):
            held = [event for event in copy if event.kind in _DELIVERED]
            is_held = copy[-1].kind in _DELIVERED or (until_it_left and copy[-1].get("reason") == "channel_closed")
            if held and is_held and self.is_named(holder, held[-1].conn):
                return held[-1]
        return None

    def bindings(self, until: int) -> list[Event]:
        """Return the bindings that existed before an event."""
        bound: dict[tuple[Any, ...], Event] = {}
        for event in self.events[:until]:
            if event.kind in ("bind", "unbind"):
                key = (event.exchange, event.destination_kind, event.destination, event.routing_key)
                bound[(*key, repr(event.arguments))] = event
            elif event.kind in ("queue_delete", "exchange_delete"):
                gone = event.get("queue") or event.get("exchange")
                bound = {key: one for key, one in bound.items() if gone not in (one.destination, one.exchange)}
        return [event for event in bound.values() if event.kind == "bind"]

    def has_queue(self, name: str, until: int) -> bool:
        """Return whether a queue existed before an event."""
        about = [e for e in self.events[:until] if e.kind in ("queue_declare", "queue_delete") and e.queue == name]
        return bool(about) and about[-1].kind == "queue_declare"

    def arguments(self, queue: str) -> dict[str, Any]:
        """Return the arguments with which a queue was declared."""
        declared = [event for event in self.of_kind("queue_declare") if event.queue == queue]
        arguments = declared[-1].arguments if declared else None
        plain = arguments.to_python() if hasattr(arguments, "to_python") else arguments
        return dict(plain or {})


def problems_of(sentence: str, facts: Facts) -> list[str]:
    """Return what a sentence says that the events do not show."""
    for pattern, rule in RULES.items():
        found = re.fullmatch(pattern, sentence)
        if found is not None:
            missing = [number for number in _numbers(found.groupdict().get("m") or "") if number not in facts.published]
            if missing:
                return [f"no publish shows {missing}"]
            return [problem for problem in rule(facts, found.groupdict()) if problem]
    return ["no row of RULES in tests/causes/truth.py reads this sentence"]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"#(\d+)", text)]


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)


def _us(text: str) -> float:
    return sum(float(number) * _UNITS[unit] for number, unit in _SPAN.findall(text))


def _publisher(facts: Facts, message: int, name: str | None) -> str:
    published = facts.published.get(message)
    if published is None:
        return f"#{message} was never published"
    is_right = name is None or facts.is_named(name, published[1].conn)
    return "" if is_right else f"#{message} was published by {facts.name(published[1].conn)}, not {name}"


def _unrouted(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g.get("p"))
        if any(copy[0].src_copy is None for copy in facts.copies(message) if copy[0].kind == "enqueued"):
            yield f"#{message} entered a queue"
        lost = [e for e in facts.of_kind("dropped", "returned") if e.message.id == message]
        if not lost:
            yield f"nothing says that #{message} was dropped"
        if g.get("why") and message in facts.published:
            yield from _why_unrouted(facts, message, g["why"])


def _why_unrouted(facts: Facts, message: int, why: str) -> Iterable[str]:
    at, published = facts.published[message]
    exchange, key = published.message.exchange, published.message.routing_key
    names = _quoted(why)
    bound = [one for one in facts.bindings(at) if one.exchange == exchange]
    if why.startswith("there is no queue"):
        if exchange or names[0] != key:
            yield f"#{message} went to {key!r} through {exchange!r}"
        if facts.has_queue(key, at):
            yield f"queue {key!r} existed when #{message} was published"
        if any(not facts.has_queue(name, len(facts.events)) for name in names[1:]):
            yield "what it names as nearest is not there either"
        if "nor any other" in why and any(facts.has_queue(e.queue, at) for e in facts.of_kind("queue_declare")):
            yield "there was another queue"
    elif why.endswith("has no bindings"):
        if names[0] != exchange or bound:
            yield f"{exchange!r} had bindings when #{message} was published: {[one.routing_key for one in bound]}"
    elif "matches no binding" in why:
        if names[:2] != [key, exchange]:
            yield f"#{message} has {key!r} and went to {exchange!r}"
        ever = {(e.routing_key, e.destination) for e in facts.of_kind("bind") if e.exchange == exchange}
        named = re.findall(r"'([^']*)'(?: \{[^}]*\})? to '([^']*)'", why.partition(" (")[2])
        if any(pair not in ever for pair in named):
            yield f"{named} were never bound to {exchange!r}"
        if any(_matches(facts, one, key) for one in bound if one.destination_kind == "queue"):
            yield f"a binding of {exchange!r} did match {key!r}"
    elif "does not exist any more" in why:
        if not any(event.exchange == names[0] for event in facts.of_kind("exchange_delete")):
            yield f"exchange {names[0]!r} was never deleted"
    elif "its headers match no binding" in why:
        if names[0] != exchange:
            yield f"#{message} went to {exchange!r}"
    elif "was deleted" in why or "expired" in why:
        bound = {e.destination for e in facts.events[:at] if e.kind == "bind" and e.exchange == exchange}
        if names[0] not in (bound if exchange else {key}):
            yield f"{names[0]!r} is no queue for #{message}"
        if not any(event.queue == names[0] for event in facts.of_kind("queue_delete")):
            yield f"queue {names[0]!r} was never deleted"
    elif "had no such binding yet" in why:
        later = [e for e in facts.events[at:] if e.kind == "bind" and e.exchange == exchange]
        if names[0] != exchange or not {e.destination for e in later} >= set(names[1:]):
            yield f"{exchange!r} was not bound to {names[1:]} later"
    elif "leads to exchange" not in why:
        yield f"no rule reads the reason {why!r}"


def _matches(facts: Facts, binding: Event, key: str) -> bool:
    types = {e.exchange: e.type for e in facts.of_kind("exchange_declare")}
    kind = types.get(binding.exchange, binding.exchange.removeprefix("amq."))
    if kind == "fanout":
        return True
    if kind == "direct":
        return bool(binding.routing_key == key)
    if kind != "topic":
        return False
    words = [re.escape(word) for word in binding.routing_key.split(".")]
    pattern = r"\.".join(words).replace(r"\*", r"[^.]*").replace(r"\#\.", r"(?:.*\.)?").replace(r"\.\#", r"(?:\..*)?")
    return re.fullmatch(pattern.replace(r"\#", ".*"), key) is not None


def _before_binding(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield from _unrouted(facts, {"m": f"#{message}", "p": g["p"]})
        at, published = facts.published.get(message, (0, None))
        for queue in _quoted(g["qs"]):
            later = [e for e in facts.events[at:] if e.kind == "bind" and e.destination == queue]
            if not any(one.exchange == g["x"] and _matches(facts, one, published.message.routing_key) for one in later):
                yield f"{queue!r} was not bound to {g['x']!r} after #{message}"
            earlier = [one for one in facts.bindings(at) if (one.exchange, one.destination) == (g["x"], queue)]
            if any(_matches(facts, one, published.message.routing_key) for one in earlier):
                yield f"{queue!r} was bound before #{message}"


def _before_queue(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield from _unrouted(facts, {"m": f"#{message}", "p": g["p"]})
        at, published = facts.published.get(message, (0, None))
        if published is not None and published.message.routing_key != g["q"]:
            yield f"#{message} was for {published.message.routing_key!r}"
        if any(e.kind == "queue_declare" and e.queue == g["q"] for e in facts.events[:at]):
            yield f"queue {g['q']!r} was declared before #{message}"
        if not any(e.kind == "queue_declare" and e.queue == g["q"] for e in facts.events[at:]):
            yield f"queue {g['q']!r} was not declared after #{message}"


def _gone(facts: Facts, g: dict[str, str], kind: str, reason: str | None) -> Iterable[str]:
    for message in _numbers(g["m"]):
        died = [copy for copy in facts.copies(message, g["q"]) if copy[-1].kind in (kind, "dead_lettered")]
        ended = [copy for copy in died if reason is None or copy[-1].get("reason") == reason]
        if not ended:
            yield f"#{message} did not end in {g['q']!r} as {kind} ({reason})"
        settled = [e for copy in ended for e in copy if e.kind in ("rejected", "nacked")]
        if g.get("by") and not any(facts.is_named(g["by"], event.conn) for event in settled):
            yield f"{g['by']} settled no copy of #{message}"
        yield from _no_letter(facts, message, g)


def _no_letter(facts: Facts, message: int, g: dict[str, str]) -> Iterable[str]:
    which, name = g.get("which") or "", facts.arguments(g["q"]).get("x-dead-letter-exchange")
    has_policy = any("policy" in str(event.call) for event in facts.of_kind("called"))
    if "has no dead-letter exchange" in which and name is not None and not has_policy:
        yield f"{g['q']!r} has the dead-letter exchange {name!r}"
    if "does not exist" in which and _quoted(which)[0] != name and not has_policy:
        yield f"{g['q']!r} has the dead-letter exchange {name!r}"
    own = {copy[0].copy for copy in facts.copies(message, g["q"])}
    if any(copy[0].get("src_copy") in own for copy in facts.copies(message)):
        yield f"#{message} lives on as a dead letter"


def _held(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        delivery = facts.holds(g["h"], message, g["q"])
        if delivery is None:
            yield f"{g['h']} does not hold #{message} of {g['q']!r}"
        elif g.get("age") and abs(_us(g["age"]) - (facts.now - delivery.at)) > max(
            0.2 * (facts.now - delivery.at), 500_000
        ):
            yield f"it was held for {(facts.now - delivery.at) / 1e6:.3f} s"
        if delivery is not None and delivery.get("consumer") is not None:
            consumed = [
                e for e in facts.of_kind("consume") if (e.conn, e.consumer) == (delivery.conn, delivery.consumer)
            ]
            if not consumed or consumed[-1].no_ack:
                yield "its consumer needs no acks"
            if g.get("n") and consumed and consumed[-1].prefetch_count != int(g["n"]):
                yield f"its prefetch is {consumed[-1].prefetch_count}"
    for other in _numbers(g.get("o") or ""):
        if not any(copy[-1].kind in ("enqueued", "requeued") for copy in facts.copies(other, g["q"])):
            yield f"#{other} does not wait in {g['q']!r}"


def _died(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    if g["error"].startswith(("Failed:", "Skipped:", "CancelledError")):
        yield "the test failed or ended there, and nothing died"
    if g["m"]:
        for message in _numbers(g["m"]):
            if facts.holds(g["h"], message, g["q"], until_it_left=True) is None:
                yield f"{g['h']} does not hold #{message} of {g['q']!r}"


def _redelivered(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        counts = [sum(e.kind in _DELIVERED for e in copy) for copy in facts.copies(message, g["q"])]
        if not any(abs(count - 1 - int(g["n"])) <= 1 for count in counts):
            yield f"#{message} was delivered {counts} times"


def _requeued(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        copies = facts.copies(message, g["q"])
        times = [
            sum(e.kind in ("nacked", "rejected") and facts.is_named(g["by"], e.conn) for e in copy) for copy in copies
        ]
        backs = [sum(e.kind == "requeued" for e in copy) for copy in copies]
        if not any(min(time, back) >= int(g["n"]) for time, back in zip(times, backs, strict=True)):
            yield f"#{message} was settled {times} times and came back {backs} times"


def _ack_lost(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    lost = {e.conn for e in facts.of_kind("conn_close") if e.reason is not None and not e.get("is_shutdown")}
    for message in _numbers(g["m"]):
        triples = [
            each for copy in facts.copies(message, g["q"]) for each in zip(copy, copy[1:], copy[2:], strict=False)
        ]
        if not any(
            one.kind in _DELIVERED
            and one.conn in lost
            and facts.is_named(g["h"], one.conn)
            and two.kind == "requeued"
            and three.kind in _DELIVERED
            and facts.is_named(g["by"], three.conn)
            for one, two, three in triples
        ):
            yield f"#{message} was not delivered again after a lost connection"


def _refused(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    said = [e for e in facts.of_kind("refused") if g["text"].startswith(str(e.text).partition("\n")[0].rstrip("."))]
    own = [e for e in said if e.client == g["c"] or facts.is_named(g["c"], e.conn)]
    if not own:
        return (yield f"{g['c']} got no such error")
    if g.get("n") and not any(int(g["n"]) == e.code for e in own):
        yield f"the codes are {[e.code for e in own]}"
    if "; it never consumed from " in g["text"] and any(e.conn == own[-1].conn for e in facts.of_kind("consume")):
        yield f"{g['c']} did consume"


def _reply_left(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    yield from _unrouted(facts, {"m": g["m"], "p": g["p"]})
    asked = facts.published.get(int(g["r"]))
    closed = {e.conn for e in facts.of_kind("conn_close")}
    if asked is None or asked[1].conn not in closed or not facts.is_named(g["a"], asked[1].conn):
        yield f"{g['a']} had not closed its connection"


def _wrong_reply(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["p"])
        own = facts.published[message][1].message.properties.correlation_id
        asked = [one for _, one in facts.published.values() if one.message.properties.correlation_id == own]
        if own != g["given"] or len(asked) > 1:
            yield f"#{message} has {own!r}, as have {[one.message.id for one in asked]}"
    if facts.published[int(g["r"])][1].message.properties.correlation_id != g["asked"]:
        yield f"#{g['r']} has another correlation id"


def _single_active(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    if facts.arguments(g["q"]).get("x-single-active-consumer") is not True:
        yield f"{g['q']!r} has no single active consumer"
    got = {facts.name(e.conn) for e in facts.of_kind("delivered") if e.queue == g["q"]}
    if g["w"] in got and g["w"] != g["a"]:
        yield f"{g['w']} did get something"
    if g["a"] not in got:
        yield f"{g['a']} got nothing"


def _shared(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    several = re.fullmatch(r"(?P<n>\d+) consumers of (?P<c>.+)", g["c"])
    names = re.split(r", | and ", g["c"] if several is None else several["c"])
    got = [e for e in facts.of_kind("delivered") if e.queue == g["q"]]
    consumers = [e for e in facts.of_kind("consume") if e.queue == g["q"]]
    if not got or not all(any(facts.is_named(name, e.conn) for e in consumers) for name in names):
        yield f"not all of {names} consume from {g['q']!r}, or nothing came"
    if several is not None and len({e.consumer for e in got}) != int(several["n"]):
        yield f"{len({e.consumer for e in got})} consumers of {g['q']!r} got something"
    for one, two in pairwise(sorted(got, key=lambda e: e.copy)):
        if one.copy == two.copy and facts.name(one.conn) != facts.name(two.conn):
            yield f"#{one.message.id} went to both"


def _elsewhere(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        by_number = {copy[0].copy: copy for copy in facts.copies(message)}
        ways = [
            (by_number.get(via[0].src_copy, via)[0].queue, via[0].queue, last[0].queue)
            for last in by_number.values()
            if (via := by_number.get(last[0].get("src_copy"))) is not None
        ]
        if g["by"] and (g["q"], g["by"], g["t"]) not in ways:
            yield f"#{message} went {ways}"


def _unconfirmed(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["c"])
        _, published = facts.published[message]
        closes = [e for e in facts.of_kind("conn_close") if e.conn == published.conn]
        if published.tag is not None or not closes or closes[-1].reason != g["reason"]:
            yield f"the connection of #{message} closed with {[e.reason for e in closes]}, its tag is {published.tag}"


def _waits(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if not any(copy[-1].kind in ("enqueued", "requeued") for copy in facts.copies(message, g["q"])):
            yield f"#{message} does not wait in {g['q']!r}"
    gone = {e.conn for e in facts.of_kind("conn_close")}
    ended = {(e.conn, e.chan) for e in facts.of_kind("chan_close")}
    cancelled = {(e.conn, e.consumer) for e in facts.of_kind("cancel")}
    if any(
        e.queue == g["q"]
        and g["v"] in (None, e.vhost)
        and e.conn not in gone
        and (e.conn, e.chan) not in ended
        and (e.conn, e.consumer) not in cancelled
        for e in facts.of_kind("consume")
    ):
        yield f"{g['q']!r} has a consumer"


def _value(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    message = _numbers(g["m"])[0]
    _, published = facts.published.get(message, (0, None))
    text = g["v"].removeprefix("b").strip("'\"")
    if published is None or text.encode() not in published.message.body:
        yield f"{g['v']} is not in #{message}"
    copies = facts.copies(message)
    states = {
        "reached no queue": not copies,
        "acked": any(copy[-1].kind == "acked" for copy in copies),
        "ready": any(copy[-1].kind in ("enqueued", "requeued") for copy in copies),
        "waits": any(copy[-1].kind in ("enqueued", "requeued") for copy in copies),
        "held": any(copy[-1].kind in _DELIVERED for copy in copies),
        "dead-lettered": any(copy[-1].kind == "dead_lettered" for copy in copies),
        "expired": any(copy[-1].kind == "expired" for copy in copies),
        "dropped": any(copy[-1].kind == "dropped" for copy in copies),
    }
    wrong = [word for word, is_so in states.items() if re.search(rf"\b{word}\b", g["became"]) and not is_so]
    if wrong:
        yield f"#{message} is not {wrong}: {[(copy[0].queue, copy[-1].kind) for copy in copies]}"
    for queue in _quoted(g["became"]):
        if not facts.copies(message, queue):
            yield f"#{message} never was in {queue!r}"


def _unacked(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        got = [e for copy in facts.copies(message, g["q"]) for e in copy if e.kind in _DELIVERED]
        if not any(facts.is_named(g["h"], event.conn) for event in got):
            yield f"{g['h']} never got #{message}"
        if any(copy[-1].kind == "acked" for copy in facts.copies(message, g["q"])):
            yield f"#{message} was acked"


def _uncommitted(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["p"])
        if facts.copies(message) and any(copy[0].kind == "enqueued" for copy in facts.copies(message)):
            yield f"#{message} was committed"


def _given_back(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        ends = [copy[-1] for copy in facts.copies(message, g["q"])]
        if not any(e.kind == "requeued" and e.reason == "channel_closed" for e in ends):
            yield f"#{message} was not given back: {[e.kind for e in ends]}"


def _auto_ack(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    taken = [e for e in facts.of_kind("acked") if e.queue == g["q"] and e.reason == "no_ack"]
    if not any(facts.is_named(g["by"], e.conn) for e in taken):
        yield f"{g['by']} got nothing of {g['q']!r} with no_ack"


def _while_handling(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        at, published = facts.published.get(message, (0, None))
        if published is None:
            yield f"#{message} was never published"
            continue
        if not any(event.kind in _DELIVERED and event.conn == published.conn for event in facts.events[:at]):
            yield f"the publisher of #{message} had got nothing to handle"
        headers = published.message.properties.to_python().get("headers") or {}
        if "without a traceparent" in g["what"] and "traceparent" in headers:
            yield f"#{message} has the traceparent {headers['traceparent']!r}"
        if "without a correlation id" in g["what"] and published.message.properties.correlation_id is not None:
            yield f"#{message} has a correlation id"


def _published_again(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in (*_numbers(g["m"]), int(g["r"])):
        yield _publisher(facts, message, g["p"])
    sent = [facts.published[number][1].message for number in (*_numbers(g["m"]), int(g["r"]))]
    bodies = {message.body for message in sent}
    if len(bodies) != 1 and b"message_id" not in sent[0].body:
        yield f"they say different things: {bodies}"
    ids = [message.properties.message_id for message in sent]
    if g.get("ids") and len(bodies) == 1 and (ids[0] == ids[1] or (ids[0] is None) != ("without" in g["ids"])):
        yield f"their ids are {ids}"


def _overtaken(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    got = {e.message.id: facts.name(e.conn) for e in facts.of_kind("delivered") if e.queue == g["q"]}
    if len({got.get(number) for number in _numbers(g["m"])}) < 2:
        yield f"they went to {got}"


def _no_priorities(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if facts.published[message][1].message.properties.priority != int(g["n"]):
            yield f"#{message} has another priority"
    if "x-max-priority" in facts.arguments(g["q"]):
        yield f"{g['q']!r} has priorities"


def _without_priority(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if facts.published[message][1].message.properties.priority is not None:
            yield f"#{message} has a priority"
    if "x-max-priority" not in facts.arguments(g["q"]):
        yield f"{g['q']!r} has no priorities"


def _taken_unacked(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    closed = {e.conn for e in facts.of_kind("conn_close")}
    for message in _numbers(g["m"]):
        taken = [copy[-1] for copy in facts.copies(message, g["q"]) if copy[-1].get("reason") == "no_ack"]
        if not any(facts.is_named(g["by"], e.conn) and e.conn in closed for e in taken):
            yield f"{g['by']} did not take #{message} with no_ack and leave"


def _expired_to(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        ended = facts.last_copies(message, g["q"], "dead_lettered", "expired")
        if not ended or not facts.copies(message, g["t"]):
            yield f"#{message} did not expire in {g['q']!r} and come to {g['t']!r}"
        elif abs(_us(g["age"]) - (ended[0][0].expires - ended[0][0].at)) > 1000:
            yield f"#{message} was to live for {ended[0][0].expires - ended[0][0].at} us"


def _rolled_back(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["p"])
        if not any(e.message.id == message and e.reason == "rolled_back" for e in facts.of_kind("dropped")):
            yield f"#{message} was not rolled back"


def _same_correlation(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["p"])
        if facts.published[message][1].message.properties.correlation_id != g["given"]:
            yield f"#{message} has another correlation id"


def _reply_to_lost(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["by"])
        if facts.published[message][1].message.properties.reply_to is not None:
            yield f"#{message} has a reply_to"
    if facts.published[int(g["r"])][1].message.properties.reply_to != g["q"]:
        yield f"#{g['r']} asks for a reply elsewhere"


def _settled_by(facts: Facts, g: dict[str, str], *kinds: str) -> Iterable[str]:
    for message in _numbers(g["m"]):
        settled = [e for copy in facts.copies(message, g["q"]) for e in copy if e.kind in kinds]
        if not any(facts.is_named(g["by"], event.conn) for event in settled):
            yield f"{g['by']} did not settle #{message} so"


def _rejected_to(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    yield from _settled_by(facts, g, "rejected", "nacked")
    for message in _numbers(g["m"]):
        if not facts.copies(message, g["t"]):
            yield f"#{message} never was in {g['t']!r}"


def _goes_round(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if len(facts.copies(message, _quoted(g["qs"])[-1])) <= int(g["n"]):
            yield f"#{message} did not come that often"


def _waiting(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if not any(copy[-1].kind in ("enqueued", "requeued") for copy in facts.copies(message, g["q"])):
            yield f"#{message} does not wait in {g['q']!r}"


def _not_due(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        due = [copy[0].expires for copy in facts.copies(message, g["q"]) if copy[-1].kind == "enqueued"]
        if not any(one and abs(one - facts.now - _us(g["d"])) <= max(0.1 * _us(g["d"]), 2_000_000) for one in due):
            yield f"it is due at {due}, and now is {facts.now}"


def _gone_to_others(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if facts.published[message][1].message.exchange != g["x"] or facts.copies(message, g["q"]):
            yield f"#{message} went to {g['q']!r} or through another exchange"


def _unpublished(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for _, event in facts.published.values():
        if g["x"] in (None, event.message.exchange) and g["k"] in (None, event.message.routing_key):
            yield f"#{event.message.id} was published there"


def _held_without_room(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        delivery = facts.holds(g["h"], message, g["q"])
        if delivery is None:
            yield f"{g['h']} does not hold #{message} of {g['q']!r}"
            continue
        if g.get("age") and abs(_us(g["age"]) - (facts.now - delivery.at)) > max(
            0.2 * (facts.now - delivery.at), 500_000
        ):
            yield f"it was held for {(facts.now - delivery.at) / 1e6:.3f} s"
        own = [e.prefetch_count for e in facts.of_kind("consume") if e.conn == delivery.conn]
        own += [e.count for e in facts.of_kind("qos") if e.conn == delivery.conn]
        if int(g["n"]) not in own:
            yield f"the limits of {g['h']} are {own}"
    for other in _numbers(g["o"]):
        if not any(copy[-1].kind in ("enqueued", "requeued") for copy in facts.copies(other)):
            yield f"#{other} does not wait"


def _for_later(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        sent = facts.published[message][1].message
        if not (sent.properties.to_python().get("headers") or {}).get("eta") and b'"eta"' not in sent.body:
            yield f"#{message} has no eta"
        if any(copy[-1].kind == "acked" for copy in facts.copies(message, g["q"])):
            yield f"#{message} was acked"


def _purged(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if not facts.last_copies(message, g["q"], "purged", "purged"):
            yield f"#{message} was not purged"


def _too_old(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    begins = [at for at, e in enumerate(facts.events) if e.kind == "consume" and e.queue == g["q"]]
    for message in _numbers(g["m"]):
        if not any(facts.published[message][0] < at for at in begins):
            yield f"#{message} is younger than any consumer"
        if any(e.kind in _DELIVERED for copy in facts.copies(message, g["q"]) for e in copy):
            yield f"#{message} was delivered"


def _came_again(facts: Facts, g: dict[str, str], *kinds: str) -> Iterable[str]:
    for message in _numbers(g["m"]):
        for copy in facts.copies(message, g["q"]):
            got = [e for e in copy if e.kind in _DELIVERED]
            pairs = [(one.conn, other.conn) for one, other in pairwise(got)]
            if not any(facts.is_named(g["h"], a) and facts.is_named(g["by"], b) for a, b in pairs):
                yield f"#{message} went to {[facts.name(e.conn) for e in got]}"
            if not any(e.kind in kinds for e in copy):
                yield f"none of {kinds} happened to #{message}"


def _published_behind(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["by"])
    taken = [e for copy in facts.copies(int(g["r"]), g["q"]) for e in copy if e.kind in _DELIVERED]
    if not any(facts.is_named(g["by"], e.conn) for e in taken):
        yield f"{g['by']} never got #{g['r']}"
    if not all(int(g["r"]) < number < max(_numbers(g["m"])) for number in _numbers(g["o"])):
        yield f"{g['o']} is not between them"


def _nothing_came(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    vhosts = {e.vhost for e in facts.of_kind("enqueued") if e.queue == g["q"]}
    if vhosts - {g["v"]}:
        yield f"messages came to {g['q']!r}"
    for message in _numbers(g["m"] or ""):
        if not facts.copies(message, g["t"]):
            yield f"#{message} never was in {g['t']!r}"


def _unbound(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        before = facts.events[: facts.published[message][0]]
        ends = [e for e in before if e.kind == "unbind" and (e.destination, e.exchange) == (g["q"], g["x"])]
        if not any(facts.is_named(g["c"], e.conn) for e in ends):
            yield f"{g['c']} did not unbind {g['q']!r} before #{message}"
        if facts.copies(message, g["q"]):
            yield f"#{message} came to {g['q']!r}"


def _prefers(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for name, priority in ((g["a"], g["n"]), (g["w"], g["l"])):
        own = [e for e in facts.of_kind("consume") if e.queue == g["q"] and facts.is_named(name, e.conn)]
        if not any((e.arguments.to_python() or {}).get("x-priority", 0) == int(priority) for e in own):
            yield f"no consumer of {name} has the x-priority {priority}"


def _came_by(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        if facts.published[message][1].message.exchange != g["x"] or not facts.copies(message, g["q"]):
            yield f"#{message} did not come to {g['q']!r} through {g['x']!r}"
    if not any(e.destination == g["q"] and e.exchange == g["x"] for e in facts.of_kind("bind")):
        yield f"{g['q']!r} is not bound to {g['x']!r}"


def _without_id(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    for message in _numbers(g["m"]):
        yield _publisher(facts, message, g["p"])
        if facts.published[message][1].message.properties.correlation_id is not None:
            yield f"#{message} has a correlation id"
    if facts.published[int(g["r"])][1].message.properties.correlation_id != g["asked"]:
        yield f"#{g['r']} has another correlation id"


def _taken_with(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    named = [copy[-1] for copy in facts.copies(int(g["r"])) if copy[-1].kind == "acked"]
    methods = {(e.conn, e.chan, e.tag) for e in named}
    for message in _numbers(g["m"]):
        acks = [copy[-1] for copy in facts.copies(message, g.get("q")) if copy[-1].kind == "acked"]
        if not any((e.conn, e.chan, e.up_to_tag) in methods and e.up_to_tag != e.tag for e in acks):
            yield f"the ack of #{g['r']} did not settle #{message}"


def _nothing(facts: Facts, g: dict[str, str]) -> Iterable[str]:
    """Read a sentence about the code, which events do not show."""
    return ()


Rule = Callable[[Facts, dict[str, str]], Iterable[str]]
_GONE = "(?:the message is|the messages are) gone"
_BY = "(?: by (?P<p>.+?))?"
RULES: dict[str, Rule] = {
    rf"(?:(?P<h>.+) held {_MESSAGES} of {_QUEUE} when )?.+ died of (?P<error>.+)": _died,
    rf"{_MESSAGES} (?:was|were) published{_BY} before (?P<qs>'.+') was bound to '(?P<x>.*)'": _before_binding,
    rf"{_MESSAGES} (?:was|were) published{_BY} before queue {_QUEUE} was declared": _before_queue,
    rf"{_MESSAGES} (?:was|were) published (?P<what>.+), while its publisher handled .+": _while_handling,
    rf"{_MESSAGES} reached no queue and (?:was|were) returned to a client that drops returns: (?P<why>.+)": _unrouted,
    rf"{_MESSAGES}(?: from (?P<p>.+?))? reached no queue: (?P<why>.+)": _unrouted,
    rf"(?P<by>.+) rejected {_MESSAGES} in {_QUEUE}(?: after .+?)?(?:, (?P<which>.+))?: {_GONE}": lambda f, g: _gone(
        f, g, "dropped", "rejected"
    ),
    rf"{_MESSAGES} reached the delivery limit of {_QUEUE}(?:, (?P<which>.+))?: {_GONE}": lambda f, g: _gone(
        f, g, "dropped", "delivery_limit"
    ),
    rf"{_MESSAGES} expired in {_QUEUE}(?:, (?P<which>.+))?: {_GONE}": lambda f, g: _gone(f, g, "expired", None),
    rf"{_QUEUE}(?:, (?P<which>.+),)? was full and dropped {_MESSAGES}: {_GONE}": lambda f, g: _gone(
        f, g, "dropped", "maxlen"
    ),
    rf"\d+ messages? of {_QUEUE} may be lost: (?P<by>.+) got them with no_ack, then .+": _auto_ack,
    rf"{_MESSAGES} of {_QUEUE} (?:was|were) redelivered (?P<n>\d+) times?, last to .+": _redelivered,
    rf"message {_MESSAGES} was delivered (?P<n>\d+) times? from (?P<q>\S+) and requeued each time: .+": _redelivered,
    rf"reply {_MESSAGES} of (?P<p>.+) to #(?P<r>\d+) reached no queue: (?P<a>.+) had closed its .+": _reply_left,
    rf"{_MESSAGES} from (?P<p>.+) answers #(?P<r>\d+) with the correlation id '(?P<given>.*)', "
    r"which fits no request: #\d+ has '(?P<asked>.*)'": _wrong_reply,
    rf"(?P<by>.+) requeued {_MESSAGES} in {_QUEUE} (?P<n>\d+) times?(?:: .+)?": _requeued,
    rf"{_MESSAGES} (?:was|were) delivered again, from {_QUEUE} to (?P<by>.+?): (?P<h>.+) lost its connection "
    r"before (?:it acked|its ack arrived)(?: \(.+\))?": _ack_lost,
    rf"(?P<p>.+) published #(?P<r>\d+) again as {_MESSAGES}(?:, (?P<ids>.+?))?(?:: .+)?": _published_again,
    rf"{_MESSAGES} (?:has|have) no priority, although {_QUEUE} has x-max-priority": _without_priority,
    rf"{_MESSAGES} reached no queue and (?:was|were) returned to (?P<p>.+)": _unrouted,
    rf"(?P<by>.+) took {_MESSAGES} from {_QUEUE} with no_ack and then closed its connection: {_GONE}": _taken_unacked,
    rf"{_MESSAGES} expired in {_QUEUE} after (?P<age>.+) and came to '(?P<t>.+)'": _expired_to,
    rf"(?P<p>.+) rolled back the transaction in which it published {_MESSAGES}": _rolled_back,
    rf"{_MESSAGES} of {_QUEUE} went to .+, so the order in which .+": _overtaken,
    rf"{_MESSAGES} has priority (?P<n>\d+), and {_QUEUE} has no x-max-priority": _no_priorities,
    rf"{_MESSAGES} of (?P<p>.+) have the same correlation id '(?P<given>.*)', so .+": _same_correlation,
    rf"(?P<by>.+) acked #(?P<r>\d+) and published no reply to {_QUEUE}, only {_MESSAGES}, which does not name it in "
    r"reply_to": _reply_to_lost,
    rf"(?P<by>.+) acked {_MESSAGES} and published no reply to '(?P<t>.*)'(?P<q>)": lambda f, g: _settled_by(
        f, {**g, "q": None}, "acked"
    ),
    rf"(?P<by>.+) acked {_MESSAGES} of {_QUEUE} after .+": lambda f, g: _settled_by(f, g, "acked"),
    rf"(?P<by>.+) rejected {_MESSAGES} of {_QUEUE}(?: after .+)?, so (?:it|they) went to '(?P<t>.*)'": _rejected_to,
    rf"{_MESSAGES} went round (?P<n>\d+) times?, by (?P<qs>.+), and never left": _goes_round,
    rf"worker '.+' ended with exit code .+ while it held {_MESSAGES} of {_QUEUE}": _given_back,
    rf"{_QUEUE} was full \(.+\) and refused {_MESSAGES}(?: of (?P<p>.+?))?(?:, published without confirms)?": (
        lambda f, g: (
            [_publisher(f, number, g["p"]) for number in _numbers(g["m"])]
            + [f"#{number} is in a queue" for number in _numbers(g["m"]) if f.copies(number)]
        )
    ),
    rf"the time of {_MESSAGES} in {_QUEUE} is over, but only the head of a queue expires: #\d+ is in .+": _waiting,
    rf"(?P<h>.+) settled {_MESSAGES} of {_QUEUE} in a transaction that it has not committed": _held,
    rf"{_MESSAGES} waits? in {_QUEUE} for (?P<d>.+) more(?:: the clock is held)?": _not_due,
    r".+ was blocked by an alarm \(.+\), so nothing that it published arrived": _nothing,
    rf"{_MESSAGES} was published to '(?P<x>.*)', and {_QUEUE}(?: of .+)? is bound to others: .+": _gone_to_others,
    r"no message was published(?: to '(?P<x>.*?)')?(?: with the routing key '(?P<k>.*)')? in this test"
    r"(?:; logged: .+)?": _unpublished,
    r"queue '.+' was deleted .+": _nothing,
    rf"(?P<h>.+) held {_MESSAGES} of {_QUEUE} without an ack(?: for (?P<age>.+))?; "
    r"its prefetch of (?P<n>\d+) kept (?P<o>#.+) back": (_held_without_room),
    rf"(?P<w>.+) got nothing from {_QUEUE}, which has a single active consumer: (?P<a>.+)": _single_active,
    rf"{_MESSAGES} left {_QUEUE} \(.+\) and came to '(?P<t>.*?)'(?:, by way of '(?P<by>.*)')?": _elsewhere,
    rf"(?P<c>.+) published {_MESSAGES} without confirms on a connection that was lost \((?P<reason>.*)\), so .+": (
        _unconfirmed
    ),
    rf"(?P<c>.+) share {_QUEUE}, so each message went to only one of them": _shared,
    rf"(?P<h>.+) still held {_MESSAGES} of {_QUEUE} when the test failed(?:, after (?P<age>.+))?": _held,
    rf"{_MESSAGES} waits? in {_QUEUE}(?: of virtual host '(?P<v>.+?)')?, which has no consumer(?:: .+)?": _waits,
    rf"{_MESSAGES} (?:is|are) ready again in {_QUEUE}, because .+ without an ack that took effect": _given_back,
    rf"(?P<p>.+) published {_MESSAGES} in a transaction that it never committed.*": _uncommitted,
    rf"(?P<v>.+) is in {_MESSAGES}, which (?P<became>.+)": _value,
    rf"(?P<h>.+) held {_MESSAGES} of {_QUEUE}(?: for (?P<age>.+))?": _unacked,
    rf"{_MESSAGES} of {_QUEUE} (?:is|are) due only at .+": _for_later,
    rf"{_MESSAGES} (?:was|were) lost when the broker restarted: .+": lambda f, g: [
        f"no restart dropped #{number}"
        for number in _numbers(g["m"])
        if not any(copy[-1].get("reason") == "restart" for copy in f.copies(number))
    ],
    rf"{_MESSAGES} (?:was|were) purged from {_QUEUE} while (?:it|they) waited": _purged,
    rf"{_MESSAGES} (?:is|are) older than the consumer of .+ on stream {_QUEUE}, which begins at .+": _too_old,
    rf"(?P<h>.+) closed its connection without an ack of {_MESSAGES}, so {_QUEUE} delivered it again, to (?P<by>.+)": (
        lambda f, g: _came_again(f, g, "requeued")
    ),
    rf"(?P<h>.+) requeued {_MESSAGES} of {_QUEUE}, so (?:it was|they were) delivered again, to (?P<by>.+)": (
        lambda f, g: _came_again(f, g, "rejected", "nacked")
    ),
    rf"(?P<by>.+) took #(?P<r>\d+) from {_QUEUE} and published it again as {_MESSAGES}, behind (?P<o>#.+)": (
        _published_behind
    ),
    rf"no message came to {_QUEUE}(?:: {_MESSAGES} went to '(?P<t>[^']*)')?(?: of virtual host '(?P<v>.+?)')?"
    r"(?:: .+)?": (_nothing_came),
    rf"(?P<c>.+) had unbound {_QUEUE} from '(?P<x>.*?)' \(.+\) before {_MESSAGES} (?:was|were) published": _unbound,
    rf"(?P<a>.+) gets the messages of {_QUEUE} first: its consumer has x-priority (?P<n>-?\d+), that of (?P<w>.+) "
    r"(?P<l>-?\d+)": _prefers,
    rf"{_MESSAGES} came to {_QUEUE} by its binding .+ to '(?P<x>[^']*)'(?:, which .+)?": _came_by,
    r"policy '.+', for names like '.+', applies to no queue": _nothing,
    r"policy '.+' does not apply to '.+': of several, only one applies, and '.+' comes first": _nothing,
    rf"{_MESSAGES} from (?P<p>.+) answers #(?P<r>\d+) without its correlation id '(?P<asked>.+)'": _without_id,
    rf"the ack of #(?P<r>\d+) was multiple and settled {_MESSAGES} of {_QUEUE} too": _taken_with,
    r".+\(\.\.\.\)(?:, at .+)?, did nothing: write await .+": _nothing,
    r"(?:perhaps )?the task that failed(?:, at .+)?: write await task, .+": _nothing,
    rf"(?P<c>.+) got (?P<n>\d+) (?P<text>.+: the ack of #(?P<r>\d+) was multiple and settled {_MESSAGES} too)": (
        lambda f, g: [*_refused(f, g), *_taken_with(f, g)]
    ),
    r"(?P<c>.+) got (?P<n>\d+) (?P<text>.+)": _refused,
    r"(?P<c>.+?): (?P<text>[A-Z_]+ - .+)": _refused,
}
