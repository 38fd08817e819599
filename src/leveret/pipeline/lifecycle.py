"""Lives: from events to what became of each copy and each message, to what tests did, and to who held what when.

A copy is one message in one queue. Its row is a partial aggregate over its events: minima, maxima and sums of a fixed
width, so rows of one copy from several batches `merge` into the row of all its events. Sequence numbers order what
happened; instants only measure. A column that would need the row of another column's minimum is packed into one number
with what it is the minimum of.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.pipeline.schema import CONSUMERS, CONTROL, COPIES, MESSAGES, TESTS

# Kinds of what happens to a copy, as numbers; `settle_kind` of a copy is one of them.
COPY_KINDS: Final = {
    "enqueued": 1,
    "delivered": 2,
    "got": 3,
    "acked": 4,
    "nacked": 5,
    "rejected": 6,
    "requeued": 7,
    "expired": 8,
    "dropped": 9,
    "dead_lettered": 10,
    "purged": 11,
}
# Why a copy was dead-lettered, as `dl_reason` has it.
DEATH_REASONS: Final = {"rejected": 1, "expired": 2, "maxlen": 3, "delivery_limit": 4}
CONTROL_KINDS: Final = (
    *("conn_open", "conn_close", "chan_open", "chan_close"),
    *("exchange_declare", "exchange_delete", "queue_declare", "queue_delete", "bind", "unbind"),
    *("consume", "cancel", "qos", "test_start", "test_end", "fault"),
)

FILE_KEY: Final = ["day", "run", "worker"]
QUEUE_KEY: Final = [*FILE_KEY, "test", "vhost", "queue"]
COPY_KEY: Final = [*QUEUE_KEY, "msg", "copy"]
HOLDER_KEY: Final = [*QUEUE_KEY, "conn", "chan", "consumer"]

_MINIMA: Final = ("enqueued_at", "enq_seq", "first_delivered_at", "settled_at", "end_seq", "ack_seq")
_MAXIMA: Final = ("src_copy", "size", "last_deliver_seq", "holder", "ready_seq", "last_seq", "dl_reason")
_SUMS: Final = (
    *("enqueues", "unflagged", "deliveries", "acks", "nacks", "rejects", "requeues"),
    *("expiries", "drops", "dead_letters", "purges"),
)
# A sequence number packed with a flag (0, 1, or 2 for none), or with a kind.
_FLAGS: Final = 4
_KINDS: Final = 16
# Tests that ended like this failed.
_FAILURES: Final = ("failed", "error")


def place_of(prefix: str = "") -> Column:
    """One number for a queue of a test: to group and sort by, where six columns would cost much more."""
    return F.xxhash64(*[F.col(prefix + name) for name in QUEUE_KEY])


def holder_of() -> Column:
    """One number for a consumer of a queue of a test."""
    return F.xxhash64(*HOLDER_KEY)


def control(events: DataFrame) -> DataFrame:
    """What clients and tests did that was not about a message."""
    is_control = F.col("msg").isNull() & F.col("kind").isin(*CONTROL_KINDS)
    return events.where(is_control).select(CONTROL.fieldNames())


def copies(events: DataFrame) -> DataFrame:
    """One row for each copy that these events tell of."""
    # Read once for each event: the kind as a number, which the aggregates compare.
    told = events.where(F.col("copy").isNotNull()).select(
        *COPY_KEY,
        *("seq", "ts", "src_copy", "size", "redelivered"),
        _code("kind", COPY_KINDS).alias("k"),
        F.when(F.col("kind") == "dead_lettered", _code("reason", DEATH_REASONS)).alias("death"),
        F.when(F.col("kind") == "delivered", holder_of()).alias("holder"),
    )
    k, seq, ts = F.col("k"), F.col("seq"), F.col("ts")
    is_delivery, is_end = k.isin(2, 3), (k == 4) | (k >= 8)
    flag = F.when(F.col("redelivered"), 1).when(~F.col("redelivered"), 0).otherwise(2)

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    grouped = (
        told.where(k.isNotNull())
        .groupBy(*COPY_KEY)
        .agg(
            F.max("src_copy").alias("src_copy"),
            F.max("size").alias("size"),
            F.min(F.when(k == 1, ts)).alias("enqueued_at"),
            F.min(F.when(k == 1, seq)).alias("enq_seq"),
            count(k == 1).alias("enqueues"),
            F.min(F.when(is_delivery, ts)).alias("first_delivered_at"),
            F.min(F.when(is_delivery, seq * _FLAGS + flag)).alias("first_delivery"),
            count(is_delivery & ~F.col("redelivered")).alias("unflagged"),
            F.max(F.when(is_delivery, seq)).alias("last_deliver_seq"),
            F.max("holder").alias("holder"),
            F.min(F.when(k >= 4, seq * _KINDS + k)).alias("settlement"),
            F.min(F.when(is_end, ts)).alias("settled_at"),
            F.min(F.when(is_end, seq)).alias("end_seq"),
            F.min(F.when(k == 4, seq)).alias("ack_seq"),
            F.max(F.when(k.isin(1, 7), seq)).alias("ready_seq"),
            F.max("seq").alias("last_seq"),
            count(is_delivery).alias("deliveries"),
            count(k == 4).alias("acks"),
            count(k == 5).alias("nacks"),
            count(k == 6).alias("rejects"),
            count(k == 7).alias("requeues"),
            count(k == 8).alias("expiries"),
            count(k == 9).alias("drops"),
            count(k == 10).alias("dead_letters"),
            count(k == 11).alias("purges"),
            F.max("death").alias("dl_reason"),
        )
    )
    return _unpacked(grouped)


def merge(*parts: DataFrame) -> DataFrame:
    """One row for each copy, from rows of `copies` over any division of its events."""
    rows = reduce(DataFrame.unionByName, parts)
    flag = F.when(F.col("first_redelivered"), 1).when(~F.col("first_redelivered"), 0).otherwise(2)
    merged = rows.groupBy(*COPY_KEY).agg(
        *[F.min(name).alias(name) for name in _MINIMA],
        *[F.max(name).alias(name) for name in _MAXIMA],
        *[F.sum(name).alias(name) for name in _SUMS],
        F.min(F.col("deliver_seq") * _FLAGS + flag).alias("first_delivery"),
        F.min(F.col("settle_seq") * _KINDS + F.col("settle_kind")).alias("settlement"),
    )
    return _unpacked(merged)


def outcome(copies: DataFrame) -> DataFrame:
    """These copies with a column `outcome`: how each ended, and of those without an end where they are: "ready",
    "unacked", or "undecided" when it was given back and nothing followed.
    """
    return copies.withColumn("outcome", outcome_of())


def outcome_of() -> Column:
    """The outcome of a row of `copies`."""
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
    """One row for each published message. Its outcome is that of the copy that ended last, "open" while one has no end,
    and without any copy "returned" or "dropped".
    """
    kind = F.col("kind")
    key = ["run", "worker", "msg"]
    of_events = events.where(kind.isin("returned", "confirmed", "nacked_confirm")).select(
        *key,
        F.when(kind == "returned", True).alias("returned"),
        F.when(kind != "returned", kind == "confirmed").alias("confirmed"),
        *[F.lit(None).cast("long").alias(name) for name in ("copies", "hops", "open", "last_end", "settled_at")],
    )
    code = _code(outcome_of(), {name: number for number, name in enumerate(_OUTCOMES)})
    of_copies = copies.select(
        *key,
        F.lit(None).cast("boolean").alias("returned"),
        F.lit(None).cast("boolean").alias("confirmed"),
        F.lit(1).cast("long").alias("copies"),
        F.col("src_copy").isNotNull().cast("long").alias("hops"),
        F.col("end_seq").isNull().cast("long").alias("open"),
        (F.col("end_seq") * _KINDS + code).alias("last_end"),
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
        *("test", "vhost", "msg", "seq", "exchange", "routing_key"),
        F.col("ts").alias("published_at"),
        F.col("tag").alias("publish_number"),
    )
    names = F.array(*[F.lit(name) for name in _OUTCOMES])
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
        .when(copy_count > 0, F.get(names, (F.col("last_end") % _KINDS).cast("int")))
        .when(F.col("returned"), "returned")
        .otherwise("dropped")
        .alias("outcome"),
        F.when(~is_open, F.col("settled_at") - F.col("published_at")).alias("end_to_end_us"),
    ).select(MESSAGES.fieldNames())


def tests(control: DataFrame, messages: DataFrame) -> DataFrame:
    """One row for each test that these events name by its start or end. Outcome and duration are the last attempt's,
    null when that has no end.
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
    ).select(TESTS.fieldNames())


