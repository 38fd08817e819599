"""The HTML file of a story: the assets, the story as JSON, and a policy that lets nothing else run or load.

The assets are files of their own. This module joins them, computes the hashes that the policy allows, and escapes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.page.formats.fitting import json_of

if TYPE_CHECKING:
    from leveret.page.story import Story

_ORDER: Final = "order.txt"
_STYLE: Final = ".css"
_FOLDER: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "assets")


class Assets(NamedTuple):
    """The style and the script of a page."""

    style: str
    script: str

    @property
    def policy(self) -> str:
        """The content security policy: this style and this script, and nothing else."""
        return (
            f"default-src 'none'; style-src '{_hash(self.style)}'; script-src '{_hash(self.script)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )

    @classmethod
    def joined(cls, texts: Mapping[str, str]) -> Assets:
        """Return files as one style and one script, in their order, as they are written."""
        style = "\n".join(text for name, text in texts.items() if name.endswith(_STYLE))
        script = "\n".join(text for name, text in texts.items() if not name.endswith(_STYLE))
        return cls(style, script)


@cache
def assets() -> Assets:
    """Return the joined assets."""
    return Assets.joined({name: asset(name) for name in asset(_ORDER).split()})


def asset(name: str) -> str:
    """Return the text of one asset."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


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


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
