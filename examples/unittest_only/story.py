"""sensors report temperatures with kombu; a value that is not a number is rejected, and nothing dead-letters it"""

from __future__ import annotations

from contextlib import closing

from examples.telling import print_messages
from examples.unittest_only.register import Register, report
from leveret import Broker


def tell() -> None:
    """Report one temperature, and one value that is not a number."""
    with Broker() as broker, closing(Register(broker.url)) as register:
        report(broker.url, "cellar", "temperature", 11.5)
        broker.publish("measurements", "attic.temperature", json={"sensor": "attic", "value": "warm"})
        register.take()
        register.take()
        print(f"  the register holds {register.temperatures}")
        print_messages(broker)
