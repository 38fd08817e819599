"""Streams through AMQP 0-9-1."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Channel, Run, scenario

VERSIONS = ("4.3", "4.0")


def stream(s: Run, *bodies: str) -> Channel:
    """Return a channel on which the stream ``q`` holds these bodies."""
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "stream"})
    ch.confirm_select()
    for body in bodies:
        ch.publish("", "q", body)
    ch.confirms()
    ch.qos(10)
    return ch


def publish_each(ch: Channel, *bodies: str) -> None:
    """Publish these bodies, each confirmed before the next, so that each becomes a chunk of its own."""
    for body in bodies:
        ch.publish("", "q", body)
        ch.confirms()


def publish_to(ch: Channel, exchange: str, body: str) -> None:
    """Publish to an exchange, and wait for the confirm."""
    ch.publish(exchange, "", body)
    ch.confirms()


def reader(s: Run, prefetch_count: int = 10) -> Channel:
    """Return a channel, on a connection of its own, that may consume from a stream."""
    ch = s.channel(on=s.connect())
    ch.qos(prefetch_count)
    return ch


@scenario
def reading_from_the_first(s: Run) -> None:
    ch = stream(s, "1", "2", "3")
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(3)


@scenario
def reading_from_an_offset(s: Run) -> None:
    ch = stream(s, "0", "1", "2")
    ch.consume("q", arguments={"x-stream-offset": 1})

    ch.deliveries(2)


@scenario
def reading_the_next(s: Run) -> None:
    ch = stream(s, "old")
    ch.consume("q", "default")
    ch.publish("", "q", "new")

    ch.deliver()


@scenario
def every_consumer_has_its_own_cursor(s: Run) -> None:
    ch = stream(s, "1", "2")
    ch.consume("q", "one", arguments={"x-stream-offset": "first"})
    ch.deliveries(2)
    ch.consume("q", "two", arguments={"x-stream-offset": "first"})

    ch.deliveries(2)


@scenario(versions=VERSIONS)
def settling_gives_credit_back(s: Run) -> None:
    ch = stream(s, "1", "2", "3", "4")
    ch.qos(1)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.ack(ch.deliver())
    ch.nack(ch.deliver(), requeue=True)
    ch.reject(ch.deliver(), requeue=False)

    ch.deliver()


@scenario
def a_prefetch_is_needed(s: Run) -> None:
    stream(s)
    s.channel().consume("q")
    s.channel().consume("q", no_ack=True)


@scenario
def a_prefetch_shared_by_the_channel_is_not_the_one_that_is_needed(s: Run) -> None:
    stream(s)
    ch = s.channel()
    ch.qos(10, global_=True)
    ch.consume("q")


@scenario
def a_prefetch_of_its_own_and_one_shared_by_the_channel(s: Run) -> None:
    stream(s)
    ch = s.channel()
    ch.qos(10)
    ch.qos(10, global_=True)
    ch.consume("q")


@scenario
def the_shared_prefetch_is_looked_at_last(s: Run) -> None:
    stream(s)
    ch = s.channel()
    ch.qos(10)
    ch.qos(10, global_=True)
    ch.consume("q", no_ack=True)


@scenario
def each_message_settled_gives_credit_for_one(s: Run) -> None:
    ch = stream(s)
    publish_each(ch, "1", "2", "3", "4", "5", "6")
    ch.qos(2)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(2)
    ch.ack(2, multiple=True)
    ch.deliveries(2)
    ch.sync()
    ch.ack(3)
    ch.deliver()

    ch.sync()


@scenario
def a_reader_that_takes_a_cancelled_ones_tag_may_hold_one_more_for_each_of_its_deliveries_settled(s: Run) -> None:
    ch = stream(s)
    publish_each(ch, "1", "2", "3", "4", "5", "6", "7", "8", "9")
    ch.qos(3)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(3)
    ch.cancel()
    ch.qos(1)
    ch.consume("q", "other", arguments={"x-stream-offset": "first"})
    ch.deliver()
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliver()
    ch.ack(1)
    ch.deliver()
    ch.ack(3, multiple=True)
    ch.deliveries(2)
    ch.ack(5)
    ch.deliver()

    s.elapse(200)


@scenario
def automatic_acknowledgement_is_not_implemented(s: Run) -> None:
    stream(s)
    ch = s.channel()
    ch.qos(1)
    ch.consume("q", no_ack=True)


@scenario
def getting_is_not_implemented(s: Run) -> None:
    stream(s).get("q")


@scenario
def purging_is_not_implemented(s: Run) -> None:
    stream(s).purge("q")


@scenario
def deleting_ignores_its_flags(s: Run) -> None:
    ch = stream(s, "1")
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliver()
    s.channel().delete("q", if_unused=True, if_empty=True)

    ch.receive("basic.cancel")


@scenario
def strings_that_are_no_offset(s: Run) -> None:
    stream(s)
    for offset in ("foo", "", "h", "-1h", " 1h", "0s", "1x", "1", "1.5h", "1hh"):
        reader(s).consume("q", arguments={"x-stream-offset": offset})


@scenario
def an_offset_of_another_type_breaks_the_connection(s: Run) -> None:
    stream(s)
    for offset in (True, Field("d", 1.5), Field("V", None), Field("x", b"1h"), Field("F", []), Field("D", (0, 1))):
        reader(s).consume("q", arguments={"x-stream-offset": offset})


@scenario
def a_negative_offset_is_the_first(s: Run) -> None:
    ch = stream(s, "1", "2")
    ch.consume("q", arguments={"x-stream-offset": -5})

    ch.deliveries(2)


@scenario
def ages_on_redeclaration(s: Run) -> None:
    for queue, age in (("day", "1D"), ("years", "2Y"), ("none", None)):
        s.channel().declare(queue, arguments=with_age(age))
    for queue, age in (
        ("day", "24h"),
        ("day", "2D"),
        ("day", "foo"),
        ("years", None),
        ("years", "730D"),
        ("none", "1M"),
    ):
        s.channel().declare(queue, arguments=with_age(age))


def with_age(age: str | None) -> dict[str, object]:
    return {"x-queue-type": "stream"} if age is None else {"x-queue-type": "stream", "x-max-age": age}


@scenario
def offsets_of_every_integer_type(s: Run) -> None:
    stream(s, "0", "1", "2")
    for tag in "bBsuIil":
        ch = reader(s)
        ch.consume("q", arguments={"x-stream-offset": Field(tag, 2)})
        ch.deliver()


@scenario
def instants_and_ages_as_offsets(s: Run) -> None:
    ch = stream(s, "old")
    for offset in (Field("T", 0), "1h", "1Y", "1M"):
        early = reader(s)
        early.consume("q", arguments={"x-stream-offset": offset})
        early.deliver()
    late = reader(s)
    late.consume("q", arguments={"x-stream-offset": Field("T", 4_000_000_000)})
    ch.publish("", "q", "new")

    late.deliver()


@scenario
def an_instant_between_two_messages(s: Run) -> None:
    ch = stream(s, "old")
    s.elapse(2500)
    ch.publish("", "q", "new")
    ch.confirms()
    late = reader(s)
    late.consume("q", arguments={"x-stream-offset": "2s"})

    late.deliver()


@scenario
def the_last_offset_is_the_last_message_where_each_was_confirmed(s: Run) -> None:
    ch = stream(s)
    publish_each(ch, "0", "1", "2")
    late = reader(s)
    late.consume("q", arguments={"x-stream-offset": "last"})

    late.deliver()


@scenario
def an_offset_beyond_the_end_is_waited_for(s: Run) -> None:
    ch = stream(s, "0", "1")
    late = reader(s)
    late.consume("q", arguments={"x-stream-offset": 3})
    publish_each(ch, "2", "3", "4")

    late.deliveries(2)


@scenario
def order_of_checks(s: Run) -> None:
    stream(s)
    s.channel(on=s.connect()).consume("q", arguments={"x-priority": 1})
    s.channel(on=s.connect()).consume("q", arguments={"x-stream-offset": "1x"})
    s.channel(on=s.connect()).consume("q", no_ack=True)
    s.channel(on=s.connect()).consume("q", arguments={"x-stream-offset": True})
    reader(s).consume("q", arguments={"x-stream-offset": "1x", "x-priority": 1})
    reader(s).consume("q", no_ack=True, arguments={"x-stream-offset": "1x"})
    reader(s).consume("q", no_ack=True, arguments={"x-stream-offset": True})


@scenario(versions=("4.3",))
def order_of_checks_of_arguments(s: Run) -> None:
    stream(s)
    s.channel().declare("classic")
    s.channel().declare("quorum", arguments={"x-queue-type": "quorum"})
    cases: list[tuple[str, dict[str, object] | list[tuple[str, object]]]] = [
        ("classic", {"x-stream-offset": "foo"}),
        ("classic", {"x-stream-offset": "foo", "x-priority": "abc"}),
        ("classic", {"x-consumer-timeout": "abc", "x-stream-offset": "foo"}),
        ("classic", {"x-stream-filter": "a", "x-stream-offset": "first"}),
        ("quorum", {"x-consumer-timeout": "abc"}),
        ("quorum", {"x-consumer-timeout": -1}),
        ("q", {"x-priority": "abc"}),
        ("q", {"x-consumer-timeout": -1, "x-stream-offset": "foo"}),
        ("q", [("x-consumer-timeout", 5), ("x-priority", 1)]),
        ("q", [("x-priority", 1), ("x-consumer-timeout", 5)]),
    ]
    for queue, arguments in cases:
        reader(s).consume(queue, arguments=arguments)


@scenario
def octets_as_an_offset(s: Run) -> None:
    stream(s, "0", "1")
    ch = reader(s)
    ch.consume("q", arguments={"x-stream-offset": Field("x", b"first")})
    ch.deliveries(2)


@scenario
def exclusive_consumers_are_not_alone_and_nobody_is_counted(s: Run) -> None:
    ch = stream(s)
    ch.consume("q", "a", exclusive=True)
    ch.consume("q", "b", exclusive=True)
    ch.passive("q")


@scenario(versions=VERSIONS)
def a_consumer_holds_no_more_than_its_prefetch(s: Run) -> None:
    ch = stream(s, "0", "1", "2", "3", "4", "5")
    ch.qos(2)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(2)
    ch.ack(1)
    ch.deliver()
    ch.ack(3, multiple=True)
    ch.deliveries(2)
    s.elapse(200)


@scenario(versions=VERSIONS)
def recovering_gives_credit_back(s: Run) -> None:
    ch = stream(s, "0", "1", "2", "3")
    ch.qos(2)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(2)
    ch.recover()

    ch.deliveries(2)


@scenario(versions=("3.10",))
def giving_up_is_not_implemented(s: Run) -> None:
    stream(s, "0", "1")
    for give_up in (Channel.reject, Channel.nack):
        for requeue in (True, False):
            ch = reader(s)
            ch.consume("q", arguments={"x-stream-offset": "first"})
            ch.deliveries(2)
            give_up(ch, 1, requeue=requeue)
            s.expect_end(ch.connection)
    ch = reader(s)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(2)
    ch.recover()


@scenario
def settling_deliveries_of_a_deleted_stream_does_nothing(s: Run) -> None:
    ch = stream(s, "0", "1", "2", "3")
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(4)
    ch.delete("q")
    ch.receive("basic.cancel")
    ch.ack(1)
    ch.reject(2, requeue=False)
    ch.nack(3, requeue=True)
    ch.recover()

    ch.declare("another")


@scenario
def messages_that_no_channel_publishes(s: Run) -> None:
    ch = stream(s)
    target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    for name, arguments in (("classic", {}), ("quorum", {"x-queue-type": "quorum"})):
        ch.declare(name, arguments={**target, **arguments})
        ch.fill(name, f"dead in {name}")
        ch.nack(ch.get(name), requeue=False)
        s.elapse(300)
    ch.declare_exchange("history", "x-recent-history")
    publish_to(ch, "history", "kept")
    ch.bind("q", "history")
    s.elapse(300)
    publish_to(ch, "history", "published")
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(1 if s.version == "3.10" else 4)


@scenario
def what_a_closed_channel_held_is_read_again_by_nobody(s: Run) -> None:
    ch = stream(s, "0", "1")
    one = reader(s)
    one.consume("q", arguments={"x-stream-offset": "first"})
    one.deliveries(2)
    two = reader(s)
    two.consume("q", arguments={"x-stream-offset": 1})
    two.deliver()
    one.close()
    publish_each(ch, "2")

    two.deliver()


def settling(s: Run, count: int, prefetch: int, up_to: int, multiple: bool = True) -> Channel:
    """Return a channel that read a stream and acked what it got, up to this one."""
    ch = stream(s)
    publish_each(ch, *(f"m{number}" for number in range(count)))
    ch.qos(prefetch)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    got = ch.deliveries(prefetch)
    ch.ack(got[up_to - 1], multiple=multiple)
    return ch


@scenario
def an_ack_of_all_that_a_stream_gave(s: Run) -> None:
    ch = settling(s, 6, 2, 2)
    ch.deliveries(2)
    s.elapse(300)


@scenario
def an_ack_of_a_part_of_what_a_stream_gave(s: Run) -> None:
    settling(s, 9, 4, 2)
    s.elapse(300)


@scenario
def an_ack_of_one_in_the_middle_of_a_stream(s: Run) -> None:
    settling(s, 9, 3, 2, multiple=False)
    s.elapse(300)


@scenario
def an_ack_of_half_the_prefetch_of_a_stream(s: Run) -> None:
    settling(s, 30, 10, 5)
    s.elapse(300)


@scenario
def single_acks_of_a_stream(s: Run) -> None:
    ch = stream(s)
    publish_each(ch, *(f"m{number}" for number in range(9)))
    ch.qos(3)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    for delivery in ch.deliveries(3):
        ch.ack(delivery)
        s.elapse(300)


# 3.10 delivers whole chunks, whatever the prefetch, and chance decides how many messages share one.
@scenario(versions=VERSIONS)
def an_ack_of_messages_in_one_chunk_of_a_stream(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "stream"})
    ch.confirm_select()
    with ch.connection.in_one_piece():
        for number in range(6):
            ch.publish("", "q", f"m{number}")
    ch.confirms()
    ch.qos(2)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.ack(ch.deliveries(2)[1], multiple=True)
    s.elapse(300)


@scenario
def a_stream_with_a_prefetch_of_one(s: Run) -> None:
    ch = stream(s)
    publish_each(ch, *(f"m{number}" for number in range(4)))
    ch.qos(1)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.ack(ch.deliver())
    s.elapse(300)
