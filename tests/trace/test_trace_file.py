"""The trace file: one for all brokers of a process, always made of whole lines, compressed when it is closed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret import Broker, LeveretWarning
from leveret.engine.harness import Harness
from leveret.errors import UnreadableTraceError
from leveret.trace.jsonl import LONGEST_LINE_BYTES, TraceReader, header_line
from leveret.trace.run import close_files
from leveret.trace.trace_file import TraceFile
from tests.systems import files_up_to

LINES = "".join(f'{{"kind":"called","ts":{number},"wall":1,"seq":{number}}}\n' for number in range(1, 6))


def file_of(broker: Broker) -> TraceFile:
    file = Harness(broker).trace_file
    assert file is not None
    return file


def run_apart(script: str, *arguments: object, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, **options)


def test_brokers_of_a_process_share_a_file(tmp_path):
    with Broker(trace_dir=tmp_path) as first, Broker(trace_dir=tmp_path) as second:
        first.declare_queue("a")
        second.declare_queue("b")
        assert file_of(first) is file_of(second)
    with Broker(trace_dir=tmp_path) as third:
        third.declare_queue("c")
        file = file_of(third)
    file.close()

    (path,) = tmp_path.iterdir()
    queues = [row["queue"] for row in TraceReader(path) if row["kind"] == "queue_declare"]
    assert sorted(queues) == ["a", "b", "c"]


def test_the_file_is_complete_when_its_broker_has_stopped(tmp_path):
    with Broker(trace_dir=tmp_path) as broker:
        broker.declare_queue("q")
        path = broker.events.path

    assert [row["kind"] for row in TraceReader(path)] == ["called", "queue_declare"]
    close_files()


def test_the_file_is_written_in_the_background(tmp_path):
    with Broker(trace_dir=tmp_path) as broker:
        broker.declare_queue("q")
        path = broker.events.path
        # Only time passes; no other call makes the writer run.
        assert broker._engine.wait_until(lambda: b"queue_declare" in Path(path).read_bytes(), 10)
    close_files()


def test_a_broker_that_was_never_started_is_recorded_as_well(tmp_path):
    broker = Broker(trace_dir=tmp_path)
    broker.declare_queue("q")

    file = file_of(broker)
    file.close()

    assert [row["kind"] for row in TraceReader(file.path)] == ["called", "queue_declare"]


def test_a_broker_that_is_not_used_leaves_no_file(tmp_path):
    Broker(trace_dir=tmp_path / "traces")

    assert not (tmp_path / "traces").exists()


def test_at_its_end_it_is_compressed(tmp_path):
    with Broker(trace_dir=tmp_path) as broker:
        broker.declare_queue("q")
        file = file_of(broker)
    plain = TraceReader(file.path)
    header, rows = plain.header, list(plain)

    file.close()

    (path,) = tmp_path.iterdir()
    assert path.name == f"{header['run']}.{header['worker']}.jsonl.gz"
    assert (TraceReader(path).header, list(TraceReader(path))) == (header, rows)
    assert gzip.decompress(path.read_bytes()).decode().splitlines()[0] == header_line(
        {name: header[name] for name in header if name not in ("leveret", "v")}
    ).rstrip("\n")


def test_a_running_broker_writes_its_pending_events_before_the_file_closes(tmp_path):
    with Broker(trace_dir=tmp_path) as broker:
        broker.declare_queue("q")
        file = file_of(broker)
        with broker._engine.lock:
            close_files()

        assert [row["kind"] for row in TraceReader(file.path)] == ["called", "queue_declare"]


def test_a_new_run_has_a_new_file(tmp_path):
    runs = []
    for _ in range(2):
        with Broker(trace_dir=tmp_path) as broker:
            runs.append(TraceReader(broker.events.path).header["run"])
            file = file_of(broker)
        file.close()

    assert len(list(tmp_path.iterdir())) == 2


def test_the_ring_answers_assertions_beside_a_file(tmp_path):
    with Broker(trace_dir=tmp_path, checks="unroutable=off") as broker:
        broker.publish("", "nowhere", b"1")

        broker.assert_dropped(reason="no route")
        assert [event.kind for event in broker.events] == ["called", "published", "dropped"]
        broker.events.clear()
        broker.publish("", "nowhere", b"2")
        assert [event.message.body for event in broker.events.query("published")] == [b"2"]
    close_files()


def test_a_file_works_without_the_ring(tmp_path):
    with Broker(trace_dir=tmp_path, record="off") as broker:
        broker.declare_queue("q")

        assert not broker.events.is_on
        assert broker.events.events() == []
        assert [row["kind"] for row in TraceReader(file_of(broker).path)] == ["called", "queue_declare"]
    close_files()


def test_without_a_directory_there_is_no_path():
    assert Broker().events.path is None


def test_bodies_are_written_when_asked_for(tmp_path):
    with Broker(trace_dir=tmp_path, trace_bodies=True, checks="unroutable=off") as broker:
        broker.publish("", "q", b"text")
        broker.publish("", "q", b"\xff")
        rows = [row for row in TraceReader(file_of(broker).path) if row["kind"] == "published"]
    close_files()

    assert [json.loads(row["attrs"])["body"] for row in rows] == ["text", "base64:/w=="]


def test_headers_are_redacted_by_name_and_by_names_that_are_added(tmp_path):
    with Broker(trace_dir=tmp_path, trace_redact={"customer"}, checks="unroutable=off") as broker:
        broker.publish("", "q", headers={"Authorization": "Bearer 1", "customer-name": "Ada", "n": 1})
        (row,) = (row for row in TraceReader(file_of(broker).path) if row["kind"] == "published")
    close_files()

    headers = json.loads(row["attrs"])["properties"]["headers"]
    assert headers == {"Authorization": "(redacted)", "customer-name": "(redacted)", "n": 1}


def test_the_header_names_the_commit_and_branch_of_the_build_service(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_SHA", "0123abcd")
    monkeypatch.setenv("GITHUB_HEAD_REF", "faster")
    with Broker(trace_dir=tmp_path, rabbitmq="4.0", seed=7) as broker:
        header = TraceReader(broker.events.path).header
    close_files()

    assert (header["commit"], header["branch"]) == ("0123abcd", "faster")
    assert (header["profile"], header["seed"]) == ("4.0", 7)


def test_the_final_header_records_whether_time_was_held(tmp_path):
    with Broker(trace_dir=tmp_path) as broker:
        assert TraceReader(broker.events.path).header["clock"] == "real"
        broker.clock.hold()
        broker.declare_queue("q")
        file = file_of(broker)
    file.close()

    assert TraceReader(file.path).header["clock"] == "virtual"


def test_a_file_as_trace_dir_is_refused(tmp_path):
    tmp_path.joinpath("traces").write_text("")

    said = r"^trace_dir='.*traces' is a file; it must be a directory, which is created if it does not exist$"
    with pytest.raises(ValueError, match=said):
        Broker(trace_dir=tmp_path / "traces")


def test_a_directory_that_cannot_be_made_is_an_error_at_the_start(tmp_path):
    tmp_path.joinpath("file").write_text("")

    with pytest.raises(ValueError, match="cannot write a file there: Not a directory"):
        Broker(trace_dir=tmp_path / "file" / "traces").start()


FULL_DISK = """
import resource, signal, sys
from leveret import Broker, LeveretWarning

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
# The limit would cut what an import caches, too.
sys.dont_write_bytecode = True
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
broker = Broker(trace_dir=sys.argv[1], record="off", checks="unroutable=off").start()
for _ in range(100):
    broker.publish("", "q", b"1")
    broker.sync()
    len(broker.events)
