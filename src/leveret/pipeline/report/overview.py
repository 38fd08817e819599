"""The first screen: what the page is, what stands out, and the runs that it covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leveret.pipeline.grouping import Row
from leveret.pipeline.report.blocks import count, empty, facts, heading, more, note, section, table, text
from leveret.pipeline.report.charts import Share, legend, shares
from leveret.pipeline.report.findings import Answers
from leveret.pipeline.report.markup import Html, code, element, joined
from leveret.pipeline.report.subject import Subject
from leveret.pipeline.report.words import NONE, OUTCOMES, counted, instant, number
from leveret.story.words import why as why_of
from leveret.trace.events import DROPPED

_OUTCOME_COLOURS: Final = {
    "passed": "good-part",
    "failed": "bad-part",
    "error": "pink-part",
    "skipped": "grey-part",
    "xfailed": "blue-part",
    "xpassed": "wait-part",
}
_FATE_COLOURS: Final = {
    "acked": "good-part",
    "open": "wait-part",
    "dropped": "bad-part",
    "dead_lettered": "pink-part",
    "expired": "blue-part",
    "returned": "pink-part",
    "purged": "grey-part",
}
_LONGEST_COMMIT: Final = 12
# The most characters of the first line of an error, and of a whole one.
_LONGEST_LINE: Final = 300
_LONGEST_ERROR: Final = 3000
# Of further failed tests, the page shows the first line of the error only: a thousand may fail at once.
_ERRORS_SHOWN_WHOLE: Final = 40
_FILES_SHOWN: Final = 10


def head(subject: Subject, answers: Answers, against: Subject | None) -> Html:
    """Return the title, an introduction, and tiles with what stands out."""
    totals = answers["run_totals"][0]
    if subject.is_commit:
        what = joined("Commit ", code(subject.name, 40), f", {counted(len(subject.runs), 'run')}")
    else:
        what = joined("Run ", code(subject.name, 60))
    return joined(
        element("h1", "What the messages of the tests did"),
        element(
            "p",
            what,
            f": {counted(totals['events'] or 0, 'event')}. While the tests ran, the broker recorded what happened to "
            "each message. This page shows what deserves a look. Each number below links to its section. ",
            element("a", "The words of this page", href="#words"),
            " are explained at its end.",
            class_="lead",
        ),
        _tiles(answers, against),
    )


def _tiles(answers: Answers, against: Subject | None) -> Html:
    broken = sum(row["count"] for row in answers["rules"])
    flaky = answers["flaky_totals"][0]
    queues = answers["queue_totals"][0]
    unused = sum(row["never"] for row in answers["coverage"])
    leaked = queues["leaked"] or 0
    dead = queues["dead"] or 0
    runs = counted(answers["coverage_runs"][0]["runs"], "run")
    tiles = [
        _tests_tile(answers["test_totals"][0], is_cut=answers["run_totals"][0]["is_cut"]),
        _tile(
            "violations",
            counted(broken, "broken rule"),
            "cases in which a message broke a rule" if broken else "every message kept all rules",
            "bad" if broken else "good",
        ),
        _tile(
            "flaky",
            counted(flaky["tests"], "flaky test"),
            f"messages differ between runs of one commit, of {runs} in all"
            if flaky["tests"]
            else f"none found in {runs}" + ("" if flaky["repeated"] else ": nothing to compare yet"),
            "bad" if flaky["tests"] else "good" if flaky["repeated"] else "plain",
        ),
        _tile(
            "queues",
            f"{counted(leaked, 'copy', 'copies')} left over",
            f"in queues, when {counted(queues['leaving'], 'test')} ended" if leaked else "no test left a message",
            "wait" if leaked else "good",
        ),
        _tile("flow", counted(dead, "dead letter"), "copies that were rejected, expired or did not fit", "plain"),
        _tile(
            "coverage",
            f"{number(unused)} never used",
            f"declared exchanges, queues, bindings and so on, in {runs}",
            "wait" if unused else "good",
        ),
    ]
    if against is not None:
        changed = sum(row["of_side"] for row in answers["differences"] if row["place"] == 1)
        known = answers["flaky_difference_totals"][0]["count"]
        from_where = "from before" + (", without those of flaky tests" if known else "")
        tiles.append(_tile("comparison", counted(changed, "difference"), from_where, "wait" if changed else "good"))
    return element("ul", *tiles, class_="tiles")


def _tests_tile(totals: Row, *, is_cut: bool) -> Html:
    tests, failed, unended = totals["tests"], totals["failed"], totals["unended"]
    about = [counted(tests, "test"), *([f"{number(unended)} without an end"] if unended else [])]
    if is_cut and not unended:
        about.append("a part of the trace is missing")
    if failed:
        return _tile("run", f"{number(failed)} of {number(tests)} failed", ", ".join(about), "bad")
    if unended:
        return _tile("run", f"{number(unended)} without an end", f"of {counted(tests, 'test')}; none failed", "bad")
    if not tests:
        return _tile("run", "No tests", "recorded outside of tests", "plain")
    return _tile("run", "None failed", ", ".join(about), "wait" if is_cut else "good")


def _tile(target: str, figure: str, explanation: str, kind: str) -> Html:
    link = element("a", element("b", figure), element("span", explanation), href=f"#{target}")
    return element("li", link, class_=kind)


def run(subject: Subject, answers: Answers, cut: Sequence[str], refused: Sequence[tuple[str, str]]) -> Html:
    """Return the section on the runs and their tests."""
    return section(
        "run",
        "The run" if not subject.is_commit else "The runs",
        "What ran, where, and how it ended. If a test failed, start with it: the sections below show its messages.",
        _files(cut, refused),
        _facts(answers["runs"], answers["run_totals"][0]),
        more(len(answers["runs"]), answers["run_totals"][0]["workers"], "worker") if len(answers["runs"]) > 1 else None,
        *_tests(answers),
        *_messages(answers),
    )


def _files(cut: Sequence[str], refused: Sequence[tuple[str, str]]) -> Html | None:
    if not cut and not refused:
        return None
    blocks: list[Html | None] = []
    if cut:
        title = element("b", counted(len(cut), "trace file") + " with a part missing")
        why = ": the end, because the process was killed, or damaged lines within. Numbers on this page are too small."
        blocks.append(joined(title, why))
        blocks.append(element("ul", *[element("li", code(path)) for path in cut[:_FILES_SHOWN]]))
        blocks.append(more(_FILES_SHOWN, len(cut), "file"))
    if refused:
        blocks.append(joined(element("b", counted(len(refused), "file") + " that could not be used"), ":"))
        blocks.append(element("ul", *[element("li", code(path), ": ", why) for path, why in refused[:_FILES_SHOWN]]))
        blocks.append(more(_FILES_SHOWN, len(refused), "file"))
    return element("div", *blocks, class_="note")


def _facts(runs: Sequence[Row], totals: Row) -> Html:
    if len(runs) == 1:
        row = runs[0]
        return facts(
            ("started", _started(row)),
            ("commit", _commit(row)),
            ("broker", _broker(row)),
            ("clients", row["client"]),
            ("Python", row["python"]),
            ("seed", None if row["seed"] is None else str(row["seed"])),
            ("clock", _CLOCKS.get(row["clock"], row["clock"])),
            ("events", number(row["events"])),
        )
    rows = [
        (
            heading(code(row["run"]), " ", element("span", row["worker"], class_="quiet")),
            text(_started(row)),
            text(_commit(row)),
            text(_broker(row)),
            text(NONE if row["seed"] is None else str(row["seed"])),
            count(row["events"]),
            text("cut" if row["is_cut"] else "whole"),
        )
        for row in runs
    ]
    return table(["run and worker", "started", "commit", "broker", "seed", "#events", "trace"], rows)


_CLOCKS: Final = {"virtual": "virtual: tests held it and moved it forward", "real": "real"}


def _started(row: Row) -> Html | None:
    short = instant(row["started"])
    return None if short is None else element("time", short, title=row["started"])


def _commit(row: Row) -> Html:
    if row["commit"] is None:
        return element("span", "unknown", class_="none")
    short = element("code", row["commit"][:_LONGEST_COMMIT], title=row["commit"])
    return short if row["branch"] is None else joined(short, " on ", code(row["branch"]))


def _broker(row: Row) -> str:
    broker = row["broker"] or "unknown"
    return broker if row["profile"] is None else f"{broker}, as RabbitMQ {row['profile']}"


def _tests(answers: Answers) -> list[Html | None]:
    outcomes = answers["outcomes"]
    if not outcomes:
        return [empty("This trace names no test: it was recorded outside pytest, so nothing passed or failed.")]
    parts = [
        Share(row["outcome"] or "without an end", row["count"], _OUTCOME_COLOURS.get(row["outcome"], "wait-part"))
        for row in outcomes
    ]
    retries = sum(row["retries"] for row in outcomes)
    seconds = sum(row["duration"] or 0 for row in outcomes)
    tests, times = answers["test_totals"][0]["tests"], sum(part.n for part in parts)
    title = counted(tests, "test") + (f", run {counted(times, 'time')}," if times > tests else "")
    title += f" in {seconds:,.1f} s"
    title += f", {counted(retries, 'retry', 'retries')}" if retries else ""
    blocks: list[Html | None] = [element("h3", title), shares(parts, "outcomes of tests"), legend(parts, "outcome")]
    if answers["failed"]:
        blocks.append(_failed(answers))
        if not all(row.get("link") for row in answers["failed"]):
            command = element("code", "leveret trace page FILE --test TEST")
            blocks.append(element("p", command, " writes a missing page from the trace file.", class_="quiet small"))
    return blocks


def _failed(answers: Answers) -> Html:
    """Return a table of every test that failed, had to be tried again or has no end, with its error and its page."""
    rows = [
        (
            heading(code(row["test"], 110), _of_run(row, answers), _error(row["error"], place < _ERRORS_SHOWN_WHOLE)),
            text(_ending(row, answers["run_totals"][0]["runs"])),
            text(_page(row)),
            text(NONE if row["duration"] is None else f"{row['duration']:,.2f} s"),
        )
        for place, row in enumerate(answers["failed"])
    ]
    return table(["test that failed or has no end", "outcome", "page", "duration"], rows)


def _ending(row: Row, runs: int) -> str:
    outcome = row["outcome"] or "without an end: the run was killed during this test, or its trace is damaged"
    outcome += f" after {counted(row['retries'], 'retry', 'retries')}" if row["retries"] else ""
    return outcome if runs < 2 else f"{outcome}, in {row['failed_runs']} of {runs} runs"


def _page(row: Row) -> Html:
    if row.get("link") is None:
        return element("span", NONE, class_="none")
    return element("a", "what happened", href=row["link"], aria_label=f"what happened in {row['test']}")


def _error(error: str | None, may_be_whole: bool) -> Html | None:
    """Return an error: its first line, and all of it to unfold if there is more and it `may_be_whole`."""
    whole = (error or "").strip()
    if not whole:
        return None
    first = whole.partition("\n")[0]
    short = first if len(first) <= _LONGEST_LINE else f"{first[:_LONGEST_LINE]}…"
    if short == whole or not may_be_whole:
        return element("p", element("code", short), class_="error")
    shown = whole if len(whole) <= _LONGEST_ERROR else f"{whole[:_LONGEST_ERROR]}…"
    return element("details", element("summary", element("code", short)), element("pre", shown), class_="error")


def _of_run(row: Row, answers: Answers) -> Html | None:
    if answers["run_totals"][0]["runs"] < 2:
        return None
    return element("span", f" last in run {row['run']}", class_="quiet small")


def _messages(answers: Answers) -> list[Html | None]:
    fates = answers["fates"]
    total = sum(row["count"] for row in fates)
    if not total:
        return [empty("No message was published.")]
    parts = [
        Share(
            OUTCOMES.get(row["outcome"], str(row["outcome"])),
            row["count"],
            _FATE_COLOURS.get(row["outcome"], "grey-part"),
        )
        for row in fates
    ]
    title = f"{counted(total, 'message')} published, by outcome"
    blocks: list[Html | None] = [element("h3", title), shares(parts, "messages"), legend(parts, "message")]
    blocks += _dropped(answers["dropped"], next((row["count"] for row in fates if row["outcome"] == "dropped"), 0))
    if answers["faults"]:
        fired = ", ".join(
            f"{row['fault']} on {row['on']} ({counted(row['struck'], 'time')})" for row in answers["faults"]
        )
        blocks.append(note("Faults that the tests injected: ", fired, "."))
    return blocks


def _dropped(rows: Sequence[Row], total: int) -> list[Html | None]:
    """Return a table of the dropped messages: where they were published, and why they were dropped."""
    if not rows:
        return []
    cells = [
        (
            heading(_exchange(row)),
            text(code(row["routing_key"] or "", 60)),
            text(_why(row)),
            count(row["count"], is_hot=True),
        )
        for row in rows
    ]
    table_of_them = table(["dropped: published to", "routing key", "why", "#messages"], cells)
    return [table_of_them, more(sum(row["count"] for row in rows), total, "message", " dropped")]


def _exchange(row: Row) -> Html:
    name = code(row["exchange"], 60) if row["exchange"] else element("span", "the default exchange")
    return name if row["vhost"] in (None, "/") else joined(name, " in ", code(row["vhost"], 30))


def _why(row: Row) -> str:
    why = None if row["reason"] is None else why_of(DROPPED, row["reason"])
    if row["is_nacked"]:
        return f"nacked to its publisher: {why}" if why else "nacked to its publisher"
    return why or "the trace does not say"
