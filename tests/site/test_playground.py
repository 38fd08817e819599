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


BROKER = """\
import pika
from leveret import Broker

broker = Broker().start()
connection = pika.BlockingConnection(pika.URLParameters(broker.url))
channel = connection.channel()
channel.queue_declare("work", durable=True)
"""


def queue_of(name: str, vhost: str = "/", **arguments: object) -> dict[str, Any]:
    return {"name": name, "vhost": vhost, "durable": True, "arguments": arguments}


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
            expect(page.locator(".play-line")).not_to_contain_text("Starting", timeout=PATIENCE)
            settled(page)
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


def publish(page: Page, exchange: str, key: str, body: str, *, expiration: str = "", headers: str = "") -> None:
    page.get_by_label("Exchange").select_option(exchange)
    page.get_by_label("Routing key").fill(key)
    page.get_by_label("Body").fill(body)
    page.get_by_label("Expiration in ms").fill(expiration)
    page.get_by_label("Headers as JSON").fill(headers)
    click(page, "Publish")


def run(page: Page, program: str) -> None:
    page.get_by_label("Program").fill(program)
    click(page, "Run")


def alert(page: Page) -> str:
    return page.get_by_role("alert").inner_text()


def program(page: Page) -> str:
    return page.get_by_label("Program").input_value()


def queues(page: Page) -> list[str]:
    """Return the rows of the table of queues: name, type, ready, unacked, arguments."""
    return page.locator(".play-queues tbody tr").all_inner_texts()


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
    click(play, "Reject #1 (m1)")
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
        click(play, f"Requeue #1 (m{number})")

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

    click(play, "Reject #1 (m1)")

    assert line(play).startswith(ANSWERS[name])


def test_a_refusal_is_shown_and_the_client_goes_on(play: Page) -> None:
    paste(play, DEFINITIONS["a virtual host of its own"])
    play.get_by_label("Headers as JSON").fill("no JSON")
    click(play, "Publish")
    expect(play.get_by_role("alert")).to_contain_text("headers 'no JSON' is not JSON")

    publish(play, "", "orders", "7")

    assert line(play) == "#1: ready in 'orders'."


def test_wrong_definitions_are_refused_with_the_reason(play: Page) -> None:
    paste(play, {"queues": [{"name": "q", "vhost": "/", "durable": "perhaps"}]})

    expect(play.get_by_role("alert")).to_contain_text("durable")


@pytest.mark.parametrize(
    ("definitions", "reason"),
    [
        ('{"queues": 5}', "'queues' must be a list, not 5"),
        ("[]", "is not an object of JSON"),
        ("{", "is not JSON"),
        ('{"queues": [{"name": "q", "vhost": "shop", "durable": true}]}', "names the unknown virtual host 'shop'"),
    ],
)
def test_after_a_refused_import_nothing_can_be_published(play: Page, definitions: str, reason: str) -> None:
    choose(play, "Your own definitions")
    play.get_by_label("definitions.json").fill(definitions)
    click(play, "Import")

    assert reason in alert(play)
    expect(play.get_by_role("button", name="Publish", exact=True)).to_be_disabled()
    expect(play.get_by_text("Steps 2 to 4 need a broker and a channel")).to_be_visible()
    choose(play, "Fan-out")
    click(play, "Publish")
    assert line(play).startswith("#1: ready in")


def test_an_import_names_the_plugin_that_an_exchange_needs(play: Page) -> None:
    choose(play, "Delayed message")

    assert "its plugin rabbitmq_delayed_message_exchange is not enabled" in line(play)
    expect(play.locator(".play-noticed")).to_contain_text("RabbitMQ refuses the exchange 'later'")


def test_each_virtual_host_can_be_chosen(play: Page) -> None:
    vhosts = [{"name": name} for name in ("/", "shop", "audit")]
    paste(play, {"vhosts": vhosts, "queues": [queue_of("a", "shop"), queue_of("b", "audit")]})
    assert "This is the virtual host 'shop', one of 3: choose another below the definitions." in line(play)

    play.get_by_label("Virtual host").select_option("audit")
    settled(play)
    publish(play, "", "b", "7")

    assert line(play) == "#1: ready in 'b'."
    assert [row.split()[0] for row in queues(play)] == ["b"]
    click(play, "Run")
    assert play.locator(".play-error").is_hidden()
    assert [row.split()[0] for row in queues(play)] == ["b"]


