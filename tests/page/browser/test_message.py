"""The details: what a click on a message shows of its life."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import bouncing, shop


def test_click_on_a_row_shows_the_life_of_its_message(open_story: Open) -> None:
    page = open_story(shop())

    page.locator(".step", has_text="published #1").click()

    details = page.locator(".details")
    expect(details.get_by_role("heading", level=2)).to_have_text("#1 {'id': 1}")
    expect(details.locator(".verdict")).to_contain_text("acked by c2/ch1 from 'jobs' after 2 deliveries")
    expect(details.locator(".life li")).to_have_count(7)
    expect(details.locator(".facts").first).to_contain_text("test_shop.py:9")


def test_details_show_properties_headers_redaction_and_the_framework(read_story: Open) -> None:
    details = read_story(shop(), "#message-1").locator(".details")

    expect(details.get_by_role("heading", name="Read as Celery")).to_be_visible()
    expect(details).to_contain_text("taskshop.pay")
    expect(details).to_contain_text("delivery_mode2")
    expect(details).to_contain_text('"tenant": "acme"')
    expect(details).to_contain_text("Redacted: authorization")


def test_dead_letter_shows_its_copies_and_its_deaths(read_story: Open) -> None:
    page = read_story(shop(), "#message-2")

    expect(page.get_by_role("group", name="Copies of the message").locator("tbody tr")).to_have_text(
        ["2jobs1dead_lettered: rejected", "3, from 2dead0ready"]
    )
    expect(page.get_by_role("group", name="Deaths").locator("tbody tr")).to_have_text(
        ["jobsrejected1ordersorder.2.paid"]
    )


def test_body_is_shown_as_json_text_and_hex(open_story: Open) -> None:
    page = open_story(shop(), "#message-1")
    body = page.locator(".part", has=page.get_by_role("heading", name="Body"))

    expect(body.locator("pre")).to_have_text('{\n  "id": 1\n}')
    body.get_by_role("button", name="Text").click()
    expect(body.locator("pre")).to_have_text('{"id": 1}')
    body.get_by_role("button", name="Hex").click()
    expect(body.locator("pre")).to_contain_text("000000  7b 22 69 64 22 3a 20 31 7d")


def test_cause_is_a_link_and_a_guess_is_called_one(open_story: Open) -> None:
    page = open_story(shop(), "#message-1")
    causes = page.locator(".causes")
    expect(causes).to_have_text("led to #4 'receipt': published while c2 held #1a guess")

    causes.get_by_role("link", name="#4").click()

    expect(page.locator(".details h2")).to_have_text("#4 'receipt'")
    expect(page.locator(".causes")).to_contain_text("caused by #1")


def test_other_messages_fade_while_one_is_followed(open_story: Open) -> None:
    page = open_story(shop(), "#message-2")

    expect(page.locator(".step:not(.other)")).to_have_count(5)
    expect(page.locator(".step.other", has_text="fault reset_peer")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".step.other")).to_have_count(0)


def test_lanes_of_the_message_scroll_into_sight(open_story: Open) -> None:
    page = open_story(shop(), viewport={"width": 900, "height": 800})
    page.locator(".step", has_text="dead-lettered #2").click()

    expect(page.locator(".lane-heads .lane", has_text="dead")).to_be_in_viewport()


def test_event_without_a_message_shows_its_own_details(open_story: Open) -> None:
    page = open_story(shop())

    page.locator(".step", has_text="lost its connection").click()

    expect(page.locator(".details h2")).to_have_text("connection closed")
    expect(page.locator(".details")).to_contain_text("2026-01-01 01:00:00.022000 UTC")


def test_dead_letter_event_links_to_what_it_led_to(open_story: Open) -> None:
    page = open_story(shop(), "#event-14")

    page.get_by_role("link", name="#2 entered 'dead' as a dead letter").click()

    expect(page.locator(".life [aria-current=true]")).to_contain_text("#2 entered 'dead' as a dead letter")


def test_body_of_a_megabyte_is_shown(open_story: Open) -> None:
    story = shop()
    story["messages"][0]["body"] = {"size": 1_000_000, "text": "x" * 1_000_000}

    page = open_story(story, "#message-1")

    expect(page.locator(".code").last).to_be_visible()
    assert page.evaluate("document.querySelectorAll('.details .code')[1].textContent.length") == 1_000_000


def test_back_returns_to_where_the_reader_was(open_story: Open) -> None:
    page = open_story(shop(), "#topology")
    page.locator(".lost").get_by_role("link", name="#3").click()
    assert page.url.endswith("#message-3?view=topology")

    page.go_back()

    expect(page.locator(".details")).to_be_hidden()
    expect(page.get_by_role("tab", name="Topology")).to_have_attribute("aria-selected", "true")


def test_life_lists_the_fault_that_hit_the_channel_that_held_the_message(open_story: Open) -> None:
    story = bouncing(0)
    story["events"][1]["channel"] = "c2/ch1"
    for kind, text, channel in (
        ("fault", "fault reset_peer", "c2/ch1"),
        ("conn_close", "c2 lost its connection", "c2"),
    ):
        story["events"].append(
            {"t": 9000, "kind": kind, "text": text, "channel": channel, "from": "b1/c2", "across": True, "tone": "bad"}
        )

    life = open_story(story, "#message-1").locator(".life > li")

    expect(life).to_have_count(4)
    expect(life.nth(2)).to_contain_text("fault reset_peer")
    expect(life.nth(3)).to_contain_text("c2 lost its connection")


def test_life_shows_rounds_once_and_opens_them(open_story: Open) -> None:
    page = open_story(bouncing(60), "#message-1")
    expect(page.locator(".life > li")).to_have_count(3)

    page.locator(".life summary", has_text="#1 60 times in 179 ms").click()

    expect(page.locator(".life ol li")).to_have_count(180)


def test_selected_event_shows_what_the_queues_held_then(open_story: Open) -> None:
    story = shop()
    story["queues"] = [
        {**story["queues"][0], "series": [[1000, 1000, 0, 0, 1], [6000, 6000, 3, 0, 1], [9000, 9000, 2, 1, 1]]}
    ]

    page = open_story(story, "#event-7")

    then = page.locator(".details .part", has=page.get_by_role("heading", name="Queues then")).last
    expect(then).to_contain_text("3 ready, 0 unacked, 1 consumer")


def test_publish_is_copied_as_code(open_story: Open) -> None:
    page = open_story(shop(), "#message-1")

    copy = page.get_by_role("button", name="Copy as code")
    copy.click()

    expect(page.get_by_role("button", name="Copied")).to_be_visible()
