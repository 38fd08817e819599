"""ack, nack, reject, recover, qos and the places that messages return to, on classic queues."""

from __future__ import annotations

from ..scenario import Run, scenario
from .consuming import queue_with


@scenario
def requeued_messages_return_to_their_place(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6")
    tags = [ch.get("q")["delivery_tag"] for _ in range(4)]
    ch.nack(tags[1])
    ch.nack(tags[0])

    ch.await_count("q", 4)
    ch.get_all("q")


@scenario
def a_multiple_nack_keeps_the_order(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6")
    for _ in range(4):
        last = ch.get("q")
    ch.nack(last, multiple=True)

    ch.await_count("q", 6)
    ch.get_all("q")


@scenario
def what_returns_with_its_channel_comes_in_order(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4")
    for _ in range(3):
        ch.get("q")
    ch.close()
    other = s.channel()
    other.await_count("q", 4)

    other.get_all("q")


@scenario
def every_return_sets_redelivered(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.reject(ch.get("q"))
    ch.await_count("q", 1)
    ch.nack(ch.get("q"))
    ch.await_count("q", 1)
    ch.get("q")
    ch.recover()
    ch.await_count("q", 1)

    ch.get("q")


@scenario
def an_unknown_delivery_tag(s: Run) -> None:
    queue_with(s)
    for send in ("ack", "nack", "reject"):
        ch = s.channel()
        getattr(ch, send)(7)
        ch.receive()


@scenario
def acking_twice(s: Run) -> None:
    ch = queue_with(s, "1")
    delivery = ch.get("q")
    ch.ack(delivery)
    ch.ack(delivery)

    ch.receive()


@scenario
def acking_a_no_ack_delivery(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.ack(ch.get("q", no_ack=True))

    ch.receive()


@scenario
def acking_on_another_channel(s: Run) -> None:
    queue_with(s, "1").get("q")
    other = s.channel()
    other.ack(1)

    other.receive()


@scenario
def tag_zero_means_all_with_multiple_only(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3")
    ch.ack(0, multiple=True)
    ch.nack(0, multiple=True)
    for _ in range(2):
        ch.get("q")
    ch.ack(0, multiple=True)
    ch.get("q")
    ch.nack(0, multiple=True)
    ch.await_count("q", 1)
    ch.ack(0)

    ch.receive()


@scenario
def a_multiple_ack_settles_up_to_its_tag(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4")
    for _ in range(4):
        ch.get("q")
    ch.ack(2)
    ch.ack(3, multiple=True)
    ch.close()
    other = s.channel()
    other.await_count("q", 1)

    other.get("q")


@scenario
def a_multiple_ack_beyond_the_last_settles_nothing(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.get("q")
    ch.get("q")
    ch.ack(3, multiple=True)
    ch.receive()
    other = s.channel()
    other.await_count("q", 2)

    other.get("q")


@scenario
def a_multiple_ack_needs_its_own_tag_outstanding(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.get("q")
    ch.get("q")
    ch.ack(2)
    ch.ack(2, multiple=True)

    ch.receive()


@scenario
def a_multiple_ack_spans_consumers_and_gets(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.declare("r")
    ch.fill("r", "2")
    ch.get("q")
    ch.consume("r")
    ch.ack(ch.deliver(), multiple=True)
    ch.close()

    s.channel().get("q")
    s.channel().get("r")


@scenario
def acks_after_the_queue_is_gone_are_silent(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    one, two = ch.get("q"), ch.get("q")
    s.channel().delete("q")
    ch.ack(one)
    ch.nack(two)

    ch.sync()


@scenario
def reject_without_requeue_drops(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.reject(ch.get("q"), requeue=False)
    ch.nack(ch.get("q"), requeue=False)
    ch.close()

    s.channel().get("q")


@scenario
def recover_requeues_all_of_the_channel(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3")
    ch.get("q")
    ch.get("q")
    ch.recover()
    ch.await_count("q", 3)

    ch.get_all("q")


@scenario
def recover_may_bring_messages_back_to_the_same_consumer(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.consume("q")
    ch.deliveries(2)
    ch.send("basic.recover", requeue=True)
    ch.deliveries(2)

    ch.receive("basic.recover-ok")


@scenario
def recover_async_has_no_answer(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.get("q")
    ch.send("basic.recover-async", requeue=True)
    ch.await_count("q", 1)

    ch.get("q")


@scenario
def recover_without_requeue_is_not_implemented(s: Run) -> None:
    ch = queue_with(s)
    ch.recover(requeue=False)


@scenario
def recover_async_without_requeue_is_not_implemented(s: Run) -> None:
    ch = queue_with(s)
    ch.send("basic.recover-async", requeue=False)

    ch.receive()


@scenario
def a_prefetch_size_is_not_implemented(s: Run) -> None:
    queue_with(s).qos(0, prefetch_size=5)


@scenario
def prefetch_limits_consumers_started_after_it(s: Run) -> None:
    ch = queue_with(s)
    ch.consume("q", "unlimited")
    ch.qos(1)
    ch.declare("r")
    ch.consume("r", "limited")
    publisher = s.channel()
    for queue, ready_count in (("q", 0), ("r", 2)):
        for body in ("1", "2", "3"):
            publisher.publish("", queue, body)
        publisher.sync()
        publisher.await_count(queue, ready_count)
        ch.deliveries(3 - ready_count)


@scenario
def prefetch_is_per_consumer(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5")
    ch.qos(2)
    ch.consume("q", "one")
    ch.deliveries(2)
    ch.consume("q", "two")
    ch.deliveries(2)

    ch.await_count("q", 1)


@scenario
def who_takes_a_cancelled_consumers_tag_may_hold_one_more_for_each_of_its_deliveries_settled(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6")
    ch.qos(1)
    ch.consume("q", "tag")
    ch.deliver()
    ch.cancel("tag")
    ch.consume("q", "tag")
    ch.deliver()
    ch.ack(1)
    ch.deliver()
    ch.await_count("q", 3)
    ch.ack(2)
    ch.deliver()

    ch.await_count("q", 2)


@scenario
def prefetch_zero_is_unlimited(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3")
    ch.qos(1)
    ch.qos(0)
    ch.consume("q")

    ch.deliveries(3)


@scenario
def global_qos(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5")
    ch.qos(2, global_=True)
    ch.consume("q", "one")
    ch.deliveries(2)
    ch.consume("q", "two")
    other = s.channel()
    other.await_count("q", 3 if s.version != "4.3" else 1)

    other.passive("q")


@scenario(versions=("4.0", "3.10"))
def under_a_shared_prefetch_consumers_take_turns(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6")
    ch.qos(1, global_=True)
    ch.consume("q", "one")
    ch.deliver()
    ch.consume("q", "two")
    for tag in (1, 2, 3):
        ch.ack(tag)
        ch.deliver()

    ch.qos(3, global_=True)
    ch.deliveries(2)


@scenario
def a_prefetch_of_each_consumer_ends_the_one_shared_by_the_channel(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6")
    ch.qos(3, global_=True)
    ch.qos(2)
    ch.consume("q", "one")
    ch.deliveries(2)
    ch.consume("q", "two")
    ch.deliveries(2)

    ch.await_count("q", 2)


@scenario(versions=("4.0", "3.10"))
def consumers_held_up_by_a_shared_prefetch_go_on_when_it_ends(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5")
    ch.qos(1, global_=True)
    ch.consume("q", "one")
    ch.deliver()
    ch.qos(1)

    ch.deliveries(4)


@scenario(versions=("4.0", "3.10"))
def a_prefetch_of_each_consumer_and_one_shared_by_the_channel_both_hold(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6")
    ch.qos(2)
    ch.qos(3, global_=True)
    ch.consume("q", "one")
    ch.deliveries(2)
    ch.consume("q", "two")
    ch.deliver()
    ch.await_count("q", 3)

    ch.ack(3)
    ch.deliver()
    ch.ack(1)
    ch.deliver()
    ch.await_count("q", 1)


@scenario(versions=("4.0", "3.10"))
def a_shared_prefetch_that_is_reached_holds_up_consumers_without_acknowledgement(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3")
    ch.qos(1, global_=True)
    ch.consume("q", "acks")
    ch.deliver()
    ch.consume("q", "no acks", no_ack=True)
    ch.await_count("q", 2)

    ch.qos(2, global_=True)
    ch.deliver()


@scenario(versions=("4.0", "3.10"))
def a_shared_prefetch_counts_for_ever_what_was_got_before_it(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5")
    got = ch.get("q")
    ch.qos(3, global_=True)
    ch.get("q")
    ch.consume("q")
    ch.deliveries(2)
    ch.ack(got)
    ch.await_count("q", 1)

    ch.ack(3)
    ch.deliver()


@scenario(versions=("4.0", "3.10"))
def a_shared_prefetch_does_not_hold_up_consumers_of_other_queue_types(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum"})
    ch.consume("q")
    ch.qos(1, global_=True)
    for body in ("1", "2", "3"):
        ch.publish("", "q", body)

    ch.deliveries(3)


@scenario(versions=("4.0", "3.10"))
def a_consumer_with_room_again_brings_the_others_of_its_channel_along(s: Run) -> None:
    ch = queue_with(s, "1", "2", "3", "4", "5", "6", "7", "8")
    ch.qos(3)
    ch.qos(4, global_=True)
    ch.consume("q", "full")
    ch.deliveries(3)
    ch.consume("q", "held up")
    ch.deliver()
    for tag in (1, 4, 5, 6):
        ch.ack(tag)
        ch.deliver()

    ch.await_count("q", 0)


@scenario
def messages_return_when_the_server_closes_the_channel(s: Run) -> None:
    ch = queue_with(s, "1", "2")
    ch.qos(1)
    ch.consume("q")
    ch.deliver()
    ch.get("q")
    ch.purge("missing")
    other = s.channel()
    other.await_count("q", 2)

    other.get_all("q")


@scenario
def consumed_messages_return_before_close_ok_of_the_client(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.connection.answers_close = False
    ch.consume("q")
    ch.deliver()
    ch.purge("missing")
    other = s.channel(on=s.connect())
    other.await_count("q", 1)

    other.get("q")


@scenario
def a_nacked_message_may_come_back_at_once(s: Run) -> None:
    ch = queue_with(s, "1")
    ch.consume("q")
    ch.nack(ch.deliver())

    ch.deliver()
