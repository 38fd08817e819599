"""A browser for tests of pages, which is started once, and pages in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Error, Page, ViewportSize

Open = Callable[..., "Page"]

DESK: ViewportSize = {"width": 1280, "height": 800}

# A busy machine is no reason to fail.
_PATIENCE = 60_000
# Where the browser reports what the policy of the page has refused.
_COLLECT_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """Return Chromium or Chrome. In CI on Linux it has to be there; elsewhere the tests are skipped without it.

    Chromium without windows takes two thirds of the processor time.
    """
    path = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if path is None:
        reason = "there is no chromium; install Debian's package chromium-headless-shell"
        if os.environ.get("CI") and sys.platform == "linux":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield launched, loop
        asyncio._set_running_loop(loop)
        launched.close()


@pytest.fixture(scope="module")
def browser(chromium: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """Return the browser for the tests of a module. Between modules, asyncio must not take its loop for a running one:
    it would start no other in this thread.
    """
    launched, loop = chromium
    asyncio._set_running_loop(loop)
    yield launched
    asyncio._set_running_loop(None)


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """Return a page of the browser for the tests of a module: to open a new one takes longer than most tests."""
    with browser.new_context() as context:
        context.set_default_timeout(_PATIENCE)
        page = context.new_page()
        page.add_init_script(_COLLECT_VIOLATIONS)
        yield page


@pytest.fixture
def expected_noise() -> list[str]:
    """Return how messages in the console may begin; a test adds what it provokes."""
    return []


@pytest.fixture
def open_address(tab: Page, expected_noise: list[str]) -> Iterator[Open]:
    """Return what opens an address. When the test ends, the console must be empty and the page's policy intact."""
    noise: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        noise.append(message.text)

    def catch(error: Error) -> None:
        noise.append(f"{error.message} {error.stack}")

    def open_it(address: str, viewport: ViewportSize = DESK, **media: Any) -> Page:
        tab.mouse.move(0, 0)
        if tab.viewport_size != viewport:
            tab.set_viewport_size(viewport)
        tab.emulate_media(**{"media": "null", "color_scheme": "light", "reduced_motion": "null", **media})
        tab.goto(address)
        return tab

    tab.on("console", hear)
    tab.on("pageerror", catch)
    yield open_it
    violations = tab.evaluate("window.violations ?? []")
    tab.remove_listener("console", hear)
    tab.remove_listener("pageerror", catch)
    unexpected = dict.fromkeys(line for line in noise if not line.startswith(tuple(expected_noise)))
    assert not unexpected, list(unexpected)[:3]
    assert violations == [], violations


@pytest.fixture
def open_file(open_address: Open) -> Open:
    """Return what opens a file as a page, at a place such as "#message-3"."""
    return lambda path, place="", **options: open_address(f"{path.as_uri()}{place}", **options)


def axe_violations(page: Page, impacts: tuple[str, ...] = ()) -> list[str]:
    """Return what axe finds, with the elements: everything, or what has one of these impacts."""
    from axe_playwright_python.sync_playwright import Axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    violations = page.evaluate("axe.run({resultTypes: ['violations']}).then((results) => results.violations)")
    found = [rule for rule in violations if not impacts or rule["impact"] in impacts]
    return [f"{rule['id']}: {node['html'][:120]} {node['failureSummary']}" for rule in found for node in rule["nodes"]]
