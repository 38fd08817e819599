"""The HTML file around a story: the joined assets, and what is left of them."""

from __future__ import annotations

from leveret.page.formats.assets import assets
from leveret.page.formats.html import page_of

STORY = {
    "test": {"id": "test_<b>&", "outcome": "failed"},
    "events": [],
    "messages": [],
    "brokers": [],
    "cut": {"events": 0, "bodies": 0},
}


def test_every_asset_is_in_the_page():
    assert assets().style
    assert "JSON.parse" in assets().script
    assert "</script" not in assets().script
    assert "</style" not in assets().style


def test_without_scripts_the_page_shows_the_story_as_text():
    page = page_of(STORY, "published #1 to <orders>")

    assert "<noscript><pre>published #1 to &lt;orders&gt;</pre></noscript>" in page


def test_the_title_is_escaped():
    assert "<title>failed test_&lt;b&gt;&amp;</title>" in page_of(STORY, "")
