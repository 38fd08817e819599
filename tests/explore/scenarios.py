"""Scenarios that another process can import."""

from __future__ import annotations

import os

import pika

# Whether this is the process of the test. A process that imports this module anew does not know it.
IS_TEST = False


def order(broker):
    """Publish two orders with confirms."""
    broker.declare_queue("orders")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in (b"1", b"2"):
            channel.basic_publish("", "orders", body)


def order_until_it_is_there(broker):
    """Publish an order again until its confirm comes, three times at most, and count it once."""
    broker.declare_queue("orders")
    for _ in range(3):
        try:
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.basic_publish("", "orders", b"1")
                break
        except pika.exceptions.AMQPError:
            continue
    assert len(broker.queue("orders").ready) < 3


def patient(broker, *, act):
    """Pass under every fault in the process of the test; elsewhere, do `act` if a fault has applied."""
    try:
        order(broker)
    except pika.exceptions.AMQPError:
        if not IS_TEST:
            act()


def fail():
    """Fail."""
    raise AssertionError("runs disturb each other")


def die():
    """End this process at once."""
    os._exit(7)


def only_here(broker):
    """Fail in every other process."""
    assert IS_TEST, "the database of this test is not there"
    order(broker)
