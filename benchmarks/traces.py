"""A generator of traces of any size: Parquet files with the columns of the pipeline's `events`, always the same.

    python benchmarks/traces.py FOLDER [MILLION_EVENTS]

A run is a file of about 111,000 events in 60 tests. A test publishes 270 messages in confirm mode to a topic exchange.
One queue gets all of them and another every second one, each with two consumers (prefetch 20) that take turns. Every
20th copy is requeued once, and every 50th is rejected into a dead-letter queue, where it stays. No rule is broken. The
random traces in tests/pipeline/random_traces.py are small and cover every kind of event; these are large and have the
frequent kinds.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TESTS_A_RUN = 60
MESSAGES_A_TEST = 270
EVENTS_A_RUN = 111_117
START = date(2026, 1, 5)
# How many messages later a copy is delivered, and how many later settled. A test ends when all copies are settled.
DELIVERY_LAG, SETTLE_LAG, TEST_SPAN = 3, 4, MESSAGES_A_TEST + 40
# The sequence numbers of two messages are this far apart, with room for the events of one message.
STEP = 32

TYPES: dict[str, pa.DataType] = {
    "day": pa.date32(),
    "run": pa.string(),
    "worker": pa.string(),
    "seq": pa.int64(),
    "ts": pa.int64(),
    "wall": pa.int64(),
    "kind": pa.string(),
    "test": pa.string(),
    "vhost": pa.string(),
    "conn": pa.int32(),
    "chan": pa.int32(),
    "msg": pa.int64(),
    "copy": pa.int64(),
    "src_copy": pa.int64(),
    "exchange": pa.string(),
    "routing_key": pa.string(),
    "queue": pa.string(),
    "consumer": pa.string(),
    "tag": pa.int64(),
    "multiple": pa.bool_(),
    "redelivered": pa.bool_(),
    "count": pa.int32(),
    "reason": pa.string(),
    "size": pa.int32(),
    "body_hash": pa.string(),
    "shape": pa.string(),
    "message_id": pa.string(),
    "correlation_id": pa.string(),
    "expires": pa.int64(),
    "attrs": pa.string(),
    "_extra": pa.string(),
}

KEYS = ("eu.order", "eu.order.big", "us.order", "us.order.big", "uk.order")
# Of each message, some fields are null or absent: four shapes for each routing key.
FIELDS = {f"body.field_{number}": [kind] for number, kind in enumerate(("integer", "decimal", "uuid", "string") * 5)}
SHAPES = {
    f"{place:016x}": (
        key,
        {
            "name": "",
            "fields": {
                "headers.$": ["object"],
                "properties.$": ["object"],
                "properties.delivery_mode": ["persistent"],
                "body.$": ["object"],
                **FIELDS,
                "body.note": ["null"] if variant % 2 else ["string"],
                **({"body.lines": ["array"], "body.lines[]": ["integer"]} if variant > 1 else {}),
            },
        },
    )
    for place, (variant, key) in enumerate((variant, key) for variant in range(4) for key in KEYS)
}

Array = np.ndarray[Any, Any]


class _Events:
    """Columns that grow by whole arrays; `at` gives the time, and so the order of all rows."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []

    def add(self, kind: str, at: Array, **columns: Any) -> None:
        self.parts.append({"kind": kind, "at": at, "vhost": "/", **columns})

    def table(self, run: str, day: date, seed: int) -> pa.Table:
        order = np.argsort(np.concatenate([part["at"] for part in self.parts]), kind="stable")
        columns: dict[str, Any] = {name: self._column(name, kind, order) for name, kind in TYPES.items()}
        count = len(order)
        gaps = np.random.default_rng(seed).integers(1, 400, count)
        columns["seq"] = pa.array(np.arange(1, count + 1))
        columns["ts"] = columns["wall"] = pa.array(1_767_571_200_000_000 + np.cumsum(gaps))
        for name, value in (("day", day), ("run", run), ("worker", "main")):
            columns[name] = pa.array([value], TYPES[name]).take(pa.array(np.zeros(count, np.int32)))
        return pa.table(columns, pa.schema(list(TYPES.items())))

    def _column(self, name: str, kind: pa.DataType, order: Array) -> pa.Array:
        pieces = []
        for part in self.parts:
            value, size = part.get(name), len(part["at"])
            if isinstance(value, np.ndarray | list):
                pieces.append(pa.array(value, kind))
            else:
                pieces.append(pa.array([value], kind).take(pa.array(np.zeros(size, np.int32))))
        return pa.concat_arrays(pieces).take(pa.array(order))


