"""The style and the script of a page, joined from files of their own, and the policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

_ORDER: Final = "order.txt"
_UNPACKING: Final = "unpack.js"
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

    def page(self, title: str, body: str) -> str:
        """Return a whole HTML file with these assets. The caller has escaped the title and the body."""
        policy = html.escape(self.policy, quote=False)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{self.style}</style>\n</head>\n<body>\n{body}\n"
            f"<script>{self.script}</script>\n</body>\n</html>\n"
        )

    @classmethod
    def joined(cls, texts: Mapping[str, str]) -> Assets:
        """Return files as one style and one script, in their order, as they are written."""
        style = "\n".join(text for name, text in texts.items() if name.endswith(_STYLE))
        script = "\n".join(text for name, text in texts.items() if not name.endswith(_STYLE))
        return cls(style, script)


@cache
def assets() -> Assets:
    """Return the joined assets. The script begins once it has unpacked the story."""
    style, script = Assets.joined({name: asset(name) for name in asset(_ORDER).split()})
    return Assets(style, f"{asset(_UNPACKING)}\nunpackStory().then(() => {{\n{script}\n}});\n")


def asset(name: str, folder: str = _FOLDER) -> str:
    """Return the text of one asset."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
