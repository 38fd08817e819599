"""At-least-once dead letters that wait for a target: what they count for in the queue where they died."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario
from .quorum import quorum

STRATEGY = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}


def waiting(s: Run, count: int, **arguments: object) -> Channel:
    """Return a channel on which this many messages were rejected in ``q``, and wait for the missing queue ``dead``."""
    ch = full_of(s, count, **arguments)
    for _ in range(count):
        ch.reject(ch.get("q"), requeue=False)
    ch.await_count("q", 0)
    return ch


def full_of(s: Run, count: int, **arguments: object) -> Channel:
    """Return a channel that confirms, on which ``q`` holds this many messages."""
    ch = quorum(s, **{"dead_letter_exchange": "", "dead_letter_routing_key": "dead", **STRATEGY, **arguments})
    ch.confirm_select()
    publish(ch, *(f"m{number}" for number in range(count)))
    return ch


def publish(ch: Channel, *bodies: str) -> None:
    """Publish these bodies, each confirmed before the next."""
    for body in bodies:
        ch.publish("", "q", body)
        ch.confirms()


@scenario
def what_waits_counts_towards_the_length(s: Run) -> None:
    ch = waiting(s, 3, max_length=3)
    publish(ch, "4", "5", "6")

    ch.get_all("q")


@scenario
def what_waits_counts_towards_the_bytes(s: Run) -> None:
    ch = waiting(s, 3, max_length_bytes=8)
    publish(ch, "44", "55", "66", "77", "88")

    ch.get_all("q")


@scenario
def what_waits_counts_without_an_exchange(s: Run) -> None:
    ch = waiting(s, 3, max_length=3, dead_letter_exchange="nowhere")
    publish(ch, "4", "5", "6")

    ch.get_all("q")


@scenario
def what_expired_and_waits_counts(s: Run) -> None:
    ch = full_of(s, 3, max_length=3, message_ttl=100)
    s.elapse(300)
    ch.await_count("q", 0)
    publish(ch, "4", "5", "6")


@scenario
def what_was_delivered_too_often_and_waits_counts(s: Run) -> None:
    ch = full_of(s, 3, max_length=3, delivery_limit=0)
    for _ in range(3):
        ch.nack(ch.get("q"))
    ch.await_count("q", 0)
    publish(ch, "4", "5", "6")

    ch.get_all("q")


@scenario
def what_a_consumer_rejected_counts(s: Run) -> None:
    ch = full_of(s, 3, max_length=3)
    ch.qos(3)
    ch.consume("q")
    for delivery in ch.deliveries(3):
        ch.reject(delivery, requeue=False)
    ch.cancel()
    publish(ch, "4", "5", "6")

    ch.get_all("q")


@scenario
def a_reject_that_exceeds_the_length_stops_publishers(s: Run) -> None:
    ch = full_of(s, 3, max_length=3)
    first = [ch.get("q") for _ in range(3)]
    publish(ch, "4", "5", "6")
    for delivery in first:
        ch.reject(delivery, requeue=False)
    s.elapse(500)
    publish(ch, "7", "8")

    ch.get_all("q")


@scenario
def what_waits_does_not_count_once_the_strategy_is_another(s: Run) -> None:
    ch = quorum(s, max_length=3, dead_letter_exchange="", dead_letter_routing_key="dead", overflow="reject-publish")
    s.operator.set_policy(s.vhost, "p", "^q$", {"dead-letter-strategy": "at-least-once"})
    ch.confirm_select()
    publish(ch, "1", "2", "3")
    for _ in range(3):
        ch.reject(ch.get("q"), requeue=False)
    publish(ch, "4", "5")
    s.operator.clear_policy(s.vhost, "p")
    publish(ch, "6", "7", "8")

    ch.get_all("q")


@scenario
def what_waits_is_gone_once_the_overflow_is_another(s: Run) -> None:
    ch = quorum(s, max_length=3, dead_letter_exchange="", dead_letter_routing_key="dead")
    definition = {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
    s.operator.set_policy(s.vhost, "p", "^q$", definition)
    ch.confirm_select()
    publish(ch, "1", "2", "3")
    for _ in range(3):
        ch.reject(ch.get("q"), requeue=False)
    ch.await_count("q", 0)
    s.operator.set_policy(s.vhost, "p", "^q$", {**definition, "overflow": "drop-head"})
    s.elapse(300)
    s.operator.set_policy(s.vhost, "p", "^q$", definition)
    s.elapse(300)
    publish(ch, "6", "7", "8", "9", "10")
    ch.purge("q")


@scenario
def what_waits_is_gone_once_the_exchange_is(s: Run) -> None:
    ch = quorum(s, max_length=3)
    definition = {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
    target = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    s.operator.set_policy(s.vhost, "p", "^q$", {**definition, **target})
    ch.confirm_select()
    publish(ch, "1", "2", "3")
    for _ in range(3):
        ch.reject(ch.get("q"), requeue=False)
    ch.await_count("q", 0)
    s.operator.set_policy(s.vhost, "p", "^q$", definition)
    s.elapse(300)
    publish(ch, "6", "7", "8", "9", "10")
    ch.purge("q")


@scenario
def what_waits_stays_if_the_target_is_another(s: Run) -> None:
    ch = quorum(s, max_length=3)
    definition = {"dead-letter-strategy": "at-least-once", "overflow": "reject-publish"}
    target = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    s.operator.set_policy(s.vhost, "p", "^q$", {**definition, **target})
    ch.confirm_select()
    publish(ch, "1", "2", "3")
    for _ in range(3):
        ch.reject(ch.get("q"), requeue=False)
    ch.await_count("q", 0)
    s.operator.set_policy(s.vhost, "p", "^q$", {**definition, **target, "dead-letter-routing-key": "nowhere"})
    s.elapse(300)
    publish(ch, "6", "7", "8", "9", "10")
    ch.purge("q")


@scenario
def what_waits_is_not_shown(s: Run) -> None:
    ch = waiting(s, 2, max_length=3)

    ch.delete("q")
    ch.declare("q")


@scenario
def a_purge_of_what_waits(s: Run) -> None:
    ch = waiting(s, 3, max_length=3)

    ch.purge("q")
    publish(ch, "4", "5", "6", "7", "8")
    ch.get_all("q")


@scenario
def a_purge_of_what_waits_and_is_ready(s: Run) -> None:
    ch = waiting(s, 2, max_length=9)
    publish(ch, "3", "4", "5")
    ch.get("q")

    ch.purge("q")
    ch.purge("q")


@scenario
def a_purge_of_what_waits_and_expired(s: Run) -> None:
    ch = full_of(s, 3, max_length=9, message_ttl=100)
    s.elapse(300)
    ch.await_count("q", 0)

    ch.purge("q")


@scenario
def a_purge_of_what_was_delivered_too_often_and_waits(s: Run) -> None:
    ch = full_of(s, 2, delivery_limit=0)
    for _ in range(2):
        ch.nack(ch.get("q"))
    ch.await_count("q", 0)

    ch.purge("q")


@scenario
def publishers_go_on_once_little_waits(s: Run) -> None:
    ch = full_of(s, 10, max_length=10)
    first = [ch.get("q") for _ in range(10)]
    for delivery in first[:7]:
        ch.reject(delivery, requeue=False)
    publish(ch, "11", "12", "13", "14", "15", "16")
    for delivery in first[7:]:
        ch.ack(delivery)

    ch.get_all("q")


@scenario
def what_waits_for_a_full_target_counts(s: Run) -> None:
    other = s.channel()
    other.declare("dead", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    other.fill("dead", "in the way")
    ch = waiting(s, 3, max_length=3)
    publish(ch, "4", "5", "6")

    ch.get_all("q")


@scenario
def a_target_that_takes_all_leaves_nothing_waiting(s: Run) -> None:
    other = s.channel()
    other.declare("dead")
    ch = waiting(s, 3, max_length=3)
    other.await_count("dead", 3)
    publish(ch, "4", "5", "6", "7", "8")
    ch.purge("q")

    other.get_all("dead")


@scenario
def what_waits_keeps_dead_letters_of_others_out(s: Run) -> None:
    ch = waiting(s, 3, max_length=2)
    more = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    ch.declare("other", arguments={**more, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})
    ch.publish("", "other", "letter")
    ch.confirms()
    ch.reject(ch.get("other"), requeue=False)
    ch.await_count("other", 0)

    ch.get_all("q")
