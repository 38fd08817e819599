"""The columns of the kernel's tables, as Arrow types. Strings are dictionary codes; docs/reference/pipeline-tables.md
explains the columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from leveret.pipeline.kernel.codes import DEATH_REASONS
from leveret.trace import schema as trace_schema

TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_LONG: Final = pa.int64()
_INT: Final = pa.int32()
_TYPES: Final = {"long": _LONG, "int": _INT, "string": TEXT, "boolean": pa.bool_()}

_RUN: Final = {"day": pa.date32(), "run": TEXT}
_FILE: Final = {**_RUN, "worker": TEXT}
_QUEUE: Final = {**_FILE, "test": TEXT, "vhost": TEXT, "queue": TEXT}


def _longs(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, _LONG)


def _texts(*names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, TEXT)


def _of_trace(*names: str) -> dict[str, pa.DataType]:
    return {name: _TYPES[trace_schema.COLUMNS[name]] for name in names}


_PLAIN: Final = {"long": _LONG, "int": _INT, "string": pa.string(), "boolean": pa.bool_()}

# The columns of a line of a trace; few lines have an equal one in `attrs`, so here strings are plain.
LINE: Final = pa.schema({name: _PLAIN[kind] for name, kind in trace_schema.COLUMNS.items()})

EVENTS: Final = pa.schema(
    {
        **_FILE,
        **_of_trace(*trace_schema.COLUMNS),
        # These strings are all different, or nearly so. `_extra` has the keys of a line that have no column.
        **dict.fromkeys(("body_hash", "message_id", "correlation_id", "_extra"), pa.string()),
        # When the file began, and its name of the worker, if the name of the shard is another one.
        **_texts("started", "_worker"),
    }
)

_HEADER: Final = {"v": _INT, **{name: _PLAIN[kind] for name, kind in trace_schema.HEADER.items()}}
_HEADER_OF_FILE: Final = {"run": pa.string(), "worker": pa.string(), **_HEADER}

# A row for each trace file. `ingest` numbers the ingests of a
# file that came again, `problem` says why a file was refused. `since` is the day, or that of the ingest.
FILES: Final = pa.schema(
    {
        **_longs("ingest"),
        "file": pa.string(),
        **_longs("size_bytes", "modified_ns"),
        "since": pa.string(),
        "day": pa.date32(),
        **_HEADER_OF_FILE,
        **_longs("events", "first_seq", "last_seq", "conflicts"),
        "truncated": pa.bool_(),
        "problem": pa.string(),
    }
)

RUNS: Final = pa.schema(
    {
        "day": pa.date32(),
        **_HEADER_OF_FILE,
        **_longs("events"),
        "files": _INT,
        "truncated": pa.bool_(),
        "refused": _INT,
        **_longs("conflicts"),
    }
)

CONTROL: Final = pa.schema(
    {
        **_FILE,
        **_of_trace(*("seq", "ts", "kind", "test", "vhost", "conn", "chan", "exchange", "routing_key")),
        **_of_trace(*("queue", "consumer", "count", "reason", "attrs")),
    }
)

COPIES: Final = pa.schema(
    {
        **_QUEUE,
        **_of_trace("msg", "copy", "src_copy", "size"),
        **_longs("enqueued_at", "enq_seq", "enqueues", "first_delivered_at", "deliver_seq"),
        "first_redelivered": pa.bool_(),
        **_longs("unflagged", "last_deliver_seq", "holder", "last_holder", "settle_seq"),
        "settle_kind": _INT,
        "last_settle_seq": _LONG,
        "last_settle_kind": _INT,
        **_longs("settled_at", "end_seq", "ack_seq", "ready_seq", "last_seq", "deliveries"),
        **_longs("acks", "nacks", "rejects", "requeues", "expiries", "drops", "dead_letters", "purges"),
        "dl_reason": _INT,
        "outcome": TEXT,
    }
)

MESSAGES: Final = pa.schema(
    {
        **_FILE,
        **_of_trace("test", "vhost", "msg", "seq"),
        "published_at": _LONG,
        **_of_trace("exchange", "routing_key"),
        **_longs("publish_number", "copies"),
        "returned": pa.bool_(),
        "confirmed": pa.bool_(),
        "hops": _LONG,
        "outcome": TEXT,
        "end_to_end_us": _LONG,
    }
)

TESTS: Final = pa.schema(
    {
        **_FILE,
        "test": TEXT,
        "outcome": TEXT,
        "duration": pa.float64(),
        **_longs("retries", "published", "failures"),
        **_texts("error", "page", "page_hash"),
    }
)

_CONSUMER_COUNTS: Final = _longs("deliveries", "redeliveries", "acked", "nacked", "rejected", "max_unacked")

CONSUMERS: Final = pa.schema(
    {
        **_QUEUE,
        **_of_trace("conn", "chan", "consumer"),
        **_longs("holder", "first_seq", "last_seq"),
        **_CONSUMER_COUNTS,
    }
)

CONSUMER_STATS: Final = pa.schema({**_RUN, **_texts("vhost", "queue", "consumer"), **_CONSUMER_COUNTS})

ROUTES: Final = pa.schema({**_RUN, **_texts("vhost", "kind", "exchange", "routing_key", "queue"), "n": _LONG})

SUMMED_OF_QUEUES: Final = (
    *("copies", "deliveries", "redeliveries", "acked", "leaked"),
    *(f"dead_{reason}" for reason in DEATH_REASONS),
    "dropped",
)

TEST_QUEUES: Final = pa.schema({**_QUEUE, **_longs(*SUMMED_OF_QUEUES, "max_depth", "late", "passed", "unordered")})

LATENCY_HIST: Final = pa.schema({**_RUN, **_texts("vhost", "queue", "measure"), "bucket": _INT, "n": _LONG})

_HISTOGRAM: Final = pa.map_(_INT, _LONG)

QUEUE_STATS: Final = pa.schema(
    {
        **_RUN,
        **_texts("vhost", "queue"),
        **_longs(*SUMMED_OF_QUEUES, "max_depth"),
        "wait_hist": _HISTOGRAM,
        "process_hist": _HISTOGRAM,
    }
)

RUN_LINEAGE: Final = pa.schema({**_RUN, **_texts("test", "vhost", "from_queue", "reason", "to_queue"), "n": _LONG})

RUN_COVERAGE: Final = pa.schema({**_RUN, **_texts("kind", "name"), "declared": pa.bool_(), "messages": _LONG})

# What a number is of. The last four are those of the measure "shape" only.
SERIES: Final = _texts(
    *("test", "vhost", "queue", "measure", "reason", "to_queue", "exchange", "routing_key", "name", "field")
)

RUN_COUNTS: Final = pa.schema({**_RUN, "began": _LONG, **_texts("commit"), **SERIES, "n": _LONG})

CHANGES: Final = pa.schema(
    {
        **SERIES,
        **_texts("kind", "since_run", "since_commit", "commit_before"),
        **_longs("before", "after", "runs_before", "runs_after"),
        "holds": pa.bool_(),
        "chance": pa.float64(),
    }
)

_PART: Final = pa.struct({"queue": pa.string(), "outcome": pa.string(), "n": _LONG, "requeues": _LONG})

_KIND: Final = _texts("vhost", "exchange", "routing_key", "name")

RUN_SHAPES: Final = pa.schema(
    {**_RUN, "began": _LONG, **_texts("commit"), **_KIND, **_texts("field", "type", "word"), "n": _LONG}
)

RUN_CLIENTS: Final = pa.schema({**_RUN, **_KIND, **_texts("client", "action", "queue"), "n": _LONG})

MESSAGE_SHAPES: Final = pa.schema(
    {
        **_KIND,
        **_texts("field", "type", "word"),
        **_longs("n", "runs"),
        **_texts("first_run", "first_commit", "last_run", "last_commit"),
    }
)

FINGERPRINTS: Final = pa.schema(
    {**_RUN, **_texts("test", "commit", "outcome", "fp", "order_fp"), "parts": pa.list_(_PART)}
)

LINEAGE: Final = pa.schema({**_texts("vhost", "from_queue", "reason", "to_queue"), **_longs("n", "runs", "tests")})

COVERAGE: Final = pa.schema(
    {**_texts("kind", "name"), **_longs("declared_in", "exercised_in", "messages"), "never": pa.bool_()}
)

FLAKY: Final = pa.schema(
    {
        **_texts("commit", "test"),
        **_longs("behaviours", "runs"),
        "entropy": pa.float64(),
        "first_differing_queue": TEXT,
    }
)

FAULT_EFFECT: Final = pa.schema(
    {
        **_FILE,
        **_texts("test", "fault", "on"),
        "struck": _LONG,
        "outcome": TEXT,
        **_longs("copies", "redeliveries", "dead_letters", "leaked"),
    }
)

VIOLATIONS: Final = pa.schema({**_QUEUE, **_of_trace("msg", "copy"), **_texts("rule", "text"), "seqs": pa.list_(_LONG)})

# The tables of one run, in the order in which docs/reference/pipeline-tables.md explains them.
TABLES: Final[dict[str, pa.Schema]] = {
    "control": CONTROL,
    "copies": COPIES,
    "messages": MESSAGES,
    "tests": TESTS,
    "consumers": CONSUMERS,
    "routes": ROUTES,
    "test_queues": TEST_QUEUES,
    "latency_hist": LATENCY_HIST,
    "queue_stats": QUEUE_STATS,
    "consumer_stats": CONSUMER_STATS,
    "run_lineage": RUN_LINEAGE,
    "run_coverage": RUN_COVERAGE,
    "run_counts": RUN_COUNTS,
    "run_shapes": RUN_SHAPES,
    "run_clients": RUN_CLIENTS,
    "fingerprints": FINGERPRINTS,
    "fault_effect": FAULT_EFFECT,
    "violations": VIOLATIONS,
}


def plain(columns: pa.Schema) -> pa.Schema:
    """Return the columns with strings in place of dictionary codes, as other tools take them."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in columns])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in kind])
    return kind