def holds(events: DataFrame, copies: DataFrame) -> DataFrame:
    """One row for each delivery to a consumer: who held the copy from when (`seq`) until when (`until`, null: to the
    last), what it did then (`ended_by`, a number of COPY_KINDS), and whether it was the copy's first delivery.

    A delivery is over by the next event that settles its copy. Of a copy with one delivery and what follows it the row
    of `copies` says it all; for others their events are asked.
    """
    is_plain = (F.col("deliveries") <= 1) & F.coalesce(F.col("settle_seq") > F.col("deliver_seq"), F.lit(True))
    plain = copies.where(is_plain & F.col("holder").isNotNull()).select(
        *("run", "worker", "holder", "msg", "copy"),
        F.col("deliver_seq").alias("seq"),
        F.col("settle_seq").alias("until"),
        F.col("settle_kind").alias("ended_by"),
        F.lit(True).alias("is_first"),
    )
    others = copies.where(~is_plain & F.col("holder").isNotNull()).select("run", "worker", "copy")
    kind = _code("kind", COPY_KINDS)
    told = (
        events.where(
            F.col("copy").isNotNull() & F.col("kind").isin(*[name for name in COPY_KINDS if name != "enqueued"])
        )
        .select("run", "worker", "msg", "copy", "seq", kind.alias("k"), F.when(kind == 2, holder_of()).alias("holder"))
        .join(others, ["run", "worker", "copy"], "left_semi")
    )
    life = Window.partitionBy("run", "worker", "copy").orderBy("seq")
    later = life.rowsBetween(1, Window.unboundedFollowing)
    earlier = life.rowsBetween(Window.unboundedPreceding, -1)
    settlement = F.when(F.col("k") >= 4, F.col("seq") * _KINDS + F.col("k"))
    seen = told.select(
        "*",
        F.min(settlement).over(later).alias("next"),
        F.coalesce(F.max(F.col("k") <= 3).over(earlier), F.lit(False)).alias("was_delivered"),
    ).where(F.col("k") == 2)
    return plain.unionByName(
        seen.select(
            *("run", "worker", "holder", "msg", "copy", "seq"),
            _sequence("next", _KINDS).alias("until"),
            (F.col("next") % _KINDS).cast("int").alias("ended_by"),
            (~F.col("was_delivered")).alias("is_first"),
        )
    )


