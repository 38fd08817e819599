"""Messages that are in files already: those that rabtap has saved, and the publishes of a leveret trace.

rabtap writes a message as JSON, with its body in base64, or beside it in a file `.dat` of the same name
(https://github.com/jandelgado/rabtap, cmd/rabtap/message.go and message_writer.go). Both sources have headers as JSON,
which has fewer types than AMQP: a header gets the type that clients choose for its value of JSON.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Final

from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.errors import BrokerError, UnreadableTraceError
from leveret.recording.rec_file import NO_MESSAGE, Json, RecordedMessage, as_json, from_json
from leveret.recording.sources import TRACE_EXCHANGE, FirehoseReader
from leveret.trace.events import PUBLISHED
from leveret.trace.jsonl import TraceLines, TraceReader, refuse_special
from leveret.trace.redaction import body_octets
from leveret.trace.rows import body_hash

_SAVED: Final = re.compile(r"rabtap-\d+\.json")
_BEGIN: Final = re.compile(r"\S")
_NO_TIMESTAMP: Final = "0001-01-01T00:00:00Z"
# Where a message stands, and the function that reads it there.
_Place = tuple[str, Callable[[], RecordedMessage]]


def stored_messages(path: str, vhost: str, exchange: str | None) -> Iterator[RecordedMessage]:
    """Yield the publishes in a folder or a file of rabtap, or of one virtual host in a leveret trace, in order.

    Raises UnreadableTraceError with one line for what is none of these, is damaged or has no publish to the `exchange`,
    and BrokerError at the end of a trace that is cut.
    """
    firehose, is_found = FirehoseReader(), False
    for place, read in _places(path, vhost):
        try:
            message: RecordedMessage | None = read()
            if message is not None and message.exchange == TRACE_EXCHANGE:
                # rabtap got a record of a message from the firehose.
                message = firehose.read(message)
            if message is None or message.queue is not None or exchange not in (None, message.exchange):
                continue
            # What the file could not give back is no message.
            message = from_json(as_json(message))
        except UnreadableTraceError as error:
            raise UnreadableTraceError(f"{place}: {error}") from None
        except NO_MESSAGE as error:
            why = f"the message has no {error}" if isinstance(error, KeyError) else "this is no message"
            raise UnreadableTraceError(f"{place}: {why}; it is damaged, or was made by another program") from None
        is_found = True
        yield message
    if not is_found:
        where = "any exchange" if exchange is None else f"the exchange {exchange!r}"
        raise UnreadableTraceError(f"{path} has no message that was published to {where} in the vhost {vhost!r}")


def _places(path: str, vhost: str) -> Iterator[_Place]:
    if not os.path.isdir(path):
        refuse_special(path)
        header, _ = TraceLines(path).header()
        yield from _traced(path, vhost) if header else _saved(path)
        return
    names = sorted(filter(_SAVED.fullmatch, os.listdir(path)))
    if not names:
        raise UnreadableTraceError(f"{path} has no rabtap-*.json; name a folder of rabtap --saveto, or one trace")
    for name in names:
        yield from _saved(os.path.join(path, name))


def _saved(path: str) -> Iterator[_Place]:
    """Yield the messages of a file of rabtap, which is JSON one after the other."""
    with open(path, "rb") as file:
        octets = file.read()
    decoder, at, number = json.JSONDecoder(), 0, 0
    try:
        text = octets.decode("utf-8-sig")
        while begin := _BEGIN.search(text, at):
            entry, at = decoder.raw_decode(text, begin.start())
            number += 1
            yield f"{path}, message {number}", partial(_saved_message, path, entry)
    except (ValueError, RecursionError):
        raise UnreadableTraceError(
            f"{path}, message {number + 1}: this is no JSON of rabtap, and the file no leveret trace; it is damaged, "
            "or was made by another program"
        ) from None
    if not number:
        raise UnreadableTraceError(f"{path} is empty; rabtap may have ended before it had written the message")


def _saved_message(path: str, entry: Json) -> RecordedMessage:
    # rabtap writes "" and 0 for a property that a message does not have.
    given: Json = {name: value for name in PROPERTY_NAMES if (value := entry.get(_name_in_rabtap(name)))}
    sent_at = given.pop("timestamp", _NO_TIMESTAMP)
    if sent_at != _NO_TIMESTAMP:
        given["timestamp"] = datetime.fromisoformat(sent_at)
    at = round(datetime.fromisoformat(entry["XRabtapReceivedTimestamp"]).timestamp() * 1_000_000)
    body = base64.b64decode(entry["Body"] or "", validate=True) or _body_beside(path)
    return RecordedMessage(at, entry["Exchange"], entry["RoutingKey"], Properties.from_python(given), body)


def _name_in_rabtap(name: str) -> str:
    return "".join("ID" if word == "id" else word.title() for word in name.split("_"))


def _body_beside(path: str) -> bytes:
    """Return the body in the file beside that of a message. Raises OSError if only other messages have such a file."""
    folder, name = os.path.split(path)
    beside = f"{path.removesuffix('.json')}.dat"
    has_pairs = os.path.exists(beside) or any(it.endswith(".dat") for it in os.listdir(folder or "."))
    if not has_pairs or not _SAVED.fullmatch(name):
        return b""
    with open(beside, "rb") as file:
        return file.read()


def _traced(path: str, vhost: str) -> Iterator[_Place]:
    reader = TraceReader(path)
    for row in reader:
        if row["kind"] == PUBLISHED and row.get("vhost", "/") == vhost:
            yield f"{path}, event {row['seq']}", partial(_traced_message, row, reader.header)
    if reader.is_cut:
        raise BrokerError(f"{path} is cut off, or has damaged lines")


def _traced_message(row: Json, header: Json) -> RecordedMessage:
    attrs: Json = json.loads(row.get("attrs", "{}"))
    given = attrs.get("properties", {}) | {name: row[name] for name in ("message_id", "correlation_id") if name in row}
    # What was recorded from a firehose has no times.
    at = row["ts"] if "ts" in row else header["epoch_ns"] // 1000
    exchange, key, body = row.get("exchange", ""), row.get("routing_key", ""), _traced_body(row, attrs.get("body"))
    return RecordedMessage(at, exchange, key, Properties.from_python(given), body)


def _traced_body(row: Json, text: str | None) -> bytes:
    """Return a body. A text that begins like one in base64 is that or the body itself: the one with its hash."""
    if text is None and row["size"]:
        raise UnreadableTraceError("the trace has only the size and hash of its body; record it with trace_bodies=True")
    text = text or ""
    for body in (text.encode(), body_octets(text)):
        if body_hash(body) == row["body_hash"]:
            return body
    raise UnreadableTraceError("its body is not the one that was published, by its hash; the trace was changed")