broker.stop()
broker.check()
print(broker.events.path)
"""


def test_a_full_disk_warns_once_and_leaves_a_file_that_is_known_to_be_cut(tmp_path):
    process = run_apart(FULL_DISK, tmp_path, stderr=subprocess.PIPE)

    output, errors = process.communicate(timeout=60)

    (path,) = tmp_path.iterdir()
    reader = TraceReader(path)
    assert output == f"{path}\n"
    assert errors.count(f"LeveretWarning: {path}: the trace is cut, because") == 1
    assert "File too large" in errors
    assert len(list(reader)) > 3
    assert reader.is_cut


def test_a_file_that_is_full_at_the_end_of_a_line_is_known_to_be_cut(tmp_path):
    file = TraceFile.create(str(tmp_path), "main", {"run": "r"})
    file.begin_test("first")
    file.begin_test("second")
    said = "the trace is cut, because the rest cannot be written: File too large"
    with files_up_to(os.path.getsize(file.path)), pytest.warns(LeveretWarning, match=said):
        file.begin_test("third")
    file.close()

    reader = TraceReader(file.path)
    assert [event["test"] for event in reader] == ["first"]
    assert reader.is_cut


KILLED = """
import sys
from leveret import Broker, LeveretWarning

broker = Broker(trace_dir=sys.argv[1], checks="unroutable=off").start()
for number in range(1000):
    broker.publish("", "q", b"%d" % number)
