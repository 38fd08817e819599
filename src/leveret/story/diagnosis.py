"""The diagnosis of a failed test: what went wrong, as at most three causes.

A rule looks at the scene and yields a cause for what it sees: a fact, with the events that show it. Causes of a kind
that differ in their message only become one. What explains less is left out beside what explains more, and what names a
value that the test misses comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple, cast

from leveret.story.causes import Cause, ranked
from leveret.story.facts import Fact
from leveret.story.lives import CopyLife, MessageLife
from leveret.story.scene import Place, Scene, Subscription, Unsettled, is_client, property_of
from leveret.story.words import AGAIN, READY, UNACKED
from leveret.trace import events
from leveret.trace.caller import Caller

# The most causes that a diagnosis has, and the most values that it looks for.
CAUSES_MAX: Final = 3
_VALUES_MAX: Final = 20
# A message that came back this often has a problem.
_OFTEN: Final = 3
# A delay this many times as long as the others is a mistake more often than a plan.
_FACTOR: Final = 10
# A shorter time says only how fast the machine is.
_NOTABLE_US: Final = 100_000
# Causes of this rank and above say how things stand. They are left out beside one that says what happened.
_STANDING: Final = 40
# The reply code of a connection that an operator, or the test, has closed.
_FORCED: Final = 320
# From this rank on, a cause is advice.
_ADVICE: Final = 90
# The kinds that say more than others about the same message, or about the same client.
_COVERED: Final = {
    "requeued_often": ("redelivered_too_often", "loop"),
    "redelivered_too_often": ("loop",),
    "reply_to_left": ("unroutable",),
    "refused": ("redeclared_differently", "unseen_channel_error"),
    "died": ("held", "held_back", "given_back"),
    "held_back": ("held",),
}
_COVERED_BY: Final = {
    kind: [one for one, others in _COVERED.items() if kind in others] for kind in chain.from_iterable(_COVERED.values())
}
_TTL: Final = "expiration"
_DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"


class Death(NamedTuple):
    """What ended a thread or a task: what it was, its error, and the line that raised it."""

    what: str
    name: str | None
    error: str
    line: Caller | None


@dataclass(slots=True)
class Asked:
    """What a test that failed shows of itself: the values that it missed, and the threads and tasks that died."""

    values: Sequence[object] = ()
    deaths: Sequence[Death] = ()
    # The messages that the failure of an assertion is about.
    messages: Collection[int] = ()


def diagnosis(scene: Scene, found: Iterable[Cause] | None = None, asked: Asked | None = None) -> list[Cause]:
    """Return what went wrong, the worst first: at most three causes, and none rather than a wrong one.

    `scene` is that of one broker until the test failed. `found` is what its checks have found; without them, the facts
    alone show which messages are lost.
    """
    asked = asked or Asked()
    causes = list(_lost(scene)) if found is None else [_completed(scene, cause) for cause in found]
    causes += _died(scene, asked.deaths)
    for rule in _RULES:
        causes += rule(scene, asked)
    causes = list(_without_covered(causes))
    named = _saying(scene, asked.values)
    missed = {*asked.messages, *(number for numbers in named.values() for number in numbers)}
    about = {number for cause in causes for number in cause.messages}
    causes += [
        _value(scene, asked.values[at], numbers[0])
        for at, numbers in named.items()
        if len(numbers) == 1 and numbers[0] not in about
    ]
    worst = ranked(_alike(cause for cause in causes if cause.rank < _ADVICE))
    telling = [cause for cause in worst if cause.rank < _STANDING]
    # The sort keeps the order of equals: the rank decides among causes that name a value, and among the others.
    return sorted(telling or worst[:1], key=lambda cause: not missed.intersection(cause.messages))[:CAUSES_MAX]


def _completed(scene: Scene, cause: Cause) -> Cause:
    """Return the cause of a check with what the facts add: who published its message."""
    message = cause.numbers.get("message")
    if message is None:
        return cause
    names = {**cause.names, "publisher": scene.publisher(message)}
    names.pop("age", None)
    if cause.numbers.get("age", _NOTABLE_US) < _NOTABLE_US:
        cause = cause._replace(numbers={name: number for name, number in cause.numbers.items() if name != "age"})
    because = cause.because
    if cause.kind == "unroutable" and because is not None and because.kind == "bound_later":
        return cause._replace(kind="published_before_binding", names={**names, "queues": because.names["queues"]})
    if cause.kind == "unroutable" and because is not None and because.kind == "declared_later":
        return cause._replace(kind="published_before_queue", names={**names, "queue": because.names["queue"]})
    return cause._replace(names=names)


_LOST_BY: Final = {
    "rejected": "rejected_into_nothing",
    "delivery_limit": "given_up",
    "maxlen": "overflowed_into_nothing",
    "uncommitted": "uncommitted",
    "expired": "expired_into_nothing",
    events.NO_ROUTE: "unroutable",
}


def _lost(scene: Scene) -> Iterator[Cause]:
    """Yield the messages that were lost, as far as facts alone show it."""
    lost = [(life, life.lost, list[Fact]()) for life in scene.lives.values() if life.lost is not None]
    lost += [(life, copy.facts[-1], copy.facts) for life, copy in scene.copies() if copy.state in events.LOSSES]
    for life, fact, facts in sorted(lost, key=lambda each: each[0].number):
        kind = _LOST_BY.get(str(events.reason_of(fact.kind, fact.get("reason"))))
        if kind is not None:
            settler = next((one for one in reversed(facts) if one.kind in events.REFUSING), None)
            by = None if settler is None else scene.clients.name(settler.get("conn"))
            names = {"queue": fact.get("queue"), "by": by, "publisher": scene.publisher(life.number)}
            yield Cause(kind, names, {"message": life.number}, (fact,) if settler is None else (settler, fact))


def _died(scene: Scene, deaths: Sequence[Death]) -> Iterator[Cause]:
    """Yield the threads and tasks that died, with the message that their client held."""
    held: dict[str, Unsettled] = {}
    for unsettled in scene.unsettled() if deaths else ():
        held.setdefault(scene.clients.name(unsettled.delivery.get("conn")), unsettled)
    for death in deaths:
        holder = death.name if death.name in held else next(iter(held)) if len(held) == 1 else None
        names: dict[str, object] = {"what": death.what, "error": death.error, "line": death.line}
        one = None if holder is None else held[holder]
        if one is None:
            yield Cause("died", names)
        else:
            names |= {"holder": holder, "queue": one.copy.queue}
            yield Cause("died", names, {"message": one.message}, (one.delivery,))


def _answered(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the replies that answer no request, and those whose client has left."""
    requests: dict[str, _Requests] = {}
    for life in scene.lives.values():
        published = life.published
        if published is None:
            continue
        key = str(published.get("routing_key") or "")
        if not published.get("exchange") and (asking := requests.get(key)):
            yield from _reply(scene, life, published, asking)
        reply_to = property_of(published, "reply_to")
        if reply_to is not None:
            asked = str(property_of(published, "correlation_id") or "")
            known = requests.setdefault(str(reply_to), _Requests(life.number, asked, {}))
            known.first.setdefault(asked, life.number)
            requests[str(reply_to)] = _Requests(life.number, asked, known.first)


