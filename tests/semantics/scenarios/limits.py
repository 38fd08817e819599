"""Length limits of classic queues."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def the_oldest_are_dropped_at_max_length(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 2})
    for body in ("1", "2", "3", "4"):
        ch.publish("", "q", body)
    ch.sync()

    ch.get_all("q")


@scenario
def the_oldest_are_dropped_at_max_bytes(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length-bytes": 10})
    for body in ("1234", "5678", "90", "abc"):
        ch.publish("", "q", body, message_id="does not count")
    ch.sync()

    ch.get_all("q")


@scenario
def a_message_bigger_than_the_byte_limit_drops_all(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length-bytes": 10})
    ch.fill("q", "1", "2")
    ch.publish("", "q", "x" * 11)
    ch.sync()

    ch.get("q")


@scenario
def unacked_messages_do_not_count(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 1})
    ch.fill("q", "1")
    ch.get("q")
    ch.fill("q", "2")

    ch.get("q")


@scenario
def a_length_of_zero_keeps_nothing(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 0})
    ch.publish("", "q", "1")
    ch.sync()

    ch.get("q")


@scenario
def a_length_of_zero_still_feeds_a_consumer(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 0})
    ch.consume("q")
    ch.publish("", "q", "1")

    ch.deliver()


@scenario
def requeueing_over_the_limit_drops_the_head(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 3})
    ch.fill("q", "1", "2", "3")
    for _ in range(2):
        last = ch.get("q")
    for body in ("4", "5", "6"):
        ch.publish("", "q", body)
    ch.await_count("q", 3)
    ch.nack(last, multiple=True)
    ch.sync()

    ch.get_all("q")


@scenario
def reject_publish_takes_exactly_the_limit(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body)
    ch.confirms()

    ch.get_all("q")


@scenario
def reject_publish_by_bytes(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    ch.confirm_select()
    for body in ("12345678", "9", "0123", "z"):
        ch.publish("", "q", body)
    ch.confirms()

    ch.get_all("q")


@scenario
def reject_publish_looks_before_delivering(s: Run) -> None:
    consumer = s.channel()
    consumer.declare("q", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    consumer.consume("q")
    publisher = s.channel()
    publisher.confirm_select()
    publisher.publish("", "q", "1")

    publisher.confirms()


@scenario
def room_made_by_an_ack_is_used(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.confirm_select()
    ch.publish("", "q", "1")
    ch.confirms()
    ch.get("q")
    ch.publish("", "q", "2")
    ch.confirms()

    ch.get_all("q")


@scenario
def dropped_messages_are_confirmed(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 1})
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body, delivery_mode=2)
    ch.confirms()

    ch.get_all("q")


@scenario
def a_commit_of_more_publishes_than_a_quorum_queue_that_refuses_them_holds(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "reject-publish"})
    ch.tx_select()
    for round in range(2):
        for number in range(5):
            ch.publish("", "q", f"{round}.{number}")
        ch.commit()
    ch.get_all("q")