def held_counts(holds: DataFrame, key: list[str]) -> DataFrame:
    """These holds as points in time, each with how many its holder holds then: `unacked`, itself included.

    `delta` is 1 where a hold begins and -1 where it ends.
    """
    points = holds.select(
        *holds.columns,
        F.explode(
            F.array(
                F.struct(F.col("seq").alias("at"), F.lit(1).alias("delta")),
                F.struct(F.col("until").alias("at"), F.lit(-1).alias("delta")),
            )
        ).alias("point"),
    ).select(*holds.columns, "point.*")
    so_far = Window.partitionBy(*key).orderBy("at").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return points.where(F.col("at").isNotNull()).withColumn("unacked", F.sum("delta").over(so_far))


def consumers(events: DataFrame, copies: DataFrame) -> DataFrame:
    """One row for each consumer of a queue in a test, and one (consumer null) for each channel that used basic.get."""
    deliveries = (
        events.where(F.col("copy").isNotNull() & F.col("kind").isin("delivered", "got"))
        .groupBy(*HOLDER_KEY)
        .agg(F.count(F.lit(1)).alias("deliveries"), F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq"))
        .withColumn("holder", holder_of())
    )
    held = holds(events, copies).select("holder", "seq", "until", "ended_by", "is_first")
    is_begin = F.col("delta") == 1

    def ends(name: str) -> Column:
        return F.count(F.when(is_begin & (F.col("ended_by") == COPY_KINDS[name]), 1)).alias(name)

    counts = (
        held_counts(held, ["holder"])
        .groupBy("holder")
        .agg(
            F.count(F.when(is_begin & ~F.col("is_first"), 1)).alias("redeliveries"),
            *[ends(name) for name in ("acked", "nacked", "rejected")],
            F.max("unacked").alias("max_unacked"),
        )
    )
    counted = ("redeliveries", "acked", "nacked", "rejected", "max_unacked")
    joined = deliveries.join(counts, "holder", "left")
    return joined.select(
        *HOLDER_KEY,
        *("holder", "first_seq", "last_seq", "deliveries"),
        *[F.when(F.col("consumer").isNotNull(), F.coalesce(name, F.lit(0))).alias(name) for name in counted],
    ).select(CONSUMERS.fieldNames())


def null_safe_join(left: DataFrame, right: DataFrame, key: list[str], how: str = "left") -> DataFrame:
    """A join in which null equals null: a trace of the firehose has no tests."""
    right = right.select(*[F.col(name).alias(f"_{name}" if name in key else name) for name in right.columns])
    condition = reduce(Column.__and__, [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key])
    joined = left.join(right, condition, how)
    if how == "full":
        joined = joined.withColumns({name: F.coalesce(name, f"_{name}") for name in key})
    return joined.drop(*[f"_{name}" for name in key])


_OUTCOMES: Final = ("acked", "dead_lettered", "dropped", "expired", "purged")


def _code(of: str | Column, numbers: dict[str, int]) -> Column:
    value = F.col(of) if isinstance(of, str) else of
    code: Column | None = None
    for name, number in numbers.items():
        code = F.when(value == name, number) if code is None else code.when(value == name, number)
    assert code is not None
    return code


def _sequence(packed: str, size: int) -> Column:
    return F.shiftright(packed, size.bit_length() - 1)


def _unpacked(grouped: DataFrame) -> DataFrame:
    flag = F.col("first_delivery") % _FLAGS
    return grouped.select(
        "*",
        _sequence("first_delivery", _FLAGS).alias("deliver_seq"),
        F.when(flag < 2, flag == 1).alias("first_redelivered"),
        _sequence("settlement", _KINDS).alias("settle_seq"),
        (F.col("settlement") % _KINDS).cast("int").alias("settle_kind"),
    ).select(COPIES.fieldNames())
