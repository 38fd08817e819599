"""What the stories print: one line for each thing that happened to a message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from leveret import Broker
from leveret.trace.events import Event

TOLD: Final = ("published", "returned", "delivered", "got", "acked", "rejected", "expired", "dead_lettered", "dropped")
LONGEST = 48


def print_messages(broker: Broker) -> None:
    """Print what was published, delivered, settled and dead-lettered, in order, with the broker's time."""
    for event in broker.events.query(*TOLD):
        time = datetime.fromtimestamp(event.at / 1_000_000, tz=UTC)
        kind = event.kind.replace("_", "-")
        print(f"  {time:%H:%M:%S.%f}  {kind:13}  {cut(place_of(event)):{LONGEST}}  {cut(event.message.body.decode())}")


def place_of(event: Event) -> str:
    """Return where an event happened: the exchange and routing key, or the queue."""
    if event.kind in ("published", "returned"):
        return f"{event.message.exchange or '(default exchange)'}, {event.message.routing_key}"
    if event.kind == "dead_lettered":
        return f"{event.queue} ({event.reason}), to {event.routing_key}"
    return event.queue or f"{event.message.exchange}, {event.message.routing_key}"


def cut(text: str) -> str:
    """Return a text, shortened if it is too long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
