"""`leveret record` of files: what rabtap has saved, and what was published in a leveret trace."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker
from leveret.cli import main
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Field, Table
from leveret.recording.rec_file import RecordedMessage, read_recording

from .conftest import order
from .services import serve

# What rabtap prints for its own test message (ExampleWriteMessage in its cmd/rabtap/message_writer_test.go).
OF_RABTAP = """\
{
  "Headers": {
    "header": "value"
  },
  "ContentType": "plain/text",
  "ContentEncoding": "utf-8",
  "DeliveryMode": 0,
  "Priority": 99,
  "CorrelationID": "4712",
  "ReplyTo": "",
  "Expiration": "2017-05-22 17:00:00",
  "MessageID": "4711",
  "Timestamp": "2009-11-10T23:00:00Z",
  "Type": "some type",
  "UserID": "456",
  "AppID": "123",
  "DeliveryTag": 0,
  "Redelivered": false,
  "Exchange": "exchange",
  "RoutingKey": "routingkey",
  "XRabtapReceivedTimestamp": "2019-06-13T17:45:01Z",
  "Body": "c2ltcGxlIHRlc3QgbWVzc2FnZS4="
}
"""
# One as rabtap prints it for a message without properties (its cmd/rabtap/message_reader_dir_test.go).
PLAIN = json.loads("""\
{"ContentType": "", "ContentEncoding": "", "DeliveryMode": 0, "Priority": 0, "CorrelationID": "", "ReplyTo": "",
"Expiration": "", "MessageID": "", "Timestamp": "0001-01-01T00:00:00Z", "Type": "", "UserID": "", "AppID": "",
"DeliveryTag": 1, "Redelivered": false, "Exchange": "amq.fanout", "RoutingKey": "key",
"XRabtapReceivedTimestamp": "2019-12-29T21:51:33.52288901+01:00", "Body": "SGVsbG8="}
""")
Record = Callable[..., list[RecordedMessage]]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Return a function that records a file or a folder, and returns the messages of the recording."""

    def run(source: Path, *options: str) -> list[RecordedMessage]:
        path = tmp_path / "orders.rec"
        assert main(["record", str(source), *options, "-o", str(path)]) == 0
        return read_recording(path).messages

    return run


def saved(**changes: Any) -> str:
    """Return a message as rabtap writes it in its format json-nopp."""
    return json.dumps(PLAIN | changes, separators=(",", ":")) + "\n"


def encoded(body: bytes) -> str:
    return base64.b64encode(body).decode()