print(len(broker.events), flush=True)
sys.stdin.read()
"""


def test_a_killed_process_leaves_whole_lines(tmp_path):
    process = run_apart(KILLED, tmp_path, stdin=subprocess.PIPE)
    assert process.stdout is not None
    count = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=60)

    (path,) = tmp_path.iterdir()
    reader = TraceReader(path)
    assert path.suffix == ".jsonl"
    # Besides the events, the file has the shape of their bodies.
    assert [event["kind"] == "shape" for event in reader].count(False) == count
    assert not reader.is_cut


def test_a_process_that_ends_compresses_its_file(tmp_path):
    process = run_apart(KILLED, tmp_path, stdin=subprocess.DEVNULL)
    process.communicate(timeout=60)

    (path,) = tmp_path.iterdir()
    assert path.name.endswith(".jsonl.gz")
    assert len([row for row in TraceReader(path) if row["kind"] == "published"]) == 1000


FORKED = """
import os, sys
from leveret import Broker, LeveretWarning

with Broker(trace_dir=sys.argv[1]) as broker:
    broker.declare_queue("before")
    child = os.fork()
    if not child:
        with Broker(trace_dir=sys.argv[1]) as own:
            own.declare_queue("child")
        sys.exit()
    os.waitpid(child, 0)
    broker.declare_queue("after")
