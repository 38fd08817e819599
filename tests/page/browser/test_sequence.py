"""The sequence: lanes, rows, marks, set-up and leaps of time."""

from __future__ import annotations

import random

from playwright.sync_api import expect

from tests.page.browser.conftest import Open
from tests.page.browser.stories import JOBS, WORKER, Story, Telling, bouncing, busy, shop


def test_each_client_exchange_and_queue_has_a_lane(read_story: Open) -> None:
    page = read_story(shop())

    expect(page.locator(".lane .label")).to_have_text(
        ["c1 shop", "c2 worker", "orders", "dlx", "jobs", "audit", "dead"]
    )


def test_publish_shares_a_row_with_the_queues_it_reached(read_story: Open) -> None:
    page = read_story(shop())

    row = page.locator(".step").first

    expect(row).to_contain_text("published #1 order.1.paid → jobs")
    # From the client to the exchange, and from there to the queue.
    expect(row.locator(".flow.solid")).to_have_count(2)
    expect(row.locator(".pill")).to_have_text("#1")


def test_arrow_begins_and_ends_on_its_lanes(read_story: Open) -> None:
    page = read_story(shop())

    middles = page.evaluate("""() => {
        const middle = (element) => { const box = element.getBoundingClientRect(); return box.left + box.width / 2; };
        const row = document.querySelector(".step");
        return {
            lanes: [...document.querySelectorAll(".lane")].map(middle), pill: middle(row.querySelector(".pill")),
            tip: row.querySelectorAll(".arrow")[1].getBoundingClientRect().right,
        };
    }""")

    assert abs(middles["pill"] - middles["lanes"][0]) < 1.5
    assert abs(middles["tip"] - middles["lanes"][4]) < 3


def test_outcomes_have_marks_of_their_own(read_story: Open) -> None:
    page = read_story(shop())

    tones = {
        words: page.locator(".step", has_text=words).first.locator(".mark").first.get_attribute("class")
        for words in ("confirmed #1", "redelivered #1", "acked #1", "dead-lettered #2", "returned #3", "#4 expired")
    }

    assert tones == {
        "confirmed #1": "mark good hollow",
        "redelivered #1": "mark warn",
        "acked #1": "mark good",
        "dead-lettered #2": "mark bad",
        "returned #3": "mark bad",
        "#4 expired": "mark bad",
    }


def test_leap_of_time_is_a_break_with_its_length(read_story: Open) -> None:
    page = read_story(shop())

    expect(page.locator(".leap")).to_have_text("1 h later")


def test_lost_connection_is_a_mark_across_all_lanes_of_its_broker(read_story: Open) -> None:
    page = read_story(shop())

    band = page.locator(".step", has_text="lost its connection").locator(".across.bad").bounding_box()
    heads = [head.bounding_box() for head in page.locator(".lane-heads .lane").all()]

    assert band is not None
    assert heads[0] is not None
    assert heads[-1] is not None
    assert band["x"] < heads[0]["x"] + heads[0]["width"] / 2
    assert band["x"] + band["width"] > heads[-1]["x"] + heads[-1]["width"] / 2


def test_set_up_is_one_row_that_opens_and_folds(open_story: Open) -> None:
    page = open_story(shop())
    fold = page.locator(".fold")
    expect(fold).to_have_text("Set-up: 4 events: 1 connection, 1 exchange, 1 queue, 1 binding")
    expect(page.locator(".step", has_text="declared queue 'jobs'")).to_have_count(0)

    fold.click()
    expect(page.locator(".step", has_text="declared queue 'jobs'")).to_have_count(1)

    fold.click()
    expect(page.locator(".step", has_text="declared queue 'jobs'")).to_have_count(0)


def test_time_is_that_of_the_test_and_the_clock_is_a_hover_away(open_story: Open) -> None:
    page = open_story(shop())
    time = page.locator(".step", has_text="#4 expired").locator(".time")

    expect(time).to_have_text("1 h")
    assert "broker's clock 2026-01-01 01:00:00.020000 UTC\n" in (time.get_attribute("title") or "")

    page.get_by_role("button", name="Show real time").click()
    expect(page.locator(".step", has_text="#4 expired").locator(".time")).to_have_text("20 ms")


def test_only_the_rows_in_sight_of_ten_thousand_events_are_drawn(open_story: Open) -> None:
    page = open_story(busy(10_000))
    page.get_by_role("option", name="2,000 times alike").click()

    expect(page.locator(".step").first).to_be_visible()
    assert page.locator(".step").count() < 80

    page.locator(".steps").focus()
    page.keyboard.press("End")
    expect(page.locator(".step.active")).to_be_in_viewport()
    expect(page.locator(".step.active")).to_contain_text("acked #2000")
    assert page.locator(".step").count() < 80


def test_equal_steps_of_many_messages_fold_and_the_one_that_differs_is_on_the_first_screen(open_story: Open) -> None:
    story = busy(25_000)
    story["events"][15_003] |= {"kind": "rejected", "text": "rejected #3001", "tone": "bad"}

    page = open_story(story)

    expect(page.locator(".step", has_text="rejected #3001")).to_be_in_viewport()
    folds = page.locator(".fold strong")
    expect(folds).to_have_text(["3,000 times alike", "1,999 times alike"])
    assert page.locator(".rows.steps > *").count() < 10
    page.locator(".fold").first.click()
    expect(page.locator(".step", has_text="published #2 ")).to_be_visible()


def differing(count: int = 600, wrong: int = 500) -> Story:
    """Return a story of rows in no order, of which one went wrong."""
    told, chance = Telling(), random.Random(5)
    for number in range(1, count + 1):
        kind = chance.choice(("delivered", "acked", "published", "confirmed", "got"))
        told.add(kind, f"{kind} #{number}", WORKER, JOBS, message=number)
    told.events[wrong - 1] |= {"kind": "dropped", "text": f"dropped #{wrong}", "tone": "bad"}
    return {**busy(0), "events": told.events, "messages": [{"number": number} for number in range(1, count + 1)]}


