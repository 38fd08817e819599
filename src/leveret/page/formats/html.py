"""The HTML file of a story: the assets, the story as JSON, and a policy that lets nothing else run or load."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from leveret.page.formats.assets import assets
from leveret.page.formats.fitting import json_of

if TYPE_CHECKING:
    from leveret.page.story import Story


def page_of(story: Story) -> str:
    """Return the page of a story, a whole HTML file."""
    style, script = assets()
    title = html.escape(" ".join(filter(None, [story["test"].get("outcome"), story["test"].get("id")])) or "leveret")
    policy = html.escape(assets().policy, quote=False)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<noscript>This page needs JavaScript. "leveret trace show" prints the same as text.</noscript>\n'
        f'<script type="application/json" id="story">{json_of(story)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
