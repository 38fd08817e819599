"""Quorum queues over time and with other queues: timeouts, delayed retry, priorities, dead letters."""

from __future__ import annotations

from ..client import CAPABILITIES
from ..scenario import Run, scenario
from .quorum import QUORUM, quorum


@scenario(versions=("4.3",))
def priorities_are_strict(s: Run) -> None:
    ch = quorum(s)
    for body, priority in (("p0", 0), ("p4", 4), ("p5", 5), ("p9", 9), ("p31", 31), ("p40", 40)):
        ch.fill("q", body, priority=priority)
    ch.fill("q", "none")

    ch.get_all("q")


@scenario(versions=("4.3",))
def returned_messages_lose_their_priority(s: Run) -> None:
    ch = quorum(s)
    for priority in (1, 2, 3):
        ch.fill("q", f"p{priority}", priority=priority)
    tags = [ch.get("q")["delivery_tag"] for _ in range(3)]
    for tag in reversed(tags):
        ch.nack(tag)
    ch.fill("q", "p9", priority=9)
    ch.await_count("q", 4)

    ch.get_all("q")


@scenario(versions=("4.3",))
def rejected_to_the_next_queue_is_redelivered(s: Run) -> None:
    ch = quorum(s, dead_letter_exchange="", dead_letter_routing_key="dead")
    ch.declare("dead", arguments=QUORUM)
    ch.fill("q", "rejected", "nacked")
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)
    ch.get("dead")
    ch.nack(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario(versions=("4.3",))
def delayed_retry_of_failed_messages(s: Run) -> None:
    ch = quorum(s, "1", delayed_retry_type="failed", delayed_retry_min=1000, delayed_retry_max=1500)
    ch.reject(ch.get("q"))
    ch.sync()
    s.elapse(300)
    ch.get("q")
    s.elapse(1200)
    ch.await_count("q", 1)
    ch.nack(ch.get("q"))
    ch.await_count("q", 1)
    ch.get("q")


@scenario(versions=("4.3",))
def the_consumer_timeout_cancels_a_consumer(s: Run) -> None:
    ch = quorum(s, "1", consumer_timeout=1000)
    ch.consume("q")
    ch.deliver()
    s.elapse(15_000)
    ch.receive("basic.cancel")
    ch.await_count("q", 1)

    ch.get("q")


@scenario(versions=("4.3",))
def a_late_ack_after_the_consumer_timeout_is_silent(s: Run) -> None:
    ch = quorum(s, "1", consumer_timeout=1000)
    ch.consume("q")
    delivery = ch.deliver()
    s.elapse(15_000)
    ch.receive("basic.cancel")
    ch.cancel()
    ch.ack(delivery)
    ch.await_count("q", 1)


@scenario(versions=("4.3",))
def the_consumer_timeout_closes_the_channel_of_other_clients(s: Run) -> None:
    quorum(s, "1", consumer_timeout=1000)
    unable = s.channel(on=s.connect(capabilities={**CAPABILITIES, "consumer_cancel_notify": False}))
    unable.consume("q")
    unable.deliver()
    s.elapse(15_000)

    unable.receive()


@scenario(versions=("4.3",))
def an_unacked_get_beyond_the_consumer_timeout_closes_the_channel(s: Run) -> None:
    ch = quorum(s, "1", consumer_timeout=1000)
    ch.get("q")
    s.elapse(15_000)
    ch.receive()
    other = s.channel()
    other.await_count("q", 1)

    other.get("q")


@scenario(versions=("4.3", "4.0"))
def at_least_once_dead_letters(s: Run) -> None:
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead", "dead_letter_strategy": "at-least-once"}
    ch = quorum(s, **dead, overflow="reject-publish")
    ch.declare("dead")
    ch.fill("q", "1")
    ch.nack(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario(versions=("4.3",))
def a_message_rejected_by_a_classic_queue_arrives_counted(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead", arguments=QUORUM)
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.fill("q", "rejected", "nacked")
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)
    ch.get("dead")
    ch.nack(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario(versions=("4.3",))
def a_message_rejected_into_a_classic_queue_has_no_counts(s: Run) -> None:
    ch = quorum(s, dead_letter_exchange="", dead_letter_routing_key="dead")
    ch.declare("dead")
    ch.fill("q", "1")
    ch.reject(ch.get("q"))
    ch.await_count("q", 1)
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario(versions=("4.3",))
def delayed_retry_of_all_and_of_returned_messages(s: Run) -> None:
    for kind in ("all", "returned"):
        ch = s.channel()
        arguments = {**QUORUM, "x-delayed-retry-type": kind, "x-delayed-retry-min": 1000}
        ch.declare(kind, arguments=arguments)
        ch.fill(kind, "1")
        ch.nack(ch.get(kind))
        ch.sync()
        s.elapse(300)
        ch.get(kind)
        s.elapse(1200)
        ch.await_count(kind, 1)


@scenario(versions=("4.3",))
def an_expired_low_priority_goes_although_a_high_one_is_ahead(s: Run) -> None:
    ch = quorum(s, dead_letter_exchange="", dead_letter_routing_key="dead")
    ch.declare("dead")
    ch.fill("q", "low", priority=1, expiration="100")
    ch.fill("q", "high", priority=9)
    s.elapse(1500)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def an_unused_quorum_queue_expires(s: Run) -> None:
    ch = quorum(s, expires=500)
    s.elapse(11_000)

    ch.passive("q")


@scenario(versions=("4.3",))
def a_consumer_that_timed_out_is_still_counted(s: Run) -> None:
    ch = quorum(s, "1", "2", consumer_timeout=1000)
    other = s.channel()
    ch.qos(1)
    ch.consume("q")
    ch.deliver()
    other.passive("q")
    s.elapse(15_000)
    ch.receive("basic.cancel")
    other.await_count("q", 2)
    other.passive("q")
    other.get("q")
    other.passive("q")
    ch.close()
    other.sync()
    s.elapse(500)
    other.passive("q")


@scenario(versions=("4.3",))
def a_late_ack_and_the_count_of_consumers(s: Run) -> None:
    ch = quorum(s, "1", "2", consumer_timeout=1000)
    other = s.channel()
    ch.consume("q")
    one, two = ch.deliveries(2)
    s.elapse(15_000)
    ch.receive("basic.cancel")
    other.await_count("q", 2)
    ch.ack(one)
    ch.sync()
    s.elapse(500)
    other.passive("q")
    ch.ack(two)
    ch.sync()
    s.elapse(500)
    other.passive("q")


@scenario(versions=("4.3",))
def a_tag_that_timed_out_consumes_again(s: Run) -> None:
    ch = quorum(s, "1", consumer_timeout=1000)
    other = s.channel()
    ch.consume("q")
    ch.deliver()
    s.elapse(15_000)
    ch.receive("basic.cancel")
    other.await_count("q", 1)
    ch.consume("q")


@scenario(versions=("4.3",))
def a_tag_that_timed_out_is_cancelled_and_consumes_again(s: Run) -> None:
    ch = quorum(s, "1", consumer_timeout=1000)
    ch.consume("q")
    ch.deliver()
    s.elapse(15_000)
    ch.receive("basic.cancel")
    ch.await_count("q", 1)
    ch.cancel()
    ch.passive("q")
    ch.consume("q")
    ch.deliver()
    ch.passive("q")


@scenario(versions=("4.0", "3.10"))
def before_4_3_no_consumer_limits_how_long_it_holds(s: Run) -> None:
    ch = quorum(s, "1")
    ch.declare("classic")
    ch.fill("classic", "1")
    for queue in ("q", "classic"):
        ch.consume(queue, queue, arguments={"x-consumer-timeout": 1000})
        ch.deliver()
    s.elapse(65_000)
    ch.passive("classic")


@scenario(versions=("4.3",))
def two_consumers_that_timed_out_are_counted(s: Run) -> None:
    ch = quorum(s, "1", "2", consumer_timeout=1000)
    other = s.channel()
    ch.qos(1)
    ch.consume("q", "one")
    ch.consume("q", "two")
    ch.deliveries(2)
    s.elapse(15_000)
    ch.receive("basic.cancel")
    ch.receive("basic.cancel")
    other.await_count("q", 2)
    other.passive("q")
    other.delete("q")


@scenario
def a_quorum_queue_that_is_declared_again_is_not_in_use(s: Run) -> None:
    ch = quorum(s, expires=7000)
    s.elapse(6000)
    ch.declare("q", arguments={**QUORUM, "x-expires": 7000})
    s.elapse(6000)

    ch.passive("q")


@scenario
def a_quorum_queue_that_is_declared_passively_is_not_in_use(s: Run) -> None:
    ch = quorum(s, expires=7000)
    s.elapse(6000)
    ch.passive("q")
    s.elapse(6000)

    ch.passive("q")


@scenario
def a_quorum_queue_from_which_nothing_is_got_is_in_use(s: Run) -> None:
    ch = quorum(s, expires=7000)
    s.elapse(6000)
    ch.get("q")
    s.elapse(6000)

    ch.passive("q")


@scenario
def a_quorum_queue_to_which_is_published_is_not_in_use(s: Run) -> None:
    ch = quorum(s, expires=7000)
    s.elapse(6000)
    ch.publish("", "q", "1")
    ch.sync()
    s.elapse(6000)

    ch.passive("q")


@scenario(versions=("3.10",))
def before_3_12_no_queue_limits_how_long_a_consumer_holds(s: Run) -> None:
    arguments = {"x-consumer-timeout": 1000}
    ch = quorum(s, "1", consumer_timeout=1000)
    ch.declare("classic", arguments=arguments)
    ch.fill("classic", "1")
    ch.consume("classic", "c", arguments=arguments)
    ch.consume("q", "q", arguments=arguments)
    tags = sorted(ch.deliver()["delivery_tag"] for _ in range(2))
    s.elapse(65_000)
    ch.ack(tags[1], multiple=True)
    ch.sync()
    ch.passive("classic")


@scenario(versions=("4.3",))
def a_single_active_consumer_that_timed_out(s: Run) -> None:
    ch = quorum(s, "1", "2", consumer_timeout=1000, single_active_consumer=True)
    ch.qos(1)
    ch.consume("q")
    late = ch.deliver()
    other = s.channel()
    other.qos(5)
    other.consume("q", "other")
    s.elapse(1500)
    ch.receive("basic.cancel")
    other.ack(other.deliveries(2)[-1], multiple=True)
    other.passive("q")
    ch.ack(late)
    ch.sync()
    other.cancel("other")
    other.publish("", "q", "3")
    ch.deliver()
    other.passive("q")


@scenario(versions=("4.3",))
def a_consumer_that_timed_out_gets_nothing_before_its_late_acks(s: Run) -> None:
    ch = quorum(s, "1", "2", "3", consumer_timeout=1000)
    ch.qos(2)
    ch.consume("q")
    one, two = ch.deliveries(2)
    s.elapse(1500)
    ch.receive("basic.cancel")
    other = s.channel()
    other.await_count("q", 3)
    other.publish("", "q", "4")
    other.await_count("q", 4)
    ch.ack(one)
    ch.sync()
    other.await_count("q", 4)
    ch.ack(two)
    ch.deliveries(2)
    other.await_count("q", 2)
