"""What a planted bug is: a service, its mended twin, the orders that they get, and what has to hold in the end."""

from __future__ import annotations

import inspect
import threading
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

from tests.explore.crashes.shop import database, serve, serve_as_process, serve_async

LOST = ("lost before", "lost after")
KILLED = ("killed before", "killed after")


class Planted:
    """A planted bug. Its docstring says what goes wrong."""

    # The kinds that find it. With the kinds of death the service is a process.
    found_by: ClassVar[tuple[str, ...]] = LOST
    # How many schedules it takes to find at most.
    within: ClassVar[int] = 8
    on: ClassVar[tuple[str, ...]] = ("basic.publish", "*client->server basic.ack #*")
    queues: ClassVar[tuple[str, ...]] = ("orders", "shipped")
    # Whether the queue orders has a single active consumer.
    is_single_active: ClassVar[bool] = False
    orders: ClassVar[tuple[str, ...]] = ("1",)
    tables: ClassVar[str] = ""
    # The queue that gets a message at the end, if the broker alone cannot know that the service goes on.
    last: ClassVar[str | None] = None

    @classmethod
    def scenario(cls, service):
        """Return the scenario of the bug or of its twin. Another process can import it."""
        return partial(cls.is_right, service)

    @classmethod
    def is_right(cls, service, broker, folder):
        """Run a service until all is done, and look at what it leaves."""
        for queue in cls.queues:
            arguments = {"x-single-active-consumer": True} if cls.is_single_active and queue == "orders" else {}
            broker.declare_queue(queue, arguments=arguments)
        with closing(database(folder)) as db:
            db.executescript(cls.tables)
        for order in cls.orders:
            broker.publish("", "orders", order.encode(), message_id=order, delivery_mode=2)
        cls.prepare(broker)
        with cls.running(service, broker, folder):
            cls.settle(broker, patience=2 if service is cls.bug else 30)
        with closing(database(folder)) as db:
            cls.holds(Outcome(broker, db, folder))

    @classmethod
    def settle(cls, broker, patience):
        """Wait for the end. The bug gets less time, because a search for it ends with its first failure."""
        broker.wait_idle(timeout=30, reconnects=False)
        # A service that has closed its connection comes back too.
        broker.wait_for_consumer("orders", timeout=patience)
        broker.wait_idle(timeout=30)
        if cls.last is not None:
            broker.assert_published("", routing_key=cls.last, timeout=patience)

    @classmethod
    def prepare(cls, broker):
        """Do what else has to be done before the service starts."""

    @classmethod
    @contextmanager
    def running(cls, service, broker, folder):
        """Run the service: as a process if a death finds the bug, or else on a thread."""
        if cls.found_by == KILLED:
            with broker.worker(serve_as_process, args=(service,), env={"FOLDER": str(folder)}):
                yield
            return
        stopping = threading.Event()
        loop = serve_async if inspect.iscoroutinefunction(service) else serve
        thread = threading.Thread(target=loop, args=(service, broker.url, folder, stopping), daemon=True)
        thread.start()
        try:
            broker.wait_for_consumer("orders")
            yield
        finally:
            stopping.set()
            thread.join(30)


class Outcome:
    """What a scenario leaves: queues, tables and files."""

    def __init__(self, broker, db, folder: Path):
        self.broker = broker
        self.db = db
        self.folder = folder

    def ids(self, queue: str) -> list[str | None]:
        """Return the ids of the messages in a queue."""
        return [message.message_id for message in self.broker.queue(queue).ready]

    def bodies(self, queue: str) -> list[str]:
        """Return the bodies of the messages in a queue."""
        return [message.body.decode() for message in self.broker.queue(queue).ready]

    def rows(self, sql: str) -> list:
        """Return the rows of a query; those of one column as values."""
        rows = self.db.execute(sql).fetchall()
        return [row[0] if len(row) == 1 else row for row in rows]
