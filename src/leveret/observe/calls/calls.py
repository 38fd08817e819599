"""The check of a call before it does anything: its arguments exist, and each is of the kind that its type says.

`checks_calls` in `hinting` puts it before the public methods of the objects that a test holds. A wrong call raises in
the caller's words: TypeError for a wrong kind of value, ValueError for a value out of range. It leaves nothing behind,
because the method has not begun. What is valid comes from the method's own annotations and the tables here, which
tests/house/test_calls.py holds complete.

Also the one place that says what fits into a short string of AMQP, for names and for the keys of tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from math import isfinite
from os import PathLike
from reprlib import Repr
from struct import error as StructError
from typing import Any, Final

from leveret.core.wire.errors import ShortStringTooLong
from leveret.core.wire.values import Table, encode_short_string
from leveret.errors import unknown_keyword
from leveret.wording import count_text, texts_in, with_article

# What is wrong with an argument of this name, or None.
Kind = Callable[[str, object], TypeError | ValueError | None]

LONGEST: Final = 255
# A longer list of keywords does not help.
_LISTED_MAX: Final = 10
# The names that stand in the short strings of AMQP. RabbitMQ limits neither the names of users nor those of policies.
_SHORT: Final = frozenset(
    {"queue", "exchange", "queue_or_exchange", "vhost", "routing_key", "source", "destination", "to", "tag"}
)
_NAMED: Final = frozenset({"queue", "exchange", "vhost"})
# Numbers with a range that does not depend on the call, with what they count.
_RANGES: Final[dict[str, tuple[float, float, str]]] = {
    "timeout": (0, sys.maxsize, "0 or more seconds"),
    "settle": (0, sys.maxsize, "0 or more seconds"),
    "delay": (0, sys.maxsize, "0 or more seconds"),
    "seconds": (-sys.maxsize, sys.maxsize, "a number of seconds"),
    "times": (0, sys.maxsize, "0 or more"),
    "limit": (1, sys.maxsize, "1 or more"),
    "first": (1, sys.maxsize, "the number of a message, 1 or more"),
    "prefetch": (0, 65535, "a number from 0 to 65535"),
    "code": (0, 65535, "a reply code, such as 404"),
    "window": (2, sys.maxsize, "2 or more deliveries"),
    "bytes_per_second": (1, sys.maxsize, "1 or more"),
    "size": (1, sys.maxsize, "1 or more bytes"),
    "byte": (1, sys.maxsize, "1, which is the next byte, or more"),
    "bytes": (0, sys.maxsize, "0 or more"),
}
_UNITS: Final = frozenset({"timeout", "settle", "delay", "seconds"})
# Checked by the method, or by what gets the keywords of a kind, which know better what to write instead.
_OWN: Final = {"publish": {"exchange", "routing_key", "headers"}, "FaultOptions": {"after", "times"}}
# Keywords that only some methods with these others take. The rest of them say which, or why they do not take it.
_ANSWERED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("AssertionOptions", "QueueAssertionOptions"), ("reason", "to")),
    "FaultOptions": ("on",),
}
_FIELDS: Final = "give text, bytes, True or False, a number of 64 bits, a datetime, a list or a mapping"
# Types of which all values are text.
_TEXTS: Final = frozenset(
    {"str", "AckMode", "Alarm", "ApplyTo", "CheckName", "Direction", "RecordLevel", "Refusal", "When"}
)
_shortened: Final = Repr()
_shortened.maxstring = _shortened.maxother = 60


def shown(value: object) -> str:
    """Return a value for an error message, shortened."""
    return _shortened.repr(value)


def refuse_wrong(call: str, annotations: Mapping[str, str], given: Mapping[str, object]) -> None:
    """Raise TypeError or ValueError, in the words of `call`, for a value that its annotation does not allow."""
    __tracebackhide__ = True
    for name, value in given.items():
        kind = _kind(call, name, annotations.get(name, ""))
        wrong = None if kind is None else kind(name, value)
        if wrong is not None:
            raise type(wrong)(f"{call}: {wrong}")


class Signature:
    """The parameters of a method, and what each may be."""

    def __init__(self, act: Callable[..., object]) -> None:
        code, annotations = act.__code__, act.__annotations__
        names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        self._call = f"{act.__name__}()"
        # Parameters that may be given by position, without `self`.
        self._positional = names[: code.co_argcount - 1]
        self._has_others = bool(code.co_flags & 0x04)
        # The type of the keywords that `**` stands for.
        of_keywords = next(
            (kind[len("Unpack[") : -1] for kind in annotations.values() if kind.startswith("Unpack[")), ""
        )
        keywords: dict[str, str] = {}
        if of_keywords:
            from leveret.observe.assertions import keywords as tables

            table = getattr(tables, of_keywords).__annotations__
            keywords = {word: kind.__forward_arg__ for word, kind in table.items()}
        self._answered = _ANSWERED.get(of_keywords, ())
        self._words = (*names, *keywords)
        optional = len(act.__defaults__ or ())
        required = self._positional[: len(self._positional) - optional]
        keyword_only = names[len(self._positional) :]
        self._required = (*required, *(name for name in keyword_only if name not in (act.__kwdefaults__ or {})))
        kinds = {**{name: annotations[name] for name in names}, **keywords}
        own = _OWN.get(of_keywords, _OWN.get(act.__name__, set()))
        checks = {name: _kind(act.__name__, name, kind) for name, kind in kinds.items() if name not in own}
        self._kinds: Final = {name: check for name, check in checks.items() if check is not None}

    def check(self, arguments: tuple[object, ...], options: Mapping[str, object]) -> None:
        """Raise TypeError or ValueError if the call has a wrong argument, or lacks one."""
        __tracebackhide__ = True
        kinds, positional = self._kinds, self._positional
        given = len(arguments) - 1
        if given > len(positional) and not self._has_others:
            most = f"at most {count_text(len(positional), 'argument')}" if positional else "no arguments"
            words = f" ({', '.join(positional)})" if positional else ""
            others = [f"{word}=" for word in self._words if word not in positional]
            named = f": {', '.join(others[:_LISTED_MAX])}" if others else ""
            more = ", ..." if len(others) > _LISTED_MAX else ""
            way_out = f"; pass the others by keyword{named}{more}" if others else ""
            raise TypeError(f"{self._call} takes {most} by position{words}, not {given}{way_out}")
        for name, value in zip(positional, arguments[1:], strict=False):
            if name in options:
                raise TypeError(f"{self._call}: {name} was given twice: by position and by keyword")
            if name in kinds:
                self._refuse(kinds[name](name, value))
        for name, value in options.items():
            if name in kinds:
                self._refuse(kinds[name](name, value))
            elif name not in self._words and name not in self._answered:
                raise unknown_keyword(self._call, name, self._words)
        for name in self._required:
            if name not in options and name not in positional[:given]:
                raise TypeError(f"{self._call} needs {name}; it takes {', '.join(self._words)}")

    def _refuse(self, wrong: TypeError | ValueError | None) -> None:
        __tracebackhide__ = True
        if wrong is not None:
            raise type(wrong)(f"{self._call}: {wrong}")


def _kind(call: str, name: str, annotation: str) -> Kind | None:
    """Return the check of a parameter, or None if any value may be right."""
    base = annotation.removesuffix(" | None")
    check = _KINDS.get(base)
    if check is None and " | " not in base:
        check = next((of_prefix for prefix, of_prefix in _PREFIXES.items() if base.startswith(prefix)), None)
    if check is _wrong_long_text and (name in _SHORT or (name == "name" and call.rpartition("_")[2] in _NAMED)):
        check = wrong_text
    elif base == "Mapping[str, object]" and name == "arguments":
        check = wrong_table
    return _unless(type(None), check) if check is not None and base != annotation else check


def _unless(kind: type, wrong: Kind) -> Kind:
    """Return a check that accepts any value of that type."""
    return lambda name, value: None if isinstance(value, kind) else wrong(name, value)


def wrong_text(name: str, value: object) -> TypeError | ValueError | None:
    """Return the error for a value that cannot be a short string of AMQP, or None if it can."""
    if not isinstance(value, str):
        return _wrong_long_text(name, value)
    try:
        encode_short_string(value)
    except UnicodeEncodeError:
        return _wrong_long_text(name, value)
    except ShortStringTooLong:
        size = len(value.encode("utf-8", "surrogateescape"))
        return ValueError(f"{name} {shown(value)} is {size} bytes long; AMQP allows {LONGEST}")
    return None


def _wrong_long_text(name: str, value: object) -> TypeError | ValueError | None:
    if not isinstance(value, str):
        own_name = getattr(value, "name", None)
        hint = f"; pass its name, {own_name!r}" if isinstance(own_name, str) else ""
        hint += "; it is the milliseconds as text, such as '60000'" if name == "expiration" else ""
        return TypeError(f"{name} must be text, not {shown(value)}{hint}")
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return ValueError(f"{name} {shown(value)} has a lone surrogate, which UTF-8 cannot encode")
    return None


def wrong_table(name: str, value: object) -> TypeError | ValueError | None:
    """Return the error for a value that cannot be a table of AMQP, or None if it can."""
    wrong = _wrong_mapping(name, value)
    if wrong is not None:
        return wrong
    assert isinstance(value, Mapping | Table)
    entries: Iterable[tuple[object, object]] = value.items() if isinstance(value, Mapping) else value
    for key, item in entries:
        wrong = wrong_text(f"{name.removesuffix('s')} name", key) or _wrong_field(f"{name}[{shown(key)}]", key, item)
        if wrong is not None:
            return wrong
    return None


def _wrong_field(where: str, key: Any, item: object) -> TypeError | ValueError | None:
    kind = "argument" if where.startswith("argument") else "header"
    try:
        Table.from_python({key: item}).encode()
    except RecursionError:
        return ValueError(f"{where} is nested too deeply; use fewer levels")
    except UnicodeEncodeError as error:
        return ValueError(f"{where} has a lone surrogate, which UTF-8 cannot encode: {shown(error.object)}")
    except ShortStringTooLong:
        return ValueError(f"{where} has a name of more than {LONGEST} bytes: {shown(item)}")
    except (AttributeError, TypeError) as error:
        return TypeError(f"{where} cannot be {with_article(kind)}: {error}; {_FIELDS}")
    except (ValueError, OverflowError, StructError) as error:
        return ValueError(f"{where} cannot be {with_article(kind)}: {error}; {_FIELDS}")
    return None


def _must_be(what: str, is_right: Callable[[object], bool]) -> Kind:
    """Return a check that accepts the values for which a test holds."""
    return lambda name, value: None if is_right(value) else TypeError(f"{name} must be {what}, not {shown(value)}")


_wrong_mapping: Final = _must_be("a mapping of names to values", lambda value: isinstance(value, Mapping | Table))
_wrong_path: Final = _must_be("a path", lambda value: isinstance(value, str | PathLike))


def _wrong_count(name: str, value: object) -> TypeError | ValueError | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return TypeError(f"{name} must be a whole number, not {shown(value)}")
    return _out_of_range(name, value)


def _wrong_number(name: str, value: object) -> TypeError | ValueError | None:
    unit = " of seconds" if name in _UNITS else ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return TypeError(f"{name} must be a number{unit}, not {shown(value)}")
    if not isfinite(value):
        return ValueError(f"{name} must be a finite number{unit}, not {value}")
    return _out_of_range(name, value)


def _out_of_range(name: str, value: float) -> ValueError | None:
    least, most, text = _RANGES.get(name, (-sys.maxsize, sys.maxsize, "a number that a machine can count"))
    return None if least <= value <= most else ValueError(f"{name} must be {text}, not {shown(value)}")


def _wrong_texts(name: str, value: object) -> TypeError | ValueError | None:
    # An iterator can be read only once, by the method.
    texts = texts_in(value) if isinstance(value, str | list | tuple | set | frozenset | Mapping) else ()
    if not isinstance(value, Iterable) or not all(isinstance(text, str) for text in texts):
        return TypeError(f"{name} must be a text or several, as in {name}=['a', 'b'], not {shown(value)}")
    return next((wrong for text in texts if (wrong := _wrong_long_text(name, text)) is not None), None)


# The checks by the annotations of parameters, without None; and by how other annotations begin.
_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(_TEXTS, _wrong_long_text),
    "bool": _must_be("True or False", lambda value: isinstance(value, bool)),
    "int": _wrong_count,
    "float": _wrong_number,
    "float | timedelta": _unless(timedelta, _wrong_number),
    "int | str": _unless(str, _wrong_count),
    "str | Path": _wrong_path,
    "str | PathLike[str]": _wrong_path,
    "Mapping[str, object] | str | Path": _must_be(
        "a path, or what json.load returns", lambda value: isinstance(value, str | PathLike | Mapping)
    ),
    "Wanted": _unless(Mapping, _wrong_texts),
    "str | Iterable[str]": _wrong_texts,
    "bool | str | Iterable[str]": _unless(bool, _wrong_texts),
    "Callable[[], object] | str": _unless(str, _must_be("a text or a function", callable)),
    "SSLContext | bool": _unless(
        bool, _must_be("True, False or an SSLContext", lambda value: hasattr(value, "wrap_bio"))
    ),
    "Delivered": _must_be("a message that next() returned", lambda value: hasattr(value, "delivery_tag")),
    "Snapshot": _must_be("what snapshot() returned", lambda value: hasattr(value, "restore")),
}
_PREFIXES: Final[Mapping[str, Kind]] = {
    "Literal[": _wrong_long_text,
    "Mapping[str, ": _wrong_mapping,
    "Callable[": _must_be("a function", callable),
}
