"""The report as a reader sees it: on a phone, in the dark, and by a screen reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from leveret.pipeline.report import report
from tests.chromium import Open, axe_violations
from tests.pipeline.in_memory import reader_of_files
from tests.pipeline.recorded_runs import record
from tests.pipeline.traces import header, write

PHONE = {"width": 420, "height": 800}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report with a section of each kind, and names and errors without a place to break them."""
    folder = tmp_path_factory.mktemp("browser")
    record(folder / "traces")
    long = "x" * 120
    attrs = {"outcome": "failed", "duration": 1.5, "error": f"AssertionError: {long}\n  {long}{long}"}
    events: list[dict[str, Any]] = [
        {"kind": "test_start"},
        {"kind": "queue_declare", "queue": long, "vhost": "/"},
        {"kind": "published", "vhost": "/", "exchange": long, "routing_key": long, "msg": 1},
        {"kind": "enqueued", "vhost": "/", "queue": long, "msg": 1, "copy": 1},
        {"kind": "test_end", "attrs": json.dumps(attrs)},
    ]
    told = [{"seq": seq, "ts": seq, "test": f"tests/{long}.py::{long}", **event} for seq, event in enumerate(events, 1)]
    write(folder / "traces" / "third.jsonl", [header("third", commit="c0ffee" * 6, started="2026-05-02"), *told])
    read, files = reader_of_files(folder / "traces")
    place = folder / "report.html"
    place.write_text(report(read, files, "c0ffee"), encoding="utf-8")
    (folder / "third.html").write_text(report(read, files, "third"), encoding="utf-8")
    return place


@pytest.mark.parametrize("name", ["report.html", "third.html"])
def test_page_is_no_wider_than_a_phone(open_file: Open, file: Path, name: str) -> None:
    page = open_file(file.with_name(name), viewport=PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")

    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_wide_table_scrolls_by_itself(open_file: Open, file: Path) -> None:
    page = open_file(file, viewport=PHONE)

    box = page.locator("#queues .scroll").first
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    box.evaluate("(box) => box.scrollLeft = box.scrollWidth")
    assert box.evaluate("(box) => box.scrollLeft > 0")


def test_labels_of_times_are_as_large_on_a_phone(open_file: Open, file: Path) -> None:
    page = open_file(file, viewport=PHONE)

    labels = page.locator("svg.axis text")
    assert labels.count()
    assert min(label.bounding_box()["height"] for label in labels.all()) >= 10


def test_dead_letters_are_drawn_with_their_reason(open_file: Open, file: Path) -> None:
    page = open_file(file)

    expect(page.get_by_role("region", name="queue work")).to_contain_text("rejected to later: 2 messages")
    assert page.locator("#flow .edge:not(.tip)").count() == 1
    expect(page.get_by_text("The same as a table")).to_be_visible()
    expect(page.locator("#flow-table table")).to_be_hidden()


def test_picture_of_two_queues_with_short_names_fits_on_a_phone(open_file: Open, file: Path) -> None:
    picture = open_file(file, viewport=PHONE).locator("#flow-picture")

    assert picture.evaluate("(picture) => picture.scrollWidth <= picture.clientWidth")


def test_boxes_of_a_graph_with_circles_lie_apart(open_file: Open, file: Path) -> None:
    page = open_file(file)
    ends = [(source, target) for source in range(9) for target in (source * 5 % 7, source * 3 % 11, source)]
    graph = {
        "nodes": [{"id": str(number), "kind": "queue", "label": f"queue{number}"} for number in range(11)],
        "edges": [{"from": str(source), "to": str(target), "label": "expired", "count": 1} for source, target in ends],
    }

    page.evaluate("(graph) => (flowPicture.replaceChildren(), drawFlow(flowPicture, graph))", graph)

    boxes = [box.bounding_box() for box in page.locator("#flow .node").all()]
    assert len(boxes) == 11
    for at, box in enumerate(boxes):
        for other in boxes[at + 1 :]:
            is_beside = box["x"] + box["width"] <= other["x"] or other["x"] + other["width"] <= box["x"]
            assert is_beside or box["y"] + box["height"] <= other["y"] or other["y"] + other["height"] <= box["y"]


@pytest.mark.parametrize(("queues", "is_scaled"), [(2, False), (12, True)])
def test_picture_is_as_large_as_fits_on_paper(open_file: Open, file: Path, queues: int, is_scaled: bool) -> None:
    page = open_file(file)
    graph = {
        "nodes": [{"id": str(number), "kind": "queue", "label": f"queue{number}"} for number in range(queues)],
        "edges": [{"from": str(n), "to": str(n + 1), "label": "expired", "count": 1} for n in range(queues - 1)],
    }
    page.evaluate("(graph) => (flowPicture.replaceChildren(), drawFlow(flowPicture, graph))", graph)
    on_screen = page.locator("#flow .graph").bounding_box()["width"]

    page.emulate_media(media="print")

    on_paper = page.locator("#flow .graph").bounding_box()["width"]
    assert on_paper <= 701
    assert (on_paper < on_screen) == is_scaled


def test_reader_without_scripts_has_the_dead_letters_as_a_table(browser: Browser, file: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(file.as_uri())

        expect(page.locator("#flow-table")).to_contain_text("rejected")
        expect(page.locator("#flow-table table")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report.html", "third.html"])
def test_axe_finds_nothing(open_file: Open, file: Path, name: str, scheme: str) -> None:
    page = open_file(file.with_name(name), viewport=PHONE, color_scheme=scheme)

    assert axe_violations(page) == []
