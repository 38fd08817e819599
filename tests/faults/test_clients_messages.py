"""How unmodified client libraries react to faults on messages and on the whole broker, over real sockets."""

from __future__ import annotations

import amqp
import pytest
from pika.exceptions import ConnectionClosedByBroker

from leveret import BrokerError, WaitTimeoutError
from leveret.faults import Fault
from tests.faults.conftest import PATIENCE, bodies


def consumed(channel, count):
    """Return the body and the redelivered flag of the next messages."""
    seen = []
    for method, _, body in channel.consume("work", inactivity_timeout=PATIENCE):
        assert method is not None, f"saw only {seen}"
        seen.append((body, method.redelivered))
        channel.basic_ack(method.delivery_tag)
        if len(seen) == count:
            return seen
    raise AssertionError(f"cancelled after {seen}")


def test_pika_gets_a_message_twice_and_out_of_order(broker, channel):
    broker.faults.redeliver(body=b"1", times=1)
    broker.faults.reorder(3, times=3, optional=True)
    for number in range(3):
        broker.publish("", "work", b"%d" % number)

    seen = []
    for method, _, body in channel.consume("work", inactivity_timeout=PATIENCE):
        seen.append((body, method.redelivered))
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 4:
            break

    assert sorted(seen) == [(b"0", False), (b"1", False), (b"1", True), (b"2", False)]


@pytest.mark.parametrize(
    ("set_fault", "text"),
    [
        (
            lambda faults: faults.reorder(3, seconds=60),
            "2 deliveries from work held back by the fault reorder for 1 min",
        ),
        (lambda faults: faults.delay("basic.deliver", seconds=90, body=b"2"), "1 delivery from work held back by the"),
    ],
)
def test_a_broker_is_not_idle_while_a_fault_holds_back_messages_for_pika(broker, channel, set_fault, text):
    broker.clock.hold()
    set_fault(broker.faults)
    channel.basic_consume("work", lambda *_: None, auto_ack=True)
    broker.publish("", "work", b"1")
    broker.publish("", "work", b"2")

    with pytest.raises(WaitTimeoutError, match=text):
        broker.wait_idle(timeout=0.01)
    broker.clock.advance(90)

    broker.wait_idle()
    broker.assert_delivered("work", times=2)


class Swallow(Fault):
    """A fault that takes deliveries over and does nothing with them."""

    name = "swallow"

    def apply(self, occasion):
        return True


class SendLate(Fault):
    """A fault that sends a delivery after it has let it go."""

    name = "send_late"

    def apply(self, occasion):
        occasion.call_later(1000, occasion.proceed)
        return True


def test_a_delivery_that_a_custom_fault_swallows_is_held_by_its_consumer(broker, channel):
    broker.faults.add(on="basic.deliver", do=Swallow())
    channel.basic_consume("work", lambda *delivery: None)
    broker.publish("", "work", b"x")

    assert [held.body for held in broker.queue("work").unacked] == [b"x"]
    with pytest.raises(AssertionError, match="is unacked in 'work', held by"):
        broker.assert_acked("work")
    channel.close()

    assert bodies(broker) == [b"x"]


def test_a_custom_fault_cannot_send_a_delivery_that_it_has_let_go(broker, channel):
    broker.clock.hold()
    broker.faults.add(on="basic.deliver", do=SendLate())
    channel.basic_consume("work", lambda *delivery: None)
    broker.publish("", "work", b"x")

    with pytest.raises(BrokerError, match=r"proceed\(\) comes too late: .* occasion\.hold_for"):
        broker.clock.advance(1, settle=0)


def test_a_broker_waits_for_a_reply_to_pika_that_a_fault_holds_back(broker, connect):
    broker.clock.hold()
    broker.faults.delay("basic.publish", seconds=60)
    connect().channel().basic_publish("", "work", b"x")

    with pytest.raises(WaitTimeoutError, match=r"1 basic\.publish held back by the fault delay for 1 min 0 s more of"):
        broker.wait_idle(timeout=0.01)
    broker.clock.advance(60)

    broker.wait_idle()
    assert bodies(broker) == [b"x"]


def test_time_jumps_to_when_a_fault_releases_a_delivery_to_pika(broker, channel):
    broker.faults.delay("basic.deliver", seconds=3600)
    broker.publish("", "work", b"x")

    with broker.clock.autojump():
        _, _, body = next(channel.consume("work", auto_ack=True, inactivity_timeout=PATIENCE))

    assert body == b"x"


def test_pika_never_learns_that_a_confirmed_message_was_lost(broker, channel):
    channel.confirm_delivery()
    broker.faults.drop()

    channel.basic_publish("", "work", b"x")

    assert bodies(broker) == []
    assert len(broker.events.query("dropped", reason="fault")) == 1


def test_py_amqp_sees_a_restart_in_the_middle_of_a_declaration(broker):
    broker.faults.restart(on="queue.declare")
    connection = amqp.Connection(broker.url.removeprefix("amqp://guest:guest@"), connect_timeout=PATIENCE)
    connection.connect()

    with pytest.raises(connection.recoverable_connection_errors):
        connection.channel().queue_declare("new", durable=True)

    assert [queue.name for queue in broker.queues] == ["work"]


def test_pika_gets_a_message_twice_without_the_redelivered_flag(broker, channel):
    broker.faults.duplicate(body=b"1")
    channel.basic_qos(prefetch_count=1)
    broker.publish("", "work", b"1")
    broker.publish("", "work", b"2")

    assert consumed(channel, 3) == [(b"1", False), (b"1", False), (b"2", False)]
    channel.cancel()
    broker.assert_acked("work", times=3)


def test_pika_gets_messages_in_another_order(broker, channel):
    broker.faults.reorder(4)
    sent = [b"%d" % number for number in range(4)]
    for body in sent:
        broker.publish("", "work", body)

    seen = [body for body, _ in consumed(channel, 4)]

    assert sorted(seen) == sent
    assert seen != sent


def test_a_lost_delivery_to_pika_returns_when_its_connection_ends(broker, connect):
    broker.faults.drop("basic.deliver", times=1)
    broker.publish("", "work", b"1")
    broker.publish("", "work", b"2")
    first = connect()
    assert consumed(first.channel(), 1) == [(b"2", False)]

    first.close()

    assert consumed(connect().channel(), 1) == [(b"1", True)]


def test_a_message_returns_after_pikas_ack_was_lost(broker, connect):
    broker.faults.drop("basic.ack")
    broker.publish("", "work", b"1")
    first = connect()
    assert consumed(first.channel(), 1) == [(b"1", False)]

    first.close()

    assert bodies(broker) == [b"1"]
    assert broker.queue("work").ready[0].redelivered


def test_a_publish_of_pika_expires_at_once_and_is_dead_lettered(broker, channel):
    to_work = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"}
    channel.queue_declare("dying", durable=True, arguments=to_work)
    broker.faults.expire(queue="dying", body=b"2")

    for body in (b"1", b"2"):
        channel.basic_publish("", "dying", body)

    broker.assert_dead_lettered("dying", to="work", reason="expired", body=b"2", timeout=PATIENCE)
    assert bodies(broker) == [b"2"]


def test_pika_sees_a_restart_at_the_given_time(broker, channel):
    broker.faults.restart(at=3600)
    broker.clock.advance(3600)

    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED"):
        channel.connection.process_data_events(PATIENCE)
