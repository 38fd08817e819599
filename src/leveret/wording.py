"""Texts of numbers, spans of time and places of clients, and the pattern of generated values."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

# Marks that turn the direction of the text after them, by which a name could hide what it is.
_TURNING: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def safe_text(value: object, write: Callable[[object], str] = repr, limit: int = 20_000) -> str:
    """Return a value of the user's as text. If that raises, the text says so, and a long one is cut."""
    try:
        text = write(value)
    except Exception as error:
        return f"<{type(value).__name__}: its {write.__name__}() raised {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def shown_controls(text: str) -> str:
    """Return a text whose marks of direction can be seen: they become escapes."""
    return _TURNING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def span_text(span_us: int) -> str:
    """Return a span of time as text: "350 ms", "2.1 s", "3 min 20 s"."""
    if span_us < 1_000_000:
        return f"{max(0, span_us) // 1000} ms"
    if span_us < 60_000_000:
        return f"{span_us / 1_000_000:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(span_us // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def short_span_text(span_us: int) -> str:
    """Return a span of time as text that shows a tenth of a millisecond: "0.8 ms"."""
    return span_text(span_us) if span_us >= 10_000 else f"{max(0, span_us) / 1000:.1f} ms"


# Instants, UUIDs, and hexadecimal numbers of some length.
_INSTANT_OR_ID: Final = (
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![^\W_])(?:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|(?=[a-f]*[0-9])[0-9a-f]{8,})(?![^\W_])"
)
# With decimal numbers that are too long for a count, as in names: ports and ids of processes.
MADE_UP: Final = re.compile(rf"{_INSTANT_OR_ID}|\d{{5,}}", re.I)
# In bodies, a decimal number may be an amount. Seconds and milliseconds since the epoch have ten and thirteen digits.
# A hexadecimal number may begin with as many digits.
_MADE_UP_IN_BODIES: Final = re.compile(rf"(?<![\d.])\d{{10,13}}(?:\.\d+)?(?![\d.a-f])|{_INSTANT_OR_ID}", re.I)
# How names begin that a broker or a client generates.
_GENERATED: Final = ("amq.gen-", "amq.rabbitmq.reply-to.", "amq_", "spring.gen-")


def masked(text: str, kept: Container[str] = ()) -> str:
    """Return a text without what is generated anew in each run; `kept` is known not to be."""
    return MADE_UP.sub(lambda found: found[0] if found[0] in kept else "*", text)


def masked_body(text: str, kept: Container[str] = ()) -> str:
    """Return a body without what is generated anew in each run; `kept` is known not to be."""
    return _MADE_UP_IN_BODIES.sub(lambda found: found[0] if found[0] in kept else "*", text)


def without_generated_end(name: str) -> str:
    """Return a name; only the beginning of one that a broker or a client has generated."""
    prefix = next((prefix for prefix in _GENERATED if name.startswith(prefix)), None)
    return name if prefix is None else f"{prefix}*"


def masked_name(name: str, kept: Container[str] = ()) -> str:
    """Return the name of a queue, or a routing key, without what is generated anew in each run."""
    return masked(without_generated_end(name), kept)


def count_text(count: int, noun: str) -> str:
    """Return a number of things as text: "1 consumer", "2 consumers"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def with_article(noun: str) -> str:
    """Return a noun with its indefinite article: "a Broker", "an argument"."""
    return f"an {noun}" if noun[0] in "aeiouAEIOU" else f"a {noun}"


def listed(texts: Sequence[str], word: str = "and") -> str:
    """Return texts as a list in a sentence: "a, b and c"."""
    return f" {word} ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def place_text(connection: int, channel: int | None = None) -> str:
    """Return a connection, or a channel of it, as every report writes it: "c1", "c1/ch1".

    The connections of peers that the test plays itself have negative numbers.
    """
    if connection < 0:
        return "the test"
    return f"c{connection}" if channel is None else f"c{connection}/ch{channel}"


def texts_in(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return several texts, of which a single one may be given as it is: iterating over it would yield letters."""
    return (value,) if isinstance(value, str) else tuple(value)


def names_in(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return several names, which have neither commas nor white space: a text is split at them."""
    return texts_in(value.replace(",", " ").split() if isinstance(value, str) else value)


def client_place_text(name: str, connection: int, channel: int | None = None) -> str:
    """Return the name of a client with its place: "shop (c1/ch1)"."""
    return f"{name} ({place_text(connection, channel)})"
