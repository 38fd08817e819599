"""Expiry of messages and of queues."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def messages_expire_by_their_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 100})
    ch.fill("q", "1", "2")
    s.elapse(250)

    ch.await_count("q", 0)
    ch.get("q")


@scenario
def messages_do_not_expire_early(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 5000})
    ch.fill("q", "1")
    s.elapse(100)

    ch.get("q")


@scenario
def the_lower_of_queue_and_message_ttl_counts(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 100})
    ch.declare("r", arguments={"x-message-ttl": 60_000})
    ch.fill("q", "1", expiration="60000")
    ch.fill("r", "1", expiration="100")
    s.elapse(250)

    ch.await_count("q", 0)
    ch.await_count("r", 0)


@scenario
def messages_expire_at_the_head_only(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "long")
    ch.fill("q", "short", expiration="50")
    s.elapse(150)
    ch.passive("q")
    ch.get("q")

    ch.get("q")


@scenario
def a_ttl_of_zero_expires_at_once(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 0})
    ch.publish("", "q", "1")
    ch.declare("r")
    ch.publish("", "r", "2", expiration="0")
    ch.await_count("q", 0)
    ch.await_count("r", 0)

    ch.get("q")
    ch.get("r")


@scenario
def a_ttl_of_zero_reaches_a_waiting_consumer(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 0})
    ch.consume("q")
    ch.publish("", "q", "1")

    ch.deliver()


@scenario
def an_unacked_message_does_not_expire_until_it_returns(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 100})
    ch.fill("q", "1", "2")
    one = ch.get("q")
    two = ch.get("q")
    s.elapse(250)
    ch.ack(one)
    ch.nack(two)
    ch.sync()

    ch.get("q")


@scenario
def a_requeued_message_keeps_its_deadline(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-message-ttl": 1000})
    ch.fill("q", "1")
    delivery = ch.get("q")
    s.elapse(600)
    ch.nack(delivery)
    ch.await_count("q", 1)
    s.elapse(600)

    ch.get("q")


@scenario
def a_ttl_counts_anew_in_each_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("second", arguments={"x-message-ttl": 60_000})
    ch.declare(
        "q", arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"}
    )
    ch.fill("q", "1")
    s.elapse(150)

    ch.await_count("second", 1)


@scenario
def an_unused_queue_expires(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-expires": 200})
    s.elapse(500)

    ch.passive("q")


@scenario
def declaring_again_postpones_expiry(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-expires": 800})
    s.elapse(500)
    ch.passive("q")
    s.elapse(500)
    ch.declare("q", arguments={"x-expires": 800})
    s.elapse(500)

    ch.passive("q")


@scenario
def getting_postpones_expiry(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-expires": 800})
    s.elapse(500)
    ch.get("q")
    s.elapse(500)

    ch.passive("q")


@scenario
def publishing_does_not_postpone_expiry(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-expires": 600})
    s.elapse(400)
    ch.publish("", "q", "1")
    s.elapse(500)

    ch.passive("q")


@scenario
def a_queue_with_a_consumer_does_not_expire(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-expires": 300})
    ch.consume("q")
    s.elapse(700)
    ch.cancel()
    ch.passive("q")
    s.elapse(700)

    ch.passive("q")


@scenario
def an_expiring_queue_does_not_dead_letter(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    arguments = {"x-expires": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.declare("q", arguments=arguments)
    ch.publish("", "q", "1")
    s.elapse(500)

    ch.get("dead")


@scenario
def expired_messages_make_room_for_later_ones(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", expiration="100")
    ch.fill("q", "2", expiration="60000")
    s.elapse(250)
    ch.await_count("q", 1)

    ch.get("q")
