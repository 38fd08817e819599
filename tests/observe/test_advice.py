"""The report of an error that a client got: who, what, where, and the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import pika
import pytest

from leveret import Broker
from leveret.engine.harness import Harness

Refused = (pika.exceptions.AMQPError, ConnectionError)


def report_after(broker: Broker, *, user: str = "guest:guest", vhost: str = "", use: Callable | None = None) -> str:
    """Return the report once a client was refused."""

    def act() -> None:
        url = f"amqp://{user}@127.0.0.1:{broker.port}/{vhost}"
        channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
        if use is not None:
            use(channel)

    with pytest.raises(Refused):
        act()
    return broker._engine.report()


@pytest.fixture
def broker():
    with Broker(users={"shop": "secret"}, checks="all=off") as broker:
        yield broker


def test_a_login_of_an_unknown_user_names_the_user_and_where_to_add_it(broker: Broker) -> None:
    report = report_after(broker, user="app:app")

    assert "got 403 ACCESS_REFUSED - Login was refused" in report
    assert "  because user 'app' is unknown\n    during the call at " in report
    assert "To add user 'app': Broker(users={'app': password}), or broker.admin.add_user('app', password); " in report


def test_a_login_with_a_wrong_password_names_the_url_with_the_right_one(broker: Broker) -> None:
    report = report_after(broker, user="shop:wrong")

    assert "because user 'shop' has another password" in report
    assert "The URL with the password of user 'shop': broker.url_for(user='shop')" in report
    assert "secret" not in report


def test_a_missing_virtual_host_names_the_commands_that_add_it(broker: Broker) -> None:
    report = report_after(broker, user="shop:secret", vhost="stage")

    assert "NOT_ALLOWED - vhost stage not found\n    because user 'shop' asked for it" in report
    assert "broker.admin.add_vhost('stage'); broker.admin.set_permissions('shop', 'stage')" in report


def test_a_virtual_host_without_permission_names_the_command_that_gives_it(broker: Broker) -> None:
    broker.admin.add_vhost("stage")

    report = report_after(broker, vhost="stage")

    assert "To let user 'guest' in: broker.admin.set_permissions('guest', 'stage')" in report


def test_a_missing_right_names_the_command_that_gives_it(broker: Broker) -> None:
    broker.admin.set_permissions("shop", configure="^$")

    report = report_after(broker, user="shop:secret", use=lambda channel: channel.queue_declare("a.b", durable=True))

    assert "To give user 'shop' every right: broker.admin.set_permissions('shop', '/'); it replaces all three" in report


def test_a_denied_transient_queue_is_named_with_its_flags(broker: Broker) -> None:
    report = report_after(broker, use=lambda channel: channel.queue_declare("orders"))

    assert "because queue 'orders' in vhost '/' has durable=False and exclusive=False" in report
    assert "declare the queue with durable=True (or exclusive=True); or" in report


@pytest.mark.parametrize("wrap", ["wait_for", "gather", "task", "timeout"])
def test_a_refused_call_is_located_where_the_test_waits_for_it(broker: Broker, wrap: str) -> None:
    async def declare() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            arguments = {"x-max-length": "many"}
            call = channel.declare_queue("orders", durable=True, arguments=arguments)
            if wrap == "wait_for":
                await asyncio.wait_for(call, 5)  # waits here: wait_for
            elif wrap == "gather":
                await asyncio.gather(call)  # waits here: gather
            elif wrap == "task":
                await asyncio.create_task(call)  # waits here: task
            else:
                async with asyncio.timeout(5):
                    await call  # waits here: timeout

    with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed):
        asyncio.run(declare())

    with open(__file__) as file:
        line = next(number for number, text in enumerate(file, start=1) if text.endswith(f"# waits here: {wrap}\n"))
    (refused,) = broker.events.query("refused")
    assert f"test_advice.py:{line} in declare" in str(refused.caller)


def test_a_queue_that_is_declared_in_two_ways_says_what_to_do(broker: Broker) -> None:
    broker.declare_queue("orders")

    report = report_after(
        broker, use=lambda channel: channel.queue_declare("orders", durable=True, arguments={"x-message-ttl": 1})
    )

    assert "got 406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'orders'" in report
    assert "Queue 'orders' exists, declared in another way by the test at " in report
    assert "test_advice.py" in report.partition("by the test at ")[2].partition(". Declare it alike everywhere, ")[0]


def test_a_queue_that_is_declared_too_late_says_so(broker: Broker) -> None:
    report_after(broker, use=lambda channel: channel.queue_declare("orders", passive=True))
    broker.declare_queue("orders")

    report = broker._engine.report()

    assert "Queue 'orders' did not exist then: the test at " in report
    assert "declared it later, or it was deleted" in report
    assert "did you mean" not in report


def test_a_broker_without_clients_asks_for_its_url(broker: Broker) -> None:
    broker.declare_queue("orders")
    hint = "no client has connected: give your application the url of this broker, or name the variable"
    assert f"set-up: 1 queue\n{hint}" in broker._engine.report()

    with pika.BlockingConnection(pika.URLParameters(broker.url)):
        pass

    assert hint not in broker._engine.report()


def test_a_broker_at_a_variable_asks_whether_the_application_reads_it(broker: Broker) -> None:
    Harness(broker).name_variables(["AMQP_URL"])
    hint = "no client has connected: leveret_url_env sets AMQP_URL to this broker's url; does your application read it?"
    assert hint in broker._engine.report()


def test_a_client_that_was_refused_had_the_url(broker: Broker) -> None:
    assert "no client has connected" not in report_after(broker, vhost="stage")


def test_a_broker_that_records_nothing_cannot_know_of_clients() -> None:
    with Broker(record="off") as broker:
        assert "no client has connected" not in broker._engine.report()
