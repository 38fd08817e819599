"""The meaning of the events in a trace file, version 1; a recorded conversation with a real client proves each rule."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from functools import partial

import aio_pika
import pika
import pytest

from leveret import Broker
from leveret.trace import schema
from leveret.trace.events import ENDS, KINDS
from leveret.trace.rows import body_hash
from tests.trace.conftest import Recorded, attrs

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
# The kinds that version 1 began with. Kinds may be added, but none of these may be removed.
FIRST_KINDS = (
    *("published", "enqueued", "delivered", "got", "acked", "nacked", "rejected", "requeued", "expired", "dropped"),
    *("dead_lettered", "returned", "confirmed", "nacked_confirm", "purged", "fault"),
    *("conn_open", "conn_close", "chan_open", "chan_close"),
    *("exchange_declare", "exchange_delete", "queue_declare", "queue_delete", "bind", "unbind"),
    *("consume", "cancel", "qos", "test_start", "test_end"),
)


def delivered(channel, queue, count=1, **options):
    """Deliver this many messages to a consumer that keeps them, and return their delivery tags."""
    tags = []
    for method, _, _ in channel.consume(queue, **options):
        tags.append(method.delivery_tag)
        if len(tags) == count:
            return tags
    raise AssertionError("the consumer was cancelled")


def test_the_header_and_no_line_names_run_worker_and_start(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q")

    header = recorded.reader.header

    assert header["leveret"] == "trace"
    assert header["v"] == 1
    assert f"{header['run']}.{header['worker']}.jsonl" in recorded.reader.path
    assert header["profile"] == "4.3"
    assert header["broker"].startswith("leveret ")
    assert datetime.fromisoformat(header["started"]).utcoffset().total_seconds() == 0
    assert all(not {"run", "worker", "day"} & set(row) for row in recorded.rows())


def test_a_line_has_columns_of_the_schema_and_leaves_out_what_does_not_apply(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    channel.basic_get("q", auto_ack=True)

    rows = recorded.rows()

    assert {name for row in rows for name in row} <= set(schema.COLUMNS)
    assert all(value is not None for row in rows for value in row.values())
    types = {"long": int, "int": int, "string": str, "boolean": bool}
    assert all(type(value) is types[schema.COLUMNS[name]] for row in rows for name, value in row.items())


def test_attrs_is_a_string_that_holds_an_object(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q", arguments={"x-max-length": 3})

    row = recorded.row("queue_declare")

    assert isinstance(row["attrs"], str)
    assert attrs(row)["arguments"]["x-max-length"] == 3


def test_numbers_are_unique_in_a_file_though_each_broker_begins_anew(recorded: Recorded, tmp_path) -> None:
    def use(broker: Broker) -> None:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.basic_publish("", "q", b"1")

    use(recorded.broker)
    with Broker(trace_dir=tmp_path / "traces") as another:
        use(another)
    recorded.broker.reset()
    use(recorded.broker)

    rows = recorded.rows()
    assert len({row["seq"] for row in rows}) == len(rows)
    for kind, column in (("published", "msg"), ("enqueued", "copy"), ("conn_open", "conn")):
        numbers = [row[column] for row in rows if row["kind"] == kind]
        assert len(set(numbers)) == 3


def test_seq_is_the_order_of_the_broker_s_actions(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    for number in range(20):
        channel.basic_publish("", "q", b"%d" % number)
    channel.basic_get("q", auto_ack=True)

    numbers = [row["seq"] for row in recorded.rows()]

    assert numbers == sorted(numbers)


@pytest.mark.parametrize("settle", ["basic_nack", "basic_reject"])
def test_a_copy_rejected_with_requeue_is_requeued(recorded: Recorded, settle) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    method, _, _ = channel.basic_get("q")
    getattr(channel, settle)(method.delivery_tag, requeue=True)

    given_up = {"basic_nack": "nacked", "basic_reject": "rejected"}[settle]
    assert recorded.story(1) == ["enqueued", "got", given_up, f"requeued ({given_up})"]


@pytest.mark.parametrize("settle", ["basic_nack", "basic_reject"])
def test_a_copy_rejected_without_requeue_is_dead_lettered(recorded: Recorded, settle) -> None:
    channel = recorded.channel()
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("q", durable=True, arguments=DEAD)
    channel.basic_publish("", "q", b"1")
    method, _, _ = channel.basic_get("q")
    getattr(channel, settle)(method.delivery_tag, requeue=False)

    given_up = {"basic_nack": "nacked", "basic_reject": "rejected"}[settle]
    assert recorded.story(1) == ["enqueued", "got", given_up, "dead_lettered (rejected)"]


@pytest.mark.parametrize("arguments", [None, {"x-dead-letter-exchange": "missing"}])
def test_a_rejected_copy_without_a_dead_letter_exchange_is_dropped_as_rejected(recorded: Recorded, arguments) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.basic_publish("", "q", b"1")
    method, _, _ = channel.basic_get("q")
    channel.basic_reject(method.delivery_tag, requeue=False)

    assert recorded.story(1) == ["enqueued", "got", "rejected", "dropped (rejected)"]


def test_an_assertion_names_why_such_a_copy_left_its_queue(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    method, _, _ = channel.basic_get("q")
    channel.basic_reject(method.delivery_tag, requeue=False)

    recorded.broker.assert_dropped("q", reason="rejected", body="1")


def test_an_expired_copy_ends_by_expired(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q", arguments={"x-message-ttl": 1000})
    recorded.broker.publish("", "q", b"1")
    recorded.broker.clock.advance(2)

    assert recorded.story(1) == ["enqueued", "expired"]
    assert recorded.row("enqueued")["expires"] == recorded.row("enqueued")["ts"] + 1_000_000


def test_an_expired_copy_with_a_dead_letter_exchange_is_then_dead_lettered(recorded: Recorded) -> None:
    recorded.broker.declare_queue("dead")
    recorded.broker.declare_queue("q", arguments={**DEAD, "x-message-ttl": 1000})
    recorded.broker.publish("", "q", b"1")
    recorded.broker.clock.advance(2)

    assert recorded.story(1) == ["enqueued", "expired", "dead_lettered (expired)"]


def test_a_full_queue_drops_its_head(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q", arguments={"x-max-length": 1})
    recorded.broker.publish("", "q", b"1")
    recorded.broker.publish("", "q", b"2")

    assert recorded.story(1) == ["enqueued", "dropped (maxlen)"]


def test_a_full_queue_with_a_dead_letter_exchange_dead_letters_without_dropping(recorded: Recorded) -> None:
    recorded.broker.declare_queue("dead")
    recorded.broker.declare_queue("q", arguments={**DEAD, "x-max-length": 1})
    recorded.broker.publish("", "q", b"1")
    recorded.broker.publish("", "q", b"2")

    assert recorded.story(1) == ["enqueued", "dead_lettered (maxlen)"]


def test_dead_lettered_is_about_the_dying_copy_and_each_enqueued_behind_it_has_a_new_one(recorded: Recorded) -> None:
    broker = recorded.broker
    broker.declare_exchange("graves", "fanout")
    for name in ("north", "south"):
        broker.declare_queue(name)
        broker.bind_queue(name, "graves")
    broker.declare_queue("q", arguments={"x-dead-letter-exchange": "graves", "x-max-length": 1})
    broker.publish("", "q", b"1", message_id="m-1")
    broker.publish("", "q", b"2")

    death = recorded.row("dead_lettered")
    born = recorded.row("enqueued", copy=death["copy"])
    letters = recorded.rows("enqueued", src_copy=death["copy"])
    assert (death["queue"], death["exchange"], death["routing_key"]) == ("q", "graves", "q")
    assert [(row["queue"], row["msg"]) for row in letters] == [("north", born["msg"]), ("south", born["msg"])]
    assert len({born["copy"], *(row["copy"] for row in letters)}) == 3
    assert [attrs(row)["properties"]["headers"]["x-first-death-queue"] for row in letters] == ["q", "q"]


def test_a_message_in_a_stream_is_recorded_as_it_is_stored(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q")
    recorded.broker.declare_queue("log", arguments={"x-queue-type": "stream"})
    for queue in ("q", "log"):
        recorded.broker.publish("", queue, b"1", headers={"n": 1})

    in_queue, in_stream = (recorded.row("enqueued", queue=queue) for queue in ("q", "log"))
    assert "attrs" not in in_queue
    assert attrs(in_stream)["properties"] == {"delivery_mode": 1, "headers": {"n": 1, "x-stream-offset": 0}}


def test_a_purge_is_recorded_once_for_each_copy(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q")
    for body in (b"1", b"2"):
        recorded.broker.publish("", "q", body)
    recorded.broker.purge_queue("q")

    assert [(row["copy"], row["reason"]) for row in recorded.rows("purged")] == [(1, "purged"), (2, "purged")]


def test_copies_deleted_with_their_queue_are_recorded_before_the_queue(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    for body in (b"1", b"2"):
        channel.basic_publish("", "q", body)
    channel.basic_get("q")
    channel.queue_delete("q")

    told = [(row["kind"], row.get("copy"), row.get("reason")) for row in recorded.rows("purged", "queue_delete")]
    assert sorted(told[:2]) == [("purged", 1, "queue_deleted"), ("purged", 2, "queue_deleted")]
    assert told[2:] == [("queue_delete", None, None)]


def test_the_end_of_a_channel_comes_before_its_requeues(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    for body in (b"1", b"2"):
        channel.basic_publish("", "q", body)
    for _ in range(2):
        channel.basic_get("q")
    channel.close()

    told = recorded.rows("chan_close", "requeued")
    assert [(row["kind"], row.get("reason")) for row in told] == [
        ("chan_close", None),
        ("requeued", "channel_closed"),
        ("requeued", "channel_closed"),
    ]


def test_a_refusal_ends_a_channel_in_the_same_order(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    channel.basic_get("q")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        channel.queue_declare("missing", passive=True)

    told = recorded.rows("refused", "chan_close", "requeued")
    assert [row["kind"] for row in told] == ["refused", "chan_close", "requeued"]
    assert told[1]["reason"] == "NOT_FOUND - no queue 'missing' in vhost '/'"
    assert attrs(told[0])["code"] == 404


def test_a_lost_connection_is_recorded_without_its_channels_before_its_requeues(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    channel.basic_get("q")
    recorded.broker.faults.reset_peer()
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("q", passive=True)

    told = recorded.rows("conn_close", "chan_close", "requeued")
    assert [(row["kind"], row.get("reason")) for row in told] == [
        ("conn_close", "connection reset"),
        ("requeued", "channel_closed"),
    ]


@pytest.mark.parametrize("how", ["consumer", "get"])
def test_a_delivery_without_ack_is_followed_by_its_acked(recorded: Recorded, how) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    if how == "get":
        channel.basic_get("q", auto_ack=True)
    else:
        delivered(channel, "q", auto_ack=True)

    kind = {"consumer": "delivered", "get": "got"}[how]
    assert recorded.story(1) == ["enqueued", kind, "acked (no_ack)"]
    assert recorded.row("acked")["tag"] == recorded.row(kind)["tag"]


def test_an_ack_of_several_is_recorded_once_for_each_copy(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    for number in range(3):
        channel.basic_publish("", "q", b"%d" % number)
    tags = delivered(channel, "q", 3)
    channel.basic_ack(tags[-1], multiple=True)

    assert [(row["copy"], row["tag"], row["multiple"], attrs(row)) for row in recorded.rows("acked")] == [
        (copy, tag, True, {"up_to_tag": tags[-1]}) for copy, tag in zip((1, 2, 3), tags, strict=True)
    ]


@pytest.mark.parametrize("settles", ["ack", "nack"])
def test_what_one_method_settled_is_told_from_what_the_next_did(recorded: Recorded, settles: str) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    for number in range(4):
        channel.basic_publish("", "q", b"%d" % number)
    tags = delivered(channel, "q", 4)
    settle = channel.basic_ack if settles == "ack" else partial(channel.basic_nack, requeue=False)
    settle(tags[1], multiple=True)
    settle(tags[2], multiple=True)
    channel.basic_ack(tags[3])

    rows = recorded.rows("acked", "nacked")
    assert [attrs(row)["up_to_tag"] for row in rows[:3]] == [tags[1], tags[1], tags[2]]
    assert "attrs" not in rows[3]


def test_an_ack_of_all_has_the_newest_tag_that_it_settled(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    for number in range(2):
        channel.basic_publish("", "q", b"%d" % number)
    tags = delivered(channel, "q", 2)
    channel.basic_ack(0, multiple=True)

    assert [attrs(row)["up_to_tag"] for row in recorded.rows("acked")] == [tags[1], tags[1]]


def test_an_ack_of_a_transaction_has_its_tag_in_each_queue_that_settles_at_once(recorded: Recorded) -> None:
    channel = recorded.channel()
    for name, arguments in (("classic", {}), ("quorum", {"x-queue-type": "quorum"})):
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.basic_publish("", name, b"1")
    channel.tx_select()
    tags = [channel.basic_get(name)[0].delivery_tag for name in ("classic", "quorum")]
    channel.basic_ack(tags[1], multiple=True)
    channel.basic_publish("", "classic", b"2")
    channel.tx_commit()

    assert [(row["queue"], attrs(row)["up_to_tag"]) for row in recorded.rows("acked")] == [
        ("classic", tags[1]),
        ("quorum", tags[1]),
    ]


def test_a_redelivery_is_flagged_and_counted(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    for _ in range(2):
        method, _, _ = channel.basic_get("q")
        channel.basic_nack(method.delivery_tag)

    assert [(row["redelivered"], row["count"]) for row in recorded.rows("got")] == [(False, 0), (True, 1)]


def test_a_publish_has_its_number_in_confirm_mode_only(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"before")
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        channel.basic_publish("", "q", body)

    assert [row.get("tag") for row in recorded.rows("published")] == [None, 1, 2]
    confirms = recorded.rows("confirmed")
    assert [(row["tag"], row["msg"]) for row in confirms] == [(1, 2), (2, 3)]
    assert {(row["conn"], row["chan"]) for row in confirms} == {(1, 1)}


def test_one_confirm_of_several_is_recorded_once_for_each_message(recorded: Recorded) -> None:
    async def publish_all() -> None:
        async with await aio_pika.connect(recorded.broker.url) as connection:
            channel = await connection.channel()
            await channel.declare_queue("q", durable=True)
            messages = [aio_pika.Message(b"%d" % number) for number in range(300)]
            await asyncio.gather(*(channel.default_exchange.publish(message, "q") for message in messages))

    asyncio.run(publish_all())

    confirms = recorded.rows("confirmed")
    assert [(row["tag"], row["msg"]) for row in confirms] == [(number, number) for number in range(1, 301)]
    assert any(row["multiple"] for row in confirms)


def test_a_refused_publish_is_nacked_once(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"1")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "q", b"2")

    assert [(row["tag"], row["msg"]) for row in recorded.rows("nacked_confirm")] == [(2, 2)]


def test_a_mandatory_publish_without_a_queue_is_returned(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"1", mandatory=True)

    row = recorded.row("returned")
    assert (row["msg"], row["reason"]) == (1, "NO_ROUTE")
    assert not {"copy", "queue"} & set(row)
    assert recorded.rows("dropped") == []


def test_a_publish_without_a_queue_is_dropped_as_rejected(recorded: Recorded) -> None:
    recorded.channel().basic_publish("", "nowhere", b"1")

    row = recorded.row("dropped")
    assert (row["msg"], row["reason"], row["exchange"], row["routing_key"]) == (1, "no route", "", "nowhere")
    assert not {"copy", "queue"} & set(row)


def test_a_dead_letter_in_a_cycle_is_dropped(recorded: Recorded) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 1000}
    recorded.broker.declare_queue("q", arguments=arguments)
    recorded.broker.publish("", "q", b"1")
    recorded.broker.clock.advance(2)

    row = recorded.row("dropped")
    assert (row["queue"], row["msg"], row["reason"]) == ("q", 1, "cycle")
    assert "copy" not in row
    recorded.broker.assert_dropped("q", reason="cycle")


def test_a_direct_reply_is_recorded_as_if_it_passed_through_a_queue(recorded: Recorded) -> None:
    requester, responder = recorded.channel(), recorded.channel()
    requester.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    responder.queue_declare("requests", durable=True)
    requester.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    recorded.broker.sync()
    _, properties, _ = responder.basic_get("requests", auto_ack=True)
    responder.basic_publish("", properties.reply_to, b"!")

    reply = recorded.row("published", routing_key=properties.reply_to)
    told = [row for row in recorded.rows(msg=reply["msg"]) if row["kind"] != "published"]
    assert [(row["kind"], row["queue"]) for row in told] == [
        (kind, properties.reply_to) for kind in ("enqueued", "delivered", "acked")
    ]
    assert (told[1]["conn"], told[2]["reason"]) == (1, "no_ack")


def test_a_reply_without_a_requester_is_dropped(recorded: Recorded) -> None:
    requester, responder = recorded.channel(), recorded.channel()
    tag = requester.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    responder.queue_declare("requests", durable=True)
    requester.basic_publish("", "requests", b"?", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    recorded.broker.sync()
    _, properties, _ = responder.basic_get("requests", auto_ack=True)
    requester.basic_cancel(tag)
    responder.basic_publish("", properties.reply_to, b"!")

    row = recorded.row("dropped")
    assert (row["reason"], row["queue"]) == ("no requester", properties.reply_to)


def test_publishes_of_a_rolled_back_transaction_are_dropped(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.tx_select()
    channel.basic_publish("", "q", b"1")
    channel.tx_rollback()

    assert [row["kind"] for row in recorded.rows(msg=1)] == ["published", "dropped"]
    assert recorded.row("dropped")["reason"] == "rolled_back"


def test_qos_and_consume_record_prefetch_and_acknowledgement_mode(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("q", lambda *_: None, consumer_tag="worker")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("q", lambda *_: None, consumer_tag="eager", auto_ack=True)

    assert [row["count"] for row in recorded.rows("qos")] == [5, 7]
    consumers = {row["consumer"]: attrs(row) for row in recorded.rows("consume")}
    assert (consumers["worker"]["prefetch_count"], consumers["worker"]["no_ack"]) == (5, False)
    assert consumers["eager"]["no_ack"] is True


def test_topology_is_recorded_with_its_types_and_arguments(recorded: Recorded) -> None:
    channel = recorded.channel()
    channel.exchange_declare("orders", "topic", durable=True)
    channel.exchange_declare("all", "fanout", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind("q", "orders", "order.*")
    channel.exchange_bind("all", "orders", "#")
    channel.queue_unbind("q", "orders", "order.*")

    assert {row["exchange"]: attrs(row)["type"] for row in recorded.rows("exchange_declare")} == {
        "orders": "topic",
        "all": "fanout",
    }
    assert attrs(recorded.row("queue_declare"))["arguments"] == {"x-queue-type": "quorum"}
    to_queue, to_exchange = recorded.rows("bind")
    assert (to_queue["exchange"], to_queue["routing_key"], to_queue["queue"]) == ("orders", "order.*", "q")
    assert "queue" not in to_exchange
    assert (attrs(to_exchange)["destination_kind"], attrs(to_exchange)["destination"]) == ("exchange", "all")
    assert recorded.row("unbind")["queue"] == "q"


def test_a_message_is_recorded_by_its_hash_size_and_properties(recorded: Recorded) -> None:
    properties = pika.BasicProperties(
        content_type="text/plain", message_id="m-1", correlation_id="c-1", headers={"CC": ["q2"], "n": 1}
    )
    recorded.channel().basic_publish("", "q", b"hello", properties)

    row = recorded.row("published")
    assert (row["size"], row["body_hash"]) == (5, body_hash(b"hello"))
    assert (row["message_id"], row["correlation_id"]) == ("m-1", "c-1")
    assert attrs(row) == {
        "properties": {"content_type": "text/plain", "headers": {"CC": ["q2"], "n": 1}},
        "routing_keys": ["q", "q2"],
    }
    assert "hello" not in json.dumps(recorded.rows())


def test_wall_is_real_time_even_if_the_test_advances_the_clock(recorded: Recorded) -> None:
    recorded.broker.declare_queue("before")
    recorded.broker.clock.advance(hours=5)
    recorded.broker.declare_queue("after")

    before, after = recorded.rows("queue_declare")
    assert after["ts"] - before["ts"] >= 5 * 3600 * 1_000_000
    assert after["wall"] - before["wall"] < 3600 * 1_000_000


def test_a_fault_is_recorded_with_the_method_it_affected(recorded: Recorded) -> None:
    recorded.broker.declare_queue("q")
    recorded.broker.faults.nack_publishes()
    channel = recorded.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "q", b"1")

    told = recorded.rows("fault", "published", "dropped", "nacked_confirm")
    assert [row["kind"] for row in told] == ["fault", "published", "dropped", "nacked_confirm"]
    assert attrs(told[0]) == {"on": "basic.publish", "fault": "nack_publishes"}
    assert told[2]["reason"] == "fault"


def test_every_kind_that_version_1_began_with_is_written_by_leveret() -> None:
    assert set(FIRST_KINDS) <= set(KINDS)


def test_every_copy_ends_at_most_once(recorded: Recorded) -> None:
    broker = recorded.broker
    broker.declare_queue("dead", arguments={"x-max-length": 2})
    broker.declare_queue("q", arguments={**DEAD, "x-max-length": 5, "x-message-ttl": 60_000})
    channel = recorded.channel()
    for number in range(12):
        channel.basic_publish("", "q", b"%d" % number)
    tags = delivered(channel, "q", 3)
    channel.basic_ack(tags[0])
    channel.basic_nack(tags[1], requeue=False)
    channel.basic_reject(tags[2], requeue=True)
    channel.cancel()
    broker.clock.advance(120)
    broker.delete_queue("dead")

    ends: dict[int, list[str]] = {}
    for row in recorded.rows():
        if row["kind"] == "enqueued":
            ends.setdefault(row["copy"], [])
        elif row["kind"] in ENDS and "copy" in row:
            ends[row["copy"]].append(row["kind"])
    assert {tuple(kinds) for kinds in ends.values()} == {
        ("acked",),
        ("dead_lettered",),
        ("expired", "dead_lettered"),
        ("dropped",),
        ("purged",),
    }
