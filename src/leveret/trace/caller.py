"""A caller: the code behind an event, as a value. What reads it makes words of it."""

from __future__ import annotations

from collections.abc import Mapping
from ntpath import basename
from typing import Any


class Caller:
    """A line of the user's code, and the line of the test that led to it; or an HTTP request."""

    __slots__ = ("called_from", "function", "line", "others", "path")

    def __init__(
        self,
        path: str,
        line: int | None = None,
        function: str | None = None,
        called_from: Caller | None = None,
        others: tuple[Caller, ...] = (),
    ) -> None:
        """`path` is relative to the working directory if the file is below it; a request has its method and path."""
        self.path = path
        self.line = line
        self.function = function
        self.called_from = called_from
        # The other lines, if several were waiting.
        self.others = others

    @classmethod
    def read(cls, value: object) -> Caller | None:
        """Return the caller that an event has, or the one of a trace file's row; None if it has none."""
        if not isinstance(value, Mapping):
            return value if isinstance(value, Caller) else None
        known: dict[str, Any] = {name: value.get(name) for name in ("path", "line", "function")}
        others = tuple(other for item in value.get("others", ()) if (other := cls.read(item)) is not None)
        return cls(**known, called_from=cls.read(value.get("called_from")), others=others)

    def as_json(self) -> dict[str, object]:
        """Return the caller as a trace file has it."""
        fields = {
            "path": self.path,
            "line": self.line,
            "function": self.function,
            "called_from": self.called_from and self.called_from.as_json(),
            "others": [other.as_json() for other in self.others],
        }
        return {name: value for name, value in fields.items() if value}

    @property
    def file(self) -> str:
        """The file's name without its folder, and the line; a request as it is."""
        return self.path if self.line is None else f"{basename(self.path)}:{self.line}"

    @property
    def inner(self) -> str:
        """The line itself and its function as text, without the line that led to it."""
        return self.text(is_inner=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Caller) and self.as_json() == other.as_json()

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return repr(str(self))

    def text(self, *, is_inner: bool = False, has_functions: bool = True) -> str:
        """Return the caller as text: "tests/test_x.py:4 in declare, called from tests/test_x.py:9 in test_it"."""
        text = self.path if self.line is None else f"{self.path}:{self.line}"
        text += f" in {self.function}" if has_functions and self.function else ""
        if self.called_from is not None and not is_inner:
            text += f", called from {self.called_from.text(has_functions=has_functions)}"
        others = [other.text(is_inner=is_inner, has_functions=has_functions) for other in self.others]
        return " or ".join(dict.fromkeys([text, *others]))
