"""Messages, queues and topology."""

from __future__ import annotations

import itertools

from playwright.sync_api import Page, expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import shop


def test_messages_are_listed_with_their_outcomes(read_story: Open) -> None:
    page = read_story(shop(), "#messages")

    expect(page.locator("#panel-messages .rows [role=row] .outcome")).to_have_text(
        [
            "acked by c2/ch1 from 'jobs' after 2 deliveries",
            "ready in 'dead'",
            "returned: no route",
            "expired in 'audit'",
        ]
    )


def test_queue_shows_its_depth_settings_and_bindings(read_story: Open) -> None:
    page = read_story(shop(), "#queues")
    card = page.get_by_role("article", name="Queue jobs")

    expect(card.get_by_role("img")).to_have_attribute(
        "aria-label",
        "ready at most 1, at the end 0; unacked at most 1, at the end 0; consumers at most 1, at the end 0",
    )
    expect(card.locator("svg .series")).to_have_count(3)
    expect(card).to_contain_text("quorum · durable")
    expect(card).to_contain_text("x-delivery-limit3")
    expect(card).to_contain_text("Policy limitsmax-length10")
    expect(card.locator("tbody tr")).to_have_text(["ordersorder.*.paid2"])


def test_topology_counts_messages_and_greys_unused_bindings(read_story: Open) -> None:
    page = read_story(shop(), "#topology")
    orders = page.get_by_role("region", name="exchange orders")

    expect(orders.locator("li").nth(0)).to_have_text("order.*.paid to jobs: 2 messages")
    expect(orders.locator("li.unused")).to_have_text("refund.# to audit: unused")
    expect(page.locator(".edge.unused:not(.tip)")).to_have_count(1)
    expect(page.locator(".edge.dead-letter:not(.tip)")).to_have_count(1)


def test_topology_explains_a_key_that_nearly_matched(read_story: Open) -> None:
    page = read_story(shop(), "#topology")

    lost = page.get_by_role("region", name="exchange orders").locator(".lost")

    expect(lost).to_have_text(
        "order.paid matched nothing #3 nearly order.*.paid → jobs: one word is missing before 'paid'"
    )


def test_boxes_of_the_topology_do_not_overlap(read_story: Open) -> None:
    page = read_story(shop(), "#topology")

    assert overlaps(page, ".node") == []


def test_numbers_of_a_queue_can_be_read(open_story: Open) -> None:
    page = open_story(shop(), "#queues")
    card = page.get_by_role("article", name="Queue jobs")

    card.get_by_text("Numbers").click()

    expect(card.get_by_role("group", name="Changes").locator("tbody tr")).to_have_text(
        ["2 ms001", "6 ms101", "8 ms011", "1 h000"]
    )


def test_queue_leads_to_its_events(open_story: Open) -> None:
    page = open_story(shop(), "#queues")

    page.get_by_role("article", name="Queue dead").get_by_role("button", name="Show its events").click()

    expect(page.locator("#panel-events .rows [role=row] .text")).to_have_text(["#2 entered 'dead' as a dead letter"])


def test_loop_of_dead_letters_stays_in_the_picture_and_notes_are_shown(open_story: Open) -> None:
    story = shop()
    graph = story["topology"]
    graph["nodes"][4]["note"] = "nothing leads here"
    graph["edges"].append({"from": "b1/q/dead", "to": "b1/x/orders", "count": 0, "kind": "dead letter"})

    page = open_story(story, "#topology")

    loop = page.locator(".edge.dead-letter.unused:not(.tip)").bounding_box()
    graphs = page.locator(".graph").bounding_box()
    assert loop is not None
    assert graphs is not None
    assert loop["x"] >= graphs["x"]
    assert loop["x"] + loop["width"] <= graphs["x"] + graphs["width"]
    expect(page.get_by_role("region", name="queue dead")).to_contain_text("nothing leads here")


def test_durations_and_the_default_exchange_are_named_in_arguments(open_story: Open) -> None:
    story = shop()
    story["queues"][0]["arguments"] = {"x-message-ttl": 86_400_000, "x-dead-letter-exchange": ""}

    card = open_story(story, "#queues").get_by_role("article", name="Queue jobs")

    expect(card).to_contain_text("x-message-ttl86400000 (1 d)")
    expect(card).to_contain_text("x-dead-letter-exchange(default exchange)")


def test_charts_have_times_and_no_leaps_in_real_time(open_story: Open) -> None:
    page = open_story(shop(), "#queues")
    card = page.get_by_role("article", name="Queue jobs")
    expect(card.locator(".tick").first).to_have_text("2 ms")
    expect(card.locator(".break")).to_have_text("1 h")

    page.get_by_role("button", name="Show real time").click()

    expect(card.locator(".break")).to_have_count(0)


def test_boxes_of_the_topology_do_not_overlap_on_paper(open_story: Open) -> None:
    page = open_story(shop())

    # The browser says so before it takes the style for paper.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    assert overlaps(page, ".node") == []


def overlaps(page: Page, selector: str) -> list[tuple[str, str]]:
    """Return the texts of the elements that overlap. There must be several."""
    elements = page.locator(selector).all()
    assert len(elements) > 1
    found = []
    for one, other in itertools.combinations(elements, 2):
        a, b = one.bounding_box(), other.bounding_box()
        assert a is not None
        assert b is not None
        is_beside = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
        if not (is_beside or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]):
            found.append((one.inner_text(), other.inner_text()))
    return found
