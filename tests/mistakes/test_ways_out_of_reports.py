"""The ways out that reports, notes and warnings name: each is taken, and then nothing is left to say."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import socket
import ssl
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import aio_pika
import amqp
import pika
import pytest
from pika.exceptions import AMQPError, UnroutableError

from leveret import (
    Broker,
    BrokerError,
    CheckFailedError,
    EndlessTimeError,
    EventsMissingError,
    LeveretWarning,
    RefusedError,
    WaitTimeoutError,
)
from tests.observe.test_advice import report_after

PARAMETERS = pika.URLParameters


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(users={"shop": "secret"}, checks="all=off") as broker:
        yield broker


def lines_of(broker: Broker, beginning: str) -> list[str]:
    report = broker._engine.report().splitlines()
    return [line.strip().removeprefix(beginning) for line in report if line.strip().startswith(beginning)]


def declare(channel: Any, **keywords: Any) -> None:
    channel.queue_declare("orders", **({"durable": True} | keywords))


# What a client asks for, where the ways out are in the report, and how they are written as code.
ADVICE: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown user": ({"user": "app:secret"}, "To add user 'app': "),
    "an unknown virtual host": ({"vhost": "shop"}, "To add vhost 'shop': "),
    "a virtual host without a permission": ({"user": "shop:secret", "vhost": "stage"}, "To let user 'shop' in: "),
    "a denied queue": ({"use": lambda channel: channel.queue_declare("orders")}, "permit it: "),
    "a denied queue of an older version": (
        {"use": lambda channel: channel.queue_declare("orders")},
        "or, if you run an older RabbitMQ, set its version: ",
    ),
    "a denied argument": (
        {"use": lambda channel: declare(channel, arguments={"x-queue-master-locator": "min-masters"})},
        "permit it: ",
    ),
}


@pytest.mark.parametrize("what", ADVICE)
def test_each_way_out_of_a_report_lets_the_client_in(what: str) -> None:
    asked, beginning = ADVICE[what]

    def act(broker: Broker) -> None:
        if asked.get("vhost") == "stage":
            broker.admin.add_vhost("stage")
        url = f"amqp://{asked.get('user', 'guest:guest')}@127.0.0.1:{broker.port}/{asked.get('vhost', '')}"
        with pika.BlockingConnection(PARAMETERS(url)) as connection:
            asked.get("use", declare)(connection.channel())

    given: dict[str, Any] = {"users": {"shop": "secret"}, "checks": "all=off"}
    with Broker(**given) as broker:
        with pytest.raises((AMQPError, ConnectionError)):
            act(broker)
        ways = lines_of(broker, beginning)[0].split(", or ")

    for way in ways:
        password = "secret"
        made = Broker(**given)
        if way.startswith("Broker("):
            settings = eval(way.replace("Broker(", "dict("), {"password": password})
            made = Broker(**{**given, **settings})
        with made as broker:
            if not way.startswith("Broker("):
                if asked.get("vhost") == "stage":
                    broker.admin.add_vhost("stage")
                exec(way, {"broker": broker, "password": password})
            with suppress(BrokerError):
                broker.admin.add_vhost("unused")
            if asked.get("vhost") == "stage":
                url = f"amqp://shop:secret@127.0.0.1:{broker.port}/stage"
                with pika.BlockingConnection(PARAMETERS(url)) as connection:
                    declare(connection.channel())
            else:
                act(broker)


INSTEAD: dict[str, tuple[Callable[[Any], object], str, list[Callable[[Any], object]]]] = {
    "a transient queue": (
        lambda channel: channel.queue_declare("orders"),
        "declare the queue with durable=True (or exclusive=True)",
        [
            lambda channel: channel.queue_declare("orders", durable=True),
            lambda channel: channel.queue_declare("mine", exclusive=True),
        ],
    ),
    "a locator": (
        lambda channel: declare(channel, arguments={"x-queue-master-locator": "min-masters"}),
        "remove the argument x-queue-master-locator",
        [declare],
    ),
    "another declaration": (
        lambda channel: declare(channel, arguments={"x-max-length": 2}),
        "Declare it alike everywhere, with the same durable= and arguments=",
        [lambda channel: declare(channel, arguments={"x-max-length": 1})],
    ),
    "a misspelt queue": (
        lambda channel: channel.queue_declare("limitd", passive=True),
        "No queue 'limitd'; did you mean 'limited'?",
        [lambda channel: channel.queue_declare("limited", passive=True)],
    ),
    "a misspelt type": (
        lambda channel: channel.exchange_declare("e", "topc"),
        "No exchange type 'topc'; did you mean 'topic'?",
        [lambda channel: channel.exchange_declare("e", "topic")],
    ),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_what_a_report_says_to_do_instead_works(broker: Broker, what: str) -> None:
    wrong, said, rights = INSTEAD[what]
    for name in ("orders", "limited"):
        arguments = {"x-max-length": 1} if what == "another declaration" or name == "limited" else {}
        if name == "limited" or arguments:
            broker.declare_queue(name, arguments=arguments)

    assert said in report_after(broker, use=wrong)

    for right in rights:
        with pika.BlockingConnection(PARAMETERS(broker.url)) as connection:
            right(connection.channel())


def test_the_url_of_the_right_password_is_that_of_the_user(broker: Broker) -> None:
    with pytest.raises(AMQPError):
        pika.BlockingConnection(PARAMETERS(f"amqp://shop:wrong@127.0.0.1:{broker.port}/"))
    [call] = lines_of(broker, "The URL with the password of user 'shop': ")

    pika.BlockingConnection(PARAMETERS(eval(call))).close()


def test_frames_of_two_threads_fit_in_each_way_that_the_report_names(broker: Broker) -> None:
    broker.declare_queue("orders")
    connection = pika.BlockingConnection(PARAMETERS(broker.url))
    connection.channel()
    # A header without its method, as of a publish that another thread has cut into.
    header = pika.frame.Header(1, 1, pika.BasicProperties()).marshal()
    with suppress(AMQPError):
        connection._impl._transport.write(header)
        connection.process_data_events(5)
    [line] = [line for line in broker._engine.report().splitlines() if "two threads in one connection" in line]

    assert "open one for each, or call connection.add_callback_threadsafe() from the others" in line
    with pika.BlockingConnection(PARAMETERS(broker.url)) as shared:
        channel = shared.channel()

        def publish() -> None:
            with pika.BlockingConnection(PARAMETERS(broker.url)) as own:
                own.channel().basic_publish("", "orders", b"own")
            shared.add_callback_threadsafe(lambda: channel.basic_publish("", "orders", b"shared"))

        thread = Thread(target=publish)
        thread.start()
        thread.join()
        shared.process_data_events(0)
        broker.assert_ready("orders", times=2, timeout=5)


def test_a_client_with_tls_gets_in_in_both_ways_that_the_report_names(broker: Broker) -> None:
    def connect(url: str, broker: Broker) -> None:
        parameters = PARAMETERS(url)
        if url.startswith("amqps"):
            certificates = broker._certificates
            context = ssl.create_default_context() if certificates is None else certificates.client_context()
            parameters.ssl_options = pika.SSLOptions(context, "localhost")
        pika.BlockingConnection(parameters).close()

    with suppress(ssl.SSLError, AMQPError):
        connect(broker.url.replace("amqp:", "amqps:"), broker)
    assert "give the client broker.url, or start the broker with tls=True and give it broker.tls.url" in (
        broker._engine.report()
    )

    connect(broker.url, broker)
    with Broker(tls=True) as other:
        connect(other.tls.url, other)


def test_a_client_without_tls_gets_in_in_both_ways_that_the_report_names() -> None:
    with Broker(tls=True, checks="all=off") as broker:
        with pytest.raises((AMQPError, ConnectionError)):
            pika.BlockingConnection(PARAMETERS(broker.tls.url.replace("amqps:", "amqp:")))
        assert "give the client broker.url, or let it use TLS, as in broker.tls.url" in broker._engine.report()

        pika.BlockingConnection(PARAMETERS(broker.url)).close()
        parameters = PARAMETERS(broker.tls.url)
        assert broker.tls.certificates is not None
        parameters.ssl_options = pika.SSLOptions(broker.tls.certificates.client_context(), "localhost")
        pika.BlockingConnection(parameters).close()


def test_a_request_of_http_is_answered_where_the_report_sends_it(broker: Broker) -> None:
    request = b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
    with socket.create_connection(("127.0.0.1", broker.port)) as client:
        client.sendall(request)
        client.recv(100)
    assert "start the broker with management=True and use broker.management_url" in broker._engine.report()

    with Broker(management=True) as other:
        port = int(other.management_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(request)
            assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_time_that_is_held_goes_on_in_both_ways_that_the_report_names(broker: Broker) -> None:
    for call in ("broker.clock.advance()", "broker.clock.release()"):
        broker.declare_queue("q", arguments={"x-message-ttl": 20})
        broker.clock.hold()
        broker.publish("", "q", b"x")
        said = "the clock is held, so nothing comes due: move it with broker.clock.advance(), or release() it"
        assert said in broker._engine.report()

        eval(call.replace("advance()", "advance(1)"))

        broker.assert_empty("q", timeout=5)
        broker.clock.release()


def test_a_message_that_is_returned_raises_in_each_way_that_the_finding_names() -> None:
    with Broker() as broker:
        with pika.BlockingConnection(PARAMETERS(broker.url)) as connection:
            connection.channel().basic_publish("amq.topic", "k", b"x", mandatory=True)
        with pytest.warns(LeveretWarning) as warned:
            broker.check()
        text = str(warned[0].message)
        assert "use on_return_raises=True of aio-pika's channel(), confirm_delivery() of pika, or a callback" in text

        broker.allow("unroutable")
        with pika.BlockingConnection(PARAMETERS(broker.url)) as connection:
            channel = connection.channel()
            returned: list[object] = []
            channel.add_on_return_callback(lambda *parts: returned.append(parts))
            channel.basic_publish("amq.topic", "k", b"x", mandatory=True)
            connection.process_data_events(5)
            assert returned
            channel.confirm_delivery()
            with pytest.raises(UnroutableError):
                channel.basic_publish("amq.topic", "k", b"x", mandatory=True)

        async def publish() -> None:
            async with await aio_pika.connect(broker.url) as own:
                exchange = await (await own.channel(on_return_raises=True)).get_exchange("amq.topic")
                with pytest.raises(aio_pika.exceptions.DeliveryError):
                    await exchange.publish(aio_pika.Message(b"x"), "k", mandatory=True)

        asyncio.run(publish())


def test_a_message_that_a_restart_has_dropped_stays_with_the_mode_that_the_finding_names() -> None:
    for mode in (1, 2):
        with Broker() as broker:
            broker.declare_queue("orders")
            with pika.BlockingConnection(PARAMETERS(broker.url)) as connection:
                properties = pika.BasicProperties(delivery_mode=mode)
                connection.channel().basic_publish("", "orders", b"x", properties)
            broker.sync()
            broker.restart()
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                broker.check()
        assert ("publish it with delivery_mode=2" in "".join(str(it.message) for it in found)) == (mode == 1)


# A call on a running event loop, as the test wrote it.
BLOCKING = [
    "broker.wait_idle(2)",
    "broker.assert_ready('orders', timeout=1)",
    "broker.wait_for_consumer('orders')",
    "broker.clock.advance(1)",
    "consumer.next(timeout=5)",
    "worker.restart()",
]


@pytest.mark.parametrize("call", BLOCKING)
def test_what_an_error_says_to_await_on_an_event_loop_works(broker: Broker, call: str) -> None:
    broker.declare_queue("orders")
    broker.declare_queue("others")

    async def act() -> None:
        names = {"broker": broker, "consumer": broker.consume("others")}
        if "worker" in call:
            names["worker"] = broker.worker(["sleep", "60"], ready=lambda: True).start()
        if "for_consumer" in call:
            broker.consume("orders")
        with pytest.raises(BrokerError) as refused:
            eval(call, names)
        said = str(refused.value).rpartition("; use: await ")[2].partition("(")[0]
        if "orders" in call:
            broker.publish("", "orders", b"x")
        broker.publish("", "others", b"x")
        await eval(f"{said}{call[call.index('(') :]}", names)
        if "worker" in call:
            await names["worker"].aio.end()

    asyncio.run(act())


def test_a_move_that_overtakes_a_client_waits_or_not_as_the_warning_says(broker: Broker) -> None:
    broker.declare_queue("orders")
    connection = pika.BlockingConnection(PARAMETERS(broker.url))
    channel = connection.channel()
    channel.basic_consume("orders", lambda *_: None)

    def hold_one() -> None:
        broker.publish("", "orders", b"x")
        connection.process_data_events(5)

    hold_one()
    with pytest.warns(LeveretWarning, match="Pass settle= to wait longer, or settle=0 if clients hold messages on pur"):
        broker.clock.advance(1, settle=0.01)

    hold_one()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        broker.clock.advance(1, settle=0)
    connection.close()


def test_time_moves_on_to_its_end_with_the_keyword_that_the_error_names(broker: Broker) -> None:
    broker.declare_queue("orders")

    def expire(**keywords: int) -> None:
        for ms in ("1000", "2000", "3000", "4000"):
            broker.publish("", "orders", b"x", expiration=ms)
        with broker.clock.autojump(**keywords):
            broker.assert_empty("orders", timeout=30)

    with pytest.raises(EndlessTimeError, match=r"If you intend this, pass a higher limit="):
        expire(limit=2)
    broker.purge_queue("orders")

    expire(limit=20)


def test_a_flow_compares_the_properties_that_its_warning_names(broker: Broker) -> None:
    broker.declare_queue("orders")
    flows: list[list[Any]] = []
    for priority in (1, 2):
        broker.events.clear()
        broker.publish("", "orders", b"x", priority=priority)
        flows.append([broker.flow(), broker.flow(properties=["priority"])])

    with pytest.warns(LeveretWarning, match="pass properties=") as warned:
        assert flows[0][0] == flows[1][0]
    [given] = re.findall(r"pass (properties=.*)", str(warned[0].message))

    assert eval(f"broker.flow({given})") == flows[1][1]
    assert flows[0][1] != flows[1][1]


def test_a_client_of_an_inline_broker_waits_in_both_ways_that_the_error_names() -> None:
    with Broker(inline=True, checks="all=off") as broker:
        broker.declare_queue("orders")
        with amqp.Connection(f"127.0.0.1:{broker.port}", heartbeat=0) as connection:
            got: list[object] = []
            connection.channel().basic_consume("orders", callback=got.append, no_ack=True)
            with pytest.raises(BrokerError, match="publish first, or wait with a timeout"):
                connection.drain_events()

            broker.publish("", "orders", b"x")
            connection.drain_events()
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.01)
            assert len(got) == 1


def test_each_way_out_of_a_refused_call_of_the_test_works() -> None:
    with Broker() as broker:
        with pytest.raises(RefusedError) as refused:
            broker.declare_queue("orders", durable=False)
        notes = refused.value.__notes__
        ways = [way for note in notes for line in note.splitlines() for way in re.findall(r"Broker\(.*?\)", line)]
        assert "declare the queue with durable=True (or exclusive=True)" in "\n".join(notes)
        broker.declare_queue("orders", durable=True)
    assert ways
    for way in ways:
        with eval(way) as broker:
            broker.declare_queue("orders", durable=False)


def test_a_worker_that_ignores_sigterm_ends_in_both_ways_that_the_warning_names(broker: Broker) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, {}); print('up', flush=True); time.sleep(60)"

    def worker(handler: str) -> Any:
        program = [sys.executable, "-c", deaf.format(handler)]
        return broker.worker(program, ready="up").__enter__()

    with pytest.warns(LeveretWarning, match=r"let it end by SIGTERM, or call kill\(\) instead"):
        worker("signal.SIG_IGN").terminate(timeout=0.05)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker("signal.SIG_DFL").terminate(timeout=30)
        worker("signal.SIG_IGN").kill()


def test_a_worker_that_only_publishes_is_ready_by_what_the_error_names(broker: Broker) -> None:
    broker.declare_queue("orders")
    publish = (
        "import os, pika, time\n"
        "with pika.BlockingConnection(pika.URLParameters(os.environ['AMQP_URL'])) as connection:\n"
        "    connection.channel().basic_publish('', 'orders', b'x'); print('up', flush=True); time.sleep(60)"
    )
    with pytest.raises(WaitTimeoutError, match="ready= is for a worker that only publishes"):
        broker.worker([sys.executable, "-c", publish], timeout=0.1).__enter__()

    with broker.worker([sys.executable, "-c", publish], ready="up"):
        broker.assert_ready("orders", timeout=30)


@pytest.mark.parametrize("times", [None, 1])
def test_a_fault_that_came_too_rarely_is_as_often_as_the_finding_says(times: int | None) -> None:
    def lose_two(**keywords: Any) -> None:
        with Broker() as broker:
            broker.faults.delay("queue.declare", seconds=0.001, **keywords)
            with pika.BlockingConnection(PARAMETERS(broker.url)) as connection:
                declare(connection.channel())

    with pytest.raises(CheckFailedError, match="leave times= out, or lower it"):
        lose_two(times=2)

    lose_two(**({} if times is None else {"times": times}))


def test_asyncio_is_served_without_what_the_error_leaves_out() -> None:
    async def connect(broker: Broker) -> None:
        await (await aio_pika.connect(broker.url)).close()

    with (
        Broker(inline=True, checks="all=off") as broker,
        pytest.raises(BrokerError, match="for clients on asyncio, leave it out"),
    ):
        asyncio.run(connect(broker))
    with Broker(checks="all=off") as broker:
        asyncio.run(connect(broker))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process forks")
@pytest.mark.parametrize("way", ["connect to its URL", "start a broker here"])
def test_a_forked_process_works_in_both_ways_that_the_error_names(broker: Broker, way: str) -> None:
    url = broker.url

    def act() -> None:
        with pytest.raises(BrokerError, match="connect to its URL, or start a broker here"):
            broker.declare_queue("orders")
        if way == "connect to its URL":
            with pika.BlockingConnection(PARAMETERS(url)) as connection:
                declare(connection.channel())
        else:
            with Broker() as other:
                other.declare_queue("orders")

    child = multiprocessing.get_context("fork").Process(target=act)
    child.start()
    child.join(60)

    assert child.exitcode == 0


def test_an_assertion_on_a_long_test_counts_from_where_the_error_says(broker: Broker) -> None:
    broker.declare_queue("orders")
    recorder = broker._engine.recorder
    with broker._engine.lock:
        for number in range(recorder.size + 1):
            recorder.tap(("called", number, "test.py:1", "act"))

    with pytest.raises(EventsMissingError) as missing:
        broker.assert_published(routing_key="orders", times=1)
    assert "call broker.events.clear() before the part of the test that counts" in str(missing.value)
    broker.events.clear()
    broker.publish("", "orders", b"y")

    broker.assert_published(routing_key="orders", times=1)


def test_checks_of_a_long_test_are_whole_in_both_ways_that_they_name(broker: Broker) -> None:
    def after(act: Callable[[Broker], object], count: int) -> str:
        with Broker() as long:
            recorder = long._engine.recorder
            act(long)
            with long._engine.lock:
                for number in range(count):
                    recorder.tap(("test_start", number, "many"))
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                long.check()
        return "".join(str(it.message) for it in found)

    size = broker._engine.recorder.size
    assert "call broker.check() earlier, or broker.events.clear() at the beginning" in after(lambda _: None, size + 1)
    assert after(lambda long: long.check(), size - 10) == ""
    assert after(lambda long: long.events.clear(), size - 10) == ""
