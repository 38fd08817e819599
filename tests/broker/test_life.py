"""Starting, stopping and resetting a broker, what it leaves behind, and how it answers mistakes."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import re
import socket
import subprocess
import sys
import threading
import weakref

import pika
import pytest

import leveret
from leveret import Broker, BrokerError
from leveret.observe.views.message_view import MessageView


def test_a_broker_runs_inside_its_with_block() -> None:
    with Broker() as broker:
        address = (broker.host, broker.port)
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_broker_runs_inside_its_async_with_block() -> None:
    async def use() -> None:
        async with Broker() as broker:
            broker.publish("amq.topic", "a.b", b"x")
            broker.assert_published("amq.topic", routing_key="a.*")

    asyncio.run(use())


def test_a_stopped_broker_still_shows_its_state() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"x")

    assert len(broker.queue("orders").ready) == 1
    broker.assert_published("", routing_key="orders")


def test_a_broker_can_be_set_up_before_it_starts() -> None:
    broker = Broker()
    broker.declare_queue("orders")

    with broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        assert connection.channel().queue_declare("orders", passive=True).method.queue == "orders"


@pytest.mark.parametrize("version", ["4.3", "4.0", "3.13"])
def test_a_broker_has_the_version_it_behaves_as(version: str) -> None:
    assert Broker(rabbitmq=version).rabbitmq == version


def test_a_broker_that_was_not_started_has_no_port() -> None:
    with pytest.raises(BrokerError, match="was not started"):
        _ = Broker().url


def test_starting_twice_is_an_error_and_stopping_twice_is_not() -> None:
    broker = Broker().start()
    with pytest.raises(BrokerError, match="is already running on port"):
        broker.start()
    broker.stop()
    broker.stop()


def test_a_broker_may_be_stopped_by_two_threads_at_once() -> None:
    for _ in range(50):
        broker = Broker().start()
        threads = [threading.Thread(target=broker.stop) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert not any(thread.is_alive() for thread in threads)


def test_an_assertion_waits_no_longer_once_its_broker_stops() -> None:
    # The broker stops while the assertion waits for its next turn, or looks at the last one.
    for _ in range(30):
        broker = Broker().start()
        begun = threading.Event()
        waiting = threading.Thread(target=_wait_in_vain, args=(broker, begun), daemon=True)
        waiting.start()
        assert begun.wait(10)
        broker.stop()
        waiting.join(60)

        assert not waiting.is_alive()


def _wait_in_vain(broker: Broker, begun: threading.Event) -> None:
    begun.set()
    with pytest.raises(AssertionError):
        broker.assert_published("amq.topic", timeout=600)


def test_a_stopped_broker_can_start_again() -> None:
    broker = Broker()
    broker.start().stop()

    with broker:
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_a_stopping_broker_closes_its_connections(read_close) -> None:
    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        broker.stop()

        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
            read_close(connection)


def test_a_broker_listens_on_the_given_host_and_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with Broker(port=port) as broker:
        assert broker.port == port
        with pytest.raises(OSError, match="in use"):
            Broker(port=port).start()


def test_a_broker_listens_on_ipv6() -> None:
    try:
        broker = Broker(host="::1").start()
    except OSError:
        pytest.skip("no IPv6 here")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        assert connection.is_open
    assert "@[::1]:" in broker.url
    broker.stop()


def test_urls_name_user_and_virtual_host() -> None:
    with Broker(users={"shop": "a/b"}) as broker:
        broker.admin.add_vhost("/stage")
        broker.admin.set_permissions("shop", "/stage")

        url = broker.url_for("/stage", "shop")

        assert url == f"amqp://shop:a%2Fb@127.0.0.1:{broker.port}/%2Fstage"
        pika.BlockingConnection(pika.URLParameters(url)).close()
        pika.BlockingConnection(pika.URLParameters(broker.url_for(user="shop"))).close()


def test_an_unknown_version_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"2\.8.*expected one of 4\.3"):
        Broker(rabbitmq="2.8")


def test_resetting_forgets_everything_and_keeps_the_port(broker: Broker) -> None:
    port = broker.port
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    broker.declare_queue("orders")
    broker.clock.hold()

    broker.reset()

    assert broker.queues == []
    assert broker.connections == []
    assert len(broker.events) == 0
    assert not broker.clock.is_held
    assert broker.port == port
    with pytest.raises(pika.exceptions.AMQPError):
        connection.channel()
    pika.BlockingConnection(pika.URLParameters(broker.url)).close()
    assert broker.events.query("conn_open")[0].conn == 1


def test_restarting_keeps_what_is_durable_and_closes_connections(broker: Broker, read_close) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    broker.declare_queue("orders")
    broker.publish("", "orders", b"kept", delivery_mode=2)
    broker.publish("", "orders", b"lost")

    broker.restart()

    assert [message.body for message in broker.queue("orders").ready] == [b"kept"]
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
        read_close(connection)
    pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_an_error_inside_leveret_reaches_the_test() -> None:
    broker = Broker().start()
    broker._engine.node.timers.add(0, lambda: 1 // 0)
    broker.sync()

    with pytest.raises(ZeroDivisionError):
        broker.__exit__(None, None, None)


def test_a_broker_without_references_stops_by_itself() -> None:
    broker = Broker().start()
    address = (broker.host, broker.port)
    del broker
    gc.collect()

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_process_ends_though_its_broker_was_never_stopped() -> None:
    code = "from leveret import Broker; broker = Broker().start(); print('good')"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)

    assert (done.stdout, done.stderr, done.returncode) == ("good\n", "", 0)


def test_nothing_is_left_of_a_thousand_brokers() -> None:
    engines = []
    for number in range(1000):
        with Broker() as broker:
            broker.declare_queue("orders")
            if number % 50 == 0:
                pika.BlockingConnection(pika.URLParameters(broker.url)).close()
            engines.append(weakref.ref(broker._engine))
    del broker
    gc.collect()

    assert sum(engine() is not None for engine in engines) == 0


def test_two_brokers_share_nothing() -> None:
    with Broker() as first, Broker() as second:
        first.declare_queue("orders")

        assert second.queues == []


def test_the_package_imports_nothing_heavy() -> None:
    code = """
