"""The pictures in docs/images: the page of a test that fails, taken with Debian's Chromium.

    python tools/screenshots.py [FOLDER]

It runs the test below with the plugin, opens the page that leveret writes, and saves `page-*.png` to the folder, by
default docs/images. It needs the extra `dev` and `chromium`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

ROOT: Final = Path(__file__).parents[1]
SIZE: Final = (1120, 1000)

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


def main(folder: Path) -> int:
    """Take all pictures, and return the exit status."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium was not found; install Debian's package chromium", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        page = failing_page(Path(made))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, place, is_dark in PICTURES:
            take(browser, f"{page.as_uri()}{place}", folder / f"{name}.png", is_dark=is_dark)
            print(folder / f"{name}.png")
        browser.close()
    return 0


def failing_page(folder: Path) -> Path:
    """Run the test, and return the page that leveret writes of it."""
    test = folder / "tests" / "test_billing.py"
    test.parent.mkdir()
    test.write_text(FAILING_TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    options = [f"--leveret-pages-dir={folder / 'pages'}", "--leveret-seed=7", str(test)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "pytest_plugin")])
    done = subprocess.run(
        [*command, *options], cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    pages = sorted((folder / "pages").glob("*test_billing*.html"))
    if len(pages) != 1 or "expected exactly 4 acked" not in pages[0].read_text(encoding="utf-8"):
        raise RuntimeError(f"the test failed otherwise than it should\n{done.stdout}\n{done.stderr}")
    return pages[0]


def take(browser: Browser, address: str, path: Path, *, is_dark: bool) -> None:
    """Save a picture of what the page shows at an address."""
    width, height = SIZE
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if is_dark else "light"
    )
    page = context.new_page()
    page.goto(address)
    page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "images"))
