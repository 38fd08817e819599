"""The tables of the pipeline: the columns of each, its key, and what it is built from.

Schemas are written out and never inferred; `leveret.trace.schema` declares the columns of a trace. They change by new
nullable columns only; what a trace holds beyond them is kept in `_extra`. Columns that are aggregated have a fixed
width: an aggregate over strings makes Spark sort. Instants are microseconds of the broker's clock, spans microseconds,
sizes bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from leveret.trace import schema as trace_schema


@dataclass(frozen=True, slots=True)
class Table:
    """One table: a new one is a new row of `gold.TABLES`.

    `build` takes the DataFrames that `reads` names, in that order: "events" and "runs" (which come from the traces) or
    tables that stand before this one. A table per run has a column `run`, is built from the rows of the runs that
    changed, and is stored; one `across_runs` is built from all rows of the tables it reads whenever it is asked for.
    """

    name: str
    columns: StructType
    key: tuple[str, ...]
    reads: tuple[str, ...]
    build: Callable[..., DataFrame]
    across_runs: bool = False


def _columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in types.items()])


def _derived(columns: Mapping[str, trace_schema.ColumnType]) -> StructType:
    """Return the Spark columns of what the trace format declares."""
    return _columns(**{name: _TYPES[kind] for name, kind in columns.items()})


_STRING: Final = StringType()
_LONG: Final = LongType()
_INT: Final = IntegerType()
_BOOLEAN: Final = BooleanType()
_DOUBLE: Final = DoubleType()
_DATE: Final = DateType()
_TYPES: Final[dict[trace_schema.ColumnType, DataType]] = {
    "long": _LONG,
    "int": _INT,
    "string": _STRING,
    "boolean": _BOOLEAN,
}
# How many values fell into each bucket of a logarithmic histogram.
_HISTOGRAM: Final = MapType(IntegerType(), LongType())

# What a line of a trace may hold; null where it does not apply to the kind.
LINE: Final = _derived(trace_schema.COLUMNS)

# Key: run, worker, seq. day, run and worker are the header's; `_extra` is JSON of what this version does not know.
EVENTS: Final = StructType(
    [
        *_columns(day=_DATE, run=_STRING, worker=_STRING).fields,
        *LINE.fields,
        *_columns(_extra=_STRING).fields,
    ]
)

# What the first line of a trace says of its run and worker.
_FIRST: Final[dict[str, trace_schema.ColumnType]] = {"run": "string", "worker": "string", "v": "int"}
HEADER: Final = _derived(_FIRST | trace_schema.HEADER)

# Key: ingest, file, run, worker. `problem` says why a file is refused.
FILES: Final = StructType(
    [
        *_columns(ingest=_LONG, file=_STRING, day=_DATE).fields,
        *HEADER.fields,
        *_columns(events=_LONG, first_seq=_LONG, last_seq=_LONG, truncated=_BOOLEAN, problem=_STRING).fields,
    ]
)

# Key: run, worker. `events` counts every kind, `files` those it was told in and `refused` those that could not be
# used; `truncated` says that its end or a part is missing. The run "" counts files that do not say whose they are.
RUNS: Final = StructType(
    [
        *_columns(day=_DATE).fields,
        *HEADER.fields,
        *_columns(events=_LONG, files=_INT, truncated=_BOOLEAN, refused=_INT).fields,
    ]
)

# Key: run, worker, test.
TESTS: Final = _columns(
    day=_DATE,
    run=_STRING,
    worker=_STRING,
    test=_STRING,
    outcome=_STRING,
    duration=_DOUBLE,
    retries=_LONG,
    published=_LONG,
    failures=_LONG,
)

# Key: run, worker, seq. What clients and tests did that was not about a message: small, and read often.
CONTROL: Final = StructType(
    [
        EVENTS[name]
        for name in (
            *("day", "run", "worker", "seq", "ts", "kind", "test", "vhost", "conn", "chan", "exchange", "routing_key"),
            *("queue", "consumer", "count", "reason", "attrs"),
        )
    ]
)

# Key: day, run, worker, test, vhost, queue, msg, copy. Rows of one copy can be merged, so that an event that comes late
# never needs an earlier row to be rewritten.
COPIES: Final = _columns(
    day=_DATE,
    run=_STRING,
    worker=_STRING,
    test=_STRING,
    vhost=_STRING,
    queue=_STRING,
    msg=_LONG,
    copy=_LONG,
    src_copy=_LONG,
    size=_INT,
    enqueued_at=_LONG,
    enq_seq=_LONG,
    enqueues=_LONG,
    first_delivered_at=_LONG,
    deliver_seq=_LONG,
    # The flag of the first delivery, and how many deliveries had none.
    first_redelivered=_BOOLEAN,
    unflagged=_LONG,
    last_deliver_seq=_LONG,
    # The consumers of its first and its last delivery, as numbers; null for basic.get.
    holder=_LONG,
    last_holder=_LONG,
    # The first event by which a delivery could be over, and its kind.
    settle_seq=_LONG,
    settle_kind=_INT,
    # The same of the last such event.
    last_settle_seq=_LONG,
    last_settle_kind=_INT,
    # The first end.
    settled_at=_LONG,
    end_seq=_LONG,
    ack_seq=_LONG,
    # The last time it came to be ready, and the last that happened to it.
    ready_seq=_LONG,
    last_seq=_LONG,
    deliveries=_LONG,
    acks=_LONG,
    nacks=_LONG,
    rejects=_LONG,
    requeues=_LONG,
    expiries=_LONG,
    drops=_LONG,
    dead_letters=_LONG,
    purges=_LONG,
    dl_reason=_INT,
)

# Key: run, worker, msg.
MESSAGES: Final = _columns(
    day=_DATE,
    run=_STRING,
    worker=_STRING,
    test=_STRING,
    vhost=_STRING,
    msg=_LONG,
    seq=_LONG,
    published_at=_LONG,
    exchange=_STRING,
    routing_key=_STRING,
    # In confirm mode only.
    publish_number=_LONG,
    copies=_LONG,
    returned=_BOOLEAN,
    # Null: nobody said.
    confirmed=_BOOLEAN,
    hops=_LONG,
    outcome=_STRING,
    end_to_end_us=_LONG,
)

# Key: day, run, vhost, queue, measure ("wait" or "process"), bucket.
LATENCY_HIST: Final = _columns(
    day=_DATE, run=_STRING, vhost=_STRING, queue=_STRING, measure=_STRING, bucket=_INT, n=_LONG
)

_QUEUE_COUNTS: Final = _columns(
    copies=_LONG,
    deliveries=_LONG,
    redeliveries=_LONG,
    acked=_LONG,
    leaked=_LONG,
    dead_rejected=_LONG,
    dead_expired=_LONG,
    dead_maxlen=_LONG,
    dead_delivery_limit=_LONG,
    dropped=_LONG,
    max_depth=_LONG,
)

# Key: day, run, worker, test, vhost, queue. `late` and `passed` count copies that younger ones were delivered before,
# and that wait though younger ones were delivered; `unordered` those that came before one of the same or an earlier
# message, or more than once.
TEST_QUEUES: Final = StructType(
    [
        *_columns(day=_DATE, run=_STRING, worker=_STRING, test=_STRING, vhost=_STRING, queue=_STRING).fields,
        *_QUEUE_COUNTS.fields,
        *_columns(late=_LONG, passed=_LONG, unordered=_LONG).fields,
    ]
)

# Key: day, run, vhost, queue.
QUEUE_STATS: Final = StructType(
    [
        *_columns(day=_DATE, run=_STRING, vhost=_STRING, queue=_STRING).fields,
        *_QUEUE_COUNTS.fields,
        *_columns(wait_hist=_HISTOGRAM, process_hist=_HISTOGRAM).fields,
    ]
)

_CONSUMER_COUNTS: Final = _columns(
    deliveries=_LONG, redeliveries=_LONG, acked=_LONG, nacked=_LONG, rejected=_LONG, max_unacked=_LONG
)

# Key: day, run, worker, test, vhost, queue, conn, chan, consumer. A consumer of null stands for gets.
CONSUMERS: Final = StructType(
    [
        *_columns(day=_DATE, run=_STRING, worker=_STRING, test=_STRING, vhost=_STRING, queue=_STRING).fields,
        *_columns(conn=_INT, chan=_INT, consumer=_STRING, holder=_LONG, first_seq=_LONG, last_seq=_LONG).fields,
        *_CONSUMER_COUNTS.fields,
    ]
)

# Key: day, run, vhost, queue, consumer.
CONSUMER_STATS: Final = StructType(
    [
        *_columns(day=_DATE, run=_STRING, vhost=_STRING, queue=_STRING, consumer=_STRING).fields,
        *_CONSUMER_COUNTS.fields,
    ]
)

# Key: day, run, vhost, kind, exchange, routing_key, queue: what was published (queue null), enqueued and dead-lettered.
ROUTES: Final = _columns(
    day=_DATE,
    run=_STRING,
    vhost=_STRING,
    kind=_STRING,
    exchange=_STRING,
    routing_key=_STRING,
    queue=_STRING,
    n=_LONG,
)

# Key: day, run, test, from_queue, reason, to_queue.
RUN_LINEAGE: Final = _columns(
    day=_DATE, run=_STRING, test=_STRING, from_queue=_STRING, reason=_STRING, to_queue=_STRING, n=_LONG
)

# Key: from_queue, reason, to_queue.
LINEAGE: Final = _columns(from_queue=_STRING, reason=_STRING, to_queue=_STRING, n=_LONG, runs=_LONG, tests=_LONG)

# Key: day, run, kind, name.
RUN_COVERAGE: Final = _columns(day=_DATE, run=_STRING, kind=_STRING, name=_STRING, declared=_BOOLEAN, messages=_LONG)

# Key: kind, name.
COVERAGE: Final = _columns(
    kind=_STRING, name=_STRING, declared_in=_LONG, exercised_in=_LONG, messages=_LONG, never=_BOOLEAN
)

# What a queue's copies came to in a test, for `FINGERPRINTS.parts`.
PART: Final = _columns(queue=_STRING, outcome=_STRING, n=_LONG, requeues=_LONG)

# Key: run, test.
FINGERPRINTS: Final = _columns(
    day=_DATE,
    run=_STRING,
    test=_STRING,
    commit=_STRING,
    outcome=_STRING,
    fp=_STRING,
    order_fp=_STRING,
    parts=ArrayType(PART, containsNull=False),
)

# Key: commit, test.
FLAKY: Final = _columns(
    commit=_STRING, test=_STRING, behaviours=_LONG, runs=_LONG, entropy=_DOUBLE, first_differing_queue=_STRING
)

# Key: day, run, worker, test, fault, on: what a fault came with in the tests it struck in.
FAULT_EFFECT: Final = _columns(
    day=_DATE,
    run=_STRING,
    worker=_STRING,
    test=_STRING,
    fault=_STRING,
    on=_STRING,
    struck=_LONG,
    outcome=_STRING,
    copies=_LONG,
    redeliveries=_LONG,
    dead_letters=_LONG,
    leaked=_LONG,
)

# Key: run, worker, test, queue, msg, copy, rule. A violation of a message has neither queue nor copy.
VIOLATIONS: Final = _columns(
    day=_DATE,
    run=_STRING,
    worker=_STRING,
    test=_STRING,
    vhost=_STRING,
    queue=_STRING,
    msg=_LONG,
    copy=_LONG,
    rule=_STRING,
    text=_STRING,
)

# Key: side, queue, position. `difference` is the kind of it; null is what one does not have.
RUN_DIFF: Final = _columns(side=_STRING, queue=_STRING, position=_LONG, difference=_STRING, left=_STRING, right=_STRING)
PARITY_DIFF: Final = _columns(
    side=_STRING, queue=_STRING, position=_LONG, difference=_STRING, left=_STRING, right=_STRING
)
