"""The live page in Chromium: it shows the broker as it changes, and acts on it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import Browser, Page, expect

from leveret import Broker
from tests.chromium import axe_violations
from tests.http.client import ask

# A busy machine is no reason to fail.
expect.set_options(timeout=30_000)

GUEST = {"username": "guest", "password": "guest"}

# A client that publishes 5,000 messages a second, which are 10,000 events.
FLOOD = """
import sys, pika

connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
channel = connection.channel()
while True:
    for _ in range(50):
        channel.basic_publish("", "orders", b"x")
    connection.process_data_events(0.01)
"""

HALTED = """
from leveret import Broker

with Broker(management=True) as broker:
    broker.declare_queue("orders")
    print(broker.management_url, flush=True)
    breakpoint()
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(management=True, checks="all=off") as broker:
        yield broker


@pytest.fixture(scope="module")
def opened(browser: Browser, shared: Broker) -> Iterator[Page]:
    """Open the page once: a new one takes longer than most tests."""
    noise: list[str] = []
    context = browser.new_context(http_credentials=GUEST, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.goto(shared.management_url)
    yield page
    context.close()
    # A browser notes each refusal that it gets.
    assert [line for line in noise if not line.startswith("Failed to load resource")] == []


@pytest.fixture
def live(shared: Broker) -> Broker:
    shared.reset()
    shared.declare_queue("orders")
    return shared


@pytest.fixture
def page(opened: Page, live: Broker) -> Page:
    opened.evaluate("for (const form of document.forms) form.reset()")
    expect(cell(opened, "Queues", "orders", 2)).to_have_text("0")
    return opened


def named(broker: Broker, name: str) -> pika.BlockingConnection:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def purge(page: Page, queue: str) -> None:
    page.get_by_role("button", name=f"Purge {queue}").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()


def let_rates_pass(page: Page) -> None:
    """Put the clock of the page forward by the five seconds that a rate looks back."""
    page.evaluate("const now = performance.now.bind(performance); performance.now = () => now() + 5000")


def cell(page: Page, section: str, name: str, index: int):
    region = page.get_by_role("region", name=section, exact=True)
    return region.locator("tbody tr").filter(has_text=name).locator("td").nth(index)


def test_the_page_needs_a_user_of_the_broker(live: Broker) -> None:
    answer = ask(live, "GET", "/", authorization=None)

    assert answer.status == 401
    # So that a browser asks for a user.
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_a_queue_appears_changes_and_goes(page: Page, live: Broker) -> None:
    live.declare_queue("invoices")
    expect(cell(page, "Queues", "invoices", 2)).to_have_text("0")

    live.publish("", "invoices", "x")
    expect(cell(page, "Queues", "invoices", 2)).to_have_text("1")

    live.delete_queue("invoices")
    expect(page.get_by_role("button", name="invoices", exact=True)).to_have_count(0)


def test_an_exchange_shows_its_bindings(page: Page, live: Broker) -> None:
    live.declare_exchange("shop", "topic")
    live.bind_queue("orders", "shop", "order.#")

    expect(cell(page, "Exchanges", "shop", 2)).to_have_text("order.# → orders")


def test_exchanges_and_queues_are_drawn_with_their_bindings(page: Page, live: Broker) -> None:
    live.declare_queue("dead")
    live.declare_queue("jobs", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    live.declare_exchange("shop", "topic")
    live.bind_queue("jobs", "shop", "order.#")
    topology = page.get_by_role("region", name="Topology", exact=True)

    expect(topology.get_by_role("region", name="exchange shop")).to_contain_text("order.# to jobs")
    expect(topology.get_by_role("region", name="queue jobs")).to_contain_text("dead letters to dead")
    expect(topology.locator(".edge:not(.tip)")).to_have_count(2)


def test_a_client_appears_with_what_it_holds_and_goes(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    with pika.BlockingConnection(pika.URLParameters(live.url)) as connection:
        connection.channel().basic_get("orders")

        expect(cell(page, "Connections", "guest", 4)).to_have_text("1")
        expect(cell(page, "Queues", "orders", 3)).to_have_text("1")

    expect(page.get_by_text("No connections.")).to_be_visible()


def test_rates_say_what_goes_in_and_out_of_a_queue_until_nothing_does(page: Page, live: Broker) -> None:
    # Earlier tests have filled and emptied the queue.
    let_rates_pass(page)
    with subprocess.Popen([sys.executable, "-c", FLOOD, live.url]) as flood:
        try:
            expect(cell(page, "Queues", "orders", 4)).to_have_text(re.compile("[1-9]"))
            expect(cell(page, "Queues", "orders", 5)).to_have_text("0")
        finally:
            flood.kill()
    # Then the page has all of the flood.
    expect(page.get_by_text("No connections.")).to_be_visible()

    let_rates_pass(page)

    expect(cell(page, "Queues", "orders", 4)).to_have_text("0")


def test_a_queue_that_grows_says_by_how_much_in_the_last_minute(page: Page, live: Broker) -> None:
    live.declare_queue("growing")
    expect(cell(page, "Queues", "growing", 2)).to_have_text("0")

    for _ in range(3):
        live.publish("", "growing", "x")

    expect(cell(page, "Queues", "growing", 7)).to_have_text("+3")
    line = cell(page, "Queues", "growing", 7).get_by_role("img")
    expect(line).to_have_attribute("aria-label", "From 0 to 3 messages")


def test_a_chosen_queue_shows_its_arguments_and_its_policy(page: Page, live: Broker) -> None:
    live.declare_queue("short", arguments={"x-message-ttl": 60_000})
    live.admin.set_policy("small", "short", {"max-length": 7})

    page.get_by_role("button", name="short", exact=True).click()

    queue = page.get_by_role("region", name="Queue", exact=True)
    expect(queue).to_contain_text("x-message-ttl=60000")
    expect(queue).to_contain_text("small: max-length=7")


def test_a_chosen_queue_shows_who_consumes_how_and_holds_what(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    with named(live, "billing") as billing, named(live, "audit") as audit:
        worker = billing.channel()
        worker.basic_qos(prefetch_count=3)
        worker.basic_consume("orders", lambda *_: None, consumer_tag="worker")
        expect(cell(page, "Queues", "orders", 3)).to_have_text("1")
        audit.channel().basic_consume("orders", lambda *_: None, auto_ack=True, consumer_tag="reader")
        page.get_by_role("button", name="orders", exact=True).click()

        expect(cell(page, "Queue", "worker", 1)).to_have_text("billing, channel 1")
        expect(cell(page, "Queue", "worker", 2)).to_have_text("by the client")
        expect(cell(page, "Queue", "worker", 3)).to_have_text("3")
        expect(cell(page, "Queue", "worker", 4)).to_have_text("1")
        expect(cell(page, "Queue", "reader", 2)).to_have_text("automatic (no_ack)")


def test_an_event_is_told_in_words_with_the_name_of_its_client(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    with named(live, "billing") as billing:
        channel = billing.channel()
        method, _, _ = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)

        told = page.get_by_role("region", name="Last events")
        expect(told).to_contain_text(re.compile(r"billing \(c\d+/ch1\) acked #1 of 'orders'"))


def test_what_went_wrong_is_said_as_it_happens_and_no_longer_once_the_test_expects_it(browser: Browser) -> None:
    with browser.new_context(http_credentials=GUEST) as context, Broker(management=True) as broker:
        page = context.new_page()
        page.goto(broker.management_url)
        wrong = page.get_by_role("region", name="What went wrong so far")
        expect(page.get_by_text("; live; ")).to_be_visible()
        expect(wrong).to_have_count(0)
        broker.declare_queue("orders")

        broker.publish("", "oders", "x")
        broker.publish("", "oders", "y")

        sentence = "#1 reached no queue: there is no queue 'oders' (nearest: 'orders'), and 1 more like it"
        expect(wrong.get_by_role("listitem")).to_have_text(sentence)
        broker.assert_dropped(reason="no route", times=2)
        broker.publish("", "orders", "z")
        expect(wrong).to_have_count(0)


def test_a_flood_of_losses_is_one_sentence_that_says_that_there_may_be_more(browser: Browser) -> None:
    with browser.new_context(http_credentials=GUEST) as context, Broker(management=True) as broker:
        broker.declare_queue("orders")
        for _ in range(300):
            broker.publish("", "oders", "x")
        page = context.new_page()

        page.goto(broker.management_url)

        wrong = page.get_by_role("region", name="What went wrong so far")
        expect(wrong.get_by_role("listitem")).to_contain_text(", and at least 299 more like it")
        broker.assert_dropped(reason="no route", times=300)


def test_an_opened_queue_does_not_push_the_forms_away(page: Page, live: Broker) -> None:
    form = page.get_by_role("form", name="Publish")
    before = form.bounding_box()
    for number in range(60):
        live.publish("", "orders", f"{number}")

    page.get_by_role("button", name="orders", exact=True).click()
    expect(page.get_by_text("and 10 more messages")).to_be_attached()

    assert form.bounding_box() == before


def test_a_chosen_queue_that_is_deleted_does_not_exist_any_more(page: Page, live: Broker) -> None:
    page.get_by_role("button", name="orders", exact=True).click()
    expect(page.get_by_role("region", name="Messages", exact=True)).to_be_visible()

    live.delete_queue("orders")

    expect(page.get_by_role("region", name="Queue", exact=True)).to_contain_text("It does not exist any more.")


def test_the_messages_of_a_queue_are_shown_and_followed(page: Page, live: Broker) -> None:
    live.publish("", "orders", "first", headers={"trace": "a"})
    page.get_by_role("button", name="orders", exact=True).click()
    messages = page.get_by_role("region", name="Messages", exact=True)
    expect(messages).to_contain_text("first")
    expect(messages).to_contain_text('{"trace":"a"}')

    live.publish("", "orders", "second")

    expect(messages).to_contain_text("second")


def test_what_a_message_says_is_never_markup(page: Page, live: Broker) -> None:
    live.publish("", "orders", "<img src=x onerror=alert(1)><script>alert(2)</script>")
    page.get_by_role("button", name="orders", exact=True).click()

    expect(page.locator(".message pre")).to_have_text("<img src=x onerror=alert(1)><script>alert(2)</script>")
    assert page.locator("img").count() == 0


def test_a_message_is_published_by_the_form(page: Page, live: Broker) -> None:
    page.get_by_label("routing key").fill("orders")
    page.get_by_label("body").fill("from the page")
    page.get_by_role("button", name="Publish").click()

    expect(page.get_by_text("The message was routed.")).to_be_visible()
    assert live.assert_published().text == "from the page"


def test_a_queue_is_purged_by_its_button(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    expect(cell(page, "Queues", "orders", 2)).to_have_text("1")

    purge(page, "orders")

    expect(cell(page, "Queues", "orders", 2)).to_have_text("0")
    live.assert_empty("orders")


def test_purge_asks_first_and_does_nothing_when_it_is_cancelled(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    expect(cell(page, "Queues", "orders", 2)).to_have_text("1")

    page.get_by_role("button", name="Purge orders").click()
    expect(page.get_by_role("dialog")).to_contain_text("Remove 1 ready message from orders?")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("dialog")).to_have_count(0)
    assert len(live.queue("orders").ready) == 1


def test_time_is_held_and_moved(page: Page, live: Broker) -> None:
    live.declare_queue("short", arguments={"x-message-ttl": 60_000})
    page.get_by_role("button", name="Hold time").click()
    expect(page.get_by_text("; time is held at")).to_be_visible()
    live.publish("", "short", "x")
    expect(cell(page, "Queues", "short", 2)).to_have_text("1")

    page.get_by_label("seconds").fill("60")
    page.get_by_role("button", name="Advance").click()

    expect(cell(page, "Queues", "short", 2)).to_have_text("0")
    live.assert_dropped("short", reason="expired")
    page.get_by_role("button", name="Let time run").click()
    expect(page.get_by_text("live; time runs")).to_be_visible()


def test_a_fault_is_added_fires_and_is_shown(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(cell(page, "Faults", "reset_peer", 1)).to_have_text("0 times")

    channel = pika.BlockingConnection(pika.URLParameters(live.url)).channel()
    method, _, _ = channel.basic_get("orders")
    channel.basic_ack(method.delivery_tag)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel.queue_declare("orders", passive=True)

    expect(cell(page, "Faults", "reset_peer", 1)).to_have_text("1 time")
    assert live.faults.rules[0].fired == 1


def test_a_fault_without_an_occasion_is_refused_and_does_nothing(page: Page, live: Broker) -> None:
    page.get_by_label("on which method or event").fill("")
    page.get_by_role("button", name="Add", exact=True).click()

    expect(page.get_by_text("'on' is missing for the fault 'reset_peer'")).to_be_visible()
    assert live.faults.rules == []


def test_an_empty_form_does_not_publish(page: Page, live: Broker) -> None:
    page.get_by_role("button", name="Publish").click()

    expect(page.get_by_text("The exchange and the routing key are empty")).to_be_visible()
    live.assert_not_published()


def test_a_message_goes_to_the_virtual_host_of_the_chosen_queue(page: Page, live: Broker) -> None:
    live.admin.add_vhost("shop")
    live.declare_queue("paid", vhost="shop")

    page.get_by_role("button", name="paid in shop").first.click()

    expect(page.get_by_label("virtual host", exact=True)).to_have_value("shop")


def test_the_answer_to_a_click_stands_beside_its_button(page: Page, live: Broker) -> None:
    live.publish("", "orders", "x")
    expect(cell(page, "Queues", "orders", 2)).to_have_text("1")
    answer = page.get_by_role("form", name="Time").get_by_role("status", name="Answer")

    purge(page, "orders")
    expect(cell(page, "Queues", "orders", 8)).to_contain_text("1 message purged.")
    page.get_by_role("button", name="Hold time").click()
    expect(answer).to_contain_text("Time is held at")
    page.get_by_role("button", name="Let time run").click()
    expect(answer).to_have_text("Time runs again.")
    expect(cell(page, "Queues", "orders", 8)).to_have_text("Purge")


def test_a_refusal_is_shown_with_its_reason(page: Page) -> None:
    page.get_by_label("exchange", exact=True).fill("missing")
    page.get_by_role("button", name="Publish").click()

    expect(page.get_by_text("NOT_FOUND - no exchange 'missing'")).to_be_visible()


def test_a_stopped_broker_is_not_taken_for_a_live_one(browser: Browser) -> None:
    with browser.new_context(http_credentials=GUEST) as context:
        page = context.new_page()
        with Broker(management=True) as broker:
            page.goto(broker.management_url)
            expect(page.get_by_text("; live; ")).to_be_visible()
            broker.declare_queue("audit")
            page.get_by_role("button", name="audit", exact=True).click()
            expect(page.get_by_text("0 ready, 0 unacked")).to_be_visible()

        expect(page.get_by_text("not connected: this is the last that was seen")).to_be_visible()
        expect(page.get_by_text("0 ready, 0 unacked")).to_be_visible()
        purge(page, "audit")
        expect(page.get_by_text("The broker does not answer")).to_be_visible()


def test_a_flood_of_events_reaches_the_page_in_few_pieces_and_buttons_still_work(page: Page, live: Broker) -> None:
    page.evaluate(
        """() => {
            window.pieces = 0;
            const stream = new EventSource("/live");
            stream.onmessage = () => { window.pieces += 1; };
            return new Promise((resolve) => { stream.onopen = resolve; });
        }"""
    )
    with subprocess.Popen([sys.executable, "-c", FLOOD, live.url]) as flood:
        try:
            page.get_by_role("button", name="orders", exact=True).click()
            expect(page.locator(".message").first).to_be_visible()
            purge(page, "orders")
            page.get_by_label("routing key").fill("nowhere")
            page.get_by_role("button", name="Publish").click()
            expect(page.get_by_text("The message reached no queue.")).to_be_visible()
        finally:
            flood.kill()

    # Two events for each message; a piece holds the events of a tenth of a second.
    live.publish("", "orders", "last")
    count = live.assert_published(body="last").source.id
    pieces = page.evaluate("window.pieces")
    assert pieces > 0
    assert pieces < count / 20


def test_a_test_at_a_breakpoint_is_shown_and_the_page_answers(browser: Browser, tmp_path) -> None:
    script = tmp_path / "halting.py"
    script.write_text(HALTED)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        with browser.new_context(http_credentials=GUEST) as context:
            page = context.new_page()
            page.goto(url)
            expect(page.get_by_role("alert")).to_contain_text("A debugger holds the test at")
            expect(page.get_by_role("alert")).to_contain_text("halting.py")
            page.get_by_label("routing key").fill("orders")
            page.get_by_role("button", name="Publish").click()
            expect(cell(page, "Queues", "orders", 2)).to_have_text("1")
        process.stdin.write("c\n")
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_page(page: Page, live: Broker, scheme: str) -> None:
    live.publish("", "orders", "x")
    live.faults.reset_peer(on="basic.ack", optional=True)
    page.emulate_media(color_scheme=scheme)
    page.get_by_role("button", name="orders", exact=True).click()
    expect(page.locator(".message").first).to_be_visible()
    expect(cell(page, "Faults", "reset_peer", 1)).to_have_text("0 times")

    assert axe_violations(page) == []


def test_the_page_fits_a_phone_without_breaking_words(page: Page, live: Broker) -> None:
    name = "a-rather-long-queue-name.of.some.service"
    live.declare_queue(name)
    expect(cell(page, "Queues", name, 1)).to_have_text("classic")
    page.set_viewport_size({"width": 390, "height": 800})

    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # A word that breaks takes two lines.
    lines = """(cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map((line) => line.top)).size;
    }"""
    assert cell(page, "Queues", "of.some.service", 1).evaluate(lines) == 1
    assert page.get_by_role("button", name="Purge a-rather").evaluate(lines) == 1
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_page_allows_nothing_but_its_own_script_and_style(live: Broker) -> None:
    answer = ask(live, "GET", "/")

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "connect-src 'self'" in policy