def write(number: int, folder: Path) -> int:
    """Write one run, and return its number of events."""
    events = _Events()
    first = number * 1_000_003
    messages = np.arange(TESTS_A_RUN * MESSAGES_A_TEST)
    test = messages // MESSAGES_A_TEST
    begin = (test * TEST_SPAN + messages % MESSAGES_A_TEST) * STEP
    names = np.array([f"tests/test_module_{n // 12}.py::test_that_orders_are_billed[{n}]" for n in range(TESTS_A_RUN)])
    keys = np.array(KEYS)[messages % len(KEYS)]
    about = {"test": names[test], "msg": messages + 1}
    address = {"exchange": "shop", "routing_key": keys}
    channel = {"conn": test + 1, "chan": 1}
    size = 200 + messages % 800
    hashes = [f"{(first + value) * 0x9E3779B97F4A7C15 % (1 << 64):016x}" for value in messages.tolist()]
    shapes = np.array(list(SHAPES))[messages % len(SHAPES)]
    told = {"size": size, "body_hash": hashes, "shape": shapes, "attrs": '{"properties":{"delivery_mode":2}}'}
    tag = messages % MESSAGES_A_TEST + 1
    events.add("published", begin, **about, **address, **channel, tag=tag, **told)
    events.add("confirmed", begin + 9, **about, **channel, tag=tag, multiple=False)
    copies = 0
    for place, (queue, every) in enumerate((("orders", 1), ("billing", 2))):
        which = messages[::every]
        chosen = {name: values[::every] for name, values in (*about.items(), ("routing_key", keys))}
        ids = copies + 1 + np.arange(len(which))
        copies += 2 * len(which)
        at = begin[::every] + 1 + place
        mine = {"queue": queue, **chosen, "copy": ids}
        events.add("enqueued", at, **mine, exchange="shop", size=size[::every])
        turn = np.arange(len(which))
        taker = {"conn": test[::every] + 1, "chan": 2 + place, "tag": tag[::every]}
        consumer = np.array([f"{queue}-1", f"{queue}-2"])[turn % 2]
        delivered = at + DELIVERY_LAG * STEP + 4
        plain = {"exchange": "shop", "consumer": consumer}
        events.add("delivered", delivered, **mine, **taker, **plain, redelivered=False, count=0)
        again, dies = turn % 20 == 7, turn % 50 == 13
        settled = np.where(again, delivered + SETTLE_LAG * STEP, delivered) + SETTLE_LAG * STEP + 2
        _settle(events, "acked", _only(~dies, {**mine, **taker, "at": settled}), multiple=False)
        back = _only(again, {**mine, **taker, "consumer": consumer, "at": delivered + 3 * STEP})
        _settle(events, "nacked", {name: value for name, value in back.items() if name != "consumer"}, multiple=False)
        _settle(events, "requeued", _moved(back, 1, ("conn", "chan", "tag", "consumer")), reason="nacked")
        _settle(events, "delivered", _moved(back, 5), exchange="shop", redelivered=True, count=1)
        dead = _only(dies, {**mine, **taker, "at": settled})
        _settle(events, "rejected", dead, multiple=False)
        gone = _moved(dead, 1, ("conn", "chan", "tag"))
        _settle(events, "dead_lettered", gone, reason="rejected", exchange="dead")
        letter = {**_moved(gone, 1), "queue": "dead", "src_copy": gone["copy"], "copy": gone["copy"] + len(which)}
        _settle(events, "enqueued", letter, exchange="dead", size=200)
    defined = {"exchange": "shop", "routing_key": [key for key, _ in SHAPES.values()], "shape": list(SHAPES)}
    events.add("shape", np.arange(len(SHAPES)), **defined, attrs=[json.dumps(of) for _, of in SHAPES.values()])
    _control(events, names)
    table = events.table(f"run-{number:05d}", START + timedelta(days=number // 20), number)
    pq.write_table(
        table, folder / f"run-{number:05d}.parquet", compression="zstd", compression_level=1, store_schema=False
    )
    return table.num_rows


def _only(mask: Array, columns: dict[str, Any]) -> dict[str, Any]:
    return {name: value[mask] if isinstance(value, np.ndarray) else value for name, value in columns.items()}


def _moved(columns: dict[str, Any], steps: int, without: tuple[str, ...] = ()) -> dict[str, Any]:
    return {**{name: value for name, value in columns.items() if name not in without}, "at": columns["at"] + steps}


def _settle(events: _Events, kind: str, columns: dict[str, Any], **more: Any) -> None:
    events.add(kind, **{**columns, **more})


def _control(events: _Events, names: Array) -> None:
    tests = np.arange(len(names))
    begin = tests * TEST_SPAN * STEP
    conn = tests + 1

    def add(kind: str, offset: int, **columns: Any) -> None:
        events.add(kind, begin + offset, test=names, **columns)

    add("test_start", -20)
    add("conn_open", -19, conn=conn, attrs=json.dumps({"peer": "127.0.0.1:40000", "client": "shop"}))
    for chan in (1, 2, 3):
        add("chan_open", -18, conn=conn, chan=chan)
    for exchange, kind in (("shop", "topic"), ("dead", "fanout"), ("unused", "direct")):
        attrs = json.dumps({"type": kind, "arguments": {}})
        add("exchange_declare", -15, conn=conn, chan=1, exchange=exchange, attrs=attrs)
    for queue, arguments in (("orders", {"x-dead-letter-exchange": "dead"}), ("billing", {}), ("dead", {})):
        if queue == "billing":
            arguments = {"x-dead-letter-exchange": "dead"}
        add("queue_declare", -12, conn=conn, chan=1, queue=queue, attrs=json.dumps({"arguments": arguments}))
    for exchange, queue, key in (("shop", "orders", "#"), ("shop", "billing", "*.order.#"), ("dead", "dead", "")):
        attrs = json.dumps({"destination_kind": "queue", "destination": queue, "arguments": {}})
        add("bind", -9, conn=conn, chan=1, exchange=exchange, queue=queue, routing_key=key, attrs=attrs)
    attrs = json.dumps({"no_ack": False, "prefetch_count": 20})
    for chan, queue in ((2, "orders"), (3, "billing")):
        for number in (1, 2):
            add("consume", -5, conn=conn, chan=chan, queue=queue, consumer=f"{queue}-{number}", attrs=attrs)
    end = (TEST_SPAN - 2) * STEP
    add("conn_close", end, conn=conn)
    add("test_end", end + 1, attrs=json.dumps({"outcome": "passed", "duration": 0.5}))


def make(folder: Path, millions: float) -> int:
    """Write runs with so many million events, replacing others, and return the number of events."""
    folder.mkdir(parents=True, exist_ok=True)
    count = max(1, round(millions * 1_000_000 / EVENTS_A_RUN))
    with ProcessPoolExecutor(2) as pool:
        return sum(pool.map(partial(write, folder=folder), range(count)))


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1), "events")