class _Requests(NamedTuple):
    """The requests that name one place for replies: the last, and the first of each correlation id ("" is none)."""

    last: int
    asked: str
    first: dict[str, int]


def _reply(scene: Scene, life: MessageLife[Fact], reply: Fact, asking: _Requests) -> Iterator[Cause]:
    given = property_of(reply, "correlation_id")
    request = asking.first.get(str(given or ""))
    numbers = {"message": life.number, "request": asking.last if request is None else request}
    names: dict[str, object] = {"publisher": scene.publisher(life.number), "queue": reply.get("routing_key")}
    asker = scene.lives[numbers["request"]].published
    conn = None if asker is None else cast("int | None", asker.get("conn"))
    if life.lost is not None and conn in scene.closes:
        yield Cause("reply_to_left", {**names, "asker": scene.clients.name(conn)}, numbers, (scene.closes[conn], reply))
    elif request is None and given is not None and asking.asked:
        yield Cause("wrong_reply", {**names, "given": given, "asked": asking.asked}, numbers, (reply,))


def _refused(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the errors after which a client did nothing more."""
    waiting = scene.waiting()
    for fact, index in scene.refusals:
        conn = cast("int | None", fact.get("conn"))
        client = scene.clients.known.get(conn or 0)
        if client is None or fact.get("code") == _FORCED or scene.acted.get(conn, -1) > index:
            continue
        subject = cast("dict[str, str]", fact.get("subject") or {})
        place: Place = (str(fact.get("vhost") or "/"), subject.get("name", ""))
        is_untaken = subject.get("kind") == "queue" and place in waiting and "consumer" not in client.roles
        caller = Caller.read(fact.get("caller"))
        names = {
            "client": client.name,
            "code": fact.get("code"),
            "text": str(fact.get("text")).partition("\n")[0].rstrip("."),
            "untaken": place[1] if is_untaken else None,
            "line": None if caller is None else caller.inner,
            "queue": subject.get("name") if subject.get("kind") == "queue" else None,
        }
        yield Cause("refused", names, {}, (fact,))


def _ack_lost(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the messages that were delivered again because a connection was lost before their ack."""
    for life, copy in scene.copies():
        for before, requeued, again in zip(copy.facts, copy.facts[1:], copy.facts[2:], strict=False):
            conn = before.get("conn")
            if (
                before.kind not in events.DELIVERIES
                or requeued.get("reason") != "channel_closed"
                or not is_client(conn)
            ):
                continue
            closed = scene.closes.get(cast("int", conn))
            is_lost = closed is not None and closed.get("reason") is not None and not closed.get("is_shutdown")
            if again.kind in events.DELIVERIES and is_lost:
                holder, by = scene.clients.name(conn), scene.clients.name(again.get("conn"))
                names = {"queue": copy.queue, "holder": holder, "by": by}
                yield Cause("ack_lost", names, {"message": life.number}, (before, requeued, again))
                break


def _requeued_often(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the messages that clients put back again and again."""
    for life, copy in scene.copies():
        settled = [fact for fact in copy.facts if fact.kind in events.REFUSING]
        if copy.requeue_count >= _OFTEN and len(settled) >= _OFTEN:
            names = {"queue": copy.queue, "by": scene.clients.name(settled[-1].get("conn"))}
            numbers = {"message": life.number, "times": min(copy.requeue_count, len(settled))}
            yield Cause("requeued_often", names, numbers, (settled[0], settled[-1]))


def _slow_retry(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the messages that wait ten times as long as the others of their queue did."""
    delays: dict[Place, list[tuple[int, MessageLife[Fact], CopyLife[Fact]]]] = {}
    for life, copy in scene.copies():
        delay = None if life.published is None or copy.source is not None else property_of(life.published, _TTL)
        if isinstance(delay, str) and delay.isdecimal() and int(delay):
            delays.setdefault((copy.vhost, copy.queue), []).append((int(delay), life, copy))
    for (_vhost, queue), known in delays.items():
        *others, (delay, life, copy) = sorted(known, key=lambda one: one[0])
        if copy.state == READY and len(others) > 1 and delay >= _FACTOR * others[-1][0]:
            numbers = {"message": life.number, "delay": delay * 1_000, "usual": others[-1][0] * 1_000}
            yield Cause("slow_retry", {"queue": queue}, numbers, (copy.facts[0],))


def _unconfirmed(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the clients that published without confirms on a connection that broke, and went on as if nothing was."""
    last = {
        published.get("conn"): life
        for life in scene.lives.values()
        if (published := life.published) is not None and published.get("tag") is None
    }
    hit, refused = {fault.get("conn") for fault in scene.faults}, {fact.get("conn") for fact, _ in scene.refusals}
    latest = {other.name: other.number for other in scene.clients.known.values()}
    for conn, closed in scene.closes.items():
        client, reason = scene.clients.known.get(conn), closed.get("reason")
        life = last.get(conn)
        if client is None or life is None or reason is None or closed.get("is_shutdown") or "consumer" in client.roles:
            continue
        if (conn in hit or latest[client.name] > conn) and conn not in refused:
            names = {"client": client.name, "reason": reason}
            yield Cause("unconfirmed", names, {"message": life.number}, (cast("Fact", life.published), closed))


def _held(scene: Scene, asked: Asked) -> Iterator[Cause]:
    """Yield the messages that clients hold, and which others that keeps back."""
    waiting = scene.waiting()
    held: dict[tuple[Place, object, object, object], list[tuple[int, Fact]]] = {}
    for delivery, copy, number in scene.unsettled():
        if copy.state == UNACKED:
            key = ((copy.vhost, copy.queue), delivery.get("conn"), delivery.get("chan"), delivery.get("consumer"))
            held.setdefault(key, []).append((number, delivery))
    taking: dict[Place, list[Subscription]] = {}
    for one in scene.consumers:
        if not one.is_over and one.has_acks:
            taking.setdefault(one.place, []).append(one)
    for (place, conn, chan, tag), known in held.items():
        number, delivery = min(known, key=lambda one: one[1].at or 0)
        age = (scene.now or 0) - (delivery.at or 0)
        names = {"holder": scene.clients.name(conn), "queue": place[1]}
        numbers = {"message": number} | ({"age": age} if age >= _NOTABLE_US else {})
        consumers = taking.get(place, [])
        own = next((one for one in consumers if (one.conn, one.chan, one.tag) == (conn, chan, tag)), None)
        is_full = own is not None and 0 < own.prefetch <= len(known) and len(consumers) == 1
        if own is not None and is_full and place in waiting:
            more = {"others": waiting[place]}
            yield Cause("held_back", {**names, **more}, {**numbers, "prefetch": own.prefetch}, (delivery,))
        elif own is not None or number in asked.messages:
            # What basic.get has just fetched is in work more often than forgotten.
            yield Cause("held", names, numbers, (delivery,))


def _single_active(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the queues of which only one of several consumers gets anything, as they were declared."""
    for place, consumers in _consumed(scene).items():
        active = [one for one in consumers if one.messages]
        idle = [one for one in consumers if not one.messages and not one.is_over]
        if scene.argument(place, "x-single-active-consumer") is True and len(active) == 1 and idle:
            busy, waiting = scene.clients.name(active[0].conn), scene.clients.name(idle[0].conn)
            names = {"queue": place[1], "active": busy, "waiting": waiting}
            yield Cause("single_active", names, {}, (active[0].fact, idle[0].fact))


def _shared(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the queues that several clients share, though each declared and bound it for itself."""
    binding: dict[tuple[str, object], set[object]] = {}
    for fact in scene.bindings:
        binding.setdefault((str(fact.get("vhost") or "/"), fact.get("destination")), set()).add(fact.get("conn"))
    for place, consumers in _consumed(scene).items():
        own = [one for one in consumers if one.messages and one.conn in binding.get(place, ())]
        names = list(dict.fromkeys(scene.clients.name(one.conn) for one in own))
        if len(names) > 1:
            yield Cause("shared", {"queue": place[1], "clients": names}, {}, tuple(one.fact for one in own))


def _consumed(scene: Scene) -> dict[Place, list[Subscription]]:
    """Return the queues with several consumers, of several clients."""
    by_queue: dict[Place, list[Subscription]] = {}
    for one in scene.consumers:
        by_queue.setdefault(one.place, []).append(one)
    return {place: known for place, known in by_queue.items() if len({one.conn for one in known}) > 1}


def _came_elsewhere(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the messages that waited out a delay as dead letters, and then came to a third queue."""
    for life, copy in scene.copies():
        by = life.copies.get(copy.source or 0)
        left = None if by is None else life.copies.get(by.source or 0)
        is_delay = by is not None and by.facts[-1].get("reason") == "expired"
        if by is None or left is None or not is_delay or copy.queue in (by.queue, left.queue):
            continue
        reason = str(left.facts[-1].get("reason"))
        names = {"queue": left.queue, "by": repr(by.queue), "target": copy.queue, "reason": reason}
        yield Cause("came_elsewhere", names, {"message": life.number}, (left.facts[-1], copy.facts[0]))


def _not_consumed(scene: Scene, _: Asked) -> Iterator[Cause]:
    """Yield the requests, and beside busy queues the other messages, of clients in queues that none consumes."""
    consumed = {one.place for one in scene.consumers}
    for life, copy in scene.copies():
        published = life.published
        if not copy.is_ready or copy.source is not None or published is None or copy.deliveries:
            continue
        place, is_request = (copy.vhost, copy.queue), property_of(published, "reply_to") is not None
        if scene.argument(place, _DEAD_LETTER_EXCHANGE) is not None:
            # Messages wait there on purpose.
            continue
        publisher = scene.clients.known.get(cast("int", published.get("conn")))
        is_of_test = place in scene.declared and not any(map(is_client, scene.declarers[place]))
        is_set_aside = publisher is not None and "consumer" in publisher.roles
        if (is_of_test or is_set_aside) and not is_request:
            # The test reads it, or a consumer keeps there what it could not handle.
            continue
        if place not in consumed and is_client(published.get("conn")) and (is_request or consumed):
            yield Cause("not_consumed", {"queue": copy.queue}, {"message": life.number}, (copy.facts[0],))


_RULES: Final[tuple[Callable[[Scene, Asked], Iterator[Cause]], ...]] = (
    *(_answered, _refused, _ack_lost, _requeued_often, _slow_retry, _unconfirmed, _held),
    *(_single_active, _shared, _came_elsewhere, _not_consumed),
)


def _saying(scene: Scene, values: Sequence[object]) -> dict[int, list[int]]:
    """Return the messages that hold each of the values, unless many hold one."""
    if not values:
        return {}
    found = scene.saying(list(values[:_VALUES_MAX]))
    return {at: numbers for at, numbers in found.items() if len(numbers) <= CAUSES_MAX}


def _value(scene: Scene, value: object, message: int) -> Cause:
    """Return where a value is that the test missed, and what became of that message."""
    life = scene.lives[message]
    last = next(iter(life.last_ends), None)
    if last is None:
        return Cause("value", {"value": value}, {"message": message}, tuple(life.facts[:1]))
    holder = cast("int | None", last.deliveries[-1].get("conn")) if last.deliveries else None
    names = {
        "value": value,
        "state": last.state,
        "queue": last.queue,
        "holder": scene.clients.name(holder) if last.deliveries else None,
        "reason": last.facts[-1].get("reason"),
    }
    # Only of one that came back do the words count the deliveries.
    numbers = {"message": message} | ({"deliveries": len(last.deliveries)} if last.state == AGAIN else {})
    return Cause("value", names, numbers, (last.facts[-1],))


def _without_covered(causes: list[Cause]) -> Iterator[Cause]:
    """Yield the causes without those of which another says more, which take over what these follow from.

    One covers another that is about a message of its own, or if both are about none, about a client of its own.
    """
    subjects = [_subjects(cause) for cause in causes]
    known: dict[tuple[str, object], list[int]] = {}
    for place, cause in enumerate(causes):
        for subject in subjects[place]:
            known.setdefault((cause.kind, subject), []).append(place)
    for place, cause in enumerate(causes):
        if not any((kind, subject) in known for kind in _COVERED_BY.get(cause.kind, ()) for subject in subjects[place]):
            alike = (known.get((kind, it), ()) for kind in _COVERED.get(cause.kind, ()) for it in subjects[place])
            covered = [causes[other].because for other in sorted(chain.from_iterable(alike)) if causes[other].because]
            yield cause._replace(because=covered[0]) if covered and cause.because is None else cause


def _subjects(cause: Cause) -> list[object]:
    """Return what a cause is about: numbers of messages, or the connections of one that is about none."""
    if messages := cause.messages:
        return list(messages)
    return [("conn", conn) for conn in {fact.get("conn") for fact in cause.evidence} - {None}]


def _alike(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes with those that differ only in their message as one."""
    groups: dict[str, list[Cause]] = {}
    for cause in causes:
        numbers = {name: number for name, number in cause.numbers.items() if name not in ("message", "age")}
        groups.setdefault(repr((cause.kind, cause.names, numbers, cause.because)), []).append(cause)
    return [_joined(known) if len(known) > 1 else known[0] for known in groups.values()]


def _joined(causes: list[Cause]) -> Cause:
    messages = [number for cause in causes for number in cause.messages]
    evidence = tuple(fact for cause in causes for fact in cause.evidence)
    return causes[0]._replace(names={**causes[0].names, "alike": messages}, evidence=evidence)
