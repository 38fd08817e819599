"""What caused what: dead letters and replies for certain, and publishes during a delivery as a guess.

A dead letter keeps the number of its message, so its cause is an event: the death of the copy that it comes from. A
reply goes to the queue that the request named, with the request's correlation id. A publish made on a connection while
it held exactly one delivery was probably caused by it.
"""

from __future__ import annotations

from typing import Any, Final

from leveret.page.messages import Copy, MessageStory
from leveret.page.readings.reading import PageRow
from leveret.page.steps import StoryEvent
from leveret.trace import events

_RELEASING: Final = frozenset({*events.ENDS, *events.REFUSING, *events.REQUEUES})


class Causes:
    """The causes in one broker, found while its rows go by."""

    def __init__(self) -> None:
        # The death of each copy.
        self._deaths: dict[int, StoryEvent] = {}
        # Requests by where their reply goes and its correlation id.
        self._requests: dict[tuple[str, object], MessageStory] = {}
        # What each connection holds, by copy, with the channel; and who holds each copy.
        self._held: dict[int | None, dict[int, tuple[object, MessageStory]]] = {}
        self._holders: dict[int, int | None] = {}

    def take(self, row: PageRow, event: StoryEvent, message: MessageStory, copy: Copy | None) -> None:
        """Take the next row about a message."""
        kind = row["kind"]
        if kind == events.PUBLISHED:
            self._published(row, message)
        elif copy is None:
            return
        elif kind in (*events.DEATHS, *events.LOSSES):
            self._deaths[copy.number] = event
        elif kind in events.ARRIVALS and copy.source in self._deaths:
            death = self._deaths[copy.source]
            death.setdefault("causes", []).append(event)
            event["caused_by"] = death
        if copy is not None:
            self._hold(row, message, copy)

    def held_on(self, conn: int | None, chan: object) -> list[MessageStory]:
        """Return the messages that a channel holds."""
        return [message for channel, message in self._held.get(conn, {}).values() if channel == chan]

    def _published(self, row: PageRow, message: MessageStory) -> None:
        correlation = message.properties.get("correlation_id")
        request = self._requests.get((message.routing_key, correlation)) if not message.exchange else None
        if request is not None and request is not message:
            link(request, message, "reply", is_guess=False)
        else:
            held = self._held.get(row.get("conn"), {})
            if len(held) == 1 and row.get("conn") is not None:
                ((_, cause),) = held.values()
                link(cause, message, f"published while c{row['conn']} held {cause.name}", is_guess=True)
        reply_to = message.properties.get("reply_to")
        if reply_to is not None:
            self._requests[str(reply_to), correlation] = message

    def _hold(self, row: PageRow, message: MessageStory, copy: Copy) -> None:
        kind = row["kind"]
        if kind in events.DELIVERIES:
            conn = row.get("conn")
            self._held.setdefault(conn, {})[copy.number] = row.get("chan"), message
            self._holders[copy.number] = conn
        elif kind in _RELEASING or row.get("reason") == events.NO_ACK:
            conn = self._holders.pop(copy.number, None)
            self._held.get(conn, {}).pop(copy.number, None)


def link(cause: MessageStory, effect: MessageStory, how: str, *, is_guess: bool) -> None:
    """Link a message to the one that it follows from."""
    guess: dict[str, Any] = {"guess": True} if is_guess else {}
    cause.causes.append({"message": effect.number, "how": how, **guess})
    effect.caused_by = {"message": cause.number, "how": how, **guess}
