"""What MkDocs does besides, for `mkdocs.yml`: pages from the root of the repository, and links to its files.

Pages are written so that their links work on GitHub: `[a test](../../tests/users/test_losses.py)`. The site has no such
file, so such a link leads to the repository there. CONTRIBUTING.md and CHANGELOG.md are pages of the site too.

Docstrings and the help of commands name pages as files, docs/how-to/time.md. The site makes links of these.

The search shows pages for users before those for leveret's developers. llms.txt names the pages for users, one a line,
and llms-full.txt holds them whole, for programs that read documentation.

The playground needs Python for browsers, Pyodide, which `npm ci` installs, and the files of leveret and pika, as they
are here. They become files of the site; without Pyodide, the rest of the site is built all the same.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
# Files at the root of the repository, and the page of each.
PAGES: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

# The files of Pyodide that a browser loads, and the packages of leveret that the playground does not.
PYODIDE: Final = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
UNUSED: Final = ("exploration", "http", "pipeline", "spark", "workers")

# How much a result of the search weighs, by the first part of the page's path; 1 where nothing else is said.
WEIGHTS: Final = {
    "tutorial": 2.0,
    "how-to": 2.0,
    **dict.fromkeys(
        ("architecture.md", "style.md", "contributing.md", "changelog.md", "releasing.md", "decisions"), 0.2
    ),
}

# The pages for users, as llms-full.txt holds them, by their paths.
_TEXTS: Final[dict[str, str]] = {}

_FENCED: Final = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
_NAMED: Final = re.compile(r"\bdocs/([\w/-]+\.md)(?![^<]*(?:</a>|</code>|>))")
# A menu of the theme, which takes its name from a label without text, and its title.
_MENU: Final = re.compile(
    r'(<nav class="md-nav" [^>]*)aria-labelledby="(\w+)_label"(.*?for="\2">\s*<span[^>]*></span>)([^<]*)', re.S
)
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
    text = "".join([*parts, _LINK.sub(lead, markdown[position:])])
    if page.meta["search"]["boost"] >= 1 and not uri.startswith("reference/api/"):
        _TEXTS[uri] = text
    return text


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt and llms-full.txt, in the order of the menu."""
    menu = [uri for uri in _uris(config.nav) if uri in _TEXTS]
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for uri in menu:
        title, _, rest = _FENCED.sub("", _TEXTS[uri]).partition("# ")[2].partition("\n")
        first = next((block for block in rest.split("\n\n") if block.strip() and block.strip()[0].isalpha()), "")
        sentence = " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first).split()).partition(". ")[0].rstrip(".:")
        path = re.sub(r"(index)?\.md$", "", uri)
        lines.append(f"- [{title}]({config.site_url}{path}{'/' if path.strip('/') == path != '' else ''}): {sentence}.")
    folder = Path(config.site_dir)
    (folder / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "llms-full.txt").write_text("\n\n".join(_TEXTS[uri].strip() for uri in menu) + "\n", encoding="utf-8")
    _furnish_playground(folder / "assets")


def _furnish_playground(assets: Path) -> None:
    """Write what the playground loads: Pyodide, if it is installed, the script it shares with pages, and an archive."""
    pyodide, playground = ROOT / "node_modules" / "pyodide", assets / "playground"
    if pyodide.is_dir():
        (assets / "pyodide").mkdir(parents=True, exist_ok=True)
        for name in PYODIDE:
            shutil.copyfile(pyodide / name, assets / "pyodide" / name)
    shutil.copyfile(ROOT / "src" / "leveret" / "page" / "assets" / "dom.js", playground / "dom.js")
    spec = find_spec("pika")
    if spec is None or spec.origin is None:
        raise PluginError("the playground needs pika; install leveret[docs]")
    with zipfile.ZipFile(playground / "leveret.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (ROOT / "src" / "leveret", Path(spec.origin).parent):
            for path in sorted(package.rglob("*.*")):
                inside = path.relative_to(package.parent)
                if path.is_file() and path.suffix != ".pyc" and inside.parts[1] not in UNUSED:
                    archive.write(path, inside)
        archive.write(playground / "playground.py", "playground.py")


def _uris(nav: object) -> Iterator[str]:
    """Yield the pages of the menu in its order."""
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _uris(entry)


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
    """Give the theme's search and menus the names that a screen reader says, and leave no head of a column empty."""
    output = output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    ).replace("<th></th>", "<td></td>")
    return _MENU.sub(lambda menu: f'{menu[1]}aria-label="{menu[4].strip()}"{menu[3]}{menu[4]}', output)
