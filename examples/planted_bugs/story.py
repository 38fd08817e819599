"""a worker that acknowledges first passes its test, until exploration resets the connection at each step in turn"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import leveret
from examples.planted_bugs.bugs import AcknowledgesFirst
from examples.planted_bugs.worker import ORDERS, SHIPPED, Worker
from leveret import Broker


class Shipping:
    """The scenario for one kind of worker: two orders are shipped, and each is taken out of stock once."""

    def __init__(self, kind: type[Worker]) -> None:
        self.kind = kind

    def __call__(self, broker: Broker) -> None:
        """Run the scenario on this broker, a fresh one each time."""
        taken: list[bytes] = []
        broker.declare_queue(ORDERS)
        orders = [b"order 1", b"order 2"]
        for order in orders:
            broker.publish(routing_key=ORDERS, body=order, delivery_mode=2)
        with working(self.kind(broker.url, taken.append)):
            for order in orders:
                broker.assert_acked(ORDERS, body=order, timeout=4)
                broker.assert_published("", routing_key=SHIPPED, body=order, timeout=4)
        assert sorted(taken) == orders, f"taken out of stock: {taken}"


@contextmanager
def working(worker: Worker) -> Iterator[None]:
    """Run a worker during a `with` block."""
    thread = Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stopping.set()
        thread.join()


def tell() -> None:
    """Explore the correct worker, and one with a bug."""
    found = leveret.explore(Shipping(Worker))
    print(f"  the correct worker: {found}")
    try:
        leveret.explore(Shipping(AcknowledgesFirst))
    except leveret.ExplorationFailedError as failure:
        print("\n".join(f"  {line}".rstrip() for line in str(failure).splitlines()))
