"""The pictures in docs/images, taken with Debian's Chromium.

    python tools/screenshots.py [FOLDER]

It runs the test below with the plugin, and records the history of a shop. To the folder, by default docs/images, it
saves `page-*.png` of the page that leveret writes of the failed test, `report.png` of the report on the history, and
`live-page.png` of the live page of a broker. Take them on an idle machine, as a page marks every pause. It needs the
extras `dev` and `pipeline`, and the programs `chromium` and `pngquant`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pika
from playwright.sync_api import Browser, Page, expect, sync_playwright

from leveret import Broker

ROOT: Final = Path(__file__).parents[1]
SIZE: Final = (1120, 1000)
LIVE_SIZE: Final = (1400, 900)

# A shop that publishes one key wrong, and a worker that rejects an order and asks for another one again.
FAILING_TEST: Final = """
import json

import pika
import pytest


def connect(leveret, name):
    parameters = pika.URLParameters(leveret.url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def test_every_paid_order_is_billed(leveret):
    leveret.declare_exchange("orders", "topic")
    leveret.declare_exchange("failed", "fanout")
    leveret.declare_queue("billing", arguments={"x-dead-letter-exchange": "failed"})
    leveret.declare_queue("reminders", arguments={"x-message-ttl": 3_600_000})
    leveret.declare_queue("parked")
    leveret.bind_queue("billing", "orders", "order.*.paid")
    leveret.bind_queue("reminders", "orders", "order.*.open")
    leveret.bind_queue("parked", "failed", "")

    with connect(leveret, "shop") as shop, connect(leveret, "billing") as worker:
        orders = shop.channel()
        orders.confirm_delivery()
        bills = worker.channel()
        for number, key in enumerate(["order.7.paid", "order.8.paid", "order.9.open", "order.10.paid", "order.paid"]):
            body = json.dumps({"id": number + 7, "total": "19.90", "items": ["tea", "cups"]})
            properties = pika.BasicProperties(content_type="application/json", headers={"tenant": "acme"})
            try:
                orders.basic_publish("orders", key, body, properties, mandatory=True)
            except pika.exceptions.UnroutableError:
                pass
            method, _, order = bills.basic_get("billing")
            if method is None:
                continue
            if number == 1:
                bills.basic_reject(method.delivery_tag, requeue=False)
                continue
            if number == 3:
                bills.basic_nack(method.delivery_tag)
                method, _, order = bills.basic_get("billing")
            bills.basic_publish("", "parked", json.dumps({"bill for": number + 7}))
            bills.basic_ack(method.delivery_tag)
        leveret.clock.advance(2 * 3600)
        leveret.assert_acked("billing", times=4)
"""

# The name of each picture, the place in the page, and whether it is dark.
PICTURES: Final = (
    ("page-sequence", "#sequence", False),
    ("page-message", "#message-3", False),
    ("page-topology", "#topology", False),
    ("page-dark", "#message-4", True),
)
# The runs of the report.
HISTORY: Final = "from tests.pipeline import shop_history; shop_history.record('traces')"
# The colours of a picture. More are not seen, and a file of 256 has a third of the bytes.
PNGQUANT: Final = ("pngquant", "--force", "--strip", "--speed=1", "256", "--ext=.png")


def main(folder: Path) -> int:
    """Take all pictures, and return the exit status."""
    missing = [program for program in ("chromium", "pngquant") if shutil.which(program) is None]
    if missing:
        print(f"{' and '.join(missing)} not found; install Debian's packages of these names", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        page, report = failing_page(Path(made)), Path(made) / "report.html"
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, place, is_dark in PICTURES:
            take(browser, f"{page.as_uri()}{place}", folder / f"{name}.png", is_dark=is_dark)
        take(browser, report.as_uri(), folder / "report.png", is_dark=False)
        take_live(browser, folder / "live-page.png")
        browser.close()
    pictures = [str(folder / f"{name}.png") for name in (*(name for name, _, _ in PICTURES), "report", "live-page")]
    subprocess.run([*PNGQUANT, *pictures], check=True)
    print(*pictures, sep="\n")
    return 0


def failing_page(folder: Path) -> Path:
    """Run the test, write `report.html` on a history, and return the page that leveret writes of the failed test."""
    test = folder / "tests" / "test_billing.py"
    test.parent.mkdir()
    test.write_text(FAILING_TEST, encoding="utf-8")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "pytest_plugin"), str(ROOT)])
    run = partial(
        subprocess.run, cwd=folder, env={**os.environ, "PYTHONPATH": path, "CI": ""}, capture_output=True, text=True
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--import-mode=importlib"]
    options = [f"--rootdir={folder}", f"--leveret-pages-dir={folder / 'pages'}", "--leveret-seed=7"]
    done = run([*command, *options, str(test)])
    pages = sorted((folder / "pages").glob("*test_billing*.html"))
    if len(pages) != 1 or "expected exactly 4 acked" not in pages[0].read_text(encoding="utf-8"):
        raise RuntimeError(f"the test failed otherwise than it should\n{done.stdout}\n{done.stderr}")
    run([sys.executable, "-c", HISTORY], check=True)
    run([sys.executable, "-m", "leveret", "pipeline", "report", "traces"], check=True)
    return pages[0]


def take_live(browser: Browser, path: Path) -> None:
    """Save a picture of the live page of a broker with a queue that grows and a client that loses a message."""
    with Broker(management=True) as broker:
        broker.declare_exchange("shop", "topic")
        broker.declare_queue("orders.dead")
        broker.declare_queue(
            "orders", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.dead"}
        )
        broker.declare_queue("invoices", arguments={"x-queue-type": "quorum"})
        broker.bind_queue("orders", "shop", "order.#")
        broker.bind_queue("invoices", "shop", "invoice.*")
        with (
            shown(browser, broker.management_url, size=LIVE_SIZE) as page,
            connected(broker, "billing") as billing,
            connected(broker, "payments") as payments,
        ):
            queues = page.get_by_role("region", name="Queues", exact=True)
            queues.get_by_role("button", name="orders", exact=True).click()
            worker = billing.channel()
            worker.basic_qos(prefetch_count=1)
            worker.basic_consume("orders", lambda *_: None, consumer_tag="bills")
            for number in range(7, 40):
                headers = {"trace": f"a{number}"}
                broker.publish("shop", "order.created", json={"id": number, "total": 12 * number}, headers=headers)
                # So that the line of the queue rises in steps.
                page.wait_for_timeout(250)
            payer = payments.channel()
            broker.publish("shop", "invoice.new", json={"id": 7})
            invoice, _, _ = payer.basic_get("invoices")
            payer.basic_reject(invoice.delivery_tag, requeue=False)
            expect(page.get_by_text("payments rejected")).to_be_visible()
            expect(queues.locator("tbody tr").filter(has_text="+33")).to_be_visible()
            page.screenshot(path=path)
        broker.assert_dropped("invoices", reason="rejected")


def connected(broker: Broker, name: str) -> pika.BlockingConnection:
    """Return a connection of a client of this name."""
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def take(browser: Browser, address: str, path: Path, *, is_dark: bool) -> None:
    """Save a picture of what the page shows at an address."""
    with shown(browser, address, is_dark=is_dark) as page:
        page.screenshot(path=path)


@contextmanager
def shown(browser: Browser, address: str, *, is_dark: bool = False, size: tuple[int, int] = SIZE) -> Iterator[Page]:
    """Give the page at an address."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if is_dark else "light",
        http_credentials={"username": "guest", "password": "guest"},
    )
    page = context.new_page()
    page.goto(address)
    yield page
    context.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "images"))