def test_long_sequence_opens_at_the_first_problem_and_has_a_tick_for_it(open_story: Open) -> None:
    page = open_story(differing())

    expect(page.locator(".step.active")).to_contain_text("dropped #500")
    expect(page.locator(".step.active")).to_be_in_viewport()
    expect(page.locator(".minimap i.bad")).to_have_count(1)


def test_first_problem_is_in_sight_where_the_window_ends_above_the_end_of_the_list(open_story: Open) -> None:
    story = differing(count=40, wrong=9)
    story["test"] |= {"error": {"text": "assert\n" * 18}}
    page = open_story(story)
    page.set_viewport_size({"width": 1200, "height": 700})

    page.reload()

    assert page.evaluate("document.documentElement.scrollHeight") > 700
    expect(page.locator(".step.active")).to_contain_text("dropped #9")
    expect(page.locator(".step.active")).to_be_in_viewport()


def test_click_on_the_map_goes_to_that_part_of_the_sequence(open_story: Open) -> None:
    page = open_story(differing())

    page.locator(".minimap").click(position={"x": 4, "y": 4})

    expect(page.locator("#step-0")).to_be_in_viewport()


def test_captions_get_the_room_that_their_words_need(open_story: Open) -> None:
    story = shop()
    story["events"][14]["text"] = (
        "dead-lettered #2 from 'letters.retry' (expired) to queue 'letters.of.the.second.chance'"
    )

    page = open_story(story, viewport={"width": 2000, "height": 900})

    words = page.locator(".step .words", has_text="letters.of.the.second.chance")
    assert words.evaluate("(words) => words.scrollWidth <= words.clientWidth")


def test_failure_stands_before_the_clean_up(open_story: Open) -> None:
    story = shop()
    story["test"]["failed_at"] = {"t": 21_000, "wall": 21_000}
    for event in story["events"][-2:]:
        event["late"] = True

    rows = open_story(story).locator(".steps > *")

    expect(rows.nth(-3)).to_contain_text("failed here")
    expect(rows.nth(-3)).to_contain_text("(what follows is clean-up)")
    expect(rows.nth(-1)).to_have_class("step bad late")


def test_story_without_events_says_so(open_story: Open) -> None:
    page = open_story(busy(0))

    for view in ("Sequence", "Messages", "Queues", "Topology", "Events"):
        page.get_by_role("tab", name=view).click()
        expect(page.get_by_role("tabpanel").locator(".empty")).to_be_visible()


def test_story_of_one_event_without_times_is_drawn(open_story: Open) -> None:
    story = {
        **busy(1),
        "events": [{"kind": "published", "from": "b1/c1", "to": "b1/x/orders", "message": 1, "text": "published #1"}],
    }

    page = open_story(story)

    expect(page.locator(".step .caption")).to_have_text("published #1 k")


def test_lanes_without_an_arrow_are_behind_a_switch(open_story: Open) -> None:
    page = open_story(shop())
    expect(page.locator(".lane", has_text="test")).to_have_count(0)

    page.get_by_role("button", name="1 unused lane").click()

    expect(page.locator(".lane .label").first).to_have_text("test")


def test_rounds_of_a_message_are_one_row_that_opens(open_story: Open) -> None:
    page = open_story(bouncing(60))
    fold = page.locator(".fold")
    expect(fold).to_have_text("#1 60 times in 179 ms: nacked, requeued, redelivered")
    expect(page.locator(".step", has_text="nacked #1")).to_have_count(0)

    fold.click()

    expect(page.locator(".step", has_text="nacked #1").first).to_be_visible()


def test_prefetch_and_calls_of_the_test_are_not_folded_with_the_set_up(open_story: Open) -> None:
    story = bouncing(4)
    for kind, text in (("qos", "c2/ch1 set its prefetch to 1"), ("called", "the test called reset_peer")):
        story["events"].insert(0, {"t": 0, "kind": kind, "from": "b1/c2", "text": text, "setup": True})

    page = open_story(story)

    expect(page.locator(".step .words").nth(0)).to_have_text("the test called reset_peer")
    expect(page.locator(".step .words").nth(1)).to_have_text("c2/ch1 set its prefetch to 1")


def test_long_pause_and_the_time_until_an_ack_are_shown(open_story: Open) -> None:
    story = busy(10)
    for event in story["events"][4:]:
        event["t"] += 150_000

    page = open_story(story)

    expect(page.locator(".gap")).to_have_text("151 ms")
    expect(page.locator(".step", has_text="acked #1")).to_contain_text("acked #1 after 151 ms")


def test_last_row_says_where_the_test_failed(open_story: Open) -> None:
    story = shop()
    story["test"]["failed_at"] = {"t": 25_000, "wall": 25_000}

    page = open_story(story)

    expect(page.locator(".steps > *").last).to_contain_text("25 msfailed here AssertionError: 'jobs' acked 1 message")


def test_consumer_tag_is_shortened_and_whole_on_hover(open_story: Open) -> None:
    story = bouncing(4)
    text = "c2/ch1 consumes 'jobs' as 'ctag1.11a489af9ace4c4e956a181e2a0bd1ef'"
    story["events"].append({"t": 900_000, "kind": "consume", "from": "b1/c2", "to": "b1/q/jobs", "text": text})

    words = open_story(story).locator(".step .words").last

    expect(words).to_have_text("c2/ch1 consumes 'jobs' as 'ctag1.11a489…'")
    expect(words).to_have_attribute("title", text)
