"""The table of events, its filter, and the selection that all views share."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import bouncing, busy, shop

ROWS = "#panel-events .rows [role=row]"


def test_search_narrows_the_table_and_the_sequence(open_story: Open) -> None:
    page = open_story(shop(), "#events")

    page.get_by_role("searchbox").fill("order.paid")

    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.get_by_role("status")).to_have_text("1 of 22 events")
    page.get_by_role("tab", name="Sequence").click()
    expect(page.locator(".step .caption")).to_have_text("17 mspublished #3 order.paid")


@pytest.mark.parametrize(
    ("field", "choice", "count"),
    [
        ("Client", "c2 worker", 7),
        ("Queue", "dead", 1),
        ("Kind", "delivered (2)", 2),
        ("Kind", "problems only", 8),
    ],
)
def test_filter_by_client_queue_and_kind(open_story: Open, field: str, choice: str, count: int) -> None:
    page = open_story(shop(), "#events")

    page.get_by_label(field, exact=True).select_option(choice)

    expect(page.locator(ROWS)).to_have_count(count)


def test_filter_by_message_keeps_no_number_that_only_begins_alike(open_story: Open) -> None:
    page = open_story(busy(100), "#events")

    page.get_by_label("Message", exact=True).fill("#1")

    expect(page.locator(ROWS)).to_have_count(5)


def test_filter_is_cleared_at_once(open_story: Open) -> None:
    page = open_story(shop(), "#events?kind=returned&text=3")
    expect(page.locator(ROWS)).to_have_count(1)

    page.get_by_role("button", name="Clear").click()

    expect(page.locator(ROWS)).to_have_count(22)
    assert page.url.endswith("#events")


def test_event_selected_in_the_table_is_selected_in_the_sequence(open_story: Open) -> None:
    page = open_story(shop(), "#events")

    page.locator(ROWS, has_text="returned #3").click()
    page.get_by_role("tab", name="Sequence").click()

    expect(page.locator(".step.active")).to_contain_text("returned #3")
    expect(page.locator(".step.active")).to_be_in_viewport()


def test_row_selected_in_the_sequence_is_selected_in_the_table(open_story: Open) -> None:
    page = open_story(busy(2000))
    page.get_by_role("option", name="400 times alike").click()

    page.locator(".steps").focus()
    page.keyboard.press("End")
    page.get_by_role("tab", name="Events").click()

    expect(page.locator(f"{ROWS}.active")).to_contain_text("acked #400")
    expect(page.locator(f"{ROWS}.active")).to_be_in_viewport()


def test_event_of_folded_set_up_opens_its_fold(open_story: Open) -> None:
    page = open_story(shop(), "#events")

    page.locator(ROWS, has_text="declared queue 'jobs'").click()
    page.get_by_role("tab", name="Sequence").click()

    expect(page.locator(".step.active")).to_contain_text("declared queue 'jobs'")


def test_ten_thousand_events_are_found_by_search(open_story: Open) -> None:
    page = open_story(busy(10_000), "#events")

    page.get_by_role("searchbox").fill("delivered #1999")

    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.get_by_role("status")).to_have_text("1 of 10,000 events")


def test_rounds_are_one_problem(open_story: Open) -> None:
    page = open_story(bouncing(60), "#events?kind=problems")

    expect(page.locator(ROWS)).to_have_count(1)
    expect(page.locator(ROWS)).to_contain_text("#1 60 times in 179 ms: nacked, requeued, redelivered")
    expect(page.get_by_role("status")).to_have_text("1 of 182 events")
