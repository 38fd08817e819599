"""What MkDocs does besides, for `mkdocs.yml`: pages from the root of the repository, and links to its files.

Pages are written so that their links work on GitHub: `[a test](../../tests/users/test_losses.py)`. The site has no such
file, so such a link leads to the repository there. CONTRIBUTING.md and CHANGELOG.md are pages of the site too.

Docstrings and the help of commands name pages as files, docs/how-to/time.md. The site makes links of these.

The search shows pages for users before those for leveret's developers.
"""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
# Files at the root of the repository, and the page of each.
PAGES: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

# How much a result of the search weighs, by the first part of the page's path; 1 where nothing else is said.
WEIGHTS: Final = {
    "tutorial": 2.0,
    "how-to": 2.0,
    **dict.fromkeys(
        ("architecture.md", "style.md", "contributing.md", "changelog.md", "releasing.md", "decisions"), 0.2
    ),
}

_FENCED: Final = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
_NAMED: Final = re.compile(r"\bdocs/([\w/-]+\.md)(?![^<]*(?:</a>|</code>|>))")
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_startup(command: str, dirty: bool) -> None:
    """Collect no garbage while the site is built once: that takes a sixth of the time."""
    if command == "build":
        gc.disable()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie at the root of the repository."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files outside the documentation to the repository, and weigh the page for the search."""
    uri = page.file.src_uri
    page.meta.setdefault("search", {"boost": WEIGHTS.get(uri.partition("/")[0], 1.0)})
    at_root = next((source for source, name in PAGES.items() if name == uri), None)
    written = ROOT / (at_root or f"docs/{uri}")
    here = (ROOT / "docs" / uri).parent

    def lead(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(written.parent / link[1]))
        anchor = link[2] or ""
        if not target.is_relative_to(ROOT):
            raise PluginError(f"{uri}: the link to {link[1]} leaves the repository")
        name = target.relative_to(ROOT).as_posix()
        if name in PAGES:
            return os.path.relpath(ROOT / "docs" / PAGES[name], here) + anchor
        if target.is_relative_to(ROOT / "docs") and target.suffix:
            return os.path.relpath(target, here) + anchor
        if not target.exists():
            raise PluginError(f"{uri}: the link to {link[1]} leads nowhere; there is no {name} in the repository")
        kind = "tree" if target.is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{name}{anchor}"

    parts: list[str] = []
    position = 0
    for fence in _FENCED.finditer(markdown):
        parts += [_LINK.sub(lead, markdown[position : fence.start()]), fence[0]]
        position = fence.end()
    return "".join([*parts, _LINK.sub(lead, markdown[position:])])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links of the pages that a docstring names."""

    def link(named: re.Match[str]) -> str:
        target = files.get_file_from_path(named[1])
        if target is None or target.page is None:
            raise PluginError(f"{page.file.src_uri} names {named[0]}, and there is no such page")
        address = target.url_relative_to(page.file)
        return f'<a href="{address}">{target.page.title}</a>'

    return _NAMED.sub(link, html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the theme's search the name that a screen reader says."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
