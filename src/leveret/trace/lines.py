"""The lines of a trace file: the events of one broker as text.

Each frequent kind of event has a template. A template joins parts that repeat, and these are cached: names, and all
that the events of one turn, one channel or one queue have in common, are escaped once. Other kinds are written from
their row. This module runs outside the broker's hot path, on many events at a time.

Values that differ from line to line come first, so that the rest compresses well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from json.encoder import encode_basestring_ascii as quoted
from operator import attrgetter
from typing import Final

from leveret.trace import events
from leveret.trace.events import RawEvent, TracedMessage
from leveret.trace.redaction import Redaction
from leveret.trace.rows import HASH_BYTES, Numbering, Rows, is_stored_anew, json_text

# The size at which a cache is cleared: a test that makes up names without end must not fill the memory.
_CACHE_MAX: Final = 4096

# The properties that `attrs` holds, as the key under which its text is cached.
_ATTRS_KEY: Final = attrgetter(
    *("headers", "content_type", "delivery_mode", "content_encoding", "priority", "reply_to", "expiration"),
    *("timestamp", "type", "user_id", "app_id", "cluster_id"),
)

# From a raw event, its sequence number, the text of its times up to `"seq":`, and the line's end to a line.
Template = Callable[..., str]

# The raw events, laid out as `FIELDS` says.
_Published = tuple[str, int, str, int | None, int | None, "TracedMessage", int | None]
_Confirmed = tuple[str, int, str, int | None, int | None, "TracedMessage", int, bool]
_Enqueued = tuple[str, int, str, str, "TracedMessage", int, int | None, int | None]
_Delivered = tuple[str, int, str, int | None, int | None, str, "TracedMessage", int, str, int, bool, int]
_Settled = tuple[str, int, str, int | None, int | None, str, "TracedMessage", int, int, bool]
_Acked = tuple[str, int, str, int | None, int | None, str, "TracedMessage", int, int, bool, str | None]
_Moved = tuple[str, int, str, str, "TracedMessage", int, str]


class Lines:
    """The lines of one broker's events."""

    def __init__(self, numbering: Numbering, redaction: Redaction, *, keeps_bodies: bool) -> None:
        self._rows: Final = Rows(numbering, redaction, keeps_bodies=keeps_bodies)
        # The test that is running, from the broker's last `test_start` event.
        self.test: str | None = None
        # The caches of repeating parts, by the values they are made of.
        self._places: Final[dict[tuple[object, ...], str]] = {}
        self._addresses: Final[dict[tuple[str, str], str]] = {}
        self._attrs: Final[dict[object, str]] = {}
        self._templates: dict[object, Template] = self._new_templates()

    def begin_anew(self, numbering: Numbering) -> None:
        """Use this numbering from now on: the broker was reset and counts from 1 again."""
        self._rows.numbering = numbering
        self._places.clear()
        self._templates = self._new_templates()

    def write(self, raw_events: Iterable[RawEvent], wall: int | None, next_seq: Callable[[], int]) -> list[str]:
        """Return the lines of events from one turn of the loop, each with its newline.

        `wall` is the real time of that turn; None leaves it out.
        """
        # Hot: a loop over events.
        templates, test = self._templates, self.test
        lines: list[str] = []
        add = lines.append
        last_at: object = None
        turn, end = "", _end_text(test)
        wall_text = "" if wall is None else f',"wall":{wall}'
        for raw in raw_events:
            kind, at = raw[0], raw[1]
            template = templates.get(kind)
            if template is not None:
                if at is not last_at:
                    last_at = at
                    turn = f',"ts":{at}{wall_text},"seq":'
                add(template(raw, next_seq(), turn, end))
            elif kind == events.TEST_START:
                test = str(raw[2])
                end = _end_text(test)
            elif kind != events.TEST_END:
                add(f"{json_text(self._rows.row(raw, next_seq(), wall, test))}\n")
        self.test = test
        self._clear_large_caches()
        return lines

    def _new_templates(self) -> dict[object, Template]:
        return {
            events.PUBLISHED: self._new_published(),
            events.CONFIRMED: self._new_confirmed(),
            events.ENQUEUED: self._new_enqueued(),
            events.DELIVERED: self._new_delivered(),
            events.ACKED: self._new_acked(),
            **{kind: self._new_settled(kind) for kind in events.REFUSING},
            **{kind: self._new_moved(kind) for kind in (events.REQUEUED, events.PURGED)},
        }

    def _new_published(self) -> Template:
        base, places, addresses, cached = self._rows.numbering.base, self._places, self._addresses, self._attrs
        is_cached = not self._rows.keeps_bodies

        def published(raw: _Published, seq: int, turn: str, end: str) -> str:
            _, _, vhost, conn, chan, message, tag = raw
            place = places.get((vhost, conn, chan)) or self._channel_text(vhost, conn, chan)
            address = addresses.get((message.exchange, message.routing_key)) or self._address_text(message)
            properties, body = message.properties, message.body
            name, correlation = properties.message_id, properties.correlation_id
            attrs = None
            if is_cached and len(message.routing_keys) == 1:
                attrs = cached.get(_ATTRS_KEY(properties))
            if attrs is None:
                attrs = self._attrs_text(message)
            number = "" if tag is None else f',"tag":{tag}'
            named = "" if name is None else f',"message_id":{quoted(name)}'
            if correlation is not None:
                named = f'{named},"correlation_id":{quoted(correlation)}'
            return (
                f'{{"kind":"published"{turn}{seq},"msg":{message.id + base}{number},'
                f'"body_hash":"{blake2b(body, digest_size=HASH_BYTES).hexdigest()}","size":{len(body)}{named}'
                f"{place}{address}{attrs}{end}"
            )

        return published

    def _new_confirmed(self) -> Template:
        base, places = self._rows.numbering.base, self._places

        def confirmed(raw: _Confirmed, seq: int, turn: str, end: str) -> str:
            _, _, vhost, conn, chan, message, tag, multiple = raw
            place = places.get((vhost, conn, chan)) or self._channel_text(vhost, conn, chan)
            flag = "true" if multiple else "false"
            numbers = f'{seq},"msg":{message.id + base},"tag":{tag}'
            return f'{{"kind":"confirmed"{turn}{numbers},"multiple":{flag}{place}{end}'

        return confirmed

    def _new_enqueued(self) -> Template:
        base, places, addresses = self._rows.numbering.base, self._places, self._addresses

        def enqueued(raw: _Enqueued, seq: int, turn: str, end: str) -> str:
            _, _, vhost, queue, message, copy, src_copy, expires = raw
            place = places.get((vhost, queue)) or self._queue_text(vhost, queue)
            address = addresses.get((message.exchange, message.routing_key)) or self._address_text(message)
            rest = "" if expires is None else f',"expires":{expires}'
            attrs = ""
            if src_copy is not None:
                rest, attrs = f'{rest},"src_copy":{src_copy + base}', self._attrs_text(message)
            elif is_stored_anew(message):
                attrs = self._attrs_text(message)
            return (
                f'{{"kind":"enqueued"{turn}{seq},"msg":{message.id + base},"copy":{copy + base},'
                f'"size":{len(message.body)}{rest}{place}{address}{attrs}{end}'
            )

        return enqueued

    def _new_delivered(self) -> Template:
        base, places, addresses = self._rows.numbering.base, self._places, self._addresses

        def delivered(raw: _Delivered, seq: int, turn: str, end: str) -> str:
            _, _, vhost, conn, chan, queue, message, copy, consumer, tag, redelivered, count = raw
            key = (vhost, conn, chan, queue, consumer)
            place = places.get(key) or self._consumer_text(*key)
            address = addresses.get((message.exchange, message.routing_key)) or self._address_text(message)
            flag = "true" if redelivered else "false"
            return (
                f'{{"kind":"delivered"{turn}{seq},"msg":{message.id + base},"copy":{copy + base},"tag":{tag},'
                f'"redelivered":{flag},"count":{count}{place}{address}{end}'
            )

        return delivered

    def _new_settled(self, kind: str) -> Template:
        base, places = self._rows.numbering.base, self._places

        def settled(raw: _Settled, seq: int, turn: str, end: str) -> str:
            _, _, vhost, conn, chan, queue, message, copy, tag, multiple = raw
            place = places.get((vhost, conn, chan, queue)) or self._queue_text(vhost, queue, conn, chan)
            flag = "true" if multiple else "false"
            return (
                f'{{"kind":"{kind}"{turn}{seq},"msg":{message.id + base},"copy":{copy + base},"tag":{tag},'
                f'"multiple":{flag}{place}{end}'
            )

        return settled

    def _new_acked(self) -> Template:
        settled = self._new_settled(events.ACKED)

        def acked(raw: _Acked, seq: int, turn: str, end: str) -> str:
            reason = raw[10]
            return settled(raw[:10], seq, turn, end if reason is None else f',"reason":{quoted(reason)}{end}')

        return acked

    def _new_moved(self, kind: str) -> Template:
        base, places = self._rows.numbering.base, self._places

        def moved(raw: _Moved, seq: int, turn: str, end: str) -> str:
            _, _, vhost, queue, message, copy, reason = raw
            place = places.get((vhost, queue)) or self._queue_text(vhost, queue)
            numbers = f'{seq},"msg":{message.id + base},"copy":{copy + base}'
            return f'{{"kind":"{kind}"{turn}{numbers},"reason":{quoted(reason)}{place}{end}'

        return moved

    def _channel_text(self, vhost: str, conn: int | None, chan: int | None) -> str:
        number = self._rows.numbering.connection(conn)
        connection = "" if number is None else f',"conn":{number}'
        channel = "" if chan is None else f',"chan":{chan}'
        text = self._places[vhost, conn, chan] = f',"vhost":{quoted(vhost)}{connection}{channel}'
        return text

    def _queue_text(self, vhost: str, queue: str, *client: int | None) -> str:
        where = self._channel_text(vhost, *(client or (None, None)))
        text = f'{where},"queue":{quoted(queue)}'
        self._places[(vhost, *client, queue)] = text
        return text

    def _consumer_text(self, vhost: str, conn: int | None, chan: int | None, queue: str, consumer: str) -> str:
        text = f'{self._queue_text(vhost, queue, conn, chan)},"consumer":{quoted(consumer)}'
        self._places[vhost, conn, chan, queue, consumer] = text
        return text

    def _address_text(self, message: TracedMessage) -> str:
        exchange, key = message.exchange, message.routing_key
        text = self._addresses[exchange, key] = f',"exchange":{quoted(exchange)},"routing_key":{quoted(key)}'
        return text

    def _attrs_text(self, message: TracedMessage) -> str:
        attrs = self._rows.message_attrs(message)
        text = f',"attrs":{quoted(json_text(attrs))}' if attrs else ""
        if len(message.routing_keys) == 1 and not self._rows.keeps_bodies:
            self._attrs[_ATTRS_KEY(message.properties)] = text
        return text

    def _clear_large_caches(self) -> None:
        for cache in (self._places, self._addresses, self._attrs):
            if len(cache) > _CACHE_MAX:
                cache.clear()


def _end_text(test: str | None) -> str:
    return "}\n" if test is None else f',"test":{quoted(test)}}}\n'
