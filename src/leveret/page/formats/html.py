"""The HTML file of a story: the assets, the story as JSON, and a policy that lets nothing else run or load."""

from __future__ import annotations

import html
from typing import Final

from leveret.page.formats.assets import assets
from leveret.page.formats.fitting import packed_of
from leveret.page.formats.outline import outline_of
from leveret.page.story import Story
from leveret.wording import shown_controls

# The most lines of a part of the story that a browser without scripts shows.
_LINES_MAX: Final = 200


def page_of(story: Story, outline: str | None = None) -> str:
    """Return the page of a story, a whole HTML file.

    `outline` is what a browser without scripts shows; by default, the story as text.
    """
    style, script = assets()
    text = outline_of(story, _LINES_MAX) if outline is None else outline
    title = html.escape(" ".join(filter(None, [story["test"].get("outcome"), story["test"].get("id")])) or "leveret")
    policy = html.escape(assets().policy, quote=False)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<noscript><pre>{html.escape(shown_controls(text))}</pre></noscript>\n"
        f'<script type="text/plain" id="story">{packed_of(story)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
