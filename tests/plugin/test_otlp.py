"""`--leveret-otlp=DIR`: the messages of each test as spans of OpenTelemetry."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SUITE = f"""
    import pika
    import pytest
    from client import connect

    HEADERS = {{"traceparent": "00-{TRACE}-{SPAN}-01"}}

    @pytest.fixture
    def channel(leveret):
        leveret.declare_queue("orders")
        connection = connect(leveret.url, "billing")
        yield connection.channel()
        connection.close()
"""
# What opentelemetry-proto 1.45.2 has of each message, with the form that OTLP/JSON gives each field.
HEX_16, HEX_8, NANOSECONDS = r"[0-9a-f]{32}", r"[0-9a-f]{16}", r"[0-9]{16,20}"
VALUE = {"stringValue": str, "boolValue": bool, "intValue": r"-?[0-9]+", "doubleValue": float}
ATTRIBUTE = {"key": str, "value": VALUE}
EVENT = {"timeUnixNano": NANOSECONDS, "name": str, "attributes": [ATTRIBUTE]}
SPAN_SHAPE = {
    "traceId": HEX_16,
    "spanId": HEX_8,
    "parentSpanId": HEX_8,
    "name": str,
    "kind": int,
    "startTimeUnixNano": NANOSECONDS,
    "endTimeUnixNano": NANOSECONDS,
    "attributes": [ATTRIBUTE],
    "events": [EVENT],
    "status": {"code": int, "message": str},
}
SCOPE = {"scope": {"name": str, "version": str}, "spans": [SPAN_SHAPE]}
RESOURCE = {"resource": {"attributes": [ATTRIBUTE]}, "scopeSpans": [SCOPE]}
TRACES_DATA = {"resourceSpans": [RESOURCE]}

Json = dict[str, Any]


def misfits(value: Any, shape: Any, place: str = "") -> Iterator[str]:
    """Yield where a value of JSON does not have its shape."""
    if isinstance(shape, list):
        for number, one in enumerate(value):
            yield from misfits(one, shape[0], f"{place}[{number}]")
    elif isinstance(shape, dict):
        yield from (f"{place}.{name} is unknown" for name in value if name not in shape)
        for name in (name for name in value if name in shape):
            yield from misfits(value[name], shape[name], f"{place}.{name}")
    elif isinstance(shape, str):
        if not isinstance(value, str) or not re.fullmatch(shape, value):
            yield f"{place} is {value!r}"
    elif type(value) is not shape:
        yield f"{place} is {value!r}"


@pytest.fixture
def written(run, suite) -> Callable[..., list[Json]]:
    """Return a function that runs a test and returns what it wrote, file by file."""

    def run_test(source: str, *arguments: str) -> list[Json]:
        run(SUITE + source, *(arguments or ("--leveret-otlp=spans",))).assert_outcomes(passed=1)
        return [json.loads(path.read_text()) for path in sorted(Path(suite.path, "spans").glob("*.json"))]

    return run_test


def spans_of(data: Json) -> list[Json]:
    """Return the spans of a file with their attributes by name, and the service of each."""
    return [
        {**span, "service": attributes(resource["resource"])["service.name"], **attributes(span)}
        for resource in data["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def attributes(holder: Json) -> Json:
    return {one["key"]: next(iter(one["value"].values())) for one in holder["attributes"]}


def test_a_file_has_the_shape_of_otlp_json(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.publish("", "orders", b"7", headers=HEADERS, correlation_id="c7")
        leveret.publish("amq.topic", "nowhere", b"8")
        method, _, _ = channel.basic_get("orders")
        channel.basic_nack(method.delivery_tag)
        method, _, _ = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
    """)

    assert len(spans_of(data)) == 4
    assert list(misfits(data, TRACES_DATA)) == []
    resource = attributes(data["resourceSpans"][0]["resource"])
    assert resource["test.case.name"].endswith(".py::test_it")
    assert data["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"] == "leveret"


