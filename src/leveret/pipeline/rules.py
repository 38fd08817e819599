"""Violations: what a broker or its clients should not have done, as a table of rules that users can add to.

A rule is a condition in SQL over the rows it is `about` (`SUBJECTS`), and the text for whoever reads of it, in which
{column} stands for that row's value. Subjects that need an order or a join of everything look first, by figures that
other tables hold already, for the queues, channels and consumers where anything is wrong, and at those alone closely.
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
    """One rule: what is wrong (`condition`, SQL) with a row of what it is `about`, and the `text` that says so.

    `of_end`: it speaks of what had not happened by the end, so not of a test whose end a cut file lacks.
    """

    name: str
    condition: str
    text: str
    about: str = "copies"
    of_end: bool = False


@dataclass(frozen=True, slots=True)
class Tables:
    """What subjects are made from; see docs/pipeline-tables.md for the columns."""

    events: DataFrame
    control: DataFrame
    copies: DataFrame
    messages: DataFrame
    consumers: DataFrame
    test_queues: DataFrame


def register(rule: Rule) -> None:
    """Make this rule one of those that `violations` looks for. Raises ValueError for a name that is taken or a subject
    there is not.
    """
    if rule.name in RULES:
        raise ValueError(f"there is a rule {rule.name!r} already; remove it from leveret.pipeline.rules.RULES first")
    if rule.about not in SUBJECTS:
        raise ValueError(f"rule {rule.name!r} is about {rule.about!r}, which is none of {', '.join(SUBJECTS)}")
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
    """One row for each copy (or message) and rule that it breaks."""
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
    """Raises ValueError when Spark cannot make anything of the rule."""
    try:
        _rows_that_break(rows, [rule])
    except AnalysisException as error:
        reason = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
        raise ValueError(f"rule {rule.name!r} cannot be asked of {rule.about}: {reason}") from error


def _rows_that_break(rows: DataFrame, rules: list[Rule]) -> DataFrame:
    is_broken = [F.expr(rule.condition) for rule in rules]
    told = [
        F.when(condition, F.struct(F.lit(rule.name).alias("rule"), F.lit(rule.of_end).alias("of_end"), _text(rule)))
        for rule, condition in zip(rules, is_broken, strict=True)
    ]
    some = rows.where(reduce(Column.__or__, [F.coalesce(condition, F.lit(False)) for condition in is_broken]))
    each = some.select(*_KEY, F.explode(F.array_compact(F.array(*told))).alias("broken"))
    return each.select(*_KEY, "broken.*")


def _text(rule: Rule) -> Column:
    parts: list[Column] = []
    for index, piece in enumerate(_PLACEHOLDER.split(rule.text)):
        parts.append(F.coalesce(F.col(piece).cast("string"), F.lit("none")) if index % 2 else F.lit(piece))
    return F.concat(*parts).alias("text")


def _without_cut(rows: DataFrame, runs: DataFrame, control: DataFrame) -> DataFrame:
    """These without what rules about the end say of tests that never ended because their file was cut."""
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
    """Copies of a message that its queue got more than once from the same origin."""
    same = ["place", "msg", "src_copy"]
    suspects = tables.test_queues.where(F.col("unordered") > 0).select(place_of().alias("place"))
    there = tables.copies.where(F.col("enq_seq").isNotNull()).withColumn("place", place_of())
    placed = there.join(F.broadcast(suspects), "place", "left_semi")
    groups = placed.groupBy(*same).agg(F.sum("enqueues").alias("times"), F.min("enq_seq").alias("first_seq"))
    return null_safe_join(placed, F.broadcast(groups.where(F.col("times") > 1)), same, "inner")


def _of_order(tables: Tables) -> DataFrame:
    """Copies in queues where any was overtaken, and when younger ones were delivered."""
    suspects = tables.test_queues.where((F.col("late") > 0) | (F.col("passed") > 0))
    suspects = suspects.select(place_of().alias("place"))
    there = tables.copies.withColumn("place", place_of()).join(F.broadcast(suspects), "place", "left_semi")
    has_priorities = F.get_json_object("attrs", "$.arguments['x-max-priority']").isNotNull()
    by_priority = (
        tables.control.where((F.col("kind") == "queue_declare") & has_priorities)
        .select(place_of().alias("place"), F.lit(True).alias("by_priority"))
        .distinct()
    )
    # A test that is tried again has a fresh broker, and in it another queue of the same name.
    starts = (
        tables.control.where((F.col("kind") == "test_start") & F.col("test").isNotNull())
        .groupBy("run", "worker", "test")
        .agg(F.collect_list("seq").alias("starts"))
        .where(F.size("starts") > 1)
    )
    tried = null_safe_join(there, F.broadcast(starts), ["run", "worker", "test"])
    began = F.filter("starts", lambda start: start <= F.col("enq_seq"))
    there = tried.withColumn("attempt", F.coalesce(F.size(began), F.lit(0))).drop("starts")
    rows = in_queue_order(there, *COPY_KEY, "attempt").where(is_late() | is_passed()).join(by_priority, "place", "left")
    return rows.withColumn("by_priority", F.coalesce("by_priority", F.lit(False)))


def _of_closed_channels(tables: Tables) -> DataFrame:
    """Deliveries while their channel was closed; what no event says of a channel is not known."""
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
    """Deliveries to consumers that once held more than a prefetch of theirs."""
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
    there = [table.join(files, ["run", "worker"], "left_semi") for table in (tables.events, tables.copies)]
    held = holds.holds(*there).join(F.broadcast(suspects.select("holder").distinct()), "holder", "left_semi")
    in_force = (
        held.join(F.broadcast(consumes.drop("run", "worker")), "holder")
        .where(F.col("consume_seq") < F.col("seq"))
        .groupBy(*held.columns)
        .agg(F.max_by("prefetch", "consume_seq").alias("prefetch"), F.max("consume_seq").alias("consume_seq"))
    )
    counted = holds.held_counts(in_force, ["holder", "consume_seq"]).where(
        (F.col("delta") == 1) & (F.col("unacked") > F.col("prefetch"))
    )
    names = there[1].select(*_KEY)
    return counted.select("run", "worker", "copy", "unacked", "prefetch").join(names, ["run", "worker", "copy"])


def in_queue_order(copies: DataFrame, *more: str) -> DataFrame:
    """Each copy's coming (`delta` 1) and going (-1) in its queue, and what followed there: the sum of later deltas, and
    the first and the last of the first deliveries of younger copies, and the earliest of their messages.

    All from one walk backwards through each queue of a test; `place` names the queue.
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
    told = points.select("place", *more, "is_open", "ready_seq", "last_seq", "enqueues", "point.*").where(
        F.col("at").isNotNull()
    )
    return told.select(
        "*",
        F.sum("delta").over(after).alias("delta_after"),
        F.min("deliver_seq").over(after).alias("younger_first"),
        F.max("deliver_seq").over(after).alias("younger_last"),
        F.min("message").over(after).alias("younger_message"),
    )


