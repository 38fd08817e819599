"""Mutations of a program: one random line is broken, in a way in which people break services that use a broker.

A mutation is chosen by a seed, so each can be made again.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_CALLS = re.compile(r"ack|reject|publish|bind|declare|qos|consume|confirm|close|start|send|subscribe|task|delay")
_NAME = re.compile(r"[\w.*#-]{3,}")


class Mutation(NamedTuple):
    """What was broken, and the source that it left."""

    kind: str
    line: int
    before: str
    source: str


def mutations_of(source: str, *, is_test: bool) -> list[tuple[str, int, str, Callable[[], None], ast.Module]]:
    """Return what can be broken in a program: the kind, the line, the code, and what breaks it."""
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        for kind, line, breaks in _of(node, is_test=is_test):
            code = source.splitlines()[line - 1].strip()
            found.append((kind, line, code, breaks, tree))
    return found


def mutated(source: str, seed: int, *, is_test: bool = False) -> Mutation | None:
    """Return a program with one random line broken; None if nothing in it can be."""
    dice = random.Random(seed)
    found = mutations_of(source, is_test=is_test)
    if not found:
        return None
    kind = dice.choice(sorted({one[0] for one in found}))
    _, line, code, breaks, tree = dice.choice([one for one in found if one[0] == kind])
    breaks()
    return Mutation(kind, line, code, ast.unparse(ast.fix_missing_locations(tree)))


def _of(node: ast.AST, *, is_test: bool) -> Iterator[tuple[str, int, Callable[[], None]]]:
    if isinstance(node, ast.Assert) and is_test:
        for constant in (one for one in ast.walk(node) if isinstance(one, ast.Constant)):
            yield "expect something else", node.lineno, lambda constant=constant: _change(constant)
    for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
        if isinstance(block, list):
            yield from _of_block(node, block, is_test=is_test)
    if isinstance(node, ast.Call) and not (is_test and "assert" in ast.unparse(node.func)):
        for argument in [*node.args, *(one.value for one in node.keywords)]:
            if isinstance(argument, ast.Constant):
                yield from _of_constant(argument)
        for index, keyword in enumerate(node.keywords):
            yield f"leave a keyword out ({keyword.arg})", node.lineno, lambda at=index: node.keywords.pop(at)
    if isinstance(node, ast.If):
        yield (
            "flip a condition",
            node.lineno,
            lambda: setattr(node, "test", ast.Not and ast.UnaryOp(ast.Not(), node.test)),
        )


def _of_block(
    parent: ast.AST, block: list[ast.stmt], *, is_test: bool
) -> Iterator[tuple[str, int, Callable[[], None]]]:
    for at, statement in enumerate(block):
        if not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Constant):
            continue
        awaited = statement.value.value if isinstance(statement.value, ast.Await) else None
        call = awaited or statement.value
        name = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        if "assert" in name:
            continue
        if _CALLS.search(name):
            yield f"leave a call out ({name})", statement.lineno, lambda at=at: block.__setitem__(at, ast.Pass())
            yield f"call twice ({name})", statement.lineno, lambda at=at: block.insert(at, block[at])
        if awaited is not None:
            yield (
                "leave an await out",
                statement.lineno,
                lambda one=statement, call=awaited: setattr(one, "value", call),
            )
        if at and isinstance(block[at - 1], ast.Expr):
            yield "swap two lines", statement.lineno, lambda at=at: block.insert(at - 1, block.pop(at))
    if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and not is_test:
        broken = ast.parse('raise ValueError("broken")').body[0]
        yield "raise at the start", parent.lineno, lambda: block.insert(0, broken)
        yield "raise at the end", parent.lineno, lambda: block.append(broken)


def _of_constant(constant: ast.Constant) -> Iterator[tuple[str, int, Callable[[], None]]]:
    value = constant.value
    if isinstance(value, bool):
        yield "flip a flag", constant.lineno, lambda: _change(constant)
    elif isinstance(value, int):
        yield "change a number", constant.lineno, lambda: _change(constant)
    elif isinstance(value, str) and _NAME.fullmatch(value):
        yield "misspell a name", constant.lineno, lambda: _change(constant)


def _change(constant: ast.Constant) -> None:
    value = constant.value
    if isinstance(value, bool):
        constant.value = not value
    elif isinstance(value, int | float):
        constant.value = value * 10 if value else 1
    elif isinstance(value, str):
        constant.value = value[:-2] + value[-1] + value[-2] if value[-2:-1] != value[-1:] else value + "x"
    elif isinstance(value, bytes):
        constant.value = value + b"x"
