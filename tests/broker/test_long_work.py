"""Work that takes many turns of the broker: a test that looks sees it done."""

from __future__ import annotations

from leveret import Broker

LENGTH = 300


def declare_chain(broker: Broker) -> str:
    """Declare a chain of queues in which messages expire at once, and return the name of the last."""
    for number in range(LENGTH):
        following = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"link{number + 1}"}
        broker.declare_queue(f"link{number}", arguments={"x-message-ttl": 0, **following})
    broker.declare_queue(f"link{LENGTH}")
    return f"link{LENGTH}"


def test_a_view_shows_the_end_of_a_chain_that_a_client_has_started(broker: Broker, channel) -> None:
    last = declare_chain(broker)

    channel.basic_publish("", "link0", b"1")

    assert len(broker.queue(last).ready) == 1


def test_a_publish_of_the_test_returns_at_the_end_of_its_chain(broker: Broker) -> None:
    last = declare_chain(broker)

    broker.publish("", "link0", b"1")

    assert broker.purge_queue(last) == 1


def test_a_clients_next_request_comes_after_the_chain_it_has_started(broker: Broker, channel) -> None:
    last = declare_chain(broker)

    channel.basic_publish("", "link0", b"1")

    _, properties, body = channel.basic_get(last, auto_ack=True)
    assert (body, len(properties.headers["x-death"])) == (b"1", LENGTH)


def test_a_stopped_broker_shows_the_end_of_a_chain(channel, broker: Broker) -> None:
    last = declare_chain(broker)

    channel.basic_publish("", "link0", b"1")
    broker.sync()
    channel.basic_publish("", "link0", b"2")
    broker.stop()

    assert len(broker.queue(last).ready) >= 1
    assert not any(broker.queue(f"link{number}").ready for number in range(LENGTH))


def test_moving_the_clock_finishes_a_chain_before_it_moves(broker: Broker, channel) -> None:
    last = declare_chain(broker)
    broker.clock.hold()
    before = broker.clock.now

    channel.basic_publish("", "link0", b"1")
    broker.clock.advance(hours=1)

    [letter] = broker.queue(last).ready
    assert {death.time for death in letter.deaths} == {int(before)}
