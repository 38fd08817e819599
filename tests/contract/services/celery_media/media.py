"""Media, as tasks of Celery that make a chain: fetch, resize, and store in a queue of its own."""

from __future__ import annotations

import os

from celery import Celery, chain
from kombu import Exchange, Queue

app = Celery("media", broker=os.environ["AMQP_URL"])
media = Exchange("media", type="topic", durable=True)
app.conf.update(
    task_queues=[
        Queue("media.fast", media, routing_key="media.fast.#"),
        Queue("media.slow", media, routing_key="media.slow.#", queue_arguments={"x-max-length": 500}),
    ],
    task_default_queue="media.fast",
    task_default_exchange="media",
    task_default_routing_key="media.fast.any",
    task_routes={"media.resize": {"queue": "media.slow", "routing_key": "media.slow.resize"}},
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
)
stored: list[dict[str, object]] = []


@app.task(name="media.fetch")
def fetch(url: str) -> dict[str, object]:
    """Fetch an image."""
    return {"url": url, "width": 800, "height": 600}


@app.task(name="media.resize")
def resize(image: dict[str, object], width: int) -> dict[str, object]:
    """Return an image of another width."""
    return {**image, "width": width}


@app.task(name="media.store")
def store(image: dict[str, object], *, bucket: str = "images") -> None:
    """Store an image."""
    stored.append({**image, "bucket": bucket})


def take(url: str, width: int) -> None:
    """Fetch, resize and store an image."""
    chain(fetch.s(url), resize.s(width), store.s(bucket="thumbs")).delay()
