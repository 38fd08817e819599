"""The words of the report: numbers and spans for readers, and the meaning of rules and reasons."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from leveret.pipeline.kernel.subjects.runs import moment
from leveret.pipeline.wording import COPY_OUTCOMES

# The text for a missing number.
NONE: Final = "none"

# Control characters, marks that change the direction of text, and surrogates.
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNITS: Final = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1000, "ms"))

# For each rule, what happened and what to do about it. Rules of users have their own text.
RULES: Final[dict[str, tuple[str, str]]] = {
    "acked_twice": (
        "A message was acknowledged twice.",
        "A broker closes the channel on a second ack. Find the code that settles a delivery twice.",
    ),
    "delivered_after_ack": (
        "A message was delivered again after it had been acknowledged.",
        "Brokers do not do that. Check whether the trace mixes two brokers; otherwise it is a bug in the broker.",
    ),
    "ack_without_delivery": (
        "A message was acknowledged that had not been delivered.",
        "Look for delivery tags that are reused on another channel.",
    ),
    "unacked_at_end": (
        "A consumer got a message and never settled it.",
        "In production the message stays with the consumer until its connection closes, and is then processed again. "
        "Acknowledge it on every path through the handler, including errors, and let the test wait for that.",
    ),
    "redelivered_flag_wrong": (
        "The redelivered flag of a delivery does not match what happened before.",
        "Consumers that rely on the flag skip or repeat work. It is a bug in the broker, or in a proxy in front of it.",
    ),
    "lost": (
        "A message stayed in its queue although younger ones were delivered.",
        "The queue skipped it. Check the queue's priorities and what its consumers took.",
    ),
    "out_of_order": (
        "A message was delivered after a younger one of its queue.",
        "Code that relies on the order of a queue then fails. Look for requeues, priorities and several consumers.",
    ),
    "duplicate_enqueue": (
        "A queue got the same message twice.",
        "Look for two paths from one exchange to the queue, through exchanges that are bound to each other.",
    ),
    "delivered_to_closed_channel": (
        "A message was delivered on a closed channel.",
        "The client did not get it. It is a bug in the broker, or the trace lacks the line that reopened the channel.",
    ),
    "prefetch_exceeded": (
        "A consumer held more messages at once than its prefetch allows.",
        "Consumers that rely on the limit run out of memory. It is a bug in the broker.",
    ),
    "confirm_missing": (
        "A publisher turned on confirms and never got one for a message.",
        "It cannot know whether the message is safe. Wait for the confirm before closing the connection.",
    ),
}

# How a message ended, and the CSS class that gives it a colour.
OUTCOMES: Final[dict[str, tuple[str, str]]] = {
    "acked": (COPY_OUTCOMES["acked"], "good-part"),
    "dropped": (COPY_OUTCOMES["dropped"], "bad-part"),
    "expired": (COPY_OUTCOMES["expired"], "blue-part"),
    "purged": (COPY_OUTCOMES["purged"], "grey-part"),
    "dead_lettered": ("dead-lettered, but no queue took it", "pink-part"),
    "returned": ("returned to the publisher", "pink-part"),
    "open": ("with a copy left over", "wait-part"),
}


def readable(text: str) -> str:
    """Return a text with characters that HTML forbids or a reader cannot see replaced by their numbers."""
    return _UNSEEN.sub(lambda unseen: f"\\u{ord(unseen[0]):04x}", text)


def rule_name(rule: str) -> str:
    """Return what breaks a rule, as a title."""
    return RULES.get(rule, (rule,))[0].removesuffix(".")


def number(value: float | None) -> str:
    """Return a count with thousands separators."""
    if value is None:
        return NONE
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def counted(value: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun, in the singular or plural."""
    return f"{number(value)} {noun if value == 1 else plural or noun + 's'}"


def span(us: float | None) -> str:
    """Return a span of microseconds in a suitable unit."""
    if us is None:
        return NONE
    for size, unit in _UNITS:
        if us >= size:
            value = us / size
            return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"
    return f"{us:.0f} µs"


def instant(text: str | None) -> str | None:
    """Return an ISO time as a reader says it, "26 Jul 10:15" in its own zone, with the year if it is not this one's."""
    when = moment(text)
    if when is None:
        return text
    year = f" {when.year}" if when.year != datetime.now(when.tzinfo).year else ""
    return f"{when.day} {when:%b}{year} {when:%H:%M}"


def percent(part: float, whole: float) -> str:
    """Return a share in percent, which is never rounded to all or nothing."""
    if not whole:
        return NONE
    share = 100 * part / whole
    if 0 < share < 1:
        return "under 1 %"
    return "over 99 %" if 99 < share < 100 else f"{share:.0f} %"
