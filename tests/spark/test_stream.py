"""`format("amqp")` as a user sees it: DataFrames from queues and into exchanges."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret import Broker
from tests.spark.crashes import end_of

Reading = Callable[..., DataFrame]


@pytest.fixture
def read(session: SparkSession, leveret: Broker) -> Reading:
    def read(queue: str, **options: object) -> DataFrame:
        return session.read.format("amqp").options(url=leveret.url, queue=queue, **options).load()

    return read


def stream(session: SparkSession, leveret: Broker, queue: str, **options: object) -> DataFrame:
    return session.readStream.format("amqp").options(url=leveret.url, queue=queue, **options).load()


def write(frame: DataFrame, leveret: Broker, **options: object) -> None:
    frame.write.format("amqp").options(url=leveret.url, **options).mode("append").save()


def said_by(act: Callable[[], object]) -> str:
    with pytest.raises(Exception, match=r"\w") as raised:
        act()
    return str(raised.value)


def texts(leveret: Broker, queue: str) -> list[str]:
    return [message.text for message in leveret.queue(queue).ready]


def test_a_message_is_a_row_with_all_its_properties(leveret: Broker, read: Reading) -> None:
    leveret.declare_exchange("shop", "topic")
    leveret.declare_queue("orders")
    leveret.bind_queue("orders", "shop", "order.*")
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    properties: dict[str, Any] = {"content_type": "application/json", "priority": 3, "type": "order", "app_id": "web"}
    leveret.publish("shop", "order.new", b'{"id": 7}', message_id="m7", timestamp=at, headers={"n": 1}, **properties)

    (row,) = read("orders").collect()

    assert (bytes(row.body), row.exchange, row.routing_key, row.queue) == (b'{"id": 7}', "shop", "order.new", "orders")
    assert (row.message_id, row.content_type, row.priority, row.type, row.app_id) == (
        "m7",
        "application/json",
        3,
        "order",
        "web",
    )
    assert (json.loads(row.headers), row.ordinal, row.reply_to) == ({"n": 1}, 0, None)
    assert row.timestamp.replace(tzinfo=row.timestamp.tzinfo or UTC) == at


def test_a_batch_is_looked_at_and_left_in_its_queue(leveret: Broker, read: Reading) -> None:
    leveret.declare_queue("orders")
    for number in range(3):
        leveret.publish("", "orders", str(number))

    orders = read("orders").selectExpr("cast(body as string) as body")

    assert orders.count() == 3
    assert [row.body for row in orders.collect()] == ["0", "1", "2"]
    assert texts(leveret, "orders") == ["0", "1", "2"]


def test_a_batch_that_is_acknowledged_on_read_is_gone(leveret: Broker, read: Reading) -> None:
    leveret.declare_queue("orders")
    for number in range(5):
        leveret.publish("", "orders", str(number))

    taken = read("orders", ack="on_read", maxMessages=3).selectExpr("cast(body as string) as body").collect()

    assert [row.body for row in taken] == ["0", "1", "2"]
    assert texts(leveret, "orders") == ["3", "4"]


def test_only_the_columns_one_wants_may_be_read(session: SparkSession, leveret: Broker) -> None:
    leveret.declare_queue("orders")
    leveret.publish("", "orders", "x")

    reader = session.read.format("amqp").options(url=leveret.url, queue="orders")
    frame = reader.schema("body binary, message_id string").load()

    assert frame.columns == ["body", "message_id"]
    assert bytes(frame.collect()[0].body) == b"x"


def test_a_stream_moves_messages_from_a_queue_into_an_exchange(
    session: SparkSession, leveret: Broker, tmp_path: Path
) -> None:
    leveret.declare_queue("in")
    leveret.declare_queue("out")
    for number in range(25):
        leveret.publish("", "in", str(number), headers={"tenant": "a"})

    doubled = stream(session, leveret, "in", maxMessagesPerBatch=10).selectExpr(
        "cast(cast(body as string) * 2 as bigint) || '' as body", "headers"
    )
    writer = doubled.writeStream.format("amqp").options(url=leveret.url, queue="out", checkpointLocation=str(tmp_path))
    query = writer.trigger(availableNow=True).start()

    assert end_of(query) == ""
    assert sorted(map(int, texts(leveret, "out"))) == list(range(0, 50, 2))
    leveret.assert_empty("in")
    ids = {message.message_id for message in leveret.queue("out").ready}
    assert ids >= {f"{query.id}/{batch}/0/0" for batch in range(3)}
    assert all(message.headers == {"tenant": "a"} for message in leveret.queue("out").ready)


def test_the_last_batch_of_a_queue_that_falls_quiet_is_acknowledged(
    session: SparkSession, leveret: Broker, tmp_path: Path
) -> None:
    leveret.declare_queue("in")
    leveret.publish("", "in", "only one")
    writer = stream(session, leveret, "in").writeStream.format("noop").option("checkpointLocation", str(tmp_path))

    query = writer.start()

    leveret.assert_acked("in", body=b"only one", timeout=60)
    query.stop()


def test_messages_say_themselves_where_they_go(session: SparkSession, leveret: Broker) -> None:
    leveret.declare_exchange("shop", "direct")
    for colour in ("red", "blue"):
        leveret.declare_queue(colour)
        leveret.bind_queue(colour, "shop", colour)
    rows = [("1", "red", {"a": "b"}), ("2", "blue", None)]

    write(
        session.createDataFrame(rows, "value string, routing_key string, headers map<string,string>"),
        leveret,
        exchange="shop",
    )

    (red,), (blue,) = leveret.queue("red").ready, leveret.queue("blue").ready
    assert (red.text, red.headers, red.delivery_mode) == ("1", {"a": "b"}, 2)
    assert (blue.text, blue.headers) == ("2", {})


def test_a_message_that_no_queue_gets_fails_the_task(session: SparkSession, leveret: Broker) -> None:
    frame = session.createDataFrame([("x",)], "body string")

    said = said_by(lambda: write(frame, leveret, exchange="amq.direct", routingKey="nowhere"))

    assert "was returned (312 NO_ROUTE): no queue is bound to exchange 'amq.direct' for routing key 'nowhere'" in said


def test_on_return_ignore_accepts_an_unroutable_message(session: SparkSession, leveret: Broker) -> None:
    frame = session.createDataFrame([("x",)], "body string")

    write(frame, leveret, exchange="amq.direct", routingKey="nowhere", onReturn="ignore")

    leveret.assert_dropped(exchange="amq.direct")


def test_each_row_may_say_whether_it_has_to_arrive(session: SparkSession, leveret: Broker) -> None:
    rows = session.createDataFrame([("may", False), ("must", True)], "body string, mandatory boolean").coalesce(1)
    options = {"exchange": "amq.direct", "routingKey": "nowhere", "onReturn": "column"}

    write(rows.where("body = 'may'"), leveret, **options)
    said = said_by(lambda: write(rows.where("body = 'must'"), leveret, **options))

    assert "was returned (312 NO_ROUTE)" in said


def test_a_nack_fails_the_task(session: SparkSession, leveret: Broker) -> None:
    leveret.declare_queue("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})

    said = said_by(lambda: write(session.range(5).selectExpr("'x' as body"), leveret, queue="full"))

    assert "the broker nacked" in said


def test_a_confirm_that_does_not_come_fails_the_task(session: SparkSession, leveret: Broker) -> None:
    leveret.declare_queue("out")
    leveret.faults.withhold_confirms()
    frame = session.range(1).selectExpr("'x' as body")

    said = said_by(lambda: write(frame, leveret, queue="out", confirmTimeoutSeconds=0.2))

    assert "1 messages were not confirmed within 0.2 s" in said


def test_overwriting_is_refused(session: SparkSession, leveret: Broker) -> None:
    frame = session.range(1).selectExpr("'x' as body")
    writer = frame.write.format("amqp").options(url=leveret.url, queue="out").mode("overwrite")

    assert "a broker cannot take messages back" in said_by(writer.save)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("'x' as text", "unknown column 'text'"),
        ("'x' as message_id", "neither of the columns body and value"),
        ("1 as body", "column 'body' has type int; it must be binary or string"),
        (
            "'x' as body, true as mandatory",
            "onReturn=fail does not go with a column mandatory; use onReturn=column together with a boolean column",
        ),
    ],
)
def test_a_frame_that_is_no_message_is_refused(session: SparkSession, leveret: Broker, columns: str, said: str) -> None:
    frame = session.range(1).selectExpr(*columns.split(", "))

    assert said in said_by(lambda: write(frame, leveret, queue="out"))


def test_a_frame_without_an_address_is_refused(session: SparkSession, leveret: Broker) -> None:
    assert "no destination is given: set the option queue" in said_by(
        lambda: write(session.range(1).selectExpr("'x' as body"), leveret)
    )


def test_an_unknown_option_is_refused_when_it_is_loaded(read: Reading) -> None:
    assert "did you mean 'maxMessages'?" in said_by(lambda: read("orders", maxMesages=5))


def test_a_missing_queue_is_reported_with_its_name(
    session: SparkSession, leveret: Broker, read: Reading, tmp_path: Path
) -> None:
    said = "no queue 'nowhere' in vhost '/': format amqp declares nothing"
    writer = stream(session, leveret, "nowhere").writeStream.format("noop")

    query = writer.option("checkpointLocation", str(tmp_path)).start()

    assert said in said_by(lambda: read("nowhere").count())
    assert said in end_of(query)


def test_a_column_no_message_has_cannot_be_read(session: SparkSession, leveret: Broker) -> None:
    leveret.declare_queue("orders")
    reader = session.read.format("amqp").options(url=leveret.url, queue="orders").schema("text string")

    assert "unknown column 'text'; expected one of " in said_by(lambda: reader.load().collect())


def test_messages_that_were_read_can_be_written(leveret: Broker, read: Reading) -> None:
    leveret.declare_queue("in")
    leveret.declare_queue("out")
    leveret.publish("", "in", "x", message_id="m1", headers={"n": 1}, timestamp=datetime(2026, 1, 1, tzinfo=UTC))

    write(read("in").withColumn("routing_key", F.lit("out")), leveret)

    (before,), (after,) = leveret.queue("in").ready, leveret.queue("out").ready
    assert (after.text, after.message_id, after.headers, after.timestamp) == ("x", "m1", {"n": 1}, before.timestamp)
