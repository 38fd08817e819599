"""RabbitMQ's firehose and the logs of its tracing plugin: both become the same rows."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest

from leveret.errors import UnreadableTraceError
from leveret.trace.firehose import Firehose, write_trace
from leveret.trace.jsonl import TraceReader
from leveret.trace.rows import body_hash

SAMPLES = Path(__file__).parent / "samples"
VERSIONS = ("rabbitmq-4.3", "rabbitmq-3.10")
# Fields that differ between recordings, and fields that a log does not have.
OF_ONE_RECORDING = ("ts", "wall", "redelivered")


def of_firehose(version, **options):
    firehose = Firehose(**options)
    lines = (SAMPLES / version / "firehose.jsonl").read_text(encoding="utf-8").splitlines()
    messages = [json.loads(line) for line in lines]
    return [firehose.row(one["routing_key"], one["headers"], base64.b64decode(one["body"])) for one in messages]


def without_time(row):
    told = {name: value for name, value in row.items() if name not in OF_ONE_RECORDING}
    attrs = json.loads(told.pop("attrs"))
    for death in attrs.get("properties", {}).get("headers", {}).get("x-death", ()):
        del death["time"]
    return told | {"attrs": attrs}


@pytest.mark.parametrize("version", VERSIONS)
def test_publishes_and_deliveries_come_in_order(version):
    rows = of_firehose(version)

    assert [(row["kind"], row.get("queue")) for row in rows] == [
        *[("published", None)] * 5,
        *[("delivered", "orders.work")] * 4,
        *[("delivered", "orders.dead")] * 2,
        ("delivered", "orders.log"),
    ]
    assert [row["seq"] for row in rows] == list(range(1, 13))


def test_a_publish_has_its_queues():
    row = of_firehose("rabbitmq-4.3")[0]
    attrs = json.loads(row.pop("attrs"))

    assert row == {
        "kind": "published",
        "seq": 1,
        "msg": 1,
        "body_hash": body_hash(b'{"id": 1}'),
        "size": 9,
        "message_id": "m-1",
        "correlation_id": "c-1",
        "vhost": "leveret-samples",
        "conn": 1,
        "chan": 1,
        "exchange": "orders",
        "routing_key": "order.created",
    }
    assert attrs["routed_queues"] == ["orders.work", "orders.log"]
    assert attrs["properties"]["headers"]["customer"] == "späte"


def test_further_keys_stand_beside_the_first():
    row = of_firehose("rabbitmq-4.3")[3]

    assert (row["exchange"], row["routing_key"]) == ("", "orders.log")
    assert json.loads(row["attrs"])["routing_keys"] == ["orders.log", "orders.dead"]


def test_a_delivery_has_the_redelivered_flag():
    deliveries = [row for row in of_firehose("rabbitmq-4.3") if row.get("queue") == "orders.work"]

    assert [row["redelivered"] for row in deliveries] == [False, False, True, True]
    assert all("msg" not in row and "copy" not in row for row in deliveries)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_log_equals_the_firehose(version):
    rows = list(Firehose().log(SAMPLES / version / "tracing-json.log"))

    assert [without_time(row) for row in rows] == [without_time(row) for row in of_firehose(version)]


def test_a_log_has_times_and_no_flag_of_redelivery():
    rows = list(Firehose().log(SAMPLES / "rabbitmq-4.3" / "tracing-json.log"))

    times = [row["ts"] for row in rows]
    assert times == sorted(times) == [row["wall"] for row in rows]
    assert datetime.fromtimestamp(times[0] / 1e6, UTC).year == 2026
    assert all("redelivered" not in row for row in rows)


@pytest.mark.parametrize("kept", [2, 30, 200, 400])
def test_a_log_that_is_cut_has_the_entries_before(tmp_path, kept):
    whole = SAMPLES / "rabbitmq-4.3" / "tracing-json.log"
    entries, content = list(Firehose().log(whole)), whole.read_bytes()
    path = tmp_path / "cut.log"
    path.write_bytes(content[: content.rindex(b'\n{"node"') + kept])

    assert list(Firehose().log(path)) == entries[:-1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it does not begin with an entry"),
        (b"2026-11-21 [info] started\n", "it does not begin with an entry"),
        (b'{"a": 1}\n', "line 1 is not an entry of rabbitmq_tracing"),
        (b"{]\n", "line 1 is not an entry of rabbitmq_tracing"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "rabbit.log"
    path.write_bytes(content)

    with pytest.raises(UnreadableTraceError, match=f"rabbit.log.*{said}"):
        list(Firehose().log(path))


def test_a_message_of_another_exchange_is_refused():
    with pytest.raises(UnreadableTraceError, match=r"routing key 'order\.created' is not one of the firehose"):
        Firehose().row("order.created", {}, b"")


def test_secrets_are_redacted_as_in_a_recorded_trace():
    row = of_firehose("rabbitmq-4.3", redact=["customer"])[0]

    headers = json.loads(row["attrs"])["properties"]["headers"]
    assert (headers["Authorization"], headers["customer"]) == ("(redacted)", "(redacted)")


def test_bodies_are_kept_when_asked_for():
    rows = of_firehose("rabbitmq-4.3", bodies=True)

    assert [json.loads(row["attrs"])["body"] for row in rows[:2]] == ['{"id": 1}', "base64:AP8K"]


def test_rows_make_a_trace_file(tmp_path):
    rows = of_firehose("rabbitmq-4.3")

    path = write_trace(
        rows, str(tmp_path), run="staging", started=datetime(2026, 1, 2, tzinfo=UTC), broker="rabbitmq 4.3.6"
    )

    reader = TraceReader(path)
    assert (reader.header["run"], reader.header["worker"]) == ("staging", "firehose")
    assert (reader.header["broker"], reader.header["started"]) == ("rabbitmq 4.3.6", "2026-01-02T00:00:00+00:00")
    assert list(reader) == rows


def test_the_firehose_of_leveret_is_read_in_the_same_way(broker):
    broker.admin.trace_on()
    broker.declare_queue("orders")
    broker.declare_queue("firehose")
    broker.bind_queue("firehose", "amq.rabbitmq.trace", "#")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.basic_publish("", "orders", b"1", pika.BasicProperties(message_id="m-1"))
        channel.basic_get("orders", auto_ack=True)
        firehose, rows = Firehose(), []
        for _ in range(2):
            method, properties, body = channel.basic_get("firehose", auto_ack=True)
            rows.append(firehose.row(method.routing_key, properties.headers, body))

    assert [(row["kind"], row["message_id"], row["body_hash"]) for row in rows] == [
        ("published", "m-1", body_hash(b"1")),
        ("delivered", "m-1", body_hash(b"1")),
    ]
