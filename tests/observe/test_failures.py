"""The texts of failing assertions."""

import pytest

from leveret.core.protocol import handlers
from leveret.core.wire.methods import BasicCancel
from leveret.errors import NotDeclaredError
from leveret.trace import events
from leveret.trace.ring import EventRing


@pytest.fixture
def shop(world):
    """A shop that publishes three orders; a worker holds the first and has acknowledged the second."""
    shop = world.client("shop")
    worker = world.client("pika")
    world.queue("audit", exchange="orders", routing_key="order.created")
    worker.consume("orders.work", "ctag1", prefetch_count=2)
    world.publish("orders", "order.created", b'{"id": 7, "total": -1}', by=shop)
    world.publish("orders", "order.updated", b'{"id": 8, "total": 10}', by=shop, content_type="application/json")
    world.publish("orders", "order.updated", b'{"id": 9, "total": 10}')
    worker.ack(2)
    world.elapse(2.13)
    return world


def failure(assertion, *args, **kwargs):
    with pytest.raises(AssertionError) as caught:
        assertion(*args, **kwargs)
    return str(caught.value).splitlines()


class LockWithATurnAfterIt:
    """The lock of a broker whose loop has something to do as soon as the test lets it."""

    def __init__(self, turn):
        self.turn = turn

    def __enter__(self):
        return self

    def __exit__(self, *error):
        turn, self.turn = self.turn, lambda: None
        turn()


def test_the_reasons_are_of_the_moment_at_which_the_assertion_failed(world):
    worker = world.client("worker")
    worker.consume("orders.work", "ctag1")
    world.publish("orders", "order.created", b'{"id": 7}')
    world.lock = LockWithATurnAfterIt(lambda: worker.ack(1))

    lines = failure(world.assertions.assert_acked, "orders.work")

    assert "it was not acked" in "\n".join(lines)


def test_a_missing_publish_shows_the_nearest_with_what_differs_and_what_became_of_it(shop):
    lines = failure(shop.assertions.assert_published, "orders", routing_key="order.crated", json={"id": 7, "total": -1})

    assert lines == [
        "assert_published('orders', routing_key='order.crated', json={'id': 7, 'total': -1}): "
        "expected at least 1 published, saw none that matches",
        "nearest: #1 ('orders', 'order.created', '{\"id\": 7, \"total\": -1}') from shop (c1/ch1)",
        "  differs: routing key 'order.created' instead of 'order.crated'",
        "  it is still ready for 2.1 s in 'audit'; it is unacked for 2.1 s in 'orders.work', held by ctag1 of pika",
        "2 other messages of this test differ more",
    ]


def test_a_missing_nack_shows_how_publishers_were_answered_instead(world):
    shop, till = world.client("shop"), world.client("till")
    shop.confirm()
    world.exchange("full")
    world.queue("full.work", exchange="full", x_max_length=0, x_overflow="reject-publish")
    world.publish("orders", "order.created", b"1", by=shop)
    world.publish("orders", "order.created", b"2", by=till)
    world.publish("full", "order.created", b"3", by=shop)

    lines = failure(world.assertions.assert_nacked, "orders")

    assert lines == [
        "assert_nacked('orders'): expected at least 1 nacked by the broker, saw none that matches",
        "nearest: #1 ('orders', 'order.created', '1') from shop (c1/ch1)",
        "  differs: it was not nacked by the broker",
        "  it was confirmed; it is still ready in 'orders.work'",
        "next: #2 ('orders', 'order.created', '2') from till (c2/ch1)",
        "  differs: it was not nacked by the broker",
        "  it was not confirmed: its channel is not in confirm mode; it is still ready in 'orders.work'",
        "1 other message of this test differs more",
    ]


def test_a_missing_confirm_of_what_the_test_published_says_so(world):
    world.publish("orders", "order.created", b"1")

    lines = failure(world.assertions.assert_confirmed)

    assert lines[-1].startswith("  it was not confirmed: the test published it itself; it is still ready in")


def test_a_match_in_an_earlier_test_is_shown(world):
    world.publish("orders", "order.created", b"0")
    for name, count in (("test_a", 2), ("test_b", 1), ("test_c", 0)):
        world.begin_test(name)
        for _ in range(count):
            world.publish("orders", "order.created", b"1")

    lines = failure(world.assertions.assert_published, "orders")

    assert lines == [
        "assert_published('orders'): expected at least 1 published, saw none that matches",
        "No message was published.",
        "before this test began, so not counted: 1 outside the tests that use this broker, 2 in test_a, 1 in test_b",
    ]


