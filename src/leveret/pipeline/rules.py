"""Violations: what a broker or its clients must not do, as a table of rules to which you can add your own.

A rule has a condition in SQL over the rows that it is `about` (one of `SUBJECTS`), and a text for the reader, in which
{column} stands for that row's value. Some subjects need an order, or a join of everything. They first use counts in
other tables to find the queues, channels and consumers where something is wrong, and then examine only those.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.pipeline import holds, lifecycle
from leveret.pipeline.lifecycle import COPY_KEY, holder_of, null_safe_join, place_of
from leveret.pipeline.schema import VIOLATIONS
from leveret.trace.events import DELIVERIES

_KEY: Final = [name for name in VIOLATIONS.fieldNames() if name not in ("rule", "text")]
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the `condition` (SQL) under which a row of its subject is wrong, and the `text` that says so.

    `of_end` marks a rule about what had not happened by the end of a test. Such a rule does not apply to a test whose
    end is missing because its file was cut.
    """

    name: str
    condition: str
    text: str
    about: str = "copies"
    of_end: bool = False


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that subjects are made from; see docs/pipeline-tables.md for their columns."""

    events: DataFrame
    control: DataFrame
    copies: DataFrame
    messages: DataFrame
    consumers: DataFrame
    test_queues: DataFrame


def register(rule: Rule) -> None:
    """Add a rule to those that `violations` checks.

    Raises ValueError if the name is taken or the subject does not exist.
    """
    if rule.name in RULES:
        raise ValueError(
            f"rule {rule.name!r} exists already; choose another name, or remove it from leveret.pipeline.rules.RULES"
        )
    if rule.about not in SUBJECTS:
        raise ValueError(
            f"rule {rule.name!r} is about {rule.about!r}, which does not exist; use one of {', '.join(SUBJECTS)}"
        )
    RULES[rule.name] = rule


def violations(
    events: DataFrame,
    runs: DataFrame,
    control: DataFrame,
    copies: DataFrame,
    messages: DataFrame,
    consumers: DataFrame,
    test_queues: DataFrame,
) -> DataFrame:
    """Return one row for each copy (or message) and each rule that it breaks."""
    tables = Tables(events, control, copies, messages, consumers, test_queues)
    found = [
        _broken(subject(tables), [rule for rule in RULES.values() if rule.about == name])
        for name, subject in SUBJECTS.items()
        if any(rule.about == name for rule in RULES.values())
    ]
    rows = _without_cut(reduce(DataFrame.unionByName, found), runs, control)
    return rows.groupBy(*_KEY, "rule").agg(F.min("text").alias("text")).select(VIOLATIONS.fieldNames())


def _broken(rows: DataFrame, rules: list[Rule]) -> DataFrame:
    try:
        return _rows_that_break(rows, rules)
    except AnalysisException:
        for rule in rules:
            _check(rule, rows)
        raise


def _check(rule: Rule, rows: DataFrame) -> None:
    """Raise ValueError if Spark cannot evaluate the rule."""
    try:
        _rows_that_break(rows, [rule])
    except AnalysisException as error:
        reason = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
        raise ValueError(
            f"rule {rule.name!r} cannot be evaluated on {rule.about}: {reason}; correct its condition or text"
        ) from error


def _rows_that_break(rows: DataFrame, rules: list[Rule]) -> DataFrame:
    is_broken = [F.expr(rule.condition) for rule in rules]
    matches = [
        F.when(condition, F.struct(F.lit(rule.name).alias("rule"), F.lit(rule.of_end).alias("of_end"), _text(rule)))
        for rule, condition in zip(rules, is_broken, strict=True)
    ]
    broken = rows.where(reduce(Column.__or__, [F.coalesce(condition, F.lit(False)) for condition in is_broken]))
    each = broken.select(*_KEY, F.explode(F.array_compact(F.array(*matches))).alias("match"))
    return each.select(*_KEY, "match.*")


def _text(rule: Rule) -> Column:
    parts: list[Column] = []
    for index, piece in enumerate(_PLACEHOLDER.split(rule.text)):
        parts.append(F.coalesce(F.col(piece).cast("string"), F.lit("none")) if index % 2 else F.lit(piece))
    return F.concat(*parts).alias("text")


def _without_cut(rows: DataFrame, runs: DataFrame, control: DataFrame) -> DataFrame:
    """Return the rows without those of rules about the end for tests that have no end because their file was cut."""
    key = ["run", "worker", "test"]
    cut = runs.where(F.col("truncated")).select("run", "worker").distinct().withColumn("is_cut", F.lit(True))
    attempts = control.where(F.col("kind").isin("test_start", "test_end")).groupBy(*key)
    ended = attempts.agg(F.max_by(F.col("kind") == "test_end", "seq").alias("has_ended"))
    of_cut = null_safe_join(rows, cut, ["run", "worker"])
    of_ended = null_safe_join(of_cut, ended, key)
    is_silent = F.col("of_end") & F.col("is_cut") & ~F.coalesce("has_ended", F.lit(False))
    return of_ended.where(~F.coalesce(is_silent, F.lit(False))).select(*_KEY, "rule", "text")


def _of_copies(tables: Tables) -> DataFrame:
    return lifecycle.outcome(tables.copies)


def _of_messages(tables: Tables) -> DataFrame:
    return tables.messages.select(
        "*", F.lit(None).cast("string").alias("queue"), F.lit(None).cast("long").alias("copy")
    )


def _of_repeated(tables: Tables) -> DataFrame:
    """Return the copies of messages that their queue got more than once from the same origin."""
    same = ["place", "msg", "src_copy"]
    suspects = tables.test_queues.where(F.col("unordered") > 0).select(place_of().alias("place"))
    enqueued = tables.copies.where(F.col("enq_seq").isNotNull()).withColumn("place", place_of())
    placed = enqueued.join(F.broadcast(suspects), "place", "left_semi")
    groups = placed.groupBy(*same).agg(F.sum("enqueues").alias("times"), F.min("enq_seq").alias("first_seq"))
    return null_safe_join(placed, F.broadcast(groups.where(F.col("times") > 1)), same, "inner")


def _of_order(tables: Tables) -> DataFrame:
    """Return the copies in queues where a copy was overtaken, with the times at which younger ones were delivered."""
    suspects = tables.test_queues.where((F.col("late") > 0) | (F.col("passed") > 0))
    suspects = suspects.select(place_of().alias("place"))
    placed = tables.copies.withColumn("place", place_of()).join(F.broadcast(suspects), "place", "left_semi")
    declares = tables.control.where(F.col("kind") == "queue_declare")
    has_maximum = F.get_json_object("attrs", "$.arguments['x-max-priority']").isNotNull()
    is_classic = F.get_json_object("attrs", "$.arguments['x-queue-type']") == "classic"
    is_prioritized = F.get_json_object("attrs", "$.properties.priority").isNotNull()
    message = ["run", "worker", "msg"]
    prioritized = tables.events.where((F.col("kind") == "published") & is_prioritized).select(*message)
    # Quorum queues go by priority from RabbitMQ 4.0 on, if a message has one; so may a queue that was not declared.
    by_message = placed.select("place", *message).join(prioritized, message, "left_semi").select("place")
    by_message = by_message.join(declares.where(is_classic).select(place_of().alias("place")), "place", "left_anti")
    by_priority = declares.where(has_maximum).select(place_of().alias("place")).unionByName(by_message).distinct()
    by_priority = by_priority.withColumn("by_priority", F.lit(True))
    # A retried test has a fresh broker, and in it another queue of the same name.
    starts = (
        tables.control.where((F.col("kind") == "test_start") & F.col("test").isNotNull())
        .groupBy("run", "worker", "test")
        .agg(F.collect_list("seq").alias("starts"))
        .where(F.size("starts") > 1)
    )
    joined = null_safe_join(placed, F.broadcast(starts), ["run", "worker", "test"])
    began = F.filter("starts", lambda start: start <= F.col("enq_seq"))
    placed = joined.withColumn("attempt", F.coalesce(F.size(began), F.lit(0))).drop("starts")
    rows = (
        in_queue_order(placed, *COPY_KEY, "attempt").where(is_late() | is_passed()).join(by_priority, "place", "left")
    )
    return rows.withColumn("by_priority", F.coalesce("by_priority", F.lit(False)))


def _of_closed_channels(tables: Tables) -> DataFrame:
    """Return the deliveries on channels that were closed before, with whether they were closed at that time.

    A channel without open and close events counts as open.
    """
    channel = ["run", "worker", "conn", "chan"]
    kind, seq = F.col("kind"), F.col("seq")
    following = Window.partitionBy(*channel).orderBy("seq")
    closed = (
        tables.control.where(kind.isin("chan_open", "chan_close"))
        .select(*channel, "kind", seq.alias("closed_seq"), F.lead("seq").over(following).alias("reopened_seq"))
        .where(kind == "chan_close")
        .drop("kind")
    )
    lost = (
        tables.control.where(kind == "conn_close").groupBy("run", "worker", "conn").agg(F.min("seq").alias("lost_seq"))
    )
    used = tables.consumers.where(F.col("conn").isNotNull()).select(*channel, "last_seq").groupBy(*channel)
    suspects = (
        used.agg(F.max("last_seq").alias("last_seq"))
        .join(closed.groupBy(*channel).agg(F.min("closed_seq").alias("closed_seq")), channel, "left")
        .join(lost, ["run", "worker", "conn"], "left")
        .where(F.col("last_seq") > F.least("closed_seq", "lost_seq"))
        .select(*channel, "lost_seq")
    )
    deliveries = (
        tables.events.where(F.col("copy").isNotNull() & kind.isin(*DELIVERIES))
        .select(*_KEY, "seq", "conn", "chan")
        .join(F.broadcast(suspects), channel)
    )
    then = (seq > F.col("closed_seq")) & (seq < F.coalesce("reopened_seq", seq + 1))
    joined = deliveries.join(F.broadcast(closed), channel, "left")
    return joined.withColumn(
        "was_closed", F.coalesce(then, F.lit(False)) | F.coalesce(seq > F.col("lost_seq"), F.lit(False))
    )


def _of_prefetch(tables: Tables) -> DataFrame:
    """Return the deliveries to consumers that at some time held more than their prefetch."""
    attribute = F.get_json_object("attrs", "$.prefetch_count").cast("int")
    is_automatic = F.coalesce(F.get_json_object("attrs", "$.no_ack") == "true", F.lit(False))
    consumes = tables.control.where(F.col("kind") == "consume").select(
        *("run", "worker"),
        holder_of().alias("holder"),
        F.col("seq").alias("consume_seq"),
        F.when(~is_automatic & (attribute > 0), attribute).alias("prefetch"),
    )
    least = consumes.groupBy("run", "worker", "holder").agg(F.min("prefetch").alias("prefetch"))
    suspects = (
        tables.consumers.select("holder", "max_unacked")
        .join(least, "holder")
        .where(F.col("max_unacked") > F.col("prefetch"))
        .select("run", "worker", "holder")
    )
    files = F.broadcast(suspects.select("run", "worker").distinct())
    events, copies = (table.join(files, ["run", "worker"], "left_semi") for table in (tables.events, tables.copies))
    held = holds.holds(events, copies).join(F.broadcast(suspects.select("holder").distinct()), "holder", "left_semi")
    in_force = (
        held.join(F.broadcast(consumes.drop("run", "worker")), "holder")
        .where(F.col("consume_seq") < F.col("seq"))
        .groupBy(*held.columns)
        .agg(F.max_by("prefetch", "consume_seq").alias("prefetch"), F.max("consume_seq").alias("consume_seq"))
    )
    counted = holds.held_counts(in_force, ["holder", "consume_seq"]).where(
        (F.col("delta") == 1) & (F.col("unacked") > F.col("prefetch"))
    )
    names = copies.select(*_KEY)
    return counted.select("run", "worker", "copy", "unacked", "prefetch").join(names, ["run", "worker", "copy"])


def in_queue_order(copies: DataFrame, *more: str) -> DataFrame:
    """Return a row where each copy enters its queue (`delta` 1) and where it leaves (-1), with what followed there.

    What followed is the sum of later deltas, the earliest and the latest first delivery of a younger copy, and the
    lowest message number among younger copies. All come from one walk backwards through each queue of a test; `place`
    identifies the queue.
    """
    goes = F.when(F.col("end_seq") > F.col("enq_seq"), F.col("end_seq"))
    nothing = F.lit(None).cast("long")
    points = copies.where(F.col("enq_seq").isNotNull()).select(
        place_of().alias("place"),
        *more,
        F.col("end_seq").isNull().alias("is_open"),
        *("ready_seq", "last_seq", "enqueues"),
        F.explode(
            F.array(
                F.struct(
                    F.col("enq_seq").alias("at"), F.lit(1).alias("delta"), "deliver_seq", F.col("msg").alias("message")
                ),
                F.struct(
                    goes.alias("at"), F.lit(-1).alias("delta"), nothing.alias("deliver_seq"), nothing.alias("message")
                ),
            )
        ).alias("point"),
    )
    queue = ["place", *[name for name in more if name == "attempt"]]
    after = Window.partitionBy(*queue).orderBy(F.col("at").desc()).rowsBetween(Window.unboundedPreceding, -1)
    placed = points.select("place", *more, "is_open", "ready_seq", "last_seq", "enqueues", "point.*").where(
        F.col("at").isNotNull()
    )
    return placed.select(
        "*",
        F.sum("delta").over(after).alias("delta_after"),
        F.min("deliver_seq").over(after).alias("younger_first"),
        F.max("deliver_seq").over(after).alias("younger_last"),
        F.min("message").over(after).alias("younger_message"),
    )


def is_late() -> Column:
    """Return whether, in a row of `in_queue_order`, a younger copy was first delivered before this one."""
    return (F.col("delta") == 1) & (F.col("deliver_seq") > F.col("younger_first"))


def is_unordered() -> Column:
    """Return whether, in a row of `in_queue_order`, a younger copy is of the same or an earlier message.

    It is also true if the copy may be enqueued twice. A queue without an unordered copy has no repeated one.
    """
    is_message_late = F.col("message").isNull() | (F.col("message") >= F.col("younger_message"))
    return (F.col("delta") == 1) & (is_message_late | (F.col("enqueues") > 1))


def is_passed() -> Column:
    """Return whether, in a row of `in_queue_order`, a copy stayed ready while a younger one was first delivered."""
    is_ready = F.col("is_open") & (F.col("last_seq") == F.col("ready_seq"))
    return (F.col("delta") == 1) & is_ready & (F.col("younger_last") > F.col("ready_seq"))


# The subjects of rules. Their rows have day, run, worker, test, vhost, queue, msg, copy and further columns.
SUBJECTS: Final[dict[str, Callable[[Tables], DataFrame]]] = {
    # It has all columns of `copies`, and `outcome`.
    "copies": _of_copies,
    # It has all columns of `messages`; queue and copy are null.
    "messages": _of_messages,
    "repeated": _of_repeated,
    "order": _of_order,
    "closed channels": _of_closed_channels,
    "prefetch": _of_prefetch,
}

RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        Rule("acked_twice", "acks > 1", "acknowledged {acks} times"),
        Rule(
            "delivered_after_ack",
            "deliver_seq < ack_seq AND last_deliver_seq > ack_seq",
            "acknowledged at {ack_seq}, delivered again at {last_deliver_seq}",
        ),
        Rule(
            "ack_without_delivery",
            "acks > 0 AND (deliver_seq IS NULL OR deliver_seq > ack_seq)",
            "acknowledged at {ack_seq}, before any delivery",
        ),
        Rule(
            "unacked_at_end",
            "end_seq IS NULL AND last_seq = last_deliver_seq",
            "delivered at {last_deliver_seq} and never settled",
            of_end=True,
        ),
        Rule(
            "redelivered_flag_wrong",
            # The first delivery of a dead letter has the flag on RabbitMQ 4.3, and not on 3.10.
            "(first_redelivered AND src_copy IS NULL) OR unflagged > IF(first_redelivered = false, 1, 0)",
            "its deliveries and their redelivered flags do not agree",
        ),
        Rule(
            "lost",
            # In a queue with priorities, a younger message of higher priority goes first.
            "is_open AND last_seq = ready_seq AND younger_last > ready_seq AND NOT by_priority",
            "ready since {ready_seq} and never delivered, although a younger message was delivered at {younger_last}",
            about="order",
            of_end=True,
        ),
        Rule(
            "out_of_order",
            "deliver_seq > younger_first AND NOT by_priority",
            "first delivered at {deliver_seq}, after a younger message at {younger_first}",
            about="order",
        ),
        Rule(
            "duplicate_enqueue",
            "enq_seq > first_seq OR enqueues > 1",
            "the queue had this message already, from the same origin",
            about="repeated",
        ),
        Rule(
            "delivered_to_closed_channel",
            "was_closed",
            "delivered to channel {chan} of connection {conn} while the channel was closed",
            about="closed channels",
        ),
        Rule(
            "prefetch_exceeded",
            "unacked > prefetch",
            "delivered to a consumer that already held as many as its prefetch of {prefetch}",
            about="prefetch",
        ),
        Rule(
            "confirm_missing",
            "publish_number IS NOT NULL AND confirmed IS NULL",
            "publish {publish_number} of its channel was neither confirmed nor nacked",
            about="messages",
            of_end=True,
        ),
    )
}
