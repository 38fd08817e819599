"""What fills a value of a test: the names of queues in the code that the value comes from.

It goes back from the names in a line to the expressions that are given to them, and to the calls that register the
functions which fill them, such as `channel.basic_consume("orders", handle)`. What that code publishes is no source. It
reads code and runs none.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Final, NamedTuple

from leveret.observe.calls.callers import CLIENTS, is_users
from leveret.story.asked import QUEUES

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# The methods that fill their object.
_FILLING: Final = frozenset(
    {
        *("add", "append", "appendleft", "extend", "insert", "put", "put_nowait", "set", "set_result", "setdefault"),
        *("update", "increment", "record", "register", "store", "save", "write"),
    }
)
# What the names of calls that publish begin with, or end with.
_PUBLISHING: Final = ("publish", "send", "delay", "apply_async", "kiq", "put", "reply", "respond")


# The fields of a statement that hold others, or what holds others.
_INNER: Final = ("body", "handlers", "cases", "orelse", "finalbody")


@lru_cache(8)
def statements_of(path: str) -> list[ast.stmt]:
    """Return the statements of a file, each before those in it; nothing if the file cannot be read."""
    text = "".join(linecache.getlines(path))
    try:
        try:
            waiting: list[ast.AST] = [ast.parse(text)]
        except SystemError:
            # CPython 3.11 counts its recursion wrong if garbage runs Python code while it parses (gh-106905).
            waiting = [ast.parse(text)]
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = []
    while waiting:
        node = waiting.pop()
        found += [node] if isinstance(node, ast.stmt) else []
        for name in reversed(_INNER):
            waiting += reversed(getattr(node, name, ()))
    return found


class Sources(NamedTuple):
    """What fills a value: the strings in its code, and the queues of which the code takes a view."""

    strings: frozenset[str] = frozenset()
    views: tuple[str, ...] = ()


def sources_of(frame: FrameType, expressions: Iterable[ast.AST], line: int | None = None) -> Sources:
    """Return what fills what these expressions of a frame's function name.

    `line` is where the frame was, if it has run on since.
    """
    at = frame.f_lineno if line is None else line
    around = next((node for node in statements_at(frame, at) if isinstance(node, _FUNCTIONS)), None)
    if around is None:
        return Sources()
    known = {**frame.f_globals, **frame.f_locals}
    constants = [one for one in statements_of(frame.f_code.co_filename) if not one.col_offset]
    return _Reader(around, known, _given_in(one for one in constants if isinstance(one, ast.Assign))).read(expressions)


def statements_at(frame: FrameType, line: int) -> list[ast.stmt]:
    """Return the statements of a frame's file around a line of it, the outermost first."""
    statements = statements_of(frame.f_code.co_filename)
    return [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]


class _Reader:
    """A look at one function of a test, and at what it calls."""

    def __init__(
        self,
        function: ast.AST,
        known: Mapping[str, object],
        constants: Mapping[str, list[tuple[ast.AST, list[ast.expr]]]],
    ) -> None:
        """`constants` are what the module of the function gives to its own names."""
        self._nodes: Final = [function]
        self._around: Final[dict[ast.AST, ast.AST]] = {}
        for node in self._nodes:
            inner = _children(node)
            self._around.update(dict.fromkeys(inner, node))
            self._nodes.extend(inner)
        self._given: Final = {**constants, **_given_in(self._nodes)}
        # The variables that inner functions share with it.
        self._shared: Final = {name for node in self._nodes if isinstance(node, ast.Nonlocal) for name in node.names}
        self._function: Final = function
        self._known: Final = {**known}
        self._strings: Final[dict[str, None]] = {}
        self._views: Final[dict[str, None]] = {}
        self._waiting: Final[list[str]] = []
        self._seen: Final[set[str]] = set()

    def read(self, expressions: Iterable[ast.AST]) -> Sources:
        """Return what leads to what these expressions name."""
        for expression in expressions:
            self._take(expression)
        while self._waiting:
            self._follow(self._waiting.pop())
        return Sources(frozenset(self._strings), tuple(self._views))

    def _take(self, expression: ast.AST) -> None:
        """Note the strings and the names of an expression."""
        waiting = [expression]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Call) and _is_publishing(node):
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._strings[node.value] = None
            elif (view := _view(node)) is not None:
                self._views[view] = None
                continue
            elif isinstance(node, ast.Attribute) and node.attr == QUEUES:
                self._strings[QUEUES] = None
            elif isinstance(node, ast.Name) and node.id not in self._seen:
                self._seen.add(node.id)
                self._waiting.append(node.id)
            waiting += _children(node)

    def _follow(self, name: str) -> None:
        value = self._known.get(name)
        if type(value) is str:
            self._strings[value] = None
        is_of_client = _module(value).partition(".")[0] in (*CLIENTS, "leveret", "pytest_leveret")
        nodes = self._given.get(name, ())
        has_own = any(self._is_own(node, name) for node, _ in nodes)
        for node, given in nodes:
            # What an inner function assigns is another variable of that name.
            is_another = has_own and _is_new(node, name) and not self._is_own(node, name) and name not in self._shared
            if not is_another and not (isinstance(node, ast.Call) and is_of_client):
                for one in given:
                    self._take(one)
                self._registrations(node)
        if _owner(value) is not None:
            self._take_definition(value)

    def _is_own(self, node: ast.AST, name: str) -> bool:
        """Return whether a node assigns to a variable of the function itself, and not to one of a function in it."""
        around = self._around.get(node, self._function)
        while around is not self._function and not isinstance(around, (*_FUNCTIONS, ast.Lambda)):
            around = self._around.get(around, self._function)
        return around is self._function and _is_new(node, name)

    def _registrations(self, node: ast.AST) -> None:
        """Note the calls and decorators with which the functions around a line are registered."""
        around = self._around.get(node, self._function)
        while around is not self._function:
            if isinstance(around, ast.Lambda):
                self._take_call(around)
            elif isinstance(around, _FUNCTIONS):
                for decorator in around.decorator_list:
                    self._take(decorator)
                for one in self._nodes:
                    is_name = isinstance(one, ast.Name) and one.id == around.name
                    is_method = isinstance(one, ast.Attribute) and one.attr == around.name
                    if is_name or is_method:
                        self._take_call(one)
            around = self._around.get(around, self._function)

    def _take_call(self, node: ast.AST) -> None:
        """Note the outermost call of which something is an argument."""
        call: ast.Call | None = None
        around: ast.AST | None = node
        while around is not None and not isinstance(around, ast.stmt):
            call = around if isinstance(around, ast.Call) else call
            around = self._around.get(around)
        if call is not None:
            self._take(call)

    def _take_definition(self, value: object) -> None:
        """Note the strings in a function or a class of the user's."""
        file = _owner(value)
        if file is not None:
            given, made = _calls_in(file, getattr(value, "__name__", ""))
            module = sys.modules.get(getattr(value, "__module__", ""))
            texts = (it.value if isinstance(it, ast.Constant) else _value_in(module, ast.unparse(it)) for it in given)
            self._strings.update((one, None) for one in texts if type(one) is str)
            self._known.update((name, _value_in(module, name)) for name in made if name not in self._known)
            self._waiting.extend(name for name in made if name not in self._seen)
            self._seen.update(made)


