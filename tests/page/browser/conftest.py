"""A browser for the tests of the viewer, and pages of stories in it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leveret.page.formats.html import page_of
from tests.chromium import Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["Open"]


@pytest.fixture
def open_story(open_file: Open, tmp_path: Path) -> Open:
    """Return what opens a story as a page, at a place such as "#message-3"."""

    def open_it(story: dict[str, Any], place: str = "", **options: Any) -> Page:
        return unpacked(open_file(written(story, tmp_path), place, **options))

    return open_it


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stories")


@pytest.fixture
def read_story(open_file: Open, stories: Path) -> Open:
    """Return what opens a story for a test that only looks at it. The next such test goes on in the same document, at
    its own place, as to load one takes longer than to look at it.
    """

    def open_it(story: dict[str, Any], place: str = "#sequence", **options: Any) -> Page:
        page = unpacked(open_file(written(story, stories), place, **options))
        # The page draws a place when the browser says that it has changed.
        page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
        return page

    return open_it


def unpacked(page: Page) -> Page:
    """Return a page once it has unpacked its story and put itself together."""
    page.wait_for_selector("main", state="attached")
    return page


def written(story: dict[str, Any], folder: Path) -> Path:
    """Return the page of a story, in a file that is named by what is in it."""
    text = page_of(story, "")
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.html"
    path.write_text(text, encoding="utf-8")
    return path
