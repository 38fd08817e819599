"""Scenarios with real clients, for tests that explore them."""

from __future__ import annotations

import pika

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connect(broker, *, confirm=False, name=None):
    """Open a connection of pika and return a channel on it."""
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {} if name is None else {"connection_name": name}
    channel = pika.BlockingConnection(parameters).channel()
    if confirm:
        channel.confirm_delivery()
    return channel


def until_it_works(act, *, tries=50):
    """Call `act` until it raises no AMQPError, at most `tries` times, and return its result."""
    for attempt in range(tries):
        try:
            return act()
        except pika.exceptions.AMQPError:
            if attempt + 1 == tries:
                raise
    return None


def publish_confirmed(broker, *bodies, properties=PERSISTENT):
    """Publish each body until the broker confirms it, on a new connection for each try."""
    for body in bodies:

        def once(body=body):
            channel = connect(broker, confirm=True)
            channel.basic_publish("", "work", body, properties)
            channel.connection.close()

        until_it_works(once)


def careful(broker):
    """Run a publisher that retries until its message is confirmed, and a consumer that acknowledges what it gets."""
    broker.declare_queue("work")
    publish_confirmed(broker, b"1")
    done = {}

    def consume():
        channel = connect(broker)
        for method, _, body in channel.consume("work", inactivity_timeout=0.01):
            if method is None:
                break
            done[body] = True
            channel.basic_ack(method.delivery_tag)
        channel.connection.close()

    while not done or broker.queue("work").ready:
        until_it_works(consume)
    assert list(done) == [b"1"]
