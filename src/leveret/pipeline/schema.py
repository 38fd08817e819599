"""The tables of the pipeline: the columns and the key of each.

Schemas are written out and never inferred; `leveret.trace.schema` declares the columns of a trace. A schema changes
only by new nullable columns, and `_extra` keeps what a trace holds besides them. Aggregated columns have a fixed width,
because an aggregate over strings makes Spark sort. Instants are microseconds of the broker's clock, spans are
microseconds, and sizes are bytes.
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
    """A table. To add one, add a row to `gold.TABLES`.

    `build` takes the DataFrames that `reads` names, in that order: "events" and "runs" (which come from the traces), or
    earlier tables. A table per run has a column `run`, is built from the rows of the runs that changed, and is stored.
    A table `across_runs` is built from all rows of the tables that it reads, whenever it is read.
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
# The number of values in each bucket of a logarithmic histogram.
_HISTOGRAM: Final = MapType(IntegerType(), LongType())

# The columns of a line of a trace; null if a column does not apply to the kind.
LINE: Final = _derived(trace_schema.COLUMNS)

# Key: run, worker, seq. day, run and worker come from the header; `_extra` is JSON of keys unknown to this version.
EVENTS: Final = StructType(
    [
        *_columns(day=_DATE, run=_STRING, worker=_STRING).fields,
        *LINE.fields,
        *_columns(_extra=_STRING).fields,
    ]
)

# The fields of the first line of a trace, about its run and worker.
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

# Key: run, worker. `events` counts events of every kind, `files` the files that hold them, and `refused` the files that
# could not be used. `truncated`: the end or a part is missing. The run "" counts files that do not name their run.
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
    # Of the last attempt that failed: the text of its error, and its page, by the path from the trace file.
    error=_STRING,
    page=_STRING,
    page_hash=_STRING,
)

# Key: run, worker, seq. The events that are not about a message: a small table that is read often.
CONTROL: Final = StructType(
    [
        EVENTS[name]
        for name in (
            *("day", "run", "worker", "seq", "ts", "kind", "test", "vhost", "conn", "chan", "exchange", "routing_key"),
            *("queue", "consumer", "count", "reason", "attrs"),
        )
    ]
)

# Key: day, run, worker, test, vhost, queue, msg, copy. Rows of one copy can be merged, so a late event never requires
# that an earlier row is rewritten.
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
    # The redelivered flag of the first delivery, and the number of deliveries whose flag was false.
    first_redelivered=_BOOLEAN,
    unflagged=_LONG,
    last_deliver_seq=_LONG,
    # The consumers of the first and the last delivery, as numbers; null for basic.get.
    holder=_LONG,
    last_holder=_LONG,
    # The first event that can end a delivery, and its kind.
    settle_seq=_LONG,
    settle_kind=_INT,
    # The last such event, and its kind.
    last_settle_seq=_LONG,
    last_settle_kind=_INT,
    # The first end.
    settled_at=_LONG,
    end_seq=_LONG,
    ack_seq=_LONG,
    # The last event that made it ready, and its last event of all.
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
    # The publish number; null outside confirm mode.
    publish_number=_LONG,
    copies=_LONG,
    returned=_BOOLEAN,
    # Null if the broker sent neither an ack nor a nack.
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

# Key: day, run, worker, test, vhost, queue. `late` counts copies before which a younger one was delivered, and `passed`
# copies that wait although younger ones were delivered. `unordered` counts copies that came before one of the same or
# an earlier message, or more than once.
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

# Key: day, run, worker, test, vhost, queue, conn, chan, consumer. The consumer is null for basic.get.
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

# The number of a queue's copies in a test with one outcome, for `FINGERPRINTS.parts`.
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

# Key: day, run, worker, test, fault, on. How often a fault fired in a test (`struck`), and counts of its queues.
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

# Key: side, queue, position. `difference` names what differs. `left` or `right` is null if that side has no value.
PARITY_DIFF: Final = _columns(
    side=_STRING, queue=_STRING, position=_LONG, difference=_STRING, left=_STRING, right=_STRING
)
