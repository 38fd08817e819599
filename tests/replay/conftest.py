"""Fixtures: a server to record from, and the command that records it beside the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from leveret import Broker
from leveret.cli import main

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
