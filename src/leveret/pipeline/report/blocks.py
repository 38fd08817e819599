"""The building blocks of sections: tables, lists of facts, notes, and the line "and 3 more ..."."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leveret.pipeline.report.markup import Child, Html, element, joined
from leveret.pipeline.report.words import counted, number


def section(name: str, title: str, purpose: str | Html, *blocks: Html | None) -> Html:
    """Return a section of the page: its title, its purpose (what it shows and what to do about it), and its blocks."""
    return element(
        "section",
        element("h2", title, id=f"{name}-title"),
        element("p", purpose, class_="lead"),
        *blocks,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def empty(*why: Child) -> Html:
    """Return a text for a section without a table, which says why it is empty."""
    return element("p", *why, class_="empty")


def note(*text: Child) -> Html:
    """Return a note to read before the rest of a section."""
    return element("p", *text, class_="note")


def table(headings: Sequence[Child], rows: Iterable[Sequence[Html]], caption: str | None = None) -> Html:
    """Return a table. `heading`, `text` and `count` make the cells. A heading that begins with "#" is for numbers."""
    heads = [
        element("th", head[1:], class_="n", scope="col")
        if isinstance(head, str) and head.startswith("#")
        else element("th", head, scope="col")
        for head in headings
    ]
    body = [element("tr", *cells) for cells in rows]
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *body), aria_label=caption)
    scrolled = element("div", whole, class_="scroll", tabindex=0, role="group", aria_label=caption)
    # Beside the table and not in it: a caption is as wide as its table, and would have to be scrolled to.
    return scrolled if caption is None else joined(element("p", caption, class_="quiet small"), scrolled)


def heading(*children: Child) -> Html:
    """Return the cell that names what a row is about."""
    return element("th", *children, scope="row")


def text(*children: Child) -> Html:
    """Return a cell of text."""
    return element("td", *children)


def count(value: float | None, *, is_hot: bool = False) -> Html:
    """Return a cell with a number. If `is_hot`, a number above zero is bad news."""
    kind = "n zero" if not value else "n hot" if is_hot else "n"
    return element("td", number(value), class_=kind)


def more(shown: int, total: int, one: str, after: str = "") -> Html | None:
    """Return a line that says how many more there are than shown, if any; `one` is the word for a single one."""
    if total <= shown:
        return None
    return element("p", f"and {counted(total - shown, f'more {one}')}{after}.", class_="quiet")


def facts(*pairs: tuple[str, Child]) -> Html:
    """Return a list of names and values, without the pairs whose value is None."""
    items = [joined(element("dt", name), element("dd", value)) for name, value in pairs if value is not None]
    return element("dl", *items, class_="facts")