def is_late() -> Column:
    """Of a row of `in_queue_order`: a younger copy had its first delivery before this one's."""
    return (F.col("delta") == 1) & (F.col("deliver_seq") > F.col("younger_first"))


def is_unordered() -> Column:
    """Of a row of `in_queue_order`: a younger copy is of the same message or an earlier one, or this may be enqueued
    twice. Where nothing is unordered, nothing is repeated.
    """
    is_message_late = F.col("message").isNull() | (F.col("message") >= F.col("younger_message"))
    return (F.col("delta") == 1) & (is_message_late | (F.col("enqueues") > 1))


def is_passed() -> Column:
    """Of a row of `in_queue_order`: ready to the last, though a younger copy was first delivered meanwhile."""
    is_ready = F.col("is_open") & (F.col("last_seq") == F.col("ready_seq"))
    return (F.col("delta") == 1) & is_ready & (F.col("younger_last") > F.col("ready_seq"))


# What a rule can be about: rows with day, run, worker, test, vhost, queue, msg, copy and columns of their own.
SUBJECTS: Final[dict[str, Callable[[Tables], DataFrame]]] = {
    # All columns of `copies`, and `outcome`.
    "copies": _of_copies,
    # All columns of `messages`; queue and copy are null.
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
            # The first delivery of a dead letter says true on RabbitMQ 4.3 and false on 3.10.
            "(first_redelivered AND src_copy IS NULL) OR unflagged > IF(first_redelivered = false, 1, 0)",
            "its deliveries and their redelivered flags do not agree",
        ),
        Rule(
            "lost",
            "is_open AND last_seq = ready_seq AND younger_last > ready_seq",
            "ready since {ready_seq} and never taken, though a younger one was at {younger_last}",
            about="order",
            of_end=True,
        ),
        Rule(
            "out_of_order",
            "deliver_seq > younger_first AND NOT by_priority",
            "first delivered at {deliver_seq}, after a younger one at {younger_first}",
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
            "delivered to channel {chan} of connection {conn} while that was closed",
            about="closed channels",
        ),
        Rule(
            "prefetch_exceeded",
            "unacked > prefetch",
            "given to a consumer that had its prefetch of {prefetch} already",
            about="prefetch",
        ),
        Rule(
            "confirm_missing",
            "publish_number IS NOT NULL AND confirmed IS NULL",
            "publish {publish_number} of its channel was neither confirmed nor refused",
            about="messages",
            of_end=True,
        ),
    )
}
