"""From the events of a broker to findings: which messages a document is about, and whose they are.

What a client publishes is checked at once, and again for each queue that it gets into and the document describes. What
the test itself publishes stands for a publisher elsewhere. It is checked once a client has acknowledged it, because a
test also sends what a consumer has to reject. A message that a consumer has rejected is not checked again in the queue
of rejected messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from leveret.trace import events
from leveret.trace.events import Event
from pytest_leveret.contract.documents.checking import Checker, Mismatch
from pytest_leveret.contract.documents.reading import ChannelSpec
from pytest_leveret.contract.lock import MessageKey
from pytest_leveret.contract.observing import EventReader, is_of_monitoring, name_pattern, own_properties

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.trace.events import TracedMessage

_REFUSED: Final = ("rejected", "delivery_limit")


@dataclass(frozen=True, slots=True)
class Violation:
    """A message that is not as a document says."""

    document: int
    key: MessageKey
    # The client that sent it; the test, if there is none.
    publisher: str | None
    finding: Mismatch


@dataclass(slots=True)
class Shown:
    """What a test has shown of documents: each is named by its index."""

    # In order, each once.
    violations: dict[Violation, None] = field(default_factory=dict)
    # The channels that messages went to, by document.
    used: set[tuple[int, str]] = field(default_factory=set)
    # What clients have sent that is in no channel, by document.
    unknown: set[tuple[int, str]] = field(default_factory=set)

    def merge(self, other: Shown) -> None:
        """Add what another test has shown. Its violations have failed it by then."""
        self.used |= other.used
        self.unknown |= other.unknown


@dataclass(slots=True)
class _CheckedMessage:
    """A message that was published."""

    message: TracedMessage
    properties: Mapping[str, Any]
    publisher: str | None
    # By document: whether a channel describes it.
    is_known: list[bool]
    # The queues for which it was checked; None is the exchange.
    checked: set[str | None] = field(default_factory=set)


class MessageChecking(EventReader[Shown]):
    """Checks the messages of one broker against documents."""

    def __init__(self, broker: Broker, checkers: list[Checker]) -> None:
        super().__init__(broker)
        self._checkers: Final = checkers
        self._sent: Final[dict[int, _CheckedMessage]] = {}
        # The copies that clients hold.
        self._held: Final[set[int]] = set()

    def _published(self, event: Event, shown: Shown) -> None:
        message = event.message
        if is_of_monitoring(message.exchange, message.routing_key):
            return
        publisher = self._client(event.conn)
        sent = self._sent[message.id] = _CheckedMessage(message, own_properties(message), publisher, [])
        for number, checker in enumerate(self._checkers):
            channels = [each for key in message.routing_keys for each in checker.channels_of(message.exchange, key)]
            shown.used.update((number, channel.name) for channel in channels)
            # A queue is found once the message is in it.
            sent.is_known.append(bool(channels))
            if publisher is not None and not channels and not _is_reply(message):
                shown.unknown.add((number, str(_key(sent))))
        if publisher is not None:
            self._check(sent, None, shown)

    def _enqueued(self, event: Event, shown: Shown) -> None:
        sent, queue = self._sent.get(event.message.id), str(event.queue)
        if sent is None or _was_refused(event.message):
            return
        for number, checker in enumerate(self._checkers):
            channels = checker.channels_from(queue)
            shown.used.update((number, channel.name) for channel in channels)
            if channels and not sent.is_known[number]:
                sent.is_known[number] = True
                shown.unknown.discard((number, str(_key(sent))))
        if sent.publisher is not None:
            self._check(sent, queue, shown)

    def _delivered(self, event: Event, shown: Shown) -> None:
        if self._client(event.conn) is not None:
            self._held.add(cast("int", event.copy))

    def _acked(self, event: Event, shown: Shown) -> None:
        sent, copy = self._sent.get(event.message.id), cast("int", event.copy)
        is_accepted = copy in self._held
        self._held.discard(copy)
        if sent is not None and sent.publisher is None and is_accepted and not _was_refused(event.message):
            self._check(sent, None, shown)
            self._check(sent, str(event.queue), shown)

    def _check(self, sent: _CheckedMessage, queue: str | None, shown: Shown) -> None:
        """Check a message, once for the exchange and once for each queue."""
        if queue in sent.checked:
            return
        sent.checked.add(queue)
        message = sent.message
        for number, checker in enumerate(self._checkers):
            for channels in self._channels(checker, message, queue):
                for finding in checker.findings(channels, message.body, sent.properties) if channels else ():
                    shown.violations[Violation(number, _key(sent), sent.publisher, finding)] = None

    def _channels(self, checker: Checker, message: TracedMessage, queue: str | None) -> list[list[ChannelSpec]]:
        if queue is not None:
            return [checker.channels_from(queue)]
        return [checker.channels_of(message.exchange, key) for key in message.routing_keys]

    TAKERS: ClassVar[Mapping[str, Callable[[Any, Event, Any], None]]] = {
        events.PUBLISHED: _published,
        events.ENQUEUED: _enqueued,
        **dict.fromkeys(events.DELIVERIES, _delivered),
        events.ACKED: _acked,
    }


def _key(sent: _CheckedMessage) -> MessageKey:
    message = sent.message
    return MessageKey("/", name_pattern(message.exchange), name_pattern(message.routing_key), "")


def _is_reply(message: TracedMessage) -> bool:
    """Return whether a message goes to a queue that a client has for its answers, or that has a generated name."""
    key = message.routing_key
    return not message.exchange and (key.startswith("amq.") or name_pattern(key) != key)


def _was_refused(message: TracedMessage) -> bool:
    """Return whether a message is where those go that consumers have rejected."""
    headers = message.properties.headers
    if headers is None or "x-death" not in headers:
        return False
    # A client may have sent something else under this name.
    deaths = cast("Mapping[str, Any]", message.properties.to_python()["headers"])["x-death"]
    return isinstance(deaths, list) and any(
        isinstance(death, Mapping) and death.get("reason") in _REFUSED for death in deaths
    )
