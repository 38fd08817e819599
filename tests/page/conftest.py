"""Fixtures for a broker with real clients, and for the story that its page holds."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker

Story = dict[str, Any]
_STORY = re.compile(r'<script type="text/plain" id="story">(.*?)</script>', re.DOTALL)


def unfolded(items: Any) -> list[dict[str, Any]]:
    """Return items that a page may write as columns."""
    if isinstance(items, list):
        return items
    names, rows = items["columns"], zip(*items["columns"].values(), strict=True)
    return [{name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows]


def story_in(page: str | Path) -> Story:
    """Return the story in a page, as its viewer reads it."""
    text = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    found = _STORY.search(text)
    assert found is not None
    story: Story = json.loads(gzip.decompress(base64.b64decode(found[1])))
    for name in ("events", "messages"):
        story[name] = unfolded(story[name])
    return story


class Clients:
    """Real clients of a broker over TCP, and the story of what they did."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self._path = folder / "page.html"
        self._connections: list[pika.BlockingConnection] = []

    def connect(self, name: str = "worker") -> pika.BlockingConnection:
        parameters = pika.URLParameters(self.broker.url)
        parameters.client_properties = {"connection_name": name}
        connection = pika.BlockingConnection(parameters)
        self._connections.append(connection)
        return connection

    def channel(self, name: str = "worker") -> Any:
        return self.connect(name).channel()

    def page(self) -> str:
        self.broker.save_page(self._path)
        return self._path.read_text(encoding="utf-8")

    def story(self) -> Story:
        return story_in(self.page())

    def end(self) -> None:
        for connection in self._connections:
            if connection.is_open:
                # A fault may have broken it.
                with suppress(pika.exceptions.AMQPError):
                    connection.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(seed=5, checks="all=off") as broker:
        yield broker


@pytest.fixture
def clients(broker: Broker, tmp_path: Path) -> Iterator[Clients]:
    clients = Clients(broker, tmp_path)
    yield clients
    clients.end()


@pytest.fixture
def texts() -> Callable[[Story], list[str]]:
    """Return a function for the texts of a story's events without set-up."""
    return lambda story: [event["text"] for event in story["events"] if not event.get("setup")]
