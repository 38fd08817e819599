"""The site in a browser: a reader finds a page, reads it by day and by night, on a desk and on a telephone."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import Open, axe_violations
from tests.site.conftest import ROOT, Site

# A busy machine is no reason to fail.
expect.set_options(timeout=60_000)

PHONE: dict[str, Any] = {"viewport": {"width": 400, "height": 800}}
# A page of each type.
TYPES = (
    "",
    "tutorial/first-test/",
    "how-to/time/",
    "how-to/frameworks/celery/",
    "explanation/finders/",
    "reference/pytest/",
    "reference/arguments/",
    "reference/features/",
    "reference/api/errors/",
    "contributing/",
    "changelog/",
)
_CRAWLED = "leveret/site-crawled"
# What differs from page to page is put into the page that is open, whose scripts and styles lay it out. To load each
# page with its navigation takes the browser five times as long. All are fetched first, as the browser paints the page
# that is open whenever the script waits.
_WIDTHS_OF_PAGES = """async (addresses) => {
    const widths = [];
    const pages = await Promise.all(addresses.map(async (address) => (await fetch(address)).text()));
    for (const [index, html] of pages.entries()) {
        const start = html.indexOf('<div class="md-content"');
        const other = new DOMParser().parseFromString(html.slice(start), "text/html");
        history.replaceState(null, "", addresses[index]);
        for (const part of [".md-content", ".md-footer"]) {
            document.querySelector(part).replaceWith(other.querySelector(part));
        }
        window.document$.next(document);
        await Promise.all([...document.images].map((image) => image.decode()));
        const { scrollWidth, clientWidth } = document.documentElement;
        const tables = [...document.querySelectorAll("article table:not([class])")];
        const isLaidOut = tables.every((table) => table.parentElement.matches(".md-typeset__table"));
        widths.push([scrollWidth, clientWidth, isLaidOut]);
    }
    return widths;
}"""


def test_the_search_finds_a_page_and_goes_there(open_page: Open) -> None:
    page = open_page(search=True)

    page.get_by_role("textbox", name="Search").fill("dead letter")
    page.locator(".md-search-result__link").first.click()

    expect(page.locator("article")).to_contain_text("dead letter", ignore_case=True)
    assert page.url.partition("/leveret/")[2] not in ("", "#")


@pytest.mark.parametrize("framework", ["Celery", "Django", "FastStream", "dramatiq", "kombu"])
def test_the_front_page_leads_to_a_framework_in_one_click(open_page: Open, framework: str) -> None:
    page = open_page()

    page.locator("article").get_by_role("link", name=framework, exact=True).click()

    expect(page.locator("article h1")).to_contain_text(framework)


@pytest.mark.parametrize("part", ["Tutorial", "How-to", "Explanation", "Reference", "Development"])
def test_each_part_is_one_click_away(open_page: Open, part: str) -> None:
    page = open_page()

    page.get_by_role("navigation", name="Tabs").get_by_role("link", name=part, exact=True).click()

    expect(page.locator(".md-tabs__item--active")).to_have_text(part)
    expect(page.locator("article h1")).to_be_visible()
    assert page.locator(".md-sidebar--primary .md-nav__link:visible").count() > 1


def test_the_dark_mode_stays_on_the_next_page(open_page: Open) -> None:
    page = open_page(color_scheme="light")
    assert scheme(page) == "default"

    page.get_by_title("Switch to dark mode").click()
    expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
    page.goto(page.url + "how-to/time/")

    assert scheme(page) == "slate"


def test_the_site_is_dark_where_the_system_is(open_page: Open) -> None:
    assert scheme(open_page(color_scheme="dark")) == "slate"


@pytest.fixture
def digest(cache: pytest.Cache) -> str:
    """Return a digest of the pages and their theme; skip a test that has passed with the same, except in CI."""
    files = [path for folder in ("docs", "tools") for path in (ROOT / folder).rglob("*") if path.suffix != ".pyc"]
    texts = [path.read_bytes() for path in (ROOT / "mkdocs.yml", *sorted(files)) if path.is_file()]
    digest = hashlib.sha256(b"".join(texts)).hexdigest()
    if cache.get(_CRAWLED, None) == digest and not os.environ.get("CI"):
        pytest.skip("neither a page nor the theme has changed since this passed here")
    return digest


def test_no_page_scrolls_sideways_on_a_phone(digest: str, open_page: Open, site: Site, cache: pytest.Cache) -> None:
    page = open_page(**PHONE)
    paths = list(site.pages())

    addresses = [site.address_without_search + path.removeprefix("/") for path in paths]
    wide = []
    for path, (needed, there, is_laid_out) in zip(paths, page.evaluate(_WIDTHS_OF_PAGES, addresses), strict=True):
        assert (there, is_laid_out) == (PHONE["viewport"]["width"], True), path
        if needed > there:
            wide.append(f"{path} needs {needed} of {there} pixels")

    assert wide == []
    cache.set(_CRAWLED, digest)


@pytest.mark.parametrize("path", ["how-to/frameworks/celery/", "how-to/lost-messages/", "reference/pytest/"])
def test_no_line_of_code_is_cut_off_on_a_desk(open_page: Open, path: str) -> None:
    page = open_page(path, viewport={"width": 1400, "height": 900})

    boxes = page.locator("article pre > code").evaluate_all("all => all.map(box => box.scrollWidth - box.clientWidth)")

    assert boxes
    assert max(boxes) <= 1


def test_the_menu_of_a_phone_leads_to_a_page(open_page: Open) -> None:
    page = open_page("reference/broker/", **PHONE)

    page.locator(".md-header__button[for='__drawer']").click()
    page.locator(".md-nav--primary").get_by_role("link", name="Faults", exact=True).first.click()

    expect(page.locator("article h1")).to_have_text("Faults¶")


@pytest.mark.parametrize(
    ("path", "look"), [*((path, "light") for path in TYPES), ("", "dark"), ("reference/api/errors/", "dark")]
)
def test_everyone_can_read_a_page_of_each_type(open_page: Open, path: str, look: str) -> None:
    page = open_page(path, color_scheme=look, reduced_motion="reduce")

    assert axe_violations(page) == []


def scheme(page: Page) -> str | None:
    """Return the palette that a page shows."""
    return page.locator("body").get_attribute("data-md-color-scheme")
