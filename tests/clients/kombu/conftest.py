"""Fixtures for the kombu tests: a connection that gives up after a while instead of retrying for ever."""

import kombu
import pytest


@pytest.fixture
def connection(broker_url, patience):
    options = {"confirm_publish": True, "read_timeout": patience}
    with kombu.Connection(broker_url, connect_timeout=patience, transport_options=options) as connection:
        yield connection


@pytest.fixture
def drain(connection, patience):
    """Return a function that reads from the connection until a list has the wanted length."""

    def drain(collected, count):
        while len(collected) < count:
            connection.drain_events(timeout=patience)
        return collected

    return drain


@pytest.fixture
def ready_count(connection):
    """Return a function that counts the ready messages of a queue."""

    def ready_count(name):
        with connection.channel() as channel:
            return channel.queue_declare(name, passive=True).message_count

    return ready_count