def test_a_match_between_two_tests_belongs_to_neither(world):
    world.begin_test("test_a")
    world.publish("orders", "order.created", b"1")
    world.end_test("test_a")
    world.publish("orders", "order.created", b"2")
    world.begin_test("test_b")

    lines = failure(world.assertions.assert_published, "orders")

    assert lines[-1] == (
        "before this test began, so not counted: 1 outside the tests that use this broker, 1 in test_a"
    )


def test_a_missing_ack_shows_what_became_of_the_message_instead(shop):
    lines = failure(shop.assertions.assert_acked, "orders.work", json={"id": 7, "total": -1})

    assert lines[1:4] == [
        "nearest: #1 ('orders', 'order.created', '{\"id\": 7, \"total\": -1}') from shop (c1/ch1)",
        "  differs: it was not acked",
        "  it is unacked for 2.1 s in 'orders.work', held by ctag1 of pika; it is still ready for 2.1 s in 'audit'; "
        "to wait for it, pass timeout=",
    ]


def test_an_assertion_that_has_waited_is_not_told_to_wait(shop):
    lines = failure(shop.assertions.assert_acked, "orders.work", json={"id": 7, "total": -1}, timeout=0.5)

    assert lines[0].endswith("saw none that matches within 500 ms")
    assert "timeout=" not in "".join(lines[1:])


def test_too_many_are_listed_with_what_became_of_them(shop):
    lines = failure(shop.assertions.assert_published, "orders", times=2)

    assert lines[0] == "assert_published('orders', times=2): expected exactly 2 published, saw 3"
    assert [line[:8] for line in lines[1:]] == ["  1. #1 ", "  2. #2 ", "  3. #3 "]
    assert lines[2].endswith("from shop (c1/ch1); it was acked in 'orders.work' by ctag1 of pika")


def test_a_long_list_is_cut(world):
    for number in range(15):
        world.publish("orders", "order.created", str(number).encode())

    lines = failure(world.assertions.assert_not_published, "orders")

    assert len(lines) == 12
    assert lines[-1] == "  ... and 5 more"


def test_too_few_show_those_found_and_the_nearest_others(shop):
    lines = failure(shop.assertions.assert_published, "orders", times=2, routing_key="order.created")

    assert lines[0].endswith("expected exactly 2 published, saw 1")
    assert lines[1].startswith("nearest: #2 ")
    assert lines[2] == "  differs: routing key 'order.updated' instead of 'order.created'"
    assert "published: #1" in lines


def test_every_message_of_the_test_is_compared_whatever_happened_to_it(shop):
    lines = failure(shop.assertions.assert_acked, "orders.work", json={"id": 7, "total": 0})

    assert lines[1].startswith("nearest: #1 ")
    assert lines[2] == "  differs: JSON['total'] is -1 instead of 0; it was not acked"


def test_an_empty_trace_is_reported(world):
    lines = failure(world.assertions.assert_published, "orders")

    assert lines == [
        "assert_published('orders'): expected at least 1 published, saw none that matches",
        "No message was published.",
    ]


def test_an_empty_queue_says_what_is_bound_to_it(world):
    lines = failure(world.assertions.assert_delivered, "orders.work", timeout=0.1)

    assert lines[1:] == ["No message was published; 'orders.work' is bound to 'orders' by '#'."]


def test_a_publish_to_the_wrong_exchange_is_the_nearest(shop):
    shop.exchange("orders2")

    lines = failure(shop.assertions.assert_published, "orders2", routing_key="order.created")

    assert lines[2] == "  differs: exchange 'orders' instead of 'orders2'"


def test_a_message_that_went_to_another_queue_says_what_leads_to_the_right_one(world):
    world.queue("billing", exchange="orders", routing_key="order.*.paid")
    world.publish("orders", "order.paid", b"1")

    lines = failure(world.assertions.assert_delivered, "billing", body="1")

    assert lines[2] == "  differs: queue 'orders.work' instead of 'billing'; it was not delivered"
    assert lines[3].endswith(
        "; 'billing' is bound to 'orders' by 'order.*.paid'; "
        "'order.paid' does not match 'order.*.paid': one word is missing before 'paid'"
    )


