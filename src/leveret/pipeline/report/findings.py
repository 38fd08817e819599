"""The report's content: bounded lists of rows and totals from the tables, as plain data.

No list but that of the failed tests is longer than a person would read. Laying out the page needs no tables.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from leveret.pipeline.diff import diff, lines
from leveret.pipeline.history import History, history
from leveret.pipeline.kernel.codes import DEATH_REASONS, GROWTH
from leveret.pipeline.kernel.columns import NULL
from leveret.pipeline.kernel.grouping import Row, grouped
from leveret.pipeline.kernel.subjects.counts import OUTCOMES
from leveret.pipeline.kernel.subjects.queues import within
from leveret.pipeline.kernel.subjects.tests import FAILURES
from leveret.pipeline.reading import Read, chosen, cut_workers
from leveret.pipeline.report.charts import BINS_A_DECADE
from leveret.pipeline.report.subject import COLUMNS, Subject, up_to
from leveret.pipeline.wording import label
from leveret.trace.events import DELIVERIES

# What the templates show, by name.
Answers = dict[str, Any]
# A reader of the subject's rows.
Mine = Callable[..., pa.Table]

RUNS_SHOWN: Final = 8
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
LINES_SHOWN: Final = 12
# The measures of `run_counts` that are drawn as a line for each queue.
LINES: Final = ("published", "redeliveries", "dead_letters", "dropped", "leaked")

# The kinds of events to mark in the life of a copy, for rules whose text does not name events.
_MARKED: Final = {
    "acked_twice": ("acked",),
    "redelivered_flag_wrong": DELIVERIES,
    "duplicate_enqueue": ("enqueued",),
    "delivered_to_closed_channel": DELIVERIES,
    "prefetch_exceeded": DELIVERIES,
    "confirm_missing": ("published",),
}
_OF_RUNS: Final = (
    "run",
    "worker",
    "started",
    "commit",
    "branch",
    "python",
    "client",
    "broker",
    "profile",
    "seed",
    "clock",
)
_OF_QUEUES: Final = ("copies", "deliveries", "redeliveries", "acked", "leaked", "dropped")
_DEATHS: Final = tuple(f"dead_{reason}" for reason in DEATH_REASONS)
_OF_LIVES: Final = (
    *("run", "worker", "seq", "ts", "kind", "conn", "chan", "msg", "copy", "src_copy", "exchange", "routing_key"),
    *("queue", "consumer", "tag", "multiple", "redelivered", "reason", "size"),
)
_IN_VIOLATIONS: Final = ("run", "worker", "test", "vhost", "queue", "msg", "copy", "rule", "text", "seqs")


def find(read: Read, subject: Subject, against: Subject | None) -> Answers:
    """Return all content of the page."""
    mine = partial(read, runs=subject.runs)
    return {
        **_about_history(history(read, up_to(read("runs", columns=COLUMNS), subject))),
        **_about_runs(mine, cut_workers(read, subject.runs)),
        **_about_tests(mine, subject.runs),
        **_about_messages(mine),
        **_about_queues(mine),
        **_about_flows(mine),
        "slowest": _slowest(mine("latency_hist", columns=("vhost", "queue", "measure", "bucket", "n"))),
        **_about_coverage(read, mine),
        **_about_flaky(read, subject),
        **_about_violations(mine),
        **(_about_differences(read, against, subject) if against is not None else {}),
    }


def _about_runs(mine: Mine, cut: Collection[tuple[str, str]]) -> Answers:
    rows = mine("runs", columns=(*_OF_RUNS, "events", "files")).to_pylist()
    for row in rows:
        row["is_cut"] = (row["run"], row["worker"]) in cut
    used = [row for row in rows if (row["files"] or 0) > 0]
    totals = {
        "runs": len({row["run"] for row in rows}),
        "workers": len(rows),
        "events": sum(row["events"] or 0 for row in rows),
        "virtual": any(row["clock"] == "virtual" for row in rows),
        "is_cut": any(row["is_cut"] for row in rows),
    }
    return {"runs": _top(used, ("-started", "run", "worker"), RUNS_SHOWN), "run_totals": totals}


def _about_tests(mine: Mine, runs: Sequence[str]) -> Answers:
    columns = (
        "run",
        "worker",
        "test",
        "outcome",
        "duration",
        "retries",
        "failures",
        "published",
        "error",
        "page",
        "page_hash",
    )
    rows = mine("tests", columns=columns)
    outcome = rows["outcome"].cast(pa.string())
    has_failed = pc.or_kleene(pc.is_in(outcome, value_set=pa.array(FAILURES)), pc.is_null(outcome))
    has_failed = pc.or_(has_failed, pc.greater(rows["failures"].fill_null(0), 0))
    outcomes = grouped(rows, ("outcome",), sums=("failures", "retries", "published", "duration"))
    return {
        "outcomes": _top(outcomes, ("-count", "outcome")),
        "test_totals": {
            "tests": _different(rows["test"]),
            "failed": _different(rows["test"].filter(pc.is_in(outcome, value_set=pa.array(FAILURES)))),
            "unended": _different(rows["test"].filter(pc.is_null(outcome))),
        },
        "failed": _each_test_once(rows.filter(has_failed), runs),
    }


def _different(names: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(names.cast(pa.string()), mode="all").as_py())


def _each_test_once(failed: pa.Table, runs: Sequence[str]) -> list[Row]:
    """Return a row for each test that failed: that of its last run, and the number of runs in which it failed."""
    order = {run: position for position, run in enumerate(runs)}
    by_test: dict[str, list[Row]] = defaultdict(list)
    for row in failed.to_pylist():
        by_test[row["test"]].append(row)
    tests: list[Row] = []
    for rows in by_test.values():
        last = max(rows, key=lambda row: (order[row["run"]], row["worker"]))
        last["failed_runs"] = len({row["run"] for row in rows})
        last["has_recovered"] = last["outcome"] not in (*FAILURES, None)
        last["link"] = None
        tests.append(last)
    return _top(tests, ("has_recovered", "-failed_runs", "test"))


def _about_messages(mine: Mine) -> Answers:
    faults = grouped(mine("fault_effect", columns=("fault", "on", "struck")), ("fault", "on"), sums=["struck"])
    return {
        "fates": _top(grouped(mine("messages", columns=["outcome"]), ["outcome"]), ("-count", "outcome")),
        "dropped": _top(_dropped(mine), ("-count", "exchange", "routing_key", "reason"), DROPPED_SHOWN),
        "faults": _top(faults, ("-struck", "fault"), 10),
    }


def _dropped(mine: Mine) -> list[Row]:
    """Count the dropped messages by exchange, routing key and reason."""
    messages = mine(
        "messages",
        columns=("run", "worker", "msg", "vhost", "exchange", "routing_key", "confirmed"),
        where={"outcome": ["dropped"]},
    )
    if not len(messages):
        return []
    drops = mine("events", columns=("run", "worker", "msg", "reason"), where={"kind": ["dropped"]})
    reasons: dict[tuple[Any, ...], str | None] = {}
    for *message, reason in _tuples(drops):
        before = reasons.get(tuple(message))
        reasons[tuple(message)] = reason if before is None or (reason is not None and reason > before) else before
    counts: Counter[tuple[Any, ...]] = Counter()
    for run, worker, msg, vhost, exchange, key, confirmed in _tuples(messages):
        counts[vhost, exchange, key, reasons.get((run, worker, msg)), confirmed is False] += 1
    names = ("vhost", "exchange", "routing_key", "reason", "is_nacked")
    return [{**dict(zip(names, values, strict=True)), "count": count} for values, count in counts.items()]


def _about_queues(mine: Mine) -> Answers:
    columns = ("run", "worker", "test", "vhost", "queue", *_OF_QUEUES, *_DEATHS, "max_depth")
    rows = mine("test_queues", columns=columns)
    queues = grouped(rows, ("vhost", "queue"), sums=(*_OF_QUEUES, *_DEATHS), highest=["max_depth"], different=["test"])
    for row in queues:
        row["dead"] = sum(row.pop(name) for name in _DEATHS)
        row["tests"] = row.pop("different_test")
        row["trouble"] = row["leaked"] + row["dropped"] + row["dead"] + row["redeliveries"]
    left = rows.filter(pc.greater(rows["leaked"], 0))
    totals = {
        "queues": len(queues),
        "leaving": _different(left["test"]),
        **{name: sum(row[name] for row in queues) for name in (*_OF_QUEUES, "dead")},
    }
    redelivered = [{"queue": label(row), "n": row["redeliveries"]} for row in queues if row["redeliveries"]]
    return {
        "queues": _top(queues, ("-trouble", "-copies", "queue"), QUEUES_SHOWN),
        "queue_totals": totals,
        "leavers": _top(
            grouped(left, ("test", "vhost", "queue"), sums=["leaked"]), ("-leaked", "test", "queue"), LEAVERS_SHOWN
        ),
        "redelivered": _top(redelivered, ("-n", "queue"), FLOWS_SHOWN),
    }


def _about_flows(mine: Mine) -> Answers:
    way = ("vhost", "from_queue", "reason", "to_queue")
    flows = grouped(mine("run_lineage", columns=("test", *way, "n")), way, sums=["n"], different=["test"])
    for row in flows:
        for name in ("from_queue", "to_queue"):
            row[name] = row[name] and label({"vhost": row["vhost"], "queue": row[name]})
    totals = {"flows": len(flows), "n": sum(row["n"] for row in flows)}
    return {"flows": _top(flows, ("-n", *way), FLOWS_SHOWN), "flow_totals": totals}


def _slowest(latency_hist: pa.Table) -> list[Row]:
    """Return a row for each queue, the slowest first, with the times that its copies waited and were processed."""
    measured: dict[tuple[Any, ...], dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for row in grouped(latency_hist, ("vhost", "queue", "measure", "bucket"), sums=["n"]):
        measured[row["vhost"], row["queue"]][row["measure"]].append((row["bucket"], row["n"]))
    rows = [
        {"vhost": vhost, "queue": queue, **{name: _times(of_queue.get(name, [])) for name in ("wait", "process")}}
        for (vhost, queue), of_queue in measured.items()
    ]
    for row in rows:
        row["slowness"] = max((times["most_us"] for times in (row["wait"], row["process"]) if times), default=-1)
    return _top(rows, ("-slowness", "queue"), SLOWEST_SHOWN)


def _times(buckets: Sequence[tuple[int, int]]) -> Row | None:
    """Return the number of values, the spans within which half, 95 % and all of them are, and bins for a histogram."""
    if not buckets:
        return None
    ordered = sorted(buckets)
    return {
        "n": sum(n for _, n in ordered),
        "half_us": within(ordered, 0.5),
        "most_us": within(ordered, 0.95),
        "longest_us": within(ordered, 1),
        "bins": sorted(_binned(ordered).items()),
    }


def _binned(buckets: Iterable[tuple[int, int]]) -> Counter[int]:
    """Sum the values of buckets by the bin in which a bucket is drawn."""
    bins: Counter[int] = Counter()
    for bucket, n in buckets:
        bins[max(math.floor((bucket - 0.5) * BINS_A_DECADE * math.log10(GROWTH)), 0)] += n
    return bins


def _about_coverage(read: Read, mine: Mine) -> Answers:
    columns = ("kind", "name", "declared", "messages")
    here = grouped(mine("run_coverage", columns=columns), ("kind", "name"), sums=["messages"], highest=["declared"])
    declared = {(row["kind"], row["name"]): row for row in here if row["declared"]}
    everywhere = {(row["kind"], row["name"]): row for row in read("coverage").to_pylist()} if declared else {}
    kinds: dict[str, Row] = {}
    for (kind, name), row in declared.items():
        of_kind = kinds.setdefault(kind, {"declared": 0, "unused": 0, "never": 0, "names": []})
        of_kind["declared"] += 1
        if row["messages"] == 0:
            runs_with_use = everywhere[kind, name]["exercised_in"]
            of_kind["unused"] += 1
            of_kind["never"] += runs_with_use == 0
            of_kind["names"].append({"name": name, "runs": runs_with_use})
    for of_kind in kinds.values():
        of_kind["names"] = _top(of_kind["names"], ("runs", "name"), UNUSED_SHOWN)
    runs = read("runs", columns=("run", "files"))
    used = {run for run, files in _tuples(runs) if run and (files or 0) > 0}
    return {"coverage": kinds, "coverage_runs": len(used)}


def _about_flaky(read: Read, subject: Subject) -> Answers:
    every = read("flaky")
    of_commits = every.filter(pc.is_valid(every["commit"]))
    flaky = of_commits.filter(pc.greater(of_commits["behaviours"], 1)).to_pylist()
    for row in flaky:
        row["is_other"] = row["commit"] != subject.commit
    shown = _top(flaky, ("is_other", "-entropy", "test", "commit"), FLAKY_SHOWN)
    if shown:
        _add_behaviours(read, shown)
    repeated = _different(of_commits["test"].filter(pc.greater(of_commits["runs"], 1)))
    tests = len({row["test"] for row in flaky})
    return {"flaky": shown, "flaky_totals": {"tests": tests, "rows": len(flaky), "repeated": repeated}}


def _add_behaviours(read: Read, shown: Sequence[Row]) -> None:
    """Set `kinds` of each test: what happened in its first differing queue, the most frequent behaviour first."""
    queues = {(row["commit"], row["test"]): row["first_differing_queue"] for row in shown}
    rows = read(
        "fingerprints",
        columns=("run", "commit", "test", "outcome", "parts"),
        where={"commit": {commit for commit, _ in queues}, "test": {test for _, test in queues}},
    ).to_pylist()
    runs: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    outcomes: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        key = (row["commit"], row["test"])
        if key not in queues or row["outcome"] is None:
            continue
        parts = json.dumps([part for part in row["parts"] or [] if part["queue"] == queues[key]])
        runs[key][parts].add(row["run"])
        outcomes[*key, parts].add(row["outcome"])
    for row in shown:
        key = (row["commit"], row["test"])
        by_runs = sorted(runs[key].items(), key=lambda pair: (-len(pair[1]), pair[0]))
        row["kinds_total"] = len(by_runs)
        row["kinds"] = [
            {"parts": json.loads(parts), "runs": len(of), "outcomes": sorted(outcomes[*key, parts])}
            for parts, of in by_runs[:BEHAVIOURS_SHOWN]
        ]


def _about_violations(mine: Mine) -> Answers:
    violations = mine("violations", columns=_IN_VIOLATIONS)
    rules = grouped(violations, ["rule"], different=["test", "queue"])
    order = ("run", "worker", "test", "msg", "copy")
    cases: list[Row] = []
    for rule in rules:
        of_rule = violations.filter(pc.equal(violations["rule"], rule["rule"]))
        first = _first(of_rule, order, VIOLATIONS_OF_A_RULE).to_pylist()
        cases += [{**row, "position": position} for position, row in enumerate(first)]
    shown = _top(cases, ("position", "rule"), VIOLATIONS_SHOWN)
    _add_lives(mine, shown)
    return {"rules": _top(rules, ("-count", "rule"), 100), "violations": shown}


def _first(rows: pa.Table, by: Sequence[str], limit: int) -> pa.Table:
    """Return the first rows in this order; a null comes first."""
    keys = pa.table({name: _sortable(rows[name]) for name in by})
    order = pc.sort_indices(keys, [(name, "ascending") for name in by])
    return rows.take(order[:limit])


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.fill_null(NULL) if pa.types.is_integer(column.type) else column.cast(pa.string()).fill_null("")


def _about_differences(read: Read, left: Subject, right: Subject) -> Answers:
    compared = diff(read, left, right)
    # The first two lines say what is compared.
    return {"compared": compared, "differences": lines(compared)[2:]}


def _about_history(past: History) -> Answers:
    """Return what changed over the last runs, and lines for the queues and marks for the tests in which it did."""
    position = {run: at for at, run in enumerate(past.runs)}
    changes = [(row, cause.run) for cause in past.causes for row in cause.changes]
    since = {(label(row), row["measure"]): position.get(run or "") for row, run in reversed(changes) if row["queue"]}
    outcomes = chosen(past.counts, {"measure": ["outcome"]})
    tests: dict[str, list[str | None]] = defaultdict(lambda: [None] * len(position))
    for row in grouped(outcomes, ("run", "test"), highest=["n"]):
        tests[row["test"]][position[row["run"]]] = OUTCOMES[row["n"]]
    queues: dict[str, dict[str, list[int]]] = defaultdict(lambda: {name: [0] * len(position) for name in LINES})
    of_queues = chosen(past.counts, {"measure": LINES}).filter(pc.field("queue").is_valid())
    for row in grouped(of_queues, ("run", "vhost", "queue", "measure"), sums=["n"]):
        queues[label(row)][row["measure"]][position[row["run"]]] += row["n"]
    lines_of_queues = [
        {
            "queue": queue,
            "has_changed": any((queue, name) in since for name in LINES),
            "unrest": sum(left != right for name in LINES for left, right in pairwise(of_queue[name])),
            "lines": [{"values": of_queue[name], "since": since.get((queue, name))} for name in LINES],
        }
        for queue, of_queue in queues.items()
        # A queue that only one run had has a name made by chance.
        if sum(map(any, zip(*of_queue.values(), strict=True))) > 1
    ]
    changed_tests = {row["test"] for row, _ in changes if row["measure"] == "outcome"}
    marks_of_tests = [
        {"test": test, "has_changed": test in changed_tests, "failed": failed, "marks": marks}
        for test, marks in tests.items()
        if (failed := sum(mark in FAILURES for mark in marks)) or test in changed_tests
    ]
    return {
        "history": past,
        "queue_lines": _top(lines_of_queues, ("-has_changed", "-unrest", "queue"), LINES_SHOWN),
        "test_marks": _top(marks_of_tests, ("-has_changed", "-failed", "test"), LINES_SHOWN),
    }


def _add_lives(mine: Mine, violations: Sequence[Row]) -> None:
    """Set `life` of each violation: the events of its message, and the events that its text names.

    A life has at most `LIFE_SHOWN` events, those of the copy in question first. `events` is the number of all.
    """
    if not violations:
        return
    runs = {row["run"] for row in violations}
    named = {seq for row in violations for seq in row["seqs"] or ()}
    events = {
        (row["run"], row["worker"], row["seq"]): row
        for name, values in (("msg", {row["msg"] for row in violations}), ("seq", named))
        if values
        for row in mine("events", runs=runs, columns=_OF_LIVES, where={name: values}).to_pylist()
    }
    for violation in violations:
        file, message = (violation["run"], violation["worker"]), violation["msg"]
        named = set(violation["seqs"] or ())
        its = [
            event
            for event in events.values()
            if (event["run"], event["worker"]) == file and (event["msg"] == message or event["seq"] in named)
        ]
        violation["life"] = _life(violation, its, named)
        violation["events"] = len(its)


def _life(violation: Row, events: Sequence[Row], named: Collection[int]) -> list[Row]:
    def is_near(event: Row) -> bool:
        return event["copy"] in (None, violation["copy"]) or event["seq"] in named

    marked = _MARKED.get(violation["rule"], ())
    shown = sorted(events, key=lambda event: (not is_near(event), event["seq"]))[:LIFE_SHOWN]
    shown.sort(key=lambda event: event["seq"])
    life = []
    for event in shown:
        is_other = event["msg"] != violation["msg"]
        is_its = not is_other and event["copy"] in (None, violation["copy"])
        is_marked = event["seq"] in named or (is_its and event["kind"] in marked)
        after_us = None if event["ts"] is None else event["ts"] - (shown[0]["ts"] or 0)
        life.append({**event, "is_other": is_other, "is_marked": is_marked, "after_us": after_us})
    return life


def _top(rows: Collection[Row], by: Sequence[str], limit: int | None = None) -> list[Row]:
    """Return the first rows sorted `by` these columns; "-n" sorts by n, greatest first. None is the least value."""
    ordered = list(rows)
    for name in reversed(by):
        key = name.removeprefix("-")
        ordered.sort(key=lambda row: (row[key] is not None, row[key]), reverse=name.startswith("-"))
    return ordered[:limit]


def _tuples(rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)
