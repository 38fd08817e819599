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
