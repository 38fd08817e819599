"""How the reference reads the code, for mkdocstrings.

- The comment above a field of a class is what the field means.
- A signature shows what a caller may give: the value of a default, and no keyword that exists to refuse misspelt ones.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

import griffe

# Descriptors of ours, whose argument is the type of what they give.
_DESCRIPTORS: Final = ("_Property",)
# The annotation of keywords that a call takes to refuse them with the closest spelling.
_REFUSED: Final = "Unpack[NoKeywords]"


class AsCallersSeeIt(griffe.Extension):
    """Show classes and functions as their callers see them."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, agent: Any, **kwargs: Any
    ) -> None:
        """Describe a field, and show what a descriptor gives instead of the descriptor."""
        if attr.parent is None or not attr.parent.is_class:
            return
        if attr.docstring is None and attr.lineno is not None:
            comment = comment_above(attr.lines_collection[attr.filepath], attr.lineno)  # type: ignore[index]
            if comment:
                attr.docstring = griffe.Docstring(comment, parent=attr)
        value = attr.value
        if isinstance(value, griffe.ExprCall) and isinstance(value.function, griffe.ExprSubscript):
            descriptor = value.function
            if str(descriptor.left) in _DESCRIPTORS:
                attr.annotation = griffe.ExprBinOp(descriptor.slice, "|", "None")
                attr.value = None

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Show what parameters default to, and leave out those that refuse."""
        for function in functions(pkg):
            for parameter in list(function.parameters):
                if str(parameter.annotation) == _REFUSED:
                    del function.parameters[parameter.name]
                elif isinstance(parameter.default, griffe.ExprName) and parameter.default.name.isupper():
                    parameter.default = value_of(parameter.default, loader)


def comment_above(lines: list[str], number: int) -> str:
    """Return the text of the comment lines that end directly above a line, counted from 1."""
    first = number - 1
    while first > 0 and lines[first - 1].lstrip().startswith("# "):
        first -= 1
    return "\n".join(line.strip().removeprefix("# ") for line in lines[first : number - 1])


def functions(within: griffe.Module | griffe.Class) -> Iterator[griffe.Function]:
    """Give all functions and methods of a module or a class, and of those within."""
    for member in within.members.values():
        if isinstance(member, griffe.Function):
            yield member
        elif isinstance(member, griffe.Module | griffe.Class):
            yield from functions(member)


def value_of(name: griffe.ExprName, loader: griffe.GriffeLoader) -> str | griffe.Expr:
    """Return the value of a constant; its name if the value is not written down."""
    try:
        constant = loader.modules_collection[name.canonical_path]
    except KeyError:
        return name
    return constant.value if isinstance(constant, griffe.Attribute) and constant.value is not None else name
