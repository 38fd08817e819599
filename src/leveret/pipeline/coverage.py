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
    kind = F.col("kind")
    is_unsaid = (kind == "enqueued") & F.col("exchange").isNull()
    told = events.where(kind.isin("published", "enqueued", "dead_lettered"))
    counted = told.groupBy(*key, "worker").agg(
        F.count(F.lit(1)).alias("n"), F.count(F.when(is_unsaid, 1)).alias("unsaid")
    )
    said = counted.where(F.col("unsaid") == 0).select(*key, "n")
    # A trace need not say it again at each `enqueued`. Most do: the files that do not are few or none.
    files = counted.where((F.col("unsaid") > 0) & (F.col("n") > 0)).select("run", "worker").distinct()
    found = _looked_up(told, messages, F.broadcast(files))
    found = found.select(*key).groupBy(*key).agg(F.count(F.lit(1)).alias("n"))
    return said.unionByName(found).groupBy(*key).agg(F.sum("n").alias("n"))


def _looked_up(told: DataFrame, messages: DataFrame, files: DataFrame) -> DataFrame:
    """What was enqueued in these files without its exchange, with the exchange and key it came by."""
    file = ["run", "worker"]
    there = told.join(files, file, "left_semi")
    unsaid = there.where((F.col("kind") == "enqueued") & F.col("exchange").isNull()).drop("exchange", "routing_key")
    of_letters = there.where(F.col("kind") == "dead_lettered").select(
        *file, F.col("copy").alias("src_copy"), "exchange", "routing_key"
    )
    of_published = messages.join(files, file, "left_semi").select(*file, "msg", "exchange", "routing_key")
    published = unsaid.where(F.col("src_copy").isNull()).join(of_published, [*file, "msg"])
    letters = unsaid.where(F.col("src_copy").isNotNull()).join(of_letters, [*file, "src_copy"])
    return published.unionByName(letters.select(published.columns))


