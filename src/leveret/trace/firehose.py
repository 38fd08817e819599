"""RabbitMQ's own records of messages as rows of a trace: its firehose, and the logs of its tracing plugin.

RabbitMQ reports publishes, with the queues they were routed to, and deliveries, including those of basic.get. It does
not report acks or ids of copies, and of dead-lettering it reports only the delivery that follows. The firehose has no
times. So a `delivered` row has no `msg` and no `copy`, and only rows that come from a log have `ts` and `wall`.
Connections are numbered in the order in which they appear. Bodies are hashed and headers redacted as in a trace that
leveret records. All of this was seen on RabbitMQ 4.3 and 3.10.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import count
from os import PathLike, fspath
from typing import Final, cast

from leveret.errors import UnreadableTraceError
from leveret.trace import events
from leveret.trace.erlang_terms import Unparsable, parsed
from leveret.trace.redaction import Redaction, body_text, plain
from leveret.trace.rows import Row, attrs_text, body_hash, row_text
from leveret.trace.trace_file import TraceFile

_COLUMNS_OF_ITS_OWN: Final = ("message_id", "correlation_id")
_RULE: Final = "=" * 80
# The start of an entry in the text log: its time and type.
_ENTRY: Final = re.compile(rf"\n{_RULE}\n(\S+): Message (published|received)\n\n")
# The same start where the file was cut in the middle of it.
_CUT_ENTRY: Final = re.compile(rf"\n(={{1,79}}|{_RULE}(\n[^\n]*\n?)?)\Z")
_FIELD: Final = re.compile(r"^([A-Z][A-Za-z ]+): *", re.MULTILINE)
_PAYLOAD: Final = "\nPayload: \n"


class Firehose:
    """A converter from RabbitMQ's records to rows, in the order in which it gets them."""

    def __init__(self, *, bodies: bool = False, redact: Iterable[str] = ()) -> None:
        """Prepare a converter. `bodies` also keeps bodies; `redact` names further headers whose values are hidden."""
        self._redaction: Final = Redaction(redact)
        self._keeps_bodies: Final = bodies
        self._next_seq: Final = count(1).__next__
        self._next_message: Final = count(1).__next__
        self._connections: Final[dict[str, int]] = {}

    def row(self, routing_key: str, headers: Mapping[str, object], body: bytes) -> Row:
        """Return the row of one message from the exchange amq.rabbitmq.trace.

        Raises UnreadableTraceError if the routing key is not one that the firehose uses.
        """
        what, dot, name = routing_key.partition(".")
        if not dot or what not in ("publish", "deliver"):
            raise UnreadableTraceError(
                f"routing key {routing_key!r} is not one of the firehose: it must begin with 'publish.' or 'deliver.'; "
                "pass only messages that were routed by the exchange amq.rabbitmq.trace"
            )
        entry = {**headers, "queue": name if what == "deliver" else None}
        kind = events.DELIVERED if what == "deliver" else events.PUBLISHED
        return self._row(kind, entry, cast("str", headers.get("exchange_name", "")), body, at=None)

    def log(self, path: str | PathLike[str]) -> Iterator[Row]:
        """Yield the rows of a log of rabbitmq_tracing, in either of its formats.

        An entry that is cut off at the end of the file is left out. Raises UnreadableTraceError if the file is not such
        a log, and OSError if it cannot be read.
        """
        with open(path, "rb") as file:
            content = file.read()
        entries = _json_entries(content, fspath(path)) if content[:1] == b"{" else _text_entries(content, fspath(path))
        for entry in entries:
            kind = events.PUBLISHED if entry["type"] == "published" else events.DELIVERED
            at = _microseconds(str(entry["timestamp"]))
            yield self._row(kind, entry, str(entry["exchange"]), cast("bytes", entry["payload"]), at=at)

    def _row(self, kind: str, entry: Mapping[str, object], exchange: str, body: bytes, *, at: int | None) -> Row:
        keys = [str(key) for key in cast("Iterable[object]", entry.get("routing_keys") or [""])]
        properties = dict(cast("Mapping[str, object]", entry.get("properties") or {}))
        is_published = kind == events.PUBLISHED
        flag = entry.get("redelivered")
        row: Row = {
            "kind": kind,
            "ts": at,
            "wall": at,
            "seq": self._next_seq(),
            "msg": self._next_message() if is_published else None,
            "redelivered": None if is_published or flag is None else bool(flag),
            "body_hash": body_hash(body),
            "size": len(body),
            **{name: properties.pop(name, None) for name in _COLUMNS_OF_ITS_OWN},
            "vhost": entry.get("vhost"),
            "conn": self._connection(str(entry.get("connection", ""))),
            "chan": entry.get("channel"),
            "queue": None if is_published else entry.get("queue"),
            "exchange": exchange,
            "routing_key": keys[0],
            "attrs": attrs_text(self._attrs(entry, properties, keys, body, is_published=is_published)),
        }
        return {name: value for name, value in row.items() if value is not None}

    def _attrs(
        self,
        entry: Mapping[str, object],
        properties: dict[str, object],
        keys: list[str],
        body: bytes,
        *,
        is_published: bool,
    ) -> dict[str, object]:
        attrs: dict[str, object] = {}
        headers = properties.pop("headers", None)
        if properties or headers is not None:
            shown = {} if headers is None else {"headers": self._redaction.shown(cast("Mapping[str, object]", headers))}
            attrs["properties"] = {**cast("dict[str, object]", plain(properties)), **shown}
        if len(keys) > 1:
            attrs["routing_keys"] = keys
        if is_published:
            attrs["routed_queues"] = [str(name) for name in cast("Iterable[object]", entry.get("routed_queues") or ())]
        attrs.update({name: entry[name] for name in ("user", "node") if entry.get(name)})
        if self._keeps_bodies:
            attrs["body"] = body_text(body)
        return attrs

    def _connection(self, name: str) -> int:
        return self._connections.setdefault(name, len(self._connections) + 1)