def test_one_virtual_host_leaves_no_choice(play: Page) -> None:
    choose(play, "Fan-out")

    expect(play.get_by_label("Virtual host")).to_be_hidden()


def test_the_box_speaks_of_the_message_that_the_step_touched(play: Page) -> None:
    choose(play, "Fan-out")
    click(play, "Publish")
    click(play, "Publish")
    get(play, "mail")
    assert line(play).startswith("#1: not settled")
    expect(play.locator(".play-held li")).to_contain_text("#1 m1")

    click(play, "Ack #1 (m1)")

    assert line(play).startswith("#1:")
    assert "acked in 'mail'" in line(play)


def test_the_box_counts_the_copies_in_one_queue(play: Page) -> None:
    bindings = [
        {"source": "all", "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": ""}
        for name in ("first", "both")
    ]
    exchange = {"name": "all", "vhost": "/", "type": "fanout", "durable": True}
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "both"}
    paste(
        play, {"exchanges": [exchange], "queues": [queue_of("first", **dead), queue_of("both")], "bindings": bindings}
    )
    publish(play, "all", "", "7")
    get(play, "first")

    click(play, "Reject #1 (m1)")

    assert line(play) == "#1: ready in 'both' (2 copies)."
    assert [row.split()[2] for row in queues(play) if row.startswith("both")] == ["2"]


def test_the_box_says_when_nothing_happened(play: Page) -> None:
    choose(play, "Fan-out")

    get(play, "mail")
    assert line(play) == "'mail' has no message that is ready."
    click(play, "1 hour")
    assert line(play) == "No message has moved in that time."
    click(play, "Break the connection")
    assert line(play) == "The connection was broken. It held no message."


def test_bodies_are_shown_as_they_are(play: Page) -> None:
    choose(play, "Fan-out")

    publish(play, "events", "", '{"id":1,  "a": [1,  2]}')

    assert play.locator(".play-messages code").first.text_content() == '{"id":1,  "a": [1,  2]}'


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
    click(play, "Reject #1 (m1)")
    before = play.locator(".play-messages").inner_text()

    click(play, "Run")

    assert play.locator(".play-messages").inner_text() == before


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"expiration": "abc"}, "invalid expiration 'abc'"),
        ({"headers": '{"n": 12345678901234567890123}'}, "struct.error"),
        ({"headers": '{"n": NaN}'}, "is not JSON"),
    ],
)
def test_the_program_runs_after_a_refused_step(play: Page, more: dict[str, str], reason: str) -> None:
    choose(play, "Retry with a TTL")
    click(play, "Publish")
    publish(play, "", "work", "refused", **more)
    assert reason in alert(play)
    get(play, "work")
    click(play, "Reject #1 (m1)")
    before = play.locator(".play-messages").inner_text()

    click(play, "Run")

    assert play.locator(".play-error").is_hidden()
    assert play.locator(".play-messages").inner_text() == before


def test_a_consumer_of_pika_ends_when_it_stops_or_has_waited(play: Page) -> None:
    run(
        play,
        f"""{BROKER}
def take(channel, method, properties, body):
    print("took", body)
    channel.basic_ack(method.delivery_tag)
    channel.stop_consuming()

channel.basic_consume("work", take)
channel.basic_publish("", "work", b"1")
channel.start_consuming()
channel.basic_publish("", "work", b"2")
for method, properties, body in channel.consume("work", inactivity_timeout=0.1):
    print("then", body)
    if method is None:
        break
    channel.basic_ack(method.delivery_tag)
connection.close()
""",
    )

    assert play.locator(".play-error").is_hidden()
    assert play.locator(".play-output").inner_text().splitlines() == ["took b'1'", "then b'2'", "then None"]
    publish(play, "", "work", "3")
    assert line(play) == "#3: ready in 'work'."


def test_input_is_refused_in_words(play: Page) -> None:
    run(play, "name = input('name?')")

    assert alert(play) == "line 1: RuntimeError: input() cannot ask on this page; write the value into the program"


def test_what_a_program_prints_is_cut(play: Page) -> None:
    run(play, "for i in range(200_000): print(i)")

    shown = play.locator(".play-output").inner_text()
    assert shown.startswith("0\n1\n2\n")
    assert shown.endswith("... and 1,268,890 more characters")
    assert len(shown) < 21_000


