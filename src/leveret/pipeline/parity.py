"""Whether leveret and RabbitMQ did the same: what was published where, and what each queue delivered in which order.

RabbitMQ's firehose tells no more than that: no instants, no acknowledgements, and a dead letter only by its delivery.
So both traces are projected onto it. Left out is what must differ: connections, tags, names that a server made up, the
times in x-death, and the x-last-death headers that only 4.x writes.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.pipeline.schema import PARITY_DIFF

# What servers make up: the name of a queue, of a consumer, of a direct reply.
_MADE_UP: Final = r"amq\.(gen|ctag|rabbitmq\.reply-to)[-.][A-Za-z0-9_+/=.\-]+"
_LAST_DEATH: Final = "x-last-death-"


def project(events: DataFrame) -> DataFrame:
    """What a firehose would tell: `side` "published" (queue null) or "delivered", the `queue`, the `position` in its
    sequence from 1, and everything that has to agree as one `value`, in JSON.
    """
    file = ["run", "worker"]
    kind = F.col("kind")
    published = events.where(kind == "published")
    letters = events.where((kind == "enqueued") & F.col("src_copy").isNotNull())
    routed = (
        events.where((kind == "enqueued") & F.col("src_copy").isNull())
        .groupBy(*file, "msg")
        .agg(F.array_sort(F.collect_list(_plain("queue"))).alias("routed"))
    )
    told_routed = published.join(routed, [*file, "msg"], "left").select(
        *file,
        F.lit("published").alias("side"),
        F.lit(None).cast("string").alias("queue"),
        "seq",
        _value(
            F.col("attrs"), body_hash=F.col("body_hash"), routed=F.coalesce("routed", F.array().cast("array<string>"))
        ),
    )
    originals = published.select(
        *file,
        "msg",
        *[F.col(name).alias(f"_{name}") for name in ("body_hash", "message_id", "correlation_id", "attrs")],
    )
    deaths = letters.select(*file, "copy", F.col("attrs").alias("_death"))
    delivered = events.where(kind.isin("delivered", "got")).join(originals, [*file, "msg"], "left")
    delivered = delivered.join(deaths, [*file, "copy"], "left")
    for name in ("body_hash", "message_id", "correlation_id"):
        delivered = delivered.withColumn(name, F.coalesce(name, f"_{name}"))
    told_delivered = delivered.select(
        *file,
        F.lit("delivered").alias("side"),
        _plain("queue").alias("queue"),
        "seq",
        _value(F.coalesce("attrs", "_death", "_attrs"), body_hash=F.col("body_hash"), redelivered=F.col("redelivered")),
    )
    order = Window.partitionBy("side", "queue").orderBy(*file, "seq")
    both = told_routed.unionByName(told_delivered)
    return both.select("side", "queue", F.row_number().over(order).cast("long").alias("position"), "value")


def compare(embedded: DataFrame, rabbit: DataFrame) -> DataFrame:
    """Where the events of leveret (left) and of RabbitMQ (right) for one workload disagree; no rows: nowhere.

    `difference` is "missing" where one of them has nothing more at that position, else "differs".
    """
    key = ["side", "queue", "position"]
    sides = [
        project(events).withColumnRenamed("value", name) for events, name in ((embedded, "left"), (rabbit, "right"))
    ]
    either = (
        sides[0]
        .withColumn("right", F.lit(None).cast("string"))
        .unionByName(sides[1].withColumn("left", F.lit(None).cast("string")))
    )
    joined = either.groupBy(*key).agg(F.max("left").alias("left"), F.max("right").alias("right"))
    is_missing = F.col("left").isNull() | F.col("right").isNull()
    differing = joined.where(~F.col("left").eqNullSafe(F.col("right")))
    told = differing.withColumn("difference", F.when(is_missing, "missing").otherwise("differs"))
    return told.select(PARITY_DIFF.fieldNames())


def _value(attrs: Column, **more: Column) -> Column:
    own = [_plain("exchange").alias("exchange"), _plain("routing_key").alias("routing_key")]
    named = [F.col(name) for name in ("message_id", "correlation_id")]
    fields = [*own, *named, *[column.alias(name) for name, column in more.items()]]
    return _without_made_up(F.to_json(F.struct(*fields, *_properties(attrs)))).alias("value")


def _properties(attrs: Column) -> list[Column]:
    """Properties, headers and deaths, each with its names in order."""
    text_map = "map<string,string>"
    properties = F.from_json(F.get_json_object(attrs, "$.properties"), text_map)
    headers = F.from_json(F.get_json_object(attrs, "$.properties.headers"), text_map)
    deaths = F.from_json(F.try_element_at(headers, F.lit("x-death")), f"array<{text_map}>")
    others = F.map_filter(headers, lambda name, _: (name != "x-death") & ~name.startswith(_LAST_DEATH))
    return [
        _sorted(F.map_filter(properties, lambda name, _: name != "headers")).alias("properties"),
        _sorted(others).alias("headers"),
        F.transform(deaths, lambda death: _sorted(F.map_filter(death, lambda name, _: name != "time"))).alias("deaths"),
    ]


def _sorted(values: Column) -> Column:
    # Nothing said and nothing in it are the same.
    entries = F.array_sort(F.map_entries(values))
    return F.when(F.size(entries) > 0, entries)


def _plain(name: str) -> Column:
    return _without_made_up(F.col(name))


def _without_made_up(text: Column) -> Column:
    return F.regexp_replace(text, _MADE_UP, "amq.$1")
