"""Shrink a program while its answers still differ (Zeller's delta debugging)."""

from __future__ import annotations

from collections.abc import Callable

from .steps import Program


def shrink(program: Program, differs: Callable[[Program], bool]) -> Program:
    """Return the smallest program found; without any one of its steps it no longer differs."""
    size = max(len(program) // 2, 1)
    while True:
        before = len(program)
        program = _without_chunks(program, size, differs)
        if size == 1 and len(program) == before:
            return program
        size = max(min(size // 2, len(program) // 2), 1)


def _without_chunks(program: Program, size: int, differs: Callable[[Program], bool]) -> Program:
    # From the end, because later steps depend on earlier ones.
    start = len(program) - size
    while start > -size:
        candidate = program[: max(start, 0)] + program[start + size :]
        if candidate and len(candidate) < len(program) and differs(candidate):
            program = candidate
        start -= size
    return program
