"""The leftovers of a test: open connections and channels, unsettled deliveries, and ready messages.

The state of the node shows them when the test ends. A leftover that began while the test allowed it is not reported.
Each leftover is reported once.

Also the messages that are ready again because a client closed its channel in good order and had not settled them. The
test of a worker that forgets its ack ends like that if a fixture closes the worker. What a consumer got after all that
it settled does not count, because the client may have fetched it ahead. Nor does a task of Celery with an ETA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, cast

from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.observe.checks.finding import Allowance, Finding
from leveret.observe.texts.state import client_text, connections, holder_text, unsettled
from leveret.trace import events
from leveret.trace.events import POSITIONS, Event, RawEvent, eta_of
from leveret.wording import client_place_text

# The numbers of connection, channel and delivery or copy, or None.
_Numbers = tuple[int | None, int | None, int | None]

_BEGINNINGS: Final = {
    events.CONN_OPEN: "connection_not_closed",
    events.CHAN_OPEN: "channel_not_closed",
    **dict.fromkeys(events.DELIVERIES, "unacked_at_end"),
    events.ENQUEUED: "left_ready",
}
_CLOSING: Final = (events.CHAN_CLOSE, events.CONN_CLOSE)
_QUEUE: Final = POSITIONS[events.DELIVERIES[0]]["queue"]
_REASON: Final = POSITIONS[events.REQUEUES[0]]["reason"]
# Where the copy of an event stands, and the tag of a delivery and of what settles it.
_COPY: Final = {
    kind: POSITIONS[kind]["copy"] for kind in (*events.DELIVERIES, *events.SETTLING, *events.ENDS, *events.REQUEUES)
}
_TAG: Final = {kind: POSITIONS[kind]["tag"] for kind in (*events.DELIVERIES, *events.SETTLING)}


class Leftovers:
    """The leftovers that are allowed or reported already."""

    def __init__(self, clients: Mapping[int, str]) -> None:
        """Take the names of clients by their connections, which the checks of the trace have read before."""
        self._names: Final = clients
        # Each by its check.
        self._known: Final[set[tuple[str, _Numbers]]] = set()
        self._given_back: Final = GivenBack()

    def feed(self, raw_events: Iterable[RawEvent], allowances: Sequence[Allowance]) -> None:
        """Remember what has begun and is covered by these allowances."""
        wanted = {allowance.check for allowance in allowances} & set(_BEGINNINGS.values())
        for raw in raw_events:
            self._given_back.feed(raw)
            if wanted and _BEGINNINGS.get(cast("str", raw[0])) in wanted:
                self._begin(Event(raw), allowances)

    def _begin(self, event: Event, allowances: Sequence[Allowance]) -> None:
        check = _BEGINNINGS[event.kind]
        message = cast("Message | None", event.get("message"))
        connection, channel = cast("int | None", event.get("conn")), cast("int | None", event.get("chan"))
        number = event.get("copy" if event.kind == events.ENQUEUED else "tag")
        began = Finding(
            check,
            event.vhost,
            {"queue": event.get("queue"), "client": None if connection is None else self._names.get(connection)},
            message,
        )
        if any(allowance.covers(began) for allowance in allowances):
            self._known.add((check, (connection, channel, cast("int | None", number))))

    def left(self, node: Node, *, is_on: Callable[[str], bool]) -> list[Finding]:
        """Return a finding for each leftover that is neither allowed nor reported yet.

        Ready messages may be many, so they are read only if their check is on.
        """
        findings = []
        given_back = map(self._went_back, self._given_back.left())
        for numbers, finding in chain(_left(node), given_back, _ready(node) if is_on("left_ready") else ()):
            if (key := (finding.check, numbers)) not in self._known:
                self._known.add(key)
                findings.append(finding)
        return findings

    def _went_back(self, delivery: Event) -> tuple[_Numbers, Finding]:
        message, client = cast("Message", delivery.message), self._names.get(cast("int", delivery.conn))
        place = client_place_text(str(client), cast("int", delivery.conn), delivery.chan)
        names = {"queue": delivery.queue, "client": client, "place": place}
        finding = Finding("unacked_at_end", delivery.vhost, names, message, kind="given_back", evidence=(delivery,))
        return (delivery.conn, delivery.chan, delivery.tag), finding


def _left(node: Node) -> Iterator[tuple[_Numbers, Finding]]:
    for connection in connections(node):
        client, vhost, number = client_text(connection), connection.vhost_name, connection.number
        names = {"client": client, "place": client_place_text(client, number), "opener": connection.opener}
        yield (number, None, None), Finding("connection_not_closed", vhost, names)
        for channel in connection.channels.values():
            of_channel = {**names, "place": client_place_text(client, number, channel.number)}
            yield (number, channel.number, None), Finding("channel_not_closed", vhost, of_channel)
            yield from _held(node, connection, channel)
            for publish in [] if channel.transaction is None else channel.transaction.publishes:
                finding = Finding("uncommitted", vhost, {"client": client}, publish.message, because="open_transaction")
                yield (number, channel.number, publish.message.id), finding


def _ready(node: Node) -> Iterator[tuple[_Numbers, Finding]]:
    """Yield the messages ready in queues. A stream keeps its messages anyway, so it does not count."""
    queues = [queue for vhost in node.vhosts.values() for queue in vhost.queues.values() if queue.type_name != "stream"]
    for queue in queues:
        why = None if len(queue.consumers) else "no_consumers"
        names = {"queue": queue.name}
        for entry in queue.ready:
            finding = Finding("left_ready", queue.vhost.name, names, entry.message, because=why)
            yield (None, None, entry.copy), finding


def _held(node: Node, connection: Connection, channel: Channel) -> Iterator[tuple[_Numbers, Finding]]:
    for delivery in unsettled(channel):
        tag = None if delivery.consumer is None else delivery.consumer.tag
        client = client_text(connection)
        names = {
            "queue": delivery.queue.name,
            "client": client,
            "holder": holder_text(tag, client),
            "age": node.now - delivery.delivered_at,
        }
        why = None if delivery.tag in channel.unacked else "settled_without_commit"
        finding = Finding("unacked_at_end", connection.vhost_name, names, delivery.entry.message, because=why)
        yield (connection.number, channel.number, delivery.tag), finding


class _Held(NamedTuple):
    """What a channel got and has not settled, by copy, and the last tag that it settled of each queue."""

    deliveries: dict[object, RawEvent]
    settled: dict[object, int]


class GivenBack:
    """What channels hold, and what came back unsettled from those that their clients closed."""

    def __init__(self) -> None:
        self._held: Final[dict[tuple[object, ...], _Held]] = {}
        # The deliveries of the channel that ends, and those that came back and were not taken since.
        self._ending: dict[object, RawEvent] = {}
        self._ready: Final[dict[object, RawEvent]] = {}

    def feed(self, raw: RawEvent) -> None:
        """Take the next event. Hot: once per event, so it reads the tuple."""
        kind = cast("str", raw[0])
        if kind in _CLOSING:
            self._close(Event(raw))
        if kind not in _COPY:
            return
        copy = raw[_COPY[kind]]
        if kind in events.REQUEUES and copy in self._ending and raw[_REASON] == "channel_closed":
            self._ready[copy] = self._ending.pop(copy)
            return
        self._ready.pop(copy, None)
        if kind not in _TAG:
            return
        channel = raw[events.CHANNEL]
        held = self._held.get(channel)
        if kind in events.SETTLING:
            if held is not None:
                held.deliveries.pop(copy, None)
                queue, tag = raw[_QUEUE], cast("int | None", raw[_TAG[kind]]) or 0
                held.settled[queue] = max(tag, held.settled.get(queue, 0))
        elif channel[0] is not None:
            if held is None:
                held = self._held[channel] = _Held({}, {})
            held.deliveries[copy] = raw

    def _close(self, event: Event) -> None:
        is_clean, channel = event.reason is None, event.get("chan")
        self._ending = {}
        for key in [key for key in self._held if key[0] == event.conn and channel in (None, key[1])]:
            held = self._held.pop(key)
            if is_clean:
                self._ending |= {copy: one for copy, one in held.deliveries.items() if _was_in_hand(Event(one), held)}

    def left(self) -> Iterator[Event]:
        """Yield the deliveries of the messages that are ready again."""
        yield from map(Event, self._ready.values())


def _was_in_hand(delivery: Event, held: _Held) -> bool:
    """Return whether the code under test had got the message, as far as the broker can know."""
    headers = cast("Message", delivery.message).headers
    if headers is not None and eta_of(headers.to_python()) is not None:
        return False
    last = held.settled.get(delivery.queue)
    return delivery.kind not in events.PUSHES or last is None or cast("int", delivery.tag) < last
