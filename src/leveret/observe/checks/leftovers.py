"""The leftovers of a test: open connections and channels, unsettled deliveries, and ready messages.

The state of the node shows them when the test ends. A leftover that began while the test allowed it is not reported.
Each leftover is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, cast

from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.observe.checks.finding import Allowance, Finding
from leveret.observe.checks.given_back import GivenBack
from leveret.observe.texts.state import client_text, connections, holder_text, unsettled
from leveret.trace import events
from leveret.trace.events import POSITIONS, Event, RawEvent
from leveret.wording import client_place_text

# A check, then the numbers of connection, channel and delivery or copy, or None.
_Key = tuple[str, int | None, int | None, int | None]

_BEGINNINGS: Final = {
    events.CONN_OPEN: "connection_not_closed",
    events.CHAN_OPEN: "channel_not_closed",
    **dict.fromkeys(events.DELIVERIES, "unacked_at_end"),
    events.ENQUEUED: "left_ready",
}
_CONN: Final = POSITIONS[events.CONN_OPEN]["conn"]
_CLIENT: Final = POSITIONS[events.CONN_OPEN]["client"]


class Leftovers:
    """The leftovers that are allowed or reported already."""

    def __init__(self) -> None:
        self._clients: Final[dict[int, str]] = {}
        self._known: Final[dict[_Key, None]] = {}
        self._given_back: Final = GivenBack()

    def feed(self, raw_events: Iterable[RawEvent], allowances: Sequence[Allowance]) -> None:
        """Remember what has begun and is covered by these allowances."""
        wanted = {allowance.check for allowance in allowances} & set(_BEGINNINGS.values())
        for raw in raw_events:
            if raw[0] == events.CONN_OPEN:
                self._clients[cast("int", raw[_CONN])] = cast("str", raw[_CLIENT])
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
            {
                "queue": event.get("queue"),
                "client": None if connection is None else self._clients.get(connection),
            },
            message,
        )
        if any(allowance.covers(began) for allowance in allowances):
            self._known[check, connection, channel, cast("int | None", number)] = None

    def left(self, node: Node, *, is_on: Callable[[str], bool]) -> list[Finding]:
        """Return a finding for each leftover that is neither allowed nor reported yet.

        Ready messages may be many, so they are read only if their check is on.
        """
        findings = []
        given_back = map(self._went_back, self._given_back.left())
        for key, finding in chain(_left(node), given_back, _ready(node) if is_on("left_ready") else ()):
            if key not in self._known:
                self._known[key] = None
                findings.append(finding)
        return findings

    def _went_back(self, delivery: Event) -> tuple[_Key, Finding]:
        message, client = cast("Message", delivery.message), self._clients.get(cast("int", delivery.conn))
        place = client_place_text(str(client), cast("int", delivery.conn), delivery.chan)
        names = {"queue": delivery.queue, "client": client, "place": place}
        return (
            ("unacked_at_end", delivery.conn, delivery.chan, delivery.tag),
            Finding("unacked_at_end", delivery.vhost, names, message, kind="given_back", evidence=(delivery,)),
        )


def _left(node: Node) -> Iterator[tuple[_Key, Finding]]:
    for connection in connections(node):
        client, vhost, number = client_text(connection), connection.vhost_name, connection.number
        names = {"client": client, "place": client_place_text(client, number), "opener": connection.opener}
        yield (
            ("connection_not_closed", number, None, None),
            Finding("connection_not_closed", vhost, names),
        )
        for channel in connection.channels.values():
            of_channel = {**names, "place": client_place_text(client, number, channel.number)}
            yield (
                ("channel_not_closed", number, channel.number, None),
                Finding("channel_not_closed", vhost, of_channel),
            )
            yield from _held(node, connection, channel)
            for publish in [] if channel.transaction is None else channel.transaction.publishes:
                yield (
                    ("uncommitted", number, channel.number, publish.message.id),
                    Finding("uncommitted", vhost, {"client": client}, publish.message, because="open_transaction"),
                )


def _ready(node: Node) -> Iterator[tuple[_Key, Finding]]:
    """Yield the messages ready in queues. A stream keeps its messages anyway, so it does not count."""
    queues = [queue for vhost in node.vhosts.values() for queue in vhost.queues.values() if queue.type_name != "stream"]
    for queue in queues:
        why = None if len(queue.consumers) else "no_consumers"
        names = {"queue": queue.name}
        for entry in queue.ready:
            yield (
                ("left_ready", None, None, entry.copy),
                Finding("left_ready", queue.vhost.name, names, entry.message, because=why),
            )


def _held(node: Node, connection: Connection, channel: Channel) -> Iterator[tuple[_Key, Finding]]:
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
        yield (
            ("unacked_at_end", connection.number, channel.number, delivery.tag),
            Finding("unacked_at_end", connection.vhost_name, names, delivery.entry.message, because=why),
        )
