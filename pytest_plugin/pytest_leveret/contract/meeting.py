"""Whether the locks of services fit together: what each publisher sends, against what each consumer receives.

A message leads to a consumer if the exchanges and bindings of all locks route it to the consumer's queue. The tests of
a consumer often publish straight to its queue. If they publish to an exchange, messages of another key, or of other
headers where brokers route by headers, are of another kind. If no lock has the way by which they came, messages of the
same exchange and key go it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace

from leveret.trace.redaction import REDACTED
from pytest_leveret.contract.comparing import Change, message_changes
from pytest_leveret.contract.lock import Consumer, Lock, Message, MessageKey
from pytest_leveret.contract.routing import Routing, Sent


@dataclass(slots=True)
class Meeting:
    """How locks fit together."""

    breaking: list[Change] = field(default_factory=list)
    harmless: list[Change] = field(default_factory=list)
    # What would break a consumer that a message may reach, as far as the locks show.
    uncertain: list[Change] = field(default_factory=list)
    # Messages without a consumer, and without a publisher.
    unread: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)


def meet(locks: Mapping[str, Lock]) -> Meeting:
    """Compare each publisher in locks, which are given by name, with each consumer."""
    routing = Routing(locks)
    meeting = Meeting(breaking=[*routing.refused])
    fed: set[tuple[str, MessageKey]] = set()
    for name, lock in locks.items():
        for key, message in sorted(lock.messages.items()):
            if not message.publishers:
                continue
            is_read = False
            for other_name, expected, consumers, is_certain in _readers(locks, routing, Sent(key, message, lock)):
                is_read = True
                fed.add((other_name, expected.key))
                if other_name != name or any(consumer.needs for consumer in consumers):
                    _compare(meeting, key, message, expected, consumers, is_certain=is_certain)
            if not is_read:
                meeting.unread.append(f"{key}, which {_names(message.publishers)} sends")
    for name, lock in locks.items():
        for key, message in sorted(lock.messages.items()):
            if message.consumers and not message.publishers and (name, key) not in fed:
                clients = _names({consumer.client for consumer in message.consumers.values()})
                meeting.unsent.append(f"{key}, which {clients} reads")
    for changes in (meeting.breaking, meeting.harmless, meeting.uncertain):
        changes[:] = dict.fromkeys(changes)
    return meeting


def _compare(
    meeting: Meeting, key: MessageKey, sent: Message, expected: Sent, consumers: list[Consumer], *, is_certain: bool
) -> None:
    is_given = bool(expected.message.publishers) or expected.lock.is_document
    message = expected.message if is_given else _without_words(expected.message)
    for change in message_changes(key, message, sent, consumers=consumers):
        said = Change(f"{change.subject} of {_names(sent.publishers)}", change.text, change.breaks)
        if is_certain:
            (meeting.breaking if change.breaks else meeting.harmless).append(said)
        elif change.breaks:
            queues = _names({repr(consumer.queue) for consumer in consumers})
            meeting.uncertain.append(replace(said, subject=f"{said.subject} may reach {queues}"))


def _without_words(expected: Message) -> Message:
    """Return what a consumer's test sends it. That it takes the same word each time says nothing of the consumer."""
    expected = replace(expected, shape=deepcopy(expected.shape))
    for _, shape, _ in expected.shape.walk():
        shape.words = None
    return expected


def _names(names: set[str]) -> str:
    return " and ".join(sorted(names))


def _readers(
    locks: Mapping[str, Lock], routing: Routing, sent: Sent
) -> Iterator[tuple[str, Sent, list[Consumer], bool]]:
    """Yield each message that stands for this one in a lock, with its consumers and whether they get this one."""
    for name, lock in locks.items():
        for key, message in sorted(lock.messages.items()):
            # A test may leave out the name.
            if key.vhost != sent.key.vhost or key.name not in (sent.key.name, ""):
                continue
            expected = Sent(key, message, lock)
            consumers: dict[bool | None, list[Consumer]] = defaultdict(list)
            for _, consumer in sorted(message.consumers.items()):
                consumers[_gets(routing, sent, expected, consumer)].append(consumer)
            for is_certain in (True, None):
                if consumers[is_certain]:
                    yield name, expected, consumers[is_certain], is_certain is True


def _gets(routing: Routing, sent: Sent, expected: Sent, consumer: Consumer) -> bool | None:
    """Return whether a consumer gets this message where its tests have sent another one; None if no lock shows it."""
    certain, possible = routing.queues_of(sent)
    reaches = True if consumer.queue in certain else None if consumer.queue in possible else False
    if expected.key[:3] != sent.key[:3]:
        return reaches if expected.key[1:3] == ("", consumer.queue) else False
    are_alike = routing.are_alike(sent, expected)
    if are_alike is False or reaches is not False:
        return are_alike and reaches
    if consumer.queue in routing.queues_of(expected).possible:
        return False
    # No lock has the way of what the consumer has received. A headers exchange takes the same way for the same headers.
    is_shown = not routing.is_by_headers(sent.key) or sent.key.headers == expected.key.headers != ""
    return are_alike if is_shown and REDACTED not in sent.key.headers else None
