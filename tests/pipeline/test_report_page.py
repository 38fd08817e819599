"""The layout of the report, from plain answers: what it draws and says, and how it explains an empty section."""

from __future__ import annotations

import re
from typing import Any

import pytest

from leveret.pipeline import rules
from leveret.pipeline.report import words
from leveret.pipeline.report.charts import axis_of, histogram
from leveret.pipeline.report.flow import MOST_BOXES, Way, picture
from leveret.pipeline.report.life import in_words
from leveret.pipeline.report.markup import code, element
from leveret.pipeline.report.page import page
from leveret.pipeline.report.subject import Subject

SUBJECT = Subject("run7", ("run7",), False, None, None)
NOTHING: dict[str, list[dict[str, Any]]] = {
    **{name: [] for name in ("runs", "outcomes", "failed", "fates", "faults", "queues", "flows", "redelivered")},
    **{
        name: []
        for name in (
            "dropped",
            "slowest",
            "coverage",
            "unused",
            "flaky",
            "behaviours",
            "rules",
            "violations",
            "lives",
            "leavers",
        )
    },
    "run_totals": [{"runs": 1, "workers": 1, "events": 0, "virtual": None, "is_cut": False}],
    "test_totals": [{"tests": 0, "failed": 0, "unended": 0}],
    "queue_totals": [{"queues": 0, "leaving": 0, "dead": None, "leaked": None}],
    "flow_totals": [{"flows": 0, "n": None}],
    "coverage_runs": [{"runs": 1}],
    "flaky_totals": [{"tests": 0, "found": 0, "repeated": 0}],
}


def _boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx="6" class="box"', svg)
    return [(float(x), float(y), float(width), float(height)) for x, y, width, height in found]


def test_every_rule_is_explained() -> None:
    assert set(rules.RULES) <= set(words.RULES)


def test_empty_run_explains_each_empty_section() -> None:
    text = page(SUBJECT, None, NOTHING, [], [])

    assert text.count('class="empty"') == 9
    assert "No test has run twice on a known commit yet (a run knows its commit from" in text
    assert "There is no earlier run to compare with." in text


def test_dropped_messages_beyond_those_listed_are_counted() -> None:
    row = {"vhost": "/", "exchange": "", "routing_key": "nowhere", "reason": None, "is_nacked": False, "count": 3}
    text = page(SUBJECT, None, {**NOTHING, "fates": [{"outcome": "dropped", "count": 10}], "dropped": [row]}, [], [])

    assert "the trace does not say" in text
    assert "and 7 more messages dropped." in text


def test_spans_below_a_millisecond_are_shown_without_a_value() -> None:
    bins = [{"measure": "wait", "bin": 0, "n": 2}]
    row = {"vhost": "/", "queue": "q", "bins": bins, "wait_p50": 0, "wait_p95": 1, "wait_top": 2}
    row |= {"process_p50": None, "process_p95": None, "process_top": None}
    text = page(SUBJECT, None, {**NOTHING, "slowest": [row]}, [], [])

    assert "2 copies: half in &lt; 1 ms, longest &lt; 1 ms" in text


def test_files_that_are_cut_or_refused_are_named() -> None:
    text = page(SUBJECT, None, NOTHING, ["traces/<cut>.jsonl"], [("traces/foreign.jsonl", "it is <foreign>")])

    assert "<code>traces/&lt;cut&gt;.jsonl</code>" in text
    assert "1 trace file with a part missing" in text
    assert "<code>traces/foreign.jsonl</code>: it is &lt;foreign&gt;" in text


@pytest.mark.parametrize(("copies", "is_explained"), [(19, False), (20, True)])
def test_lines_of_a_histogram_are_explained_where_there_are_some(copies: int, is_explained: bool) -> None:
    row = {"vhost": "/", "queue": "q", "bins": [{"measure": "wait", "bin": 9, "n": copies}]}
    row |= {f"{measure}_{name}": 400 for measure in ("wait", "process") for name in ("p50", "p95", "top")}
    text = page(SUBJECT, None, {**NOTHING, "slowest": [row]}, [], [])

    assert ("Dashed line" in text) == is_explained
    assert ('class="mark ' in text) == is_explained