@pytest.mark.parametrize(
    ("kind", "bound", "key", "why"),
    [
        ("topic", [], "order.paid", "'shop' has no bindings"),
        (
            "topic",
            ["order.*.paid"],
            "order.paid",
            "'order.paid' matches no binding of 'shop' ('order.*.paid' to 'q0'; "
            "'order.paid' does not match 'order.*.paid': one word is missing before 'paid')",
        ),
        (
            "direct",
            ["a", "paid", "b"],
            "payd",
            "'payd' matches no binding of 'shop' ('paid' to 'q1', 'a' to 'q0', 'b' to 'q2')",
        ),
        (
            "direct",
            list("abcd"),
            "x",
            "'x' matches no binding of 'shop' ('a' to 'q0', 'b' to 'q1', 'c' to 'q2', 1 more)",
        ),
    ],
)
def test_a_message_without_a_route_is_compared_with_the_bindings(world, kind, bound, key, why):
    world.exchange("shop", kind)
    for number, binding in enumerate(bound):
        world.queue(f"q{number}", exchange="shop", routing_key=binding)
    world.publish("shop", key)

    lines = failure(world.assertions.assert_delivered, "orders.work", routing_key=key)

    assert lines[2:] == [
        "  differs: it reached no queue instead of 'orders.work'",
        f"  it was dropped, no route: {why}",
    ]


def test_a_binding_that_came_too_late_is_named(world):
    world.exchange("shop")
    world.publish("shop", "order.paid")
    world.queue("billing", exchange="shop", routing_key="order.*")

    lines = failure(world.assertions.assert_delivered, "billing")

    assert lines[-1] == "  it was dropped, no route: 'shop' had no such binding yet; now it leads to 'billing'"


def test_a_missing_queue_of_the_default_exchange_is_compared_with_those_that_exist(world):
    world.publish("", "orders.wrok", by=world.client(), mandatory=True)

    lines = failure(world.assertions.assert_delivered, "orders.work")

    assert lines[-1] == "  it was returned, no route: there is no queue 'orders.wrok' (nearest: 'orders.work')"


def test_a_message_on_another_broker_of_the_test_says_which(world, make_world):
    other = make_world(EventRing())
    other.name, world.neighbours = "the broker on port 5673", [other]
    other.publish("orders", "order.created", b"1")
    world.publish("orders", "order.created", b"something else entirely")

    lines = failure(world.assertions.assert_published, "orders", body="1")

    assert lines[1:4] == [
        "nearest, on the broker on port 5673: #1 ('orders', 'order.created', '1') from the test",
        "  differs: it was on the broker on port 5673, and this assertion is about the broker",
        "  it is still ready in 'orders.work'",
    ]


def test_a_broker_whose_test_is_over_is_not_compared(world, make_world):
    other = make_world(EventRing())
    world.neighbours = [other]
    other.begin_test("test_before")
    other.publish("orders", "order.created", b"1")
    other.recorder.tap((events.TEST_END, other.node.now, "test_before", "passed", 0.1))

    lines = failure(world.assertions.assert_published, "orders", body="1")

    assert lines[1:] == ["No message was published."]


def test_a_name_that_another_broker_knows_says_which(world, make_world):
    other = make_world(EventRing())
    other.name, world.neighbours = "the broker on port 5673", [other]
    other.exchange("shop")

    with pytest.raises(NotDeclaredError, match=r"the broker on port 5673 has it, and this is the broker$"):
        world.assertions.assert_published("shop")


def test_a_task_is_named_as_its_header_does(world):
    world.publish("orders", "celery", b"[[], {}]", headers={"task": "shop.bill"})

    lines = failure(world.assertions.assert_acked, "orders.work")

    assert lines[1] == "nearest: #1 ('orders', 'celery', task 'shop.bill' '[[], {}]') from the test"


def test_a_retry_of_a_task_is_named_with_its_time(world):
    headers = {"task": "shop.bill", "retries": 1, "eta": "2026-11-23T00:45:12.5+00:00"}
    world.publish("orders", "celery", b"[[], {}]", headers=headers)

    lines = failure(world.assertions.assert_acked, "orders.work")

    assert "task 'shop.bill' (retry 1, due 2026-11-23 00:45:12+0000) '[[], {}]')" in lines[1]


def test_an_eta_that_is_no_time_is_not_shown(world):
    world.publish("orders", "celery", b"[]", headers={"task": "shop.bill", "eta": "soon", "retries": 0})

    assert "task 'shop.bill' '[]')" in failure(world.assertions.assert_acked, "orders.work")[1]


