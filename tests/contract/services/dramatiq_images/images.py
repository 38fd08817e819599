"""Images, as actors of dramatiq: a thumbnail for each upload, and a note to the owner."""

from __future__ import annotations

import os
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

broker = RabbitmqBroker(url=os.environ["AMQP_URL"], confirm_delivery=True)
dramatiq.set_broker(broker)
SIZES = {"small": 64, "large": 512}
made: list[tuple[str, int]] = []
notes: list[str] = []


@dramatiq.actor(queue_name="images", max_retries=1, min_backoff=1)
def resize(path: str, size: str, *, crop: bool = False) -> None:
    """Make a thumbnail."""
    made.append((path, SIZES[size]))
    tell_owner.send(path, {"size": size, "crop": crop, "pixels": SIZES[size] ** 2})


@dramatiq.actor(queue_name="notes", max_retries=0)
def tell_owner(path: str, thumbnail: dict[str, Any]) -> None:
    """Tell the owner of an image that its thumbnail is made."""
    notes.append(f"{path}: {thumbnail['pixels']} pixels")


@dramatiq.actor(queue_name="images", max_retries=0)
def remove(path: str, reason: str | None = None) -> None:
    """Remove the thumbnails of an image."""
    made[:] = [(each, size) for each, size in made if each != path]


def upload(path: str) -> None:
    """Take an upload."""
    for size in SIZES:
        resize.send(path, size, crop=size == "small")
