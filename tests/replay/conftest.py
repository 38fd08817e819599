"""Fixtures: a server to record from, and the command that records it beside the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from leveret import Broker
from leveret.cli import main
from leveret.core.wire.properties import Properties
from leveret.recording.rec_file import RecordedMessage, RecordingWriter

Recording = Callable[..., AbstractContextManager[Path]]


@pytest.fixture
def server() -> Iterator[Broker]:
    with Broker(management=True, checks="all=off") as broker:
        broker.declare_exchange("orders", "topic")
        broker.declare_queue("billing")
        broker.bind_queue("billing", "orders", "order.*")
        yield broker


@pytest.fixture
def recording(server: Broker, tmp_path: Path) -> Recording:
    """Return a block that ends when the command, begun with it, has seen the `limit` of messages."""

    @contextmanager
    def run(*options: str, limit: int = 1) -> Iterator[Path]:
        path, codes = tmp_path / "orders.rec", []
        arguments = ["record", server.url, "--management", server.management_url, "--limit", str(limit), *options]
        arguments += [] if "--propose" in options else ["-o", str(path)]
        thread = Thread(target=lambda: codes.append(main(arguments)))
        thread.start()
        server.wait_for_consumer(client="leveret record", timeout=30)
        yield path
        thread.join(60)
        assert codes == [0]

    return run


BEGAN = 1_790_000_000_000_000


@pytest.fixture
def orders(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a recording of orders, a second apart."""

    def write(bodies: list[Any], *, path: str = "orders.rec", key: str = "order.made", **facts: object) -> Path:
        file = tmp_path / path
        with RecordingWriter(file, {"vhost": "/", **facts}) as writer:
            for number, body in enumerate(bodies):
                writer.add(recorded(number, body, key=key))
        return file

    return write


def recorded(number: int, body: Any, *, key: str = "order.made", **properties: Any) -> RecordedMessage:
    properties = {"message_id": f"order-{number + 1:04}", "headers": {"tenant": "rome"}} | properties
    at, octets = BEGAN + number * 1_000_000, json.dumps(body).encode()
    return RecordedMessage(at, "orders", key, Properties.from_python(properties), octets)


def order(number: int) -> dict[str, Any]:
    """Return an order: every seventh has a negative total, every ninth is a draft, some are big."""
    total = -5.0 if number % 7 == 4 else [10.5, 100.0, 250.25, 0.0][number % 4]
    kind = "draft" if number % 9 == 2 else "order"
    return {"id": number + 1, "total": total, "kind": kind, "customer": "h4sh", "lines": ["a1", "b2"][: 1 + number % 2]}
