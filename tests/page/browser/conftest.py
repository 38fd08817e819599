"""A browser for the tests of the viewer, and pages of stories in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leveret.page.html import page_of
from tests.chromium import Open

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["Open"]


@pytest.fixture
def open_story(open_file: Open, tmp_path: Path) -> Open:
    """Return what opens a story as a page, at a place such as "#message-3"."""

    def open_it(story: dict[str, Any], place: str = "", **options: Any) -> Page:
        path = tmp_path / "page.html"
        path.write_text(page_of(story), encoding="utf-8")
        return open_file(path, place, **options)

    return open_it
