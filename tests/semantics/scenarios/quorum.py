"""Quorum queues, where they differ from classic ones."""

from __future__ import annotations

from ..client import Event
from ..scenario import Channel, Run, scenario

QUORUM = {"x-queue-type": "quorum"}


def quorum(s: Run, *bodies: str, **arguments: object) -> Channel:
    """Return a channel on which the quorum queue ``q`` holds these bodies."""
    ch = s.channel()
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    ch.declare("q", arguments={**QUORUM, **named})
    if bodies:
        ch.fill("q", *bodies)
    return ch


@scenario
def messages_come_in_order(s: Run) -> None:
    ch = quorum(s, "1", "2", "3")

    ch.get_all("q")


@scenario
def delivery_mode_comes_back_as_published(s: Run) -> None:
    ch = quorum(s)
    ch.fill("q", "1")
    ch.fill("q", "2", delivery_mode=1)
    ch.fill("q", "3", delivery_mode=2, headers={"b": 1, "a": 2})

    ch.get_all("q")


@scenario
def publishes_are_confirmed(s: Run) -> None:
    ch = quorum(s)
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body)

    ch.confirms()


@scenario
def a_rejected_message_is_counted(s: Run) -> None:
    ch = quorum(s, "1")
    for _ in range(3):
        ch.reject(ch.get("q"))
        ch.await_count("q", 1)

    ch.get("q")


@scenario
def a_nacked_message_is_counted(s: Run) -> None:
    ch = quorum(s, "1")
    for _ in range(3):
        ch.nack(ch.get("q"))
        ch.await_count("q", 1)

    ch.get("q")


@scenario
def recover_is_counted(s: Run) -> None:
    ch = quorum(s, "1")
    ch.get("q")
    ch.recover()
    ch.await_count("q", 1)

    ch.get("q")


@scenario
def the_end_of_a_channel_is_counted(s: Run) -> None:
    ch = quorum(s, "1")
    ch.get("q")
    ch.close()
    other = s.channel()
    other.await_count("q", 1)

    other.get("q")


@scenario
def counts_are_carried_beside_published_headers(s: Run) -> None:
    ch = quorum(s)
    ch.fill("q", "1", headers={"z": 1, "a": 2, "x-delivery-count": 77})
    ch.reject(ch.get("q"))
    ch.await_count("q", 1)

    ch.get("q")


