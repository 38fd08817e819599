"""Whether the locks of services fit together: what each publisher sends, against what each consumer receives.

A message leads to a consumer if the exchanges and bindings of all locks route it to the consumer's queue. There it
meets what the consumer has received in that queue: the kinds of its own exchange and key, with its own headers where
brokers route by headers, or else all kinds of the queue. It breaks the consumer if it fits none of them. If no lock has
the way by which the consumer's messages came, messages of the same exchange and key go it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import NamedTuple

from leveret.trace.redaction import REDACTED
from leveret.trace.shapes import Shape, safe_key
from pytest_leveret.contract.comparing import LockChange, message_changes
from pytest_leveret.contract.lock import Lock, LockedConsumer, LockedMessage, MessageKey
from pytest_leveret.contract.routing import Routing, Sent, is_generated


@dataclass(slots=True)
class Meeting:
    """How locks fit together."""

    breaking: list[LockChange] = field(default_factory=list)
    harmless: list[LockChange] = field(default_factory=list)
    # What would break a consumer that a message may reach, as far as the locks show.
    uncertain: list[LockChange] = field(default_factory=list)
    # What does not fit some of the kinds that a consumer has received, and fits others.
    partial: list[LockChange] = field(default_factory=list)
    # Messages without a consumer, and without a publisher.
    unread: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)


class _Kind(NamedTuple):
    """What the clients of one queue have received there."""

    expected: Sent
    consumers: list[LockedConsumer]


class _Met(NamedTuple):
    """The kinds that a message meets in a queue."""

    kinds: list[_Kind]
    # Whether the message gets there for certain.
    is_certain: bool = False
    # Whether they have another name than the message.
    is_of_other_name: bool = False
    # The headers by which brokers route, in which a message of another exchange or key may differ.
    left_out: frozenset[str] = frozenset()


def meet(locks: Mapping[str, Lock]) -> Meeting:
    """Compare each publisher in locks, which are given by name, with each consumer."""
    routing = Routing(locks)
    meeting = Meeting(breaking=[*routing.refused])
    fed: set[tuple[str, MessageKey]] = set()
    known = {name: _kinds_of(lock) for name, lock in locks.items()}

    @cache
    def alone(name: str) -> Routing:
        """Return the ways to the queues of one lock, as it binds them."""
        return Routing(locks, binding=locks[name])

    for name, lock in locks.items():
        for key, message in sorted(lock.messages.items()):
            if not message.publishers:
                continue
            sent, is_read = Sent(key, message, lock), False
            for other_name, queues in known.items():
                for (vhost, queue), kinds in queues.items():
                    met = _met(routing, partial(alone, other_name), sent, queue, kinds) if vhost == key.vhost else None
                    if met is None:
                        continue
                    is_read = True
                    fed |= {(other_name, each.expected.key) for each in kinds if _is_named(each, sent)}
                    if other_name != name or any(one.needs for each in met.kinds for one in each.consumers):
                        _compare(meeting, sent, queue, met)
            if not is_read:
                rest = "; where its dead letters go is not examined" if routing.has_dead_letters(sent) else ""
                meeting.unread.append(f"{key}, which {_names(message.publishers)} sends{rest}")
    sent_keys = {key[:4] for lock in locks.values() for key, message in lock.messages.items() if message.publishers}
    for name, lock in locks.items():
        for key, message in sorted(lock.messages.items()):
            if message.consumers and not message.publishers and (name, key) not in fed:
                clients = _names({consumer.client for consumer in message.consumers.values()})
                rest = "; what is sent by this key does not reach its queue" if key[:4] in sent_keys else ""
                meeting.unsent.append(f"{key}, which {clients} reads{rest}")
    for changes in (meeting.breaking, meeting.harmless, meeting.uncertain, meeting.partial):
        changes[:] = _joined(changes)
    return meeting


def _kinds_of(lock: Lock) -> dict[tuple[str, str], list[_Kind]]:
    """Return what the clients of each queue have received, by virtual host and queue."""
    found: dict[tuple[str, str], list[_Kind]] = defaultdict(list)
    for key, message in sorted(lock.messages.items()):
        consumers: dict[str, list[LockedConsumer]] = defaultdict(list)
        for _, consumer in sorted(message.consumers.items()):
            consumers[consumer.queue].append(consumer)
        for queue, clients in consumers.items():
            found[key.vhost, queue].append(_Kind(Sent(key, message, lock), clients))
    return found


def _is_named(kind: _Kind, sent: Sent) -> bool:
    # A test may leave out the name.
    return kind.expected.key.name in (sent.key.name, "")


def _met(routing: Routing, alone: Callable[[], Routing], sent: Sent, queue: str, kinds: list[_Kind]) -> _Met | None:
    """Return the kinds that a message meets in a queue; None if it does not get there, as far as the locks show."""
    # Each service has its own queue of a name that was generated.
    reached = (alone() if is_generated(queue) else routing).queues_of(sent)
    alike: dict[bool | None, list[_Kind]] = defaultdict(list)
    for kind in kinds:
        if _is_named(kind, sent) and kind.expected.key[:3] == sent.key[:3]:
            alike[routing.are_alike(sent, kind.expected)].append(kind)
    if queue not in reached.possible:
        # What the consumer has received came by a way that no lock has. A headers exchange takes the same way for the
        # same headers.
        lost = [
            (kind, is_alike)
            for is_alike in (True, None)
            for kind in alike[is_alike]
            if queue not in routing.queues_of(kind.expected).possible
            and queue not in alone().queues_of(kind.expected).possible
        ]
        shown = [kind for kind, is_alike in lost if is_alike and _is_shown(routing, sent, kind.expected)]
        if lost:
            return _Met(shown or [kind for kind, _ in lost], is_certain=bool(shown))
        if queue not in reached.dead:
            return None
    is_certain = queue in reached.certain
    if alike[True] or alike[None]:
        return _Met(alike[True] or alike[None], is_certain=is_certain and bool(alike[True]))
    named = [kind for kind in kinds if _is_named(kind, sent)]
    left_out = frozenset(map(safe_key, routing.headers_asked(sent.key.vhost)))
    # What its clients have only rejected is no kind that they take.
    taken = [kind for kind in named or kinds if any(one.settled != {"rejected"} for one in kind.consumers)]
    return _Met(taken, is_certain, is_of_other_name=not named, left_out=left_out)


def _is_shown(routing: Routing, sent: Sent, expected: Sent) -> bool:
    is_same = not routing.is_by_headers(sent.key) or sent.key.headers == expected.key.headers != ""
    return is_same and REDACTED not in sent.key.headers


def _compare(meeting: Meeting, sent: Sent, queue: str, met: _Met) -> None:
    """Add what a message changes for the consumers of a queue."""
    # What its consumers have accepted never shows nothing.
    kinds = [kind for kind in met.kinds if kind.expected.message.shape.count]
    needed = [_needed(kind.expected, met.left_out) for kind in kinds]
    found = [
        [*message_changes(sent.key, message, sent.message, consumers=kind.consumers)]
        for kind, message in zip(kinds, needed, strict=True)
    ]
    of_publisher = f"{sent.key} of {_names(sent.message.publishers)}"
    is_partial = met.is_of_other_name or any(map(_fits, found))
    if not is_partial and len(kinds) > 1:
        # Some of its messages may fit one of the kinds, and the others another.
        every = LockedMessage()
        for message in needed:
            every.merge(deepcopy(message))
        consumers = [consumer for kind in kinds for consumer in kind.consumers]
        is_partial = _fits(message_changes(sent.key, every, sent.message, consumers=consumers))
    for change in (change for changes in found for change in changes):
        said = LockChange(of_publisher, change.text, change.breaks)
        if not change.breaks:
            if met.is_certain and not met.is_of_other_name:
                meeting.harmless.append(said)
        elif is_partial:
            meeting.partial.append(replace(said, subject=f"{of_publisher} may break {queue!r}"))
        elif met.is_certain:
            meeting.breaking.append(said)
        else:
            meeting.uncertain.append(replace(said, subject=f"{of_publisher} may reach {queue!r}"))


def _fits(changes: Iterable[LockChange]) -> bool:
    return not any(change.breaks for change in changes)


def _needed(expected: Sent, left_out: frozenset[str]) -> LockedMessage:
    """Return what a consumer has received, without what says nothing of the consumer.

    That its test sends it the same word each time says nothing, nor do the headers that are left out.
    """
    is_given = bool(expected.message.publishers) or expected.lock.is_document
    if is_given and not left_out:
        return expected.message
    message = replace(expected.message, shape=deepcopy(expected.message.shape))
    for _, shape, _ in message.shape.walk() if not is_given else ():
        shape.words = None
    headers = message.shape.fields.get("headers", Shape())
    for name in left_out:
        headers.fields.pop(name, None)
    return message


def _joined(changes: list[LockChange]) -> list[LockChange]:
    """Return changes with what each breaks for all consumers, in order."""
    breaks: dict[LockChange, dict[str, None]] = defaultdict(dict)
    for change in changes:
        breaks[replace(change, breaks=())].update(dict.fromkeys(change.breaks))
    return [replace(change, breaks=tuple(reasons)) for change, reasons in breaks.items()]


def _names(names: set[str]) -> str:
    return " and ".join(sorted(names))
