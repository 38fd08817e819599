"""Misspelt arguments, which RabbitMQ accepts and ignores."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("x-message-tll", "x-message-ttl"),
        ("x-max-len", "x-max-length"),
        ("message-ttl", "x-message-ttl"),
        ("x_dead_letter_exchange", "x-dead-letter-exchange"),
        ("X-Max-Priority", "x-max-priority"),
    ],
)
def test_a_misspelt_argument_of_a_queue_is_reported_with_the_known_name(broker, connect, found, name, known):
    connect(broker).channel().queue_declare("mails", durable=True, arguments={name: 1000})

    text = found(broker)["unknown_argument"]

    assert f"'{name}' of queue 'mails', from shop: did you mean '{known}'?" in text
    assert "broker.allow(\"unknown_argument\", queue='mails')" in text


def test_a_misspelt_argument_of_an_exchange_is_reported(broker, connect, found):
    connect(broker).channel().exchange_declare("mails", arguments={"alternate-exchang": "lost"})

    assert "did you mean 'alternate-exchange'?" in found(broker)["unknown_argument"]


def test_a_misspelt_argument_of_a_consumer_is_reported(broker, connect, found):
    channel = connect(broker).channel()
    channel.basic_consume("orders.work", lambda *_: None, consumer_tag="first", arguments={"x-priorty": 5})

    text = found(broker)["unknown_argument"]

    assert "'x-priorty' of consumer 'first' of queue 'orders.work'" in text


def test_a_misspelt_argument_that_the_test_itself_gives_is_reported(broker, found):
    broker.declare_queue("mails", arguments={"x-message-tll": 1000})

    assert "from the test: did you mean 'x-message-ttl'?" in found(broker)["unknown_argument"]


@pytest.mark.parametrize(
    "name", ["x-owner", "x-message-type", "x-delivery-count", "x-queue-name", "x-quorum-target-group-size"]
)
def test_an_argument_of_the_programs_own_is_not_reported(broker, connect, found, name):
    connect(broker).channel().queue_declare("mails", durable=True, arguments={name: 1000})

    assert "unknown_argument" not in found(broker)


def test_known_arguments_are_not_reported(broker, connect, found):
    channel = connect(broker).channel()
    channel.queue_declare("mails", durable=True, arguments={"x-message-ttl": 1000, "x-max-length": 1})
    channel.exchange_declare("news", arguments={"alternate-exchange": "amq.fanout"})
    channel.basic_consume("mails", lambda *_: None, arguments={"x-priority": 5})

    assert "unknown_argument" not in found(broker)
