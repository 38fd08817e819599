"""The reading of a project's modules: where their code names a variable or an address of RabbitMQ.

A value is followed through names, attributes and the fields of settings, as far as they are set once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count, pairwise
from string import Formatter
from typing import Final

from pytest_leveret.commands.addresses import (
    AMQP_PORT,
    HTTP_PORT,
    LOCAL,
    Addresses,
    BrokerAddress,
    VariableRead,
    address_in,
)

CLIENTS: Final = frozenset(
    {
        *("amqp", "amqpstorm", "rabbitpy", "pyrabbit", "propan", "puka", "aio_pika", "aiormq", "pika", "aioamqp"),
        *("async_amqp", "celery", "faststream", "dramatiq", "taskiq", "taskiq_aio_pika", "nameko", "kombu"),
    }
)
_READS: Final = re.compile(r"environ\.(get|setdefault)$|getenv$|(^|\.)env(\.\w+)?$|config$")
# The arguments of clients, by the part that each takes.
_KEYWORDS: Final = {
    **dict.fromkeys(("url", "broker", "broker_url"), "url"),
    **dict.fromkeys(("host", "hostname"), "host"),
    "port": "port",
    **dict.fromkeys(("login", "userid", "username", "user"), "user"),
    **dict.fromkeys(("password", "passwd"), "password"),
    **dict.fromkeys(("virtual_host", "virtualhost", "vhost"), "vhost"),
}
_POSITIONS: Final = {
    "ConnectionParameters": ("host", "port", "vhost"),
    "PlainCredentials": ("user", "password"),
    **dict.fromkeys(("URLParameters", "connect", "connect_robust", "RabbitBroker", "Connection"), ("url",)),
}
# What connects to localhost:5672 if it gets no address.
_TO_LOCALHOST: Final = ("ConnectionParameters", "BlockingConnection", "connect_robust", "RabbitBroker")
_FORMATTED: Final = re.compile(
    r"(?:py)?amqps?://(?:(?P<user>[^:@/]+):(?P<password>[^@/]+)@)?(?P<host>[^:@/]+)(?::(?P<port>[^/]+))?(?:/(?P<vhost>.+))?"
)
# The management API on this machine, and the number of its port alone.
_API: Final = re.compile(rf"https?://(?:localhost|127\.0\.0\.1):(\d+)/api\b|(?:\S*:)?({HTTP_PORT})\b")
# Functions that change the type of a value alone.
_PLAIN: Final = ("int", "str")
# What a name is set to; None if that is not known.
Binding = ast.expr | VariableRead | None


def bind(bound: dict[str, Binding], more: Mapping[str, Binding]) -> None:
    """Add what names are set to. A name of several variables is not known."""
    for name, value in more.items():
        known = bound.get(name, value)
        is_other = isinstance(known, VariableRead) and isinstance(value, VariableRead) and known != value
        bound[name] = None if is_other else value


def bindings(tree: ast.Module, fields: Mapping[str, Binding]) -> dict[str, Binding]:
    """Return what the names and attributes of a module are set to, and the fields of its classes as "Class.field".

    The name of a function is set to what the function returns; a test has a fixture by it.
    """
    bound: dict[str, Binding] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            bound |= {
                _last(target): node.value for target in node.targets if isinstance(target, ast.Name | ast.Attribute)
            }
        elif isinstance(node, ast.ClassDef):
            for each in _annotated(node):
                name, own = _last(each.target), f"{node.name}.{_last(each.target)}"
                bound[own] = fields.get(own, each.value)
                if own in fields:
                    bind(bound, {name: fields[own]})
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            bound.setdefault(_last(node.target), node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (value := _returned(node)) is not None:
            bound.setdefault(node.name, value)
    return bound


def _returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
    """Return the value that a function returns or yields, with a name of its own as what that is set to."""
    nodes = list(ast.walk(function))
    value = next((it.value for it in nodes if isinstance(it, ast.Return | ast.Yield) and it.value is not None), None)
    inner = value.args[0] if isinstance(value, ast.Call) and _last(value.func) in _PLAIN and value.args else value
    own = (it.value for it in nodes if isinstance(it, ast.Assign) and _last(it.targets[0]) == _last(inner))
    return next(own, value) if isinstance(inner, ast.Name) else value


def settings_fields(classes: Mapping[str, ast.ClassDef]) -> dict[str, Binding]:
    """Return the fields of pydantic's settings as "Class.field", each as the reading of its variable.

    A model in a field also gives its own, as "field.field".
    """
    fields: dict[str, Binding] = {}
    for node in classes.values():
        if any("Settings" in ast.unparse(base) for base in node.bases):
            source = ast.unparse(node)
            prefix, delimiter = (
                found[1] if (found := re.search(rf"{word}\s*=\s*['\"](\w*)", source)) else ""
                for word in ("env_prefix", "env_nested_delimiter")
            )
            for name, read in _fields(node, classes, prefix, delimiter):
                bind(fields, {name: read})
    return fields


def _annotated(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]


def _fields(
    node: ast.ClassDef,
    classes: Mapping[str, ast.ClassDef],
    prefix: str,
    delimiter: str,
    made: ast.AnnAssign | None = None,
) -> Iterator[tuple[str, VariableRead | None]]:
    """Yield the fields of a class of settings, or of a model that is `made` in one of its fields."""
    inner = {name: each for name, each in classes.items() if each is not node}
    given = made.value if made is not None else None
    for each in _annotated(node):
        name = _last(each.target)
        value = (_keyword(given, name) if isinstance(given, ast.Call) else None) or each.value
        read = _field(f"{prefix}{name}".upper(), value)
        yield f"{node.name}.{name}", read
        if made is not None:
            yield f"{_last(made.target)}.{name}", read
        model = inner.get(re.sub(r"Optional\[(\w+)\]| \| None", r"\1", ast.unparse(each.annotation)))
        if model is not None and delimiter and read is not None:
            yield from _fields(model, inner, f"{read.variable}{delimiter}", delimiter, each)


def _field(name: str, value: ast.expr | None) -> VariableRead | None:
    """Return the reading of the variable of a field; None if its name cannot be read."""
    if not isinstance(value, ast.Call):
        return VariableRead(name, _text(value))
    default = _text(_keyword(value, "default") or (value.args[0] if value.args else None))
    named = next(filter(None, (_keyword(value, word) for word in ("env", "validation_alias", "alias"))), None)
    if named is None:
        return VariableRead(name, default)
    choices = named.elts if isinstance(named, ast.List | ast.Tuple) else [named]
    if isinstance(named, ast.Call) and _last(named.func) == "AliasChoices":
        choices = named.args
    return VariableRead(_text(choices[0]).upper(), default) if choices and _text(choices[0]) else None


class ModuleReader:
    """The reading of one module."""

    def __init__(self, addresses: Addresses, name: str, bound: Mapping[str, Binding]) -> None:
        """`name` is the module's for a reader, and `bound` what names are set to, here and elsewhere."""
        self._all = addresses
        self._name = name
        self._bound = bound
        # What the module imports of clients, by its name here.
        self._of_clients: set[str] = set()
        # The attributes of `self`, each as "Class.field".
        self._own: dict[int, str] = {}
        self.has_found = False

    def read(self, tree: ast.Module) -> None:
        """Read how the module finds RabbitMQ, but for addresses that stand by themselves."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [it.name for it in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                for module in {module.split(".")[0] for module in modules} & CLIENTS:
                    self._all.clients.add(module)
                    self._of_clients |= {(it.asname or it.name).split(".")[0] for it in node.names}
            elif isinstance(node, ast.ClassDef):
                self._read_class(node)
            elif isinstance(node, ast.Call | ast.Subscript | ast.BoolOp) and id(node) not in self._all.seen:
                value = self._value(node)
                if isinstance(value, VariableRead):
                    self._note(value, node)
                elif isinstance(node, ast.Call):
                    self._read_call(node)
            if isinstance(node, ast.JoinedStr | ast.Call | ast.BinOp) and id(node) not in self._all.seen:
                self._read_formatted(node)

    def read_constants(self, tree: ast.Module) -> None:
        """Read the addresses that stand in the module by themselves, once all modules were read."""
        # A client of AMQP imports none, and names the protocol.
        speaks = self._all.clients or "amqp" in ast.unparse(tree).lower()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                self._all.seen.add(id(node.value))
            elif isinstance(node, ast.Call) and speaks:
                # Suites look whether a server answers before they connect.
                given = [_text(it) for it in node.args]
                if any(place in ((host, str(AMQP_PORT)) for host in LOCAL) for place in pairwise(given)):
                    self._fix(BrokerAddress(self._where(node), "localhost"))
            elif isinstance(node, ast.Constant) and id(node) not in self._all.seen:
                text, where = str(node.value), self._where(node)
                if (address := address_in(text, where)) is not None:
                    self._fix(address)
                elif speaks and (port := re.search(rf"(^|localhost:|127\.0\.0\.1:){AMQP_PORT}\b", text)):
                    self._fix(BrokerAddress(where, "localhost" if port[1] else ""))
                elif (api := _API.match(text)) and (self._all.clients or api[1]):
                    self._all.management[where] = int(api[1] or api[2])

    def _read_class(self, node: ast.ClassDef) -> None:
        for it in ast.walk(node):
            if isinstance(it, ast.Attribute) and _last(it.value) == "self":
                self._own[id(it)] = f"{node.name}.{it.attr}"
        for each in _annotated(node):
            read = self._bound.get(f"{node.name}.{_last(each.target)}")
            if not isinstance(read, ast.expr):
                self._pass_over(each)
            if isinstance(read, VariableRead):
                self._note(read, each)

    def _pass_over(self, *nodes: ast.AST | None) -> None:
        """Note that expressions are accounted for."""
        self._all.seen |= {id(it) for node in nodes if node is not None for it in ast.walk(node)}

    def _where(self, node: ast.AST) -> str:
        return f"{self._name}:{getattr(node, 'lineno', 1)}"

    def _fix(self, address: BrokerAddress) -> None:
        self.has_found = True
        self._all.fixed.append(address)

    def _note(self, read: VariableRead, node: ast.AST, part: str | None = None) -> None:
        self.has_found = self._all.note(read, self._where(node), part) or self.has_found

    def _value(self, node: Binding | None, depth: int = 0) -> VariableRead | str | None:
        """Return the variable or the text that an expression comes from; None if neither is known."""
        if isinstance(node, VariableRead) or node is None or depth > 6:
            return node if isinstance(node, VariableRead) else None
        if isinstance(node, ast.Constant):
            return str(node.value) if isinstance(node.value, str | int) else None
        if isinstance(node, ast.Name | ast.Attribute):
            of = f"{_last(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""
            name = next((it for it in (self._own.get(id(node), ""), of, _last(node)) if it in self._bound), "")
            return self._value(self._bound.get(name), depth + 1)
        if isinstance(node, ast.BoolOp):
            first, *rest = [self._value(it, depth + 1) for it in node.values]
            if isinstance(first, VariableRead):
                self._pass_over(*node.values)
            texts = [it for it in rest if isinstance(it, str)]
            return (
                first._replace(default=first.default or texts[0])
                if isinstance(first, VariableRead) and texts
                else first
            )
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and "environ" in ast.unparse(node.value):
            return VariableRead(_text(node.slice)) if _text(node.slice) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_secret_value":
            return self._value(node.func.value, depth + 1)
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            if _READS.search(called) and _text(node.args[0]):
                default = node.args[1] if len(node.args) > 1 else _keyword(node, "default")
                named = self._bound.get(_last(default))
                self._pass_over(default, named if isinstance(named, ast.Constant) else None)
                value = self._value(default, depth + 1)
                return VariableRead(_text(node.args[0]), value if isinstance(value, str) else "")
            if called in _PLAIN:
                return self._value(node.args[0], depth + 1)
        elif isinstance(node, ast.Call) and not node.keywords:
            return self._value(self._bound.get(_last(node.func)), depth + 1)
        return None

    def _read_call(self, node: ast.Call) -> None:
        """Read a call of a client: what its arguments come from, and where it connects to without any."""
        called = _last(node.func)
        if ast.unparse(node.func).split(".")[0] not in self._of_clients:
            return
        given = dict(zip(_POSITIONS.get(called, ()), node.args, strict=False))
        given |= {_KEYWORDS[it.arg]: it.value for it in node.keywords if it.arg in _KEYWORDS}
        values: dict[str, VariableRead | str | None] = {}
        for part, expression in given.items():
            values[part] = value = self._value(expression)
            if isinstance(value, VariableRead):
                self._note(value, node, part)
        # What * and ** bring is not known.
        if all(it.arg for it in node.keywords) and not any(isinstance(it, ast.Starred) for it in node.args):
            self._connect(values, node, has_more=bool(node.args or node.keywords))

    def _connect(self, values: dict[str, VariableRead | str | None], node: ast.AST, *, has_more: bool) -> None:
        known = {part: value for part, value in values.items() if isinstance(value, str)}
        user, password = known.get("user"), known.get("password")
        if user and password:
            self._all.users.setdefault(user, password)
        if vhost := known.get("vhost"):
            self._all.vhosts.add(vhost)
        called = _last(node.func) if isinstance(node, ast.Call) else ""
        plain = known.get("url", "") if "://" not in known.get("url", "") else ""
        host, _, port = (known.get("host") or plain).partition(":")
        if isinstance(of := values.get("host"), VariableRead):
            host = f"${of.variable}"
        is_told_nothing = called in _TO_LOCALHOST and (not has_more or (called[0] == "C" and "host" not in values))
        if isinstance(values.get("port"), VariableRead) or not (host or is_told_nothing):
            return
        port = known.get("port") or port
        if port.isdecimal() or not (port or "port" in values):
            is_url = called in ("", "format")
            self._fix(BrokerAddress(self._where(node), host or "localhost", int(port or AMQP_PORT), is_url=is_url))

    def _read_formatted(self, node: ast.expr) -> None:
        """Read a URL that is put together from variables or names."""
        pieces = list(_pieces(node))
        text = "".join(it if isinstance(it, str) else f"\0{n}\0" for n, it in enumerate(pieces))
        matched = _FORMATTED.fullmatch(text)
        if isinstance(node, ast.JoinedStr) or matched is not None:
            self._all.seen |= {id(it) for it in ast.iter_child_nodes(node)}
        if matched is None:
            return
        values: dict[str, VariableRead | str | None] = {}
        for part, found in matched.groupdict().items():
            if found is None:
                continue
            placed = re.fullmatch(r"\0(\d+)\0", found)
            piece = pieces[int(placed[1])] if placed else found
            value = piece if isinstance(piece, str) else self._value(piece)
            values[part] = None if isinstance(value, str) and "\0" in value else value
            if isinstance(value, VariableRead):
                self._note(value, node, part)
        self._connect(values, node, has_more=True)


def _pieces(node: ast.expr) -> Iterator[str | ast.expr]:
    """Yield the texts and the expressions of an f-string, of a call of format, or of % with a tuple."""
    if isinstance(node, ast.JoinedStr):
        for it in node.values:
            yield (
                it.value
                if isinstance(it, ast.FormattedValue)
                else str(it.value)
                if isinstance(it, ast.Constant)
                else it
            )
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Tuple):
        texts = re.split(r"%[sd]", _text(node.left))
        if len(texts) == len(node.right.elts) + 1:
            yield texts[0]
            for value, text in zip(node.right.elts, texts[1:], strict=True):
                yield from (value, text)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        given = {str(n): value for n, value in enumerate(node.args)} | {it.arg or "": it.value for it in node.keywords}
        numbers = map(str, count())
        with suppress(ValueError):
            for text, name, _, _ in Formatter().parse(_text(node.func.value)):
                yield text
                if name is not None:
                    yield given.get(name or next(numbers), node)


def _last(node: ast.expr | None) -> str:
    """Return the last name of a dotted one; "" for any other expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: Binding | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str | int) else ""


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((it.value for it in call.keywords if it.arg == name), None)
