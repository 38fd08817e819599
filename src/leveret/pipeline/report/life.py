"""The life of a message in words: what each event of a trace means to a reader of the report."""

from __future__ import annotations

from typing import Any, Final

from leveret.pipeline.report.markup import Html, code, joined
from leveret.pipeline.report.words import number
from leveret.trace.events import DELIVERIES

Event = dict[str, Any]

_WHY: Final = {
    "channel_closed": "its channel was closed",
    "queue_deleted": "the queue was deleted",
    "no_ack": "automatically: the consumer uses no_ack",
    "no route": "it had no queue to go to",
    "maxlen": "the queue was full",
    "delivery_limit": "it reached the queue's delivery limit",
    "expired": "its time to live was over",
    "rejected": "the consumer rejected it",
    "NO_ROUTE": "no queue matched",
}


def in_words(event: Event) -> Html:
    """Describe an event in a sentence whose subject, the message, is left out."""
    kind, queue = str(event["kind"]), code(event.get("queue"))
    if kind == "published":
        size = event.get("size")
        text = joined("published by ", _who(event), " to ", _exchange(event))
        text = text if size is None else joined(text, f", {number(size)} bytes")
        return text if event.get("tag") is None else joined(text, f"; publish {event['tag']} of its channel")
    if kind == "enqueued":
        origin = event.get("src_copy")
        return joined("put into ", queue, _copy(event), None if origin is None else f", a dead letter of copy {origin}")
    if kind in DELIVERIES:
        return joined(*_delivery(kind, event, queue))
    if kind == "acked":
        together = ", together with others" if event.get("multiple") else None
        return joined("acknowledged", _copy(event), " by ", _who(event), together, _why(event))
    if kind in ("nacked", "rejected"):
        together = ", together with others" if event.get("multiple") else None
        return joined(kind, _copy(event), " by ", _who(event), together)
    if kind == "dead_lettered":
        return joined("dead-lettered from ", queue, _copy(event), _why(event), " to ", _exchange(event))
    if kind in _PLAIN:
        return joined(*[queue if part == "{queue}" else part for part in _PLAIN[kind]], _copy(event), _why(event))
    return joined(kind, _copy(event), _why(event))


_PLAIN: Final[dict[str, tuple[str, ...]]] = {
    "requeued": ("put back into ", "{queue}"),
    "expired": ("expired in ", "{queue}"),
    "dropped": ("dropped",),
    "purged": ("removed from ", "{queue}"),
    "returned": ("returned to its publisher",),
    "confirmed": ("confirmed to its publisher",),
    "nacked_confirm": ("nacked to its publisher",),
}


def _delivery(kind: str, event: Event, queue: Html) -> list[Html | str | None]:
    again = ", marked as redelivered" if event.get("redelivered") else ", not marked as redelivered"
    taker = ("to consumer ", code(event.get("consumer")), " of ") if kind == "delivered" else ("by basic.get of ",)
    return ["delivered from ", queue, _copy(event), " ", *taker, _who(event), again]


def _copy(event: Event) -> str | None:
    return None if event.get("copy") is None else f" (copy {event['copy']})"


def _who(event: Event) -> str:
    if event.get("conn") is None:
        return "the test or the broker itself" if event["kind"] == "published" else "the broker"
    channel = event.get("chan")
    return f"connection {event['conn']}" + ("" if channel is None else f", channel {channel}")


def _exchange(event: Event) -> Html:
    exchange = event.get("exchange")
    where = joined("exchange ", code(exchange)) if exchange else joined("the default exchange")
    return joined(where, " with key ", code(event.get("routing_key")))


def _why(event: Event) -> str | None:
    reason = event.get("reason")
    return None if reason is None else f" ({_WHY.get(reason, reason)})"
