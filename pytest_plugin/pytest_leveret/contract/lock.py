"""The lock: the contract that tests have shown, as a file for git, and its classes.

A lock has an entry for each kind of message and one for each exchange and queue. The file is TOML, a line for each
field, in order. It has no counts, so that neither another run nor a part of the tests changes it: `Lock.merge` only
adds. In memory a lock that was observed also has the counts of its shapes, which decide what is optional and what is
an enumeration; `to_data` keeps them, for the workers of pytest-xdist.

The text of a field is its types, separated by "|": those of JSON, the format of a text in place of "string", "word" for
texts that could be an enumeration if more came, `enum(open, paid)`, and "map" for an object whose keys are data.
"optional" before them says that messages may come without the field. A path is `lines[].sku`; "$" is the whole body.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from leveret.trace.shapes import REPEATS_MIN, Shape
from leveret.trace.shapes.file_shapes import ROOT

VERSION: Final = 1
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

    def __str__(self) -> str:
        where = f"{self.exchange} {self.routing_key!r}" if self.exchange else repr(self.routing_key)
        return where + (f" {self.name}" if self.name else "")


@dataclass(slots=True)
class Consumer:
    """A client that receives a kind of message from a queue."""

    queue: str
    client: str
    # How it settles them: acked, no_ack, rejected, requeued.
    settled: set[str] = field(default_factory=set)
    # What it requires, by the part and path of the field (`body.total`), in the words of a field: the types it accepts,
    # "optional" if it does without, "any" if it never reads it. Empty until `leveret needs` has measured it.
    needs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Message:
    """A kind of message: who sends it, who receives it, and its shape."""

    publishers: set[str] = field(default_factory=set)
    consumers: dict[tuple[str, str], Consumer] = field(default_factory=dict)
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

    def merge(self, other: Message) -> None:
        """Add what another lock knows of this kind of message."""
        self.publishers |= other.publishers
        for key, theirs in other.consumers.items():
            mine = self.consumers.setdefault(key, Consumer(*key))
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

    def merge(self, other: Declared) -> None:
        """Add what another lock knows of it."""
        self.types |= other.types
        self.arguments |= other.arguments


class Binding(NamedTuple):
    """A binding from an exchange to a queue or an exchange."""

    vhost: str
    exchange: str
    # "queue" or "exchange".
    kind: str
    destination: str
    routing_key: str


@dataclass(slots=True)
class Lock:
    """The contract of one service, or of several whose tests are one suite."""

    messages: dict[MessageKey, Message] = field(default_factory=dict)
    # By virtual host and name.
    exchanges: dict[tuple[str, str], Declared] = field(default_factory=dict)
    queues: dict[tuple[str, str], Declared] = field(default_factory=dict)
    bindings: set[Binding] = field(default_factory=set)
    # Whether it was read from a document, which says what messages have to be, not what tests have made up.
    is_document: bool = False

    def merge(self, other: Lock) -> None:
        """Add what another lock knows. Nothing is removed."""
        for key, message in other.messages.items():
            self.messages.setdefault(key, Message()).merge(message)
        for mine, theirs in ((self.exchanges, other.exchanges), (self.queues, other.queues)):
            for name, declared in theirs.items():
                mine.setdefault(name, Declared()).merge(declared)
        self.bindings |= other.bindings

    def keep_needs(self, before: Lock) -> None:
        """Take over what was measured before of consumers that are still there."""
        for key, message in self.messages.items():
            known = before.messages.get(key)
            for place, consumer in message.consumers.items():
                if known is not None and place in known.consumers:
                    consumer.needs = known.consumers[place].needs

    def to_data(self) -> dict[str, Any]:
        """Return the lock as plain data, with the counts of its shapes."""
        return {
            **self.topology(),
            "message": [
                {**_message_data(key, message), "shape": message.shape.to_data()}
                for key, message in sorted(self.messages.items())
            ],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Lock:
        """Return the lock that `to_data` has made into plain data."""
        lock = named_lock(data)
        for entry in data["message"]:
            lock.messages[_key_of(entry)].shape = Shape.from_data(entry["shape"])
        return lock

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
        for key, message in sorted(self.messages.items()):
            tables += _message_tables(key, message)
        for name, entries in self.topology().items():
            tables += [_table(f"[[{name}]]", entry) for entry in entries]
        return "\n".join(tables)

    def write(self, path: str | Path) -> None:
        """Write the file, if its text is another."""
        file, text = Path(path), self.text()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8", newline="\n")


def read(path: str | Path) -> Lock:
    """Read a lock from its file. Raises ValueError if it is none, OSError if it cannot be read."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"{path} is no lock: {error}; write it anew with `pytest --leveret-contract=rewrite`"
        ) from None


