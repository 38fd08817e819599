"""The cost of the story: a test that passes imports none of it."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_test_that_passes_imports_none_of_the_story() -> None:
    ran = subprocess.run([sys.executable, "-c", PASSING], capture_output=True, text=True, timeout=60)

    assert (ran.stdout, ran.stderr) == ("[]\n", "")
