"""What clients see of command lines that act on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pika
import pytest

from leveret import Broker
from leveret.http.rabbitmqctl.running import run

Ask = Callable[[str], str]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(management=True) as broker:
        yield broker


@pytest.fixture
def ask(broker: Broker) -> Ask:
    """Return a function that returns what a command line prints."""
    return lambda line: run(broker._engine, "rabbitmqctl", line.split(), {}, {})[1]


def test_a_connection_is_closed_by_the_pid_that_its_row_has(broker: Broker, ask: Ask) -> None:
    first, second = (pika.BlockingConnection(pika.URLParameters(broker.url)) for _ in range(2))
    pids = re.findall(r"<\S+>", ask("list_connections -q pid"))

    ask(f"close_connection {pids[1]} enough")

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - enough"):
        second.channel()
    assert first.channel().is_open
    first.close()


@pytest.mark.parametrize("limit", ["9000000000GB", "mem_relative 1000000000.0"])
def test_a_disk_limit_beyond_the_disk_blocks_publishers_until_another_is_set(
    broker: Broker, ask: Ask, limit: str
) -> None:
    broker.declare_queue("jobs")
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    ask(f"set_disk_free_limit {limit}")
    connection.channel().basic_publish("", "jobs", b"1")
    broker.sync()
    blocked = broker.queue("jobs").ready_count

    ask("set_disk_free_limit 1MB")

    broker.assert_ready("jobs", body=b"1", timeout=5)
    assert blocked == 0
    # Only now: a broker that still blocks it would not read its close.
    connection.close()