@scenario
def the_delivery_limit_dead_letters(s: Run) -> None:
    ch = quorum(s, delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    ch.declare("dead")
    ch.fill("q", "1")
    for _ in range(2):
        ch.reject(ch.get("q"))
        ch.await_count("q", 1)
    ch.reject(ch.get("q"))
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def a_delivery_limit_of_zero(s: Run) -> None:
    ch = quorum(s, "1", delivery_limit=0)
    ch.reject(ch.get("q"))
    ch.sync()

    ch.get("q")


@scenario
def a_negative_delivery_limit(s: Run) -> None:
    ch = quorum(s, "1", delivery_limit=-1)
    ch.reject(ch.get("q"))
    ch.await_count("q", 0 if s.version == "3.10" else 1)

    ch.get("q")


@scenario(versions=("4.3", "4.0"))
def the_default_delivery_limit_is_20(s: Run) -> None:
    ch = quorum(s, "1")
    ch.connection.log.hidden |= {"basic.get-ok"}
    for count in range(30):
        if ch.get("q").name != "basic.get-ok":
            break
        ch.reject(count + 1)
        ch._await("q", 1)
    ch.connection.log.write(1, f"given out {count} times")


@scenario(versions=("4.3",))
def nacks_do_not_reach_the_delivery_limit(s: Run) -> None:
    ch = quorum(s, "1", delivery_limit=1)
    for _ in range(4):
        ch.nack(ch.get("q"))
        ch.await_count("q", 1)


@scenario
def returned_messages_come_first_in_order_of_return(s: Run) -> None:
    ch = quorum(s, "1", "2", "3", "4", "5", "6")
    tags = [ch.get("q")["delivery_tag"] for _ in range(4)]
    ch.nack(tags[1])
    ch.nack(tags[0])
    ch.await_count("q", 4)

    ch.get_all("q")


@scenario
def a_multiple_nack_returns_in_order(s: Run) -> None:
    ch = quorum(s, "1", "2", "3", "4", "5", "6")
    for _ in range(4):
        last = ch.get("q")
    ch.nack(last, multiple=True)
    ch.await_count("q", 6)

    ch.get_all("q")


@scenario
def length_limits_drop_the_head(s: Run) -> None:
    ch = quorum(s, max_length=2)
    for body in ("1", "2", "3", "4"):
        ch.publish("", "q", body)
    ch.await_count("q", 2)

    ch.get_all("q")


@scenario
def messages_expire(s: Run) -> None:
    ch = quorum(s, message_ttl=200, dead_letter_exchange="", dead_letter_routing_key="dead")
    ch.declare("dead")
    ch.fill("q", "1")
    ch.publish("", "q", "2", expiration="50")
    s.elapse(700)
    ch.await_count("dead", 2)

    ch.get_all("dead")


@scenario
def deleting_if_unused_or_empty_is_not_implemented(s: Run) -> None:
    quorum(s)
    s.channel().delete("q", if_unused=True, if_empty=True)


@scenario
def deleting_if_empty_is_not_implemented(s: Run) -> None:
    quorum(s)
    s.channel().delete("q", if_empty=True)


@scenario
def exclusive_consumers_are_not_enforced(s: Run) -> None:
    quorum(s).consume("q", exclusive=True)

    s.channel().consume("q")


@scenario(versions=("4.3",))
def get_with_single_active_consumer_is_locked(s: Run) -> None:
    quorum(s, "1", single_active_consumer=True).get("q")


@scenario
def the_single_active_consumer_is_replaced(s: Run) -> None:
    one = quorum(s, single_active_consumer=True)
    one.consume("q")
    two = s.channel()
    two.consume("q")
    one.publish("", "q", "1")
    one.ack(one.deliver())
    one.cancel()
    one.publish("", "q", "2")

    two.deliver()


@scenario(versions=("4.3",))
def a_consumer_of_higher_priority_becomes_the_active_one(s: Run) -> None:
    low = quorum(s, single_active_consumer=True)
    low.consume("q")
    low.publish("", "q", "1")
    delivery = low.deliver()
    high = s.channel()
    high.consume("q", arguments={"x-priority": 5})
    low.publish("", "q", "2")
    low.sync()
    low.ack(delivery)

    high.deliver()


@scenario
def consumer_arguments(s: Run) -> None:
    quorum(s).consume("q", arguments={"x-priority": 3})
    s.channel().consume("q", arguments={"x-stream-offset": "first"})
    s.channel().consume("q", arguments={"x-priority": "high"})


@scenario(versions=("4.3",))
def the_order_of_comparison(s: Run) -> None:
    arguments: dict[str, object] = {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "k"}
    arguments |= {"x-dead-letter-strategy": "at-most-once", "x-expires": 60_000, "x-max-length": 5}
    arguments |= {"x-max-length-bytes": 5, "x-overflow": "drop-head", "x-single-active-consumer": True}
    arguments |= {"x-delivery-limit": 5, "x-message-ttl": 60_000, "x-consumer-timeout": 60_000}
    arguments |= {"x-delayed-retry-type": "all", "x-delayed-retry-min": 5, "x-delayed-retry-max": 5}
    pairs = list(arguments.items())
    s.channel().declare("q", arguments={**QUORUM, **arguments})
    for count in range(len(pairs)):
        s.channel().declare("q", arguments={**QUORUM, **dict(pairs[:count])})


@scenario(versions=("4.3",))
def arguments_that_nobody_validates(s: Run) -> None:
    odd = {"x-delivery-limit": "many", "x-delayed-retry-type": 5, "x-delayed-retry-min": "x"}
    s.channel().declare("q", arguments={**QUORUM, **odd})


@scenario
def global_qos_on_a_quorum_queue(s: Run) -> None:
    ch = quorum(s, "1")
    ch.qos(1, global_=True)

    ch.consume("q")


@scenario(versions=("4.3",))
def an_expiration_counts_towards_the_limit_as_it_was_published(s: Run) -> None:
    # 12 bytes each with the flags of the properties, a length and the body, but 9 as they are delivered.
    ch = quorum(s, max_length_bytes=23)
    ch.publish("", "q", "1", expiration="00060000")
    ch.publish("", "q", "2", expiration="00060000")
    ch.await_count("q", 1)

    ch.get_all("q")


@scenario(versions=("4.3",))
def bytes_of_properties_count_towards_the_limit(s: Run) -> None:
    ch = quorum(s, max_length_bytes=10)
    ch.publish("", "q", "1234")
    ch.publish("", "q", "5678")
    ch.await_count("q", 1)

    ch.get_all("q")


@scenario(versions=("4.3",))
def channel_end_and_nack_and_reject_together(s: Run) -> None:
    ch = quorum(s, "1")
    ch.nack(ch.get("q"))
    ch.await_count("q", 1)
    ch.reject(ch.get("q"))
    ch.await_count("q", 1)
    ch.get("q")
    ch.close()
    other = s.channel()
    other.await_count("q", 1)

    other.get("q")


@scenario
def a_full_queue_stops_each_channel_until_it_is_down_to_80_percent(s: Run) -> None:
    ch = quorum(s, max_length=5, overflow="reject-publish")
    ch.confirm_select()
    for number in range(8):
        ch.publish("", "q", str(number))
        ch.confirms()
    ch.get("q", no_ack=True)
    ch.await_count("q", 5)

    ch.publish("", "q", "one more than 80 %")
    ch.confirms()
    newcomer = s.channel()
    newcomer.confirm_select()
    newcomer.publish("", "q", "from a channel that was not stopped")
    newcomer.confirms()
    for _ in range(2):
        newcomer.get("q", no_ack=True)
    newcomer.await_count("q", 4)
    for number in range(3):
        ch.publish("", "q", f"80 % {number}")
        ch.confirms()
    ch.get_all("q")


@scenario
def a_full_queue_takes_dead_letters(s: Run) -> None:
    ch = quorum(s, max_length=1, overflow="reject-publish")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    ch.declare("source", arguments=letters)
    ch.fill("source", "1", "2", "3", "4")
    for count in range(1, 5):
        ch.nack(ch.get("source"), requeue=False)
        ch.await_count("q", count)


@scenario
def what_comes_back_may_stop_publishers(s: Run) -> None:
    ch = quorum(s, max_length=2, overflow="reject-publish")
    ch.confirm_select()
    for number in range(3):
        ch.publish("", "q", str(number))
        ch.confirms()
    tags = [ch.get("q")["delivery_tag"] for _ in range(2)]
    ch.await_count("q", 1)
    ch.publish("", "q", "3")
    ch.confirms()
    for tag in tags:
        ch.nack(tag)
    ch.await_count("q", 4)

    ch.publish("", "q", "4")
    ch.confirms()


@scenario
def a_consumer_that_goes_on_keeps_its_place_among_those_of_an_ended_channel(s: Run) -> None:
    ch = quorum(s, "1", "2", "3")
    ch.qos(1)
    ch.consume("q", "one")
    ch.deliver()
    ch.cancel("one")
    ch.consume("q", "two")
    ch.deliver()
    ch.consume("q", "one")
    ch.close()
    other = s.channel(2)
    other.await_count("q", 3)

    for _ in range(3):
        other.get("q", no_ack=True)


@scenario(versions=("4.3", "4.0"))
def a_consumer_whose_tag_was_cancelled_goes_on_with_what_it_holds(s: Run) -> None:
    ch = quorum(s, "1", "2", "3", "4", "5", "6")
    ch.qos(2)
    ch.consume("q")
    ch.deliveries(2)
    ch.cancel()

    ch.qos(3)
    ch.consume("q")
    ch.deliver()
    ch.await_count("q", 3)
    ch.passive("q")
    ch.ack(1)
    ch.deliver()
    ch.await_count("q", 2)


def beside_an_automatic_consumer(s: Run, prefetch: int, **fields: object) -> tuple[Channel, Channel, Channel]:
    """Return the channel that holds four messages, and those of a consumer without acks and of another."""
    holder = quorum(s, "1", "2", "3", "4")
    holder.consume("q", "holder")
    holder.deliveries(4)
    holder.cancel("holder")
    automatic, other = s.channel(), s.channel()
    automatic.qos(prefetch)
    automatic.consume("q", "automatic", no_ack=True)
    other.qos(2)
    other.consume("q", "other", **fields)
    return holder, automatic, other


@scenario
def a_consumer_without_acks_gets_no_more_than_its_prefetch_of_what_returns_together(s: Run) -> None:
    holder, automatic, other = beside_an_automatic_consumer(s, 1)
    holder.nack(0, multiple=True)
    automatic.deliver()
    other.deliveries(2)
    automatic.deliver()

    holder.await_count("q", 0)


@scenario
def priority_is_behind_the_prefetch_of_a_consumer_without_acks(s: Run) -> None:
    holder, automatic, other = beside_an_automatic_consumer(s, 2, arguments={"x-priority": -1})
    holder.recover()
    automatic.deliveries(2)
    other.deliveries(2)

    holder.await_count("q", 0)


@scenario
def a_consumer_without_acks_gets_no_more_than_its_prefetch_of_what_a_channel_gives_back(s: Run) -> None:
    holder, automatic, other = beside_an_automatic_consumer(s, 3, arguments={"x-priority": -1})
    holder.close()
    automatic.deliveries(3)
    other.deliver()

    other.await_count("q", 0)


def with_grave(s: Run, *bodies: str, **arguments: object) -> Channel:
    """Return a channel on which the dead letters of the quorum queue ``q`` go to ``dead``."""
    ch = s.channel()
    ch.declare("dead")
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.declare("q", arguments={**QUORUM, **target, **named})
    if bodies:
        ch.fill("q", *bodies)
    return ch


@scenario
def the_order_of_what_is_dropped_together(s: Run) -> None:
    ch = with_grave(s, "1", "2", "3", max_length_bytes=100)
    ch.publish("", "q", "x" * 95)
    ch.await_count("dead", 4 if s.version == "4.3" else 3)

    ch.get_all("dead")


@scenario
def the_order_of_what_is_dropped_of_a_closed_channel(s: Run) -> None:
    ch = with_grave(s, max_length=0)
    holder = s.channel()
    holder.consume("q")
    for body in ("1", "2", "3"):
        ch.publish("", "q", body)
        holder.deliver()
    holder.cancel()
    holder.close()
    ch.await_count("dead", 3)

    ch.get_all("dead")


@scenario
def room_of_a_consumer_that_returns_a_message_once_too_often(s: Run) -> None:
    ch = quorum(s, *map(str, range(8)), delivery_limit=0)
    holder = s.channel()
    holder.qos(1)
    holder.consume("q")
    room = 2 if s.version == "3.10" else 1
    holder.reject(holder.deliver())
    holder.deliveries(room)
    holder.ack(0, multiple=True)
    holder.deliveries(room)

    ch.await_count("q", 7 - 2 * room)


@scenario(versions=("4.3", "4.0"))
def returns_without_a_delivery_limit(s: Run) -> None:
    ch = quorum(s, "1", "2", "3", "4", delivery_limit=-1)
    ch.nack(ch.get("q"))
    ch.await_count("q", 4)
    ch.reject(ch.get("q"))
    ch.await_count("q", 4)
    ch.get("q")
    ch.recover()
    ch.await_count("q", 4)
    ended = s.channel()
    ended.get("q")
    ended.close()
    ch.await_count("q", 4)

    ch.get_all("q")


@scenario(versions=("4.3", "4.0"))
def priorities_of_returns_without_a_delivery_limit(s: Run) -> None:
    ch = quorum(s, "low", delivery_limit=-1)
    ch.fill("q", "high", priority=9)
    ch.get("q")
    ch.get("q")
    for number in range(5):
        ch.fill("q", f"high {number}", priority=9)
    ch.fill("q", "low last")
    ch.nack(0, multiple=True)
    ch.await_count("q", 8)

    ch.get_all("q")


def consumed_again(s: Run, held: int, prefetch: int) -> tuple[Channel, list[Event]]:
    """Cancel a consumer that holds deliveries, and consume again by its tag; return channel and deliveries."""
    ch = quorum(s, *map(str, range(10)))
    ch.qos(held)
    ch.consume("q")
    deliveries = ch.deliveries(held)
    ch.cancel()
    ch.qos(prefetch)
    ch.consume("q")
    return ch, deliveries


@scenario(versions=("4.3", "4.0"))
def each_settlement_makes_room_for_a_consumer_that_holds_more_than_its_prefetch(s: Run) -> None:
    ch, (first, second, third) = consumed_again(s, 3, 2)
    ch.await_count("q", 7)
    ch.ack(first)
    ch.deliver()
    ch.nack(second)
    ch.deliver()
    ch.reject(third, requeue=False)
    ch.deliver()
    ch.await_count("q", 5)
    ch.ack(0, multiple=True)
    ch.deliveries(2)

    ch.await_count("q", 3)


@scenario(versions=("4.3", "4.0"))
def a_multiple_ack_makes_room_for_one_prefetch_if_a_consumer_holds_more(s: Run) -> None:
    ch, deliveries = consumed_again(s, 4, 2)
    ch.ack(deliveries[2], multiple=True)
    ch.deliveries(2)
    ch.await_count("q", 4)
    ch.ack(0, multiple=True)
    ch.deliveries(2)

    ch.await_count("q", 2)


@scenario(versions=("4.3", "4.0"))
def room_of_a_consumer_that_holds_more_than_its_prefetch_while_the_queue_is_empty(s: Run) -> None:
    ch, deliveries = consumed_again(s, 4, 2)
    ch.purge("q")
    for delivery in deliveries:
        ch.ack(delivery)
    for number in range(4):
        ch.publish("", "q", f"new {number}")
    ch.deliveries(2)

    ch.await_count("q", 2)


def prioritized(s: Run, *priorities: int, **arguments: object) -> Channel:
    """Return a channel on which ``q`` holds messages of these priorities, each named for its place and priority."""
    ch = quorum(s, **arguments)
    publish_prioritized(ch, *priorities)
    ch.await_count("q", len(priorities))
    return ch


def publish_prioritized(ch: Channel, *priorities: int) -> None:
    for place, priority in enumerate(priorities):
        ch.publish("", "q", f"{place} of priority {priority}", priority=priority)


@scenario
def messages_of_ten_priorities(s: Run) -> None:
    ch = prioritized(s, 0, 4, 5, 9, 4, 9, 0, 9, 5, 1)

    ch.get_all("q")


@scenario
def old_messages_of_high_priority_before_younger_normal_ones(s: Run) -> None:
    ch = prioritized(s, 9, 9, 9, 9, 0, 0, 9, 9, 0, 0)

    ch.get_all("q")


@scenario(versions=("4.0",))
def a_message_that_went_straight_to_a_consumer_took_a_turn(s: Run) -> None:
    ch = quorum(s)
    ch.qos(1)
    ch.consume("q")
    ch.publish("", "q", "straight", priority=9)
    ch.deliver()
    publish_prioritized(ch, 0, 9, 9, 9, 0)
    ch.await_count("q", 5)

    ch.get_all("q")


@scenario(versions=("4.0",))
def a_message_dropped_from_the_head_took_a_turn(s: Run) -> None:
    ch = quorum(s, max_length=4)
    ch.confirm_select()
    publish_prioritized(ch, 0, 9, 9, 9, 9)
    ch.confirms()

    ch.get_all("q")


@scenario(versions=("4.0",))
def returned_messages_take_no_turn(s: Run) -> None:
    ch = prioritized(s, 0, 9, 9, 9, 0, 9, 9)
    first = [ch.get("q") for _ in range(2)]
    for got in first:
        ch.nack(got)
    ch.await_count("q", 7)

    ch.get_all("q")


@scenario(versions=("4.0",))
def turns_begin_anew_after_a_purge(s: Run) -> None:
    ch = prioritized(s, 9, 9, 9)
    ch.get("q")
    ch.get("q")
    ch.purge("q")
    publish_prioritized(ch, 0, 9, 9, 9, 0)
    ch.await_count("q", 5)

    ch.get_all("q")


@scenario
def a_message_of_low_priority_that_expires_behind_a_higher_one(s: Run) -> None:
    ch = quorum(s)
    ch.publish("", "q", "high", priority=9)
    ch.publish("", "q", "low", expiration="100")
    ch.await_count("q", 2)
    s.elapse(600)
    ch.await_count("q", 1 if s.version == "4.3" else 2)

    ch.get_all("q")


@scenario
def a_message_that_expires_behind_a_returned_one(s: Run) -> None:
    ch = quorum(s, "returned", delivery_limit=3)
    ch.nack(ch.get("q"))
    ch.await_count("q", 1)
    ch.publish("", "q", "expires", expiration="100")
    ch.await_count("q", 2)
    s.elapse(600)
    ch.await_count("q", 1 if s.version == "4.3" else 2)

    ch.get_all("q")


@scenario
def a_message_whose_turn_it_is_expires(s: Run) -> None:
    ch = quorum(s)
    ch.publish("", "q", "normal", expiration="100")
    publish_prioritized(ch, 9, 9, 9)
    ch.await_count("q", 4)
    ch.get("q", no_ack=True)
    s.elapse(600)
    ch.get("q", no_ack=True)
    s.elapse(300)
    ch.await_count("q", 1)

    ch.get_all("q")


def dying(s: Run, source_type: str, target_type: str = "quorum", **arguments: object) -> Channel:
    """Return a channel with a queue ``q`` of one type, whose dead letters go to ``dead``, of another."""
    ch = s.channel()
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    limit = {"x-delivery-limit": 1} if target_type == "quorum" else {}
    ch.declare("dead", arguments={"x-queue-type": target_type, **limit})
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.declare("q", arguments={"x-queue-type": source_type, **letters, **named})
    return ch


def returned_once(ch: Channel, **properties: object) -> None:
    """Publish a message to ``q``, get it and return it by basic.reject."""
    ch.fill("q", "dies", **properties)
    ch.reject(ch.get("q"))
    ch.await_count("q", 1)


def reject_until_gone(ch: Channel) -> None:
    """Get the dead letter and return it by basic.reject, until it is gone or was returned twice."""
    ch.await_count("dead", 1)
    for _ in range(2):
        got = ch.get("dead")
        if got.name != "basic.get-ok":
            return
        ch.reject(got)
        ch.sync()
    ch.get("dead")


@scenario
def deliveries_after_a_death_by_reject_in_a_classic_queue(s: Run) -> None:
    ch = dying(s, "classic")
    returned_once(ch)
    ch.reject(ch.get("q"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_reject_in_a_quorum_queue(s: Run) -> None:
    ch = dying(s, "quorum")
    returned_once(ch)
    ch.reject(ch.get("q"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_nack_in_a_classic_queue(s: Run) -> None:
    ch = dying(s, "classic")
    ch.fill("q", "dies")
    ch.nack(ch.get("q"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_nack_in_a_quorum_queue(s: Run) -> None:
    ch = dying(s, "quorum")
    ch.fill("q", "dies")
    ch.nack(ch.get("q"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_age_in_a_classic_queue(s: Run) -> None:
    ch = dying(s, "classic")
    returned_once(ch, expiration="400")
    s.elapse(700)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_age_in_a_quorum_queue(s: Run) -> None:
    ch = dying(s, "quorum")
    returned_once(ch, expiration="400")
    s.elapse(700)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_length_in_a_classic_queue(s: Run) -> None:
    ch = dying(s, "classic", max_length=1)
    returned_once(ch)
    ch.publish("", "q", "stays")

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_length_in_a_quorum_queue(s: Run) -> None:
    ch = dying(s, "quorum", max_length=1)
    returned_once(ch)
    ch.publish("", "q", "stays")

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_the_delivery_limit(s: Run) -> None:
    ch = dying(s, "quorum", delivery_limit=1)
    returned_once(ch)
    ch.reject(ch.get("q"))

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_by_the_delivery_limit_of_a_message_whose_consumers_crashed(s: Run) -> None:
    ch = dying(s, "quorum", delivery_limit=1)
    ch.fill("q", "dies")
    crashing = s.channel()
    crashing.get("q")
    crashing.close()
    ch.await_count("q", 1)
    ch.nack(ch.get("q"))

    reject_until_gone(ch)


@scenario
def deliveries_in_a_classic_queue_after_a_death_by_reject_in_a_quorum_queue(s: Run) -> None:
    ch = dying(s, "quorum", "classic")
    returned_once(ch)
    ch.reject(ch.get("q"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_in_a_quorum_queue_and_one_in_a_classic_queue(s: Run) -> None:
    ch = s.channel()
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"}
    ch.declare("second", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.declare("dead", arguments=QUORUM)
    ch.declare("q", arguments={**QUORUM, **letters})
    returned_once(ch)
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("second", 1)
    ch.reject(ch.get("second"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_two_deaths_in_quorum_queues(s: Run) -> None:
    ch = s.channel()
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "second"}
    ch.declare("second", arguments={**QUORUM, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.declare("dead", arguments=QUORUM)
    ch.declare("q", arguments={**QUORUM, **letters})
    returned_once(ch)
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("second", 1)
    ch.reject(ch.get("second"), requeue=False)

    reject_until_gone(ch)


@scenario
def deliveries_after_a_death_that_must_arrive(s: Run) -> None:
    ch = dying(s, "quorum", dead_letter_strategy="at-least-once", overflow="reject-publish")
    returned_once(ch)
    ch.reject(ch.get("q"), requeue=False)

    reject_until_gone(ch)
