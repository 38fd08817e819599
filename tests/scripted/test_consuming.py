"""A consumer that the test controls step by step."""

from __future__ import annotations

import threading

import pytest

from leveret import Broker, BrokerError, RefusedError, WaitTimeoutError


@pytest.fixture(autouse=True)
def queue(broker):
    return broker.declare_queue("orders.work")


def publish(broker, *bodies):
    for body in bodies:
        broker.publish("", "orders.work", body)


def test_next_returns_messages_one_by_one_for_the_test_to_settle(broker):
    consumer = broker.consume("orders.work")
    publish(broker, "1", "2", "3")

    consumer.next().ack()
    consumer.next().reject(requeue=False)
    consumer.next().nack()

    assert [message.text for message in consumer.messages] == ["1", "2", "3", "3"]
    assert [message.text for message in consumer.unacked] == ["3"]
    assert consumer.messages[-1].redelivered
    broker.assert_acked("orders.work", body="1", times=1)
    broker.assert_dropped("orders.work", body="2", reason="rejected")
    broker.assert_requeued("orders.work", body="3", reason="nacked")


def test_ack_settles_the_last_message_or_all_up_to_it(broker):
    consumer = broker.consume("orders.work")
    publish(broker, "1", "2", "3")
    consumer.next()
    consumer.next()

    consumer.ack(multiple=True)

    assert [message.text for message in consumer.unacked] == ["3"]


def test_prefetch_limits_its_unacked_messages(broker):
    consumer = broker.consume("orders.work", prefetch=2)
    publish(broker, "1", "2", "3")
    assert len(consumer.messages) == 2

    consumer.next().ack()

    assert len(consumer.messages) == 3
    assert broker.queue("orders.work").consumers[0].prefetch_count == 2


def test_it_takes_turns_with_other_consumers(broker, asker):
    bodies = []
    channel = asker.connection.channel()
    channel.basic_consume("orders.work", lambda channel, method, properties, body: bodies.append(body), auto_ack=True)
    consumer = broker.consume("orders.work")
    publish(broker, "1", "2", "3", "4")
    broker.sync()
    asker.connection.process_data_events(5)

    assert bodies == [b"1", b"3"]
    assert [message.text for message in consumer.messages] == ["2", "4"]


def test_a_consumer_of_higher_priority_is_served_first(broker):
    low, high = broker.consume("orders.work"), broker.consume("orders.work", priority=5, prefetch=1)
    publish(broker, "1", "2")

    assert [message.text for message in high.messages] == ["1"]
    assert [message.text for message in low.messages] == ["2"]


def test_it_waits_behind_a_single_active_consumer(broker):
    broker.declare_queue("single", arguments={"x-single-active-consumer": True})
    first, second = broker.consume("single"), broker.consume("single")
    broker.publish("", "single", "1")
    assert [message.text for message in first.messages] == ["1"]
    assert second.messages == []

    first.close()

    assert second.next().redelivered


def test_an_exclusive_consumer_excludes_others(broker):
    broker.consume("orders.work", exclusive=True)

    with pytest.raises(RefusedError, match="in exclusive use"):
        broker.consume("orders.work")
    assert len(broker.queue("orders.work").consumers) == 1


def test_with_automatic_acks_nothing_can_be_settled(broker):
    consumer = broker.consume("orders.work", ack="auto")
    publish(broker, "1")

    assert consumer.next().text == "1"
    assert consumer.unacked == []
    with pytest.raises(RefusedError, match="acknowledges automatically"):
        consumer.ack()


def test_a_message_settled_twice_is_refused(broker):
    consumer = broker.consume("orders.work")
    publish(broker, "1")
    message = consumer.next()
    message.ack()

    with pytest.raises(RefusedError, match="unknown delivery tag 1"):
        message.ack()


def test_a_quorum_queue_counts_its_deliveries_as_any_clients(broker):
    broker.declare_queue("safe", arguments={"x-queue-type": "quorum"})
    consumer = broker.consume("safe")
    broker.publish("", "safe", "1")

    consumer.next().reject()

    assert consumer.next().headers["x-delivery-count"] == 1


