"""The head of the page: what the test was and why it failed."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import shop, two_brokers


def test_head_names_the_test_its_outcome_and_both_times(read_story: Open) -> None:
    head = read_story(shop()).locator(".head")

    expect(head.get_by_role("heading", level=1)).to_have_text("tests/test_shop.py::test_orders_are_paid")
    expect(head.locator(".outcome")).to_have_text("failed")
    expect(head).to_contain_text("250 ms real time · 1 h broker time")
    expect(head).to_contain_text("broker on port 5672 · as RabbitMQ 4.3 · seed 7 · clock moved by the test")


def test_head_says_which_faults_fired_and_which_never_did(read_story: Open) -> None:
    page = read_story(shop())

    expect(page.locator(".notes li").nth(1)).to_have_text("fault reset_peer on basic.ack: fired once")
    expect(page.locator(".notes li").nth(2)).to_have_text("fault delay on basic.publish: never fired")


def test_head_shows_what_a_check_found_and_its_messages(open_story: Open) -> None:
    finding = open_story(shop()).locator(".notes li").first

    expect(finding.locator("span").first).to_have_text("unroutable 1 message lost #3")
    finding.get_by_text("more").click()
    expect(finding.get_by_text("in detail")).to_be_visible()


CAUSE = {
    "broker": "b1",
    "kind": "rejected_into_nothing",
    "sentence": "worker rejected #2 in 'jobs': the queue has no dead-letter exchange; the message is gone",
    "messages": [2, 3, 4],
    "events": [13, 14],
}


def test_what_went_wrong_stands_above_the_error_with_its_messages(open_story: Open) -> None:
    page = open_story({**shop(), "causes": [CAUSE]})

    box = page.get_by_role("region", name="What went wrong")
    expect(box.locator("li")).to_have_text(f"{CAUSE['sentence']} The same: #3 #4 show")
    below = page.locator(".failure").bounding_box()
    above = box.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"]
    box.get_by_role("link", name="show").click()
    expect(page.locator(".step.active")).to_contain_text("dead-lettered #2")


def test_findings_of_checks_fold_below_the_causes(open_story: Open) -> None:
    page = open_story({**shop(), "causes": [CAUSE]})

    expect(page.get_by_text("1 message lost")).to_be_hidden()
    page.get_by_text("1 finding of checks, and how to allow them").click()
    expect(page.get_by_text("1 message lost")).to_be_visible()


def test_cause_of_the_second_broker_opens_the_message_of_that_broker(open_story: Open) -> None:
    cause = {**CAUSE, "broker": "b2", "sentence": "#1 reached no queue", "messages": [1_000_001], "events": []}
    page = open_story({**two_brokers(), "causes": [cause]})

    page.locator(".wrong").get_by_role("link", name="#1 of b2").click()

    expect(page.locator(".details h2")).to_have_text("#1 of b2 second")


def test_page_of_a_run_links_the_others_through_the_index(open_story: Open) -> None:
    page = open_story({**shop(), "file": "a b.html"})

    links = page.get_by_role("navigation", name="Pages of the run").get_by_role("link")
    expect(links).to_have_text(["Previous", "All tests", "Next"])
    expect(links.last).to_have_attribute("href", "index.html#after=a%20b.html")


CODE = {
    "root": "/shop",
    "file": "test_shop.py",
    "first": 3,
    "lines": [f"line {number}" for number in range(3, 41)],
    "failed": 20,
    "traceback": [
        {"file": "test_shop.py", "line": 20, "function": "test_orders", "code": "line 20"},
        {"file": "shop.py", "line": 7, "function": "order", "code": "raise"},
    ],
}


def test_code_shows_the_line_that_failed_and_those_that_published(open_story: Open) -> None:
    story = {**shop(), "code": {**CODE, "failed": 10}}
    page = open_story(story)

    source = page.get_by_role("region", name="Code")
    expect(source.locator("li.failed")).to_have_text("10line 10failed here")
    expect(source.locator("li", has_text="line 9")).to_have_text("9line 9#1")
    expect(source.get_by_text("line 30")).to_be_hidden()
    source.get_by_role("button", name="Show all 38 lines").click()
    expect(source.get_by_text("line 30")).to_be_visible()


def test_place_of_the_failure_is_a_link_to_the_file_and_can_be_copied(open_story: Open) -> None:
    source = open_story({**shop(), "code": CODE}).get_by_role("region", name="Code")

    expect(source.get_by_role("link", name="test_shop.py:20").first).to_have_attribute(
        "href", "file:///shop/test_shop.py"
    )
    copy = source.get_by_role("button", name="Copy test_shop.py:20").first
    copy.click()
    expect(copy).to_have_text("Copied")


def test_traceback_is_folded(open_story: Open) -> None:
    source = open_story({**shop(), "code": CODE}).get_by_role("region", name="Code")

    expect(source.get_by_text("in order")).to_be_hidden()
    source.get_by_text("Traceback of 2 calls").click()
    expect(source.get_by_text("in order")).to_be_visible()


def test_direction_marks_of_a_name_are_shown(open_story: Open) -> None:
    story = shop()
    story["test"]["id"] = "test_a.py::test_b[\u202eabc]"

    expect(open_story(story).get_by_role("heading", level=1)).to_have_text("test_a.py::test_b[\\u202eabc]")


def test_number_in_the_failure_opens_its_message(open_story: Open) -> None:
    page = open_story(shop())

    page.locator(".failure").get_by_role("link", name="#3").click()

    expect(page.locator(".details h2")).to_have_text("#3 {'id': 3}")


def test_fault_that_fired_leads_to_its_event(open_story: Open) -> None:
    page = open_story(shop())

    page.get_by_role("link", name="fired once").click()

    expect(page.locator(".step.active")).to_contain_text("fault reset_peer on basic.ack")


def test_two_brokers_are_each_named_with_their_lanes_and_messages(open_story: Open) -> None:
    page = open_story(two_brokers())

    expect(page.locator(".broker")).to_have_text(["orders", "billing"])
    expect(page.locator(".lane .group")).to_have_text(["orders", "billing"])
    expect(page.locator(".lane .kind")).to_have_text(["client", "queue", "client", "queue"])
    page.locator(".failure").get_by_role("link", name="#1 of b2").click()
    expect(page.locator(".details h2")).to_have_text("#1 of b2 second")


def test_error_of_twelve_lines_is_whole_and_a_longer_one_opens(open_story: Open) -> None:
    story = shop()
    story["test"]["error"]["text"] = "\n".join(f"line {number}" for number in range(1, 31))
    failure = open_story(story).locator(".failure")
    expect(failure.get_by_text("line 12", exact=False)).to_be_in_viewport(ratio=1)
    expect(failure.get_by_text("line 30")).to_be_hidden()

    failure.get_by_role("button", name="Show all 30 lines").click()

    expect(failure.get_by_text("line 30")).to_be_visible()
    assert failure.evaluate("(box) => box.scrollHeight <= box.clientHeight")


def test_error_of_twelve_lines_has_no_button(open_story: Open) -> None:
    story = shop()
    story["test"]["error"]["text"] = "\n".join(f"line {number}" for number in range(1, 13))

    expect(open_story(story).locator(".failure button")).to_have_count(0)
