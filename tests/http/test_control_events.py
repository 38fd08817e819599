"""What has happened, over HTTP: events as a list, as a stream and as a trace file, and the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker
from leveret.trace.jsonl import TraceReader
from tests.http.client import GUEST, ask, connection
from tests.http.control import Control


@pytest.fixture
def control(broker: Broker) -> Control:
    control = Control(broker, Control(broker).ask("POST", "/vhosts", {}).json["name"])
    control.post("/queues", name="orders")
    return control


def open_stream(control: Control, path: str) -> Iterator[Any]:
    """Open a stream and yield the data of its events."""
    http = connection(control.broker)
    http.request("GET", f"/leveret/v1{path}", headers={"authorization": GUEST})
    response: HTTPResponse = http.getresponse()
    assert response.headers["content-type"] == "text/event-stream"
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def test_events_are_listed_by_kind_and_queue(control: Control) -> None:
    control.post("/publish", routing_key="orders", body="x")

    listed = control.inside("GET", "/events?kinds=enqueued,published&queue=orders").json

    assert [event["kind"] for event in listed["events"]] == ["enqueued"]
    assert listed["is_complete"]


def test_an_unknown_kind_of_event_is_refused(control: Control) -> None:
    answer = control.inside("GET", "/events?kinds=publishd")

    assert answer.status == 400
    assert "did you mean 'published'?" in answer.json["reason"]


def test_a_stream_begins_where_it_was_opened(control: Control) -> None:
    control.post("/publish", routing_key="orders", body="before")
    stream = open_stream(control, f"/vhosts/{control.vhost}/events/stream?kinds=published")
    assert next(stream) == {}

    control.post("/publish", routing_key="orders", body="after")
    event = next(stream)

    assert event["kind"] == "published"
    assert json.loads(event["attrs"])["body"] == "after"


def test_a_stream_can_begin_with_what_was_recorded(control: Control) -> None:
    control.post("/publish", routing_key="orders", body="before")

    stream = open_stream(control, f"/vhosts/{control.vhost}/events/stream?kinds=published&from=start")

    assert next(stream) == {}
    assert json.loads(next(stream)["attrs"])["body"] == "before"


def test_answers_can_be_joined_by_the_numbers_of_events_and_connections(control: Control) -> None:
    with pika.BlockingConnection(pika.URLParameters(control.broker.url_for(control.vhost))) as client:
        client.channel().basic_publish("", "orders", b"x")
        control.post("/assert/published", routing_key="orders", timeout=5)
        (connection,) = control.inside("GET", "/connections").json

        every = control.ask("GET", "/events").json["events"]
        (published,) = control.inside("GET", "/events?kinds=published").json["events"]

    assert published["conn"] == connection["number"]
    assert published in every


def test_an_event_has_the_real_time_of_its_own_and_none_while_the_clock_stands(control: Control) -> None:
    control.post("/publish", routing_key="orders")
    control.ask("POST", "/clock/hold")
    control.post("/publish", routing_key="orders")
    control.ask("POST", "/clock/advance", {"minutes": 1})
    control.ask("POST", "/clock/release")

    first, second = control.inside("GET", "/events?kinds=published").json["events"]

    assert first["wall"] == first["ts"]
    assert "wall" not in second


def test_a_stream_of_a_deleted_virtual_host_ends(control: Control) -> None:
    stream = open_stream(control, f"/vhosts/{control.vhost}/events/stream?kinds=published")
    assert next(stream) == {}

    control.ask("DELETE", f"/vhosts/{control.vhost}")

    assert list(stream) == []


def test_a_stream_of_one_virtual_host_holds_nothing_of_another(control: Control) -> None:
    stream = open_stream(control, f"/vhosts/{control.vhost}/events/stream")
    assert next(stream) == {}

    control.broker.publish("", "theirs", "x")
    control.post("/publish", routing_key="orders", body="x")

    assert next(stream)["vhost"] == control.vhost


def test_a_head_request_opens_no_stream(control: Control) -> None:
    answer = ask(control.broker, "HEAD", "/leveret/v1/events/stream")

    assert answer.status == 200
    assert answer.body == b""


def test_a_stream_ends_with_the_broker() -> None:
    broker = Broker(management=True).start()
    stream = open_stream(Control(broker), "/events/stream")
    assert next(stream) == {}

    broker.stop()

    with pytest.raises((ConnectionResetError, StopIteration)):
        next(stream)


def test_a_trace_file_has_the_events_of_its_virtual_host(control: Control, tmp_path: Path) -> None:
    control.post("/publish", routing_key="orders", body="x")
    path = tmp_path / "trace.jsonl"

    path.write_bytes(control.inside("GET", "/trace").body)
    reader = TraceReader(path)

    assert {event["vhost"] for event in reader} == {control.vhost}
    assert reader.header["profile"] == "4.3"


def test_the_page_shows_the_messages_of_its_virtual_host(control: Control) -> None:
    control.broker.publish("", "theirs", "not to be seen")
    control.post("/publish", routing_key="orders", body="to be seen")

    page = control.inside("GET", "/page").body.decode()

    assert "to be seen" in page
    assert "not to be seen" not in page


def test_a_call_over_http_is_named_in_the_trace(control: Control) -> None:
    control.post("/publish", routing_key="orders")

    calls = control.ask("GET", "/events?kinds=called").json["events"]

    assert json.loads(calls[-1]["attrs"])["call"] == f"POST /leveret/v1/vhosts/{control.vhost}/publish"


def test_a_broker_that_records_nothing_says_so() -> None:
    with Broker(management=True, record="off") as broker:
        answer = ask(broker, "GET", "/leveret/v1/events")

    assert answer.status == 409
    assert answer.json["reason"] == "this broker records nothing; start it with record='recent'"
