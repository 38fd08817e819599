"""The texts of failing assertions."""

import pytest


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


def test_a_missing_publish_shows_the_closest_with_its_differences(shop):
    lines = failure(shop.assertions.assert_published, "orders", routing_key="order.crated", json={"id": 7, "total": -1})

    assert lines[:4] == [
        "assert_published('orders', routing_key='order.crated', json={'id': 7, 'total': -1}): "
        "expected at least 1 published, saw none",
        "Closest messages that were published but do not match:",
        "  <Message exchange='orders' routing_key='order.created' body='{\"id\": 7, \"total\": -1}'> "
        "by shop (connection 1, channel 1)",
        "    routing_key 'order.created' does not match 'order.crated'",
    ]
    assert lines[-3:] == [
        "  <Message exchange='orders' routing_key='order.updated' body='{\"id\": 9, \"total\": 10}'> by the test",
        "    routing_key 'order.updated' does not match 'order.crated'",
        "    json['id'] is 9, not 7; json['total'] is 10, not -1",
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
        "assert_nacked('orders'): expected at least 1 nacked by the broker, saw none",
        "What happened to the matching messages:",
        "  <Message exchange='orders' routing_key='order.created' body='1'> "
        "published by shop (connection 1, channel 1)",
        "    confirmed",
        "    in 'orders.work': still ready after 0 ms, never delivered",
        "  <Message exchange='orders' routing_key='order.created' body='2'> "
        "published by till (connection 2, channel 1)",
        "    not confirmed: its channel is not in confirm mode",
        "    in 'orders.work': still ready after 0 ms, never delivered",
        "Closest messages that were nacked by the broker but do not match:",
        "  <Message exchange='full' routing_key='order.created' body='3'> to shop (connection 1, channel 1)",
        "    exchange 'full' is not 'orders'",
    ]


def test_a_missing_confirm_of_what_the_test_published_says_so(world):
    world.publish("orders", "order.created", b"1")

    lines = failure(world.assertions.assert_confirmed)

    assert "    not confirmed: the test published it itself" in lines
    assert lines[-1] == "No message was confirmed."


def test_a_match_in_an_earlier_test_is_shown(world):
    world.publish("orders", "order.created", b"0")
    for name, count in (("test_a", 2), ("test_b", 1), ("test_c", 0)):
        world.begin_test(name)
        for _ in range(count):
            world.publish("orders", "order.created", b"1")

    lines = failure(world.assertions.assert_published, "orders")

    assert lines == [
        "assert_published('orders'): expected at least 1 published, saw none",
        "No message was published.",
        "Seen before this test began, so not counted:",
        "  1 before the first test",
        "  2 in test_a",
        "  1 in test_b",
    ]


def test_a_missing_ack_shows_what_happened_to_the_message_instead(shop):
    lines = failure(shop.assertions.assert_acked, "orders.work", json={"id": 7, "total": -1})

    assert lines == [
        "assert_acked('orders.work', json={'id': 7, 'total': -1}): expected at least 1 acked, saw none",
        "What happened to the matching messages:",
        "  <Message exchange='orders' routing_key='order.created' body='{\"id\": 7, \"total\": -1}'> "
        "published by shop (connection 1, channel 1)",
        "    in 'orders.work': unacked for 2.1 s, held by ctag1 of pika",
        "    in 'audit': still ready after 2.1 s, never delivered",
        "Closest messages that were acked but do not match:",
        "  <Message exchange='orders' routing_key='order.updated' body='{\"id\": 8, \"total\": 10}' "
        "content_type='application/json'> in 'orders.work' by pika (connection 2, channel 1)",
        "    json['id'] is 8, not 7; json['total'] is 10, not -1",
    ]


def test_too_many_are_listed(shop):
    lines = failure(shop.assertions.assert_published, "orders", times=2)

    assert lines[0] == "assert_published('orders', times=2): expected exactly 2 published, saw 3"
    assert lines[1] == "Seen:"
    assert [line[:5] for line in lines[2:]] == ["  1. ", "  2. ", "  3. "]


def test_a_long_list_is_cut(world):
    for number in range(15):
        world.publish("orders", "order.created", str(number).encode())

    lines = failure(world.assertions.assert_not_published, "orders")

    assert len(lines) == 13
    assert lines[-1] == "  ... and 5 more"


def test_too_few_show_those_seen_and_the_closest(shop):
    lines = failure(shop.assertions.assert_published, "orders", times=2, routing_key="order.created")

    assert lines[0].endswith("expected exactly 2 published, saw 1")
    assert lines[1] == "Closest messages that were published but do not match:"
    assert lines[-2] == "Seen:"


def test_a_message_that_was_never_published_is_reported(shop):
    lines = failure(shop.assertions.assert_acked, "orders.work", json={"id": 1})

    assert lines[1] == "No matching message was published."


def test_an_empty_trace_is_reported(world):
    lines = failure(world.assertions.assert_published, "orders")

    assert lines == ["assert_published('orders'): expected at least 1 published, saw none", "No message was published."]


def test_a_publish_to_the_wrong_exchange_is_among_the_closest(shop):
    shop.exchange("orders2")

    lines = failure(shop.assertions.assert_published, "orders2", routing_key="order.created")

    assert lines[3] == "    exchange 'orders' is not 'orders2'"


def test_a_message_that_reached_no_queue_says_so(world):
    world.exchange("empty")
    world.publish("empty", "order.created")

    lines = failure(world.assertions.assert_delivered, "orders.work", routing_key="order.created")

    assert lines[3] == "    was dropped (no route): it reached no queue"


def test_a_queue_that_is_not_empty_shows_its_messages(shop):
    lines = failure(shop.assertions.assert_empty, "audit")

    assert lines == [
        "assert_empty('audit'): 1 ready, 0 unacked",
        "  ready: <Message exchange='orders' routing_key='order.created' body='{\"id\": 7, \"total\": -1}'>",
        "  the queue has no consumers",
    ]


def test_a_queue_that_is_not_empty_names_the_holder_of_a_message(shop):
    lines = failure(shop.assertions.assert_empty, "orders.work")

    assert lines[0] == "assert_empty('orders.work'): 0 ready, 2 unacked"
    assert [line.endswith("held by ctag1 of pika>") for line in lines[1:]] == [True, True]


def test_a_client_is_named_after_its_connection_is_closed(shop):
    del shop.node.connections[1]

    lines = failure(shop.assertions.assert_not_published, "orders", json={"id": 7, "total": -1})

    assert lines[-1].endswith("by shop (connection 1, channel 1)")