def test_long_name_breaks_between_its_words() -> None:
    assert code("tests/unit/test_a.py::test_it") == (
        "<code>tests/<wbr>unit/<wbr>test_<wbr>a.py::<wbr>test_<wbr>it</code>"
    )
    assert code("short_name") == "<code>short_name</code>"


@pytest.mark.parametrize(
    ("totals", "is_cut", "tile"),
    [
        ({"tests": 3, "failed": 0, "unended": 0}, False, '<li class="good"><a href="#run"><b>None failed'),
        ({"tests": 3, "failed": 0, "unended": 0}, True, '<li class="wait"><a href="#run"><b>None failed'),
        ({"tests": 3, "failed": 0, "unended": 1}, True, '<li class="bad"><a href="#run"><b>1 without an end'),
        ({"tests": 3, "failed": 2, "unended": 1}, True, '<li class="bad"><a href="#run"><b>2 of 3 failed'),
        ({"tests": 0, "failed": 0, "unended": 0}, False, '<li class="plain"><a href="#run"><b>No tests'),
    ],
)
def test_only_a_whole_run_without_failures_is_green(totals: dict[str, int], is_cut: bool, tile: str) -> None:
    runs = {**NOTHING["run_totals"][0], "is_cut": is_cut}

    assert tile in page(SUBJECT, None, {**NOTHING, "run_totals": [runs], "test_totals": [totals]}, [], [])


def test_picture_of_two_queues_with_short_names_fits_on_a_phone() -> None:
    svg = picture([Way("orders", "orders.dead", (("rejected", 3),))], {})

    # A phone of 420 pixels, without the margins of the page.
    assert float(re.findall(r'viewBox="0 0 (\d+) ', svg)[0]) <= 392


def test_boxes_of_any_flow_lie_apart_and_in_the_picture() -> None:
    ways = [
        Way(f"queue{source}", f"queue{target}", ((reason, source + 1),))
        for source in range(9)
        for target, reason in ((source * 5 % 7, "rejected"), (source * 3 % 11, "expired"), (source, None))
    ]

    svg = picture(ways, {"queue1": 3})

    boxes = _boxes(svg)
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0])
    assert len(boxes) == len({name for way in ways for name in (way.source, way.target)})
    for x, y, wide, high in boxes:
        assert 0 <= x <= width - wide
        assert 0 <= y <= height - high
    for at, (x, y, wide, high) in enumerate(boxes):
        others = boxes[at + 1 :]
        assert not [1 for left, top, _, tall in others if abs(left - x) < wide and y < top + tall and top < y + high]


def test_cycle_of_retries_is_drawn_with_both_reasons() -> None:
    svg = picture([Way("work", "retry", (("rejected", 3),)), Way("retry", "work", (("expired", 2),))], {})

    assert len(_boxes(svg)) == 2
    assert svg.count('class="head"') == 2
    assert "rejected · 3</text>" in svg
    assert "expired · 2</text>" in svg


def test_flow_of_very_many_queues_shows_the_busiest() -> None:
    svg = picture([Way(f"from{n}", f"to{n}", (("maxlen", n + 1),)) for n in range(40)], {})

    assert len(_boxes(svg)) == MOST_BOXES
    assert ">from39<" in svg
    assert ">from0<" not in svg


def test_histogram_has_a_bar_for_each_bin_and_a_line_for_each_mark() -> None:
    svg = histogram(axis_of([0, 12]), [(0, 5), (12, 1)], (3.0, 900.0), "orders <waited>")

    assert svg.count('class="bar"') == 2
    assert svg.count('class="mark ') == 2
    assert "<title>orders &lt;waited&gt;</title>" in svg


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
    assert re.sub(r"<[^>]*>", "", in_words(event)) == text


def test_text_is_escaped_in_elements_and_attributes() -> None:
    assert element("p", "<b>&", title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;</p>'
    assert code("a\x00b\u202e") == "<code>a\\u0000b\\u202e</code>"
    assert code("q" * 300) == f'<code title="{"q" * 300}">{"q" * 44}…{"q" * 45}</code>'


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
