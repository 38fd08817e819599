"""Priorities of classic queues."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario


def filled(s: Run, messages: list[tuple[str, int | None]], **arguments: object) -> Channel:
    """Return a channel that published these (body, priority) to a priority queue."""
    ch = s.channel()
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    ch.declare("q", arguments={"x-max-priority": 5, **named})
    for body, priority in messages:
        ch.publish("", "q", body, **({} if priority is None else {"priority": priority}))
    ch.sync()
    return ch


@scenario
def the_highest_priority_comes_first(s: Run) -> None:
    ch = filled(s, [("low", 1), ("high", 5), ("mid", 3), ("high too", 5), ("none", None), ("zero", 0)])

    ch.get_all("q")


@scenario
def a_priority_above_the_maximum_is_the_maximum(s: Run) -> None:
    ch = filled(s, [("five", 5), ("nine", 9), ("five again", 5)])

    ch.get_all("q")


@scenario
def without_max_priority_there_are_none(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    for body, priority in (("low", 1), ("high", 9)):
        ch.publish("", "q", body, priority=priority)

    ch.await_count("q", 2)
    ch.get_all("q")


@scenario
def requeued_messages_return_to_their_place_in_their_priority(s: Run) -> None:
    ch = filled(s, [("h1", 5), ("h2", 5), ("l1", 1), ("l2", 1)])
    tags = [ch.get("q")["delivery_tag"] for _ in range(3)]
    for tag in (tags[2], tags[1], tags[0]):
        ch.nack(tag)
    ch.await_count("q", 4)

    ch.get_all("q")


@scenario
def overflow_drops_the_head_of_the_priority_order(s: Run) -> None:
    messages: list[tuple[str, int | None]] = [("lo1", 1), ("hi5a", 5), ("hi5b", 5), ("lo1b", 1), ("mid3", 3)]
    ch = filled(s, messages, max_length=3)

    ch.get_all("q")


@scenario
def a_low_priority_behind_a_high_one_does_not_expire(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-priority": 5})
    ch.fill("q", "low", priority=1, expiration="50")
    ch.fill("q", "high", priority=5)
    s.elapse(200)
    ch.passive("q")
    ch.get("q")

    ch.get("q")


@scenario
def a_consumer_gets_the_highest_of_a_backlog(s: Run) -> None:
    ch = filled(s, [("low", 1), ("high", 5), ("mid", 3)])
    ch.qos(1)
    ch.consume("q")
    for _ in range(3):
        ch.ack(ch.deliver())

    ch.sync()


@scenario
def a_maximum_of_zero_has_one_level(s: Run) -> None:
    ch = filled(s, [("low", 1), ("high", 5)], max_priority=0)

    ch.get_all("q")


@scenario
def a_maximum_of_zero_and_messages_without_priority(s: Run) -> None:
    messages: list[tuple[str, int | None]] = [("zero", 0), ("nine", 9), ("one", 1), ("none", None), ("two", 2)]
    ch = filled(s, messages, max_priority=0)

    ch.get_all("q")


@scenario
def a_full_queue_with_a_maximum_of_zero_drops_its_head(s: Run) -> None:
    ch = filled(s, [("zero", 0), ("nine", 9), ("one", 1), ("zero too", 0)], max_priority=0, max_length=2)

    ch.get_all("q")


@scenario
def messages_rejected_together_die_in_the_order_of_their_priorities(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-max-priority": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.consume("q")
    for body, priority in (("one", 1), ("three", 3), ("nine", 9), ("three again", 3), ("zero", 0)):
        ch.publish("", "q", body, priority=priority)
        ch.deliver()
    ch.nack(5, multiple=True, requeue=False)
    ch.await_count("dead", 5)

    ch.get_all("dead")
