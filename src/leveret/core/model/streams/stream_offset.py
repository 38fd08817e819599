"""The argument x-stream-offset: where a stream's consumer starts to read.

The value is a word (`first`, `last`, `next`), an offset, an instant (wire type `T`, in seconds) or an age such as `2h`.
Without the argument, a consumer starts at `next`. As seen on 4.3, an invalid string gets a 406 before RabbitMQ checks
anything else. A value of another type breaks the connection, but only after RabbitMQ has accepted the prefetch and the
acknowledgement mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.compat import Compat
from leveret.core.model.errors import InternalRefusal
from leveret.core.model.queues.arguments import INTEGER_TAGS, Invalid, age_us
from leveret.core.wire import erlang
from leveret.core.wire.values import Field, Table

if TYPE_CHECKING:
    from leveret.core.model.streams.stream_log import StreamLog

ARGUMENT: Final = "x-stream-offset"
_WORDS: Final = (b"first", b"last", b"next")


def refuse_invalid_string(field: Field, compat: Compat) -> None:
    """Refuse a string that is no offset; older versions crash on one that does not start with a digit."""
    text = field.value
    if field.tag != "S" or not isinstance(text, bytes) or text in _WORDS or _age_us(text) is not None:
        return
    if compat.bad_stream_offset_is_hard and not text[:1].isdigit():
        raise InternalRefusal()
    raise Invalid(f"{{invalid_stream_offset_arg,{{longstr,{erlang.utf8_binary(text)}}}}}")


def start_of(arguments: Table, log: StreamLog, now: int) -> int:
    """Return the first offset that a consumer with these arguments reads.

    Raises InternalRefusal for a value that is no offset.
    """
    field = arguments.get(ARGUMENT)
    if field is None:
        return log.next_offset
    value = field.value
    if isinstance(value, bytes):
        # A byte array (`x`) may be one of the words, but not an age.
        age = _age_us(value) if field.tag == "S" else None
        return _start_of_word(value, log) if age is None else _start_of_instant((now - age) // 1000, log)
    if isinstance(value, int) and field.tag in INTEGER_TAGS:
        return max(0, value)
    if isinstance(value, int) and field.tag == "T":
        return _start_of_instant(value * 1000, log)
    raise InternalRefusal()


def _start_of_word(word: bytes, log: StreamLog) -> int:
    if word == b"first":
        return 0
    if word == b"next":
        return log.next_offset
    if word == b"last":
        last = log.last()
        return log.next_offset if last is None else last.position
    raise InternalRefusal()


def _start_of_instant(at_ms: int, log: StreamLog) -> int:
    entry = log.first_since(at_ms)
    return log.next_offset if entry is None else entry.position


def _age_us(text: bytes) -> int | None:
    return age_us(text.decode("latin-1"))
