"""Parity: a comparison of what leveret and RabbitMQ did with one workload.

It compares what was published where, and what each queue delivered in which order. RabbitMQ's firehose reports no more
than that: no instants, no acknowledgements, and of a dead letter only its delivery. So both traces are projected onto
what a firehose reports. Values that must differ are left out: connections, tags, names that a server made up, the times
in x-death, and the x-last-death headers that only 4.x writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.trace.events import DELIVERIES

# Names that servers make up: of a queue, a consumer, or a direct reply.
_MADE_UP: Final = r"amq\.(gen|ctag|rabbitmq\.reply-to)[-.][A-Za-z0-9_+/=.\-]+"
# Headers that only 4.x writes, and those that a queue adds to each delivery, which leveret's trace does not hold.
IGNORED_HEADERS: Final = ("x-last-death-*", "x-acquired-count", "x-delivery-count", "x-stream-offset")
# The firehose's exchange, whose own messages the firehose does not report.
_FIREHOSE: Final = "amq.rabbitmq.trace"
_HISTORY: Final = "x-recent-history"

# The columns of a comparison, after those of `by`. `difference` names what differs. `left` or `right` is null if that
# side has no value.
COLUMNS: Final = ("side", "queue", "position", "difference", "left", "right")


def project(
    events: DataFrame, by: Sequence[str] = (), *, ignored_headers: Sequence[str] = IGNORED_HEADERS
) -> DataFrame:
    """Project events onto what a firehose reports.

    A row has the `side`, "published" (queue null) or "delivered"; the `queue`; the `position` in its sequence from 1,
    channel after channel; and everything that must agree as one `value`, in JSON. A publish also has its `queues`, and
    `are_all`: whether they are all queues it was routed to, or only those that took the message.

    `by` names columns of the events, such as `run` or `test`, that separate several workloads. In `ignored_headers`, a
    name that ends in `*` matches all names that begin like it.
    """
    projected = _projected(events, ["run", "worker"], by, _Value(ignored_headers))
    return projected.select(*by, "side", "queue", "position", "value", "queues", "are_all")


def _projected(events: DataFrame, file: Sequence[str], by: Sequence[str], value: _Value) -> DataFrame:
    kind = F.col("kind")
    events = events.where(F.col("exchange").isNull() | (F.col("exchange") != _FIREHOSE))
    published = events.where(kind == "published")
    publishes = published.join(_entered(events, file), [*file, "msg"], "left").select(
        *dict.fromkeys([*file, *by, "conn", "chan"]),
        F.lit("published").alias("side"),
        F.lit(None).cast("string").alias("queue"),
        "seq",
        value.of(F.col("attrs"), body_hash=F.col("body_hash")),
        *_queues(),
    )
    originals = published.select(
        *file,
        "msg",
        *[F.col(name).alias(f"_{name}") for name in ("body_hash", "message_id", "correlation_id", "attrs")],
    )
    # The `enqueued` event of a dead letter, or of a message in a stream, has attrs of its own.
    anew = events.where((kind == "enqueued") & F.col("attrs").isNotNull())
    anew = anew.select(*file, "copy", F.col("attrs").alias("_anew"))
    delivered = events.where(kind.isin(*DELIVERIES)).join(originals, [*file, "msg"], "left")
    delivered = delivered.join(anew, [*file, "copy"], "left")
    for name in ("body_hash", "message_id", "correlation_id"):
        delivered = delivered.withColumn(name, F.coalesce(name, f"_{name}"))
    deliveries = delivered.select(
        *dict.fromkeys([*file, *by, "conn", "chan"]),
        F.lit("delivered").alias("side"),
        _plain("queue").alias("queue"),
        "seq",
        value.of(
            F.coalesce("attrs", "_anew", "_attrs"), body_hash=F.col("body_hash"), redelivered=F.col("redelivered")
        ),
    )
    both = publishes.unionByName(deliveries, allowMissingColumns=True)
    return _in_sequence(both, file, by)


def compare(
    embedded: DataFrame,
    rabbit: DataFrame,
    by: Sequence[str] = (),
    *,
    ignored_headers: Sequence[str] = IGNORED_HEADERS,
) -> DataFrame:
    """Return the differences between the events of leveret (left) and of RabbitMQ (right) for one workload.

    With `by`, as in `project`, workloads of the same name are compared, and the rows begin with these columns.
    `difference` is "missing" if one side has nothing at that position, else "differs". If both agree, there are no
    rows.
    """
    # Spark plans one query faster than two similar ones.
    sides = {"left": embedded, "right": rabbit}
    either = reduce(DataFrame.unionByName, [events.withColumn("_of", F.lit(of)) for of, events in sides.items()])
    projected = _projected(either, ["_of", "run", "worker"], ["_of", *by], _Value(ignored_headers))
    answers = [
        F.max(F.when(F.col("_of") == of, F.col(name))).alias(f"{of}_{name}")
        for of in sides
        for name in ("value", "queues", "are_all")
    ]
    joined = projected.groupBy(*by, "side", "queue", "position").agg(*answers)
    is_missing = F.col("left_value").isNull() | F.col("right_value").isNull()
    is_same = F.col("left_value").eqNullSafe(F.col("right_value")) & _lead_to_the_same()
    differing = joined.where(~is_same).withColumns(
        {
            "difference": F.when(is_missing, "missing").otherwise("differs"),
            **{side: _shown(side) for side in ("left", "right")},
        }
    )
    return differing.select(*by, *COLUMNS)


def _in_sequence(rows: DataFrame, file: Sequence[str], by: Sequence[str]) -> DataFrame:
    """Add the `position`: the rows of each channel are in order, and the channels follow one another.

    RabbitMQ's channels report to the firehose independently of each other. Connections have other numbers on the other
    side, so channels with the same number are ordered by the hash of all that they did.
    """
    of_sequence = [*by, "side", "queue"]
    channel = Window.partitionBy(*dict.fromkeys([*of_sequence, *file, "conn", "chan"]))
    rows = rows.withColumn("_place", F.row_number().over(channel.orderBy("seq")))
    rows = rows.withColumn("_history", F.bit_xor(F.xxhash64("value", "_place")).over(channel))
    order = Window.partitionBy(*of_sequence).orderBy("chan", "_history", *file, "conn", "_place")
    return rows.withColumn("position", F.row_number().over(order).cast("long"))


def _entered(events: DataFrame, file: Sequence[str]) -> DataFrame:
    """Return the queues that took each message when it was published."""
    kind = F.col("kind")
    enqueued = events.where((kind == "enqueued") & F.col("src_copy").isNull())
    # A recent-history exchange passes on messages that it has kept when a queue is bound to it later.
    keeping = events.where((kind == "exchange_declare") & (F.get_json_object("attrs", "$.type") == _HISTORY))
    of_test = [*file, "test"]
    keeping = keeping.select(*[F.col(name).alias(f"_{name}") for name in of_test])
    is_of_test = reduce(Column.__and__, [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in of_test])
    certain = enqueued.join(F.broadcast(keeping), is_of_test, "left_anti")
    return certain.groupBy(*file, "msg").agg(F.array_sort(F.collect_set(_plain("queue"))).alias("entered"))


def _queues() -> list[Column]:
    """Return the queues of a publish, and whether they are all it was routed to or only those that took it.

    They are null for the default exchange, because a firehose reports its routing keys as queues even if no such queue
    exists.
    """
    routed = F.from_json(F.get_json_object("attrs", "$.routed_queues"), "array<string>")
    routed = F.array_sort(F.array_distinct(F.transform(routed, _without_made_up)))
    queues = F.coalesce(routed, "entered", F.array().cast("array<string>"))
    return [F.when(F.col("exchange") != "", queues).alias("queues"), routed.isNotNull().alias("are_all")]


def _lead_to_the_same() -> Column:
    """Return whether two publishes led to the same queues.

    If one trace names only the queues that took the message, the other may name more: those that refused it, or whose
    transaction was rolled back.
    """
    left, right = F.col("left_queues"), F.col("right_queues")
    of_left, of_right = F.col("left_are_all"), F.col("right_are_all")
    agree = (
        F.when(of_left & ~of_right, F.size(F.array_except(right, left)) == 0)
        .when(of_right & ~of_left, F.size(F.array_except(left, right)) == 0)
        .otherwise(left.eqNullSafe(right))
    )
    return F.coalesce(agree, F.lit(True))


def _shown(side: str) -> Column:
    queues = F.to_json(f"{side}_queues")
    value = F.col(f"{side}_value")
    return F.when(queues.isNull(), value).otherwise(F.concat_ws(" to ", value, queues))


class _Value:
    """The values of a row that must agree, as one text."""

    def __init__(self, ignored_headers: Sequence[str]) -> None:
        self._ignored = tuple(ignored_headers)

    def of(self, attrs: Column, **more: Column) -> Column:
        own = [_plain("exchange").alias("exchange"), _plain("routing_key").alias("routing_key")]
        named = [F.col(name) for name in ("message_id", "correlation_id")]
        fields = [*own, *named, *[column.alias(name) for name, column in more.items()]]
        return _without_made_up(F.to_json(F.struct(*fields, *self._properties(attrs)))).alias("value")

    def _properties(self, attrs: Column) -> list[Column]:
        """Return properties, headers and deaths, each with its names sorted."""
        text_map = "map<string,string>"
        properties = F.from_json(F.get_json_object(attrs, "$.properties"), text_map)
        headers = F.from_json(F.get_json_object(attrs, "$.properties.headers"), text_map)
        deaths = F.from_json(F.try_element_at(headers, F.lit("x-death")), f"array<{text_map}>")
        others = F.map_filter(headers, lambda name, _: (name != "x-death") & ~self._is_ignored(name))
        return [
            _sorted(F.map_filter(properties, lambda name, _: name != "headers")).alias("properties"),
            _sorted(others).alias("headers"),
            F.transform(deaths, lambda death: _sorted(F.map_filter(death, lambda name, _: name != "time"))).alias(
                "deaths"
            ),
        ]

    def _is_ignored(self, name: Column) -> Column:
        found = F.lit(False)
        for ignored in self._ignored:
            found = found | (name.startswith(ignored[:-1]) if ignored.endswith("*") else name == ignored)
        return found


def _sorted(values: Column) -> Column:
    # A missing map and an empty one are the same.
    entries = F.array_sort(F.map_entries(values))
    return F.when(F.size(entries) > 0, entries)


def _plain(name: str) -> Column:
    return _without_made_up(F.col(name))


def _without_made_up(text: Column) -> Column:
    return F.regexp_replace(text, _MADE_UP, "amq.$1")