def test_a_program_without_an_end_can_be_stopped(play: Page) -> None:
    run(play, "1 / 0")
    assert "ZeroDivisionError" in alert(play)
    play.get_by_label("Program").fill("while True: pass")
    play.get_by_role("button", name="Run").click()
    expect(play.locator(".play-line")).to_have_text("Running ...")
    expect(play.locator(".play-error")).to_be_hidden()

    play.get_by_role("button", name="Stop").click()
    settled(play)

    expect(play.locator(".play-line")).to_contain_text("Stopped")
    expect(play.get_by_role("button", name="Publish", exact=True)).to_be_disabled()
    expect(play.get_by_role("button", name="Stop")).to_be_hidden()
    assert queues(play) == []
    assert axe_violations(play) == []
    run(play, "print('again')")
    expect(play.locator(".play-output")).to_have_text("again")
    choose(play, "Fan-out")
    assert line(play) == "The broker is ready."
    click(play, "Publish")
    assert line(play).startswith("#1: ready in")


def press_to(page: Page, name: str) -> None:
    """Press the tabulator until an element of this name has the focus."""
    wanted = page.get_by_role("button", name=name, exact=True).or_(page.get_by_label(name, exact=True))
    for _ in range(60):
        if wanted.first.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    pytest.fail(f"the tabulator does not lead to {name}")


def test_keys_are_enough(play: Page) -> None:
    play.get_by_label("Story").focus()
    play.keyboard.press("Home")
    settled(play)
    press_to(play, "Publish")
    play.keyboard.press("Enter")
    settled(play)
    assert line(play) == "#1: ready in 'work'."
    press_to(play, "Get a message")
    play.keyboard.press("Enter")
    settled(play)
    press_to(play, "Reject #1 (m1)")

    play.keyboard.press("Enter")
    settled(play)

    assert line(play) == "#1: ready in 'work.retry'."


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
    publish(play, "", "work", "refused", expiration="abc")
    publish(play, "", "work", "7")
    get(play, "work")
    click(play, "Reject #1 (m1)")
    expect(play).to_have_url(re.compile("#play="))

    other = open_play(play.url[play.url.index("#") :])
    settled(other)

    assert other.locator(".play-error").is_hidden()
    assert line(other) == "#1: ready in 'work.retry'."
    assert other.get_by_label("Program").input_value() == play.get_by_label("Program").input_value()


def test_a_link_that_was_cut_says_so(play: Page, open_play: Callable[[str], Page]) -> None:
    click(play, "1 minute")

    other = open_play(play.url[play.url.index("#") : -20])

    assert line(other) == "The link was cut or changed, so that its steps are lost. This is the first story."
    click(other, "Publish")
    assert line(other) == "#1: ready in 'work'."


def test_five_hundred_queues_leave_the_messages_in_sight(play: Page) -> None:
    names = [f"q{number}" for number in range(500)]
    bindings = [
        {"source": "all", "vhost": "/", "destination": name, "destination_type": "queue", "routing_key": ""}
        for name in names
    ]
    exchange = {"name": "all", "vhost": "/", "type": "fanout", "durable": True}
    paste(play, {"exchanges": [exchange], "queues": [queue_of(name) for name in names], "bindings": bindings})

    publish(play, "all", "", "7")

    assert line(play).startswith("#1: ready in 'q0'; ready in 'q1'")
    assert len(line(play)) < 400
    assert len(queues(play)) == 500
    box = play.locator(".play-queues").bounding_box()
    assert box is not None
    assert box["height"] < 600


def test_it_asks_only_the_site_and_for_little(play: Page, site: Site, requests: list[str]) -> None:
    assert play
    own = site.address_without_search

    assert [url for url in requests if not url.startswith((own, "blob:", "data:"))] == []
    loaded = {
        url.removeprefix(own).partition("?")[0] for url in requests if "/assets/py" in url or "/playground/" in url
    }
    assert "assets/pyodide/pyodide.asm.wasm" in loaded
    files = [(site.folder / path).read_bytes() for path in loaded if path.startswith("assets/")]
    compressed = sum(len(gzip.compress(file)) for file in files)
    assert compressed < SIZE_MAX
    # The figures of the first screen.
    first = (ROOT / "docs/assets/playground/playground.js").read_text(encoding="utf-8")
    whole = sum(map(len, files))
    said = f"{compressed / 1_000_000:.0f} MB if the server compresses it, else {whole / 1_000_000:.0f} MB"
    assert said in first
