"""Lifecycle: from events to the life of each copy and message, and to the results of tests.

A copy is one message in one queue. Its row is a partial aggregate over its events: minima, maxima and sums of a fixed
width, so rows of one copy from several batches `merge` into the row of all its events. Sequence numbers give the order
of events, and instants only measure time. If a column needs a value from the row of another column's minimum, both are
packed into one number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.pipeline.kernel.codes import COPY_KINDS, COUNTED, DEATH_REASONS, KINDS
from leveret.pipeline.schema import CONTROL, COPIES, MESSAGES, TESTS
from leveret.trace.events import CONTROL as CONTROL_KINDS
from leveret.trace.events import DELIVERIES, ENDS

FILE_KEY: Final = ["day", "run", "worker"]
QUEUE_KEY: Final = [*FILE_KEY, "test", "vhost", "queue"]
COPY_KEY: Final = [*QUEUE_KEY, "msg", "copy"]
HOLDER_KEY: Final = [*QUEUE_KEY, "conn", "chan", "consumer"]

_MINIMA: Final = ("enqueued_at", "enq_seq", "first_delivered_at", "settled_at", "end_seq", "ack_seq")
_MAXIMA: Final = ("src_copy", "size", "last_deliver_seq", "ready_seq", "last_seq", "dl_reason")
_SUMS: Final = ("deliveries", "unflagged", *COUNTED.values())
# A sequence number is packed with a flag (0, 1, or 2 for none), or with one of COPY_KINDS (below KINDS).
_FLAGS: Final = 4
# The outcomes of tests that failed.
_FAILURES: Final = ("failed", "error")


def file_of() -> Column:
    """Return one number for a worker of a run, so that two numbers identify a message."""
    return F.xxhash64("run", "worker")


def place_of(prefix: str = "") -> Column:
    """Return one number for a queue of a test. Grouping and sorting by it costs much less than by six columns."""
    return F.xxhash64(*[F.col(prefix + name) for name in QUEUE_KEY])


def holder_of() -> Column:
    """Return one number for a consumer of a queue of a test."""
    return F.xxhash64(*HOLDER_KEY)


def control(events: DataFrame) -> DataFrame:
    """Return the events of clients and tests that are not about a message."""
    is_control = F.col("msg").isNull() & F.col("kind").isin(*CONTROL_KINDS)
    return events.where(is_control).select(CONTROL.fieldNames())


def copies(events: DataFrame) -> DataFrame:
    """Return one row for each copy in these events."""
    # The kind becomes a number once for each event; the aggregates compare numbers.
    coded = events.where(F.col("copy").isNotNull() & F.col("kind").isin(*COPY_KINDS)).select(
        *COPY_KEY,
        *("seq", "ts", "src_copy", "size", "redelivered"),
        code_of("kind", COPY_KINDS).alias("k"),
        F.when(F.col("kind") == "dead_lettered", code_of("reason", DEATH_REASONS)).alias("death"),
        F.when(F.col("kind") == "delivered", holder_of()).alias("holder"),
    )
    k, seq, ts = F.col("k"), F.col("seq"), F.col("ts")
    is_delivery, is_end = _is_one_of(k, DELIVERIES), _is_one_of(k, ENDS)
    flag = F.when(F.col("redelivered"), 1).when(~F.col("redelivered"), 0).otherwise(2)

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    grouped = coded.groupBy(*COPY_KEY).agg(
        F.max("src_copy").alias("src_copy"),
        F.max("size").alias("size"),
        F.min(F.when(k == 1, ts)).alias("enqueued_at"),
        F.min(F.when(k == 1, seq)).alias("enq_seq"),
        F.min(F.when(is_delivery, ts)).alias("first_delivered_at"),
        F.min(F.when(is_delivery, seq * _FLAGS + flag)).alias("first_delivery"),
        count(is_delivery & ~F.col("redelivered")).alias("unflagged"),
        F.max(F.when(is_delivery, seq)).alias("last_deliver_seq"),
        F.min_by("holder", F.when(is_delivery, seq)).alias("holder"),
        F.max_by("holder", F.when(is_delivery, seq)).alias("last_holder"),
        F.min(F.when(k >= 4, seq * KINDS + k)).alias("settlement"),
        F.max(F.when(k >= 4, seq * KINDS + k)).alias("last_settlement"),
        F.min(F.when(is_end, ts)).alias("settled_at"),
        F.min(F.when(is_end, seq)).alias("end_seq"),
        F.min(F.when(k == 4, seq)).alias("ack_seq"),
        F.max(F.when(k.isin(1, 7), seq)).alias("ready_seq"),
        F.max("seq").alias("last_seq"),
        count(is_delivery).alias("deliveries"),
        *[count(k == COPY_KINDS[kind]).alias(name) for kind, name in COUNTED.items()],
        F.max("death").alias("dl_reason"),
    )
    return _unpacked(grouped)


def merge(*parts: DataFrame) -> DataFrame:
    """Return one row for each copy, from rows of `copies` over any division of its events."""
    rows = reduce(DataFrame.unionByName, parts)
    flag = F.when(F.col("first_redelivered"), 1).when(~F.col("first_redelivered"), 0).otherwise(2)
    merged = rows.groupBy(*COPY_KEY).agg(
        *[F.min(name).alias(name) for name in _MINIMA],
        *[F.max(name).alias(name) for name in _MAXIMA],
        *[F.sum(name).alias(name) for name in _SUMS],
        F.min(F.col("deliver_seq") * _FLAGS + flag).alias("first_delivery"),
        F.min_by("holder", "deliver_seq").alias("holder"),
        F.max_by("last_holder", "last_deliver_seq").alias("last_holder"),
        F.min(F.col("settle_seq") * KINDS + F.col("settle_kind")).alias("settlement"),
        F.max(F.col("last_settle_seq") * KINDS + F.col("last_settle_kind")).alias("last_settlement"),
    )
    return _unpacked(merged)


def outcome(copies: DataFrame) -> DataFrame:
    """Return these copies with a column `outcome`: how each one ended.

    A copy without an end is "ready", "unacked", or "undecided" if it was given back and no event followed.
    """
    return copies.withColumn("outcome", outcome_of())


def outcome_of() -> Column:
    """Return the outcome of a row of `copies`."""
    last = F.col("last_seq")
    return (
        F.when(F.col("acks") > 0, "acked")
        .when(F.col("dead_letters") > 0, "dead_lettered")
        .when(F.col("drops") > 0, "dropped")
        .when(F.col("expiries") > 0, "expired")
        .when(F.col("purges") > 0, "purged")
        .when(last == F.col("last_deliver_seq"), "unacked")
        .when(last == F.col("ready_seq"), "ready")
        .otherwise("undecided")
    )


def messages(events: DataFrame, copies: DataFrame) -> DataFrame:
    """Return one row for each published message.

    Its outcome is that of the copy that ended last. It is "open" while a copy has no end, and "returned" or "dropped"
    if there was no copy.
    """
    kind = F.col("kind")
    key = ["file", "msg"]
    of_events = events.where(kind.isin("returned", "confirmed", "nacked_confirm")).select(
        file_of().alias("file"),
        "msg",
        F.when(kind == "returned", True).alias("returned"),
        F.when(kind != "returned", kind == "confirmed").alias("confirmed"),
        *[F.lit(None).cast("long").alias(name) for name in ("copies", "hops", "open", "last_end", "settled_at")],
    )
    code = code_of(outcome_of(), {name: number for number, name in enumerate(ENDS)})
    of_copies = copies.select(
        file_of().alias("file"),
        "msg",
        F.lit(None).cast("boolean").alias("returned"),
        F.lit(None).cast("boolean").alias("confirmed"),
        F.lit(1).cast("long").alias("copies"),
        F.col("src_copy").isNotNull().cast("long").alias("hops"),
        F.col("end_seq").isNull().cast("long").alias("open"),
        (F.col("end_seq") * KINDS + code).alias("last_end"),
        "settled_at",
    )
    fates = (
        of_events.unionByName(of_copies)
        .groupBy(*key)
        .agg(
            F.max("returned").alias("returned"),
            F.max("confirmed").alias("confirmed"),
            *[F.sum(name).alias(name) for name in ("copies", "hops", "open")],
            *[F.max(name).alias(name) for name in ("last_end", "settled_at")],
        )
    )
    published = events.where((kind == "published") & F.col("msg").isNotNull()).select(
        *FILE_KEY,
        file_of().alias("file"),
        *("test", "vhost", "msg", "seq", "exchange", "routing_key"),
        F.col("ts").alias("published_at"),
        F.col("tag").alias("publish_number"),
    )
    names = F.array(*[F.lit(name) for name in ENDS])
    is_open, copy_count = F.coalesce("open", F.lit(0)) > 0, F.coalesce("copies", F.lit(0))
    joined = published.join(fates.hint("shuffle_hash"), key, "left")
    return joined.select(
        *FILE_KEY,
        *("test", "vhost", "msg", "seq", "published_at", "exchange", "routing_key", "publish_number"),
        copy_count.alias("copies"),
        F.coalesce("returned", F.lit(False)).alias("returned"),
        F.col("confirmed"),
        F.coalesce("hops", F.lit(0)).alias("hops"),
        F.when(is_open, "open")
        .when(copy_count > 0, F.get(names, (F.col("last_end") % KINDS).cast("int")))
        .when(F.col("returned"), "returned")
        .otherwise("dropped")
        .alias("outcome"),
        F.when(~is_open, F.col("settled_at") - F.col("published_at")).alias("end_to_end_us"),
    ).select(MESSAGES.fieldNames())


def tests(control: DataFrame, messages: DataFrame) -> DataFrame:
    """Return one row for each test that has a start or end event.

    Outcome and duration are those of the last attempt, or null if it has no end.
    """
    key = [*FILE_KEY, "test"]
    is_end = F.col("kind") == "test_end"
    result = F.get_json_object("attrs", "$.outcome")
    attempts = control.where(F.col("kind").isin("test_start", "test_end") & F.col("test").isNotNull())
    ends = (
        attempts.withColumn("result", F.when(is_end, result))
        .groupBy(*key)
        .agg(
            F.count(F.when(~is_end, 1)).alias("starts"),
            F.count(F.when(F.col("result").isin(*_FAILURES), 1)).alias("failures"),
            F.max(F.when(~is_end, F.col("seq"))).alias("last_start"),
            F.max_by(F.struct(is_end.alias("is_end"), "result", "attrs"), "seq").alias("last"),
            F.max_by("attrs", F.when(F.col("result").isin(*_FAILURES), F.col("seq"))).alias("of_failure"),
        )
    )
    published = messages.groupBy(*key).agg(F.count(F.lit(1)).alias("published"))
    joined = null_safe_join(ends, published, key)
    return joined.select(
        *key,
        F.when(F.col("last.is_end"), F.col("last.result")).alias("outcome"),
        F.when(F.col("last.is_end"), F.get_json_object("last.attrs", "$.duration").cast("double")).alias("duration"),
        F.greatest(F.col("starts") - 1, F.lit(0)).cast("long").alias("retries"),
        F.coalesce("published", F.lit(0)).alias("published"),
        "failures",
        *[F.get_json_object("of_failure", f"$.{name}").alias(name) for name in ("error", "page", "page_hash")],
    ).select(TESTS.fieldNames())


def null_safe_join(left: DataFrame, right: DataFrame, key: list[str], how: str = "left") -> DataFrame:
    """Join with null equal to null, because a trace of the firehose has no tests."""
    right = right.select(*[F.col(name).alias(f"_{name}" if name in key else name) for name in right.columns])
    condition = reduce(Column.__and__, [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key])
    joined = left.join(right, condition, how)
    if how == "full":
        joined = joined.withColumns({name: F.coalesce(name, f"_{name}") for name in key})
    return joined.drop(*[f"_{name}" for name in key])


def code_of(of: str | Column, numbers: dict[str, int]) -> Column:
    """Return the number of a name; null for a name without one."""
    value = F.col(of) if isinstance(of, str) else of
    code: Column | None = None
    for name, number in numbers.items():
        code = F.when(value == name, number) if code is None else code.when(value == name, number)
    assert code is not None
    return code


def _is_one_of(code: Column, kinds: Iterable[str]) -> Column:
    return code.isin(*[COPY_KINDS[kind] for kind in kinds])


def sequence_of(packed: str, size: int) -> Column:
    """Return the sequence number from a column in which it is packed with one of `size` values."""
    return F.shiftright(packed, size.bit_length() - 1)


def _unpacked(grouped: DataFrame) -> DataFrame:
    flag = F.col("first_delivery") % _FLAGS
    return grouped.select(
        "*",
        sequence_of("first_delivery", _FLAGS).alias("deliver_seq"),
        F.when(flag < 2, flag == 1).alias("first_redelivered"),
        sequence_of("settlement", KINDS).alias("settle_seq"),
        (F.col("settlement") % KINDS).cast("int").alias("settle_kind"),
        sequence_of("last_settlement", KINDS).alias("last_settle_seq"),
        (F.col("last_settlement") % KINDS).cast("int").alias("last_settle_kind"),
    ).select(COPIES.fieldNames())
