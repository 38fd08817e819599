"""What a plain comparison asked for, by the two values that pytest compared and the code that compared them.

The code says which side is the expected one: the side that is written out, else the right one. It says too whether the
other side is a count, and at which queue of a broker it looked.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Final

from leveret.story.asked import Asked, Comparison

_OPERATORS: Final[dict[str, type[ast.cmpop]]] = {"==": ast.Eq, "in": ast.In}
_EXPECTED: Final = "expect"
# The method that returns a view of a queue by its name.
_QUEUE: Final = "queue"


def asked_by(operator: str, left: object, right: object, frame: FrameType | None) -> Asked:
    """Return what a comparison that failed asked for. `frame` is that of the assertion, if it is known."""
    asked = Asked()
    compared = None if frame is None else _compared(frame, operator)
    if operator not in _OPERATORS or (frame is not None and compared is None):
        return asked
    is_left = operator == "in" or (compared is not None and _is_left_expected(*compared))
    expected, found = (left, right) if is_left else (right, left)
    shown = None if compared is None else compared[1] if is_left else compared[0]
    if shown is None or not _is_calculated(shown):
        Comparison(expected, found, operator).ask(asked)
    if shown is not None:
        asked.names = frozenset(_names(shown))
        asked.queues = tuple(_queues(shown))
        if _is_count(shown):
            asked.count, asked.total = asked.total or asked.count, None
        elif _is_place(shown):
            asked.reordered, asked.total, asked.missing = [expected, found], None, ()
    return asked


def asked_by_truth(path: str, line: int) -> Asked:
    """Return what the assertion at a line asked for that compares nothing: its value was empty, or false."""
    for node in _asserts(path):
        if node.lineno <= line <= (node.end_lineno or line) and not isinstance(node.test, ast.Compare):
            return Asked(names=frozenset(_names(node.test)), is_falsy=not isinstance(node.test, ast.UnaryOp))
    return Asked()


def _compared(frame: FrameType, operator: str) -> tuple[ast.expr, ast.expr] | None:
    """Return both sides of the comparison that the assertion of a frame made."""
    kind = _OPERATORS.get(operator)
    line = frame.f_lineno
    for node in _asserts(frame.f_code.co_filename):
        if node.lineno <= line <= (node.end_lineno or line):
            for one in ast.walk(node.test):
                if kind is not None and isinstance(one, ast.Compare) and isinstance(one.ops[0], kind):
                    return one.left, one.comparators[0]
    return None


@lru_cache(4)
def _asserts(path: str) -> tuple[ast.Assert, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Assert))


def _is_left_expected(left: ast.expr, right: ast.expr) -> bool:
    if _is_written_out(left) != _is_written_out(right):
        return _is_written_out(left)
    return any(_EXPECTED in name for name in _names(left)) and not any(_EXPECTED in name for name in _names(right))


def _is_written_out(node: ast.expr) -> bool:
    """Return whether an expression is a literal, or a container of such."""
    return not any(isinstance(one, ast.Name | ast.Attribute) for one in ast.walk(node))


def _is_calculated(node: ast.expr) -> bool:
    """Return whether an expression is the result of an operation, or a number: no value that came in a message."""
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Constant)


def _is_count(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def _is_place(node: ast.expr) -> bool:
    """Return whether an expression is what stands at one place of a list."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
    )


def _names(node: ast.expr) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr


def _queues(node: ast.expr) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == _QUEUE and one.args:
            name = one.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value
