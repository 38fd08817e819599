"""Makes thumbnails of pictures, with Celery. The worker acknowledges late, and adds to the gallery by another task."""

from __future__ import annotations

import os

from celery import Celery, Task

app = Celery("thumbnails", broker=os.environ.get("AMQP_URL", "amqp://"))
app.conf.update(
    task_default_queue="thumbnails",
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    task_routes={"gallery.*": {"queue": "gallery"}},
)

SIZES = {"small": 120, "large": 960}


class Store:
    """The pictures, by name. The real one is a bucket."""

    def __init__(self) -> None:
        self.pictures: dict[str, tuple[int, int]] = {}


store = Store()


@app.task(name="thumbnails.make", bind=True, max_retries=0)
def make(self: Task, picture: dict, sizes: list[str], owner: str = "", trace: str | None = None) -> None:
    """Make thumbnails of a picture."""
    width, height = picture["width"], picture["height"]
    if width <= 0 or height <= 0:
        raise ValueError(f"{picture['name']} is empty")
    made = []
    for size in sizes:
        edge = SIZES[size]
        name = f"{picture['name']}@{size}"
        store.pictures[name] = (edge, edge * height // width)
        made.append(name)
    app.send_task("gallery.add", kwargs={"names": made, "alt": picture.get("alt") or "", "owner": owner.lower()})
