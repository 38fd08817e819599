"""a service in JavaScript, under test with node's own test runner: time, faults and assertions over HTTP"""

from __future__ import annotations

from examples.node.running import run_tests
from examples.telling import print_messages
from leveret import Broker


def tell() -> None:
    """Run the tests of the service on one broker, and show what the broker saw."""
    with Broker(management=True, checks="all=off") as broker:
        ran = run_tests(broker.management_url)
        print_messages(broker)
        print("  " + "\n  ".join(line for line in ran.stdout.splitlines() if line.startswith("# ")))
