"""The same help wherever a test runs: under pytest, in plain unittest, with two brokers, after a wait.

The names of the tests begin with the finding that they close.
"""

from __future__ import annotations

import asyncio
import io
import traceback
import unittest
from collections.abc import Callable

import pika
import pytest
import trio

from leveret import Broker, LeveretWarning, WaitTimeoutError

pytestmark = pytest.mark.filterwarnings(f"ignore::{LeveretWarning.__module__}.{LeveretWarning.__name__}")

HERE = __file__


@pytest.fixture
def shop() -> Broker:
    """A broker with a shop, whose queue `billing` gets what was paid."""
    with Broker() as broker:
        broker.declare_exchange("shop", "topic")
        broker.declare_queue("orders")
        broker.declare_queue("billing")
        broker.bind_queue("orders", "shop", "order.created")
        broker.bind_queue("billing", "shop", "order.*.paid")
        yield broker


def test_d10_a_wait_for_the_wrong_key_says_what_is_bound(shop: Broker) -> None:
    shop.publish("shop", "order.paid", json={"id": 7})

    with pytest.raises(AssertionError) as raised:
        shop.assert_delivered("billing", routing_key="order.paid", timeout=0.01)

    assert (
        "it was dropped, no route: 'order.paid' matches no binding of 'shop' ('order.*.paid' to 'billing', "
        "'order.created' to 'orders'; 'order.paid' does not match 'order.*.paid': one word is missing before 'paid')"
    ) in str(raised.value)


def test_d10_a_wait_for_a_message_that_never_came_says_what_is_bound(shop: Broker) -> None:
    with pytest.raises(
        AssertionError, match=r"No message was published; 'billing' is bound to 'shop' by 'order\.\*\.paid'"
    ):
        shop.assert_acked("billing", timeout=0.01)
    with (
        shop.consume("billing", tag="bills") as consumer,
        pytest.raises(
            WaitTimeoutError, match=r"bills on 'billing' got no message .*; 'billing' is bound to 'shop' by 'order"
        ),
    ):
        consumer.next(timeout=0.01)


def test_d10_a_wait_for_a_consumer_says_where_there_is_one(shop: Broker) -> None:
    shop.consume("billing")

    with pytest.raises(
        WaitTimeoutError, match=r"'orders' has no consumers after 0\.01 s; clients consume from 'billing'"
    ):
        shop.wait_for_consumer("orders", timeout=0.01)
    with pytest.raises(
        WaitTimeoutError, match=r"0\.01 s; queue 'order' was not declared; clients consume from 'billing'"
    ):
        shop.wait_for_consumer("order", timeout=0.01)


def test_d10_two_brokers_of_a_test_are_told_apart(shop: Broker) -> None:
    shop.publish("shop", "order.created", b"1")
    with Broker() as archive:
        archive.declare_exchange("shop", "topic")

        with pytest.raises(AssertionError) as raised:
            archive.assert_published("shop")

    text, (note,) = str(raised.value), raised.value.__notes__
    assert f"\nnearest, on the broker on port {shop.port}: #1 ('shop', 'order.created', '1')" in text
    assert f"and this assertion is about the broker on port {archive.port}\n" in text
    assert note.startswith(f"state of the broker on port {archive.port}, ")


def test_what_clients_have_just_sent_to_another_broker_is_told_too(shop: Broker) -> None:
    with Broker() as archive, pika.BlockingConnection(pika.URLParameters(shop.url)) as connection:
        archive.declare_exchange("shop", "topic")
        channel = connection.channel()
        for _ in range(10):
            # Large enough that the broker is still reading when the client goes on.
            channel.basic_publish("shop", "order.created", b"1" * 5_000_000)

            with pytest.raises(AssertionError, match=rf"nearest, on the broker on port {shop.port}: #"):
                archive.assert_published("shop")
            shop.events.clear()


def test_d10_a_name_that_only_the_other_broker_has_says_so(shop: Broker) -> None:
    with pytest.raises(LookupError) as raised, Broker() as archive:
        archive.assert_published("shop")

    assert str(raised.value).endswith(
        f"; the broker on port {shop.port} has it, and this is the broker on port {archive.port}"
    )


def test_d10_plain_unittest_shows_the_state_without_a_with_block() -> None:
    class Test(unittest.TestCase):
        def test_it(self) -> None:
            broker = self.enterContext(Broker())
            broker.declare_queue("orders")
            broker.publish("", "orders", b"1")
            broker.assert_acked("orders")

    printed = run_plainly(Test)

    assert "nearest: #1 ('', 'orders', '1') from the test at " in printed
    assert "\nstate of the broker on port " in printed
    assert "\nqueues: orders 1 ready, no consumers\n" in printed