@lru_cache(64)
def _calls_in(file: str, name: str) -> tuple[list[ast.expr], list[str]]:
    """Return what calls in the functions and classes of a name get, and the classes of which they make.

    What publishes is left out.
    """
    waiting: list[ast.AST] = []
    for statement in statements_of(file):
        if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)) and statement.name == name:
            waiting += statement.body
    given, made = [], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and _is_publishing(node):
            continue
        if isinstance(node, ast.Call):
            made += [node.func.id] if isinstance(node.func, ast.Name) and node.func.id[:1].isupper() else []
            given += [*node.args, *(word.value for word in node.keywords)]
        waiting += _children(node)
    return given, made


def _value_in(module: object, name: str) -> object:
    """Return what a module calls by a name, which may lead through other modules; None if it is nothing of these."""
    for part in name.split("."):
        module = vars(module).get(part) if isinstance(module, ModuleType) else None
    return module


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly in a node."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += value
        elif isinstance(value, ast.AST) and name != "ctx":
            found.append(value)
    # The names of a `global` are texts.
    return [one for one in found if isinstance(one, ast.AST)]


def _given_in(nodes: Iterable[ast.AST]) -> dict[str, list[tuple[ast.AST, list[ast.expr]]]]:
    """Return the nodes of code that give expressions to names, with these, by name."""
    found: dict[str, list[tuple[ast.AST, list[ast.expr]]]] = {}
    for node in nodes:
        targets, values = _assigned(node)
        given = [one for one in values if one is not None]
        for one in (part for target in targets for part in _parts(target)):
            if (name := _root(one)) is not None:
                # A target with an index is filled by the index too: `count[name] += 1`.
                found.setdefault(name, []).append((node, [*given, one]))
    return found


def _is_new(node: ast.AST, name: str) -> bool:
    """Return whether a node assigns to a name, which makes it a variable of its function."""
    parts = (
        [] if isinstance(node, ast.AugAssign | ast.Call) else [one for it in _assigned(node)[0] for one in _parts(it)]
    )
    return any(isinstance(one, ast.Name) and one.id == name for one in parts)


def _assigned(node: ast.AST) -> tuple[list[ast.expr], list[ast.expr | None]]:
    """Return what a node of code gives values to, and these."""
    match node:
        case ast.Assign():
            return node.targets, [node.value]
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            return [node.target], [node.value]
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            return [node.target], [node.iter]
        case ast.withitem() if node.optional_vars is not None:
            return [node.optional_vars], [node.context_expr]
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _FILLING:
            return [owner], [*node.args, *(word.value for word in node.keywords)]
        case ast.Call(func=ast.Name(id=name)) if name[:1].isupper():
            # An object fills what it is made with.
            return [one for one in node.args if isinstance(one, ast.Name)], [node.func]
        case ast.Call(args=args) if methods := [one for one in args if _is_filling(one)]:
            # So does what is given a method: `consume("orders", seen.append)`.
            return methods, [node]
    return [], []


def _is_filling(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _FILLING


def _view(node: ast.AST) -> str | None:
    """Return the name of the queue of which a call returns a view; None if it is no such call."""
    match node:
        case ast.Call(func=ast.Attribute(attr="queue"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return None


def _parts(target: ast.expr) -> list[ast.expr]:
    return (
        [part for one in target.elts for part in _parts(one)] if isinstance(target, ast.Tuple | ast.List) else [target]
    )


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_publishing(call: ast.Call) -> bool:
    function = call.func
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    return name.startswith(_PUBLISHING) or name.endswith(_PUBLISHING)


def _module(value: object) -> str:
    return str(getattr(type(value), "__module__", ""))


def _owner(value: object) -> str | None:
    """Return the file of a function or a class of the user's; None for anything else."""
    if not inspect.isfunction(value) and not isinstance(value, type):
        return None
    try:
        file = inspect.getsourcefile(value)
    except TypeError:
        return None
    return file if file is not None and is_users(file) else None
