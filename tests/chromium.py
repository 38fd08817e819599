"""A browser for tests of pages, for every folder that has some: import the fixtures in a conftest or a test module."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Open = Callable[..., "Page"]

# Where the browser reports what the policy of the page has refused.
_COLLECT_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


# Not longer: meanwhile, asyncio takes the thread for one that runs an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium or Chrome. In CI on Linux it has to be there; elsewhere the tests are skipped without it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        reason = "there is no chromium; install Debian's package chromium"
        if os.environ.get("CI") and sys.platform == "linux":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture
def expected_noise() -> list[str]:
    """Return how messages in the console may begin; a test adds what it provokes."""
    return []


@pytest.fixture
def open_file(browser: Browser, expected_noise: list[str]) -> Iterator[Open]:
    """Return what opens a file as a page. When the test ends, its console must be empty and its policy intact."""
    with opening(browser, expected_noise) as open_address:

        def open_it(path: Path, place: str = "", **options: Any) -> Page:
            return open_address(f"{path.as_uri()}{place}", **options)

        yield open_it


@contextmanager
def opening(browser: Browser, expected_noise: list[str]) -> Iterator[Open]:
    """Give what opens an address. In the end, the console must be empty and the policy of the page intact."""
    pages: list[Page] = []
    noise: list[str] = []

    def open_it(address: str, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.add_init_script(_COLLECT_VIOLATIONS)
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(f"{error.message} {error.stack}"))
        page.goto(address)
        pages.append(page)
        return page

    yield open_it
    violations = [violation for page in pages for violation in page.evaluate("window.violations")]
    for page in pages:
        page.context.close()
    unexpected = dict.fromkeys(line for line in noise if not line.startswith(tuple(expected_noise)))
    assert not unexpected, list(unexpected)[:3]
    assert violations == [], violations


def axe_violations(page: Page, impacts: tuple[str, ...] = ()) -> list[str]:
    """Return what axe finds, with the elements: everything, or what has one of these impacts."""
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page).response["violations"]
    found = [rule for rule in violations if not impacts or rule["impact"] in impacts]
    return [f"{rule['id']}: {node['html'][:120]} {node['failureSummary']}" for rule in found for node in rule["nodes"]]
