"""Where a stream's consumer begins: the argument x-stream-offset.

A word (`first`, `last`, `next`), an offset, an instant (`T`, seconds) or an age such as `2h`; none is `next`. What was
seen on 4.3: a bad string is a 406 before anything else is looked at, a value of another type breaks the connection, and
only after prefetch and acknowledgement mode have been found right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.compat import Compat
from leveret.core.model.age import age_us
from leveret.core.model.arguments import INTEGER_TAGS
from leveret.core.model.errors import InternalRefusal, PreconditionFailed
from leveret.core.model.terms import binary
from leveret.core.wire.values import Field, Table

if TYPE_CHECKING:
    from leveret.core.model.stream_log import StreamLog

ARGUMENT: Final = "x-stream-offset"
_WORDS: Final = (b"first", b"last", b"next")


def refuse_invalid_string(field: Field, refusal: str, compat: Compat) -> None:
    """Refuse an offset that is a string of no meaning; older versions break down over one without a digit in front."""
    text = field.value
    if field.tag != "S" or not isinstance(text, bytes) or text in _WORDS or _age_us(text) is not None:
        return
    if compat.bad_stream_offset_is_hard and not text[:1].isdigit():
        raise InternalRefusal()
    raise PreconditionFailed(f"{refusal}: {{invalid_stream_offset_arg,{{longstr,{binary(text)}}}}}")


def start_of(arguments: Table, log: StreamLog, now: int) -> int:
    """The offset a consumer with these arguments reads first; raises InternalRefusal for a value of no use."""
    field = arguments.get(ARGUMENT)
    if field is None:
        return log.next_offset
    value = field.value
    if isinstance(value, bytes):
        # Octets (`x`) are words too, but no age.
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
    found = log.first_since(at_ms)
    return log.next_offset if found is None else found.position


def _age_us(text: bytes) -> int | None:
    return age_us(text.decode("latin-1"))
