"""`leveret trace page` and `leveret trace show`: one test of a trace file, of leveret or of RabbitMQ."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pika
import pytest

from leveret import Broker
from leveret.cli import main
from leveret.engine.harness import Harness
from leveret.trace import events
from leveret.trace.firehose import Firehose, write_trace
from tests.page.conftest import Clients, story_in

SAMPLES = Path(__file__).parents[1] / "trace" / "samples"
PAID, MAILED = "tests/test_shop.py::test_paid", "tests/test_shop.py::test_mailed"


def record(folder, name, outcome, act, *, error=None, failure=None, **options):
    """Record a test that does something with its brokers, as the plugin does."""
    first, second = Broker(trace_dir=folder, checks="all=off", **options), Broker(trace_dir=folder, **options)
    with first, second:
        file = Harness(first).trace_file
        file.begin_test(name)
        for broker in (first, second):
            Harness(broker).begin_test(name)
        act(first, second)
        for broker in (first, second):
            _ = Harness(broker).trace_file
        ending = {"outcome": outcome, "duration": 0.25, "phase": "call"}
        file.end_test(name, ending if error is None else {**ending, "error": error, "failure": failure})
    return file


def pay(first, second):
    first.declare_queue("jobs")
    first.publish("", "jobs", json={"id": 7, "token": "t0p"})
    second.declare_queue("mails")
    second.publish("", "mails", b"\x00\xff")
    with pika.BlockingConnection(pika.URLParameters(first.url)) as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get("jobs")
        channel.basic_ack(method.delivery_tag)


def mail(first, second):
    second.publish("", "nowhere", b"1")


@pytest.fixture
def trace(tmp_path):
    """A trace file of two tests with two brokers each, of which the first failed."""
    folder = tmp_path / "traces"
    record(folder, MAILED, "passed", mail)
    file = record(
        folder, PAID, "failed", pay, error="AssertionError: see #2", failure={"messages": [1]}, trace_bodies=True
    )
    file.close()
    return file.path


def page(trace, tmp_path, *arguments):
    path = tmp_path / "page.html"
    assert main(["trace", "page", trace, "-o", str(path), *arguments]) == 0
    return story_in(path)


def test_a_page_has_both_brokers_and_each_its_own_events(trace, tmp_path):
    story = page(trace, tmp_path, "--test", PAID)

    assert [broker["id"] for broker in story["brokers"]] == ["b1", "b2"]
    assert [(lane["broker"], lane["label"]) for lane in story["lanes"] if lane["kind"] == "queue"] == [
        ("b1", "jobs"),
        ("b2", "mails"),
    ]
    assert [(message["number"], message["body"].get("hex")) for message in story["messages"]] == [
        (1, None),
        (1_000_001, "00ff"),
    ]
    assert [lane["label"] for lane in story["lanes"] if lane["kind"] == "client"] == ["c1 Pika Python Client Library"]


def test_a_page_says_how_the_test_ended(trace, tmp_path):
    story = page(trace, tmp_path, "--test", PAID)

    told = story["test"]
    assert (told["id"], told["outcome"], told["phase"], told["seconds"]) == (PAID, "failed", "call", 0.25)
    assert told["error"] == {"text": "AssertionError: see #2", "messages": [1]}
    assert story["source"] == "trace file"


def test_a_page_from_a_file_shows_what_a_page_from_memory_shows(tmp_path):
    def act(first, second):
        pay(first, second)
        kept.append(Clients(first, tmp_path).story())

    kept = []
    file = record(tmp_path / "traces", PAID, "failed", act, trace_bodies=True)
    file.close()

    of_file, of_memory = page(file.path, tmp_path), kept[0]

    assert [
        (event["text"], event.get("tone"), event.get("line"))
        for event in of_file["events"]
        if (event.get("from") or event.get("to")).startswith("b1/") and "broker stopped" not in event["text"]
    ] == [(event["text"], event.get("tone"), event.get("line")) for event in of_memory["events"]]
    fields = ("label", "headers", "body", "outcome", "publisher", "copies")
    assert [of_file["messages"][0].get(name) for name in fields] == [
        of_memory["messages"][0].get(name) for name in fields
    ]


def test_text_has_events_messages_and_queues(trace, capsys):
    assert main(["trace", "show", trace, "--test", "test_paid"]) == 0

    printed = capsys.readouterr().out
    assert f"{PAID} failed in 0.250 s" in printed
    assert "b1 test -> (default exchange): published #1 to queue 'jobs'" in printed
    assert "acked in 'jobs' by c1/ch1 after 1 delivery" in printed
    assert "mails: 1 ready, 0 unacked, 0 consumers" in printed
    assert "t0p" not in printed


def test_a_diagram_has_a_participant_for_each_lane(trace, capsys):
    assert main(["trace", "show", trace, "--test", PAID, "--format", "mermaid"]) == 0

    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "sequenceDiagram"
    participants = [line.split()[1] for line in lines if line.split()[0] in ("actor", "participant")]
    arrows = [line.strip() for line in lines if ">>" in line]
    assert len(participants) == len(set(participants)) == 7
    assert "L0->>L3: published #35;1 to queue 'jobs'" in arrows
    assert "-->>" in next(arrow for arrow in arrows if "acked" in arrow)


def test_a_file_of_several_tests_lists_them_failed_first(trace, capsys):
    assert main(["trace", "show", trace]) == 2

    assert capsys.readouterr().err.splitlines() == [
        f"leveret: --test is missing: {trace} has 2 tests",
        f"  failed: {PAID}",
        f"  passed: {MAILED}",
    ]


@pytest.mark.parametrize(("name", "message"), [("test_pad", "is not in"), ("test_", "names 2 tests of")])
def test_a_name_of_no_test_or_of_several_is_refused(trace, capsys, name, message):
    assert main(["trace", "show", trace, "--test", name]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"leveret: --test {name!r} {message} {trace}")
    assert f"  failed: {PAID}" in error


def test_a_trace_without_tests_is_shown_whole(tmp_path):
    with Broker(trace_dir=tmp_path / "traces") as broker:
        broker.declare_queue("jobs")
        broker.publish("", "jobs", b"1")
        file = Harness(broker).trace_file
    file.close()

    story = page(file.path, tmp_path)

    assert [event["text"] for event in story["events"]] == [
        "declared queue 'jobs'",
        "published #1 to queue 'jobs'",
        "#1 entered 'jobs'",
    ]
    assert story["messages"][0]["body"] == {"size": 1, "hash": "a8b40a98ec4f5bfd"} | story["messages"][0]["body"]
    assert not {"json", "text", "hex"} & set(story["messages"][0]["body"])


def test_clients_and_messages_from_before_the_test_are_known(tmp_path):
    with Broker(trace_dir=tmp_path / "traces") as broker:
        file = Harness(broker).trace_file
        for name in (MAILED, PAID):
            file.begin_test(name)
            Harness(broker).begin_test(name)
            if name == MAILED:
                broker.declare_queue("jobs")
                parameters = pika.URLParameters(broker.url)
                parameters.client_properties = {"connection_name": "shop"}
                connection = pika.BlockingConnection(parameters)
                channel = connection.channel()
                channel.basic_publish("", "jobs", b"1")
            else:
                channel.basic_get("jobs", auto_ack=True)
                connection.close()
            # What the client sent last must be recorded before its test ends.
            broker.sync()
            _ = Harness(broker).trace_file
            file.end_test(name, {"outcome": "passed", "duration": 0.1, "phase": "call"})
    file.close()

    story = page(file.path, tmp_path, "--test", PAID)

    assert [lane["label"] for lane in story["lanes"] if lane["kind"] == "client"] == ["c1 shop"]
    (message,) = story["messages"]
    assert (message["routing_key"], message["publisher"]) == ("jobs", "c1/ch1")
    assert "published" not in [event["kind"] for event in story["events"]]


def test_a_leap_of_time_is_found_in_a_file(tmp_path):
    with Broker(trace_dir=tmp_path / "traces", checks="all=off") as broker:
        broker.declare_queue("jobs", arguments={"x-message-ttl": 60_000})
        broker.publish("", "jobs", b"1")
        broker.clock.advance(hours=1)
        file = Harness(broker).trace_file
    file.close()

    story = page(file.path, tmp_path)

    (leap,) = [event for event in story["events"] if "leap" in event]
    assert leap["kind"] == "expired"
    assert 59_000_000 < leap["leap"] <= 60_000_000


def recorded_on_rabbitmq(version, folder):
    firehose = Firehose(bodies=True)
    lines = (SAMPLES / version / "firehose.jsonl").read_text(encoding="utf-8").splitlines()
    messages = [json.loads(line) for line in lines]
    rows = [firehose.row(one["routing_key"], one["headers"], base64.b64decode(one["body"])) for one in messages]
    return write_trace(rows, str(folder), run="staging", started=datetime.now(UTC), broker="rabbitmq 4.3.6")


@pytest.mark.parametrize("version", ["rabbitmq-4.3", "rabbitmq-3.10"])
def test_a_recording_of_rabbitmq_opens_in_the_same_page(version, tmp_path):
    story = page(recorded_on_rabbitmq(version, tmp_path / "traces"), tmp_path)

    assert story["source"] == "RabbitMQ"
    assert [message["number"] for message in story["messages"]] == [1, 2, 3, 4, 5]
    kinds = [event["kind"] for event in story["events"]]
    assert (kinds.count("published"), kinds.count("delivered")) == (5, 7)
    assert {lane["label"].partition(" ")[0] for lane in story["lanes"] if lane["kind"] == "queue"} >= {
        "orders.work",
        "orders.dead",
        "orders.log",
    }


def test_a_delivery_of_rabbitmq_is_no_ack(tmp_path):
    story = page(recorded_on_rabbitmq("rabbitmq-4.3", tmp_path / "traces"), tmp_path)

    first = story["messages"][0]
    assert "acks are not recorded" in first["outcome"]
    assert not any(event["kind"] == "acked" for event in story["events"])


def test_a_dead_letter_of_rabbitmq_is_the_same_message(tmp_path):
    story = page(recorded_on_rabbitmq("rabbitmq-4.3", tmp_path / "traces"), tmp_path)

    message = story["messages"][1]
    copies = {copy["queue"].rpartition("/")[2]: copy for copy in message["copies"]}
    assert copies["orders.dead"]["from_copy"] == copies["orders.work"]["copy"]
    assert [(death["queue"], death["reason"]) for death in message["deaths"]] == [("orders.work", "rejected")]


def test_rows_that_this_leveret_does_not_know_are_still_shown(tmp_path):
    lines = [{"leveret": "trace", "v": 1, "run": "r", "worker": "main"}]
    lines += [{"kind": kind, "seq": seq} for seq, kind in enumerate(events.KINDS)]
    lines += [{"kind": "invented", "seq": 99, "msg": 1, "attrs": "no JSON"}, {"seq": 100}]
    path = tmp_path / "r.main.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")

    story = page(str(path), tmp_path)

    shown = [event["kind"] for event in story["events"]]
    # The call counts as the cause of the fault that follows, so only the fault is shown.
    hidden = ("test_start", "test_end", "called")
    assert shown == [*(kind for kind in events.KINDS if kind not in hidden), "invented"]
