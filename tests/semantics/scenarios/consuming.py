"""Consumers of a classic queue: subscribing, deliveries, cancelling."""

from __future__ import annotations

from ..client import Event
from ..scenario import Channel, Run, scenario


def queue_with(s: Run, *bodies: str) -> Channel:
    """Return a channel that declared ``q`` and published these bodies to it."""
    ch = s.channel()
    ch.declare("q")
    if bodies:
        ch.fill("q", *bodies)
    return ch


def bodies(events: list[Event]) -> list[str]:
    return [event.body.decode() for event in events]


@scenario
def consume_ok_comes_before_the_first_delivery(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.consume("q")

    ch.deliveries(2)


@scenario
def a_server_made_consumer_tag(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.consume("q", "")
    ch.consume("q", "")

    ch.deliveries(1)


@scenario
def a_consumer_tag_may_not_be_used_twice(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q", "c")
    ch.consume("q", "c")


@scenario
def a_consumer_tag_is_free_again_after_cancel(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q", "c")
    ch.cancel("c")

    ch.consume("q", "c")


@scenario
def a_consumer_tag_may_be_used_on_two_channels(s: Run) -> None:
    one = queue_with(s)
    two = s.channel()
    one.consume("q", "c")

    two.consume("q", "c")


@scenario
def delivery_tags_count_on_a_channel_for_all_that_is_given_out(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4")
    ch.get("q")
    ch.get("q", no_ack=True)
    ch.consume("q", no_ack=True)
    ch.deliveries(2)
    ch.cancel()
    ch.fill("q", "5")

    ch.get("q")


@scenario
def get_tells_how_many_are_left(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3")
    for _ in range(4):
        ch.get("q")


@scenario
def get_ignores_prefetch_and_consumers(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4")
    ch.qos(1)
    ch.consume("q", exclusive=True)
    ch.deliver()

    ch.get("q")
    s.channel().get("q")


@scenario
def no_ack_deliveries_are_settled_at_once(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.qos(1)
    ch.consume("q", no_ack=True)
    ch.deliveries(2)
    ch.close()

    s.channel().get("q")


@scenario
def no_local_is_ignored(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q", no_local=True)
    ch.publish("", "q", "own")

    ch.deliver()


@scenario
def cancelling_an_unknown_tag_is_fine(s: Run) -> None:
    queue_with(s).cancel("nobody")


@scenario
def nothing_is_delivered_after_cancel_ok(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q")
    ch.cancel()
    ch.fill("q", "1")

    ch.sync()


@scenario
def unacked_deliveries_of_a_cancelled_consumer_stay_with_the_channel(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.consume("q")
    first, _ = ch.deliveries(2)
    ch.cancel()
    ch.passive("q")
    ch.ack(first)
    ch.close()

    again = s.channel()
    again.await_count("q", 1)
    again.get("q")


@scenario
def an_exclusive_consumer_bars_others(s: Run) -> None:
    one = queue_with(s, "1")
    one.consume("q", exclusive=True)
    s.channel().consume("q")
    s.channel().consume("q", exclusive=True)
    one.cancel()
    s.channel().consume("q")


@scenario
def an_exclusive_consumer_needs_to_be_alone(s: Run) -> None:
    queue_with(s).consume("q")
    s.channel().consume("q", exclusive=True)


@scenario
def consumers_are_served_in_turn(s: Run) -> None:
    channels = [queue_with(s), s.channel(), s.channel()]
    for ch in channels:
        ch.consume("q")
    publisher = s.channel()
    for number in range(1, 10):
        publisher.publish("", "q", str(number))

    for ch in channels:
        ch.deliveries(3)


@scenario
def a_consumer_takes_its_prefetch_from_a_backlog(s: Run) -> None:
    one = queue_with(s, "1", "2", "3", "4", "5")
    one.qos(2)
    one.consume("q")
    one.deliveries(2)
    two = s.channel()
    two.qos(2)
    two.consume("q")
    two.deliveries(2)

    two.await_count("q", 1)


@scenario
def a_free_credit_brings_the_next_message(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3")
    ch.qos(1)
    ch.consume("q")
    ch.ack(ch.deliver())
    ch.nack(ch.deliver(), requeue=False)

    ch.deliver()


@scenario
def consumers_of_higher_priority_come_first(s: Run) -> None:
    low, high = queue_with(s), s.channel()
    low.consume("q", arguments={"x-priority": -1})
    high.qos(2)
    high.consume("q", arguments={"x-priority": 5})
    publisher = s.channel()
    for number in range(1, 5):
        publisher.publish("", "q", str(number))

    high.deliveries(2)
    low.deliveries(2)


@scenario
def a_missing_consumer_priority_is_zero(s: Run) -> None:
    plain, low = queue_with(s), s.channel()
    low.consume("q", arguments={"x-priority": -1})
    plain.qos(1)
    plain.consume("q")
    s.channel().publish("", "q", "1")
    plain.deliver()
    s.channel().publish("", "q", "2")

    low.deliver()


@scenario
def a_consumer_priority_must_be_an_integer(s: Run) -> None:
    queue_with(s)
    for value in ("5", True, 1.5):
        s.channel().consume("q", arguments={"x-priority": value})


@scenario
def arguments_of_stream_consumers_on_a_classic_queue(s: Run) -> None:
    queue_with(s)
    for name in ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"):
        s.channel().consume("q", arguments={name: "first"})
    s.channel().consume("q", arguments={"foo": "bar"})


@scenario(versions=("4.3",))
def a_consumer_timeout_on_a_classic_queue(s: Run) -> None:
    queue_with(s).consume("q", arguments={"x-consumer-timeout": 1000})


@scenario
def a_requeued_message_goes_to_the_next_consumer(s: Run) -> None:
    one, two = queue_with(s), s.channel()
    for ch in (one, two):
        ch.qos(1)
        ch.consume("q")
    s.channel().publish("", "q", "1")
    for ch in (one, two, one):
        ch.nack(ch.deliver())

    two.deliver()


@scenario
def a_deleted_queue_cancels_its_consumers(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.consume("q", "c1")
    ch.consume("q", "c2")
    delivery = ch.deliver()
    s.channel().delete("q")
    ch.receive("basic.cancel")
    ch.receive("basic.cancel")
    ch.ack(delivery)
    ch.cancel("c1")

    ch.sync()


@scenario
def a_consumer_tag_is_free_again_after_the_queue_is_gone(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q", "c")
    s.channel().delete("q")
    ch.receive("basic.cancel")
    ch.declare("q")

    ch.consume("q", "c")


@scenario
def a_body_is_delivered_in_frames_of_the_consumers_size(s: Run) -> None:
    publisher = queue_with(s)
    consumer = s.channel(on=s.connect(frame_max=8192))
    consumer.consume("q")
    publisher.publish("", "q", "x" * 9000)

    consumer.deliver()


@scenario
def an_empty_body_is_delivered_without_body_frames(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q")
    ch.publish("", "q", "", message_id="m")

    ch.deliver()


@scenario
def consumers_count_in_declare_ok(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.qos(1)
    ch.consume("q", "c1")
    ch.deliver()
    ch.consume("q", "c2")
    ch.deliveries(1)

    ch.await_count("q", 0)
    ch.passive("q")


@scenario
def closing_the_channel_ends_its_consumers(s: Run) -> None:
    one = queue_with(s, "1", "2")
    one.consume("q")
    one.deliveries(2)
    one.close()
    two = s.channel()
    two.await_count("q", 2)

    two.passive("q")
    two.get_all("q")


@scenario
def losing_the_socket_returns_what_is_unacked(s: Run) -> None:
    lost = s.channel(on=s.connect())
    lost.declare("q")
    lost.fill("q", "1", "2")
    lost.get("q")
    lost.connection.reset()
    other = s.channel(on=s.connect())
    other.await_count("q", 2)

    other.get_all("q")
