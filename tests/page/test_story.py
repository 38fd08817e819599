"""The story of a test: what real clients did, as a page shows it."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker, BrokerError, CheckFailedError
from leveret.engine.harness import Harness
from leveret.page.story import Test as EndedTest
from leveret.page.story import story_of
from tests.page.conftest import story_in


def message_of(story, number=1):
    (message,) = [message for message in story["messages"] if message["number"] == number]
    return message


def event_of(story, kind):
    return next(event for event in story["events"] if event["kind"] == kind)


def test_a_message_from_publish_to_ack_has_its_events_in_order(clients, texts):
    channel = clients.channel("shop")
    channel.confirm_delivery()
    channel.queue_declare("jobs", durable=True)
    channel.basic_publish("", "jobs", b"1")
    method, _, _ = channel.basic_get("jobs")
    channel.basic_ack(method.delivery_tag)

    story = clients.story()

    assert texts(story) == [
        "published #1 to queue 'jobs'",
        "#1 entered 'jobs'",
        "confirmed #1",
        "c1/ch1 got #1",
        "acked #1",
    ]
    assert [event.get("tone") for event in story["events"][-3:]] == ["good", None, "good"]
    assert message_of(story)["outcome"] == "acked in 'jobs' by c1/ch1 after 1 delivery"
    assert message_of(story)["tone"] == "good"


def test_each_client_exchange_and_queue_has_a_lane(clients):
    channel = clients.channel("billing")
    channel.exchange_declare("shop", "topic", durable=True)
    channel.queue_declare("jobs", durable=True)
    channel.queue_bind("jobs", "shop", "order.*")
    channel.basic_publish("shop", "order.paid", b"1")
    clients.broker.declare_queue("other")

    lanes = clients.story()["lanes"]

    assert [(lane["kind"], lane["label"]) for lane in lanes] == [
        ("test", "test"),
        ("client", "c1 billing"),
        ("exchange", "shop"),
        ("queue", "jobs"),
        ("queue", "other"),
    ]
    assert "user guest" in lanes[1]["detail"]
    assert "conftest.py" in lanes[1]["line"]


def test_setup_is_folded_until_the_first_message(clients):
    channel = clients.channel()
    channel.queue_declare("jobs", durable=True)
    channel.basic_publish("", "jobs", b"1")
    channel.queue_declare("late", durable=True)

    told = clients.story()["events"]

    assert [event["kind"] for event in told if event.get("setup")] == ["conn_open", "chan_open", "queue_declare"]
    assert [event["kind"] for event in told if not event.get("setup")] == ["published", "enqueued", "queue_declare"]


def test_a_publish_of_the_test_names_its_line_and_hides_the_call(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")

    story = clients.story()

    assert message_of(story)["publisher"] == "the test"
    assert "test_story.py" in message_of(story)["line"]
    assert "called" not in [event["kind"] for event in story["events"]]


def test_a_call_that_caused_no_event_of_its_own_is_shown(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    broker.purge_queue("jobs")

    story = clients.story()

    assert event_of(story, "called")["text"] == "the test called purge_queue"
    assert message_of(story)["copies"][0]["end"] == "purged from 'jobs'"


def test_a_dead_letter_is_caused_by_a_death_and_has_its_x_death(broker, clients):
    broker.declare_queue("dead")
    broker.declare_queue("jobs", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    broker.publish("", "jobs", b"1")
    channel = clients.channel()
    method, _, _ = channel.basic_get("jobs")
    channel.basic_reject(method.delivery_tag, requeue=False)
    broker.sync()

    story = clients.story()

    told = story["events"]
    death = next(index for index, event in enumerate(told) if event["kind"] == "dead_lettered")
    arrival = next(index for index, event in enumerate(told) if event.get("caused_by") == death)
    assert told[death]["causes"] == [arrival]
    assert told[arrival]["text"] == "#1 entered 'dead' as a dead letter"
    message = message_of(story)
    assert [(copy["end"], copy.get("from_copy")) for copy in message["copies"]] == [
        ("dead-lettered from 'jobs' (rejected) by c1/ch1 after 1 delivery", None),
        ("ready in 'dead'", 1),
    ]
    assert message["deaths"] == [
        {"queue": "jobs", "reason": "rejected", "count": 1, "exchange": "", "routing_keys": ["jobs"]}
    ]
    assert message["outcome"] == "ready in 'dead'"


def test_copies_that_stand_alike_in_one_queue_are_counted(clients):
    channel = clients.channel("shop")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "both"}
    channel.queue_declare("first", durable=True, arguments=dead)
    channel.queue_declare("both", durable=True)
    for queue in ("first", "both"):
        channel.queue_bind(queue, "amq.fanout")
    channel.basic_publish("amq.fanout", "", b"1")
    method, _, _ = channel.basic_get("first")

    channel.basic_reject(method.delivery_tag, requeue=False)

    assert message_of(clients.story())["outcome"] == "ready in 'both' (2 copies)"


def test_a_reply_is_caused_by_its_request(broker, clients):
    broker.respond("prices", {"price": 12})
    connection = clients.connect()
    channel = connection.channel()
    answers = []
    channel.basic_consume("amq.rabbitmq.reply-to", lambda *answer: answers.append(answer), auto_ack=True)
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="ask-1")
    channel.basic_publish("", "prices", b"apple", properties)
    while not answers:
        connection.process_data_events(time_limit=1)

    story = clients.story()

    assert message_of(story, 1)["causes"] == [{"message": 2, "how": "reply"}]
    assert message_of(story, 2)["caused_by"] == {"message": 1, "how": "reply"}


def test_a_publish_while_one_delivery_is_held_is_a_guess(broker, clients):
    broker.declare_queue("jobs")
    broker.declare_queue("bills")
    broker.publish("", "jobs", b"1")
    channel = clients.channel()
    method, _, _ = channel.basic_get("jobs")
    channel.basic_publish("", "bills", b"2")
    channel.basic_ack(method.delivery_tag)
    channel.basic_publish("", "bills", b"3")
    broker.sync()

    story = clients.story()

    assert message_of(story, 2)["caused_by"] == {"message": 1, "how": "published while c1 held #1", "guess": True}
    assert "caused_by" not in message_of(story, 3)


def test_two_held_deliveries_lead_to_no_guess(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    broker.publish("", "jobs", b"2")
    channel = clients.channel()
    channel.basic_get("jobs")
    channel.basic_get("jobs")
    channel.basic_publish("", "jobs", b"3")
    broker.sync()

    assert "caused_by" not in message_of(clients.story(), 3)


def test_a_lost_connection_marks_all_lanes_and_requeues(broker, clients, texts):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    channel = clients.channel()
    channel.basic_get("jobs")
    broker.faults.reset_peer()

    story = clients.story()

    assert texts(story)[-3:] == [
        "fault reset_peer",
        "c1 lost its connection: connection reset",
        "requeued #1 to 'jobs' (channel_closed)",
    ]
    fault = story["brokers"][0]["faults"][0]
    assert fault["fired"] == 1
    assert story["events"][fault["events"][0]]["across"]
    assert event_of(story, "conn_close")["tone"] == "bad"


def test_a_reset_before_a_publish_hits_no_earlier_message(broker, clients):
    broker.declare_queue("jobs")
    broker.faults.reset_peer(on="basic.publish", after=1)
    channel = clients.channel()
    for body in (b"1", b"2"):
        channel.basic_publish("", "jobs", body)
    with pytest.raises(pika.exceptions.AMQPError):
        channel.connection.process_data_events(1)

    story = clients.story()

    assert "message" not in event_of(story, "fault")
    assert [message["number"] for message in story["messages"]] == [1]


def test_a_publish_that_a_fault_drops_is_the_message_that_it_hit(broker, clients):
    broker.declare_queue("jobs")
    broker.faults.drop(on="basic.publish", after=1)
    channel = clients.channel()
    for body in (b"1", b"2"):
        channel.basic_publish("", "jobs", body)
    channel.connection.close()
    broker.wait_idle()

    assert event_of(clients.story(), "fault")["message"] == 2


def test_a_reject_beyond_the_delivery_limit_says_that_its_client_wanted_the_message_back(broker, clients):
    broker.declare_queue("jobs", arguments={"x-queue-type": "quorum", "x-delivery-limit": 0})
    broker.publish("", "jobs", b"1")
    channel = clients.channel()
    method, _, _ = channel.basic_get("jobs")
    channel.basic_reject(method.delivery_tag, requeue=True)
    broker.sync()

    assert ["requeue", "yes, beyond the delivery limit"] in event_of(clients.story(), "rejected")["detail"]


def test_a_client_that_connects_again_keeps_its_lane_and_folds_what_it_declares_again(broker, clients):
    for body in (b"1", b"2", b"3"):
        channel = clients.channel("shop")
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", body)
        channel.connection.close()
        broker.wait_idle()

    story = clients.story()

    assert [lane["label"] for lane in story["lanes"] if lane["kind"] == "client"] == ["c1 … c3 shop"]
    assert {event["from"] for event in story["events"] if event["kind"] == "published"} == {story["lanes"][0]["id"]}
    assert [event.get("setup") for event in story["events"] if event["kind"] == "queue_declare"] == [True, True, True]


def test_clients_of_one_name_that_are_connected_at_once_have_a_lane_each(broker, clients):
    broker.declare_queue("orders")
    for body in (b"1", b"2"):
        clients.channel("shop").basic_publish("", "orders", body)
    broker.wait_idle()

    lanes = [lane["label"] for lane in clients.story()["lanes"] if lane["kind"] == "client"]
    assert lanes == ["c1 shop", "c2 shop"]


def test_a_fault_that_never_fired_is_listed(broker, clients):
    broker.faults.reset_peer(on="basic.ack", optional=True)

    (fault,) = clients.story()["brokers"][0]["faults"]

    assert fault["fired"] == 0
    assert fault["events"] == []
    assert "reset_peer on basic.ack" in fault["text"]


def test_a_leap_of_time_is_on_the_event_after_it(broker, clients):
    broker.declare_queue("jobs", arguments={"x-message-ttl": 60_000})
    broker.publish("", "jobs", b"1")
    broker.clock.advance(hours=1)

    story = clients.story()

    expired = event_of(story, "expired")
    assert 59_000_000 < expired["leap"] <= 60_000_000
    assert [event["kind"] for event in story["events"] if "leap" in event] == ["expired"]
    assert story["brokers"][0]["clock"] == "held"
    assert expired["t"] - expired["wall"] >= expired["leap"]


def test_a_real_clock_never_leaps(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")

    story = clients.story()

    assert story["brokers"][0]["clock"] == "real"
    assert not any("leap" in event for event in story["events"])


def test_a_returned_message_reached_no_queue(broker, clients):
    channel = clients.channel()
    channel.basic_publish("amq.topic", "nowhere", b"1", mandatory=True)
    broker.sync()

    story = clients.story()

    assert message_of(story)["outcome"].startswith("returned (")
    assert message_of(story)["tone"] == "bad"
    assert "copies" not in message_of(story)


def test_a_refusal_names_code_and_text(clients):
    channel = clients.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("missing", passive=True)

    refused = event_of(clients.story(), "refused")

    assert refused["text"].startswith("c1/ch1 was refused: 404 NOT_FOUND")
    assert refused["across"]
    assert "test_story.py" in refused["line"]


def test_what_strict_checks_found_is_listed_and_still_reported(tmp_path):
    page = tmp_path / "page.html"
    broker = Broker(checks="unroutable=error").start()
    broker.publish("", "nowhere", b"1")
    broker.save_page(page)
    broker.stop()

    (check,) = story_in(page)["brokers"][0]["checks"]

    assert (check["name"], check["level"], check["messages"]) == ("unroutable", "error", [1])
    with pytest.raises(CheckFailedError, match="nowhere"):
        broker.check()


def test_an_empty_test_has_an_empty_story(clients):
    story = clients.story()

    assert story["events"] == []
    assert story["messages"] == []
    assert story["lanes"] == []
    assert story["brokers"][0]["rabbitmq"] == "4.3"
    assert story["brokers"][0]["seed"] == 5


def test_a_page_of_a_broker_that_records_nothing_is_refused(tmp_path):
    with Broker(record="off") as broker, pytest.raises(BrokerError, match="record='recent'"):
        broker.save_page(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_virtual_host_other_than_the_usual_is_named(broker, clients):
    broker.admin.add_vhost("shop")
    broker.declare_queue("jobs", vhost="shop")

    story = clients.story()

    assert [(lane["id"], lane["label"]) for lane in story["lanes"] if lane["kind"] == "queue"] == [
        ("b1/q@shop/jobs", "jobs (vhost shop)")
    ]


def test_two_brokers_without_a_name_are_named_by_their_order():
    with Broker() as first, Broker() as second:
        for broker in (first, second):
            broker.declare_queue("jobs")
        readings = [Harness(broker).reading("test_it") for broker in (first, second)]
        story = story_of(readings, EndedTest("test_it"), source="memory")

    assert [broker["title"] for broker in story["brokers"]] == [
        f"first broker (port {first.port})",
        f"second broker (port {second.port})",
    ]


def test_the_instant_of_the_failure_is_by_both_clocks_and_ends_both_spans():
    with Broker() as broker:
        broker.declare_queue("jobs")
        broker.clock.advance(hours=1)
        reading = Harness(broker).reading("test_it")
        failed_at = reading.times(reading.timeline.facts[0])[1] + 500_000
        story = story_of([reading], EndedTest("test_it", "failed", failed_at=failed_at), source="memory")

    test = story["test"]
    assert test["failed_at"]["wall"] == 500_000
    assert test["failed_at"]["t"] >= 3_600_000_000
    assert (test["seconds"], test["broker_seconds"]) == (0.5, test["failed_at"]["t"] / 1_000_000)
