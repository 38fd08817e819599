"""The layout of the report, from plain answers: what it draws and says, and how it explains an empty section."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from leveret.pipeline import rules
from leveret.pipeline.history import History
from leveret.pipeline.report import words
from leveret.pipeline.report.charts import MOST_NODES, graph_of
from leveret.pipeline.report.page import TEMPLATES, in_words, page
from leveret.pipeline.report.subject import Subject

SUBJECT = Subject("run7", ("run7",), False, None, None)
NOTHING: dict[str, Any] = {
    **{name: [] for name in ("runs", "outcomes", "failed", "fates", "faults", "queues", "flows", "redelivered")},
    **{name: [] for name in ("dropped", "slowest", "flaky", "rules", "violations", "leavers")},
    "coverage": {},
    "run_totals": {"runs": 1, "workers": 1, "events": 0, "virtual": None, "is_cut": False},
    "test_totals": {"tests": 0, "failed": 0, "unended": 0},
    "queue_totals": {"queues": 0, "leaving": 0, "dead": None, "leaked": None},
    "flow_totals": {"flows": 0, "n": None},
    "coverage_runs": 1,
    "flaky_totals": {"tests": 0, "rows": 0, "repeated": 0},
    "history": History(("run7",), pa.table({}), []),
    "queue_lines": [],
    "test_marks": [],
}
# An event of a life; those in which a value is missing have None.
EVENT = dict.fromkeys(
    [
        *("conn", "chan", "msg", "copy", "src_copy", "exchange", "routing_key", "queue", "consumer", "tag"),
        *("multiple", "redelivered", "reason", "size"),
    ]
)


def _page(**answers: Any) -> str:
    """Return a page in which nothing but this happened, without the line breaks of its source."""
    return " ".join(page(SUBJECT, None, {**NOTHING, **answers}, [], []).split())


def _call(template: str, macro: str, *args: Any) -> str:
    """Return what a macro writes."""
    return str(getattr(TEMPLATES.get_template(template).module, macro)(*args))


def _times(n: int, us: float = 1000.0) -> dict[str, Any]:
    return {"n": n, "half_us": us, "most_us": us, "longest_us": us, "bins": [(9, n)]}


def _flow(source: str | None, target: str, reason: str | None, n: int) -> dict[str, Any]:
    return {"from_queue": source, "to_queue": target, "reason": reason, "n": n, "different_test": 1}


def test_every_rule_is_explained() -> None:
    assert set(rules.RULES) <= set(words.RULES)


def test_empty_run_explains_each_empty_section() -> None:
    text = _page()

    assert text.count('class="empty"') == 9
    assert "No test has run twice on a known commit yet (a run knows its commit from" in text
    assert "There is no earlier run to compare with." in text


def test_dropped_messages_beyond_those_listed_are_counted() -> None:
    row = {"vhost": "/", "exchange": "", "routing_key": "nowhere", "reason": None, "is_nacked": False, "count": 3}
    text = _page(fates=[{"outcome": "dropped", "count": 10}], dropped=[row])

    assert "the trace does not say" in text
    assert "and 7 more messages dropped." in text


def test_spans_below_a_millisecond_are_shown_without_a_value() -> None:
    text = _page(slowest=[{"vhost": "/", "queue": "q", "wait": _times(2, 1.0), "process": None}])

    assert "2 copies: half in &lt; 1 ms, longest &lt; 1 ms" in text


def test_files_that_are_cut_or_refused_are_named() -> None:
    text = page(SUBJECT, None, NOTHING, ["traces/<cut>.jsonl"], [("traces/foreign.jsonl", "it is <foreign>")])

    assert "<code>traces/&lt;cut&gt;.jsonl</code>" in text
    assert "1 trace file with a part missing" in text
    assert "<code>traces/foreign.jsonl</code>: it is &lt;foreign&gt;" in text


@pytest.mark.parametrize(("copies", "is_explained"), [(19, False), (20, True)])
def test_lines_of_a_histogram_are_explained_where_there_are_some(copies: int, is_explained: bool) -> None:
    text = _page(slowest=[{"vhost": "/", "queue": "q", "wait": _times(copies), "process": None}])

    assert ("Dashed line" in text) == is_explained
    assert ('class="mark ' in text) == is_explained


def test_histogram_has_a_bar_for_each_bin_and_a_line_for_each_mark() -> None:
    times = {"n": 30, "half_us": 3.0, "most_us": 900.0, "longest_us": 900.0, "bins": [(0, 5), (12, 25)]}

    text = _page(slowest=[{"vhost": "/", "queue": "<orders>", "wait": times, "process": None}])

    assert text.count('class="bar"') == 2
    assert text.count('class="mark ') == 2
    assert "<title>&lt;orders&gt;, wait: 30 copies, half in &lt; 1 ms" in text


def test_long_name_breaks_between_its_words() -> None:
    assert _call("macros.html", "code", "tests/unit/test_a.py::test_it") == (
        "<code>tests/<wbr>unit/<wbr>test_<wbr>a.py::<wbr>test_<wbr>it</code>"
    )
    assert _call("macros.html", "code", "short_name") == "<code>short_name</code>"


@pytest.mark.parametrize(
    ("totals", "is_cut", "item"),
    [
        (
            {"tests": 3, "failed": 0, "unended": 0},
            False,
            '<li class="good"><a href="#run">None of 3 tests failed</a>, and every',
        ),
        (
            {"tests": 3, "failed": 0, "unended": 0},
            True,
            '<li class="wait"><a href="#run">None of 3 tests failed</a>, but a part',
        ),
        ({"tests": 3, "failed": 0, "unended": 1}, True, '<li class="bad"><a href="#run">1 of 3 tests never ended'),
        (
            {"tests": 3, "failed": 2, "unended": 1},
            True,
            '<li class="bad"><a href="#run">2 of 3 tests failed</a>, and 1 never',
        ),
        ({"tests": 0, "failed": 0, "unended": 0}, False, '<li class="plain"><a href="#run">No tests'),
    ],
)
def test_only_a_whole_run_without_failures_is_green(totals: dict[str, int], is_cut: bool, item: str) -> None:
    runs = {**NOTHING["run_totals"], "is_cut": is_cut}

    assert item in _page(run_totals=runs, test_totals=totals)


def test_dead_letters_of_each_reason_are_an_edge() -> None:
    graph = graph_of(
        [_flow("work", "retry", "rejected", 30), _flow("retry", "work", "expired", 2), _flow(None, "work", None, 1)],
        [{"queue": "work", "n": 7}, {"queue": "elsewhere", "n": 1}],
    )

    assert {node["label"]: node["note"] for node in graph["nodes"]} == {
        "work": "↻ 7 redelivered",
        "retry": None,
        "(unknown)": None,
    }
    edges = [(edge["from"], edge["to"], edge["label"], edge["count"]) for edge in graph["edges"]]
    assert edges == [
        ("work", "retry", "rejected", 30),
        ("retry", "work", "expired", 2),
        ("(unknown)", "work", "reason unknown", 1),
    ]
    widths = [edge["width"] for edge in graph["edges"]]
    assert widths == sorted(widths, reverse=True)


def test_graph_of_very_many_queues_has_the_busiest() -> None:
    graph = graph_of([_flow(f"from{n}", f"to{n}", "maxlen", n + 1) for n in range(40)], [])

    names = [node["label"] for node in graph["nodes"]]
    assert len(names) == MOST_NODES
    assert names[0] == "from39"
    assert "from0" not in names
    assert {edge["from"] for edge in graph["edges"]} < set(names)


def test_name_in_a_graph_never_ends_its_script() -> None:
    text = _page(flows=[_flow("</script><b>", "\u202eq", "rejected", 1)], flow_totals={"flows": 1, "n": 1})

    assert "\\u003c/script\\u003e\\u003cb\\u003e" in text
    assert "<b>&" not in text
    assert '"label": "\\\\u202eq"' in text


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            {"kind": "published", "conn": 2, "chan": 1, "exchange": "shop", "routing_key": "eu.new", "size": 1200},
            "c2/ch1 published it to shop with key eu.new (bytes 1,200)",
        ),
        (
            {"kind": "enqueued", "queue": "q", "copy": 4, "src_copy": 3},
            "it entered q as a dead letter (copy 4, letter of copy 3)",
        ),
        (
            {"kind": "delivered", "queue": "q", "copy": 4, "consumer": "c", "conn": 1, "chan": 1, "redelivered": True},
            "redelivered it from q to c1/ch1 (copy 4, consumer c, redelivered yes)",
        ),
        (
            {
                "kind": "dead_lettered",
                "queue": "q",
                "copy": 4,
                "reason": "maxlen",
                "exchange": "",
                "routing_key": "dead",
            },
            "dead-lettered it from q (queue full) to queue dead (copy 4)",
        ),
        ({"kind": "dropped", "reason": "no route"}, "dropped it (it had no queue to go to)"),
        ({"kind": "dropped", "reason": "rejected"}, "dropped it (rejected, and its queue has no dead-letter exchange)"),
        ({"kind": "unheard_of", "copy": 1}, "unheard_of (copy 1)"),
    ],
)
def test_each_event_of_a_life_is_put_into_words(event: dict[str, Any], text: str) -> None:
    assert (
        re.sub(r"<[^>]*>", "", str(in_words(EVENT | event, TEMPLATES.get_template("macros.html").module.code))) == text
    )


def test_names_are_escaped_and_cut_and_show_what_is_unseen() -> None:
    row = {
        "vhost": "/",
        "exchange": "a\x00b\u202e",
        "routing_key": '"<',
        "reason": "<b>",
        "is_nacked": False,
        "count": 1,
    }

    text = _page(fates=[{"outcome": "dropped", "count": 1}], dropped=[row])

    assert "<code>a\\u0000b\\u202e</code>" in text
    assert "<code>&#34;&lt;</code>" in text
    assert "<td>&lt;b&gt;</td>" in text
    assert _call("macros.html", "code", "q" * 300) == f'<code title="{"q" * 300}">{"q" * 44}…{"q" * 45}</code>'


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 µs"), (999, "999 µs"), (1500, "1.5 ms"), (31_000, "31 ms"), (90_000_000, "1.5 min"), (None, "none")],
)
def test_spans_are_shown_in_a_suitable_unit(us: int | None, text: str) -> None:
    assert words.span(us) == text


def test_shares_are_never_rounded_to_all_or_nothing() -> None:
    assert [words.percent(part, 1000) for part in (0, 1, 500, 999, 1000)] == [
        *("0 %", "under 1 %", "50 %", "over 99 %", "100 %")
    ]
