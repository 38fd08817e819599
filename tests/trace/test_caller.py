"""The code behind an event: a value in the event and in the trace file, of which each reader makes its words."""

from __future__ import annotations

import json
from pathlib import Path

import pika
import pytest

from leveret import Broker
from leveret.trace.caller import Caller
from leveret.trace.jsonl import TraceReader


def connect(url: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(url))


def test_a_trace_file_has_the_caller_as_data(tmp_path: Path) -> None:
    with Broker(trace_dir=tmp_path, checks="all=off") as broker:
        connect(broker.url).close()
        (opened,) = broker.events.query("conn_open")

    (file,) = tmp_path.iterdir()
    (opener,) = [json.loads(row["attrs"])["opener"] for row in TraceReader(file) if row["kind"] == "conn_open"]
    assert Path(opener["path"]).name == "test_caller.py"
    assert opener["function"] == "connect"
    assert opener["called_from"]["function"] == "test_a_trace_file_has_the_caller_as_data"
    assert opener["called_from"]["line"] > opener["line"]
    assert Caller.read(opener) == opened.opener


def test_an_event_shows_its_caller_in_words() -> None:
    with Broker(checks="all=off") as broker:
        connect(broker.url).close()
        (opened,) = broker.events.query("conn_open")

    assert "test_caller.py" in repr(opened)
    assert "in connect, called from" in repr(opened)


def test_a_caller_among_several_is_the_same_after_a_file() -> None:
    one, other = Caller("a.py", 1, "f", Caller("b.py", 2, "g")), Caller("c.py", 3, "h")
    caller = Caller(one.path, one.line, one.function, one.called_from, (other,))

    assert Caller.read(json.loads(json.dumps(caller.as_json()))) == caller
    assert str(caller) == "a.py:1 in f, called from b.py:2 in g or c.py:3 in h"


@pytest.mark.parametrize("caller", [Caller("orders in, out/test_x.py", 4, "f"), Caller("PUT /api/queues/in, out")])
def test_a_path_that_reads_like_a_sentence_is_shown_whole(caller: Caller) -> None:
    assert caller.text(has_functions=False).startswith(caller.path)
    assert caller.inner.startswith(caller.path)
    assert caller.file in caller.inner
