"""Single active consumer on classic queues."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario


def consumers(s: Run, *priorities: int) -> list[Channel]:
    """Subscribe these consumers in this order to a single-active queue, each on a channel of its own."""
    channels = [s.channel() for _ in priorities]
    channels[0].declare("q", arguments={"x-single-active-consumer": True})
    for ch, priority in zip(channels, priorities, strict=True):
        ch.consume("q", arguments={"x-priority": priority} if priority else {})
    return channels


@scenario
def the_first_consumer_is_active(s: Run) -> None:
    one, _ = consumers(s, 0, 0)
    for body in ("1", "2", "3"):
        one.publish("", "q", body)

    one.deliveries(3)


@scenario
def a_later_higher_priority_does_not_take_over(s: Run) -> None:
    low, _ = consumers(s, 0, 5)
    low.publish("", "q", "1")

    low.deliver()


@scenario
def when_the_active_one_is_cancelled_the_highest_waiting_follows(s: Run) -> None:
    first, _, high = consumers(s, 0, 0, 5)
    first.cancel()
    first.publish("", "q", "1")

    high.deliver()


@scenario
def when_the_active_channel_closes_the_oldest_waiting_follows(s: Run) -> None:
    first, second, _ = consumers(s, 0, 0, 0)
    first.publish("", "q", "1")
    first.deliver()
    first.close()

    second.deliver()


@scenario
def unacked_messages_of_a_cancelled_active_stay_with_it(s: Run) -> None:
    first, second = consumers(s, 0, 0)
    publisher = s.channel()
    publisher.publish("", "q", "1")
    first.deliver()
    first.cancel()
    publisher.publish("", "q", "2")
    second.deliver()
    first.close()

    second.deliver()


@scenario
def waiting_consumers_are_counted(s: Run) -> None:
    one, _, _ = consumers(s, 0, 0, 0)

    one.passive("q")


@scenario
def an_exclusive_consumer_is_refused(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-single-active-consumer": True})

    ch.consume("q", exclusive=True)


@scenario
def get_is_allowed(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-single-active-consumer": True})
    ch.fill("q", "1")

    ch.get("q")


@scenario
def the_active_consumers_prefetch_holds(s: Run) -> None:
    one = s.channel()
    one.declare("q", arguments={"x-single-active-consumer": True})
    one.qos(1)
    one.consume("q")
    two = s.channel()
    two.consume("q")
    two.publish("", "q", "1")
    two.publish("", "q", "2")
    first = one.deliver()
    two.await_count("q", 1)
    one.ack(first)

    one.deliver()


def on_one_channel(s: Run, *bodies: str, **arguments: object) -> Channel:
    """Subscribe two consumers on one channel to a single-active queue, with room for one delivery each."""
    ch = s.channel()
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    ch.declare("q", arguments={"x-single-active-consumer": True, **named})
    ch.fill("q", *bodies)
    ch.qos(1)
    ch.consume("q", "one")
    ch.consume("q", "two")
    return ch


@scenario(versions=("4.3", "4.0"))
def cancel_ok_comes_before_what_the_next_consumer_of_the_channel_gets(s: Run) -> None:
    ch = on_one_channel(s, "1", "2")
    ch.deliver()
    ch.cancel("one")

    ch.deliver()


@scenario
def cancel_ok_and_the_next_consumer_of_a_quorum_queue(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", queue_type="quorum")
    ch.deliver()
    ch.cancel("one")

    ch.deliver()


@scenario
def cancel_without_an_answer_and_the_next_consumer(s: Run) -> None:
    ch = on_one_channel(s, "1", "2")
    first = ch.deliver()
    ch.send("basic.cancel", consumer_tag="one", nowait=True)
    ch.sync()
    ch.nack(first)

    ch.deliver()


@scenario
def cancel_ok_comes_before_the_end_of_an_auto_delete_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q", auto_delete=True)
    ch.consume("q")
    ch.cancel()

    ch.passive("q")


@scenario(versions=("3.10",))
def the_next_consumer_is_not_served_after_an_ack(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    first = ch.deliver()
    ch.cancel("one")
    ch.sync()
    ch.await_count("q", 2)
    ch.ack(first)
    ch.sync()
    ch.await_count("q", 2)


@scenario(versions=("3.10",))
def what_is_requeued_comes_first_to_the_next_consumer(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    first = ch.deliver()
    ch.cancel("one")
    ch.await_count("q", 2)
    ch.reject(first)

    ch.deliver()


@scenario(versions=("3.10",))
def the_next_consumer_is_not_served_after_a_get(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    ch.deliver()
    ch.cancel("one")
    other = s.channel()
    other.await_count("q", 2)
    other.get("q")
    other.sync()
    ch.sync()
    other.await_count("q", 1)


@scenario(versions=("3.10",))
def the_next_consumer_is_served_after_another_consumes(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    ch.deliver()
    ch.cancel("one")
    other = s.channel()
    other.await_count("q", 2)
    other.consume("q", "three")
    ch.deliver()
    other.await_count("q", 1)


@scenario(versions=("3.10",))
def the_next_consumer_is_not_served_when_the_queue_is_looked_at(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    ch.deliver()
    ch.cancel("one")
    other = s.channel()
    other.declare("q", arguments={"x-single-active-consumer": True})
    other.bind("q", "amq.fanout")
    other.qos(5)
    other.sync()
    other.await_count("q", 2)


@scenario(versions=("3.10",))
def the_next_consumer_is_not_served_when_an_idle_one_is_cancelled(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    ch.deliver()
    ch.consume("q", "three")
    ch.cancel("one")
    ch.sync()
    ch.cancel("three")
    ch.sync()
    ch.await_count("q", 2)


@scenario
def the_next_consumer_is_served_when_the_active_channel_ends(s: Run) -> None:
    one, two = consumers(s, 0, 0)
    other = s.channel()
    other.fill("q")
    one.qos(1)
    other.publish("", "q", "1")
    other.publish("", "q", "2")
    one.deliveries(2)
    one.close()

    two.deliveries(2)


@scenario(versions=("3.10",))
def the_next_consumer_is_not_served_after_an_ack_of_another_delivery(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-single-active-consumer": True})
    ch.fill("q", "0", "1", "2", "3")
    other = s.channel()
    fetched = other.get("q")
    ch.qos(1)
    ch.consume("q", "one")
    ch.consume("q", "two")
    ch.deliver()
    ch.cancel("one")
    other.await_count("q", 2)
    other.ack(fetched)
    other.sync()
    other.await_count("q", 2)


@scenario(versions=("3.10",))
def the_next_consumer_is_not_served_when_a_message_is_rejected(s: Run) -> None:
    ch = on_one_channel(s, "1", "2", "3")
    first = ch.deliver()
    ch.cancel("one")
    ch.await_count("q", 2)
    ch.reject(first, requeue=False)
    ch.sync()
    ch.passive("q")
