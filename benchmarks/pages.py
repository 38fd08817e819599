"""What the page of a failing test costs, and that a passing test pays nothing for pages.

    python benchmarks/pages.py

Times are processor time of this process, the median of several runs. The events are those of real clients: messages
that are published with confirms, delivered to a consumer and acknowledged, five events each. The first page of a
process also imports what writes it, which is measured in a new process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

import pika

from leveret import Broker
from leveret.page.formats.html import packed_of, page_of
from leveret.page.readings.live import test_of
from leveret.page.story import story_of

SIZES = (200, 1_000, 10_000)
EVENTS_A_MESSAGE = 5
RUNS = 5
FIRST = """
import time
from benchmarks.pages import Broker, exchanged
with Broker() as broker:
    exchanged(broker, 40)
    import sys
    for name in [name for name in sys.modules if name.startswith("leveret.page")]:
        del sys.modules[name]
    began = time.process_time()
    broker.save_page("page.html")
    print(time.process_time() - began)
"""
# A test that passes, with pages for failed tests and without pages.
PASSING = """
import pytest

@pytest.mark.parametrize("number", range(400))
def test_it(leveret, number):
    leveret.declare_queue("q")
    leveret.publish("", "q", b"1")
"""


def exchanged(broker: Broker, message_count: int) -> None:
    """Let a client send messages to another, which acknowledges them."""
    broker.declare_exchange("shop", "topic")
    broker.declare_queue("billing", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    broker.declare_queue("dead")
    broker.bind_queue("billing", "shop", "order.*.paid")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        sender, receiver = connection.channel(), connection.channel()
        sender.confirm_delivery()
        taken = 0

        def take(channel, method, properties, body) -> None:
            nonlocal taken
            taken += 1
            channel.basic_ack(method.delivery_tag)

        receiver.basic_qos(prefetch_count=10)
        receiver.basic_consume("billing", take)
        properties = pika.BasicProperties(content_type="application/json", delivery_mode=2, headers={"tenant": "eu-1"})
        for number in range(message_count):
            body = json.dumps({"order": number, "customer": f"c{number % 7}", "total": number * 3}).encode()
            sender.basic_publish("shop", "order.eu.paid", body, properties)
            connection.process_data_events(time_limit=0)
        while taken < message_count:
            connection.process_data_events(time_limit=1)


def measured(broker: Broker, folder: str) -> tuple[float, int]:
    """Return the seconds that writing a page takes, and its bytes."""
    path, spent = str(Path(folder) / "page.html"), []
    for _ in range(RUNS):
        began = process_time()
        broker.save_page(path)
        spent.append(process_time() - began)
    return median(spent), Path(path).stat().st_size


def parts_of(broker: Broker) -> dict[str, int]:
    """Return how many bytes each part of a page takes."""
    story = story_of([broker._engine.reading(None)], test_of([]), source="memory")
    parts = {
        name: len(packed_of({"events": [], "messages": [], "brokers": [], "cut": {}, name: story[name]}))
        for name in ("events", "messages", "queues", "topology")
    }
    return {**parts, "assets": len(page_of(story)) - len(packed_of(story))}


def first_page() -> float:
    """Return the seconds of the first page of a process, with its imports."""
    ran = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True, cwd=Path.cwd())
    Path("page.html").unlink(missing_ok=True)
    return float(ran.stdout)


def passing_run(folder: str, pages: str) -> float:
    """Return the seconds of processor time of a run of passing tests."""
    Path(folder, "test_it.py").write_text(PASSING, encoding="utf-8")
    program = (
        "import sys, time, pytest\n"
        f"options = ['-q', '-p', 'no:cacheprovider', '--leveret-pages={pages}', '--rootdir=.']\n"
        "code = pytest.main([*options, 'test_it.py'])\n"
        "print('spent', time.process_time(), int(code), any(name.startswith('leveret.page') for name in sys.modules))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    word, spent, code, has_imported = ran.stdout.splitlines()[-1].split()
    assert (word, code, has_imported) == ("spent", "0", "False"), ran.stdout
    return float(spent)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'events':>8} {'page, ms':>10} {'page, kB':>10}   of which kB")
        for size in SIZES:
            with Broker() as broker:
                exchanged(broker, size // EVENTS_A_MESSAGE)
                seconds, size_bytes = measured(broker, folder)
                parts = ", ".join(f"{name} {count / 1000:.0f}" for name, count in parts_of(broker).items())
                print(f"{size:>8} {seconds * 1000:>10.1f} {size_bytes / 1000:>10.0f}   {parts}")
        print(f"first page of a process, 200 events: {first_page() * 1000:.1f} ms")
        spent = {pages: median(passing_run(folder, pages) for _ in range(3)) for pages in ("off", "failed")}
        print(
            f"400 passing tests: {spent['off']:.2f} s without pages, {spent['failed']:.2f} s with pages of failed tests"
        )


if __name__ == "__main__":
    main()
