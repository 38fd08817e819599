"""What a command returned, as the formatters of RabbitMQ's tools print it: table, csv, json, pretty_table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.wire.values import TYPE_NAMES, Field, Table

Row = Mapping[str, object]
# What a command returns: rows, a text, or nothing to print.
Result = Sequence[Row] | str | None


def text_of(result: Result, formatter: str, *, has_head: bool) -> str:
    """Return what the formatter prints, "" for a formatter that does not exist."""
    if formatter == "json":
        return _json(result)
    if result is None or isinstance(result, str):
        return "" if result is None else f"{result}\n"
    return _FORMATTERS[formatter](result, has_head) if result else ""


def empty_text(formatter: str) -> str:
    """Return what a formatter prints of an empty list."""
    if formatter == "pretty_table":
        return _pretty_table([{"Output": "[]"}], True)
    return {"json": "[]\n", "csv": "\n\n\n"}.get(formatter, "\n")


def _table(rows: Sequence[Row], has_head: bool) -> str:
    lines = ["\t".join(map(_cell, row.values())) for row in rows]
    return "".join(f"{line}\n" for line in (["\t".join(rows[0]), *lines] if has_head else lines))


def _csv(rows: Sequence[Row], _: bool) -> str:
    cells = [rows[0].keys(), *([_cell(value) for value in row.values()] for row in rows)]
    return "".join(",".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in line) + "\n" for line in cells)


def _pretty_table(rows: Sequence[Row], _: bool) -> str:
    """Return rows in a frame of the characters that a VT100 draws lines with."""
    cells = [[_cell(value, "{}") for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(rows[0], *cells, strict=True)]
    bar = "\x1b(0x\x1b(B"

    def line(texts: Sequence[str], shown: Callable[[str], str] = str) -> str:
        padded = (f" {shown(text)}{' ' * (width - len(text))} " for text, width in zip(texts, widths, strict=True))
        return f"{bar}{bar.join(padded)}{bar}\n"

    def frame(left: str, cross: str, right: str) -> str:
        return f"\x1b(0{left}{cross.join('q' * (width + 2) for width in widths)}{right}\x1b(B\n"

    head = line([*rows[0]], lambda text: f"\x1b[1m{text}\x1b[0m")
    inner = frame("t", "n", "u")
    return frame("l", "w", "k") + head + inner + inner.join(map(line, cells)) + frame("m", "v", "j")


_FORMATTERS: Final = {"table": _table, "csv": _csv, "pretty_table": _pretty_table}
FORMATTERS: Final = ("json", *_FORMATTERS)


def _cell(value: object, of_lists: str = "[{}]") -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Table):
        return _term(value)
    if isinstance(value, list | tuple):
        return of_lists.format(", ".join(map(str, value)))
    return _compact(value) if isinstance(value, dict) else str(value)


def _term(value: object) -> str:
    """Return the value of a field without the names of types."""
    if isinstance(value, Table):
        return f"[{','.join(f'{{{_term(name)},{_term(field.value)}}}' for name, field in value)}]"
    if isinstance(value, tuple):
        return f"[{','.join(_term(each.value if isinstance(each, Field) else each) for each in value)}]"
    if isinstance(value, bytes | str):
        return f'"{_text(value)}"'
    return "undefined" if value is None else str(value).lower()


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _json(result: Result) -> str:
    if result is None or isinstance(result, str):
        return _compact({"node": NODE_NAME, "result": "ok"} if result is None else {"message": result}) + "\n"
    return (
        "[\n" + "\n,".join(_compact({name: _plain(value) for name, value in row.items()}) for row in result) + "\n]\n"
    )


def _plain(value: object) -> object:
    """Return a value as JSON: a table as lists of name, type and value, and what does not apply as an empty text."""
    if isinstance(value, Table):
        return [[name, TYPE_NAMES[field.tag], _plain(field.value)] for name, field in value]
    if isinstance(value, tuple) and any(isinstance(each, Field) for each in value):
        return [[TYPE_NAMES[each.tag], _plain(each.value)] for each in value if isinstance(each, Field)]
    return "" if value is None else _text(value) if isinstance(value, bytes) else value


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
