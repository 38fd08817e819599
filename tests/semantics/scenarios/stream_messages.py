"""Messages in streams: conversion, filters, retention, dead letters and transactions."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Channel, Run, scenario
from .streams import VERSIONS, publish_each, reader, stream

A, F = Field("A", [Field("S", b"a"), Field("x", b"x")]), Field("F", [("k", Field("u", 1)), ("v", Field("V", None))])
EVERY_TYPE = (
    *(("t", True), ("b", -1), ("B", 1), ("s", -1), ("u", 1), ("I", -1), ("i", 4_000_000_000), ("l", 5), ("f", 1.5)),
    *(("d", 1.5), ("S", b"s"), ("x", b"x"), ("T", 5), ("V", None), ("A", A[1]), ("F", F[1])),
)


@scenario(versions=VERSIONS)
def what_streams_do_to_properties(s: Run) -> None:
    ch = stream(s)
    headers = {"n": 1, "s": "t", "a": [1], "t": {"n": 1}, "x": Field("x", "b"), "b": True, "x-a": [1], "CC": ["z"]}
    ch.publish("", "q", "1", headers=headers, cluster_id="c", priority=3, message_id="m", expiration="60000")
    ch.publish("", "q", "2", delivery_mode=2)
    ch.confirms()
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(2)


@scenario(versions=VERSIONS)
def every_header_type_in_a_stream(s: Run) -> None:
    ch = stream(s)
    ch.publish("", "q", "plain", headers=[(tag, Field(tag, value)) for tag, value in EVERY_TYPE])
    ch.publish("", "q", "x-", headers=[(f"x-{tag}", Field(tag, value)) for tag, value in EVERY_TYPE])
    ch.publish("", "q", "doubles", headers=[("b", 1), ("x-stream-offset", "mine"), ("b", 2), ("a", 3)])
    ch.confirms()
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(3)


@scenario(versions=("3.10",))
def every_header_type_in_an_old_stream(s: Run) -> None:
    ch = stream(s)
    ch.publish("", "q", "plain", headers=[(tag, Field(tag, value)) for tag, value in EVERY_TYPE], cluster_id="c")
    ch.publish("", "q", "x-", headers=[(f"x-{tag}", Field(tag, value)) for tag, value in EVERY_TYPE], delivery_mode=2)
    ch.publish("", "q", "doubles", headers=[("b", 1), ("x-stream-offset", "mine"), ("b", 2), ("a", 3)])
    ch.confirms()
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(3)


@scenario(versions=VERSIONS)
def every_property_in_a_stream(s: Run) -> None:
    ch = stream(s)
    texts = ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "app_id")
    ch.publish("", "q", "set", **dict.fromkeys(texts, "a"), priority=5, timestamp=5, expiration="1", user_id="guest")
    ch.publish("", "q", "empty", **dict.fromkeys(texts, ""))
    ch.publish("", "q", "mode 0", delivery_mode=0)
    ch.publish("", "q", "mode 5", delivery_mode=5)
    ch.publish("", "q", "no headers", headers={})
    ch.publish("", "q")
    ch.publish("", "q", "long " * 5000)
    ch.confirms()
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(7)


@scenario
def a_decimal_in_the_headers_breaks_the_connection(s: Run) -> None:
    ch = stream(s)
    ch.declare("other")
    ch.declare_exchange("x", "fanout")
    for queue in ("other", "q"):
        ch.bind(queue, "x")
    for name in ("d", "x-d"):
        publisher = s.channel(on=s.connect())
        publisher.publish("x", "", "1", headers=[(name, Field("D", (1, 5)))])
        s.expect_end(publisher.connection)
    ch.await_count("other", 2)
    ch.passive("q")


@scenario(versions=VERSIONS)
def filtering_by_value(s: Run) -> None:
    ch = stream(s)
    for body, value in (("a", "a"), ("b", "b"), ("none", None), ("a2", "a"), ("empty", "")):
        ch.publish("", "q", body, headers={} if value is None else {"x-stream-filter-value": value})
        ch.confirms()
    both, a, empty = Field("A", [Field("S", b"a"), Field("S", b"b")]), Field("S", b"a"), Field("S", b"")
    filters = [({"x-stream-filter": a}, 2), ({"x-stream-filter": both}, 3), ({"x-stream-filter": empty}, 2)]
    filters += [
        ({"x-stream-filter": a, "x-stream-match-unfiltered": True}, 4),
        ({"x-stream-match-unfiltered": True}, 5),
    ]
    filters += [({"x-stream-filter": a, "x-stream-match-unfiltered": 1}, 2), ({"x-stream-filter": 5}, 5)]
    for arguments, count in filters:
        late = reader(s)
        late.consume("q", arguments={"x-stream-offset": "first", **arguments})
        late.deliveries(count)


@scenario(versions=VERSIONS)
def a_filter_goes_on_with_what_comes_later(s: Run) -> None:
    ch = stream(s)
    ch.consume("q", arguments={"x-stream-filter": "a"})
    for value in ("b", "a", "c", "a"):
        ch.publish("", "q", value, headers={"x-stream-filter-value": value})
        ch.confirms()

    ch.deliveries(2)


@scenario(versions=VERSIONS)
def filters_that_break_the_connection(s: Run) -> None:
    stream(s)
    for items in ([], [Field("I", 1)], [Field("x", b"a")], [Field("t", True)]):
        reader(s).consume("q", arguments={"x-stream-filter": Field("A", items)})


@scenario(versions=VERSIONS)
def values_to_filter_by_that_break_the_connection(s: Run) -> None:
    stream(s)
    for tag, value in EVERY_TYPE:
        if tag != "S":
            publisher = s.channel(on=s.connect())
            publisher.publish("", "q", "1", headers=[("x-stream-filter-value", Field(tag, value))])
            s.expect_end(publisher.connection)


@scenario(versions=VERSIONS)
def segments_beyond_the_limit_are_dropped_whole(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select()
    limits = {"x-max-length-bytes": 2000, "x-stream-max-segment-size-bytes": 1000}
    ch.declare("q", arguments={"x-queue-type": "stream", **limits})
    publish_each(ch, *(f"{number:0>100}" for number in range(32)))
    s.elapse(500)
    publish_each(ch, "opens a segment")
    s.elapse(500)
    for offset in ("first", 2):
        late = reader(s)
        late.consume("q", arguments={"x-stream-offset": offset})
        late.deliveries(5)


@scenario(versions=VERSIONS)
def old_segments_go_when_a_new_one_begins(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select()
    limits = {"x-max-age": "1s", "x-stream-max-segment-size-bytes": 1000}
    ch.declare("q", arguments={"x-queue-type": "stream", **limits})
    publish_each(ch, *(f"{number:0>100}" for number in range(30)))
    s.elapse(2500)
    publish_each(ch, "still there")
    first(s)
    publish_each(ch, *(f"{number:0>100}" for number in range(9)))
    s.elapse(500)

    first(s)


@scenario(versions=VERSIONS)
def a_policy_drops_segments_at_once(s: Run) -> None:
    ch = s.channel()
    ch.confirm_select()
    ch.declare("q", arguments={"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1000})
    publish_each(ch, *(f"{number:0>100}" for number in range(30)))
    s.operator.set_policy(s.vhost, "p", "q", {"max-length-bytes": 1000})
    s.elapse(2000)

    first(s)


def first(s: Run) -> None:
    ch = reader(s, prefetch_count=1)
    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliver()


@scenario(versions=VERSIONS)
def dead_letters_keep_their_history_in_a_stream(s: Run) -> None:
    ch = stream(s)
    ch.declare("d", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.publish("", "d", "1", delivery_mode=2, headers={"h": "v"})
    ch.confirms()
    ch.get("d")
    ch.reject(1, requeue=False)
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliver()


@scenario
def a_stream_in_a_transaction(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "stream"})
    ch.tx_select()
    ch.publish("", "q", "rolled back")
    ch.rollback()
    ch.publish("", "q", "1")
    ch.publish("", "q", "2")
    ch.commit()
    late = reader(s, prefetch_count=1)
    late.tx_select()
    late.consume("q", arguments={"x-stream-offset": "first"})
    late.ack(late.deliver())
    s.elapse(200)
    late.commit()

    late.deliver()


@scenario(versions=VERSIONS)
def dead_letters_keep_their_expiration_in_a_stream(s: Run) -> None:
    ch = stream(s)
    ch.declare("d", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.publish("", "d", "1", expiration="0")
    ch.publish("", "d", "2", expiration="60000")
    ch.await_count("d", 1)
    ch.reject(ch.get("d"), requeue=False)
    ch.consume("q", arguments={"x-stream-offset": "first"})

    ch.deliveries(2)


DEATHS: tuple[object, ...] = (
    [{"queue": "old", "reason": "rejected", "count": 2, "exchange": "", "routing-keys": ["old"]}],
    [],
    ["no table"],
    "a text",
    7,
)


@scenario(versions=VERSIONS)
def a_published_x_death_is_left_out(s: Run) -> None:
    ch = stream(s)
    for death in DEATHS:
        publish_with(ch, "q", {"x-death": death, "a": 1})
    publish_with(ch, "q", {"x-death": DEATHS[0]})

    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(len(DEATHS) + 1)


@scenario(versions=VERSIONS)
def other_published_headers_of_a_death_stay(s: Run) -> None:
    ch = stream(s)
    for kind in ("first", "last"):
        names = {f"x-{kind}-death-{part}": part for part in ("exchange", "queue", "reason")}
        publish_with(ch, "q", names)
        publish_with(ch, "q", {"x-death": DEATHS[0], **names})

    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(4)


@scenario(versions=VERSIONS)
def headers_of_the_conversion_are_left_out(s: Run) -> None:
    ch = stream(s)
    for name in ("x-routing-key", "x-exchange", "x-opt-deaths", "X-Death", "x-basic"):
        publish_with(ch, "q", {name: "mine", "kept": True})

    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(5)


@scenario(versions=VERSIONS)
def a_published_x_death_in_other_queues_stays(s: Run) -> None:
    ch = stream(s)
    ch.declare_exchange("both", "fanout")
    for name, kind in (("q", "stream"), ("classic", "classic"), ("quorum", "quorum")):
        ch.declare(name, arguments={"x-queue-type": kind})
        ch.bind(name, "both")
    ch.publish("both", "", "1", headers={"x-death": DEATHS[0], "b": 2})
    ch.confirms()
    ch.get_all("classic")
    ch.get_all("quorum")

    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(1)


@scenario(versions=VERSIONS)
def a_death_on_the_way_to_a_stream_is_kept(s: Run) -> None:
    ch = stream(s)
    for kind in ("classic", "quorum"):
        more = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
        ch.declare(kind, arguments={"x-queue-type": kind, **more})
        ch.publish("", kind, kind, headers={"x-death": DEATHS[0], "c": 3})
        ch.confirms()
        ch.reject(ch.get(kind), requeue=False)
        s.elapse(300)

    ch.consume("q", arguments={"x-stream-offset": "first"})
    ch.deliveries(2)


def publish_with(ch: Channel, queue: str, headers: dict[str, object]) -> None:
    """Publish a message with these headers, and wait for the confirm."""
    ch.publish("", queue, "x", headers=headers)
    ch.confirms()
