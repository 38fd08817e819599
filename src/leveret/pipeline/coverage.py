"""Coverage: the exchanges, queues, bindings, dead-letter exchanges and consumed queues that the tests used.

A copy used a binding if it came through the binding's exchange into its queue, with a routing key that the binding
matches. The exchanges of a copy are the one that its message was published or dead-lettered to, and every exchange
bound to that one on the way. The pipeline does not match headers, so a binding of a headers exchange counts every copy
that could have come through it.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from leveret.pipeline.kernel.codes import PREDECLARED
from leveret.pipeline.lifecycle import null_safe_join

# The longest chain of exchange-to-exchange bindings that is followed.
EXCHANGE_HOPS: Final = 4

_RUN: Final = ["day", "run"]
# A pattern that matches every key.
_ANY: Final = ""


def routes(events: DataFrame, messages: DataFrame) -> DataFrame:
    """Count the messages that were published to, enqueued from and dead-lettered to each exchange, by routing key."""
    key = [*_RUN, "vhost", "kind", "exchange", "routing_key", "queue"]
    kind = F.col("kind")
    is_incomplete = (kind == "enqueued") & F.col("exchange").isNull()
    routed = events.where(kind.isin("published", "enqueued", "dead_lettered"))
    counted = routed.groupBy(*key, "worker").agg(
        F.count(F.lit(1)).alias("n"), F.count(F.when(is_incomplete, 1)).alias("incomplete")
    )
    complete = counted.where(F.col("incomplete") == 0).select(*key, "n")
    # A trace may leave out the exchange of an `enqueued` event. Few files do, so only theirs are looked up.
    files = counted.where((F.col("incomplete") > 0) & (F.col("n") > 0)).select("run", "worker").distinct()
    found = _looked_up(routed, messages, F.broadcast(files))
    found = found.select(*key).groupBy(*key).agg(F.count(F.lit(1)).alias("n"))
    return complete.unionByName(found).groupBy(*key).agg(F.sum("n").alias("n"))


def _looked_up(routed: DataFrame, messages: DataFrame, files: DataFrame) -> DataFrame:
    """Return the `enqueued` events of these files that lack their exchange, with the exchange and key they came by."""
    file = ["run", "worker"]
    in_files = routed.join(files, file, "left_semi")
    incomplete = in_files.where((F.col("kind") == "enqueued") & F.col("exchange").isNull())
    incomplete = incomplete.drop("exchange", "routing_key")
    of_letters = in_files.where(F.col("kind") == "dead_lettered").select(
        *file, F.col("copy").alias("src_copy"), "exchange", "routing_key"
    )
    of_published = messages.join(files, file, "left_semi").select(*file, "msg", "exchange", "routing_key")
    published = incomplete.where(F.col("src_copy").isNull()).join(of_published, [*file, "msg"])
    letters = incomplete.where(F.col("src_copy").isNotNull()).join(of_letters, [*file, "src_copy"])
    return published.unionByName(letters.select(published.columns))


def run_coverage(control: DataFrame, routes: DataFrame, consumers: DataFrame) -> DataFrame:
    """Return what each run declared, and how many messages used it."""
    # Tests mostly repeat the same declarations, so each distinct one is processed once.
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
    """Count the runs in which each thing was declared and used, over all runs."""
    exercised_in = F.countDistinct(F.when(F.col("messages") > 0, F.col("run")))
    return run_coverage.groupBy("kind", "name").agg(
        F.countDistinct(F.when(F.col("declared"), F.col("run"))).alias("declared_in"),
        exercised_in.alias("exercised_in"),
        F.sum("messages").alias("messages"),
        (exercised_in == 0).alias("never"),
    )


def _named(rows: DataFrame, messages: Column, **names: Column) -> DataFrame:
    """Split each row into the things that it names: one row with kind and name for each name that is not null."""
    things = [
        F.when(name.isNotNull(), F.struct(F.lit(kind).alias("kind"), name.alias("name")))
        for kind, name in names.items()
    ]
    split = rows.select(*_RUN, messages.alias("messages"), F.explode(F.array_compact(F.array(*things))).alias("thing"))
    return split.select(*_RUN, "thing.*", "messages")


def _bindings(control: DataFrame) -> DataFrame:
    """Return each binding with the regular expression of the keys that it matches."""
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
    predeclared = F.create_map(*[F.lit(text) for pair in PREDECLARED.items() for text in pair])
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
    """Return the bindings by which copies came, with the number of copies."""
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
    # A copy counts once, even if several paths lead to the binding.
    return came.select(*copies.columns, "name").distinct()


def _paths(bindings: Column) -> Column:
    """Return every path from an exchange to a binding, through exchanges bound to one another.

    A path has its first exchange, its last binding, and the patterns that a key must match on it.
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
    """Return a key with a dot before each word; the empty key has no words and stays empty."""
    return F.when(key == "", key).otherwise(F.concat(F.lit("."), key))


def _exactly(key: Column) -> Column:
    return F.concat(F.lit(r"\A"), _quoted(_dotted(key)), F.lit(r"\z"))


def _topic(key: Column) -> Column:
    """Return the regular expression of a topic binding: "*" is one word, "#" any number of words."""
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
    """Return a name, with its virtual host in front unless that is the default one."""
    is_default = F.coalesce(F.col("vhost"), F.lit("/")) == "/"
    return F.when(is_default, F.col(name)).otherwise(F.concat(F.col("vhost"), F.lit("/"), F.col(name)))
