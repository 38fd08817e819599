"""The site as files: every page is in the nav, every file it asks for is there, and no Markdown is left over."""

from __future__ import annotations

import os
import re
from html import unescape
from urllib.parse import unquote

import pytest_leveret

import leveret
from leveret import Broker
from tests.house.repository import members_of
from tests.site.conftest import ROOT, Site

_CODE = re.compile(r"<(pre|code|script|style|svg)\b.*?</\1>", re.DOTALL)
_NOT_TEXT = re.compile(r"\A---\n.*?^---\n|^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"<[^>]+>")
_ADDRESS = re.compile(r'\b(?:href|src)="([^"#?]+)')
_LINK = re.compile(r"(<a\b[^>]*>)(.*?)</a>", re.DOTALL)
# What names a link without text: an image that says what it shows.
_NAMED = re.compile(r'<img\b[^>]* alt="[^"]+"[^>]*>')
_PARAGRAPH = re.compile(r"<(p|li|td)>(.*?)</\1>", re.DOTALL)
# What Markdown looks like that did not become HTML: fences, lists in a paragraph, links, attributes.
_LEFT_OVER = re.compile(r"```|^ *(?:[-*]|\d+\.) |\]\(|\]\[|\{ ?[.#]\w|^\|", re.MULTILINE)


def test_every_page_can_be_reached_from_the_navigation(site: Site) -> None:
    home = (site.folder / "index.html").read_text(encoding="utf-8")
    reached = set(re.findall(r'href="([^"#]+)" class="md-nav__link', home))

    assert [path for path in site.pages() if path.removeprefix("/") not in reached | {""}] == []


def test_every_file_that_a_page_asks_for_is_there(site: Site) -> None:
    missing = [
        f"{path} -> {address}"
        for path, html in site.pages().items()
        for address in set(_ADDRESS.findall(html))
        if not re.match(r"[a-z]+:", address)
        and not (site.folder / os.path.normpath(path.strip("/") + "/" + unquote(address)).lstrip("/")).exists()
    ]

    assert missing == []


def test_llms_txt_names_the_pages_for_users_and_its_full_version_holds_them(site: Site) -> None:
    lines = (site.folder / "llms.txt").read_text(encoding="utf-8").splitlines()
    paths = [line.partition("/leveret/")[2].partition(")")[0] for line in lines if line.startswith("- [")]
    whole = (site.folder / "llms-full.txt").read_text(encoding="utf-8")

    assert [path for path in paths if not (site.folder / path / "index.html").exists()] == []
    assert {"", "how-to/wait/", "reference/pytest/"} <= {*paths}
    assert "contributing/" not in paths
    assert "# How do I wait until everything is processed?" in whole


def test_every_link_has_a_name(site: Site) -> None:
    nameless = [
        f"{path}: {tag}"
        for path, html in site.pages().items()
        for tag, within in _LINK.findall(html)
        if not _TAG.sub("", _NAMED.sub("NAME", within)).strip() and not re.search(r' (?:aria-label|title)="[^"]', tag)
    ]

    assert nameless == []


def test_no_page_shows_markdown(site: Site) -> None:
    found = [
        f"{path}: {text[left.start() : left.start() + 80]!r}"
        for path, html in site.pages().items()
        for _, paragraph in _PARAGRAPH.findall(_CODE.sub("CODE", html))
        if (left := _LEFT_OVER.search(text := unescape(_TAG.sub("", paragraph))))
    ]

    assert found == []


def test_what_belongs_to_an_item_of_a_list_is_indented_as_the_site_needs_it() -> None:
    shallow = re.compile(r"^ {1,3}(?:[-*]|\d+\.) .*|(?<=\n\n) {1,3}\S.*", re.MULTILINE)
    found = [
        f"{path.name}: {line}"
        for path in sorted((ROOT / "docs").rglob("*.md"))
        for line in shallow.findall(_NOT_TEXT.sub("", path.read_text(encoding="utf-8")))
    ]

    assert found == [], "indent by four spaces; with fewer, the list of the site ends there"


def test_the_reference_shows_every_public_name(site: Site) -> None:
    html = "".join(text for path, text in site.pages().items() if path.startswith("reference/api/"))
    names = [f"leveret.{name}" for name in leveret.__all__]
    names += [f"pytest_leveret.{name}" for name in pytest_leveret.__all__]
    names += [f"leveret.Broker.{name}" for name in members_of(Broker) if not name.startswith("_")]

    assert [name for name in names if html.count(f' id="{name}"') != 1] == []


def test_the_reference_shows_no_private_name(site: Site) -> None:
    html = "".join(text for path, text in site.pages().items() if path.startswith("reference/api/"))

    assert re.findall(r'<h\d id="[\w.]+\._[a-z]\w+"', html) == []