def test_a_delivery_is_below_its_publish_and_that_below_the_span_of_the_header(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.publish("", "orders", b"7", headers=HEADERS, correlation_id="c7", message_id="m7")
        method, _, _ = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
    """)

    publish, get = spans_of(data)
    assert (publish["traceId"], publish["parentSpanId"]) == (TRACE, SPAN)
    assert (get["traceId"], get["parentSpanId"]) == (TRACE, publish["spanId"])
    assert (publish["kind"], get["kind"]) == (4, 5)
    assert (publish["name"], get["name"]) == ("publish orders", "get orders")
    assert (publish["service"], get["service"]) == ("the test", "billing")


def test_the_attributes_are_those_of_the_conventions_for_rabbitmq(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.declare_exchange("shop", "topic")
        leveret.bind_queue("orders", "shop", "order.#")
        leveret.publish("shop", "order.new", b"7", correlation_id="c7", message_id="m7")
        channel.basic_consume("orders", lambda *_: channel.stop_consuming())
        channel.start_consuming()
        channel.basic_ack(1)
    """)

    publish, process = spans_of(data)
    names = ("operation.name", "operation.type", "destination.name", "message.id", "message.conversation_id")
    assert [publish[f"messaging.{name}"] for name in names] == ["publish", "send", "shop:order.new", "m7", "c7"]
    assert publish["messaging.message.body.size"] == "1"
    assert [process[f"messaging.{name}"] for name in names[:3]] == ["process", "process", "shop:order.new:orders"]
    assert process["messaging.rabbitmq.message.delivery_tag"] == "1"
    assert {publish["messaging.system"], process["messaging.system"]} == {"rabbitmq"}
    assert {it["messaging.rabbitmq.destination.routing_key"] for it in (publish, process)} == {"order.new"}


def test_a_delivery_says_how_long_its_message_waited_and_lasts_until_the_ack(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.clock.hold()
        leveret.publish("", "orders", b"7")
        leveret.clock.advance(5)
        method, _, _ = channel.basic_get("orders")
        leveret.sync()
        leveret.clock.advance(2, settle=0)
        channel.basic_ack(method.delivery_tag)
    """)

    _, get = spans_of(data)
    assert get["leveret.time_in_queue_ms"] == 5000.0
    assert int(get["endTimeUnixNano"]) - int(get["startTimeUnixNano"]) == 2_000_000_000
    assert get["leveret.outcome"] == "acked"


def test_a_redelivery_is_a_span_of_its_own(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.publish("", "orders", b"7")
        for settle in (channel.basic_nack, channel.basic_ack):
            method, _, _ = channel.basic_get("orders")
            settle(method.delivery_tag)
    """)

    publish, first, second = spans_of(data)
    assert [it["leveret.outcome"] for it in (first, second)] == ["nacked", "acked"]
    assert [it["leveret.redelivered"] for it in (first, second)] == [False, True]
    assert first["spanId"] != second["spanId"]
    assert first["status"] == {"code": 2, "message": "nacked"}
    assert [it["name"] for it in publish["events"]] == ["enqueued", "requeued"]


def test_messages_without_a_traceparent_have_a_trace_each(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.publish("", "orders", b"7")
        leveret.publish("", "orders", b"8")
    """)

    first, second = spans_of(data)
    assert first["traceId"] != second["traceId"]
    assert "parentSpanId" not in first


def test_a_message_that_reached_no_queue_is_an_error(written):
    (data,) = written("""
    def test_it(leveret, channel):
        leveret.publish("amq.topic", "nowhere", b"8")
    """)

    (publish,) = spans_of(data)
    assert publish["status"] == {"code": 2, "message": "no route"}


def test_a_test_without_messages_writes_no_file(written):
    assert written("    def test_it(leveret, channel): pass") == []


def test_the_ini_file_names_the_directory(written, suite):
    suite.makeini("[pytest]\nleveret_otlp = spans\n")

    (data,) = written('    def test_it(leveret, channel): leveret.publish("", "orders", b"7")', "-q")

    assert len(spans_of(data)) == 1


def test_the_broker_of_the_session_is_written_for_each_of_its_tests(run, suite):
    result = run(
        """
        import pytest

        @pytest.mark.parametrize("body", [b"1", b"22"])
        def test_it(leveret_session, body):
            leveret_session.declare_queue("orders")
            leveret_session.publish("", "orders", body)
        """,
        "--leveret-otlp=spans",
    )

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["leveret: the spans of this run are in *spans"])
    files = [json.loads(path.read_text()) for path in Path(suite.path, "spans").glob("*.json")]
    sizes = [[span["messaging.message.body.size"] for span in spans_of(data)] for data in files]
    assert sorted(sizes) == [["1"], ["2"]]


def test_a_delivery_to_a_client_that_leaves_ends_when_it_comes_back(written) -> None:
    (file,) = written(
        """
    def test_it(leveret, channel):
        leveret.publish("", "orders", b"7")
        lost = connect(leveret.url, "billing")
        lost.channel().basic_get("orders")
        lost.close()
        leveret.clock.advance(5)
        method, _, _ = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
        leveret.assert_acked("orders")
"""
    )

    spans = [span for resource in file["resourceSpans"] for span in resource["scopeSpans"][0]["spans"]]
    lost, again = (span for span in spans if span["name"].startswith("get"))
    assert int(lost["endTimeUnixNano"]) < int(again["startTimeUnixNano"])