def test_a_queue_that_is_not_empty_shows_its_messages(shop):
    lines = failure(shop.assertions.assert_empty, "audit")

    assert lines == [
        "assert_empty('audit'): 1 ready, 0 unacked",
        "  ready: #1 ('orders', 'order.created', '{\"id\": 7, \"total\": -1}')",
        "  the queue has no consumers",
    ]


def test_a_queue_that_is_not_empty_names_the_holder_of_a_message(shop):
    lines = failure(shop.assertions.assert_empty, "orders.work")

    assert lines[0] == "assert_empty('orders.work'): 0 ready, 2 unacked"
    assert [line.endswith("held by ctag1 of pika") for line in lines[1:]] == [True, True]


def test_a_client_is_named_after_its_connection_is_closed(shop):
    del shop.node.connections[1]

    lines = failure(shop.assertions.assert_not_published, "orders", json={"id": 7, "total": -1})

    assert "from shop (c1/ch1)" in lines[-1]


def test_a_message_to_a_deleted_queue_says_who_deleted_it(world):
    web, worker = world.client("web"), world.client("worker")
    web.declare("web.replies")
    queue = world.vhost.queues["web.replies"]
    world.vhost.remove_queue(queue, "exclusive")
    world.tap(events.CONN_CLOSE, 1, None, None)
    world.node.advance(world.node.now + 800, world.node.wall_now)
    world.publish("", "web.replies", b"3", by=worker)

    lines = failure(world.assertions.assert_delivered, "web.replies", timeout=0.0)

    assert lines[3] == (
        "  it was dropped, no route: queue 'web.replies' was deleted 0.8 ms before, "
        "when c1 (web) closed its connection (exclusive)"
    )


def test_a_missing_queue_with_no_near_name_lists_none(world):
    world.publish("", "prices", b"1")

    lines = failure(world.assertions.assert_delivered, "orders.work")

    assert lines[3] == "  it was dropped, no route: there is no queue 'prices'"


def test_a_consumer_with_a_generated_tag_is_named_by_its_channel(world):
    world.client("worker").consume("orders.work", "ctag1.7edc8fd0bdc84d138389aecda3f56625")
    world.publish("orders", "order.created", b"1")

    lines = failure(world.assertions.assert_acked, "orders.work")

    assert lines[3] == "  it is unacked in 'orders.work', held by worker (c1/ch1); to wait for it, pass timeout="


def test_a_message_whose_consumer_left_is_not_worth_a_wait(world):
    worker = world.client("worker")
    worker.consume("orders.work", "tag")
    world.publish("orders", "order.created", b"1")
    handlers.basic.cancel(worker.channel, BasicCancel("tag", True))

    lines = failure(world.assertions.assert_acked, "orders.work")

    assert lines[3] == "  it is unacked in 'orders.work', held by tag of worker"


def test_too_few_sum_up_those_found_below_the_nearest(world):
    worker = world.client("worker")
    worker.consume("orders.work", "tag")
    for _ in range(3):
        world.publish("orders", "order.created", b"1")
    worker.ack(1)
    worker.ack(3)

    lines = failure(world.assertions.assert_acked, "orders.work", times=3)

    assert lines[1].startswith("nearest: #2 ")
    assert lines[4] == "acked: #1, #3"


def test_a_surplus_delivery_says_what_became_of_it_and_not_of_the_copy(world):
    worker = world.client("worker")
    world.publish("orders", "order.created", b"1")
    worker.get("orders.work")
    worker.requeue(1)
    world.sync()
    worker.get("orders.work")
    worker.ack(2)

    lines = failure(world.assertions.assert_delivered, "orders.work", times=1)

    assert [line.partition("; ")[2] for line in lines[1:]] == [
        "it was nacked with requeue",
        "it was acked in 'orders.work' by a basic.get of worker",
    ]


def test_a_queue_that_another_dead_letters_to_says_so(world):
    world.queue("wait-1d", x_dead_letter_exchange="", x_dead_letter_routing_key="reminders")
    world.queue("reminders")
    world.publish("orders", "order.created", b"1")

    lines = failure(world.assertions.assert_delivered, "reminders")

    assert lines[3].endswith("; 'wait-1d' dead-letters to 'reminders'")


def test_a_broker_without_clients_is_named_as_mixed_up(world, make_world):
    other = make_world(EventRing())
    other.name, world.neighbours = "the broker on port 5673", [other]
    other.publish("orders", "order.created", b"1", by=other.client("shop"))

    lines = failure(world.assertions.assert_published, "orders")

    assert lines[2] == (
        "  differs: it was on the broker on port 5673, and this assertion is about the broker, "
        "to which no client connected"
    )