def test_a_message_of_rabtap_keeps_its_properties_body_and_time(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "messages.json"
    path.write_text(OF_RABTAP)

    (message,) = record(path)

    assert (message.exchange, message.routing_key, message.body) == ("exchange", "routingkey", b"simple test message.")
    assert message.at == datetime(2019, 6, 13, 17, 45, 1, tzinfo=UTC).timestamp() * 1_000_000
    assert message.properties == Properties(
        content_type="plain/text",
        content_encoding="utf-8",
        headers=Table((("header", Field("S", b"value")),)),
        priority=99,
        correlation_id="4712",
        expiration="2017-05-22 17:00:00",
        message_id="4711",
        timestamp=1_257_894_000,
        type="some type",
        user_id="456",
        app_id="123",
    )


def test_messages_of_rabtap_may_follow_each_other_in_any_layout(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "messages.json"
    path.write_text(OF_RABTAP + saved() + "\n\n" + saved(Body="") + OF_RABTAP.rstrip(), encoding="utf-8-sig")

    messages = record(path)

    assert [it.body for it in messages] == [b"simple test message.", b"Hello", b"", b"simple test message."]
    assert messages[1].properties.to_python() == {}
    assert messages[1].at == datetime(2019, 12, 29, 20, 51, 33, 522_889, tzinfo=UTC).timestamp() * 1_000_000


def test_a_folder_of_rabtap_is_recorded_in_its_order(tmp_path: Path, record: Record) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    for number, body in ((1_790_000_000_000_000_002, b"\xff second"), (1_790_000_000_000_000_001, b"first")):
        (folder / f"rabtap-{number}.json").write_text(saved(Body=""))
        (folder / f"rabtap-{number}.dat").write_bytes(body)
    (folder / "rabtap-1790000000000000003.json").write_text(saved(Body=encoded(b"with its metadata")))
    (folder / "package.json").write_text("{}")

    assert [it.body for it in record(folder)] == [b"first", b"\xff second", b"with its metadata"]
    assert [it.body for it in record(folder / "rabtap-1790000000000000001.json")] == [b"first"]


def test_headers_of_rabtap_get_the_types_of_their_json(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "messages.json"
    path.write_text(saved(Headers={"n": 5, "big": 2**40, "half": 0.5, "no": None, "list": [True, {"a": "ü"}]}))

    assert record(path)[0].properties.headers == Table(
        (
            *(("n", Field("I", 5)), ("big", Field("l", 2**40)), ("half", Field("d", 0.5)), ("no", Field("V", None))),
            ("list", Field("A", (Field("t", True), Field("F", Table((("a", Field("S", "ü".encode())),)))))),
        )
    )


def test_what_rabtap_got_from_the_firehose_is_the_publish_that_it_is_about(tmp_path: Path, record: Record) -> None:
    properties = {"headers": {"shop": "Rome"}, "priority": 3, "message_id": "m1", "timestamp": 1_780_000_000}
    headers = {"exchange_name": "orders", "routing_keys": ["order.made"], "properties": properties}
    path = tmp_path / "messages.json"
    of_firehose = {"Exchange": "amq.rabbitmq.trace", "Headers": headers}
    path.write_text(saved(RoutingKey="publish.orders", **of_firehose) + saved(RoutingKey="deliver.x", **of_firehose))

    (message,) = record(path, "--exchange", "orders")

    assert (message.exchange, message.routing_key, message.body) == ("orders", "order.made", b"Hello")
    assert message.properties.to_python() == properties


def test_a_file_is_recorded_without_what_is_dropped_and_up_to_a_limit(
    tmp_path: Path, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "messages.json"
    path.write_text("".join(saved(Body=encoded(b'{"email":"ann@example.com","id":%d}' % n)) for n in range(5)))

    messages = record(path, "--drop", "*email*", "--limit", "2")

    assert [it.json for it in messages] == [{"id": 0}, {"id": 1}]
    assert b"ann@" not in (tmp_path / "orders.rec").read_bytes()
    assert "2 messages in " in capsys.readouterr().out


def test_a_file_gives_proposals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "messages.json"
    path.write_text(saved(Body=encoded(b'{"email":"ann@example.com","id":1}')))

    assert main(["record", str(path), "--propose"]) == 0
    assert capsys.readouterr().out == "--hash 'body.email'\n"


def of_trace(folder: Path, **options: Any) -> Path:
    """Return the trace of a broker that got three messages."""
    with Broker(trace_dir=folder, checks="all=off", **options) as broker:
        broker.declare_exchange("orders", "topic")
        broker.declare_queue("billing", arguments={"x-dead-letter-exchange": "orders"})
        broker.bind_queue("billing", "orders", "#")
        properties = {"priority": 3, "message_id": "m1", "correlation_id": "c1", "timestamp": 1_780_000_000}
        headers = {"n": 5, "half": 0.5, "x-token": "tok-17", "list": ["a", {"b": None}]}
        broker.publish("orders", "order.made", json={"id": 7}, headers=headers, **properties)
        broker.publish("orders", "order.made", b"\xff\x00")
        broker.publish("orders", "order.paid", b"base64:aGVsbG8=")
    (path,) = folder.iterdir()
    return path


def test_a_trace_is_recorded_with_its_properties_and_bodies(
    tmp_path: Path, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = record(of_trace(tmp_path / "traces", trace_bodies=True))

    assert [it.body for it in messages] == [b'{"id": 7}', b"\xff\x00", b"base64:aGVsbG8="]
    assert [(it.exchange, it.routing_key) for it in messages][1:] == [
        ("orders", "order.made"),
        ("orders", "order.paid"),
    ]
    assert messages[0].headers == {"n": 5, "half": 0.5, "x-token": "(redacted)", "list": ["a", {"b": None}]}
    given = messages[0].properties
    assert (given.priority, given.message_id, given.correlation_id) == (3, "m1", "c1")
    assert given.timestamp == 1_780_000_000
    assert "with a header that is (redacted), as a trace hides it: 1 message" in capsys.readouterr().out


@pytest.mark.parametrize("body", [b"base64:aGVsbG8=", b"base64:abcde", b"base64:"])
def test_a_body_that_begins_as_a_trace_writes_base64_is_recorded_as_it_is(
    body: bytes, tmp_path: Path, record: Record
) -> None:
    with Broker(trace_dir=tmp_path / "traces", trace_bodies=True, checks="all=off") as broker:
        broker.publish("", "nowhere", body)
    (path,) = (tmp_path / "traces").iterdir()

    assert [it.body for it in record(path)] == [body]


def test_a_replay_of_a_trace_has_the_outcomes_that_were_traced(
    tmp_path: Path, orders: Callable[..., Path], record: Record
) -> None:
    given, folder = orders([order(number) for number in range(10)], path="given.rec"), tmp_path / "traces"
    with Broker(trace_dir=folder, trace_bodies=True, checks="all=off") as broker:
        traced = broker.replay(given)
        with broker.worker(serve):
            before = traced.play()
    (path,) = folder.iterdir()

    messages = record(path, "--exchange", "orders")

    shown = [(it.exchange, it.routing_key, it.properties, it.body) for it in messages]
    assert shown == [(it.exchange, it.routing_key, it.properties, it.body) for it in read_recording(given).messages]
    assert [it.at - messages[0].at for it in messages] == [number * 1_000_000 for number in range(10)]
    with Broker(checks="all=off") as broker:
        replay = broker.replay(tmp_path / "orders.rec")
        with broker.worker(serve):
            after = replay.play()
    assert after.differences(before) == []


def test_only_one_virtual_host_of_a_trace_is_recorded(tmp_path: Path, record: Record) -> None:
    folder = tmp_path / "traces"
    with Broker(trace_dir=folder, trace_bodies=True, vhosts={"shop"}, checks="all=off") as broker:
        broker.publish("", "here", b"1")
        broker.publish("", "there", b"2", vhost="shop")
    (path,) = folder.iterdir()

    assert [it.body for it in record(path)] == [b"1"]
    assert [it.body for it in record(path, "--vhost", "shop")] == [b"2"]


def test_a_cut_trace_gives_what_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, target = of_trace(tmp_path / "traces", trace_bodies=True), tmp_path / "orders.rec"
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"published"' in line)
    path.write_bytes(b"".join(lines[:last]) + lines[last][:50])

    code = main(["record", str(path), "-o", str(target)])

    assert (code, len(read_recording(target).messages)) == (1, 2)
    assert f"{path} is cut off, or has damaged lines; {target} has what came before" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "source is empty; rabtap may have ended before it had written the message"),
        ("\x89PNG\r\n", "source, message 1: this is no JSON of rabtap, and the file no leveret trace"),
        (saved() + saved()[:90], "source, message 2: this is no JSON of rabtap"),
        ('{"name": "leveret", "private": true}', "source, message 1: the message has no 'XRabtapReceivedTimestamp'"),
        ("[1, 2]", "source, message 1: this is no message; it is damaged, or was made by another program"),
        (saved() + saved(Body="SGVsb"), "source, message 2: this is no message; it is damaged"),
        (saved(Headers=["a"]), "source, message 1: this is no message; it is damaged"),
        (saved(Priority=300), "source, message 1: this is no message; it is damaged"),
        (saved(RoutingKey=5), "source, message 1: this is no message; it is damaged"),
        (saved(Exchange="amq.rabbitmq.trace", Headers={"routing_keys": 5}), "source, message 1: this is no message"),
        (saved(Timestamp="yesterday"), "source, message 1: this is no message; it is damaged"),
        ('{"leveret":"trace","v":99}\n', "source cannot be read as a trace: it has version 99"),
        ('{"leveret":"trace","v":1}\n', "source has no message that was published to any exchange in the vhost '/'"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_with_one_line(
    content: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = tmp_path / "source", tmp_path / "orders.rec"
    path.write_text(content, encoding="latin-1")

    code = main(["record", str(path), "-o", str(target)])

    error = capsys.readouterr().err
    assert (code, error.count("\n"), text in error) == (2, 1, True), error
    assert list(tmp_path.iterdir()) == [path]


def test_damage_gives_one_line_or_other_messages_but_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = of_trace(tmp_path / "traces", trace_bodies=True).read_bytes()
    dice, path, target = random.Random(39), tmp_path / "source", tmp_path / "orders.rec"
    for number in range(100):
        whole = trace if number % 2 else OF_RABTAP.encode()
        at = dice.randrange(len(whole))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :]
        path.write_bytes((whole[:at], flipped, whole[at:], whole[:at] + whole[at + 20 :])[number // 2 % 4])

        code = main(["record", str(path), "-o", str(target)])

        error = capsys.readouterr().err
        assert (code, error.count("\n"), target.exists()) in ((2, 1, False), (0, 1, True), (1, 2, True)), error
        target.unlink(missing_ok=True)


def test_a_trace_without_bodies_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = of_trace(tmp_path / "traces")

    assert main(["record", str(path), "-o", str(tmp_path / "orders.rec")]) == 2
    assert (
        "the trace has only the size and hash of its body; record it with trace_bodies=True" in capsys.readouterr().err
    )


def test_a_body_that_is_not_the_published_one_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = of_trace(tmp_path / "traces", trace_bodies=True)
    path.write_bytes(path.read_bytes().replace(b'\\"id\\\\\\": 7', b'\\"id\\\\\\": 8'))

    assert main(["record", str(path), "-o", str(tmp_path / "orders.rec")]) == 2
    assert "its body is not the one that was published, by its hash" in capsys.readouterr().err


def test_a_missing_body_beside_its_message_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        (tmp_path / f"rabtap-{number}.json").write_text(saved(Body=""))
    (tmp_path / "rabtap-1.dat").write_bytes(b"first")

    assert main(["record", str(tmp_path), "-o", str(tmp_path / "orders.rec")]) == 2
    assert capsys.readouterr().err == f"leveret: {tmp_path / 'rabtap-2.dat'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--queue", "billing"], "--queue is for a server, and {} is a file; choose its messages with --exchange"),
        (["--exchange", "nowhere"], "{} has no message that was published to the exchange 'nowhere' in the vhost '/'"),
        (["--vhost", "shop", "--limit", "0"], "--limit 0 records nothing"),
    ],
)
def test_a_wrong_option_for_a_file_is_refused(
    options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "messages.json"
    path.write_text(saved())

    assert main(["record", str(path), *options, "-o", str(tmp_path / "orders.rec")]) == 2
    assert text.format(path) in capsys.readouterr().err


def test_what_is_neither_a_server_nor_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "localhost:5672", "-o", str(tmp_path / "orders.rec")]) == 2
    assert "'localhost:5672' is neither a URL of a server nor a file; give amqp://" in capsys.readouterr().err


def test_a_folder_of_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", str(tmp_path), "-o", str(tmp_path / "orders.rec")]) == 2
    assert f"{tmp_path} has no rabtap-*.json; name a folder of rabtap --saveto" in capsys.readouterr().err