def parse(text: str) -> Lock:
    """Return the lock that a text holds. Raises ValueError if it holds none."""
    data = tomllib.loads(text)
    if data.get("version") != VERSION:
        raise ValueError(f"version = {data.get('version')!r}, and this leveret reads version {VERSION}")
    try:
        lock = named_lock(data)
        for entry in data.get("message", []):
            lock.messages[_key_of(entry)].shape = shape_of({part: entry.get(part, {}) for part in PARTS})
    except (KeyError, TypeError, AttributeError) as error:
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
        message = lock.messages[_key_of(entry)] = Message(set(entry.get("publishers", [])))
        for each in entry.get("consumer", []):
            consumer = Consumer(
                each["queue"], each["client"], set(each.get("settled", [])), dict(each.get("needs", {}))
            )
            message.consumers[consumer.queue, consumer.client] = consumer
    for kind, table in (("exchange", lock.exchanges), ("queue", lock.queues)):
        for entry in data.get(kind, []):
            variants = {tuple(sorted(each.items())) for each in _several(entry.get("arguments", {}))}
            table[entry.get("vhost", "/"), entry["name"]] = Declared(set(_several(entry.get("type", []))), variants)
    for entry in data.get("binding", []):
        kind = "exchange" if "to_exchange" in entry else "queue"
        lock.bindings.add(
            Binding(entry.get("vhost", "/"), entry["exchange"], kind, entry[f"to_{kind}"], entry["routing_key"])
        )
    return lock


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _key_of(entry: Mapping[str, Any]) -> MessageKey:
    return MessageKey(entry.get("vhost", "/"), entry["exchange"], entry["routing_key"], entry.get("name", ""))


def _where(vhost: str) -> dict[str, str]:
    return {} if vhost == "/" else {"vhost": vhost}


def _message_data(key: MessageKey, message: Message) -> dict[str, Any]:
    return {
        **_where(key.vhost),
        "exchange": key.exchange,
        "routing_key": key.routing_key,
        **({"name": key.name} if key.name else {}),
        "publishers": sorted(message.publishers),
        "consumer": [
            {
                "queue": consumer.queue,
                "client": consumer.client,
                "settled": sorted(consumer.settled),
                **({"needs": dict(sorted(consumer.needs.items()))} if consumer.needs else {}),
            }
            for _, consumer in sorted(message.consumers.items())
        ],
    }


def _message_tables(key: MessageKey, message: Message) -> Iterator[str]:
    data = _message_data(key, message)
    consumers = data.pop("consumer")
    yield _table("[[message]]", data)
    lines = message.fields()
    for part in PARTS:
        prefix = f"{part}."
        fields = {path.removeprefix(prefix): text for path, text in lines.items() if path.startswith(prefix)}
        if fields:
            yield _table(f"[message.{part}]", fields)
    for consumer in consumers:
        needs = consumer.pop("needs", None)
        yield _table("[[message.consumer]]", consumer)
        if needs:
            yield _table("[message.consumer.needs]", needs)


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


def _binding_data(binding: Binding) -> dict[str, Any]:
    return {
        **_where(binding.vhost),
        "exchange": binding.exchange,
        f"to_{binding.kind}": binding.destination,
        "routing_key": binding.routing_key,
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
