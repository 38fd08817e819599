"""The playground of the documentation: Python, pika and a broker in the browser, from the site's own files."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.chromium import axe_violations
from tests.site.conftest import ROOT, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE = {"width": 420, "height": 800}
DESK = {"width": 1400, "height": 1000}
SIZE_MAX = 8_000_000
# Python starts slowly on a busy machine.
PATIENCE = 300_000

DEFINITIONS: dict[str, dict[str, Any]] = {
    "a policy's dead letters": {
        "policies": [
            {
                "vhost": "/",
                "name": "dead",
                "pattern": "^orders$",
                "apply-to": "queues",
                "priority": 0,
                "definition": {"dead-letter-exchange": "dlx"},
            }
        ],
        "exchanges": [{"name": "dlx", "vhost": "/", "type": "topic", "durable": True}],
        "queues": [
            {"name": "orders", "vhost": "/", "durable": True},
            {"name": "parking", "vhost": "/", "durable": True},
        ],
        "bindings": [
            {
                "source": "dlx",
                "vhost": "/",
                "destination": "parking",
                "destination_type": "queue",
                "routing_key": "#",
            }
        ],
    },
    "a virtual host of its own": {
        "vhosts": [{"name": "shop"}],
        "queues": [{"name": "orders", "vhost": "shop", "durable": True, "arguments": {"x-queue-type": "quorum"}}],
    },
    "a dead letter without a way": {
        "queues": [
            {
                "name": "orders",
                "vhost": "/",
                "durable": True,
                "arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "misspelt"},
            }
        ]
    },
}


@pytest.fixture(scope="module")
def requests() -> list[str]:
    """The addresses that the page and its worker have asked for."""
    return []


@pytest.fixture(scope="module")
def open_play(browser: Browser, site: Site, requests: list[str]) -> Iterator[Callable[[str], Page]]:
    """Return what opens the playground, at a place such as "#play=...", and starts it."""
    if not (site.folder / "assets/pyodide").exists():
        reason = "there is no Pyodide; run npm ci"
        if os.environ.get("CI") and sys.platform == "linux":
            pytest.fail(reason)
        pytest.skip(reason)
    with browser.new_context(viewport=DESK, color_scheme="light") as context:
        context.set_default_timeout(60_000)
        context.on("request", lambda request: requests.append(request.url))

        def open_it(place: str) -> Page:
            page = context.new_page()
            page.goto(f"{site.address_without_search}playground/{place}")
            page.get_by_role("button", name="Start").click()
            expect(page.locator(".play-line")).to_contain_text(re.compile(r"ready|#"), timeout=PATIENCE)
            return page

        yield open_it


@pytest.fixture(scope="module")
def play(open_play: Callable[[str], Page]) -> Page:
    """Return the playground with its first story."""
    return open_play("")


def click(page: Page, name: str) -> None:
    """Click a button, and wait until what it begins is done."""
    page.get_by_role("button", name=name, exact=True).first.click()
    settled(page)


def settled(page: Page) -> None:
    expect(page.locator("#play[aria-busy]")).to_have_count(0, timeout=PATIENCE)


def choose(page: Page, story: str) -> None:
    page.get_by_label("Story").select_option(label=story)
    settled(page)


def get(page: Page, queue: str) -> None:
    page.get_by_role("combobox", name="Queue").select_option(queue)
    click(page, "Get a message")


def paste(page: Page, definitions: dict[str, Any]) -> None:
    choose(page, "Your own definitions")
    page.get_by_label("definitions.json").fill(json.dumps(definitions))
    click(page, "Import")


def publish(page: Page, exchange: str, key: str, body: str) -> None:
    page.get_by_label("Exchange").select_option(exchange)
    page.get_by_label("Routing key").fill(key)
    page.get_by_label("Body").fill(body)
    for more in ("Expiration in ms", "Headers as JSON"):
        page.get_by_label(more).fill("")
    click(page, "Publish")


def line(page: Page) -> str:
    return page.locator(".play-line").inner_text()


def test_the_first_publish_comes_within_twice_the_start_of_pyodide(play: Page) -> None:
    click(play, "Publish")

    assert line(play) == "#1: ready in 'work'."
    times = {
        name: int(play.locator("#play").get_attribute(f"data-{name}") or 0) for name in ("started", "loaded", "took")
    }
    assert times["loaded"] + times["took"] < 2 * times["started"], times


def test_a_retry_comes_back_after_its_ttl(play: Page) -> None:
    choose(play, "Retry with a TTL")
    click(play, "Publish")
    get(play, "work")
    click(play, "Reject m1")
    assert line(play) == "#1: ready in 'work.retry'."

    click(play, "1 minute")

    assert line(play) == "#1: ready in 'work'."
    drawing = play.frame_locator("iframe")
    expect(drawing.get_by_role("tab", name="Topology")).to_have_attribute("aria-selected", "true")
    expect(drawing.locator(".graph")).to_contain_text("dead letters → work.retry")


def test_a_fan_out_gives_each_queue_a_copy(play: Page) -> None:
    choose(play, "Fan-out")

    click(play, "Publish")

    assert all(f"ready in '{queue}'" in line(play) for queue in ("mail", "stock", "audit"))


def test_a_topic_chooses_by_words(play: Page) -> None:
    choose(play, "Topic")

    publish(play, "shop", "order.paid", "7")

    assert line(play) == "#1: ready in 'all orders'."


def test_a_quorum_queue_ends_a_poison_message(play: Page) -> None:
    choose(play, "Quorum queue with a delivery limit")
    click(play, "Publish")

    for number in (1, 2, 3):
        get(play, "jobs")
        click(play, f"Requeue m{number}")

    assert line(play) == "#1: requeued 2 times; ready in 'failed'."


def test_a_delayed_message_is_in_its_queue_an_hour_later(play: Page) -> None:
    choose(play, "Delayed message")
    click(play, "Publish")
    assert "ready" not in line(play)

    click(play, "1 hour")

    assert line(play) == "#1: ready in 'reminders'."


def test_a_broken_connection_gives_back_what_it_held(play: Page) -> None:
    choose(play, "Fan-out")
    click(play, "Publish")
    get(play, "mail")
    click(play, "Break the connection")

    get(play, "mail")

    expect(play.locator(".play-held li")).to_contain_text("(redelivered)")


ANSWERS = {
    "a policy's dead letters": "#1: ready in 'parking'.",
    "a virtual host of its own": "#1: dropped from 'orders' (rejected)",
    "a dead letter without a way": (
        "#1: dead-lettered from 'orders' (rejected) by c1/ch1 after 1 delivery to exchange '', which led to no queue."
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_pasted_definitions_say_what_becomes_of_a_rejected_message(play: Page, name: str) -> None:
    paste(play, DEFINITIONS[name])
    publish(play, "", "orders", "7")
    assert line(play) == "#1: ready in 'orders'."
    get(play, "orders")

    click(play, "Reject m1")

    assert line(play).startswith(ANSWERS[name])


def test_a_refusal_is_shown_and_the_client_goes_on(play: Page) -> None:
    paste(play, DEFINITIONS["a virtual host of its own"])
    play.get_by_label("Headers as JSON").fill("no JSON")
    click(play, "Publish")
    expect(play.get_by_role("alert")).to_contain_text("headers 'no JSON' are not an object of JSON")

    publish(play, "", "orders", "7")

    assert line(play) == "#1: ready in 'orders'."


def test_wrong_definitions_are_refused_with_the_reason(play: Page) -> None:
    paste(play, {"queues": [{"name": "q", "vhost": "/", "durable": "perhaps"}]})

    expect(play.get_by_role("alert")).to_contain_text("durable")


def test_the_example_of_the_readme_runs(play: Page) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert code is not None
    play.get_by_label("Program").fill(code[1])

    click(play, "Run")

    expect(play.locator(".play-output")).to_have_text("test_an_order_is_dead_lettered passed")
    assert line(play) == "#1: ready in 'orders.failed'."


def test_the_program_of_the_steps_runs_as_it_is_shown(play: Page) -> None:
    choose(play, "Retry with a TTL")
    click(play, "Publish")
    get(play, "work")
    click(play, "Reject m1")
    before = play.locator(".play-messages").inner_text()

    click(play, "Run")

    assert play.locator(".play-messages").inner_text() == before


def test_a_program_without_an_end_can_be_stopped(play: Page) -> None:
    play.get_by_label("Program").fill("while True: pass")
    play.get_by_role("button", name="Run").click()
    play.get_by_role("button", name="Stop").click()
    settled(play)
    expect(play.locator(".play-line")).to_contain_text("Stopped")

    choose(play, "Fan-out")

    expect(play.locator(".play-line")).to_have_text("The broker is ready.", timeout=PATIENCE)


def test_keys_are_enough(play: Page) -> None:
    choose(play, "Topic")
    play.get_by_label("Routing key").focus()

    play.keyboard.press("Enter")
    settled(play)
    assert "ready in 'europe'" in line(play)
    play.get_by_role("button", name="Get a message").focus()
    play.keyboard.press("Enter")
    settled(play)
    play.keyboard.press("Tab")
    play.keyboard.press("Tab")
    play.keyboard.press("Enter")
    settled(play)

    assert "(rejected)" in line(play)


@pytest.mark.parametrize("look", ["default", "slate"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_everyone_can_use_it(play: Page, size: dict[str, int], look: Any) -> None:
    play.set_viewport_size({"width": size["width"], "height": size["height"]})
    if play.locator("body").get_attribute("data-md-color-scheme") != look:
        play.locator("label[title^=Switch]:visible").click()
    expect(play.locator("body")).to_have_attribute("data-md-color-scheme", look)

    assert axe_violations(play) == []
    assert play.evaluate("document.documentElement.scrollWidth") == size["width"]
    play.set_viewport_size({"width": DESK["width"], "height": DESK["height"]})


def test_a_link_repeats_every_step(play: Page, open_play: Callable[[str], Page]) -> None:
    choose(play, "Retry with a TTL")
    click(play, "Publish")
    get(play, "work")
    click(play, "Reject m1")
    expect(play).to_have_url(re.compile("#play="))

    other = open_play(play.url[play.url.index("#") :])
    settled(other)

    assert other.locator(".play-error").is_hidden()
    assert line(other) == "#1: ready in 'work.retry'."
    assert other.get_by_label("Program").input_value() == play.get_by_label("Program").input_value()


def test_it_asks_only_the_site_and_for_little(play: Page, site: Site, requests: list[str]) -> None:
    assert play
    own = site.address_without_search

    assert [url for url in requests if not url.startswith((own, "blob:", "data:"))] == []
    loaded = {
        url.removeprefix(own).partition("?")[0] for url in requests if "/assets/py" in url or "/playground/" in url
    }
    assert "assets/pyodide/pyodide.asm.wasm" in loaded
    files = [site.folder / path for path in loaded if path.startswith("assets/")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < SIZE_MAX