def write_trace(
    rows: Iterable[Row], directory: str, *, run: str, worker: str = "firehose", started: datetime, **facts: object
) -> str:
    """Write rows to a new trace file and return its path.

    `facts` are further fields of its header; pass `broker` among them, as in "rabbitmq 4.3.6". Raises OSError if the
    file cannot be written.
    """
    header = {"run": run, "started": started.isoformat(), "epoch_ns": round(started.timestamp() * 1e9), **facts}
    file = TraceFile.create(directory, worker, header)
    for row in rows:
        file.append(f"{row_text(row)}\n")
    file.close()
    return file.path


def _json_entries(content: bytes, path: str) -> Iterator[dict[str, object]]:
    *lines, _ = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            entry["payload"] = base64.b64decode(entry["payload"], validate=True)
            yield _with_lists(entry)
        except (ValueError, TypeError, KeyError, binascii.Error, RecursionError) as error:
            raise UnreadableTraceError(
                f"{path}: line {number} is not an entry of rabbitmq_tracing ({error!r}); pass a log that the plugin "
                "wrote, complete but for its last line"
            ) from None


def _text_entries(content: bytes, path: str) -> Iterator[dict[str, object]]:
    text = _CUT_ENTRY.sub("", _decoded(content))
    heads = list(_ENTRY.finditer(text))
    if not heads or heads[0].start() != 0:
        raise UnreadableTraceError(
            f"{path} is not a log of rabbitmq_tracing: it begins with an entry of neither format, text nor JSON; "
            "pass a log that the plugin wrote"
        )
    for head, end in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=True):
        fields, payload_follows, payload = text[head.end() : end].partition(_PAYLOAD)
        if not payload_follows:
            # The last entry was cut before its payload.
            return
        entry: dict[str, object] = {"timestamp": head.group(1), "type": head.group(2), **_text_fields(fields, path)}
        # The plugin prints each byte of a payload as one character.
        entry["payload"] = payload.removesuffix("\n").encode("latin-1", "replace")
        yield entry


def _decoded(content: bytes) -> str:
    """Decode a log: 4.3 writes its characters as UTF-8, 3.10 writes each as one byte."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


_TEXT_NAMES: Final = {
    "Node": "node",
    "Connection": "connection",
    "Virtual host": "vhost",
    "User": "user",
    "Channel": "channel",
    "Exchange": "exchange",
    "Queue": "queue",
}


def _text_fields(text: str, path: str) -> dict[str, object]:
    names = list(_FIELD.finditer(text))
    ends = [*(name.start() for name in names[1:]), len(text)]
    values = {name.group(1): text[name.end() : end].strip() for name, end in zip(names, ends, strict=True)}
    try:
        entry: dict[str, object] = {_TEXT_NAMES[name]: value for name, value in values.items() if name in _TEXT_NAMES}
        entry["channel"] = int(values["Channel"])
        entry["exchange"] = values["Exchange"]
        entry["routing_keys"] = parsed(values["Routing keys"])
        entry["routed_queues"] = parsed(values.get("Routed queues", "[]"))
        entry["properties"] = _table(parsed(values["Properties"]))
    except (KeyError, ValueError, TypeError, Unparsable, RecursionError) as error:
        raise UnreadableTraceError(
            f"{path}: an entry is not one of rabbitmq_tracing ({error!r}); pass a log that the plugin wrote"
        ) from None
    return entry


def _table(entries: object) -> dict[str, object]:
    return {
        str(name): _typed(kind, value) for name, kind, value in cast("list[tuple[object, object, object]]", entries)
    }


def _typed(kind: object, value: object) -> object:
    if kind == "table":
        return _table(value)
    if kind == "array":
        return [_typed(item_kind, item) for item_kind, item in cast("list[tuple[object, object]]", value)]
    return value


def _with_lists(entry: dict[str, object]) -> dict[str, object]:
    """Replace the word "none", which the JSON format writes for what does not apply."""
    for name in ("routed_queues", "queue"):
        if entry.get(name) == "none":
            entry[name] = None
    return entry


def _microseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1_000_000)