"""


def test_a_forked_child_has_a_file_of_its_own(tmp_path):
    run_apart(FORKED, tmp_path).communicate(timeout=60)

    readers = [TraceReader(path) for path in sorted(tmp_path.iterdir())]
    queues = [[row["queue"] for row in reader if row["kind"] == "queue_declare"] for reader in readers]
    assert sorted(queues) == [["before", "after"], ["child"]]
    assert len({(reader.header["run"], reader.header["worker"]) for reader in readers}) == 2


def test_serve_writes_a_trace_and_names_it_at_its_end(tmp_path):
    script = "from leveret.cli import main; main(['serve', '--port', '0', '--trace-dir', __import__('sys').argv[1]])"
    process = run_apart(script, tmp_path)
    assert process.stdout is not None
    import pika

    with pika.BlockingConnection(pika.URLParameters(process.stdout.readline().strip())) as connection:
        connection.channel().queue_declare("q", durable=True)
    process.send_signal(signal.SIGTERM)

    path = process.communicate(timeout=60)[0].strip()
    assert [str(found) for found in tmp_path.iterdir()] == [path]
    assert "queue_declare" in [row["kind"] for row in TraceReader(path)]


@pytest.fixture(scope="module")
def content() -> bytes:
    return (header_line({"run": "r", "worker": "main"}) + LINES).encode()


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
def test_a_file_that_a_program_of_windows_rewrote_is_read_the_same(content, tmp_path, mark):
    path = tmp_path / "r.main.jsonl"
    path.write_bytes(content)
    written = TraceReader(path)
    expected = written.header, list(written)
    path.write_bytes(mark + content.replace(b"\n", b"\r\n"))

    found = TraceReader(path)

    assert (found.header, list(found)) == expected
    assert not found.is_cut


@given(cut=st.integers(0, 400))
def test_a_file_cut_anywhere_has_its_whole_lines(content, tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "r.main.jsonl"
    kept = content[: min(cut, len(content))]
    path.write_bytes(kept)
    whole = kept.count(b"\n")
    if not whole:
        with pytest.raises(
            UnreadableTraceError,
            match=r"r\.main\.jsonl cannot be read as a trace: its first line is cut off|it is empty",
        ):
            TraceReader(path)
        return

    reader = TraceReader(path)

    assert [row["seq"] for row in reader] == list(range(1, whole))
    assert reader.is_cut == (not kept.endswith(b"\n"))


@given(data=st.data())
def test_a_compressed_file_cut_anywhere_has_a_beginning(content, tmp_path_factory, data):
    packed = gzip.compress(content, mtime=0)
    path = tmp_path_factory.mktemp("cut") / "r.main.jsonl.gz"
    path.write_bytes(packed[: data.draw(st.integers(2, len(packed) - 1))])

    with suppress(UnreadableTraceError):
        reader = TraceReader(path)
        numbers = [row["seq"] for row in reader]
        assert numbers == list(range(1, len(numbers) + 1))
        assert reader.is_cut


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read as a trace: it is empty"),
        ("name,age\nada,36\n", "cannot be read as a trace: its first line is not the header of a leveret trace"),
        ('{"kind": "published"}\n', "cannot be read as a trace: its first line is not the header of a leveret trace"),
        ("[1]\n", "cannot be read as a trace: its first line is not the header of a leveret trace"),
        (
            '{"leveret":"trace","v":2}\n',
            "cannot be read as a trace: it has version 2 of the trace format, but this leveret reads version 1",
        ),
    ],
)
def test_another_file_is_refused_by_name(tmp_path, text, said):
    path = tmp_path / "some.jsonl"
    path.write_text(text)

    with pytest.raises(UnreadableTraceError, match=f"some.jsonl {said}"):
        TraceReader(path)


@pytest.mark.parametrize("line", [b"broken", b"{}", b'{"seq": 2, "kind": null}', b'{"seq": 2, "kind": "p\xff'])
def test_a_damaged_line_is_skipped_and_marks_the_file(tmp_path, line):
    path = tmp_path / "some.jsonl"
    row = b'{"seq":1,"kind":"published","queue":["a"],"size":true,"exchange":"\xff"}'
    path.write_bytes(header_line({"run": "r", "worker": "main"}).encode() + b"\n".join([row, b"", line, row]) + b"\n")

    reader = TraceReader(path)

    assert list(reader) == [{"seq": 1, "kind": "published", "queue": '["a"]', "exchange": "\ufffd"}] * 2
    assert reader.is_cut


@pytest.mark.parametrize("is_header", [True, False])
def test_a_line_without_end_is_refused_by_its_number(tmp_path, is_header):
    path = tmp_path / "long.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"" if is_header else header_line({"run": "r"}).encode() + b"{}\n")
        for _ in range(LONGEST_LINE_BYTES >> 20):
            file.write(bytes(1 << 20))
        file.write(b" ")

    with pytest.raises(UnreadableTraceError, match=rf"long\.jsonl\.gz: line {1 if is_header else 3} has more than 128"):
        list(TraceReader(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_only_a_regular_file_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")

    for path in (tmp_path / "pipe.jsonl", "/dev/zero", tmp_path):
        with pytest.raises(UnreadableTraceError, match=f"{path} is not a regular file"):
            TraceReader(path)


def test_a_fact_that_no_header_has_is_refused():
    with pytest.raises(TypeError, match="colour: a trace's header has no such field"):
        header_line({"colour": "red"})


def test_the_directory_and_the_file_are_for_their_user_only(tmp_path):
    folder = tmp_path / "traces"
    with Broker(trace_dir=folder) as broker:
        broker.declare_queue("q")
        written = os.stat(broker.events.path).st_mode & 0o777
        file = file_of(broker)
    close_files()

    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert written == 0o600
    assert os.stat(file.path).st_mode & 0o777 == 0o600


def test_a_header_that_is_nested_too_deeply_is_refused_by_name(tmp_path):
    deep = '{"leveret":"trace","v":1,"x":' + "[" * 100_000 + "]" * 100_000 + "}\n"
    path = tmp_path / "deep.jsonl"
    path.write_text(deep)

    with pytest.raises(UnreadableTraceError, match=r"deep\.jsonl cannot be read"):
        list(TraceReader(path))
