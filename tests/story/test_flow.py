"""`broker.flow()`: what has flowed in a test, as lines that are the same in each run, and others after a change."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pika
import pytest

from leveret import Broker, BrokerError, LeveretWarning, NotDeclaredError
from leveret.story.flow import Flow

FLOW = """
    shop -> shop 'order.created' -> audit: ready, billing: acked by billing (2 times)
    shop -> shop 'order.paid' -> audit: ready, shipping: acked by shipping
    billing -> mails: acked by mailer
    billing -> mails: rejected by mailer -> retry: expired after 30 s -> mails: acked by mailer
    shipping -> mails: acked by mailer
"""


@dataclass(frozen=True)
class Shop:
    """A few services and what they share. Each field may be changed by who works on them."""

    keys: tuple[str, ...] = ("order.created", "order.created", "order.paid")
    exchange: str = "shop"
    bindings: tuple[tuple[str, str], ...] = (("billing", "order.created"), ("shipping", "order.paid"), ("audit", "#"))
    names: dict[str, str] = field(
        default_factory=lambda: {name: name for name in ("shop", "billing", "shipping", "mailer")}
    )
    mails: dict[str, int] = field(default_factory=lambda: {"billing": 1, "shipping": 1})
    mail_queue: str = "mails"
    rejects: int = 1
    acks: bool = True
    auto_ack: bool = False
    requeues: bool = False
    retry_ms: int = 30_000
    retry_to: str = "mails"
    # How long, in seconds, the services get for their work.
    patience: float = 30
    body: dict[str, object] = field(default_factory=lambda: {"id": 7, "total": "9.90"})

    def run(self, broker: Broker, dice: random.Random) -> None:
        broker.declare_exchange("shop", "topic")
        broker.declare_exchange("other", "topic")
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"}
        broker.declare_queue("mails", arguments=dead)
        back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.retry_to}
        broker.declare_queue("retry", arguments={"x-message-ttl": self.retry_ms, **back})
        for name in ("billing", "shipping", "audit", "letters"):
            broker.declare_queue(name)
        for queue, key in self.bindings:
            broker.bind_queue(queue, "shop", key)
        broker.clock.hold()
        tries = [0]
        with (
            self.served(broker, "billing", self.mail, dice),
            self.served(broker, "shipping", self.mail, dice),
            self.served(broker, "mails", lambda *delivery: self.send(tries, *delivery), dice, "mailer"),
        ):
            with connected(broker, self.names["shop"]) as connection:
                for key in self.keys:
                    connection.channel().basic_publish(self.exchange, key, json.dumps(self.body).encode())
            broker.wait_idle(timeout=self.patience)
            broker.clock.advance(60)
            broker.wait_idle(timeout=self.patience)

    def mail(self, channel, method, properties, body) -> None:
        for _ in range(self.mails[method.consumer_tag]):
            properties = pika.BasicProperties(app_id=method.consumer_tag)
            channel.basic_publish("", self.mail_queue, uuid.uuid4().hex, properties)
        if self.acks and not self.auto_ack:
            channel.basic_ack(method.delivery_tag)

    def send(self, tries, channel, method, properties, body) -> None:
        """Reject the first mails of billing, never one of shipping: which of the two is first, no run decides."""
        tries[0] += properties.app_id == "billing"
        if self.auto_ack:
            return
        if properties.app_id == "billing" and tries[0] <= self.rejects:
            channel.basic_reject(method.delivery_tag, requeue=self.requeues)
        else:
            channel.basic_ack(method.delivery_tag)

    @contextmanager
    def served(
        self, broker: Broker, queue: str, handle: Callable[..., None], dice: random.Random, name: str | None = None
    ) -> Iterator[None]:
        """Run a service on a thread, as fast as the dice say."""
        stopping, pause = threading.Event(), dice.random() / 500

        def work() -> None:
            with connected(broker, self.names[name or queue]) as connection:
                channel = connection.channel()
                channel.basic_consume(queue, handle, auto_ack=self.auto_ack, consumer_tag=queue)
                while not stopping.is_set():
                    connection.process_data_events(pause)

        thread = threading.Thread(target=work)
        thread.start()
        broker.wait_for_consumer(queue, timeout=30)
        try:
            yield
        finally:
            stopping.set()
            thread.join()


@contextmanager
def connected(broker: Broker, name: str) -> Iterator[pika.BlockingConnection]:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def flow_of(shop: Shop, seed: int = 0, **options: object) -> str:
    with Broker(checks="off") as broker:
        shop.run(broker, random.Random(seed))
        return broker.flow(**options)


def test_a_flow_says_who_sent_what_where_and_what_became_of_it() -> None:
    assert flow_of(Shop()) == FLOW


@pytest.mark.parametrize("seed", range(6))
def test_a_flow_is_the_same_however_fast_its_services_are(seed: int) -> None:
    assert flow_of(Shop(), seed) == FLOW


OTHERS = {"shop": "shop", "billing": "billing", "shipping": "shipping", "mailer": "mailer"}
CHANGES = {
    "a key is renamed": {"keys": ("order.created", "order.created", "order.payed")},
    "a key is gone": {"keys": ("order.created", "order.paid")},
    "one publish more": {"keys": ("order.created", "order.created", "order.paid", "order.paid")},
    "another order": {"keys": ("order.paid", "order.created", "order.created")},
    "another exchange": {"exchange": "other"},
    "no such queue": {"mail_queue": "mials"},
    "another queue": {"mail_queue": "letters"},
    "a binding is gone": {"bindings": (("billing", "order.created"), ("audit", "#"))},
    "a binding is new": {"bindings": (*Shop().bindings, ("letters", "order.paid"))},
    "a binding is wider": {"bindings": (("billing", "order.*"), ("shipping", "order.paid"), ("audit", "#"))},
    "a binding is narrower": {
        "bindings": (("billing", "order.created"), ("shipping", "order.paid"), ("audit", "order.paid"))
    },
    "no audit": {"bindings": (("billing", "order.created"), ("shipping", "order.paid"))},
    "a client has another name": {"names": {**OTHERS, "mailer": "mail service"}},
    "a publisher has another name": {"names": {**OTHERS, "shop": "store"}},
    "a mail twice": {"mails": {"billing": 1, "shipping": 2}},
    "no mail": {"mails": {"billing": 1, "shipping": 0}},
    "mails of bills twice": {"mails": {"billing": 2, "shipping": 1}},
    "nothing is rejected": {"rejects": 0},
    "two are rejected": {"rejects": 2},
    "all are rejected": {"rejects": 3},
    "acks are forgotten": {"acks": False, "patience": 2},
    "acks are automatic": {"auto_ack": True, "rejects": 0},
    "what is rejected is requeued": {"requeues": True},
    "the retry is shorter": {"retry_ms": 20_000},
    "the retry is slower than the test": {"retry_ms": 90_000},
    "the retry is quicker by a factor of thirty": {"retry_ms": 1_000},
    "the retry leads elsewhere": {"retry_to": "letters"},
    "the retry leads nowhere": {"retry_to": "nowhere"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_services_changes_the_flow(change: str) -> None:
    changed = replace(Shop(), **CHANGES[change])
    with Broker(checks="off") as broker:
        try:
            changed.run(broker, random.Random(1))
        except TimeoutError:
            assert change == "acks are forgotten"
        assert broker.flow() != FLOW


@pytest.mark.parametrize(
    "body", [{"id": 7, "total": 9.9}, {"id": 7}, {"id": 7, "total": None}, {"id": 8, "total": "9.90"}]
)
def test_a_change_of_a_field_changes_a_flow_with_bodies(body: dict[str, object]) -> None:
    fields = ("id", "total")

    assert flow_of(replace(Shop(), body=body), bodies=fields) != flow_of(Shop(), bodies=fields)


def test_bodies_are_whole_or_their_fields_and_generated_values_are_masked() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", json={"id": str(uuid.uuid4()), "total": "9.90"})

        assert broker.flow(bodies=["total"]) == """the test -> orders: ready {"total": "9.90"}"""
        assert "9.90" in broker.flow(bodies=True)
        assert "*" in broker.flow(bodies=True)
        assert broker.flow() == "the test -> orders: ready"


def test_a_text_is_one_field_of_a_body() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", json={"id": 7, "i": 1, "d": 2})

        assert broker.flow(bodies="id") == broker.flow(bodies=["id"])
        assert broker.flow(bodies="id") == """the test -> orders: ready {"id": 7}"""


def test_a_field_that_a_body_lacks_is_left_out() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", json={"id": 7, "total": None})

        assert broker.flow(bodies=["total", "coupon"]) == """the test -> orders: ready {"total": null}"""
        assert broker.flow(bodies=["coupon"]) == "the test -> orders: ready"


@pytest.mark.parametrize(
    "instant",
    [
        "2026-11-23T19:24:13.250001+00:00",
        "2026-11-23T19:24:13+0100",
        "2026-11-23T19:24:13Z",
        "2026-11-23T19:24",
        "2026-11-23 19:24:13.250001",
    ],
)
def test_an_instant_in_a_body_is_masked(instant: str) -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", json={"created_at": instant, "due": "2026-12-01"})

        assert broker.flow(bodies=True) == """the test -> orders: ready {"created_at": "*", "due": "2026-12-01"}"""


@pytest.mark.parametrize("is_paid_first", [True, False])
def test_what_a_consumer_sends_of_its_own_accord_may_come_before_or_after_what_it_sends_for_a_message(
    is_paid_first: bool,
) -> None:
    with Broker(checks="off") as broker, connected(broker, "shop") as connection:
        channel = connection.channel()
        channel.queue_declare("payments", durable=True)
        paid: list[bytes] = []

        def on_payment(channel, method, properties, body) -> None:
            send("order.paid")
            channel.basic_ack(method.delivery_tag)
            paid.append(body)

        def send(key: str) -> None:
            channel.basic_publish("amq.topic", key, b"")

        channel.basic_consume("payments", on_payment)
        send("order.created")
        if not is_paid_first:
            send("order.shipped")
        connection.process_data_events(0)
        broker.publish("", "payments", b"7")
        while not paid:
            connection.process_data_events(0.01)
        if is_paid_first:
            send("order.shipped")
        connection.process_data_events(0)

        assert (
            broker.flow()
            == """
            the test -> payments: acked by shop
            shop -> amq.topic 'order.created' -> no queue
            shop -> amq.topic 'order.paid' -> no queue
            shop -> amq.topic 'order.shipped' -> no queue
        """
        )


def test_what_two_publishers_send_comes_in_the_order_of_each() -> None:
    with Broker(checks="off") as broker, connected(broker, "web") as web, connected(broker, "app") as app:
        for connection, key in ((web, "2"), (app, "b"), (web, "1"), (app, "a")):
            connection.channel().basic_publish("amq.topic", key, b"")
            connection.process_data_events(0)

        assert [line.split()[3] for line in broker.flow().splitlines()] == ["'b'", "'a'", "'2'", "'1'"]


def test_a_flow_leaves_its_comparison_to_a_snapshot() -> None:
    class Snapshot:
        def __eq__(self, other: object) -> bool:
            self.text = str(other)
            return True

        __hash__ = None

    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"7")
        snapshot = Snapshot()

        assert broker.flow() == snapshot
        assert snapshot.text == "the test -> orders: ready"
        assert broker.flow() != "the test -> orders: acked"
        assert broker.flow() != 7


@pytest.mark.parametrize(
    ("body", "properties"),
    [
        (b"[[7], {}, null]", {"headers": {"task": "mails.send", "id": "1"}, "content_type": "application/json"}),
        (b'{"actor_name": "mails.send"}', {}),
        (b"7", {"type": "mails.send"}),
    ],
    ids=["celery", "dramatiq", "type"],
)
def test_a_task_is_named(body: bytes, properties: dict) -> None:
    with Broker() as broker:
        broker.declare_queue("jobs")
        broker.publish("", "jobs", body, **properties)

        assert broker.flow() == "the test sends mails.send -> jobs: ready"


def test_a_flow_of_one_queue_or_client_leaves_out_the_rest() -> None:
    with Broker(checks="off") as broker:
        Shop().run(broker, random.Random(2))

        assert broker.flow(queue="shipping") == "shop -> shop 'order.paid' -> audit: ready, shipping: acked by shipping"
        assert broker.flow(client="mailer") == "\n".join(FLOW.splitlines()[3:])


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"queue": "misspelt"}, "queue 'misspelt' was never declared or used in vhost '/'; expected one of orders"),
        ({"queue": "ordres"}, "queue 'ordres' .*; did you mean 'orders'"),
        ({"client": "nobody"}, "client 'nobody' has never connected; expected one of the test, shop"),
        ({"client": "shp"}, "client 'shp' has never connected; did you mean 'shop'"),
    ],
)
def test_a_flow_of_a_queue_or_client_that_never_was_is_refused(names: dict[str, str], text: str) -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        with connected(broker, "shop"), pytest.raises(NotDeclaredError, match=text):
            broker.flow(**names)


def test_a_flow_of_a_queue_or_client_that_is_gone_or_of_another_virtual_host_is_empty() -> None:
    with Broker(vhosts="other") as broker:
        broker.declare_queue("gone")
        broker.delete_queue("gone")
        broker.declare_queue("elsewhere", vhost="other")
        with connected(broker, "shop-5f0c1f9e8b7a4d3c9e2b1a0f6d5c4b3a"):
            pass

        assert broker.flow(queue="gone") == ""
        assert broker.flow(queue="elsewhere") == ""
        assert broker.flow(client="shop-5f0c1f9e8b7a4d3c9e2b1a0f6d5c4b3a") == ""
        assert broker.flow(client="the test") == ""


def test_generated_names_of_queues_are_masked() -> None:
    with Broker() as broker, connected(broker, "shop") as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"x")
        connection.process_data_events(0)

        assert broker.flow() == "shop -> amq.gen-*: ready"


def test_the_generated_name_of_a_queue_that_is_gone_is_masked() -> None:
    with Broker(checks="off") as broker, connected(broker, "shop") as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_delete(queue)
        channel.basic_publish("", queue, b"a late reply")
        connection.process_data_events(0)

        assert broker.flow() == "shop -> 'amq.gen-*' no queue"


@pytest.mark.parametrize(
    ("ttl_ms", "text"),
    [
        (350, "0.35 s"),
        (60_000, "1 min"),
        (61_001, "1 min 1.001 s"),
        (3_600_000, "1 h"),
        (5_430_000, "1 h 30 min 30 s"),
        (172_800_000, "48 h"),
    ],
)
def test_a_delay_is_exact(ttl_ms: int, text: str) -> None:
    with Broker() as broker:
        to_failed = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
        broker.declare_queue("orders", arguments={"x-message-ttl": ttl_ms, **to_failed})
        broker.declare_queue("failed")
        broker.publish("", "orders", b"7")
        broker.clock.advance(ms=ttl_ms)

        assert broker.flow() == f"the test -> orders: expired after {text} -> failed: ready"


def test_a_delay_is_said_without_a_dead_letter_exchange_too() -> None:
    with Broker(checks="off") as broker:
        broker.declare_queue("orders", arguments={"x-message-ttl": 60_000})
        broker.publish("", "orders", b"7")
        broker.clock.advance(minutes=1)

        assert broker.flow() == "the test -> orders: expired after 1 min"


def flow_with(*, shown: bool | list[str] = False, **properties: object) -> Flow:
    with Broker(checks="off") as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", b"7", **properties)
        return broker.flow(properties=shown)


def test_properties_and_headers_are_shown_if_they_are_asked_for() -> None:
    given = {"headers": {"tenant": "rome"}, "priority": 5, "message_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}

    assert flow_with(**given) == "the test -> orders: ready"
    assert flow_with(shown=["tenant", "priority"], **given) == (
        'the test -> orders: ready with headers.tenant="rome" and priority=5'
    )
    assert flow_with(shown=True, **given) == (
        'the test -> orders: ready with headers.tenant="rome", message_id="*" and priority=5'
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "headers.tenant"),
        ({"headers": {"tenant": "rome"}, "delivery_mode": 2}, "delivery_mode"),
        ({"headers": {"tenant": "rome"}, "expiration": "60000"}, "expiration"),
        ({"headers": {"tenant": "rome"}, "priority": 5}, "priority"),
        ({"headers": {"tenant": "oslo"}}, "headers.tenant"),
    ],
)
def test_equal_flows_say_in_which_properties_they_differ(given: dict[str, object], name: str) -> None:
    with pytest.warns(LeveretWarning, match=rf"flow\(\) does not compare {name}, .* pass properties=\['{name}'\]"):
        assert flow_with(**given) == flow_with(headers={"tenant": "rome"})


def test_equal_flows_of_equal_properties_say_nothing() -> None:
    def flow() -> Flow:
        return flow_with(headers={"tenant": "rome"}, message_id=str(uuid.uuid4()), timestamp=int(time.time()))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flow() == flow()
        assert flow() != flow_with(shown=True, priority=1)


def test_a_hexadecimal_id_is_masked_whole_whatever_it_begins_with() -> None:
    with Broker(checks="off") as broker:
        broker.declare_queue("orders")
        for made_up in (
            "1234567890aa4520b5033b399579a3c7",
            "b5033b399579a3c71234567890aa4520",
            "1234567890",
            "1234567890.5",
        ):
            broker.publish("", "orders", made_up.encode())

        assert broker.flow(bodies=True) == "the test -> orders: ready * (4 times)"


def test_a_message_without_a_queue_ends_there() -> None:
    with Broker(checks="off") as broker, connected(broker, "shop") as connection:
        connection.channel().basic_publish("amq.topic", "order.lost", b"x")
        connection.process_data_events(0)

        assert broker.flow() == "shop -> amq.topic 'order.lost' -> no queue"


def test_an_amount_in_a_body_is_not_masked() -> None:
    with Broker() as broker:
        broker.declare_queue("orders")
        broker.publish("", "orders", json={"total": 12500, "at": 1732390000.123456, "at_ms": 1732390000123})

        assert broker.flow(bodies=True) == """the test -> orders: ready {"total": 12500, "at": *, "at_ms": *}"""


def test_events_of_celery_itself_are_left_out() -> None:
    with Broker() as broker:
        broker.declare_exchange("celeryev", "topic")
        broker.publish("celeryev", "worker.heartbeat")

        assert broker.flow() == ""


def test_a_flow_needs_recorded_events() -> None:
    with Broker(record="off") as broker, pytest.raises(BrokerError, match="record='off'"):
        broker.flow()
