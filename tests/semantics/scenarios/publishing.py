"""Publishing: what the broker checks, what it returns, where copies go."""

from __future__ import annotations

from ..codec import Field, encode_properties
from ..scenario import Run, scenario


def each_refused(s: Run, cases: list[dict[str, object]]) -> None:
    """Publish to the default exchange with each of these properties, each time on a new channel."""
    for properties in cases:
        ch = s.channel()
        ch.publish("", "q", "x", **properties)
        ch.sync()


@scenario
def publishing_to_a_missing_exchange(s: Run) -> None:
    ch = s.channel()
    ch.publish("missing", "k", "x")

    ch.receive()


@scenario
def a_publish_is_refused_after_its_body(s: Run) -> None:
    ch = s.channel()
    ch.send("basic.publish", exchange="missing")
    ch.header(4)
    ch.body(b"ab")
    ch.connection.send(2, "channel.open")
    ch.connection.take(2, "channel.open-ok")
    ch.connection.log.write(1, "(now the rest)")
    ch.body(b"cd")

    ch.receive()


@scenario
def immediate_is_not_implemented(s: Run) -> None:
    ch = s.channel()
    ch.publish("", "q", "x", immediate=True)

    ch.receive()


@scenario(versions=("4.3", "4.0"))
def a_body_beyond_16_mebibytes(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.send("basic.publish", routing_key="q")
    ch.send_content(b"x" * 16_777_216, frame_max=131_072)
    ch.await_count("q", 1)
    ch.purge("q")
    ch.send("basic.publish", routing_key="q")
    ch.send_content(b"x" * 16_777_217, frame_max=131_072)

    ch.receive()


@scenario
def bad_expirations(s: Run) -> None:
    words = ("", " 5", "x", "10x", "1.5", "-1", "315360000001", "0x10", "5 ")
    each_refused(s, [{"expiration": word} for word in words])


@scenario
def bad_expirations_whose_refusal_takes_two_lines(s: Run) -> None:
    words = ("9" * 18, "9" * 19, "9" * 60, "-" + "9" * 18, "-" + "9" * 19, "1" + "x" * 17, "1" + "x" * 18)
    each_refused(s, [{"expiration": word} for word in words])


@scenario
def good_expirations(s: Run) -> None:
    each_refused(s, [{"expiration": word} for word in ("0", "+10", "007", "315360000000")])


@scenario
def an_expiration_is_printed_anew(s: Run) -> None:
    ch = s.channel()
    for word in ("+100", "000060000", "007", "-0", "60000"):
        ch.publish("", "nowhere", mandatory=True, expiration=word)
        ch.receive("basic.return")


@scenario
def an_expiration_is_stored_and_dead_lettered_as_printed(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    for queue_type in ("classic", "quorum"):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        ch.declare(queue_type, arguments={"x-queue-type": queue_type, **arguments})
        ch.fill(queue_type, "1", expiration="+060000")
        ch.nack(ch.get(queue_type), requeue=False)
        ch.await_count("dead", 1)
        ch.get_all("dead")


@scenario
def a_user_id_must_be_the_users_own(s: Run) -> None:
    each_refused(s, [{"user_id": "guest"}, {"user_id": "someone"}, {"user_id": ""}])


@scenario
def an_impersonator_may_set_any_user_id(s: Run) -> None:
    s.operator.add_user("actor", "secret", "impersonator")
    s.operator.set_permissions("actor", s.vhost)
    ch = s.channel(on=s.connect(user="actor", password="secret"))
    ch.declare("q")
    ch.fill("q", "x", user_id="someone")

    ch.get("q")


@scenario
def cc_and_bcc_must_be_arrays(s: Run) -> None:
    each_refused(s, [{"headers": {name: value}} for name in ("CC", "BCC") for value in ("q", 5, Field("x", "q"))])


@scenario
def items_of_cc_that_are_no_strings_are_skipped(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.publish("", "missing", "x", headers={"CC": [5, Field("x", "q"), "q", "q"]})

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def wrong_keys_are_refused_before_a_wrong_delivery_mode(s: Run) -> None:
    for wrong in ({"CC": "a"}, {"BCC": "a"}, {"CC": [1]}):
        ch = s.channel()
        ch.publish("amq.direct", "k", "x", delivery_mode=0, headers=wrong)
        ch.sync()


@scenario
def every_exchange_type_routes_by_cc_and_bcc(s: Run) -> None:
    for index, (exchange, binding) in enumerate((("amq.direct", "two"), ("amq.topic", "t*"), ("amq.topic", "two.#"))):
        ch = s.channel()
        ch.declare(f"q{index}")
        ch.bind(f"q{index}", exchange, binding)
        ch.publish(exchange, "one", "x", headers={"BCC": ["two"]})
        ch.await_count(f"q{index}", 0 if "*" in binding else 1)


@scenario(versions=("3.10",))
def unknown_delivery_modes_are_refused(s: Run) -> None:
    each_refused(s, [{"delivery_mode": mode} for mode in (0, 3)])


@scenario
def an_unroutable_mandatory_message_is_returned(s: Run) -> None:
    ch = s.channel()
    ch.publish("amq.direct", "nowhere", "body", mandatory=True, message_id="m", headers={"a": 1})

    ch.receive("basic.return")


@scenario
def a_routed_mandatory_message_is_not_returned(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.publish("", "q", "x", mandatory=True)

    ch.await_count("q", 1)


@scenario
def an_unroutable_message_is_dropped(s: Run) -> None:
    ch = s.channel()
    ch.publish("amq.direct", "nowhere", "x")

    ch.sync()


@scenario
def a_returned_body_is_cut_into_frames(s: Run) -> None:
    ch = s.channel(on=s.connect(frame_max=8192))
    ch.publish("", "nowhere", "x" * 10_000, mandatory=True)

    ch.receive("basic.return")


@scenario
def copies_in_several_queues_are_independent(s: Run) -> None:
    ch = s.channel()
    for queue in ("one", "two"):
        ch.declare(queue)
        ch.bind(queue, "amq.fanout")
    ch.publish("amq.fanout", "", "x")
    ch.await_count("one", 1)
    ch.await_count("two", 1)
    ch.nack(ch.get("one"))
    ch.get("one")

    ch.get("two")


@scenario
def the_order_of_publishing_is_kept(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", *map(str, range(20)))

    ch.get_all("q")


@scenario
def a_message_on_one_channel_may_be_interleaved_with_another(s: Run) -> None:
    one = s.channel()
    two = s.channel()
    one.declare("q")
    one.send("basic.publish", routing_key="q")
    two.send("basic.publish", routing_key="q")
    one.header(4)
    two.header(4)
    one.body(b"on")
    two.body(b"tw")
    two.body(b"o.")
    two.await_count("q", 1)
    one.body(b"e.")

    one.await_count("q", 2)
    one.get_all("q")


@scenario
def checks_come_in_rabbitmqs_order(s: Run) -> None:
    bad = {"expiration": "x", "user_id": "someone", "headers": {"CC": 5}, "reply_to": "amq.rabbitmq.reply-to"}
    ch = s.channel()
    ch.declare_exchange("inner", "fanout", internal=True)
    for exchange in ("missing", "inner"):
        ch = s.channel()
        ch.publish(exchange, "k", "x", **bad)
        ch.receive()
    while bad:
        ch = s.channel()
        ch.publish("", "k", "x", **bad)
        closed = str(ch.receive()["reply_text"])
        named = {"fast reply": "reply_to", "expiration": "expiration", "_in_header": "headers", "user_id": "user_id"}
        del bad[next(name for text, name in named.items() if text in closed)]


@scenario
def properties_that_nobody_looks_at_are_opaque(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    octets = encode_properties(content_type=b"\xff", timestamp=2**63, type="t", cluster_id="c")
    ch.send("basic.publish", routing_key="q")
    ch.send_content("x", octets)

    ch.await_count("q", 1)
    ch.get("q")
