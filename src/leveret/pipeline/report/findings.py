"""The report's queries: bounded lists and totals from the tables. Spark answers all but one of them in one job.

No list is longer than a person would read. Each answer is a list of dictionaries, so that laying out the page needs no
Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from leveret.pipeline import diff as comparison
from leveret.pipeline.gold import bucket_bounds
from leveret.pipeline.kernel.codes import DEATH_REASONS, GROWTH
from leveret.pipeline.report.charts import BINS_A_DECADE
from leveret.pipeline.report.subject import Subject

Row = dict[str, Any]
Read = Callable[..., DataFrame]

RUNS_SHOWN: Final = 8
TESTS_SHOWN: Final = 15
DROPPED_SHOWN: Final = 15
QUEUES_SHOWN: Final = 20
SLOWEST_SHOWN: Final = 10
LEAVERS_SHOWN: Final = 10
FLOWS_SHOWN: Final = 24
UNUSED_SHOWN: Final = 15
FLAKY_SHOWN: Final = 12
BEHAVIOURS_SHOWN: Final = 4
VIOLATIONS_SHOWN: Final = 20
VIOLATIONS_OF_A_RULE: Final = 3
LIFE_SHOWN: Final = 30
DIFFERENCES_SHOWN: Final = 12

_FAILED: Final = ("failed", "error")
# The words with which the texts of rules name events: "acknowledged at 17", "ready since 9".
_NAMED_EVENTS: Final = re.compile(r"\b(?:at|since) (\d+)")


@dataclass(frozen=True, slots=True)
class Question:
    """A query for at most `limit` rows, sorted `by` these columns; "-n" sorts by n, greatest first."""

    rows: DataFrame
    by: tuple[str, ...] = ()
    limit: int = 1000

    def bounded(self) -> DataFrame:
        """Return the first `limit` rows."""
        ordered = self.rows.orderBy(*[_order(name) for name in self.by]) if self.by else self.rows
        return ordered.limit(self.limit)

    def sorted(self, rows: list[Row]) -> list[Row]:
        """Sort plain rows in the same order, because Spark returns them in any order."""
        for name in reversed(self.by):
            key = name.removeprefix("-")
            # Null is the least value, as in Spark.
            rows.sort(key=lambda row: (row[key] is not None, row[key]), reverse=name.startswith("-"))
        return rows


def ask(questions: Mapping[str, Question]) -> dict[str, list[Row]]:
    """Return the answers to all questions, by one job of Spark."""
    parts = [
        question.bounded().select(
            F.lit(name).alias("name"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("content")
        )
        for name, question in questions.items()
    ]
    answers: dict[str, list[Row]] = {name: [] for name in questions}
    for row in reduce(DataFrame.unionByName, parts).collect():
        answers[row.name].append(json.loads(row.content))
    return {name: questions[name].sorted(rows) for name, rows in answers.items()}


def find(read: Read, subject: Subject, against: Subject | None) -> dict[str, list[Row]]:
    """Return all content of the page. `read(name, runs=...)` returns a table, for these runs or for all."""

    def of_subject(name: str) -> DataFrame:
        return read(name, runs=subject.runs)

    questions = {
        **_about_runs(of_subject),
        **_about_queues(of_subject("queue_stats"), of_subject("run_lineage")),
        "leavers": Question(_leavers(of_subject("test_queues")), ("-n", "test", "queue"), LEAVERS_SHOWN),
        "slowest": Question(_slowest(of_subject("latency_hist")), ("-slowness", "queue"), SLOWEST_SHOWN),
        **_about_coverage(of_subject("run_coverage"), read("run_coverage")),
        **_about_flaky(read("flaky"), read("fingerprints"), subject),
        **_about_violations(of_subject("violations")),
    }
    if against is not None:
        questions["differences"] = _differences(read, against, subject)
    answers = ask(questions)
    answers["lives"] = lives(of_subject("events"), answers["violations"])
    return answers


def _about_runs(table: Read) -> dict[str, Question]:
    runs, tests = table("runs"), table("tests")
    failed = tests.where(F.col("outcome").isin(*_FAILED) | F.col("outcome").isNull() | (F.col("failures") > 0))
    columns = ("run", "worker", "started", "commit", "branch", "python", "client", "broker", "profile", "seed", "clock")
    sums = [F.sum(name).alias(name) for name in ("failures", "retries", "published", "duration")]
    return {
        "runs": Question(
            runs.where(F.col("files") > 0).select(*columns, "events", "truncated"),
            ("-started", "run", "worker"),
            RUNS_SHOWN,
        ),
        "run_totals": Question(
            runs.agg(
                F.countDistinct("run").alias("runs"),
                F.count(F.lit(1)).alias("workers"),
                F.sum("events").alias("events"),
                F.max((F.col("clock") == "virtual").cast("int")).alias("virtual"),
            )
        ),
        "outcomes": Question(tests.groupBy("outcome").agg(F.count(F.lit(1)).alias("n"), *sums), ("-n",), 50),
        "failed": Question(
            failed.select("run", "worker", "test", "outcome", "duration", "retries", "failures"),
            ("-failures", "test", "run"),
            TESTS_SHOWN,
        ),
        "failed_count": Question(failed.agg(F.count(F.lit(1)).alias("n"))),
        "fates": Question(table("messages").groupBy("outcome").agg(F.count(F.lit(1)).alias("n")), ("-n",), 50),
        "dropped": Question(_dropped(table), ("-n", "exchange", "routing_key", "reason"), DROPPED_SHOWN),
        "faults": Question(
            table("fault_effect").groupBy("fault", "on").agg(F.sum("struck").alias("struck")), ("-struck", "fault"), 10
        ),
    }


def _dropped(table: Read) -> DataFrame:
    """Count the dropped messages by exchange, routing key and reason."""
    key = ["run", "worker", "msg"]
    events = table("events").where((F.col("kind") == "dropped") & F.col("msg").isNotNull())
    reasons = events.groupBy(*key).agg(F.max("reason").alias("reason"))
    lost = table("messages").where(F.col("outcome") == "dropped").join(reasons, key, "left")
    is_nacked = F.coalesce(~F.col("confirmed"), F.lit(False)).alias("is_nacked")
    return lost.groupBy("vhost", "exchange", "routing_key", "reason", is_nacked).agg(F.count(F.lit(1)).alias("n"))


def _about_queues(queue_stats: DataFrame, run_lineage: DataFrame) -> dict[str, Question]:
    dead = reduce(Column.__add__, [F.col(f"dead_{reason}") for reason in DEATH_REASONS])
    counts = ("copies", "deliveries", "redeliveries", "acked", "leaked", "dropped")
    queues = (
        queue_stats.withColumn("dead", dead)
        .groupBy("vhost", "queue")
        .agg(
            *[F.sum(name).alias(name) for name in (*counts, "dead")],
            F.max("max_depth").alias("max_depth"),
        )
        .withColumn("trouble", F.col("leaked") + F.col("dropped") + F.col("dead") + F.col("redeliveries"))
    )
    totals = [F.sum(name).alias(name) for name in (*counts, "dead")]
    flows = run_lineage.groupBy("from_queue", "reason", "to_queue").agg(
        F.sum("n").alias("n"), F.countDistinct("test").alias("tests")
    )
    again = queues.where(F.col("redeliveries") > 0).groupBy("queue").agg(F.sum("redeliveries").alias("n"))
    return {
        "queues": Question(queues, ("-trouble", "-copies", "queue"), QUEUES_SHOWN),
        "queue_totals": Question(
            queues.agg(
                F.count(F.lit(1)).alias("queues"), F.count(F.when(F.col("leaked") > 0, 1)).alias("leaking"), *totals
            )
        ),
        "flows": Question(flows, ("-n", "from_queue", "reason", "to_queue"), FLOWS_SHOWN),
        "flow_totals": Question(flows.agg(F.count(F.lit(1)).alias("flows"), F.sum("n").alias("n"))),
        "redelivered": Question(again, ("-n", "queue"), FLOWS_SHOWN),
    }


def _leavers(test_queues: DataFrame) -> DataFrame:
    """Count the copies that each test left in each queue."""
    left = test_queues.where(F.col("leaked") > 0).groupBy("test", "vhost", "queue")
    return left.agg(F.sum("leaked").alias("n"))


def _slowest(latency_hist: DataFrame) -> DataFrame:
    """Return a row for each queue with its median, its 95th percentile, its longest span, and bins for a histogram."""
    queue = ["vhost", "queue"]
    counts = latency_hist.groupBy(*queue, "measure", "bucket").agg(F.sum("n").alias("n"))
    measured = Window.partitionBy(*queue, "measure")
    so_far = measured.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = counts.select(
        "*", F.sum("n").over(so_far).alias("so_far"), F.sum("n").over(measured).alias("total"), _bin_of("bucket")
    )

    def at(share: float) -> Column:
        return F.min(F.when(F.col("so_far") >= F.col("total") * share, F.col("bucket")))

    bins = placed.groupBy(*queue, "measure", "bin").agg(
        F.sum("n").alias("n"), at(0.5).alias("p50"), at(0.95).alias("p95"), F.max("bucket").alias("top")
    )

    def of(measure: str, name: str) -> Column:
        which = F.min if name.startswith("p") else F.max
        return which(F.when(F.col("measure") == measure, F.col(name))).alias(f"{measure}_{name}")

    spans = [of(measure, name) for measure in ("wait", "process") for name in ("p50", "p95", "top")]
    rows = bins.groupBy(*queue).agg(F.collect_list(F.struct("measure", "bin", "n")).alias("bins"), *spans)
    slowness = F.greatest(F.coalesce("wait_p95", F.lit(-1)), F.coalesce("process_p95", F.lit(-1)))
    return rows.withColumn("slowness", slowness)


def _bin_of(bucket: str) -> Column:
    """Return the bin in which a bucket of the histograms is drawn."""
    middle = (F.col(bucket) - 0.5) * F.lit(BINS_A_DECADE) * F.log10(F.lit(GROWTH))
    return F.greatest(F.floor(middle), F.lit(0)).cast("int").alias("bin")


def span_of(bucket: int | None) -> float | None:
    """Return the upper bound of a bucket, in microseconds."""
    return None if bucket is None else bucket_bounds(bucket)[1]


def _about_coverage(mine: DataFrame, all_runs: DataFrame) -> dict[str, Question]:
    key = ["kind", "name"]
    here = mine.groupBy(*key).agg(F.max("declared").alias("declared"), F.sum("messages").alias("used"))
    elsewhere = all_runs.groupBy(*key).agg(
        F.countDistinct(F.when(F.col("messages") > 0, F.col("run"))).alias("exercised_in"),
        F.countDistinct(F.when(F.col("declared"), F.col("run"))).alias("declared_in"),
    )
    declared = here.where(F.col("declared")).join(elsewhere, key)
    is_unused = F.col("used") == 0
    unused = declared.where(is_unused).select(*key, "declared_in", "exercised_in")
    place = F.row_number().over(Window.partitionBy("kind").orderBy("exercised_in", "name"))
    counts = declared.groupBy("kind").agg(
        F.count(F.lit(1)).alias("declared"),
        F.count(F.when(is_unused, 1)).alias("unused"),
        F.count(F.when(F.col("exercised_in") == 0, 1)).alias("never"),
    )
    shown = unused.withColumn("place", place).where(F.col("place") <= UNUSED_SHOWN)
    return {
        "coverage": Question(counts, ("kind",)),
        "unused": Question(shown, ("kind", "place")),
        "coverage_runs": Question(all_runs.agg(F.countDistinct("run").alias("runs"))),
    }


def _about_flaky(flaky: DataFrame, fingerprints: DataFrame, subject: Subject) -> dict[str, Question]:
    known = flaky.where(F.col("commit").isNotNull()).withColumn(
        "is_other", (~F.col("commit").eqNullSafe(F.lit(subject.commit))).cast("int")
    )
    found = known.where(F.col("behaviours") > 1)
    question = Question(found, ("is_other", "-entropy", "test", "commit"), FLAKY_SHOWN)
    shown = question.bounded().select("commit", "test", "first_differing_queue")
    parts = F.filter("parts", lambda part: part["queue"].eqNullSafe(F.col("first_differing_queue")))
    behaviours = (
        fingerprints.join(F.broadcast(shown), ["commit", "test"])
        .groupBy("commit", "test", parts.alias("parts"))
        .agg(F.countDistinct("run").alias("runs"), F.array_sort(F.collect_set("outcome")).alias("outcomes"))
    )
    of_test = Window.partitionBy("commit", "test")
    behaviours = behaviours.withColumn("kinds", F.count(F.lit(1)).over(of_test))
    place = F.row_number().over(of_test.orderBy(F.col("runs").desc(), F.to_json("parts")))
    return {
        "flaky": question,
        "flaky_totals": Question(
            known.agg(
                F.count(F.when(F.col("behaviours") > 1, 1)).alias("flaky"),
                F.count(F.when(F.col("runs") > 1, 1)).alias("repeated"),
            )
        ),
        "behaviours": Question(
            behaviours.withColumn("place", place).where(F.col("place") <= BEHAVIOURS_SHOWN), ("test", "commit", "place")
        ),
    }


def _about_violations(violations: DataFrame) -> dict[str, Question]:
    rules = violations.groupBy("rule").agg(
        F.count(F.lit(1)).alias("n"), F.countDistinct("test").alias("tests"), F.countDistinct("queue").alias("queues")
    )
    place = F.row_number().over(Window.partitionBy("rule").orderBy("run", "worker", "test", "msg", "copy"))
    columns = ("run", "worker", "test", "vhost", "queue", "msg", "copy", "rule", "text")
    shown = violations.select(*columns, place.alias("place")).where(F.col("place") <= VIOLATIONS_OF_A_RULE)
    return {
        "rules": Question(rules, ("-n", "rule"), 100),
        "violations": Question(shown, ("place", "rule"), VIOLATIONS_SHOWN),
    }


def _differences(read: Read, left: Subject, right: Subject) -> Question:
    tables = {name: read(name, runs=(*left.runs, *right.runs)) for name in comparison.READS}
    rows = comparison.diff(tables, left.name, right.name)
    size = F.abs(F.coalesce(_as_number("right"), F.lit(0.0)) - F.coalesce(_as_number("left"), F.lit(0.0)))
    ends_differ = (F.col("difference") == "outcome").cast("int")
    by_side = Window.partitionBy("side")
    order = by_side.orderBy(ends_differ.desc(), size.desc(), "queue", "position")
    of_side = F.count(F.lit(1)).over(by_side).alias("of_side")
    placed = rows.select("*", F.row_number().over(order).alias("place"), of_side)
    return Question(placed.where(F.col("place") <= DIFFERENCES_SHOWN), ("side", "place"))


def _as_number(name: str) -> Column:
    return F.expr(f"try_cast({name} AS double)")


def lives(events: DataFrame, violations: list[Row]) -> list[Row]:
    """Return the events of these violations' messages, and the events that their texts name.

    At most `LIFE_SHOWN` events are returned for each violation, those of the copy in question first. `total` is the
    number of all its events.
    """
    if not violations:
        return []
    runs = sorted({row["run"] for row in violations})
    messages = sorted({row["msg"] for row in violations})
    named = sorted({seq for row in violations for seq in named_events(row["text"])})
    candidates = events.where(F.col("run").isin(runs) & (F.col("msg").isin(messages) | F.col("seq").isin(named)))
    wanted = [
        (row["run"], row["worker"], row["msg"], row["copy"], named_events(row["text"]), place)
        for place, row in enumerate(violations)
    ]
    shape = "run string, worker string, of_msg long, of_copy long, named array<long>, violation int"
    about = F.broadcast(events.sparkSession.createDataFrame(wanted, shape))
    is_named = F.array_contains("named", F.col("seq"))
    is_its = F.col("msg") == F.col("of_msg")
    joined = candidates.join(about, ["run", "worker"]).where(is_its | is_named)
    is_near = F.col("copy").isNull() | F.coalesce(F.col("copy") == F.col("of_copy"), F.lit(False)) | is_named
    of_violation = Window.partitionBy("violation")
    place = F.row_number().over(of_violation.orderBy(is_near.desc(), "seq"))
    columns = ("seq", "ts", "kind", "conn", "chan", "msg", "copy", "src_copy", "exchange", "routing_key", "queue")
    more = ("consumer", "tag", "multiple", "redelivered", "reason", "size")
    placed = joined.select(
        "violation", *columns, *more, place.alias("place"), F.count(F.lit(1)).over(of_violation).alias("total")
    )
    return ask({"lives": Question(placed.where(F.col("place") <= LIFE_SHOWN), ("violation", "seq"))})["lives"]


def named_events(text: str) -> list[int]:
    """Return the sequence numbers of the events that the text of a violation names."""
    return [int(found) for found in _NAMED_EVENTS.findall(text)]


def _order(name: str) -> Column:
    return F.col(name[1:]).desc() if name.startswith("-") else F.col(name).asc()
