"""Publisher confirms."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario
from .reply_to import NAME, asked, name_of


@scenario
def confirms_are_numbered_from_one(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.publish("", "q", "before")
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body)

    ch.confirms()


@scenario
def selecting_twice_does_not_start_anew(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.confirm_select(gathered=False)
    ch.publish("", "q", "1")
    ch.receive_confirm()
    ch.call("confirm.select")
    ch.publish("", "q", "2")

    ch.receive_confirm()


@scenario
def persistent_messages_are_confirmed(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body, delivery_mode=2)

    ch.confirms()


@scenario
def a_lone_confirm_is_not_multiple(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.confirm_select(gathered=False)
    ch.publish("", "q", "1", delivery_mode=2)

    ch.receive_confirm()


@scenario
def an_unroutable_message_is_confirmed(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select(gathered=False)
    ch.publish("amq.direct", "nowhere", "1")

    ch.receive_confirm()


@scenario
def a_return_comes_before_its_confirm(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select(gathered=False)
    ch.publish("amq.direct", "nowhere", "1", mandatory=True)

    ch.receive("basic.return")
    ch.receive_confirm()


@scenario
def a_message_to_several_queues_is_confirmed_once(s: Run) -> None:
    ch = s.channel()
    for queue in ("one", "two"):
        ch.declare(queue)
        ch.bind(queue, "amq.fanout")
    ch.confirm_select(gathered=False)
    ch.publish("amq.fanout", "", "1", delivery_mode=2)

    ch.receive_confirm()


@scenario
def a_missing_exchange_closes_the_channel_without_a_nack(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select(gathered=False)
    ch.publish("missing", "", "1")
    ch.publish("", "nowhere", "2")

    ch.receive("basic.ack", "basic.nack")


@scenario
def each_channel_counts_for_itself(s: Run) -> None:
    one = s.channel()
    two = s.channel()
    one.declare("q")
    for ch in (one, two):
        ch.confirm_select(gathered=False)
    one.publish("", "q", "1")
    one.receive_confirm()
    two.publish("", "q", "2")

    two.receive_confirm()


@scenario
def a_rejected_message_is_nacked_with_multiple(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.confirm_select(gathered=False)
    for body in ("1", "2"):
        ch.publish("", "q", body, delivery_mode=2)
        ch.receive_confirm()

    ch.get_all("q")


@scenario
def one_full_queue_of_two_makes_a_nack(s: Run) -> None:
    ch = s.channel()
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.declare("free")
    for queue in ("full", "free"):
        ch.bind(queue, "amq.fanout")
    ch.confirm_select(gathered=False)
    ch.publish("amq.fanout", "", "1", delivery_mode=2, mandatory=True)
    ch.receive_confirm()

    ch.get_all("free")


@scenario
def mixed_acks_and_nacks(s: Run) -> None:
    ch = s.channel()
    ch.declare("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    ch.declare("free")
    ch.confirm_select()
    for number in range(1, 9):
        ch.publish("", "full" if number % 2 else "free", str(number), delivery_mode=2)

    ch.confirms()


@scenario
def a_rejected_message_without_confirms_is_dropped_silently(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.fill("q", "1")
    ch.publish("", "q", "2", mandatory=True)
    ch.sync()

    ch.get_all("q")


@scenario
def confirm_and_tx_exclude_each_other(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select()
    ch.tx_select()
    ch = s.channel()
    ch.tx_select()
    ch.call("confirm.select")


@scenario
def a_message_handed_to_a_consumer_is_confirmed(s: Run) -> None:
    consumer = s.channel()
    consumer.declare("q")
    consumer.consume("q")
    publisher = s.channel()
    publisher.confirm_select()
    publisher.publish("", "q", "1", delivery_mode=2)

    publisher.confirms()
    consumer.deliver()


def in_one_piece(s: Run, *publishes: tuple[str, bool], **arguments: object) -> Channel:
    """Publish in one piece, by routing key and mandatory flag, and return the channel with ungathered confirms."""
    ch = s.channel()
    ch.declare("q", arguments=arguments)
    ch.confirm_select(gathered=False)
    with ch.connection.in_one_piece():
        for number, (routing_key, mandatory) in enumerate(publishes, 1):
            ch.publish("", routing_key, str(number), mandatory=mandatory, delivery_mode=2)
    return ch


@scenario
def unroutable_publishes_are_confirmed_one_by_one(s: Run) -> None:
    ch = in_one_piece(s, ("nowhere", False), ("nowhere", True), ("nowhere", True), ("nowhere", False))

    for _ in range(4):
        ch.receive_confirm()


@scenario
def an_unroutable_publish_is_confirmed_before_an_earlier_one_that_a_queue_takes(s: Run) -> None:
    ch = in_one_piece(s, ("q", False), ("nowhere", True), **{"x-queue-type": "quorum"})

    for _ in range(2):
        ch.receive_confirm()


@scenario
def a_direct_reply_is_confirmed_at_once(s: Run) -> None:
    asking = s.channel()
    asking.consume(NAME, "c", no_ack=True)
    name = name_of(asked(s, asking))
    ch = in_one_piece(s, ("q", False), (name, False), (name, False), **{"x-queue-type": "quorum"})

    for _ in range(3):
        ch.receive_confirm()


@scenario
def an_unroutable_publish_is_confirmed_before_an_error_in_the_same_piece(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select(gathered=False)
    with ch.connection.in_one_piece():
        for number in range(3):
            ch.publish("", "nowhere", str(number))
        ch.publish("missing", "", "4")

    ch.receive("channel.close")


@scenario
def an_error_on_another_channel_loses_no_confirm(s: Run) -> None:
    other = s.channel()
    ch = s.channel()
    ch.declare("q")
    ch.confirm_select()
    with ch.connection.in_one_piece():
        for number in range(3):
            ch.publish("", "q", str(number))
        other.publish("missing", "", "4")
    other.receive("channel.close")

    ch.confirms()
