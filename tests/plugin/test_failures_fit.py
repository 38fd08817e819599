"""Eighteen deliberate failures, as pytest prints them: each names its cause, and all of them fit a few screens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# What all failures print together, in bytes. Before reports were cut to what matters it was three times as much.
PRINTED_MAX = 16_700

SHOP = '''
import pika
import pytest
from client import connect

JSON = b'{"id": 7, "total": 12}'

@pytest.fixture
def shop(leveret):
    """A shop that declares its topology and publishes orders."""
    with connect(leveret.url, name="shop") as connection:
        channel = connection.channel()
        channel.exchange_declare("shop", "topic", durable=True)
        channel.exchange_declare("graves", "fanout", durable=True)
        for name in ("billing", "orders", "dead"):
            arguments = {"x-dead-letter-exchange": "graves"} if name == "orders" else {}
            channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind("billing", "shop", "order.*.paid")
        channel.queue_bind("orders", "shop", "order.created")
        channel.queue_bind("dead", "graves")
        yield channel

@pytest.fixture
def worker(leveret, shop):
    """A worker with a channel of its own."""
    with connect(leveret.url, name="worker") as connection:
        yield connection.channel()
'''

# What each test does, and the words that name the cause.
FAILURES: dict[str, tuple[str, list[str]]] = {
    "wrong_key": (
        """
        def test_wrong_key(leveret, shop):
            shop.basic_publish("shop", "order.paid", JSON)
            leveret.assert_delivered("billing", json_contains={"id": 7}, timeout=0.01)
        """,
        [
            "differs: it reached no queue instead of 'billing'",
            "it was dropped, no route: 'order.paid' matches no binding of 'shop' ('order.*.paid' to 'billing',",
        ],
    ),
    "missing_binding": (
        """
        def test_missing_binding(leveret, shop):
            shop.exchange_declare("audit", "topic", durable=True)
            shop.basic_publish("audit", "order.created", JSON)
            leveret.assert_delivered("orders")
        """,
        ["nearest: #1 ('audit', 'order.created',", "it was dropped, no route: 'audit' has no bindings"],
    ),
    "forgotten_ack": (
        """
        def test_forgotten_ack(leveret, shop, worker):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.sync()
            worker.basic_get("orders")
            leveret.assert_acked("orders", timeout=0.01)
        """,
        ["differs: it was not acked", "it is unacked in 'orders'", "held by a basic.get of worker"],
    ),
    "poison_loop": (
        """
        def test_poison_loop(leveret, shop, worker):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.sync()
            for _ in range(20):
                method, _, _ = worker.basic_get("orders")
                worker.basic_nack(method.delivery_tag)
            leveret.assert_dead_lettered("orders", to="dead")
        """,
        ["it was nacked with requeue and is ready again in 'orders' after 20 delivery attempts"],
    ),
    "expired_in_the_wrong_queue": (
        """
        def test_expired_in_the_wrong_queue(leveret, shop):
            shop.basic_publish("shop", "order.eu.paid", JSON, pika.BasicProperties(expiration="1000"))
            leveret.clock.advance(2)
            leveret.assert_dead_lettered("orders", reason="expired")
        """,
        [
            "differs: queue 'billing' instead of 'orders'; it was not dead-lettered",
            "it expired in 'billing' (the queue has no dead-letter exchange); 'orders' is bound to 'shop'",
        ],
    ),
    "one_key_more": (
        """
        def test_one_key_more(leveret, shop, worker):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.sync()
            method, _, _ = worker.basic_get("orders")
            worker.basic_nack(method.delivery_tag)
            leveret.assert_dead_lettered("orders", to="dead", reason="rejected", json={"id": 7})
        """,
        [
            "differs: JSON also has 'total' (json_contains= ignores further keys); it was not dead-lettered",
            "it was nacked with requeue and is ready again in 'orders'",
        ],
    ),
    "another_value": (
        """
        def test_another_value(leveret, shop):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.assert_published("shop", json_contains={"id": 8, "total": 12})
        """,
        ["nearest: #1 (", "differs: JSON['id'] is 7 instead of 8"],
    ),
    "another_header": (
        """
        def test_another_header(leveret, shop):
            shop.basic_publish("shop", "order.created", JSON, pika.BasicProperties(headers={"tenant": "eu"}))
            leveret.assert_published("shop", headers={"tenant": "us"})
        """,
        ["differs: header 'tenant' 'eu' instead of 'us'"],
    ),
    "another_queue": (
        """
        def test_another_queue(leveret, shop, worker):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.sync()
            worker.basic_get("orders", auto_ack=True)
            leveret.assert_delivered("billing")
        """,
        ["differs: queue 'orders' instead of 'billing'", "'billing' is bound to 'shop' by 'order.*.paid'"],
    ),
    "another_exchange": (
        """
        def test_another_exchange(leveret, shop):
            shop.basic_publish("", "orders", JSON)
            leveret.assert_published("shop", json_contains={"id": 7})
        """,
        ["differs: exchange '' instead of 'shop'"],
    ),
    "too_few": (
        """
        def test_too_few(leveret, shop):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.assert_published("shop", times=2)
        """,
        ["expected exactly 2 published, saw 1", "1. #1 ('shop', 'order.created',"],
    ),
    "not_expected": (
        """
        def test_not_expected(leveret, shop):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.assert_not_published("shop")
        """,
        ["expected none published, saw 1", "1. #1 ('shop', 'order.created',"],
    ),
    "no_consumer": (
        """
        def test_no_consumer(leveret, shop, worker):
            worker.basic_consume("billing", print)
            leveret.wait_for_consumer("orders", timeout=0.01)
        """,
        ["'orders' has no consumers after 0.01 s; clients consume from 'billing'"],
    ),
    "never_idle": (
        """
        def test_never_idle(leveret, shop, worker):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.sync()
            worker.basic_get("orders")
            leveret.wait_idle(timeout=0.01)
        """,
        ["not idle after 0.01 s: 1 unacked on orders held by a basic.get of worker for"],
    ),
    "left_over": (
        """
        def test_left_over(leveret, shop):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.assert_empty("orders")
        """,
        ["ready: #1 ('shop', 'order.created',", "the queue has no consumers"],
    ),
    "no_confirm": (
        """
        def test_no_confirm(leveret, shop):
            shop.basic_publish("shop", "order.created", JSON)
            leveret.assert_confirmed("shop")
        """,
        ["differs: it was not confirmed", "it was not confirmed: its channel is not in confirm mode"],
    ),
    "another_broker": (
        """
        def test_another_broker(leveret, shop, make_leveret):
            archive = make_leveret()
            archive.declare_exchange("shop", "topic")
            shop.basic_publish("shop", "order.created", JSON)
            archive.assert_published("shop")
        """,
        ["nearest, on the broker on port", "and this assertion is about the broker on port"],
    ),
    "refused": (
        """
        def test_refused(leveret, shop):
            leveret.declare_queue("orders", durable=False)
        """,
        ["RefusedError: PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'orders'"],
    ),
}


@pytest.fixture
def printed(run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch) -> str:
    """What pytest prints about the failures in a terminal. In CI, its summary repeats whole messages."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    tests = [source for source, _ in FAILURES.values()]
    result = run("\n".join([SHOP, *map(dedent, tests)]), "--tb=short")
    result.assert_outcomes(failed=len(FAILURES))
    return str(result.stdout)


def dedent(source: str) -> str:
    return "\n".join(line.removeprefix("        ") for line in source.splitlines())


def test_fit(printed: str) -> None:
    """Each names its cause. pytester names the file after this test, so its name is short."""
    assert len(FAILURES) == 18
    sections = dict(zip(FAILURES, sections_of(printed), strict=True))
    missing = [
        (name, cause) for name, (_, causes) in FAILURES.items() for cause in causes if cause not in sections[name]
    ]

    assert missing == []
    assert len(printed.encode()) <= PRINTED_MAX


def sections_of(printed: str) -> list[str]:
    """Return what is printed about each test, without the summary."""
    failures = printed.partition("= FAILURES =")[2].partition("= short test summary info =")[0]
    titles = [f"_ test_{name} _" for name in FAILURES]
    starts = [failures.index(title) for title in titles]
    return [failures[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