def run_coverage(control: DataFrame, routes: DataFrame, consumers: DataFrame) -> DataFrame:
    """What each run declared, and how many messages used it."""
    # What tests declare they mostly declare alike: each declaration is looked at once.
    declaration = ["vhost", "kind", "exchange", "routing_key", "queue", "attrs"]
    is_declaration = F.col("kind").isin("exchange_declare", "queue_declare", "consume", "bind")
    control = control.where(is_declaration).select(*_RUN, *declaration).distinct()
    kind, exchange, queue = F.col("kind"), _label("exchange"), _label("queue")
    target = F.get_json_object("attrs", "$.arguments['x-dead-letter-exchange']")
    arrow = F.lit(" -> ")
    declared = _named(
        control.where(kind.isin("exchange_declare", "queue_declare", "consume")),
        F.lit(0).cast("long"),
        exchange=F.when(kind == "exchange_declare", exchange),
        queue=F.when(kind == "queue_declare", queue),
        dlx=F.when(kind == "queue_declare", F.concat(queue, arrow, target)),
        consumer=F.when(kind == "consume", queue),
    )
    used = _named(
        routes,
        F.col("n"),
        exchange=F.when(kind != "enqueued", exchange),
        queue=F.when(kind == "enqueued", queue),
        dlx=F.when(kind == "dead_lettered", F.concat(queue, arrow, "exchange")),
    )
    consumed = _named(consumers.where(F.col("consumer").isNotNull()), F.col("deliveries"), consumer=queue)
    bindings = _bindings(control)
    of_bindings = [
        _named(bindings, F.lit(0).cast("long"), binding=F.col("name")).distinct(),
        _named(_used_bindings(bindings, routes), F.col("n"), binding=F.col("name")),
    ]
    rows = [(declared, True), (used, False), (consumed, False), (of_bindings[0], True), (of_bindings[1], False)]
    parts = [part.withColumn("declared", F.lit(is_declared)) for part, is_declared in rows]
    return (
        reduce(DataFrame.unionByName, parts)
        .groupBy(*_RUN, "kind", "name")
        .agg(F.max("declared").alias("declared"), F.sum("messages").alias("messages"))
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


def _named(rows: DataFrame, messages: Column, **names: Column) -> DataFrame:
    """Each row as the things it is about: their kind and, where it is not null, their name."""
    things = [
        F.when(name.isNotNull(), F.struct(F.lit(kind).alias("kind"), name.alias("name")))
        for kind, name in names.items()
    ]
    told = rows.select(*_RUN, messages.alias("messages"), F.explode(F.array_compact(F.array(*things))).alias("thing"))
    return told.select(*_RUN, "thing.*", "messages")


def _bindings(control: DataFrame) -> DataFrame:
    """Each binding with the regular expression of the keys it matches."""
    place = [*_RUN, "vhost"]
    kind = F.col("kind")
    delayed = F.get_json_object("attrs", "$.arguments['x-delayed-type']")
    types = (
        control.where(kind == "exchange_declare")
        .groupBy(*place, "exchange")
        .agg(F.max(F.coalesce(delayed, F.get_json_object("attrs", "$.type"))).alias("type"))
    )
    declared = control.where(kind == "bind").select(
        *place,
        "exchange",
        F.coalesce("routing_key", F.lit("")).alias("key"),
        (F.get_json_object("attrs", "$.destination_kind") == "exchange").alias("is_to_exchange"),
        F.coalesce(F.get_json_object("attrs", "$.destination"), "queue").alias("destination"),
    )
    typed = null_safe_join(declared.distinct(), types, [*place, "exchange"])
    predeclared = F.create_map(*[F.lit(text) for pair in _PREDECLARED.items() for text in pair])
    of_type = F.coalesce(F.col("type"), F.try_element_at(predeclared, F.col("exchange")))
    key, is_to_exchange = F.col("key"), F.coalesce("is_to_exchange", F.lit(False))
    pattern = F.when(of_type == "direct", _exactly(key)).when(of_type == "topic", _topic(key)).otherwise(F.lit(_ANY))
    arrow = F.when(is_to_exchange, F.lit(" => ")).otherwise(F.lit(" -> "))
    name = F.concat(_label("exchange"), arrow, "destination", F.lit(" ("), key, F.lit(")"))
    return typed.select(
        *place,
        "exchange",
        F.when(is_to_exchange, F.col("destination")).alias("to_exchange"),
        F.when(~is_to_exchange, F.col("destination")).alias("to_queue"),
        pattern.alias("pattern"),
        name.alias("name"),
    )


def _used_bindings(bindings: DataFrame, routes: DataFrame) -> DataFrame:
    """The bindings by which each copy came, with how many copies."""
    place = [*_RUN, "vhost"]
    fields = ("exchange", "to_exchange", "to_queue", "pattern", "name")
    topologies = bindings.groupBy(*place).agg(F.collect_list(F.struct(*fields)).alias("bindings"))
    paths = topologies.select(*place, F.explode(_paths(F.col("bindings"))).alias("path")).select(*place, "path.*")
    copies = routes.where(F.col("kind") == "enqueued").select(*place, "exchange", "routing_key", "queue", "n")
    words = _dotted(F.coalesce("routing_key", F.lit("")))
    came = null_safe_join(copies, F.broadcast(paths), [*place, "exchange"], "inner").where(
        (F.col("to_queue").isNull() | (F.col("to_queue") == F.col("queue")))
        & F.forall("patterns", lambda pattern: F.rlike(words, pattern))
    )
    # A copy that more than one way leads to a binding is still one copy.
    return came.select(*copies.columns, "name").distinct()


def _paths(bindings: Column) -> Column:
    """Every way from an exchange to a binding, over exchanges bound to one another: where it begins, what it ends in,
    and the patterns a key has to match on it.
    """

    def longer(paths: Column) -> Column:
        def beyond(path: Column) -> Column:
            following = F.filter(bindings, lambda binding: binding["exchange"] == path["to_exchange"])
            return F.transform(following, lambda binding: _path(path["exchange"], path["patterns"], binding))

        return F.flatten(F.transform(paths, beyond))

    none = F.array().cast("array<string>")
    lengths = [F.transform(bindings, lambda binding: _path(binding["exchange"], none, binding))]
    for _ in range(EXCHANGE_HOPS):
        lengths.append(longer(lengths[-1]))
    return F.concat(*lengths)


def _path(exchange: Column, patterns: Column, binding: Column) -> Column:
    return F.struct(
        exchange.alias("exchange"),
        binding["to_exchange"].alias("to_exchange"),
        binding["to_queue"].alias("to_queue"),
        binding["name"].alias("name"),
        F.concat(patterns, F.array(binding["pattern"])).alias("patterns"),
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
