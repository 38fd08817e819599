"""The lines of a trace file: the events of one broker as text.

Each frequent kind of event has a template. It writes the numbers of an event, which differ from line to line. All other
columns repeat, so it takes their text from a cache, which holds what their row said when they first occurred together.
An event with a value that repeats seldom is written from its row, and so are all events of other kinds. This module
runs outside the broker's hot path, on many events at a time.

Values that differ from line to line come first, so that the rest compresses well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from json.encoder import encode_basestring_ascii as quoted
from operator import itemgetter
from typing import TYPE_CHECKING, Final, cast

from leveret.trace import events
from leveret.trace.events import FIELDS, POSITIONS, TABLE, RawEvent, TracedMessage
from leveret.trace.redaction import Redaction
from leveret.trace.rows import ATTRS_KEY, HASH_BYTES, FileNumbering, Row, Rows, is_stored_anew, json_text
from leveret.trace.shapes import client_pattern

if TYPE_CHECKING:
    from leveret.trace.shapes.file_shapes import FileShapes

# The size at which a cache is cleared: a test that makes up names without end must not fill the memory.
_CACHE_MAX: Final = 4096

# The kinds whose templates differ only in their fields.
_ALIKE: Final = (
    *(events.ENQUEUED, events.CONFIRMED, *events.PUSHES, *events.SETTLING, *events.REQUEUES, events.PURGED),
)
# The columns that a template writes itself.
_DIFFERING: Final = frozenset({"kind", "ts", "msg", "copy", "tag", "size", "body_hash", "message_id", "correlation_id"})
_CLIENT: Final = POSITIONS[events.CONN_OPEN]["client"]
_CONN: Final = POSITIONS[events.CONN_OPEN]["conn"]

# From a raw event, its sequence number, the text of its times up to `"seq":`, and the line's end to a line; None for an
# event to write from its row.
Template = Callable[..., str | None]
# The raw events, laid out as `FIELDS` says.
_Published = tuple[str, int, str, int | None, int | None, "TracedMessage", int | None]
# The texts of the columns that repeat, by their values.
_Cache = dict[tuple[object, ...], str]


class Lines:
    """The lines of one broker's events."""

    def __init__(
        self, numbering: FileNumbering, redaction: Redaction, *, keeps_bodies: bool, shapes: FileShapes | None = None
    ) -> None:
        """Prepare to write. Without `shapes`, messages have none."""
        self._rows: Final = Rows(numbering, redaction, keeps_bodies=keeps_bodies)
        self._shapes: Final = shapes
        # The rows of shapes that are not written yet, and the connections of the test itself.
        self._new_shapes: Final[list[Row]] = []
        self._of_test: Final[set[object]] = {None}
        # The test that is running, from the broker's last `test_start` event.
        self.test: str | None = None
        # By kind.
        self._caches: Final[dict[object, _Cache]] = {kind: {} for kind in (events.PUBLISHED, *_ALIKE)}
        self._templates: dict[object, Template] = self._new_templates()

    def begin_anew(self, numbering: FileNumbering) -> None:
        """Use this numbering from now on: the broker was reset and counts from 1 again."""
        self._rows.numbering = numbering
        for cache in self._caches.values():
            cache.clear()
        self._of_test.intersection_update({None})
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
            if kind == events.TEST_START:
                test = str(raw[2])
                end = _end_text(test)
            elif kind != events.TEST_END:
                if at is not last_at:
                    last_at = at
                    turn = f',"ts":{at}{wall_text},"seq":'
                seq = next_seq()
                line = None if template is None else template(raw, seq, turn, end)
                add(f"{json_text(self._row(raw, seq, wall, test))}\n" if line is None else line)
        lines += [f"{json_text({**row, 'seq': next_seq()})}\n" for row in self._new_shapes]
        self._new_shapes.clear()
        self.test = test
        for cache in self._caches.values():
            if len(cache) > _CACHE_MAX:
                cache.clear()
        return lines

    def _row(self, raw: RawEvent, seq: int, wall: int | None, test: str | None) -> Row:
        row = self._rows.row(raw, seq, wall, test)
        if raw[0] == events.CONN_OPEN and client_pattern(cast("str | None", raw[_CLIENT])) is None:
            self._of_test.add(raw[_CONN])
        if raw[0] == events.PUBLISHED and (shape := self._shape_of(cast("_Published", raw))):
            row["shape"] = shape
        return row

    def _shape_of(self, raw: _Published) -> str:
        """Return the hash of the shape of a message that was published; empty if it has none."""
        _, _, vhost, conn, _, message, _ = raw
        if self._shapes is None:
            return ""
        redaction = None if conn in self._of_test else self._rows.redaction
        return self._shapes.hash_of(vhost, message, redaction, self._new_shapes)

    def _new_templates(self) -> dict[object, Template]:
        return {
            events.PUBLISHED: self._new_published(),
            **{kind: self._new_template(kind) for kind in _ALIKE},
        }

    def _new_published(self) -> Template:
        base, cache, keeps_bodies = self._rows.numbering.base, self._caches[events.PUBLISHED], self._rows.keeps_bodies
        shape_of = self._shape_of

        def published(raw: _Published, seq: int, turn: str, end: str) -> str | None:
            _, _, vhost, conn, chan, message, tag = raw
            properties, body = message.properties, message.body
            if keeps_bodies or len(message.routing_keys) > 1:
                return None
            key = (vhost, conn, chan, message.exchange, message.routing_key, ATTRS_KEY(properties))
            repeating = cache.get(key) or self._repeating(raw, cache, key)
            name, correlation = properties.message_id, properties.correlation_id
            number = "" if tag is None else f',"tag":{tag}'
            named = "" if name is None else f',"message_id":{quoted(name)}'
            if correlation is not None:
                named = f'{named},"correlation_id":{quoted(correlation)}'
            shape = shape_of(raw)
            if shape:
                named = f'{named},"shape":"{shape}"'
            return (
                f'{{"kind":"published"{turn}{seq},"msg":{message.id + base}{number},'
                f'"body_hash":"{blake2b(body, digest_size=HASH_BYTES).hexdigest()}","size":{len(body)}{named}'
                f"{repeating}{end}"
            )

        return published

    def _new_template(self, kind: str) -> Template:
        base, cache, places = self._rows.numbering.base, self._caches[kind], POSITIONS[kind]
        start = f'{{"kind":"{kind}"'
        has_copy, has_tag, is_addressed = "copy" in places, "tag" in places, TABLE[kind].is_addressed
        is_enqueued = kind == events.ENQUEUED
        # Of what a kind lacks, the place does not matter.
        differing_of = itemgetter(*(places.get(name, 0) for name in ("message", "copy", "tag")))
        values_of = itemgetter(*(places[name] for name in FIELDS[kind] if name not in ("message", "copy", "tag")))

        def line(raw: RawEvent, seq: int, turn: str, end: str) -> str | None:
            message, copy, tag = differing_of(raw)
            # A dead letter has attributes, and the time at which a copy expires does not repeat.
            if is_enqueued and (raw[-2:] != (None, None) or is_stored_anew(message)):
                return None
            values = values_of(raw)
            key = (values, message.exchange, message.routing_key) if is_addressed else values
            repeating = cache.get(key) or self._repeating(raw, cache, key)
            copy_text = f',"copy":{copy + base}' if has_copy else ""
            rest = f',"tag":{tag}' if has_tag else f',"size":{len(message.body)}' if is_enqueued else ""
            return f'{start}{turn}{seq},"msg":{message.id + base}{copy_text}{rest}{repeating}{end}'

        return line

    def _repeating(self, raw: RawEvent, cache: _Cache, key: tuple[object, ...]) -> str:
        """Return the text of the columns that repeat, from the event's row, and keep it."""
        row, attrs = self._rows.columns_and_attrs(raw)
        columns = {name: value for name, value in row.items() if value is not None and name not in _DIFFERING}
        if attrs:
            columns["attrs"] = json_text(attrs)
        text = cache[key] = f",{json_text(columns)[1:-1]}"
        return text


def _end_text(test: str | None) -> str:
    return "}\n" if test is None else f',"test":{quoted(test)}}}\n'
