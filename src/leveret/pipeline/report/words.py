"""What the report says that no table does: numbers and spans for people, what rules mean, and the words it uses."""

from __future__ import annotations

from typing import Final

# In place of a number that there is not.
NONE: Final = "none"

_UNITS: Final = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1000, "ms"))

# Of each rule: what happened, and what to do about it. Rules of users have their own text.
RULES: Final[dict[str, tuple[str, str]]] = {
    "acked_twice": (
        "A message was acknowledged twice.",
        "A broker closes the channel on a second acknowledgement, so find out who settles a delivery again.",
    ),
    "delivered_after_ack": (
        "A message came again after it had been acknowledged.",
        "No broker should do that: look whether the trace mixes two brokers, else it is a fault of the broker.",
    ),
    "ack_without_delivery": (
        "A message was acknowledged that nobody had been given.",
        "Look for delivery tags that are remembered from another channel.",
    ),
    "unacked_at_end": (
        "A consumer got a message and never said what became of it.",
        "In production it stays held until the connection ends, and is then worked on again: acknowledge it on every "
        "way through the handler, on errors too, and let the test wait until it is done.",
    ),
    "redelivered_flag_wrong": (
        "The mark “redelivered” of a delivery does not fit what happened before.",
        "Consumers that trust the mark skip or repeat work; this is a fault of the broker or of a proxy before it.",
    ),
    "lost": (
        "A message waited to the end though younger ones of its queue were taken.",
        "Somebody passed it over: look at the queue's priorities and at what its consumers took.",
    ),
    "out_of_order": (
        "A message was delivered after a younger one of its queue.",
        "Code that relies on the order of a queue fails then: look for requeues, priorities and several consumers.",
    ),
    "duplicate_enqueue": (
        "A queue got the same message twice.",
        "Look for two ways from one exchange into the queue, through exchanges that are bound to each other.",
    ),
    "delivered_to_closed_channel": (
        "A message was delivered on a channel that was closed.",
        "It reached nobody: this is a fault of the broker, or the trace has lost the line that reopened the channel.",
    ),
    "prefetch_exceeded": (
        "A consumer was given more messages at once than its prefetch allows.",
        "Consumers that count on the limit run out of memory: this is a fault of the broker.",
    ),
    "confirm_missing": (
        "A publisher asked for confirms and never got one for a message.",
        "It cannot know whether the message is safe: wait for the confirm before the connection is closed.",
    ),
}

GLOSSARY: Final[tuple[tuple[str, str], ...]] = (
    ("run", "one start of the test suite, recorded with --leveret-trace; it may have several workers"),
    ("exchange", "what a program publishes a message to; its bindings say into which queues the message goes"),
    ("binding", "a line from an exchange to a queue, for routing keys of some form"),
    ("copy", "one message in one queue; a message that goes into three queues has three copies"),
    ("acknowledged", "the consumer said that it is done with a copy, and the broker forgot it"),
    ("redelivered", "given out again, because the consumer gave it back or lost its connection"),
    ("dead letter", "a copy that was rejected, expired or had no room, and went on into another queue"),
    ("dropped", "thrown away by the broker: no queue wanted it, or its queue was full and had nowhere to send it"),
    ("left over", "still in its queue, or still held by a consumer, when its test ended"),
    ("confirm", "the broker's word to a publisher that it has a message"),
    ("flow", "how many copies a test put into each queue, how each ended, and how many were given back"),
)

OUTCOMES: Final[dict[str, str]] = {
    "acked": "acknowledged",
    "dead_lettered": "dead-lettered, nowhere to go on",
    "dropped": "dropped",
    "expired": "expired",
    "purged": "removed with or from its queue",
    "returned": "returned to the publisher",
    "open": "left over",
}


# Why a message is gone, by the reason in the trace.
DROPS: Final[dict[str | None, str]] = {
    "no route": "no queue wanted it",
    "fault": "a fault that the test asked for took it",
    "rolled_back": "its transaction was rolled back",
    "rejected": "rejected, and its queue had nowhere to send it",
    "delivery_limit": "given back too often, and its queue had nowhere to send it",
    "maxlen": "its queue was full and had nowhere to send it",
    "cycle": "it would have gone round in a circle of dead-letter queues",
    "no requester": "whoever asked had gone before the answer came",
    "restart": "the broker was restarted, and it was not persistent",
    "retention": "the stream kept only what was younger",
}


def number(value: float | None) -> str:
    """A count, with its thousands apart."""
    if value is None:
        return NONE
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """So many of these."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def span(us: float | None) -> str:
    """A span of microseconds in the unit that suits it."""
    if us is None:
        return NONE
    for size, unit in _UNITS:
        if us >= size:
            value = us / size
            return f"{value:.0f} {unit}" if value >= 10 or value == int(value) else f"{value:.1f} {unit}"
    return f"{us:.0f} µs"


def percent(part: float, whole: float) -> str:
    """A share, which is never rounded to all or nothing."""
    if not whole:
        return NONE
    share = 100 * part / whole
    if 0 < share < 1:
        return "under 1 %"
    return "over 99 %" if 99 < share < 100 else f"{share:.0f} %"
