"""RabbitMQ's own records of messages as rows of a trace: its firehose, and the JSON logs of its tracing plugin.

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
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import count
from os import PathLike, fspath
from typing import Final, cast

from leveret.errors import UnreadableTraceError
from leveret.trace import events
from leveret.trace.redaction import Redaction
from leveret.trace.rows import Row, body_hash, json_text, message_attrs
from leveret.trace.trace_file import TraceFile


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
        """Yield the rows of a log of rabbitmq_tracing in its format JSON.

        An entry that is cut off at the end of the file is left out. Raises UnreadableTraceError if the file is not such
        a log, and OSError if it cannot be read.
        """
        for entry in _entries(fspath(path)):
            kind = events.PUBLISHED if entry["type"] == "published" else events.DELIVERED
            at = round(datetime.fromisoformat(str(entry["timestamp"])).timestamp() * 1_000_000)
            yield self._row(kind, entry, str(entry["exchange"]), cast("bytes", entry["payload"]), at=at)

    def _row(self, kind: str, entry: Mapping[str, object], exchange: str, body: bytes, *, at: int | None) -> Row:
        keys = [str(key) for key in cast("Iterable[object]", entry.get("routing_keys") or [""])]
        properties = cast("Mapping[str, object]", entry.get("properties") or {})
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
            **{name: properties.get(name) for name in ("message_id", "correlation_id")},
            "vhost": entry.get("vhost"),
            "conn": self._connection(str(entry.get("connection", ""))),
            "chan": entry.get("channel"),
            "queue": None if is_published else entry.get("queue"),
            "exchange": exchange,
            "routing_key": keys[0],
            "attrs": json_text(self._attrs(entry, keys, body, is_published=is_published)),
        }
        return {name: value for name, value in row.items() if value is not None}

    def _attrs(self, entry: Mapping[str, object], keys: list[str], body: bytes, *, is_published: bool) -> Row:
        properties = cast("Mapping[str, object]", entry.get("properties") or {})
        attrs = message_attrs(properties, keys, body if self._keeps_bodies else None, self._redaction)
        if is_published:
            attrs["routed_queues"] = [str(name) for name in cast("Iterable[object]", entry.get("routed_queues") or ())]
        return {**attrs, **{name: entry[name] for name in ("user", "node") if entry.get(name)}}

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
        file.append(f"{json_text(row)}\n")
    file.close()
    return file.path


def _entries(path: str) -> Iterator[dict[str, object]]:
    with open(path, "rb") as file:
        content = file.read()
    if content[:1] != b"{":
        raise UnreadableTraceError(
            f"{path} is not a log of rabbitmq_tracing in the format JSON: it does not begin with an entry; pass a log "
            "of a trace that was added with the format JSON"
        )
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


def _with_lists(entry: dict[str, object]) -> dict[str, object]:
    """Replace the word "none", which the JSON format writes for what does not apply."""
    for name in ("routed_queues", "queue"):
        if entry.get(name) == "none":
            entry[name] = None
    return entry
