"""Two runs of one commit in which everything happens that a report shows, with names that try to be markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.pipeline.traces import Line, header, lives, write

HOSTILE: Final = "<script>alert('q')</script>\u202e&\"'"
TESTS: Final = ["tests/test_a.py::test_it", "tests/test_a.py::test_<b>"]


def _run(*, is_flaky: bool = False) -> list[Line]:
    """Return a run with a retry by a dead-letter queue, an unused binding, a forgotten message and a double ack."""
    copy = {"vhost": "/", "queue": HOSTILE, "msg": 1, "copy": 1}
    taken = {**copy, "conn": 1, "chan": 1}
    events: list[Line] = [
        {"kind": "test_start", "test": TESTS[0]},
        {"kind": "exchange_declare", "exchange": "events", "attrs": '{"type":"topic"}'},
        {"kind": "queue_declare", "queue": HOSTILE, "attrs": '{"arguments":{}}'},
        {"kind": "bind", "exchange": "events", "queue": HOSTILE, "routing_key": "never.used"},
        {"kind": "published", "vhost": "/", "exchange": "", "routing_key": HOSTILE, "msg": 1, "size": 7},
        {"kind": "enqueued", **copy},
        {"kind": "delivered", **taken, "consumer": "ctag", "tag": 1, "redelivered": False},
        {"kind": "acked", **taken, "tag": 1},
        {"kind": "acked", **taken, "tag": 1},
        {"kind": "published", "vhost": "/", "exchange": "", "routing_key": "work", "msg": 2, "size": 7},
        {"kind": "enqueued", "queue": "work", "msg": 2, "copy": 2},
        {"kind": "got", "queue": "work", "msg": 2, "copy": 2, "redelivered": False, "conn": 1, "chan": 1},
        {"kind": "dead_lettered", "queue": "work", "msg": 2, "copy": 2, "exchange": "", "reason": "rejected"},
        {"kind": "enqueued", "queue": "later", "msg": 2, "copy": 3, "src_copy": 2},
        {"kind": "published", "vhost": "/", "exchange": "events", "routing_key": "misspelt", "msg": 3, "size": 7},
        {"kind": "dropped", "msg": 3, "reason": "no route"},
        {"kind": "published", "vhost": "/", "exchange": "", "routing_key": "work", "msg": 4, "size": 7, "tag": 1},
        {"kind": "dropped", "msg": 4, "reason": "fault"},
        {"kind": "nacked_confirm", "msg": 4, "tag": 1},
        {"kind": "test_end", "test": TESTS[0], "attrs": '{"outcome":"failed","duration":0.1}'},
    ]
    again = lives(3 if is_flaky else 2, queue="steady", test=TESTS[1])
    for event in again:
        event["msg"], event["copy"] = event.get("msg", 0) + 10, event.get("copy", 0) + 10
    told = [{**event, "test": TESTS[0], "vhost": "/"} for event in events] + [
        {name: value for name, value in event.items() if name not in ("msg", "copy") or value > 10} for event in again
    ]
    return [{**event, "seq": seq, "ts": seq * 1000} for seq, event in enumerate(told, start=1)]


def record(folder: Path) -> None:
    """Write the traces of both runs."""
    about: dict[str, Any] = {"commit": "c0ffee", "profile": "4.3", "broker": "leveret 1", "seed": 7}
    first = header("first", **about) | {"started": "2026-05-01T10:00:00.123456+00:00"}
    second = header("second", **about) | {"started": "2026-05-01T11:00:00.123456+00:00"}
    write(folder / "first.jsonl", [first, *_run()])
    write(folder / "second.jsonl", [second, *_run(is_flaky=True)])
