"""Errors of publishes without confirms and of acks: which of them clients swallow, and what the checks report."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import unittest
from collections.abc import Callable
from typing import Any

import aio_pika
import amqp
import amqpstorm
import pika
import pytest
from aiormq.connection import DEFAULT_PORTS
from pamqp import commands

from leveret import Broker
from leveret.observe.calls.insight import ClientInsight
from tests.checks.swallowing import PATIENCE_S, ROWS, Row, Stage, wait_for_amqpstorm


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.client}: {row.does}")
def test_an_error_is_reported_if_the_client_swallows_it(row: Row, found) -> None:
    with Broker() as broker:
        broker.declare_queue("work")
        stage = Stage(broker, f"no-exchange-{ROWS.index(row)}")
        is_raised = False
        try:
            row.act(stage)
        except Exception:
            is_raised = True
        text = found(broker).get("unseen_channel_error", "")

    assert is_raised == (row.outcome == "raised")
    assert stage.is_called_back == (row.outcome == "called back")
    assert bool(text) == (row.outcome == "swallowed")
    assert not text or "NOT_FOUND - no exchange" in text or "fast reply consumer does not exist" in text


@pytest.mark.parametrize(
    ("goes_on", "is_reported"),
    [("connection.close()", True), ("try: channel.queue_declare('work')\nexcept Exception: connection.close()", False)],
)
def test_a_client_in_another_process_is_judged_by_what_it_sends(found, goes_on: str, is_reported: bool) -> None:
    with Broker() as broker:
        program = (
            "import pika, sys\n"
            "connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))\n"
            "channel = connection.channel()\n"
            "channel.basic_publish('shoop', 'k', b'x')\n" + goes_on
        )
        subprocess.run([sys.executable, "-c", program, broker.url], check=True, timeout=60)

        assert ("unseen_channel_error" in found(broker)) == is_reported


@pytest.mark.parametrize(
    ("sent", "is_reported"),
    [(commands.Queue.Declare(passive=True), False), (commands.Channel.Close(200, "", 0, 0), True)],
    ids=["queue.declare", "channel.close"],
)
def test_what_a_client_sends_after_its_close_ok_decides_whether_it_has_shown_the_error(
    found, sent: commands.Frame, is_reported: bool
) -> None:
    # amqpstorm looks for errors once it has sent. If it has read the answer by then, it raises this one, not the first.
    with Broker() as broker:
        connection = amqpstorm.Connection("127.0.0.1", "guest", "guest", port=broker.port)
        channel = connection.channel()
        channel.basic.publish("x", "k", "shoop")
        wait_for_amqpstorm(Stage(broker, "shoop"), channel)

        connection.write_frame(channel.channel_id, sent)
        assert broker._engine.wait_until(lambda: not broker._engine.node.connections, PATIENCE_S)

        assert ("unseen_channel_error" in found(broker)) == is_reported


def test_a_client_that_throws_what_nothing_handles_has_shown_the_error_once_it_has_read_it(found) -> None:
    with Broker() as broker:
        parameters = pika.URLParameters(broker.url)
        parameters.client_properties = {"product": "amqplib", "connection_name": "shop"}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.basic_publish("shoop", "k", b"x")
            while channel.is_open:
                connection.process_data_events(0.2)

        assert "unseen_channel_error" not in found(broker)


def test_a_callback_of_a_channel_to_another_broker_hides_no_error(found) -> None:
    # Of an earlier test, whose broker has stopped before the client closed.
    with Broker(checks="off") as earlier:
        left = pika.BlockingConnection(pika.URLParameters(earlier.url)).channel()
        left._impl.add_on_close_callback(print)

    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().basic_publish("shoop", "k", b"x")

        assert left.is_open
        assert "unseen_channel_error" in found(broker)


def test_a_callback_is_seen_if_the_url_of_the_program_has_no_port(found, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(url: str) -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel(publisher_confirms=False)
        is_closed = asyncio.Event()
        channel.close_callbacks.add(lambda *_: is_closed.set())
        exchange = await channel.get_exchange("shoop", ensure=False)
        await exchange.publish(aio_pika.Message(b"x"), "k")
        await is_closed.wait()
        await connection.close()

    with Broker() as broker:
        monkeypatch.setitem(DEFAULT_PORTS, "amqp", broker.port)
        asyncio.run(program(broker.url.replace(f":{broker.port}", "")))

        assert "unseen_channel_error" not in found(broker)


def test_a_connection_that_the_program_drops_after_an_error_ends(caplog: pytest.LogCaptureFixture) -> None:
    # pytest keeps what is logged, and pika logs its channel.
    caplog.set_level("CRITICAL", logger="pika")

    def program(url: str) -> None:
        channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
        channel.basic_publish("shoop", "k", b"x")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("q", durable=True)

    with Broker() as broker:
        program(broker.url)
        gc.collect()

        assert broker._engine.wait_until(lambda: not broker._engine.node.connections, 10)


class InUnittest(unittest.TestCase):
    """A test of unittest, which gets what to do and a channel."""

    # pytest leaves it to the tests below.
    __test__ = False

    def __init__(self, act: Callable[[unittest.TestCase, Any, Any], object], url: str) -> None:
        super().__init__("test_channel")
        self.act, self.url = act, url

    def test_channel(self) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        self.addCleanup(connection.close)
        self.act(self, connection, connection.channel())


def publish_badly(channel: Any) -> None:
    channel.basic_publish("shoop", "k", b"x")


def raised_by_start_consuming(test: unittest.TestCase, connection: Any, channel: Any) -> None:
    channel.basic_consume("work", lambda *_: None)
    connection.add_callback_threadsafe(lambda: publish_badly(channel))
    with test.assertRaises(pika.exceptions.ChannelClosedByBroker):
        channel.start_consuming()


def raised_by_consume(test: unittest.TestCase, connection: Any, channel: Any) -> None:
    connection.add_callback_threadsafe(lambda: publish_badly(channel))
    with test.assertRaisesRegex(pika.exceptions.ChannelClosedByBroker, "shoop"):
        next(channel.consume("work"))


def raised_by_the_next_publish(test: unittest.TestCase, connection: Any, channel: Any) -> None:
    publish_badly(channel)
    while channel.is_open:
        connection.process_data_events(0.05)
    with test.assertRaises(pika.exceptions.ChannelWrongStateError):
        publish_badly(channel)


def raised_by_py_amqp(test: unittest.TestCase, connection: Any, channel: Any) -> None:
    with amqp.Connection(f"127.0.0.1:{connection._impl.params.port}") as other:
        channel = other.channel()
        channel.basic_publish(amqp.Message(b"x"), exchange="shoop")
        with test.assertRaises(amqp.NotFound):
            while True:
                other.drain_events(timeout=10)


@pytest.mark.parametrize(
    "act", [raised_by_start_consuming, raised_by_consume, raised_by_the_next_publish, raised_by_py_amqp]
)
def test_an_error_that_assert_raises_has_caught_counts_as_seen(found, act: Callable[..., object]) -> None:
    with Broker() as broker:
        broker.declare_queue("work")

        result = InUnittest(act, broker.url).run()

        assert result is not None
        assert result.wasSuccessful(), result
        assert "unseen_channel_error" not in found(broker)


def test_an_error_that_the_client_drops_while_it_closes_is_reported_in_a_test_of_unittest_too(found) -> None:
    with Broker() as broker:
        result = InUnittest(lambda test, connection, channel: publish_badly(channel), broker.url).run()

        assert result is not None
        assert result.wasSuccessful(), result
        assert "1 error that no call of a client has raised" in found(broker)["unseen_channel_error"]


def test_an_error_in_the_place_of_an_earlier_one_is_not_taken_for_it() -> None:
    class ClientError(Exception):
        pass

    def raised() -> ClientError:
        try:
            raise ClientError("NOT_FOUND - no exchange 'shoop'")
        except ClientError as error:
            return error

    earlier = raised()
    insight = ClientInsight("a client", 1, "NOT_FOUND - no exchange 'shoop'")
    assert not insight.was_raised()

    address, others = id(earlier), []
    del earlier
    for _ in range(1000):
        others.append(raised())
        if id(others[-1]) == address:
            break
    others = others[-1:]
    assert insight.was_raised()


@pytest.mark.parametrize(
    "settle",
    [
        lambda channel: channel.basic_ack(7),
        lambda channel: channel.basic_nack(7),
        lambda channel: channel.basic_reject(7),
    ],
    ids=["ack", "nack", "reject"],
)
def test_the_error_of_an_ack_that_a_later_call_raises_counts_as_seen(found, settle: Callable[[Any], object]) -> None:
    with Broker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        settle(channel)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="unknown delivery tag"):
            channel.queue_declare("orders", durable=True)

        assert "unseen_channel_error" not in found(broker)


def test_the_error_of_an_ack_that_the_client_drops_is_reported(found) -> None:
    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().basic_ack(7)

        assert "unknown delivery tag 7" in found(broker)["unseen_channel_error"]
