"""Whether the locks of services fit together: what each publisher sends, against what each consumer receives.

A message leads to a consumer if the consumer's own lock has it under the same exchange and routing key, or if the
bindings of all locks route it to the consumer's queue. The tests of a consumer often publish straight to its queue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Final

from leveret.core.model.exchanges.topic import topic_matches
from pytest_leveret.contract.comparing import Change, message_changes
from pytest_leveret.contract.lock import Consumer, Lock, Message, MessageKey


@dataclass(slots=True)
class Meeting:
    """How locks fit together."""

    breaking: list[Change] = field(default_factory=list)
    harmless: list[Change] = field(default_factory=list)
    # Messages without a consumer, and without a publisher.
    unread: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)


def meet(locks: Mapping[str, Lock]) -> Meeting:
    """Compare each publisher in locks, which are given by name, with each consumer."""
    topology = _Topology(locks.values())
    meeting = Meeting()
    fed: set[tuple[str, MessageKey]] = set()
    for name, lock in locks.items():
        for key, sent in sorted(lock.messages.items()):
            if not sent.publishers:
                continue
            is_read = False
            for other_name, expected_key, expected, consumers in _readers(locks, topology, key):
                is_read = True
                fed.add((other_name, expected_key))
                if other_name != name or any(consumer.needs for consumer in consumers):
                    if not expected.publishers and not locks[other_name].is_document:
                        expected = _without_words(expected)
                    _compare(meeting, key, sent, expected, consumers)
            if not is_read:
                meeting.unread.append(f"{key}, which {_names(sent.publishers)} sends")
    for name, lock in locks.items():
        for key, message in sorted(lock.messages.items()):
            if message.consumers and not message.publishers and (name, key) not in fed:
                clients = _names({consumer.client for consumer in message.consumers.values()})
                meeting.unsent.append(f"{key}, which {clients} reads")
    for changes in (meeting.breaking, meeting.harmless):
        changes[:] = dict.fromkeys(changes)
    return meeting


def _compare(meeting: Meeting, key: MessageKey, sent: Message, expected: Message, consumers: list[Consumer]) -> None:
    for change in message_changes(key, expected, sent, consumers=consumers):
        said = Change(f"{change.subject} of {_names(sent.publishers)}", change.text, change.breaks)
        (meeting.breaking if change.breaks else meeting.harmless).append(said)


def _without_words(expected: Message) -> Message:
    """Return what a consumer's test sends it. That it takes the same word each time says nothing of the consumer."""
    expected = replace(expected, shape=deepcopy(expected.shape))
    for _, shape, _ in expected.shape.walk():
        shape.words = None
    return expected


def _names(names: set[str]) -> str:
    return " and ".join(sorted(names))


def _readers(
    locks: Mapping[str, Lock], topology: _Topology, key: MessageKey
) -> Iterator[tuple[str, MessageKey, Message, list[Consumer]]]:
    """Yield the lock, the key and the message of each consumer that a message leads to, with those consumers."""
    queues = topology.queues_of(key)
    for name, lock in locks.items():
        for expected_key, expected in sorted(lock.messages.items()):
            # A test may leave out the name.
            if expected_key.vhost != key.vhost or expected_key.name not in (key.name, ""):
                continue
            is_same = expected_key[:3] == key[:3]
            is_to_queue = not expected_key.exchange and expected_key.routing_key in queues
            consumers = [
                consumer
                for _, consumer in sorted(expected.consumers.items())
                if is_same or (is_to_queue and consumer.queue == expected_key.routing_key)
            ]
            if consumers:
                yield name, expected_key, expected, consumers


class _Topology:
    """The exchanges and bindings of all locks."""

    def __init__(self, locks: Collection[Lock]) -> None:
        self._types: Final[dict[tuple[str, str], set[str]]] = {}
        self._bindings: Final = sorted({binding for lock in locks for binding in lock.bindings})
        for lock in locks:
            for place, declared in lock.exchanges.items():
                self._types.setdefault(place, set()).update(declared.types)

    def queues_of(self, key: MessageKey) -> set[str]:
        """Return the queues that a message reaches."""
        if not key.exchange:
            return {key.routing_key}
        queues: set[str] = set()
        waiting, reached = [key.exchange], {key.exchange}
        while waiting:
            exchange = waiting.pop()
            for binding in self._bindings:
                if (binding.vhost, binding.exchange) != (key.vhost, exchange) or not self._routes(
                    exchange, key.vhost, binding.routing_key, key.routing_key
                ):
                    continue
                if binding.kind == "queue":
                    queues.add(binding.destination)
                elif binding.destination not in reached:
                    reached.add(binding.destination)
                    waiting.append(binding.destination)
        return queues

    def _routes(self, exchange: str, vhost: str, pattern: str, routing_key: str) -> bool:
        types = self._types.get((vhost, exchange), set()) | ({exchange[4:]} if exchange.startswith("amq.") else set())
        if "topic" in types:
            return topic_matches(pattern, routing_key)
        if not types:
            # No lock declares it. The key of a binding to a fanout exchange is mostly empty.
            return not pattern or topic_matches(pattern, routing_key)
        return pattern == routing_key if "direct" in types else True
