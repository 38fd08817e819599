"""The lock: the contract that tests have shown, as a file for git, and its classes.

A lock has an entry for each kind of message and one for each exchange and queue. The file is TOML, a line for each
field, in order. It has no counts, so that neither another run nor a part of the tests changes it: `Lock.merge` only
adds. In memory a lock that was observed also has the counts of its shapes, which decide what is optional and what is
an enumeration, and each set of headers makes a kind of its own; `Lock.folded` keeps them apart only where brokers route
by them.

The text of a field is its types, separated by "|": those of JSON, the format of a text in place of "string", "word" for
texts that could be an enumeration if more came, `enum(open, paid)`, and "map" for an object whose keys are data.
"optional" before them says that messages may come without the field. A path is `lines[].sku`; "$" is the whole body.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from leveret.trace.shapes import REPEATS_MIN, Shape
from leveret.trace.shapes.file_shapes import ROOT
from pytest_leveret.contract.files import kept_from_others, replace_text, text_of

VERSION: Final = 2
# The name under which the headers of a message have its further routing keys, those of BCC among them.
FURTHER_KEYS: Final = "CC"
# So many sets of headers are kept apart for messages that are alike otherwise.
_HEADERS_MAX: Final = 16
HEADERS_EXCHANGES: Final = ("amq.headers", "amq.match")
# The argument of a binding that asks for a header with any value.
ANY_VALUE: Final = "(any)"
# Beyond these a text was not written as a lock.
_STEPS_MAX: Final = 50
_FIELD_MAX: Final = 10_000
# Python's parser takes time and memory for the square of the dots in a key.
_DOTS_MAX: Final = 50_000_000
# How a line of git's begins in a file with a conflict.
_CONFLICT: Final = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
# The parts of a message that have fields.
PARTS: Final = ("body", "headers", "properties")
# What a consumer accepts that never reads a field.
ANY: Final = "any"
_HEADER: Final = (
    "# The messages that the tests have shown. `pytest --leveret-contract=write` writes it; keep it in git.\n"
)
_TYPES: Final = (
    *("object", "map", "array", "string", "word", "integer", "number", "boolean"),
    *("bytes", "text", "empty", "timestamp", "null", ANY),
)
_STEP: Final = re.compile(r"(?:\\.|[^\\.\[])+|\[\]")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ENUMERATION: Final = re.compile(r"enum\((.+)\)")


class MessageKey(NamedTuple):
    """What distinguishes one kind of message from another. The routing key is a pattern, such as `order.{uuid}`."""

    vhost: str
    exchange: str
    routing_key: str
    # The task, the actor or the property `type`; empty without.
    name: str
    # What else brokers route it by, as JSON: the headers of what may come to a headers exchange, and `FURTHER_KEYS`.
    # Empty without, and where the tests have sent more sets of headers than a lock keeps.
    headers: str = ""

    def __str__(self) -> str:
        where = f"{self.exchange} {self.routing_key!r}" if self.exchange else repr(self.routing_key)
        return where + (f" {self.name}" if self.name else "") + (f" with {self.headers}" if self.headers else "")


@dataclass(slots=True)
class LockedConsumer:
    """A client that receives a kind of message from a queue."""

    queue: str
    client: str
    # How it settles them: acked, no_ack, rejected, requeued.
    settled: set[str] = field(default_factory=set)
    # What it requires, by the part and path of the field (`body.total`), in the words of a field: the types it accepts,
    # "optional" if it does without, "any" if it never reads it. Empty until `leveret needs` has measured it.
    needs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class LockedMessage:
    """A kind of message: who sends it, who receives it, and its shape."""

    publishers: set[str] = field(default_factory=set)
    consumers: dict[tuple[str, str], LockedConsumer] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)

    def fields(self) -> dict[str, str]:
        """Return the text of each field by part and path, such as `body.lines[].sku` and `body.$`."""
        return {
            f"{part}.{path or ROOT}": field_text(shape, is_optional=is_optional)
            for part in PARTS
            if part in self.shape.fields
            for path, shape, is_optional in self.shape.fields[part].walk()
            if path or part == "body"
        }

    def merge(self, other: LockedMessage) -> None:
        """Add what another lock knows of this kind of message."""
        self.publishers |= other.publishers
        for key, theirs in other.consumers.items():
            mine = self.consumers.setdefault(key, LockedConsumer(*key))
            mine.settled |= theirs.settled
            mine.needs = {**mine.needs, **theirs.needs}
        self.shape.merge(other.shape)


Arguments = tuple[tuple[str, str | int | float | bool], ...]


@dataclass(slots=True)
class Declared:
    """An exchange or a queue as clients declare it."""

    # The types of an exchange; empty for a queue.
    types: set[str] = field(default_factory=set)
    # The arguments of each declaration, sorted by name. Clients that agree declare it in one way.
    arguments: set[Arguments] = field(default_factory=set)

    def named(self, argument: str) -> set[str]:
        """Return the names that this argument has in any declaration."""
        return {str(value) for each in self.arguments for name, value in each if name == argument}

    @property
    def routing_types(self) -> set[str]:
        """The types by which it routes. An exchange that delays messages has another type for that."""
        return self.types | self.named("x-delayed-type")

    def merge(self, other: Declared) -> None:
        """Add what another lock knows of it."""
        self.types |= other.types
        self.arguments |= other.arguments


class LockedBinding(NamedTuple):
    """A binding from an exchange to a queue or an exchange."""

    vhost: str
    exchange: str
    # "queue" or "exchange".
    kind: str
    destination: str
    routing_key: str
    # As JSON; empty without.
    arguments: str = ""


@dataclass(slots=True)
class Lock:
    """The contract of one service, or of several whose tests are one suite."""

    messages: dict[MessageKey, LockedMessage] = field(default_factory=dict)
    # By virtual host and name.
    exchanges: dict[tuple[str, str], Declared] = field(default_factory=dict)
    queues: dict[tuple[str, str], Declared] = field(default_factory=dict)
    bindings: set[LockedBinding] = field(default_factory=set)
    # Whether it was read from a document, which says what messages have to be, not what tests have made up.
    is_document: bool = False

    def merge(self, other: Lock) -> None:
        """Add what another lock knows. Nothing is removed."""
        for key, message in other.messages.items():
            self.messages.setdefault(key, LockedMessage()).merge(message)
        for mine, theirs in ((self.exchanges, other.exchanges), (self.queues, other.queues)):
            for name, declared in theirs.items():
                mine.setdefault(name, Declared()).merge(declared)
        self.bindings |= other.bindings

    def keep_needs(self, before: Lock) -> None:
        """Take over what was measured before of consumers that are still there."""
        known = {
            (key[:4], place): consumer.needs
            for key, message in before.messages.items()
            for place, consumer in message.consumers.items()
        }
        for key, message in self.messages.items():
            for place, consumer in message.consumers.items():
                consumer.needs = known.get((key[:4], place), consumer.needs)

    def folded(self, beside: Lock | None = None) -> Lock:
        """Return the lock with headers in the keys of its messages only where brokers route by them.

        The exchanges and messages of the lock `beside` it count too. What is sent in too many ways is one kind.
        """
        locks = (self,) if beside is None else (self, beside)
        leading = leading_to_headers(*locks)
        kinds: dict[MessageKey, list[LockedMessage]] = defaultdict(list)
        sets: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for lock in locks:
            for key in lock.messages:
                sets[key[:4]].add(_routed(key, leading).headers)
        for key, message in self.messages.items():
            is_known = len(sets[key[:4]]) <= _HEADERS_MAX and not (key[:2] in leading and "" in sets[key[:4]])
            kinds[_routed(key, leading) if is_known else key._replace(headers="")].append(message)
        return replace(self, messages={key: _merged(messages) for key, messages in kinds.items()})

    def topology(self) -> dict[str, Any]:
        """Return the exchanges, queues and bindings as plain data."""
        return {
            "exchange": [_declared_data(name, declared) for name, declared in sorted(self.exchanges.items())],
            "queue": [_declared_data(name, declared) for name, declared in sorted(self.queues.items())],
            "binding": [_binding_data(binding) for binding in sorted(self.bindings)],
        }

    def text(self) -> str:
        """Return the lock as the text of its file."""
        tables = [_HEADER + f"version = {VERSION}\n"]
        for key, message in sorted(self.folded().messages.items()):
            tables += _message_tables(key, message)
        for name, entries in self.topology().items():
            tables += [_table(f"[[{name}]]", entry) for entry in entries]
        return "\n".join(tables)


def _merged(messages: list[LockedMessage]) -> LockedMessage:
    if len(messages) == 1:
        return messages[0]
    merged = LockedMessage()
    for message in messages:
        merged.merge(message)
    return merged


def _routed(key: MessageKey, leading: set[tuple[str, str]]) -> MessageKey:
    """Return the key of a message with that alone by which brokers route it."""
    if not key.headers or key[:2] in leading:
        return key
    further = json.loads(key.headers).get(FURTHER_KEYS)
    return key._replace(headers=json_text({FURTHER_KEYS: further} if further else None))


def leading_to_headers(*locks: Lock) -> set[tuple[str, str]]:
    """Return the headers exchanges of locks, and those from which messages may come to one, with their vhosts."""
    leading = {
        place for lock in locks for place, declared in lock.exchanges.items() if "headers" in declared.routing_types
    }
    ways = {
        ((each.vhost, each.destination), (each.vhost, each.exchange))
        for lock in locks
        for each in lock.bindings
        if each.kind == "exchange"
    }
    for lock in locks:
        leading |= {(key.vhost, name) for key in lock.messages for name in HEADERS_EXCHANGES}
        for (vhost, exchange), declared in lock.exchanges.items():
            ways |= {((vhost, name), (vhost, exchange)) for name in declared.named("alternate-exchange")}
    declared_places = {place for lock in locks for place in lock.exchanges}
    # What is bound with arguments and declared in no lock may be one.
    leading |= {
        (each.vhost, each.exchange)
        for lock in locks
        for each in lock.bindings
        if each.arguments and (each.vhost, each.exchange) not in declared_places
    }
    waiting = [*leading]
    while waiting and ways:
        place = waiting.pop()
        waiting += [source for target, source in ways if target == place and source not in leading]
        leading.update(waiting)
    return leading


class LockError(ValueError):
    """A file that is no lock, and what to do about it."""

    def __init__(self, reason: str, advice: str = "", *, is_recoverable: bool = False) -> None:
        super().__init__(reason)
        # A command has {file} for the path.
        self.advice: Final = advice or (
            "take it back with `git restore {file}`, or write it anew with `pytest --leveret-contract=rewrite`, which "
            "forgets what was measured of consumers"
        )
        # Whether it holds what a new lock would lose.
        self.is_recoverable: Final = is_recoverable


def read(path: str | Path) -> Lock:
    """Read a lock from its file. Raises LockError if it is none, OSError if it cannot be read."""
    try:
        return parse(text_of(Path(path)))
    except ValueError as error:
        known = error if isinstance(error, LockError) else LockError(str(error))
        advice = known.advice.format(file=shlex.quote(str(path)))
        raise LockError(f"{path} is no lock: {known}; {advice}", advice, is_recoverable=known.is_recoverable) from None


def update(path: str | Path, changed: Callable[[], Lock]) -> None:
    """Write the lock that `changed` makes of what its file holds, unless that is as it was.

    Another run that writes the same file waits, and `changed` reads then what this run has added. Raises OSError
    with the name of the file if it cannot be written, and what `changed` raises.
    """
    file = Path(os.path.realpath(path))
    try:
        if not file.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist; create it, or correct the path")
        if not file.exists() or changed().text() != text_of(file):
            if file.exists() and not os.access(file, os.W_OK):
                raise PermissionError(errno.EACCES, "it is read-only")
            with kept_from_others(file):
                replace_text(file, changed().text())
    except OSError as error:
        # A full disk has no name, and the files beside it have others.
        error.filename = str(path)
        raise


def parse(text: str) -> Lock:
    """Return the lock that a text holds. Raises ValueError if it holds none."""
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        raise LockError(
            f"line {text.count(chr(10), 0, conflict.start()) + 1} is a mark of a conflict in git",
            "take one side with `git checkout --ours {file}` or `git checkout --theirs {file}`, then add what the "
            "tests show with `pytest --leveret-contract=write`",
            is_recoverable=True,
        )
    if not text.strip():
        raise LockError(
            "it is empty",
            "take it back with `git restore {file}`, or delete it and write it anew with "
            "`pytest --leveret-contract=write`",
        )
    try:
        if sum(line.count(".") ** 2 for line in text.splitlines()) > _DOTS_MAX:
            raise RecursionError
        data = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    version = data.get("version")
    if version != VERSION:
        is_newer = isinstance(version, int) and version > VERSION
        raise LockError(
            f"version = {version!r}, and this leveret reads version {VERSION}",
            "install the leveret that has written it, or a newer one" if is_newer else "",
            is_recoverable=is_newer,
        )
    try:
        lock = named_lock(data)
        for entry in data.get("message", []):
            lock.messages[_key_of(entry)].shape = shape_of({part: entry.get(part, {}) for part in PARTS})
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"an entry is incomplete: {error}") from None
    return lock


def field_text(shape: Shape, *, is_optional: bool = False) -> str:
    """Return the text of a field, without the fields below it."""
    return types_text({*shape.type_texts()}, is_optional=is_optional)


def types_text(types: set[str], *, is_optional: bool) -> str:
    """Return the text of a field that has these types. A number may be an integer."""
    names = types - {"integer"} if "number" in types else types
    ordered = sorted(names, key=lambda name: (name == "null", name))
    return ("optional " if is_optional else "") + " | ".join(ordered)


def field_shape(text: str) -> Shape:
    """Return the shape that the text of a field means. Raises ValueError if it means none."""
    shape = Shape(count=1)
    words = text.removeprefix("optional ")
    if len(words) > _FIELD_MAX:
        raise ValueError(f"the text of a field has {len(words)} characters")
    shape.may_lack = words != text
    for word in re.split(r" \| (?![^(]*\))", words):
        _add_type(shape, word)
    return shape


def _add_type(shape: Shape, word: str) -> None:
    match = _ENUMERATION.fullmatch(word)
    if match is not None:
        shape.words = set(match[1].split(", "))
        shape.types["string"], shape.formats[""] = len(shape.words) + REPEATS_MIN, 1
    elif word == "word":
        shape.types["string"], shape.formats[""], shape.words = 0, 1, set()
    elif word == "map":
        shape.types["object"], shape.is_map = 1, True
    elif word == "string":
        shape.types["string"], shape.formats[""], shape.words = 1, 1, None
    elif word in _TYPES:
        shape.types[word] = 1
    elif re.fullmatch(r"[\w./+;= -]+", word):
        shape.types["string"], shape.formats[word], shape.words = 1, 1, None
    else:
        raise ValueError(f"a field is {word!r}; expected types such as {', '.join(_TYPES[:5])}")


def steps_of(path: str) -> list[str]:
    """Return the steps of a path: names of fields, and "[]" for the items of an array."""
    return [step if step == "[]" else re.sub(r"\\(.)", r"\1", step) for step in _STEP.findall(path)]


def shape_of(parts: Mapping[str, Mapping[str, str]]) -> Shape:
    """Return the shape of messages from the texts of their fields, by part and path; a field follows its parent."""
    if not parts["body"]:
        # Its consumers have accepted none of these messages.
        return Shape()
    root = Shape(count=1, types={"object": 1})
    for part, lines in parts.items():
        root.fields[part] = field_shape(lines.get(ROOT, "object"))
        for path, text in lines.items():
            if path != ROOT:
                _graft(root.fields[part], steps_of(path), field_shape(text))
    return root


def _graft(shape: Shape, steps: list[str], leaf: Shape) -> None:
    if len(steps) > _STEPS_MAX:
        raise ValueError(f"a field is {len(steps)} levels deep")
    for step in steps[:-1]:
        below = shape.items if step == "[]" else shape.fields.get(step)
        if below is None:
            raise ValueError(f"the field {'.'.join(steps)!r} stands before {step!r}, which holds it")
        shape = below
    if steps[-1] == "[]":
        shape.items = leaf
    else:
        shape.fields[steps[-1]] = leaf


def named_lock(data: Mapping[str, Any]) -> Lock:
    """Return the lock of plain data, with the names of its messages and without their shapes."""
    lock = Lock()
    for entry in data.get("message", []):
        message = lock.messages[_key_of(entry)] = LockedMessage(set(entry.get("publishers", [])))
        for each in entry.get("consumer", []):
            names = (_text(each, "queue"), _text(each, "client"))
            consumer = LockedConsumer(*names, set(each.get("settled", [])), dict(each.get("needs", {})))
            message.consumers[consumer.queue, consumer.client] = consumer
    for kind, table in (("exchange", lock.exchanges), ("queue", lock.queues)):
        for entry in data.get(kind, []):
            variants = {tuple(sorted(each.items())) for each in _several(entry.get("arguments", {}))}
            place = (_text(entry, "vhost", "/"), _text(entry, "name"))
            table[place] = Declared(set(_several(entry.get("type", []))), variants)
    for entry in data.get("binding", []):
        kind = "exchange" if "to_exchange" in entry else "queue"
        source, target = _text(entry, "exchange"), _text(entry, f"to_{kind}")
        key, arguments = _text(entry, "routing_key"), json_text(entry.get("arguments"))
        lock.bindings.add(LockedBinding(_text(entry, "vhost", "/"), source, kind, target, key, arguments))
    return lock


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _key_of(entry: Mapping[str, Any]) -> MessageKey:
    vhost, exchange, routing_key = _text(entry, "vhost", "/"), _text(entry, "exchange"), _text(entry, "routing_key")
    return MessageKey(vhost, exchange, routing_key, _text(entry, "name", ""), json_text(entry.get("headers_sent")))


def _text(entry: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = entry[name] if default is None else entry.get(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} = {value!r} is no text")
    return value


def json_text(table: Mapping[str, Any] | None) -> str:
    """Return a table as JSON, its names in order; nothing if there is none."""
    return "" if table is None else json.dumps({**table}, ensure_ascii=False, sort_keys=True)


def _where(vhost: str) -> dict[str, str]:
    return {} if vhost == "/" else {"vhost": vhost}


def _message_tables(key: MessageKey, message: LockedMessage) -> Iterator[str]:
    data = {
        **_where(key.vhost),
        "exchange": key.exchange,
        "routing_key": key.routing_key,
        **({"name": key.name} if key.name else {}),
        **({"headers_sent": json.loads(key.headers)} if key.headers else {}),
        "publishers": sorted(message.publishers),
    }
    yield _table("[[message]]", data)
    lines = message.fields()
    for part in PARTS:
        prefix = f"{part}."
        fields = {path.removeprefix(prefix): text for path, text in lines.items() if path.startswith(prefix)}
        if fields:
            yield _table(f"[message.{part}]", fields)
    for (queue, client), consumer in sorted(message.consumers.items()):
        settled = sorted(consumer.settled)
        yield _table("[[message.consumer]]", {"queue": queue, "client": client, "settled": settled})
        if consumer.needs:
            yield _table("[message.consumer.needs]", dict(sorted(consumer.needs.items())))


def _declared_data(place: tuple[str, str], declared: Declared) -> dict[str, Any]:
    vhost, name = place
    data: dict[str, Any] = {**_where(vhost), "name": name}
    if declared.types:
        data["type"] = _short(sorted(declared.types))
    if declared.arguments != {()}:
        data["arguments"] = _short([dict(each) for each in sorted(declared.arguments, key=repr)])
    return data


def _short(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _binding_data(binding: LockedBinding) -> dict[str, Any]:
    return {
        **_where(binding.vhost),
        "exchange": binding.exchange,
        f"to_{binding.kind}": binding.destination,
        "routing_key": binding.routing_key,
        **({"arguments": json.loads(binding.arguments)} if binding.arguments else {}),
    }


def _table(head: str, data: Mapping[str, Any]) -> str:
    return "".join(
        f"{line}\n" for line in (head, *(f"{_toml_key(name)} = {_toml(value)}" for name, value in data.items()))
    )


def _toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _toml(name)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml_key(name)} = {_toml(item)}' for name, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
    # JSON's texts are those of TOML, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
