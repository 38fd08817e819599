"""What of a topology the tests used: exchanges, queues, bindings, dead-letter exchanges, queues' consumers.

A binding was used by a copy that came through its exchange into its queue under a key that it matches. The exchange of
a copy is the one its message was published to, or went to as a dead letter, and every exchange bound to it on the way.
Headers are not in a trace, so a binding of a headers exchange counts every copy that could have come by it.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.pipeline.lifecycle import null_safe_join

# How many exchanges in a row may be bound to one another.
EXCHANGE_HOPS: Final = 4

_RUN: Final = ["day", "run"]
_PREDECLARED: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
# Matches every key.
_ANY: Final = ""


def routes(events: DataFrame, messages: DataFrame) -> DataFrame:
    """How many messages were published to, enqueued from and dead-lettered to each exchange under each key."""
    key = [*_RUN, "vhost", "kind", "exchange", "routing_key", "queue"]
    told = events.where(F.col("kind").isin("published", "enqueued", "dead_lettered")).select(
        *_RUN, "worker", "vhost", "kind", "exchange", "routing_key", "queue", "msg", "copy", "src_copy"
    )
    is_unsaid = (F.col("kind") == "enqueued") & F.col("exchange").isNull()
    counted = told.where(~is_unsaid).groupBy(*key).agg(F.count(F.lit(1)).alias("n"))
    # A trace need not say it again at each `enqueued`.
    unsaid = told.where(is_unsaid).drop("exchange", "routing_key")
    letters = told.where(F.col("kind") == "dead_lettered").select(
        "run", "worker", F.col("copy").alias("src_copy"), "exchange", "routing_key"
    )
    of_published = messages.select("run", "worker", "msg", "exchange", "routing_key")
    found = (
        unsaid.where(F.col("src_copy").isNull())
        .join(of_published, ["run", "worker", "msg"])
        .select(*key)
        .unionByName(
            unsaid.where(F.col("src_copy").isNotNull()).join(letters, ["run", "worker", "src_copy"]).select(*key)
        )
    )
    counted_too = found.groupBy(*key).agg(F.count(F.lit(1)).alias("n"))
    return counted.unionByName(counted_too).groupBy(*key).agg(F.sum("n").alias("n"))


def run_coverage(control: DataFrame, routes: DataFrame, consumers: DataFrame) -> DataFrame:
    """What each run declared, and how many messages used it."""
    kind = F.col("kind")
    exchange, queue = _label("exchange"), _label("queue")
    target = F.get_json_object("attrs", "$.arguments['x-dead-letter-exchange']")
    dead_letter_to = F.concat(queue, F.lit(" -> "), target)
    consumed = consumers.where(F.col("consumer").isNotNull())
    used = F.sum("n")
    parts = [
        _declared(control.where(kind == "exchange_declare"), "exchange", exchange),
        _declared(control.where(kind == "queue_declare"), "queue", queue),
        _declared(control.where((kind == "queue_declare") & target.isNotNull()), "dlx", dead_letter_to),
        _declared(control.where(kind == "consume"), "consumer", queue),
        _used(routes.where(kind.isin("published", "dead_lettered")), "exchange", exchange, used),
        _used(routes.where(kind == "enqueued"), "queue", queue, used),
        _used(routes.where(kind == "dead_lettered"), "dlx", F.concat(queue, F.lit(" -> "), F.col("exchange")), used),
        _used(consumed, "consumer", queue, F.sum("deliveries")),
        _bindings(control, routes),
    ]
    rows = reduce(DataFrame.unionByName, parts).where(F.col("name").isNotNull())
    return rows.groupBy(*_RUN, "kind", "name").agg(
        F.max("declared").alias("declared"), F.sum("messages").alias("messages")
    )


def coverage(run_coverage: DataFrame) -> DataFrame:
    """In how many runs each was declared and used, over all runs."""
    exercised_in = F.countDistinct(F.when(F.col("messages") > 0, F.col("run")))
    return run_coverage.groupBy("kind", "name").agg(
        F.countDistinct(F.when(F.col("declared"), F.col("run"))).alias("declared_in"),
        exercised_in.alias("exercised_in"),
        F.sum("messages").alias("messages"),
        (exercised_in == 0).alias("never"),
    )


def _declared(rows: DataFrame, kind: str, name: Column) -> DataFrame:
    named = rows.select(*_RUN, F.lit(kind).alias("kind"), name.alias("name"))
    return named.distinct().select("*", F.lit(True).alias("declared"), F.lit(0).cast("long").alias("messages"))


def _used(rows: DataFrame, kind: str, name: Column, messages: Column) -> DataFrame:
    counted = rows.groupBy(*_RUN, name.alias("name")).agg(messages.alias("messages"))
    return counted.select(*_RUN, F.lit(kind).alias("kind"), "name", F.lit(False).alias("declared"), "messages")


def _bindings(control: DataFrame, routes: DataFrame) -> DataFrame:
    place = [*_RUN, "vhost"]
    bindings = _declared_bindings(control)
    to_exchange = bindings.where(F.col("destination_kind") == "exchange")
    hop = to_exchange.select(
        *place,
        F.col("exchange").alias("via"),
        F.col("destination").alias("reached"),
        F.col("pattern").alias("next"),
    )
    ways = bindings.select(*place, "exchange").distinct()
    ways = ways.select("*", F.col("exchange").alias("reached"), F.array().cast("array<string>").alias("patterns"))
    reached = [ways]
    for _ in range(EXCHANGE_HOPS):
        step = reached[-1].withColumnRenamed("reached", "via").alias("step")
        joined = null_safe_join(step, hop, [*place, "via"], "inner")
        reached.append(
            joined.select(*place, "exchange", "reached", F.concat("patterns", F.array("next")).alias("patterns"))
        )
    ways = reduce(DataFrame.unionByName, reached)
    last = bindings.withColumnRenamed("exchange", "reached")
    paths = null_safe_join(ways, last, [*place, "reached"], "inner").select(
        *place,
        "exchange",
        "name",
        F.when(F.col("destination_kind") == "queue", F.col("destination")).alias("into"),
        F.concat("patterns", F.array("pattern")).alias("patterns"),
    )
    copies = routes.where(F.col("kind") == "enqueued").withColumn("key", _dotted(F.coalesce("routing_key", F.lit(""))))
    came = null_safe_join(copies, F.broadcast(paths), [*place, "exchange"], "inner").where(
        (F.col("into").isNull() | (F.col("into") == F.col("queue")))
        & F.forall("patterns", lambda pattern: F.rlike(F.col("key"), pattern))
    )
    # More than one way through exchanges is still one copy.
    once = came.select(*place, "name", "exchange", "routing_key", "queue", "n").distinct()
    used = _used(once, "binding", F.col("name"), F.sum("n"))
    return used.unionByName(_declared(bindings, "binding", F.col("name")))


def _declared_bindings(control: DataFrame) -> DataFrame:
    place = [*_RUN, "vhost"]
    kind = F.col("kind")
    attribute = F.get_json_object("attrs", "$.type")
    delayed = F.get_json_object("attrs", "$.arguments['x-delayed-type']")
    types = (
        control.where((kind == "exchange_declare") & attribute.isNotNull())
        .groupBy(*place, "exchange")
        .agg(F.max(F.coalesce(delayed, attribute)).alias("type"))
    )
    destination_kind = F.coalesce(F.get_json_object("attrs", "$.destination_kind"), F.lit("queue"))
    declared = control.where(kind == "bind").select(
        *place,
        "exchange",
        F.coalesce("routing_key", F.lit("")).alias("binding_key"),
        destination_kind.alias("destination_kind"),
        F.coalesce(F.get_json_object("attrs", "$.destination"), "queue").alias("destination"),
    )
    typed = null_safe_join(declared.distinct(), types, [*place, "exchange"])
    predeclared = F.create_map(*[F.lit(text) for pair in _PREDECLARED.items() for text in pair])
    of_type = F.coalesce(F.col("type"), F.try_element_at(predeclared, F.col("exchange")))
    key = F.col("binding_key")
    pattern = F.when(of_type == "direct", _exactly(key)).when(of_type == "topic", _topic(key)).otherwise(F.lit(_ANY))
    name = F.concat(
        _label("exchange"),
        F.when(F.col("destination_kind") == "exchange", F.lit(" => ")).otherwise(F.lit(" -> ")),
        F.col("destination"),
        F.lit(" ("),
        key,
        F.lit(")"),
    )
    return typed.select(
        *place, "exchange", "destination_kind", "destination", pattern.alias("pattern"), name.alias("name")
    )


def _quoted(text: Column) -> Column:
    return F.regexp_replace(text, r"([\\^$.|?*+()\[\]{}])", r"\\$1")


def _dotted(key: Column) -> Column:
    """A key with a dot before each word: none at all for the empty key, which has no words."""
    return F.when(key == "", key).otherwise(F.concat(F.lit("."), key))


def _exactly(key: Column) -> Column:
    return F.concat(F.lit(r"\A"), _quoted(_dotted(key)), F.lit(r"\z"))


def _topic(key: Column) -> Column:
    """The regular expression of a topic binding: "*" is one word, "#" any number of words."""
    words = F.transform(
        F.split(key, r"\.", -1),
        lambda word: (
            F.when(word == "#", F.lit(r"(?:\.[^.]*)*"))
            .when(word == "*", F.lit(r"\.[^.]*"))
            .otherwise(F.concat(F.lit(r"\."), _quoted(word)))
        ),
    )
    return F.when(key == "", F.lit(r"\A\z")).otherwise(F.concat(F.lit(r"\A"), F.array_join(words, ""), F.lit(r"\z")))


def _label(name: str) -> Column:
    """A name, with its virtual host before it where that is not the default one."""
    is_default = F.coalesce(F.col("vhost"), F.lit("/")) == "/"
    return F.when(is_default, F.col(name)).otherwise(F.concat(F.col("vhost"), F.lit("/"), F.col(name)))
