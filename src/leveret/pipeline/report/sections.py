"""The sections below the first screen: each answers one question, and says why if it is empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from leveret.pipeline.grouping import Row
from leveret.pipeline.report import flow as flow_picture
from leveret.pipeline.report.blocks import count, empty, heading, more, note, section, table, text
from leveret.pipeline.report.charts import Axis, Share, axis_labels, axis_of, histogram, shares
from leveret.pipeline.report.findings import Answers, named_events, span_of
from leveret.pipeline.report.flow import Way
from leveret.pipeline.report.life import in_words
from leveret.pipeline.report.markup import Html, code, element, joined
from leveret.pipeline.report.subject import Subject
from leveret.pipeline.report.words import GLOSSARY, NONE, RULES, counted, number, span
from leveret.pipeline.wording import copies, measure, thing
from leveret.trace.events import DELIVERIES

_UNKNOWN: Final = "(unknown)"
_KINDS: Final = {
    "exchange": ("exchanges", "no message was published to them"),
    "queue": ("queues", "no message reached them"),
    "binding": ("bindings", "no message used them"),
    "dlx": ("dead-letter exchanges of queues", "no message was dead-lettered to them"),
    "consumer": ("queues with a consumer", "their consumers got no message"),
}
_SIDES: Final = {
    "test": "tests: their outcomes, and what happened in their queues",
    "violations": "broken rules",
    "queue": "queues",
    "dead letters": "dead letters",
    "coverage": "use of what was declared, in messages",
}
_OPEN_LIVES: Final = 3
# The flaky tests that are named beside the differences that come from them.
_FLAKY_NAMED: Final = 10
# With fewer copies, the 95th percentile would be the longest span.
_ENOUGH_FOR_SHARES: Final = 20
_SHORTEST_US: Final = 1000
# The kinds of events to mark in the life of a copy, for rules whose text does not name events.
_MARKED: Final = {
    "acked_twice": ("acked",),
    "redelivered_flag_wrong": DELIVERIES,
    "duplicate_enqueue": ("enqueued",),
    "delivered_to_closed_channel": DELIVERIES,
    "prefetch_exceeded": DELIVERIES,
    "confirm_missing": ("published",),
}


def violations(answers: Answers) -> Html:
    """Return the section on broken rules, with the lives of messages that broke them."""
    purpose = (
        "A rule holds for every message of a correct program on a correct broker. Each case below names its test and "
        "lists the events of its message. Read them up to the marked line, and fix what led there."
    )
    rules, shown = answers["rules"], answers["violations"]
    if not rules:
        return section("violations", "Broken rules", purpose, empty("Every message of this run kept all rules."))
    rows = [
        (
            heading(element("b", RULES.get(row["rule"], (row["rule"],))[0])),
            text(RULES.get(row["rule"], ("", "This is a rule of your own. Each case shows its text."))[1]),
            count(row["count"], is_hot=True),
            count(row["different_test"]),
        )
        for row in rules
    ]
    lives: dict[int, list[Row]] = defaultdict(list)
    for event in answers["lives"]:
        lives[event["violation"]].append(event)
    cases = [_case(row, lives[place], place < _OPEN_LIVES) for place, row in enumerate(shown)]
    total = sum(row["count"] for row in rules)
    return section(
        "violations",
        "Broken rules",
        purpose,
        table(["what is wrong", "what to do", "#cases", "#tests"], rows),
        element("h3", f"{counted(len(cases), 'case')} of {number(total)}, a few of each rule"),
        *cases,
        more(len(cases), total, "case", "; the table “violations” has all"),
    )


def _case(row: Row, events: list[Row], is_open: bool) -> Html:
    where = joined(" in ", code(row["queue"])) if row["queue"] is not None else None
    test = joined("in ", code(row["test"], 110)) if row["test"] is not None else joined("outside any test")
    meaning = RULES.get(row["rule"], (row["rule"],))[0].removesuffix(".")
    summary = element("summary", element("b", meaning), where, ", ", test)
    body = element("div", element("p", _subject_of(row), ": ", row["text"], "."), _life(row, events))
    return element("details", summary, body, open="" if is_open else None)


def _subject_of(row: Row) -> str:
    copy = "" if row["copy"] is None else f", copy {row['copy']}"
    return f"Message {row['msg']}{copy} of run {row['run']}, worker {row['worker']}"


def _life(row: Row, events: list[Row]) -> Html:
    if not events:
        return empty("Its events are no longer stored.")
    named = set(named_events(row["text"]))
    first = events[0]["ts"] or 0
    lines = []
    for event in events:
        is_other = event["msg"] != row["msg"]
        is_its = not is_other and event["copy"] in (None, row["copy"])
        is_named = event["seq"] in named or (is_its and event["kind"] in _MARKED.get(row["rule"], ()))
        sentence = joined(f"another message, {event['msg']}: ", in_words(event)) if is_other else in_words(event)
        when = None if event["ts"] is None else "start" if event["ts"] == first else f"+{span(event['ts'] - first)}"
        cells = (
            element("span", when, class_="when"),
            element("span", f"#{event['seq']}", class_="seq"),
            element("span", sentence),
        )
        lines.append(element("li", *cells, class_="named" if is_named else None))
    total = events[0]["total"]
    return joined(element("ol", *lines, class_="life"), more(len(events), total, "event", " of this message"))


def flaky(answers: Answers) -> Html:
    """Return the section on tests that behaved differently on one commit."""
    purpose = (
        "A test is flaky here if its messages behaved differently in runs of one commit, whether it passed or not. "
        "That is often the first sign of a race. Look at the queue in which the runs differ, and make the test wait "
        "for what it expects there."
    )
    rows, totals = answers["flaky"], answers["flaky_totals"][0]
    if not rows:
        if totals["repeated"]:
            why = f"{counted(totals['repeated'], 'test')} ran more than once on a commit, and did the same every time."
        else:
            why = (
                "No test has run twice on a known commit yet (a run knows its commit from the CI service or from git). "
                "Record several runs of one commit into the same folder of traces or warehouse; this section then "
                "lists the tests that differ."
            )
        return section("flaky", "Flaky tests", purpose, empty(why))
    behaviours: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in answers["behaviours"]:
        behaviours[row["commit"], row["test"]].append(row)
    cells = [
        (
            heading(code(row["test"], 80), element("br"), _on_commit(row["commit"])),
            count(row["runs"]),
            count(row["behaviours"]),
            text(code(row["first_differing_queue"], 50)),
            text(*[_behaviour(each) for each in behaviours[row["commit"], row["test"]]], _others(row, behaviours)),
        )
        for row in rows
    ]
    headings = ["test", "#runs", "#behaviours", "differs first in", "what happened in that queue"]
    return section(
        "flaky",
        "Flaky tests",
        purpose,
        table(headings, cells),
        more(len(rows), totals["found"], "test on a commit", ", also flaky"),
    )


def _on_commit(commit: str) -> Html:
    return element("span", f"commit {commit[:12]}", class_="quiet small")


def _behaviour(row: Row) -> Html:
    ends = "" if row["outcomes"] in ([], ["passed"]) else f" ({', '.join(row['outcomes'])})"
    flow = ", ".join(map(copies, row["parts"] or [])) or "no message reached it"
    return element("div", f"{counted(row['runs'], 'run')}: {flow}{ends}")


def _others(row: Row, behaviours: dict[tuple[str, str], list[Row]]) -> Html | None:
    shown = behaviours[row["commit"], row["test"]]
    return more(len(shown), shown[0]["kinds"], "behaviour") if shown else None


def compared(answers: Answers, subject: Subject, against: Subject | None) -> Html:
    """Return the section on differences from an earlier run or commit."""
    purpose = (
        "What changed since an earlier run of the suite. Look for changes that you did not intend, such as more "
        "messages, other outcomes or a queue that is no longer used. Times are not compared. For a commit, the numbers "
        "here are means over its runs; all other sections add them up."
    )
    if against is None:
        why = (
            "There is no earlier run to compare with. Record another one into the same folder of traces or warehouse, "
            "or name two with --run and --against."
        )
        return section("comparison", "Compared with before", purpose, empty(why))
    left, right = f"before: {_named(against)}", f"now: {_named(subject)}"
    rows = answers["differences"]
    before, now = answers["sides"]
    both = element("p", "Before: ", code(before["text"], 200), ". Now: ", code(now["text"], 200), ".")
    if before["has_cut"] or now["has_cut"]:
        both = note("Before: ", before["text"], ". Now: ", now["text"], ".")
    if not rows:
        why = "Both did the same: the same messages in the same queues, with the same outcomes."
        if answers["flaky_differences"]:
            why = "Only tests that are known to be flaky differ."
        return section("comparison", "Compared with before", purpose, both, empty(why), _of_flaky(answers, left, right))
    blocks: list[Html | None] = [both]
    for side, of_side in groupby(sorted(rows, key=_side_order), key=lambda row: str(row["side"])):
        shown = list(of_side)
        title = _SIDES.get(side, side)
        blocks.append(element("h3", f"{title[0].upper()}{title[1:]}"))
        blocks.append(_differences(shown, left, right))
        blocks.append(more(len(shown), shown[0]["of_side"], "difference", " of this kind"))
    return section("comparison", "Compared with before", purpose, *blocks, _of_flaky(answers, left, right))


def _differences(rows: Sequence[Row], left: str, right: str) -> Html:
    cells = [
        (
            heading(code(_what(row), 80)),
            text(_measure(row["side"], row["difference"])),
            element("td", row["left"] or NONE, class_="from"),
            element("td", row["right"] or NONE, class_="to"),
        )
        for row in rows
    ]
    return table(["where", "what", left, right], cells)


def _of_flaky(answers: Answers, left: str, right: str) -> Html | None:
    """Return the differences that come from flaky tests, folded."""
    rows, totals = answers["flaky_differences"], answers["flaky_difference_totals"][0]
    if not rows:
        return None
    tests = totals["tests"]
    title = f"{counted(totals['count'], 'more difference')} from {counted(len(tests), 'test')} known to be flaky"
    names = joined(*[joined(", " if at else "", code(name, 80)) for at, name in enumerate(tests[:_FLAKY_NAMED])])
    block = joined(
        element("p", names, more(_FLAKY_NAMED, len(tests), "test")),
        _differences(rows, left, right),
        more(len(rows), totals["count"], "difference"),
    )
    return _folded(title, block)


def _named(subject: Subject) -> str:
    return subject.name[:12] if subject.is_commit else subject.name


def _side_order(row: Row) -> tuple[int, int]:
    sides = list(_SIDES)
    return (sides.index(row["side"]) if row["side"] in sides else len(sides), row["place"])


def _measure(side: str, difference: str) -> str:
    if side == "violations":
        return RULES.get(difference, (difference,))[0].removesuffix(".")
    return measure(difference)


def _what(row: Row) -> str | None:
    return thing(row["difference"], row["queue"] or "") if row["side"] == "coverage" else row["queue"]


def queues(answers: Answers) -> Html:
    """Return the section on the copies in each queue and how they ended."""
    purpose = (
        "The copies of messages in each queue, and how they ended. A copy that is left over when a test ends was "
        "forgotten, unless the test is about that. A dropped copy is lost."
    )
    rows, totals = answers["queues"], answers["queue_totals"][0]
    if not rows:
        return section("queues", "Queues", purpose, empty("No message reached a queue."))
    cells = [
        (
            heading(_queue(row)),
            text(shares(_ends(row), "copies", 150, 10)),
            count(row["tests"]),
            count(row["copies"]),
            count(row["acked"]),
            count(row["redeliveries"]),
            count(row["dead"]),
            count(row["dropped"], is_hot=True),
            count(row["leaked"], is_hot=True),
            count(row["max_depth"]),
        )
        for row in rows
    ]
    headings = [
        *(
            "queue",
            "how copies ended",
            "#tests",
            "#copies",
            "#acknowledged",
            "#redelivered",
            "#dead-lettered",
            "#dropped",
        ),
        *("#left over", "#depth"),
    ]
    caption = (
        "Each test has queues of its own; a row adds up those with the same name. Queues with the most problems come "
        "first. Redelivered counts deliveries after a copy's first one. Depth is "
        "the greatest number of copies in the queue at the same time in one test. Bars: green is acknowledged, pink "
        "dead-lettered, orange dropped, yellow left over, grey anything else."
    )
    of_queues = more(len(rows), totals["queues"], "queue")
    return section("queues", "Queues", purpose, table(headings, cells, caption), of_queues, *_leavers(answers))


def _leavers(answers: Answers) -> list[Html]:
    """Return a table of the tests that left messages over, those with the most first."""
    rows = answers["leavers"]
    if not rows:
        return []
    cells = [
        (heading(code(row["test"] or "outside of tests", 100)), text(_queue(row)), count(row["leaked"])) for row in rows
    ]
    caption = (
        "The tests that left the most. The check left_ready, --leveret-checks=left_ready=error, makes such a test fail."
    )
    return [element("h3", "Left over by"), table(("test", "queue", "#copies left over"), cells, caption)]


def _ends(row: Row) -> list[Share]:
    known = [
        Share("acknowledged", row["acked"], "good-part"),
        Share("dead-lettered", row["dead"], "pink-part"),
        Share("dropped", row["dropped"], "bad-part"),
        Share("left over", row["leaked"], "wait-part"),
    ]
    rest = max(0, row["copies"] - sum(part.n for part in known))
    return [*known, Share("expired or removed", rest, "grey-part")]


def _queue(row: Row) -> Html:
    if row["vhost"] in (None, "/"):
        return code(row["queue"], 60)
    return joined(code(row["queue"], 60), " ", element("span", "in ", code(row["vhost"], 30), class_="quiet"))


def slowest(answers: Answers) -> Html:
    """Return the section on how long copies waited and were processed."""
    purpose = (
        "How long copies waited in a queue before their first delivery, and how long they were processed after it. If "
        "waits are long, add consumers or raise the prefetch. If processing takes long, look at the handler."
    )
    rows = answers["slowest"]
    if not rows:
        why = "No copy was delivered, or the trace has no times (RabbitMQ's firehose has none)."
        return section("slowest", "Slowest queues", purpose, empty(why))
    axis = axis_of(each["bin"] for row in rows for each in row["bins"])
    cells = [
        (heading(_queue(row)), *[_measured(row, measure, axis) for measure in ("wait", "process")]) for row in rows
    ]
    moved = None
    if answers["run_totals"][0]["virtual"]:
        moved = note(
            "Times are those of the broker's clock, which tests of this run held and moved forward: a retry that waits "
            "half an hour may have taken no real time. They show how long the broker was set to wait, not how fast the "
            "code is."
        )
    headings = [
        "queue",
        joined("waited", axis_labels(axis)),
        joined("processed", axis_labels(axis)),
    ]
    caption = "A row adds up the queues with one name, of all tests. Bars: number of copies, by time."
    if any(_has_marks(bins) for row in rows for bins in _bins(row).values()):
        caption += " Dashed line: half of them were faster. Full line: 95 of 100 were."
    total = answers["queue_totals"][0]["queues"]
    return section(
        "slowest", "Slowest queues", purpose, moved, table(headings, cells, caption), more(len(rows), total, "queue")
    )


def _within(us: float | None) -> str:
    shown = _measure_of(us)
    return f"in {shown}" if shown.startswith("<") else f"within {shown}"


def _measure_of(us: float | None) -> str:
    """Return a measured span. Below a millisecond it depends on which bytes arrived together, so it is not exact."""
    return "< 1 ms" if us is not None and us < _SHORTEST_US else span(us)


def _measured(row: Row, measure: str, axis: Axis) -> Html:
    bins = _bins(row)[measure]
    if not bins:
        return text(element("span", "none was settled" if measure == "process" else "none", class_="none"))
    half, most, longest = (span_of(row[f"{measure}_{name}"]) for name in ("p50", "p95", "top"))
    n = sum(n for _, n in bins)
    summary = f"longest {_measure_of(longest)}"
    if n > 1:
        summary = f"half {_within(half)}, {summary}"
    if _has_marks(bins):
        summary = f"half {_within(half)}, 95 of 100 {_within(most)}, longest {_measure_of(longest)}"
    title = f"{row['queue']}, {measure}: {n} copies, {summary}"
    label = element("div", f"{counted(n, 'copy', 'copies')}: {summary}", class_="quiet small")
    return text(histogram(axis, bins, (half, most) if _has_marks(bins) else (), title), label)


def _bins(row: Row) -> dict[str, list[tuple[int, int]]]:
    """Return the bins of each histogram of a queue, with the number of copies in them."""
    found: dict[str, list[tuple[int, int]]] = {"wait": [], "process": []}
    for each in row["bins"]:
        found[each["measure"]].append((each["bin"], each["n"]))
    return found


def _has_marks(bins: Sequence[tuple[int, int]]) -> bool:
    return sum(n for _, n in bins) >= _ENOUGH_FOR_SHARES


def flow(answers: Answers) -> Html:
    """Return the section on where dead letters came from and went."""
    purpose = (
        "Where messages went that were not acknowledged. An arrow shows the dead letters from one queue to another, "
        "with the reason; a thicker arrow means more of them. A box stands for the queues with one name, of all tests. "
        "Look for arrows that you did not plan, and for arrows that are busier than you expected."
    )
    flows = answers["flows"]
    between: dict[tuple[str, str], list[tuple[str | None, int]]] = defaultdict(list)
    for row in flows:
        between[row["from_queue"] or _UNKNOWN, row["to_queue"]].append((row["reason"], row["n"]))
    ways = [Way(*ends, tuple(reasons)) for ends, reasons in between.items()]
    again = {row["queue"]: row["n"] for row in answers["redelivered"]}
    dead = answers["queue_totals"][0]["dead"] or 0
    total = answers["flow_totals"][0]
    blocks: list[Html | None] = []
    if ways:
        blocks.append(element("div", flow_picture.picture(ways, again), class_="scroll", tabindex=0, role="group"))
        reasons = (
            "Queue full: the queue had reached its maximum length. Delivery limit: the queue had delivered the message "
            "as often as it allows. Expired: its time to live was over. Rejected: a consumer rejected it and did not "
            "requeue it."
        )
        blocks.append(element("p", reasons, class_="quiet small"))
        blocks.append(more(len(flows), total["flows"], "way", ", used less"))
        gone = dead - (total["n"] or 0)
        if gone > 0:
            blocks.append(element("p", f"{counted(gone, 'more dead letter')} reached no queue.", class_="quiet"))
        rows = [
            (
                heading(code(row["from_queue"] or _UNKNOWN, 60)),
                text(code(row["to_queue"], 60)),
                text(
                    element("span", "●", class_=flow_picture.class_of(row["reason"]), aria_hidden="true"),
                    " ",
                    flow_picture.in_words(row["reason"]),
                ),
                count(row["n"]),
                count(row["different_test"]),
            )
            for row in flows
        ]
        blocks.append(_folded("The same as a table", table(["from", "to", "why", "#dead letters", "#tests"], rows)))
    elif dead:
        blocks.append(empty(f"{counted(dead, 'message')} dead-lettered, and no queue took any of them."))
    else:
        blocks.append(empty("No message of this run was dead-lettered."))
    drawn = {name for way in ways for name in (way.source, way.target)}
    rest = [(name, n) for name, n in again.items() if name not in drawn]
    if rest:
        items = [joined(code(name, 50), f" ({counted(n, 'time')})") for name, n in rest]
        names = joined(*[joined(", " if at else "", item) for at, item in enumerate(items)])
        blocks.append(element("p", "Redelivered, in queues without dead letters: ", names, "."))
    return section("flow", "Dead letters and redeliveries", purpose, *blocks)


def _folded(title: str, block: Html) -> Html:
    return element("details", element("summary", title), element("div", block))


def coverage(answers: Answers) -> Html:
    """Return the section on what was declared and never used."""
    runs = answers["coverage_runs"][0]["runs"]
    purpose = (
        f"What programs or tests declared but no message used, in any of {counted(runs, 'run')}. Either a test is "
        "missing, or the declaration is not needed and can be removed."
    )
    counts = {row["kind"]: row for row in answers["coverage"]}
    if not counts:
        why = "Nothing was declared: no exchange, queue, binding or consumer."
        return section("coverage", "Never used", purpose, empty(why))
    parts = [
        (
            heading(_KINDS.get(kind, (kind,))[0]),
            text(
                shares(
                    [
                        Share("used", row["declared"] - row["unused"], "good-part"),
                        Share("used in other runs only", row["unused"] - row["never"], "blue-part"),
                        Share("never used", row["never"], "wait-part"),
                    ],
                    kind,
                    150,
                    10,
                )
            ),
            count(row["declared"]),
            count(row["declared"] - row["unused"]),
            count(row["unused"] - row["never"]),
            count(row["never"], is_hot=True),
        )
        for kind, row in sorted(counts.items(), key=lambda pair: _kind_order(pair[0]))
    ]
    headings = ["what", "used or not", "#declared", "#used", "#used in other runs only", "#never used"]
    blocks: list[Html | None] = [table(headings, parts, f"Used or not, in {counted(runs, 'run')}.")]
    unused = defaultdict(list)
    for row in answers["unused"]:
        unused[row["kind"]].append(row)
    if not unused:
        blocks.append(empty("Messages used everything that was declared."))
    for kind in sorted(unused, key=_kind_order):
        never = [row for row in unused[kind] if not row["exercised_in"]]
        elsewhere = [row for row in unused[kind] if row["exercised_in"]]
        what, why = _KINDS.get(kind, (kind, "never used"))
        if never:
            blocks.append(element("h3", f"{what[0].upper()}{what[1:]}: {why}"))
            blocks.append(element("ul", *[element("li", code(row["name"], 110)) for row in never]))
        if elsewhere:
            title = f"{what[0].upper()}{what[1:]} used in other runs only"
            blocks.append(_folded(title, element("ul", *[element("li", code(row["name"], 110)) for row in elsewhere])))
        blocks.append(more(len(unused[kind]), counts[kind]["unused"], "unused one"))
    return section("coverage", "Never used", purpose, *blocks)


def _kind_order(kind: str) -> int:
    return list(_KINDS).index(kind) if kind in _KINDS else len(_KINDS)


def words() -> Html:
    """Return the glossary of the page."""
    items = [joined(element("dt", word), element("dd", meaning)) for word, meaning in GLOSSARY]
    return section(
        "words",
        "The words of this page",
        "For readers who are new to message brokers.",
        element("dl", *items, class_="facts"),
    )