import sys
import leveret
light = sorted({"asyncio", "ssl", "logging", "json", "socket", "threading"} & set(sys.modules))
from leveret import Broker
with Broker() as broker:
    broker.declare_queue("orders")
    broker.publish("", "orders", b"x")
    broker.wait_idle()
    assert len(broker.queue("orders").ready) == 1
print(light, sorted({"asyncio", "ssl", "logging"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=30, env=_path())

    assert done.stdout == "[] []\n", done.stderr


def _path() -> dict[str, str]:
    import leveret

    return {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(leveret.__file__))}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_an_error_about_its_parents_broker(broker: Broker, channel) -> None:
    answer, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            broker.declare_queue("orders")
        except BrokerError as error:
            os.write(write_end, str(error).encode())
        broker.stop()
        os._exit(0)
    os.close(write_end)
    with os.fdopen(answer) as said:
        assert f"belongs to process {os.getpid()}" in said.read()
    os.waitpid(child, 0)

    assert channel.queue_declare("orders", durable=True).method.queue == "orders"
    assert broker.queue("orders").name == "orders"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_have_a_broker_of_its_own(broker: Broker) -> None:
    child = os.fork()
    if child == 0:
        with Broker() as own:
            pika.BlockingConnection(pika.URLParameters(own.url)).close()
            pika.BlockingConnection(pika.URLParameters(broker.url)).close()
        os._exit(7)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def _published(broker: Broker) -> MessageView:
    broker.publish("amq.direct", "key", b"x")
    return broker.assert_published("amq.direct")


@pytest.mark.parametrize(
    ("mistake", "error", "text"),
    [
        (
            lambda broker: broker.asert_published,
            AttributeError,
            "'asert_published'; did you mean 'assert_published'",
        ),
        (
            lambda broker: broker.faults.reset_peers,
            AttributeError,
            "broker.faults has no attribute 'reset",
        ),
        (lambda broker: broker.faults.reset_peers, AttributeError, "did you mean 'reset_peer'"),
        (
            lambda broker: broker.clock.ring,
            AttributeError,
            "has no attribute 'ring'; it has advance, autojump, hold, is_held,",
        ),
        (lambda broker: broker.admin.list_queues(), AttributeError, "'list_queues'; the queues are broker.queues"),
        (lambda broker: broker.declare_queue("q").colour, AttributeError, "a QueueView has no attribute"),
        (lambda broker: broker.declare_queue("q").colour, AttributeError, "durable, exclusive, name, "),
        (lambda broker: broker.declare_queue("q").bindngs, AttributeError, "did you mean 'bindings'"),
        (
            lambda broker: _published(broker).payload,
            AttributeError,
            "a MessageView has no attribute 'payload'",
        ),
        (lambda broker: broker.events.query(que="q"), TypeError, "unknown field 'que'; did you mean 'queue'"),
        (
            lambda broker: broker.explore(print),
            AttributeError,
            "write `from leveret import explore`, and call",
        ),
        (
            lambda broker: broker.assert_refused("404"),
            TypeError,
            "assert_refused(): code must be a whole number, not '404'",
        ),
        (
            lambda broker: broker.assert_acked("q", timout=1),
            TypeError,
            "timout",
        ),
        (
            lambda broker: broker.assert_dead_lettered("q", to=["a"]),
            TypeError,
            "assert_dead_lettered(): to must be text, not ['a']",
        ),
        (
            lambda broker: broker.clock.advance("10"),
            TypeError,
            "advance(): seconds must be a number of seconds, not '10'",
        ),
        (lambda broker: broker.clock.advance(minuts=3), TypeError, "no keyword 'minuts'; did you mean 'minutes'?"),
        (lambda broker: broker.wait_idle("5"), TypeError, "wait_idle(): timeout must be a number of seconds, not '5'"),
        (lambda broker: broker.wait_idle(-1), ValueError, "wait_idle(): timeout must be 0 or more seconds, not -1"),
        (
            lambda broker: broker.assert_acked("q", times="1"),
            TypeError,
            "assert_acked(): times must be a whole number, not '1'",
        ),
        (lambda broker: broker.assert_acked("q", within=1), TypeError, "no keyword 'within'; did you mean 'timeout'?"),
        (
            lambda broker: broker.assert_published("q", routingkey="a"),
            TypeError,
            "assert_published() has no keyword 'routingkey'; did you mean 'routing_key'?",
        ),
        (
            lambda broker: broker.allow("unroutable", on="a"),
            TypeError,
            "allow() has no keyword 'on'; it takes check, queue, exchange, routing_key, client, vhost",
        ),
        (
            lambda broker: broker.faults.drop(to="a"),
            TypeError,
            "drop() has no keyword 'to'; it takes on, ",
        ),
        (
            lambda broker: broker.assert_published("q", reason="rejected"),
            TypeError,
            "assert_published() has no keyword 'reason'; assert_requeued, assert_dead_lettered, assert_dropped take it",
        ),
        (
            lambda broker: broker.declare_queue("q", colour=5),
            TypeError,
            "declare_queue() has no keyword 'colour'; it takes name, durable,",
        ),
        (
            lambda broker: broker.admin.set_permissions("guest", writ="x"),
            TypeError,
            "set_permissions() has no keyword 'writ'; did you mean 'write'?",
        ),
        (
            lambda broker: broker.admin.set_permissions("guest", write=None),
            TypeError,
            "set_permissions(): write must be text, not None",
        ),
        (lambda broker: broker.faults.withhold_confirms(on="x"), TypeError, "takes no on=: it always acts on basic"),
        (lambda broker: broker.wait_for("acked", "q"), AttributeError, 'assert_acked("orders", timeout=5)'),
        (lambda broker: Broker(checks="eror"), ValueError, "unknown level of a check 'eror'; did you mean 'error'?"),
        (
            lambda broker: broker.qeue("orders"),
            AttributeError,
            "a Broker has no attribute 'qeue'; did you mean 'queue'",
        ),
        (
            lambda broker: broker.aio.wait_idel,
            AttributeError,
            "'wait_idel'; did you mean 'wait_idle'",
        ),
        (lambda broker: leveret.Brokre, AttributeError, "no attribute 'Brokre'; did you mean 'Broker'"),
        (
            lambda broker: leveret.asert_acked,
            AttributeError,
            "'assert_acked' belongs to a broker, which a test",
        ),
        (lambda broker: Broker(rabbitmqq="4.3"), TypeError, "no keyword 'rabbitmqq'; did you mean 'rabbitmq'?"),
        (
            lambda broker: Broker(versoin="4.3"),
            TypeError,
            "no keyword 'versoin'; it takes rabbitmq, host, port, permit,",
        ),
        (
            lambda broker: Broker(port=99999),
            ValueError,
            "port=99999 is not a port; expected a number from 0 (a free one) to 65535",
        ),
        (lambda broker: Broker(tls_port="x"), ValueError, "tls_port='x' is not a port"),
        (lambda broker: Broker(seed="x"), ValueError, "seed='x' is not a whole number"),
        (
            lambda broker: Broker(users=["bob"]),
            ValueError,
            "users=['bob'] must be a mapping of name to password",
        ),
        (lambda broker: Broker(rabbitmq=4.0), ValueError, "rabbitmq=4.0 is a number; write the version as a string"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_closest_one(broker: Broker, mistake, error, text) -> None:
    with pytest.raises(error, match=re.escape(text)):
        mistake(broker)


def test_a_port_in_use_is_named(broker: Broker) -> None:
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {broker.port}: ") as failure:
        Broker(port=broker.port).start()

    assert failure.value.errno == errno.EADDRINUSE


def test_an_awaitable_that_was_not_awaited_is_named_after_its_method(broker: Broker) -> None:
    twins = [broker.aio.wait_idle(), broker.aio.assert_acked("orders"), broker.aio.clock.advance(30)]

    names = [twin.__qualname__ for twin in twins]
    for twin in twins:
        twin.close()

    assert names == ["broker.aio.wait_idle", "broker.aio.assert_acked", "broker.aio.clock.advance"]


def fail_in_a_block(act) -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        act(broker)


def test_an_error_inside_the_block_of_a_broker_shows_its_state() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        fail_in_a_block(lambda broker: 1 / 0)

    (note,) = raised.value.__notes__
    assert note.startswith("state of the broker on port ")
    assert "queues: empty: orders" in note


def test_an_error_shows_the_state_of_each_broker_once() -> None:
    with pytest.raises(AssertionError) as raised, Broker() as outer:
        fail_in_a_block(lambda broker: broker.assert_acked("orders", timeout=0.01))

    inner, other = raised.value.__notes__
    assert "queues: empty: orders" in inner
    assert other.startswith(f"state of the broker on port {outer.port}, ")


def test_a_report_on_a_broker_with_another_seed_names_it() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Broker(seed=7, rabbitmq="4.0"):
        raise ZeroDivisionError

    (note,) = raised.value.__notes__
    assert note.partition("\n")[0].endswith(", RabbitMQ 4.0, seed 7")
