"""Fixtures for the tests of pika's callback adapters: the same code on SelectConnection and on AsyncioConnection.

pika reports every result by a callback. A `Mailbox` is such a callback: it keeps the arguments of each call, and `take`
runs the adapter's I/O loop until a call has arrived.
"""

import asyncio
from collections import deque

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection


class SelectLoop:
    """A SelectConnection's own loop, run until a callback stops it."""

    def __init__(self, patience):
        self.patience = patience

    def connect(self, parameters, **callbacks):
        connection = pika.SelectConnection(parameters, **callbacks)
        self.ioloop = connection.ioloop
        return connection

    def wake(self):
        self.ioloop.stop()

    def run(self):
        limit = self.ioloop.call_later(self.patience, self.give_up)
        self.ioloop.start()
        self.ioloop.remove_timeout(limit)

    def give_up(self):
        raise TimeoutError("no callback came")

    def close(self):
        self.ioloop.close()


class AsyncioLoop:
    """An asyncio loop of its own, run until a callback wakes it."""

    def __init__(self, patience):
        self.patience = patience
        self.loop = asyncio.new_event_loop()
        self.woken = asyncio.Event()

    def connect(self, parameters, **callbacks):
        return AsyncioConnection(parameters, custom_ioloop=self.loop, **callbacks)

    def wake(self):
        self.woken.set()

    def run(self):
        self.woken.clear()
        self.loop.run_until_complete(asyncio.wait_for(self.woken.wait(), self.patience))

    def close(self):
        self.loop.close()


class Mailbox:
    """A callback that remembers the arguments of its calls."""

    def __init__(self, loop):
        self.loop = loop
        self.calls = deque()

    def __call__(self, *arguments):
        self.calls.append(arguments)
        self.loop.wake()

    def take(self):
        """Return the arguments of the next call, or the argument itself if there is only one."""
        while not self.calls:
            self.loop.run()
        arguments = self.calls.popleft()
        return arguments[0] if len(arguments) == 1 else arguments


class Client:
    """A client that opens connections and channels with callbacks, and waits for the calls."""

    def __init__(self, url, loop):
        self.url = url
        self.loop = loop
        self.closed = Mailbox(loop)
        self.connection = None

    def mailbox(self):
        return Mailbox(self.loop)

    def connect(self, **changes):
        opened = self.mailbox()
        parameters = pika.URLParameters(self.url)
        for name, value in changes.items():
            setattr(parameters, name, value)
        self.connection = self.loop.connect(
            parameters, on_open_callback=opened, on_open_error_callback=opened, on_close_callback=self.closed
        )
        return opened.take()

    def channel(self):
        opened = self.mailbox()
        self.connection.channel(on_open_callback=opened)
        return opened.take()

    def ask(self, method, *arguments, **options):
        """Call one of pika's methods and return the frame of the reply."""
        answered = self.mailbox()
        method(*arguments, callback=answered, **options)
        return answered.take()

    def close(self):
        if self.connection is not None and not self.connection.is_closed:
            self.connection.close()
            self.closed.take()
        self.loop.close()


@pytest.fixture(params=[SelectLoop, AsyncioLoop], ids=["select", "asyncio"])
def make_client(request, broker_url, patience):
    """Return a function that makes a client without a connection; all clients are closed when the test ends."""
    made = []

    def make_client():
        made.append(Client(broker_url, request.param(patience)))
        return made[-1]

    yield make_client
    for client in made:
        client.close()


@pytest.fixture
def client(make_client):
    client = make_client()
    client.connect()
    return client


@pytest.fixture
def channel(client):
    return client.channel()
