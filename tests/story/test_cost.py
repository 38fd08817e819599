"""The cost of the story: a test that passes imports none of it, and one that fails is read in linear time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret import Broker
from leveret.clocks import thread_cpu_ns
from leveret.engine.harness import Harness
from leveret.page import story
from leveret.story.asked import Asked

PASSING = """
import sys
from leveret import Broker

with Broker() as broker:
    broker.declare_queue("orders")
    consumer = broker.consume("orders", ack="manual")
    broker.publish("", "orders", b"1")
    consumer.next().ack()
    broker.assert_acked("orders")
    broker.assert_empty("orders")
    broker.wait_idle()
    broker.check()
print([name for name in sys.modules if name.startswith(("leveret.story", "leveret.page"))])
"""


# Of a test with the plugin, whose fixture also watches whether a client comes.
IN_PYTEST = """
import sys
import pika

def test_client(leveret):
    pika.BlockingConnection(pika.URLParameters(leveret.url)).close()
    leveret.declare_queue("orders")

def test_modules():
    assert [name for name in sys.modules if name.startswith(("leveret.story", "leveret.page"))] == []
"""


def test_a_test_that_passes_in_pytest_imports_none_of_the_story(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(IN_PYTEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]

    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert ran.returncode == 0, ran.stdout


def test_a_test_that_passes_imports_none_of_the_story() -> None:
    ran = subprocess.run([sys.executable, "-c", PASSING], capture_output=True, text=True, timeout=300)

    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def _lost(broker: Broker, count: int) -> None:
    for number in range(count):
        broker.publish("", "nowhere", b"%d" % number)


def _answered_wrongly(broker: Broker, count: int) -> None:
    broker.declare_queue("replies")
    for number in range(count):
        broker.publish("", "requests", b"", reply_to="replies", correlation_id=f"asked {number}")
    for number in range(count):
        broker.publish("", "replies", b"", correlation_id=f"given {number}")


def _waiting_for_their_time(broker: Broker, count: int) -> None:
    broker.declare_queue("delays")
    for number in range(count):
        broker.publish("", "delays", b"", expiration=str(60_000 + number))


def _declared_and_deleted(broker: Broker, count: int) -> None:
    for number in range(count):
        broker.declare_queue(f"q{number}")
    for number in range(count):
        broker.delete_queue(f"q{number}")


@pytest.mark.parametrize("act", [_lost, _answered_wrongly, _waiting_for_their_time, _declared_and_deleted])
def test_what_went_wrong_and_the_page_take_time_in_proportion_to_the_events(act: Callable[[Broker, int], None]) -> None:
    short, long = (_cpu_ns(act, count) for count in (1_000, 6_000))

    # Six times as many events took more than thirty times as long when each was compared with each.
    assert long < 18 * max(short, 50_000_000)


def _cpu_ns(act: Callable[[Broker, int], None], count: int) -> int:
    """Return the processor time that the diagnosis and the story of a failed test took."""
    with Broker() as broker:
        harness = Harness(broker)
        harness.begin_test("test")
        act(broker, count)
        harness.sync()
        began = thread_cpu_ns()
        found = harness.diagnosis("test", Asked(is_wait=True))
        reading = harness.reading("test")
        assert reading is not None
        assert found is not None
        reading.causes, reading.noticed = found.causes, found.noticed
        story.story_of([reading], story.Test("test", "failed"), source="memory")
        spent = thread_cpu_ns() - began
        harness.excuse()
    return spent
