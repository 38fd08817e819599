"""The page for every reader: with a screen reader, in the dark, on a phone and on paper."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import axe_violations
from tests.page.browser.conftest import Open
from tests.page.browser.stories import shop, two_brokers

VIEWS = ("sequence", "messages", "queues", "topology", "events")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_in_a_view(read_story: Open, view: str, scheme: str) -> None:
    page = read_story(shop(), f"#{view}", color_scheme=scheme)

    assert axe_violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_details_of_a_message(read_story: Open, scheme: str) -> None:
    page = read_story(shop(), "#message-1", color_scheme=scheme)

    assert axe_violations(page) == []


def test_row_of_the_sequence_is_read_as_a_sentence(read_story: Open) -> None:
    page = read_story(shop())

    row = page.get_by_role(
        "option", name="5 ms: published #1 to 'orders' with key 'order.1.paid', #1 entered 'jobs', test_shop.py:9"
    )

    expect(row).to_be_visible()


@pytest.mark.parametrize("view", [*VIEWS, "message-1"])
def test_page_of_400_pixels_does_not_scroll_sideways(read_story: Open, view: str) -> None:
    page = read_story(shop(), f"#{view}", viewport={"width": 400, "height": 800})

    assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_axe_finds_nothing_in_the_help_and_on_a_phone(open_story: Open) -> None:
    page = open_story(two_brokers(), viewport={"width": 400, "height": 800})
    assert axe_violations(page) == []

    page.keyboard.press("?")

    assert axe_violations(page) == []


def background(page: Page) -> int:
    """Return how bright the page is, from 0 to 255."""
    return int(page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"))


def test_page_is_dark_if_the_reader_prefers_that_and_light_if_they_say_so(open_story: Open) -> None:
    page = open_story(shop(), color_scheme="dark")
    assert background(page) < 50

    page.get_by_role("button", name="Dark").click()

    assert background(page) > 200


def test_sequence_scrolls_within_itself_on_a_phone(open_story: Open) -> None:
    page = open_story(shop(), viewport={"width": 400, "height": 800})
    page.locator(".sequence").evaluate("(scroller) => scroller.scrollTo(10_000, 0)")

    expect(page.locator(".lane", has_text="dead")).to_be_in_viewport()
    expect(page.locator(".step .words").first).to_be_in_viewport()


def test_details_cover_a_phone_and_close(open_story: Open) -> None:
    page = open_story(shop(), viewport={"width": 400, "height": 800})
    page.locator(".step", has_text="published #1").click()
    box = page.locator(".details").bounding_box()
    assert box is not None
    assert (box["width"], box["height"]) == (400, 800)

    page.get_by_role("button", name="Close").click()

    expect(page.locator(".details")).to_be_hidden()


def test_paper_shows_every_view_and_every_message(open_story: Open) -> None:
    page = open_story(shop(), color_scheme="dark", viewport={"width": 1040, "height": 720})

    page.emulate_media(media="print")

    for view in VIEWS:
        expect(page.locator(f"#panel-{view}")).to_be_visible()
    expect(page.locator(".on-paper h2")).to_have_text(["#1 {'id': 1}", "#2 {'id': 2}", "#3 {'id': 3}", "#4 'receipt'"])
    expect(page.locator(".step", has_text="lost its connection")).to_be_visible()
    assert page.locator(".filter, .tabs, .title button").evaluate_all(
        "(all) => all.every((each) => !each.offsetParent)"
    )
    assert background(page) > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 1040
    page.emulate_media(media="screen")
    expect(page.locator(".on-paper")).to_have_count(0)


def test_rows_on_paper_do_not_overlap(open_story: Open) -> None:
    page = open_story(shop(), viewport={"width": 1040, "height": 720})

    page.emulate_media(media="print")

    for rows in (".steps > *", "#panel-events .rows > *"):
        boxes = [box for row in page.locator(rows).all() if (box := row.bounding_box())]
        assert len(boxes) > 10
        assert all(one["y"] + one["height"] <= other["y"] + 0.5 for one, other in itertools.pairwise(boxes))
