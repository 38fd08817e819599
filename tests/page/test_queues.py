"""The queues and the topology of a story."""

from __future__ import annotations

import re


def queue_of(story, name):
    (queue,) = [queue for queue in story["queues"] if queue["name"] == name]
    return queue


def counts(queue):
    return [point[2:] for point in queue["series"]]


def test_depth_unacked_and_consumers_follow_the_events(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    broker.publish("", "jobs", b"2")
    connection = clients.connect()
    channel = connection.channel()
    taken = []
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("jobs", lambda channel, method, *_: taken.append(method.delivery_tag))
    while not taken:
        connection.process_data_events(time_limit=1)
    channel.basic_ack(taken[0])
    channel.basic_reject(taken[0] + 1, requeue=False)
    broker.sync()

    queue = queue_of(clients.story(), "jobs")

    assert counts(queue)[:3] == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert counts(queue)[3] == [1, 1, 1]
    assert counts(queue)[-1] == [0, 0, 1]


def test_consumers_end_with_their_connection(broker, clients):
    broker.declare_queue("jobs")
    connection = clients.connect()
    connection.channel().basic_consume("jobs", lambda *_: None)
    connection.close()
    broker.sync()

    assert [point[2] for point in counts(queue_of(clients.story(), "jobs"))] == [0, 1, 0]


def test_messages_from_before_the_events_count(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    broker.events.clear()
    broker.publish("", "jobs", b"2")

    queue = queue_of(clients.story(), "jobs")

    assert counts(queue)[-1] == [2, 0, 0]


def test_a_queue_has_arguments_policy_and_bindings_with_counts(broker, clients):
    broker.admin.set_policy("short", "^jobs$", {"max-length": 5})
    broker.declare_exchange("shop", "topic")
    broker.declare_queue("jobs", arguments={"x-message-ttl": 1000})
    broker.bind_queue("jobs", "shop", "order.*")
    broker.bind_queue("jobs", "shop", "mail.*")
    broker.publish("shop", "order.paid", b"1")

    queue = queue_of(clients.story(), "jobs")

    assert queue["arguments"]["x-message-ttl"] == 1000
    assert (queue["policy"], queue["policy_keys"]) == ("short", {"max-length": 5})
    assert queue["durable"]
    assert queue["bindings"] == [
        {"exchange": "shop", "key": "order.*", "count": 1},
        {"exchange": "shop", "key": "mail.*", "count": 0},
    ]


def edges(story):
    return [
        (edge["from"].partition("/")[2], edge["to"].partition("/")[2], edge["label"], edge["count"], edge["kind"])
        for edge in story["topology"]["edges"]
    ]


def test_edges_count_the_messages_that_took_them(broker, clients):
    broker.declare_exchange("shop", "topic")
    broker.declare_exchange("all", "fanout")
    broker.declare_queue("jobs")
    broker.declare_queue("log")
    broker.bind_exchange("all", "shop", "#")
    broker.bind_queue("jobs", "shop", "order.*")
    broker.bind_queue("log", "all")
    broker.publish("shop", "order.paid", b"1")
    broker.publish("shop", "mail", b"2")
    broker.publish("", "log", b"3")

    assert edges(clients.story()) == [
        ("x/shop", "x/all", "#", 2, "binding"),
        ("x/shop", "q/jobs", "order.*", 1, "binding"),
        ("x/all", "q/log", "", 2, "binding"),
        ("x/", "q/log", "log", 1, "default"),
    ]


def test_an_alternate_exchange_is_an_edge(broker, clients):
    broker.declare_exchange("rest", "fanout")
    broker.declare_exchange("shop", "direct", arguments={"alternate-exchange": "rest"})
    broker.declare_queue("jobs")
    broker.bind_queue("jobs", "rest")
    broker.publish("shop", "other", b"1")

    assert ("x/shop", "x/rest", "alternate", 1, "alternate") in edges(clients.story())
    assert ("x/rest", "q/jobs", "", 1, "binding") in edges(clients.story())


def test_a_binding_counts_only_while_it_exists(broker, clients):
    broker.declare_exchange("shop", "direct")
    broker.declare_queue("jobs")
    broker.bind_queue("jobs", "shop", "a")
    broker.publish("shop", "a", b"1")
    broker.unbind_queue("jobs", "shop", "a")
    broker.bind_queue("jobs", "shop", "a")
    broker.publish("shop", "a", b"2")
    broker.publish("shop", "a", b"3")

    assert [edge[3] for edge in edges(clients.story())] == [1, 2]


def test_an_unroutable_key_stands_beside_the_bindings_that_nearly_match(broker, clients):
    broker.declare_exchange("shop", "topic")
    broker.declare_queue("billing")
    broker.bind_queue("billing", "shop", "order.*.paid")
    broker.publish("shop", "order.paid", b"1")

    (lost,) = clients.story()["topology"]["unroutable"]

    assert lost == {
        "exchange": "b1/x/shop",
        "key": "order.paid",
        "messages": [1],
        "near": [{"key": "order.*.paid", "to": "b1/q/billing", "why": "one word is missing before 'paid'"}],
    }


def test_a_misspelt_queue_stands_beside_the_queues_that_exist(broker, clients):
    broker.declare_queue("orders")
    broker.publish("", "ordres", b"1")

    (lost,) = clients.story()["topology"]["unroutable"]

    assert [(near["key"], near["to"]) for near in lost["near"]] == [("orders", "b1/q/orders")]


def test_an_exclusive_queue_is_deleted_by_its_client_and_a_late_message_says_so(broker, clients):
    connection = clients.connect("web")
    connection.channel().queue_declare("replies", exclusive=True)
    connection.close()
    clients.channel("worker").basic_publish("", "replies", b"1")
    broker.sync()

    story = clients.story()

    deleted = next(event for event in story["events"] if event["kind"] == "queue_delete")
    queue = next(queue for queue in story["queues"] if queue["name"] == "replies")
    node = next(node for node in story["topology"]["nodes"] if node["label"] == "replies")
    (lost,) = story["topology"]["unroutable"]
    assert (deleted["from"], deleted["to"]) == ("b1/c1", "b1/q/replies")
    assert (queue["deleted_by"], queue["deleted_at"]) == ("c1 (web)", deleted["t"])
    assert node["note"] == "deleted when c1 (web) closed its connection (exclusive)"
    assert re.fullmatch(
        r"queue 'replies' was deleted [\d.]+ m?s before, when c1 \(web\) closed its connection \(exclusive\)",
        lost["near"][0]["why"],
    )


def test_a_binding_that_is_declared_again_is_drawn_once(broker, clients):
    broker.declare_exchange("shop", "topic")
    broker.declare_queue("jobs")
    broker.bind_queue("jobs", "shop", "order.*")
    broker.bind_queue("jobs", "shop", "order.*")
    broker.publish("shop", "order.paid", b"1")

    story = clients.story()

    assert edges(story) == [("x/shop", "q/jobs", "order.*", 1, "binding")]
    assert story["queues"][0]["bindings"] == [{"exchange": "shop", "key": "order.*", "count": 1}]


def test_a_binding_that_was_removed_and_made_again_takes_messages_again(broker, clients):
    broker.declare_exchange("shop", "topic")
    broker.declare_queue("jobs")
    broker.bind_queue("jobs", "shop", "order.*")
    broker.unbind_queue("jobs", "shop", "order.*")
    broker.bind_queue("jobs", "shop", "order.*")
    broker.publish("shop", "order.paid", b"1")

    assert [(label, count) for _, _, label, count, _ in edges(clients.story())] == [("order.*", 0), ("order.*", 1)]


def test_dead_letter_routes_are_drawn_before_any_message_takes_them(broker, clients):
    broker.declare_queue("wait", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "reminders"})
    broker.declare_queue("reminders")
    broker.declare_queue("alone")

    topology = clients.story()["topology"]

    edges = {(edge["from"], edge["to"], edge["kind"], edge["count"]) for edge in topology["edges"]}
    assert edges == {("b1/q/wait", "b1/x/", "dead letter", 0), ("b1/x/", "b1/q/reminders", "default", 0)}
    assert {node["label"]: node.get("note") for node in topology["nodes"] if node["kind"] == "queue"} == {
        "wait": "nothing leads here",
        "reminders": None,
        "alone": "nothing leads here",
    }


def test_dead_letters_to_the_default_exchange_show_their_key(broker, clients):
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parcels"}
    broker.declare_queue("letters", arguments=arguments)
    broker.declare_queue("parcels")

    edges = clients.story()["topology"]["edges"]

    (label,) = [edge["label"] for edge in edges if edge["kind"] == "dead letter"]
    assert label == "dead letters → parcels"
