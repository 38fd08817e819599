"""The cost of the story: a test that passes imports none of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