def test_d15_the_commonest_mistakes_get_a_near_miss(shop: Broker) -> None:
    shop.declare_queue("dead")
    shop.publish("shop", "order.created", json={"id": 7, "total": 12, "lines": []})
    with shop.consume("orders", tag="worker") as consumer:
        consumer.next()
        consumer.nack()
        consumer.cancel()
        consumer.nack(consumer.messages[-1])

    with pytest.raises(AssertionError) as raised:
        shop.assert_dead_lettered("orders", to="dead", reason="rejected", json={"id": 7})

    title, nearest, differs, became = str(raised.value).splitlines()
    assert title.endswith("expected at least 1 dead-lettered, saw none that matches")
    assert nearest.startswith("nearest: #1 ('shop', 'order.created', ")
    assert differs == (
        "  differs: JSON also has 'total' and 'lines' (json_contains= ignores further keys); it was not dead-lettered"
    )
    assert became == "  it was nacked with requeue and is ready again in 'orders' after 2 delivery attempts"


# What a call of a test raises on purpose, of each kind that has frames of leveret beneath it.
FAILING: dict[str, Callable[[Broker], object]] = {
    "an assertion": lambda broker: broker.assert_published("shop"),
    "an assertion that waited": lambda broker: broker.assert_acked("orders", timeout=0.01),
    "assert_empty": lambda broker: broker.assert_empty("orders", timeout=0.01),
    "assert_refused": lambda broker: broker.assert_refused(404, timeout=0.01),
    "wait_for_consumer": lambda broker: broker.wait_for_consumer("orders", timeout=0.01),
    "next": lambda broker: broker.consume("billing").next(timeout=0.01),
    "a refusal, in a context manager of leveret": lambda broker: broker.publish("shopp", "order.created"),
    "a name that does not exist": lambda broker: broker.queue("order"),
    "a wrong argument": lambda broker: broker.assert_published(7),
}


@pytest.mark.parametrize("call", FAILING)
def test_d16_the_last_frame_is_the_tests(shop: Broker, call: str) -> None:
    shop.publish("", "orders", b"1")

    with pytest.raises(Exception) as raised:  # noqa: PT011
        FAILING[call](shop)

    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename == HERE


def test_d16_the_last_frame_of_a_wait_for_idle_clients_is_the_tests(shop: Broker) -> None:
    shop.publish("", "orders", b"1")

    with pika.BlockingConnection(pika.URLParameters(shop.url)) as connection:
        connection.channel().basic_get("orders")
        with pytest.raises(WaitTimeoutError) as raised:
            shop.wait_idle(timeout=0.01)

    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename == HERE


@pytest.mark.parametrize("run", [asyncio.run, trio.run], ids=["asyncio", "trio"])
def test_d16_the_last_frame_of_an_awaited_assertion_is_the_tests(shop: Broker, run: Callable[..., None]) -> None:
    async def test() -> None:
        await shop.aio.assert_acked("orders", timeout=0.01)

    with pytest.raises(AssertionError) as raised:
        run(test) if run is trio.run else run(test())

    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename == HERE


def test_d16_plain_unittest_ends_with_the_line_of_the_test() -> None:
    class Test(unittest.TestCase):
        def test_it(self) -> None:
            with Broker() as broker:
                broker.declare_queue("orders")
                broker.assert_acked("orders", timeout=0.01)

    lines = run_plainly(Test).splitlines()

    places = [line.strip() for line in lines if line.strip().startswith('File "')]
    assert [HERE in place for place in places] == [True]


def test_d16_an_error_inside_leveret_keeps_its_frames(shop: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.observe.assertions.evaluation.EventSearch", None)

    with pytest.raises(TypeError) as raised:
        shop.assert_published("shop")

    assert traceback.extract_tb(raised.value.__traceback__)[-1].filename.endswith("evaluation.py")


def test_d17_only_the_keys_that_matter_are_named(shop: Broker) -> None:
    shop.publish("shop", "order.created", json={"id": 7, "customer": {"name": "Ada", "vip": True}, "lines": [1, 2]})

    found = shop.assert_published("shop", json_contains={"id": 7, "customer": {"name": "Ada"}})

    assert found.json["lines"] == [1, 2]
    with pytest.raises(AssertionError, match=r"differs: JSON\['customer'\]\['vip'\] is True instead of False"):
        shop.assert_published("shop", json_contains={"customer": {"vip": False}})


def run_plainly(case: type[unittest.TestCase]) -> str:
    """Run the tests of a class as unittest does, and return what it prints."""
    printed = io.StringIO()
    unittest.TextTestRunner(printed).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    return printed.getvalue()
