"""Holds: which consumer held which copy, from when until when, and the counts of each consumer."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.pipeline.kernel.codes import COPY_KINDS, KINDS
from leveret.pipeline.lifecycle import (
    HOLDER_KEY,
    code_of,
    holder_of,
    null_safe_join,
    place_of,
    sequence_of,
)
from leveret.pipeline.schema import CONSUMERS
from leveret.trace.events import DELIVERIES


def holds(events: DataFrame, copies: DataFrame) -> DataFrame:
    """Return one row for each delivery to a consumer.

    A row has the holder, the start (`seq`) and the end (`until`; null if there is none) of the hold, the event that
    ended it (`ended_by`, a number of COPY_KINDS), and whether it was the copy's first delivery.

    A hold ends with the next event that settles the copy. For most copies with one or two deliveries, the row of
    `copies` is enough. For the other copies, the events of their queues are read.
    """
    first = _hold("holder", "deliver_seq", F.col("settle_seq"), F.col("settle_kind"), is_first=True)
    last_seq, last_kind = _last_settlement()
    second = _hold("last_holder", "last_deliver_seq", last_seq, last_kind, is_first=False)
    both = F.when(F.col("deliveries") == 2, F.array(first, second)).otherwise(F.array(first))
    is_enough = says_its_holds()
    delivered = copies.where(F.col("deliveries") > 0)
    simple = delivered.where(is_enough).select("run", "worker", "msg", "copy", F.explode(both).alias("hold"))
    simple = simple.where(F.col("hold").isNotNull())
    others = delivered.where(~is_enough).select(place_of().alias("place"), "msg", "copy")
    return simple.select("run", "worker", "msg", "copy", "hold.*").unionByName(looked_up(events, others))


def _hold(holder: str, seq: str, until: Column, ended_by: Column, *, is_first: bool) -> Column:
    hold = F.struct(
        F.col(holder).alias("holder"),
        F.col(seq).alias("seq"),
        until.alias("until"),
        ended_by.alias("ended_by"),
        F.lit(is_first).alias("is_first"),
    )
    return F.when(F.col(holder).isNotNull(), hold)


def _last_settlement() -> tuple[Column, Column]:
    """Return the sequence number and the kind of the settlement that ended the second of two deliveries.

    It is the first settlement if that came after the delivery, else the last settlement if that did, else null.
    """
    delivered = F.col("last_deliver_seq")

    def of(name: str) -> Column:
        is_first = F.col("settle_seq") > delivered
        return F.when(is_first, F.col(f"settle_{name}")).when(
            F.col("last_settle_seq") > delivered, F.col(f"last_settle_{name}")
        )

    return of("seq"), of("kind")


def says_its_holds() -> Column:
    """Return whether a row of `copies` is enough to know the copy's holds.

    It is if there are at most two deliveries, no settlement before the first, and none between the second delivery and
    the last settlement.
    """
    second, requeued = F.col("last_deliver_seq"), COPY_KINDS["requeued"]
    ends = sum((F.col(name) for name in ("acks", "nacks", "rejects", "expiries", "drops")), F.lit(0))
    ends = ends + F.col("dead_letters") + F.col("purges")
    is_in_order = F.coalesce(F.col("settle_seq") > F.col("deliver_seq"), F.lit(True))
    none_or_all_after = F.coalesce((F.col("last_settle_seq") < second) | (F.col("settle_seq") > second), F.lit(True))
    # One settlement is before the second delivery and one is after it. There must not be a third one after it.
    is_requeued_before = F.coalesce(F.col("ready_seq") < second, F.lit(True))
    one_after = (ends == 1) | ((ends == 2) & (F.col("settle_kind") != requeued))
    is_second_known = none_or_all_after | (ends + F.col("requeues") == 2) | (is_requeued_before & one_after)
    return is_in_order & ((F.col("deliveries") == 1) | ((F.col("deliveries") == 2) & is_second_known))


def looked_up(events: DataFrame, copies: DataFrame) -> DataFrame:
    """Return the holds of these copies (place, msg, copy), from all events in their queues."""
    places = F.broadcast(copies.select("place").distinct())
    kind = code_of("kind", COPY_KINDS)
    of_places = (
        events.where(
            F.col("copy").isNotNull() & F.col("kind").isin(*[name for name in COPY_KINDS if name != "enqueued"])
        )
        .withColumn("place", place_of())
        .join(places, "place", "left_semi")
        .select("run", "worker", "place", "msg", "copy", "seq", kind.alias("k"), holder_of().alias("holder"))
    )
    key = ["place", "msg", "copy"]
    life = Window.partitionBy(*key).orderBy("seq")
    later = life.rowsBetween(1, Window.unboundedFollowing)
    earlier = life.rowsBetween(Window.unboundedPreceding, -1)
    settlement = F.when(F.col("k") >= 4, F.col("seq") * KINDS + F.col("k"))
    seen = (
        null_safe_join(of_places, copies.withColumn("is_asked", F.lit(True)), key, "inner")
        .withColumn("next", F.min(settlement).over(later))
        .withColumn("was_delivered", F.coalesce(F.max(F.col("k") <= 3).over(earlier), F.lit(False)))
        .where(F.col("k") == 2)
    )
    return seen.select(
        *("run", "worker", "msg", "copy", "holder", "seq"),
        sequence_of("next", KINDS).alias("until"),
        (F.col("next") % KINDS).cast("int").alias("ended_by"),
        (~F.col("was_delivered")).alias("is_first"),
    )


def held_counts(holds: DataFrame, key: list[str]) -> DataFrame:
    """Return the points in time at which holds begin and end, each with the number of copies then held (`unacked`).

    `delta` is 1 where a hold begins and -1 where it ends; `unacked` includes the hold itself.
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
    """Return a row for each consumer of a queue in a test, and one (consumer null) for each channel that used get."""
    deliveries = (
        events.where(F.col("copy").isNotNull() & F.col("kind").isin(*DELIVERIES))
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
