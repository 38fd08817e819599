"""The strict checks that read the trace as it grows.

The judge feeds them after the barrier, when no work is pending. By then a dying message has arrived in its next queue,
or it is lost. The checks keep only the messages that they report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Final, cast

from leveret.observe.checks.finding import Finding, refusal_text
from leveret.observe.views.names import existing_queue
from leveret.trace import events
from leveret.trace.events import CELERY_EXCHANGES, POSITIONS, Event, RawEvent

if TYPE_CHECKING:
    from leveret.core.model.message import Message
    from leveret.core.model.node import Node
    from leveret.core.model.queues.stored_queue import StoredQueue
    from leveret.core.wire.values import Table
    from leveret.observe.texts.routes import Unrouted
    from leveret.story.causes import Cause

# The check that reports a lost message, by the reason of the loss.
_LOST_BY: Final = {
    "rejected": "rejected_into_nothing",
    "delivery_limit": "rejected_into_nothing",
    "expired": "expired_into_nothing",
    "maxlen": "overflowed_into_nothing",
}
_CYCLE: Final = "cycle"
_RESTART: Final = "restart"
# Refusals that no client waits for: of acks, and of deliveries held too long.
_WITHOUT_REPLY: Final = ("unknown_tag", "held_too_long")
# The reply code of a connection closed by an operator, here by the test.
_FORCED: Final = 320
# Reasons of a queue deleted with its connection. Its messages were for that connection only.
_WITH_CONNECTION: Final = ("exclusive", "auto_delete")
_DIRECT_REPLY_PREFIX: Final = "amq.rabbitmq.reply-to."
# The most frequent events matter only if this field is set: to dead letters, automatic acks and redeliveries.
_MATTERS_BY: Final = {
    kind: POSITIONS[kind][field]
    for kinds, field in ((events.ARRIVALS, "src_copy"), ((events.ACKED,), "reason"), (events.PUSHES, "count"))
    for kind in kinds
}
_OF_ACK: Final = itemgetter(*(POSITIONS[events.ACKED][name] for name in ("conn", "queue", "copy", "reason")))
# The number of a message, and the virtual host and queue in which it died.
_Death = tuple[int, str, str | None]


class TraceChecks:
    """The checks of a broker's trace, and what they know of the events so far."""

    # Those of the last look.
    _node: Node
    _max_redeliveries: int

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        # Why messages were lost, as things stand at one look.
        self._unrouted: Unrouted | None = None
        # The names of all clients so far, by their connections.
        self.clients: Final[dict[int, str]] = {}
        # By copy: the events of copies that expired or were dead-lettered, until they arrive; and who settled them.
        self._expired: Final[dict[object, Event]] = {}
        self._dying: Final[dict[object, Event]] = {}
        # By message and the queue of its last death: the letter that would have closed a cycle, and the queue that it
        # would have entered again.
        self._cycles: Final[dict[_Death, tuple[Message, str]]] = {}
        self._settled: Final[dict[object, Event]] = {}
        # Deliveries with automatic ack, by connection and queue.
        self._auto_acked: Final[dict[int, dict[str, int]]] = {}
        self._auto_ack_lost: list[Finding] = []
        # The copy of the last basic.get.
        self._last_got: object = None
        # By copy: the last delivery of those redelivered too often, and those that were reported.
        self._too_often: Final[dict[object, Event]] = {}
        self._reported: Final[dict[object, None]] = {}
        # Those removed from a queue since the last was deleted.
        self._purged: Final[list[Event]] = []
        # Channels with one prefetch limit for all their consumers.
        self._limited: Final[dict[tuple[int | None, int | None], None]] = {}
        self._handlers: Final[dict[str, Callable[[Event], None]]] = {
            events.CONN_OPEN: self._connection_opened,
            events.CONN_CLOSE: self._connection_closed,
            events.REFUSED: self._refused,
            events.QOS: self._limits_set,
            events.CONSUME: self._consumer_added,
            events.QUEUE_DECLARE: self._declared,
            events.EXCHANGE_DECLARE: self._declared,
            events.BIND: self._declared,
            **dict.fromkeys(events.PUSHES, self._delivered),
            events.GOT: self._got,
            events.ACKED: self._acked,
            **dict.fromkeys(events.REFUSING, self._rejected),
            **dict.fromkeys(events.WITHOUT_REASON, self._copy_expired),
            **dict.fromkeys(events.RETURNS, self._returned),
            events.DROPPED: self._dropped,
            **dict.fromkeys(events.DEATHS, self._dead_lettered),
            **dict.fromkeys(events.ARRIVALS, self._enqueued),
            events.PURGED: self._purged.append,
            events.QUEUE_DELETE: self._queue_deleted,
        }

    def feed(self, raw_events: Iterable[RawEvent], node: Node, max_redeliveries: int) -> list[Finding]:
        """Read the new events and return the findings in them."""
        self._node, self._max_redeliveries, self._unrouted = node, max_redeliveries, None
        handlers = self._handlers
        for raw in raw_events:
            kind = cast("str", raw[0])
            handle, field = handlers.get(kind), _MATTERS_BY.get(kind)
            if handle is not None and (field is None or raw[field]):
                handle(Event(raw))
        self._conclude()
        found, self._findings = self._findings, []
        return found

    def _conclude(self) -> None:
        for copy, event in list(self._expired.items()):
            if not self._is_kept(event):
                del self._expired[copy]
                self._lose(event, "expired", self._why_not_dead_lettered(event))
        for copy, event in list(self._dying.items()):
            if not self._is_kept(event) and not self._is_delayed(event):
                del self._dying[copy]
                self._lose(event, cast("str", event.reason), self._why_lost(event))
        for copy, event in self._too_often.items():
            self._reported[copy] = None
            self._find_loop(event)
        self._too_often.clear()
        self._findings += self._auto_ack_lost
        self._auto_ack_lost = []
        self._settled.clear()
        self._purged.clear()
        if not self._dying:
            self._cycles.clear()

    def _connection_opened(self, event: Event) -> None:
        if event.conn is not None:
            self.clients[event.conn] = event.client

    def _connection_closed(self, event: Event) -> None:
        if event.conn is None:
            return
        counts = self._auto_acked.pop(event.conn, {})
        if event.reason is None:
            return
        for queue, count in counts.items():
            names = {
                "queue": queue,
                "client": self.clients.get(event.conn),
                "by": self._client(event.conn),
                "reason": event.reason,
            }
            found = Finding("auto_ack_lost", event.vhost, names, thing_count=count, evidence=(event,))
            self._auto_ack_lost.append(found)

    def _queue_deleted(self, event: Event) -> None:
        if event.reason == _RESTART:
            for purged in (one for one in self._purged if one.queue == event.queue and one.reason == "queue_deleted"):
                self._find("lost_at_restart", purged, because="queue_not_durable")
        self._purged.clear()
        if event.reason in _WITH_CONNECTION:
            self._auto_ack_lost = [finding for finding in self._auto_ack_lost if finding.place("queue") != event.queue]

    def _refused(self, event: Event) -> None:
        # Until its connection is open, a client waits for the answer and so hears of any error.
        if event.conn not in self.clients or event.code == _FORCED:
            return
        text = refusal_text(event)
        problem = (event.subject or {}).get("problem")
        if problem == "inequivalent":
            self._find("redeclared_differently", event, {"client": event.client, "line": event.caller}, refusal=text)
            return
        reaction = self._node.reactions.get((event.conn, cast("int", event.chan), event.at))
        if reaction is not None or problem in _WITHOUT_REPLY:
            self._find("unseen_channel_error", event, {"client": event.client, "opener": event.opener}, refusal=text)
            self._findings[-1] = self._findings[-1]._replace(reaction=reaction)

    def _limits_set(self, event: Event) -> None:
        if event.is_global and event.count:
            self._limited[event.conn, event.chan] = None

    def _declared(self, event: Event) -> None:
        if event.kind != events.BIND:
            self._arguments_given(event)
        if event.conn is None or self._node.defined is None:
            return
        from leveret.observe.checks.not_in_definitions import lacking, near, part_text

        part = lacking(event, self._node)
        if part is not None:
            names = {"part": part_text(part), "by": self._client(event.conn), "known": near(part, self._node.defined)}
            places = {"queue": event.get("queue"), "exchange": event.get("exchange")}
            self._find("not_in_definitions", event, {**names, **places, "client": self.clients.get(event.conn)})

    def _arguments_given(self, event: Event) -> None:
        if not event.arguments:
            return
        # Imported here because few tests give arguments.
        from leveret.observe.checks.misspelt_arguments import misspelt

        queue, exchange = cast("str | None", event.get("queue")), cast("str | None", event.get("exchange"))
        consumer = cast("str | None", event.get("consumer"))
        place = f"exchange {exchange!r}" if queue is None else f"queue {queue!r}"
        place = place if consumer is None else f"consumer {consumer!r} of {place}"
        for name, known in misspelt(event.kind, cast("Table", event.arguments)):
            client = None if event.conn is None else self.clients.get(event.conn)
            names = {"argument": name, "place": place, "by": self._client(event.conn), "known": known}
            self._find("unknown_argument", event, {**names, "queue": queue, "exchange": exchange, "client": client})

    def _consumer_added(self, event: Event) -> None:
        self._arguments_given(event)
        is_limited = event.prefetch_count or event.no_ack or (event.conn, event.chan) in self._limited
        if event.conn is not None and not is_limited:
            names = {"consumer": event.consumer, "by": self._client(event.conn), "queue": event.queue}
            self._find("unlimited_prefetch", event, {**names, "client": self.clients.get(event.conn)})

    def _got(self, event: Event) -> None:
        self._last_got = event.copy
        self._delivered(event)

    def _delivered(self, event: Event) -> None:
        if event.count >= self._max_redeliveries and event.copy not in self._reported:
            self._too_often[event.copy] = event

    def _acked(self, event: Event) -> None:
        # Hot: once per message that needs no ack.
        conn, queue, copy, reason = cast("tuple[int | None, str, int | None, str]", _OF_ACK(event.raw))
        # A message from basic.get does not count: the client waits for that answer.
        is_automatic = reason == events.NO_ACK and copy != self._last_got
        # Direct replies do not count: they can only be consumed with automatic acks.
        if is_automatic and conn is not None and not queue.startswith(_DIRECT_REPLY_PREFIX):
            counts = self._auto_acked.setdefault(conn, {})
            counts[queue] = counts.get(queue, 0) + 1

    def _rejected(self, event: Event) -> None:
        self._settled[event.copy] = event

    def _copy_expired(self, event: Event) -> None:
        self._expired[event.copy] = event

    def _dropped(self, event: Event) -> None:
        message = cast("Message", event.message)
        if event.copy is None and event.reason == events.NO_ROUTE:
            if message.exchange not in CELERY_EXCHANGES:
                self._find_unroutable(event)
        elif event.reason == _CYCLE:
            self._cycle_closed(event)
        elif event.reason == "uncommitted":
            self._find("uncommitted", event, because="closed_without_commit")
        elif event.reason == _RESTART:
            self._find("lost_at_restart", event, because="not_persistent")
        elif event.copy is not None and event.reason in _LOST_BY:
            self._lose(event, event.reason, self._why_not_dead_lettered(event))

    def _returned(self, event: Event) -> None:
        if event.message.id in self._node.ignored_returns:
            self._find_unroutable(event, "return_ignored")

    def _find_unroutable(self, event: Event, kind: str = "unroutable") -> None:
        message = cast("Message", event.message)
        self._find("unroutable", event, because=self._why_unrouted(event.vhost, message), kind=kind)

    def _why_unrouted(self, vhost: str, message: Message) -> Cause:
        # Imported here because most tests lose nothing.
        from leveret.observe.texts.routes import Unrouted

        self._unrouted = self._unrouted or Unrouted(self._node)
        return self._unrouted.why(vhost, message)

    def _cycle_closed(self, event: Event) -> None:
        """Remember the cycle for the copy that died last. Another copy of its letter may still arrive."""
        letter = cast("Message", event.message)
        self._cycles[letter.id, event.vhost, letter.deaths[0].queue] = letter, cast("str", event.queue)

    def _why_lost(self, event: Event) -> Cause:
        from leveret.story.causes import Cause

        cycle = self._cycles.get((event.message.id, event.vhost, event.queue))
        if cycle is not None:
            return _cycle(*cycle)
        from leveret.core.model.message import Message

        dead, key = cast("Message", event.message), event.routing_key
        letter = Message(dead.id, event.exchange, key, dead.properties, b"", dead.body, (key,))
        why = self._why_unrouted(event.vhost, letter)
        return Cause("dead_letter_unrouted", {"exchange": event.exchange}, because=why)

    def _dead_lettered(self, event: Event) -> None:
        self._expired.pop(event.copy, None)
        self._cycles.pop((event.message.id, event.vhost, event.queue), None)
        self._dying[event.copy] = event

    def _enqueued(self, event: Event) -> None:
        if event.src_copy is not None:
            self._dying.pop(event.src_copy, None)
            self._expired.pop(event.src_copy, None)

    def _find_loop(self, event: Event) -> None:
        # Imported here because most tests have no loop.
        from leveret.observe.texts.redelivery import why_no_end

        queue = self._queue(event)
        names = {"queue": event.queue, "by": self._client(event.conn), "times": event.count}
        self._find("redelivered_too_often", event, names, because=None if queue is None else why_no_end(queue))

    def _lose(self, event: Event, reason: str, why: Cause | None) -> None:
        settled = self._settled.get(event.copy)
        names = {"queue": event.queue, "by": None if settled is None else self._client(settled.conn)}
        kind = "given_up" if reason == "delivery_limit" else None
        evidence = () if settled is None else (settled,)
        self._find(_LOST_BY[reason], event, names, because=why, kind=kind, evidence=evidence)

    def _find(
        self,
        check: str,
        event: Event,
        names: Mapping[str, object] | None = None,
        *,
        because: Cause | str | None = None,
        kind: str | None = None,
        refusal: str | None = None,
        evidence: tuple[Event, ...] = (),
    ) -> None:
        message = cast("Message | None", event.get("message"))
        facts = {"queue": event.get("queue")} if names is None else names
        facts = facts if refusal is None else {**facts, "refusal": refusal}
        shown = (*evidence, event)
        self._findings.append(
            Finding(check, event.vhost, facts, message, because=because, evidence=shown, kind=kind, refusal=refusal)
        )

    def _is_kept(self, event: Event) -> bool:
        """Return whether the queue keeps a dying message until its targets have it (at-least-once dead-lettering)."""
        return event.copy in getattr(self._queue(event), "dying", ())

    def _is_delayed(self, event: Event) -> bool:
        vhost = self._node.vhosts.get(event.vhost)
        exchange = None if vhost is None else vhost.exchanges.get(event.exchange)
        return exchange is not None and exchange.can_delay

    def _why_not_dead_lettered(self, event: Event) -> Cause | None:
        from leveret.observe.texts.routes import why_not_dead_lettered

        return why_not_dead_lettered(self._node, event.vhost, cast("str", event.queue))

    def _queue(self, event: Event) -> StoredQueue | None:
        return existing_queue(self._node, event.vhost, event.queue)

    def _client(self, number: int | None) -> str:
        return "the test" if number is None else self.clients.get(number, f"connection {number}")


def _cycle(letter: Message, queue: str) -> Cause:
    """Return the way of a dead letter back to a queue in which it has died, queue by queue."""
    from leveret.story.causes import Cause

    # The newest death is the first. On the way from one queue to the next, it was published with these keys.
    deaths = letter.deaths
    deaths = deaths[: [death.queue for death in deaths].index(queue) + 1][::-1]
    way = [f"{death.queue!r} by {death.exchange!r} {', '.join(map(repr, death.routing_keys))}" for death in deaths[1:]]
    way.append(f"{queue!r} again by {letter.exchange!r} {', '.join(map(repr, letter.routing_keys))}")
    return Cause("cycle", {"queue": queue, "reason": deaths[0].reason, "way": way})