def test_next_waits_for_a_message_of_another_thread(broker):
    consumer = broker.consume("orders.work")
    publisher = threading.Thread(target=publish, args=(broker, "1"))
    publisher.start()

    assert consumer.next(timeout=5).text == "1"
    publisher.join()


def test_a_timeout_of_next_shows_the_state_of_the_broker(broker):
    consumer = broker.consume("orders.work", tag="mine")

    with pytest.raises(
        WaitTimeoutError,
        match=r"(?s)mine on 'orders.work' got no message within 0.01 s.*state of the broker.*consumed by the test",
    ):
        consumer.next(timeout=0.01)


async def check_twin(broker):
    consumer = broker.consume("orders.work")
    with pytest.raises(BrokerError, match=r"await consumer.aio.next"):
        consumer.next()
    publish(broker, "1", "2")
    assert consumer.next().text == "1"
    assert (await consumer.aio.next()).text == "2"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_an_event_loop_next_must_be_awaited(broker, backend):
    import anyio

    anyio.run(check_twin, broker, backend=backend)


def test_a_cancelled_consumer_keeps_its_unacked_messages(broker):
    consumer = broker.consume("orders.work")
    publish(broker, "1")

    consumer.cancel()
    publish(broker, "2")

    assert consumer.is_cancelled
    consumer.next().ack()
    with pytest.raises(BrokerError, match="gets no more messages: the test cancelled or closed it"):
        consumer.next()
    assert len(broker.queue("orders.work").ready) == 1


def test_a_closed_consumer_returns_its_unacked_messages(broker):
    with broker.consume("orders.work") as consumer:
        publish(broker, "1")
        message = consumer.next()

    assert len(broker.queue("orders.work").ready) == 1
    with pytest.raises(BrokerError, match="was closed"):
        message.ack()


def test_it_is_cancelled_with_its_queue(broker):
    consumer = broker.consume("orders.work")

    broker.delete_queue("orders.work")

    assert consumer.is_cancelled
    with pytest.raises(BrokerError, match="cancelled by the broker: queue deleted"):
        consumer.next()


def test_a_restart_ends_it(broker):
    consumer = broker.consume("orders.work")

    broker.restart()

    assert broker.queue("orders.work").consumers == ()
    with pytest.raises(BrokerError, match="CONNECTION_FORCED"):
        consumer.next()


def test_a_quorum_queue_takes_back_messages_held_past_the_consumer_timeout(broker):
    broker.declare_queue("safe", arguments={"x-queue-type": "quorum"})
    consumer = broker.consume("safe")
    broker.publish("", "safe", "1")

    broker.clock.advance(minutes=31)

    assert consumer.is_cancelled
    assert len(broker.queue("safe").ready) == 1


def test_its_unacked_messages_do_not_keep_wait_idle_waiting(broker):
    consumer = broker.consume("orders.work")
    publish(broker, "1")

    broker.wait_idle(timeout=1)

    (held,) = broker.queue("orders.work").unacked
    assert held.connection == "the test"
    assert consumer.tag in broker._engine.report()


def test_it_is_not_listed_as_a_connection(broker):
    broker.consume("orders.work")

    assert broker.connections == []
    assert broker.events.query("conn_open", "chan_open") == []


def test_its_events_have_no_connection(broker):
    consumer = broker.consume("orders.work")
    publish(broker, "1")
    consumer.next().ack()

    told = broker.events.query("consume", "delivered", "acked")

    assert [(event.kind, event.conn) for event in told] == [("consume", None), ("delivered", None), ("acked", None)]


def test_the_event_exchange_does_not_report_it():
    with Broker(plugins={"rabbitmq_event_exchange"}) as broker:
        broker.declare_queue("orders.work")
        broker.declare_queue("told")
        broker.bind_queue("told", "amq.rabbitmq.event", "consumer.#")
        broker.consume("orders.work").cancel()

        assert broker.queue("told").ready == ()
