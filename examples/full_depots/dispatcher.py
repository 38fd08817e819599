"""A dispatcher of a courier. Each town has a depot, a queue of parcels, from which vans take the oldest ones.

Parcels are JSON: an id, and whether they are express.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

LOST: Final = "parcels.lost"

Parcel = dict[str, Any]


def depot_of(town: str) -> str:
    """Return the name of a town's queue."""
    return f"parcels.{town}"


class Dispatcher:
    """What the vans ask of the depots."""

    def __init__(self, channel: BlockingChannel) -> None:
        self._channel = channel

    def open_depot(self, town: str) -> None:
        """Declare the depot of a town. A parcel that is reported lost leaves it for the queue of lost parcels."""
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": LOST}
        self._channel.queue_declare(LOST, durable=True)
        self._channel.queue_declare(depot_of(town), durable=True, arguments=letters)

    def store(self, town: str, parcel: Parcel) -> None:
        """Put a parcel into a depot."""
        self._channel.basic_publish("", depot_of(town), json.dumps(parcel).encode())

    def load(self, town: str, room: int) -> list[Parcel]:
        """Take the oldest parcels of a town, as many as a van has room for."""
        taken = [found for _ in range(room) if (found := self._next(town)) is not None]
        for delivery, _ in taken:
            self._channel.basic_ack(delivery.delivery_tag)
        return [parcel for _, parcel in taken]

    def load_express(self, town: str) -> Parcel | None:
        """Take the oldest express parcel of a town, and leave the others in their places."""
        left, found = [], None
        while found is None and (following := self._next(town)) is not None:
            delivery, parcel = following
            if parcel["express"]:
                found = parcel
                self._channel.basic_ack(delivery.delivery_tag)
            else:
                left.append(delivery)
        for delivery in left:
            self._channel.basic_nack(delivery.delivery_tag, requeue=True)
        return found

    def report_lost(self, town: str) -> Parcel | None:
        """Set aside the oldest parcel of a town, which is not in its place."""
        found = self._next(town)
        if found is None:
            return None
        delivery, parcel = found
        self._channel.basic_reject(delivery.delivery_tag, requeue=False)
        return parcel

    def close_depot(self, town: str, to: str) -> int:
        """Bring all parcels of a town to the depot of another one, in their order; return how many."""
        count = 0
        while (found := self._next(town)) is not None:
            delivery, parcel = found
            self.store(to, parcel)
            self._channel.basic_ack(delivery.delivery_tag)
            count += 1
        self._channel.queue_delete(depot_of(town), if_empty=True)
        return count

    def _next(self, town: str) -> tuple[Basic.GetOk, Parcel] | None:
        delivery, _, body = self._channel.basic_get(depot_of(town))
        return None if delivery is None else (delivery, json.loads(body))
