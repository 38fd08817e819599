"""What sections are made of: tables, lists of facts, notes and the words "and so many more"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leveret.pipeline.report.markup import Child, Html, element, joined
from leveret.pipeline.report.words import counted, number


def section(name: str, title: str, purpose: str | Html, *blocks: Html | None) -> Html:
    """A section of the page: its title, a sentence on what it says and what to do about it, and its blocks."""
    return element(
        "section",
        element("h2", title, id=f"{name}-title"),
        element("p", purpose, class_="lead"),
        *blocks,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def empty(*why: Child) -> Html:
    """In place of a table: why there is nothing to be shown."""
    return element("p", *why, class_="empty")


def note(*text: Child) -> Html:
    """Something to know before the rest is read."""
    return element("p", *text, class_="note")


def table(headings: Sequence[Child], rows: Iterable[Sequence[Html]], caption: str | None = None) -> Html:
    """Rows of cells, each made by `text` or `count`. A heading that begins with "#" is one of numbers."""
    heads = [
        element("th", head[1:], class_="n", scope="col")
        if isinstance(head, str) and head.startswith("#")
        else element("th", head, scope="col")
        for head in headings
    ]
    body = [element("tr", *cells) for cells in rows]
    told = None if caption is None else element("caption", caption)
    whole = element("table", told, element("thead", element("tr", *heads)), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex=0, role="group", aria_label=caption)


def heading(*children: Child) -> Html:
    """The cell that a row is about."""
    return element("th", *children, scope="row")


def text(*children: Child) -> Html:
    """A cell of words."""
    return element("td", *children)


def count(value: float | None, *, is_hot: bool = False) -> Html:
    """A cell of a number; a hot one is bad news unless it is nothing."""
    kind = "n zero" if not value else "n hot" if is_hot else "n"
    return element("td", number(value), class_=kind)


def more(shown: int, total: int, one: str, after: str = "") -> Html | None:
    """That there are more than are shown, and how many; `one` is what a single one is called."""
    if total <= shown:
        return None
    return element("p", f"and {counted(total - shown, f'more {one}')}{after}.", class_="quiet")


def facts(*pairs: tuple[str, Child]) -> Html:
    """Names and what they stand for; pairs of None are left out."""
    told = [joined(element("dt", name), element("dd", value)) for name, value in pairs if value is not None]
    return element("dl", *told, class_="facts")
