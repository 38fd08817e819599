"""The file of a recording, `orders.rec`: a line of JSON for what it is, one for each message, and one for its end.

Values keep their types of AMQP: a header is written as its name, its tag on the wire, and its value. Bytes that are
UTF-8 are written as text, all others as base64. A line about a message holds nothing else, so a recording can be read
with any tool. The last line has the number of the lines and their digest: a file that was cut, or changed by hand or by
a disk, is refused with one line that says where.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike, fspath
from struct import error as StructError
from typing import Any, Final, NamedTuple, Self, cast

from leveret.core.wire.errors import WireError
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Field, Table
from leveret.errors import UnreadableTraceError

_FORMAT: Final = "leveret recording"
_VERSION: Final = 1
_WAY_OUT: Final = "restore it from where you keep it, or record again"
Json = dict[str, Any]
# What may be raised while a message is read that is none.
NO_MESSAGE: Final = (
    *(KeyError, TypeError, ValueError, AttributeError, StructError, WireError, RecursionError, OverflowError),
)


class RecordedMessage(NamedTuple):
    """A message as it was published, or as it was delivered from a queue."""

    # When it arrived at the recorder, in microseconds since 1970.
    at: int
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes
    # The queue from which it was delivered; None for a publish.
    queue: str | None = None
    # The queues that a publish reached, and the number of the client that published it or got it, from a firehose.
    queues: tuple[str, ...] = ()
    client: int | None = None

    @property
    def headers(self) -> dict[str, object]:
        """The headers by name, as ordinary values."""
        return {} if self.properties.headers is None else self.properties.headers.to_python()

    @property
    def json(self) -> Any:
        """The value of a body of JSON. Raises ValueError if it is none."""
        return json.loads(self.body)


@dataclass(slots=True)
class RecordingFile:
    """What a file of a recording holds."""

    path: str
    # What the recorder noted: the virtual host, the source, the exchanges, queues and bindings.
    facts: Json
    messages: list[RecordedMessage] = field(default_factory=list)
    # A short text that no other recording has.
    digest: str = ""

    @property
    def definitions(self) -> Json:
        """The exchanges, queues and bindings that were recorded, as RabbitMQ exports them; none if that is empty."""
        return cast("Json", self.facts.get("definitions") or {})


class RecordingWriter:
    """A new file of a recording. Until it is closed, an older one of that name stays as it is."""

    def __init__(self, path: str | PathLike[str], facts: Mapping[str, object]) -> None:
        """Raises OSError if the file cannot be written."""
        self.path: Final = fspath(path)
        self.count = 0
        self._partial: Final = f"{self.path}.part"
        self._digest: Final = hashlib.sha256()
        self._file: Final = open(self._partial, "wb")  # noqa: SIM115
        self._write({"format": _FORMAT, "version": _VERSION, **facts})

    def add(self, message: RecordedMessage) -> None:
        """Write a message."""
        self.count += 1
        self._write(as_json(message))

    def _write(self, line: Mapping[str, object]) -> None:
        octets = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._digest.update(octets)
        self._file.write(octets)

    def close(self) -> None:
        """Write the end, and put the file in its place."""
        self._write({"messages": self.count, "digest": self._digest.hexdigest()})
        self._file.close()
        os.replace(self._partial, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        self._file.close()
        with suppress(OSError):
            os.unlink(self._partial)


def as_json(message: RecordedMessage) -> Json:
    """Return a message as its line has it. What is empty is left out."""
    properties = message.properties
    named = properties.present()
    if properties.headers is not None:
        named["headers"] = _entries(properties.headers)
    line = {"at": message.at, "exchange": message.exchange, "key": message.routing_key, "properties": named}
    line |= {"body": _text(message.body), "queue": message.queue, "queues": list(message.queues)}
    line["client"] = message.client
    return {name: value for name, value in line.items() if value not in (None, "", [], {})}


def _entries(table: Table) -> list[list[object]]:
    return [[name, *_tagged(item)] for name, item in table]


def _tagged(item: Field) -> list[object]:
    tag, value = item
    if isinstance(value, Table):
        return [tag, _entries(value)]
    if isinstance(value, bytes):
        return [tag, _text(value)]
    if tag == "A" and isinstance(value, tuple):
        return [tag, [_tagged(cast("Field", each)) for each in value]]
    return [tag, list(value) if isinstance(value, tuple) else value]


def _text(octets: bytes) -> object:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets).decode()}


def read_recording(path: str | PathLike[str]) -> RecordingFile:
    """Return what the file of a recording holds.

    Raises UnreadableTraceError with one line if it is damaged or something else, and OSError if it cannot be read.
    """
    name = fspath(path)
    with open(name, "rb") as file:
        lines = _as_written(file.read()).split(b"\n")
    first = _line(name, 1, lines[0])
    if first.get("format") != _FORMAT:
        raise UnreadableTraceError(f"{name} is no recording; leveret record -o orders.rec writes one")
    if first.get("version") != _VERSION:
        raise UnreadableTraceError(f"{name} has version {first.get('version')!r}; this leveret reads {_VERSION}")
    if not isinstance(first.get("definitions") or {}, dict):
        raise UnreadableTraceError(f"{name} has no object as its definitions; {_WAY_OUT}")
    if len(lines) < 3 or lines[-1] != b"":
        raise _cut(name, len(lines))
    last = _line(name, len(lines) - 1, lines[-2])
    if "digest" not in last:
        raise _cut(name, len(lines) - 1)
    messages = [_message(name, number, line) for number, line in enumerate(lines[1:-2], 2)]
    if last.get("messages") != len(messages):
        raise UnreadableTraceError(f"{name} has {len(messages)} of {last.get('messages')} messages; {_WAY_OUT}")
    digest = hashlib.sha256(b"".join(line + b"\n" for line in lines[:-2])).hexdigest()
    if digest != last["digest"]:
        raise UnreadableTraceError(f"{name} was changed after it was recorded, or is damaged; {_WAY_OUT}")
    return RecordingFile(name, first, messages, digest)


def _as_written(octets: bytes) -> bytes:
    """Return the content of a file as it was written: an editor or git may have changed its encoding and line ends."""
    with suppress(UnicodeDecodeError):
        octets = octets.decode(json.detect_encoding(octets)).encode()
    return octets.replace(b"\r\n", b"\n")


def _cut(path: str, number: int) -> UnreadableTraceError:
    return UnreadableTraceError(f"{path}, line {number}: the file is cut off here; {_WAY_OUT}")


def _line(path: str, number: int, octets: bytes) -> Json:
    try:
        value = json.loads(octets)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        # The whole may be something else, such as a picture.
        what = "is no recording" if number == 1 else f", line {number}: this is no line of a recording"
        raise UnreadableTraceError(
            f"{path}{' ' * (number == 1)}{what}; it is damaged, or was made by another program: {_WAY_OUT}"
        )
    return value


def _message(path: str, number: int, octets: bytes) -> RecordedMessage:
    line = _line(path, number, octets)
    try:
        return from_json(line)
    except NO_MESSAGE:
        raise UnreadableTraceError(
            f"{path}, line {number}: this is no message; the file is damaged: {_WAY_OUT}"
        ) from None


def from_json(line: Json) -> RecordedMessage:
    """Return the message of a line. Raises one of `NO_MESSAGE` if it is none."""
    named = dict(line.get("properties", {}))
    if "headers" in named:
        named["headers"] = _table(named["headers"])
    properties = Properties(**named)
    # What could not be published is no message.
    properties.encode()
    texts = [line.get(name, "") for name in ("exchange", "key", "queue")]
    numbers = [line["at"], line.get("client", 0)]
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError
    for text in texts:
        text.encode("utf-8", "surrogateescape")
    body = _octets(line.get("body", ""))
    queues = tuple(str(name) for name in cast("Iterable[object]", line.get("queues", ())))
    return RecordedMessage(
        line["at"], texts[0], texts[1], properties, body, line.get("queue"), queues, line.get("client")
    )


def _table(entries: list[list[Any]]) -> Table:
    return Table(tuple([(str(name), _field(tag, value)) for name, tag, value in entries]))


def _field(tag: str, value: Any) -> Field:
    if tag == "F":
        return Field(tag, _table(value))
    if tag == "A":
        return Field(tag, tuple([_field(*each) for each in value]))
    if tag in ("S", "x"):
        return Field(tag, _octets(value))
    return Field(tag, tuple(value) if isinstance(value, list) else value)


def _octets(value: object) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if not isinstance(value, str):
        raise TypeError
    return value.encode()
