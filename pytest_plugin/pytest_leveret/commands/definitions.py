"""The command `leveret definitions diff`: in what two definitions differ, each a file or a running server.

Definitions are compared as RabbitMQ counts them. A queue without a type has its virtual host's; the order of objects
and of keys, hashes of passwords, versions and names of clusters do not matter.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from leveret.recording.management import ManagementClient, ManagementError
from leveret.wording import count_text

Values = Mapping[str, Any]
# The virtual host and the name of an object, which are the same on both sides.
Key = tuple[str, str]

_PATH: Final = "/api/definitions"
_ONE_VHOST: Final = "single_virtual_host"
_OF_WHOLE_BROKER: Final = ("vhosts", "users", "permissions", "topic_permissions")
_ABSENT: Final = object()


class _Compared(NamedTuple):
    """A section of definitions: what it holds, what names an object of it, and what else counts."""

    what: str
    name: Callable[[Values], str]
    # The value of each key that counts, with the value that an object without the key has.
    defaults: Mapping[str, Any]


def _named(values: Values) -> str:
    return repr(values.get("name"))


def _binding(values: Values) -> str:
    arguments = json.dumps(values["arguments"], sort_keys=True) if values.get("arguments") else ""
    ends = f"{values.get('source')!r} to {values.get('destination_type', 'queue')} {values.get('destination')!r}"
    return f"of {ends} with key {values.get('routing_key', '')!r}" + (f" and {arguments}" if arguments else "")


def _right(values: Values) -> str:
    exchange = f" to exchange {values['exchange']!r}" if "exchange" in values else ""
    return f"of {values.get('user')!r}{exchange}"


_DECLARED: Final = {"durable": True, "auto_delete": False, "arguments": {}}
_PATTERNS: Final = {"write": "", "read": ""}
# In the order of the diff.
_SECTIONS: Final[Mapping[str, _Compared]] = {
    "vhosts": _Compared("virtual host", _named, {"limits": {}, "default_queue_type": "classic"}),
    "users": _Compared("user", _named, {"tags": [], "limits": {}}),
    "permissions": _Compared("permission", _right, {"configure": "", **_PATTERNS}),
    "topic_permissions": _Compared("topic permission", _right, _PATTERNS),
    "parameters": _Compared("parameter", lambda it: f"{it.get('name')!r} of {it.get('component')!r}", {"value": {}}),
    "policies": _Compared("policy", _named, {"pattern": "", "apply-to": "all", "priority": 0, "definition": {}}),
    "exchanges": _Compared("exchange", _named, {"type": "direct", "internal": False, **_DECLARED}),
    "queues": _Compared("queue", _named, {"type": "classic", **_DECLARED}),
    "bindings": _Compared("binding", _binding, {}),
}


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    definitions = commands.add_parser(
        "definitions", help="compare definitions.json files and servers", description="Compare definitions of RabbitMQ."
    )
    below = definitions.add_subparsers(title="commands", dest="what", required=True)
    diff = below.add_parser(
        "diff",
        help="print in what two definitions differ",
        description="Print in what two definitions differ: '-' marks what only A has, '+' what only B has, and '~' "
        "what differs, with the value in A and in B. Exits with 1 if anything differs.",
    )
    place = "a definitions.json, or the URL of a management API, as in http://guest:guest@localhost:15672"
    diff.add_argument("a", metavar="A", help=place)
    diff.add_argument("b", metavar="B", help="the same")
    diff.add_argument("--vhost", metavar="NAME", help="compare only this virtual host; of a server, the one to ask for")
    diff.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    a, b = (_read(place, options.vhost) for place in (options.a, options.b))
    lines = list(differences(a, b, options.vhost))
    for line in lines:
        print(line)
    print(count_text(len(lines), "difference") if lines else "no difference")
    return 1 if lines else 0


def differences(a: Values, b: Values, vhost: str | None = None) -> Iterator[str]:
    """Yield a line for each object that only one of two definitions has, or that both have with other values."""
    alone = [_vhost_of(it) for it in (a, b) if it.get("rabbitmq_definition_format") == _ONE_VHOST]
    if len(alone) == 1:
        vhost = alone[0] if vhost is None else vhost
    elif alone:
        # The definitions of one virtual host can be imported into another, so its name does not count.
        vhost = None
    sides = [_normal(it, "/" if len(alone) > 1 else _vhost_of(it)) for it in (a, b)]
    for name, section in _SECTIONS.items():
        # The definitions of one virtual host have no users.
        if alone and name in _OF_WHOLE_BROKER:
            continue
        left, right = ({key: it for key, it in side[name].items() if vhost in (None, key[0])} for side in sides)
        for key in sorted({**left, **right}):
            is_inside = key[0] not in ("/", "") and name != "vhosts"
            text = f"{section.what} {key[1]}" + (f" in {key[0]!r}" if is_inside else "")
            if key not in right:
                yield f"- {text}"
            elif key not in left:
                yield f"+ {text}"
            elif changes := list(_changes(left[key], right[key])):
                yield f"~ {text}: {', '.join(changes)}"


def _vhost_of(definitions: Values) -> str:
    return str(definitions.get("original_vhost_name", "/"))


def _changes(a: Values, b: Values) -> Iterator[str]:
    """Yield the values that differ, each argument by its own name."""
    for name in sorted({**a, **b}):
        old, new = a.get(name, _ABSENT), b.get(name, _ABSENT)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _changes(old, new)
        elif old != new or (isinstance(old, bool) != isinstance(new, bool)):
            yield f"{name} {_shown(old)} -> {_shown(new)}"


def _shown(value: object) -> str:
    return "none" if value is _ABSENT else json.dumps(value, sort_keys=True)


def _normal(definitions: Values, default_vhost: str) -> dict[str, dict[Key, Values]]:
    """Return the objects of each section by their names, with the values that count."""
    types = {it.get("name"): _default_type(it) for it in definitions.get("vhosts", ())}
    types.setdefault(default_vhost, _default_type(definitions))
    normal: dict[str, dict[Key, Values]] = {}
    for name, section in _SECTIONS.items():
        objects = normal[name] = {}
        for it in definitions.get(name, ()):
            vhost = "" if name == "users" else str(it.get("name" if name == "vhosts" else "vhost", default_vhost))
            values = {key: it.get(key, default) for key, default in section.defaults.items()}
            if name == "queues":
                values |= _typed(it, types.get(vhost, "classic"))
            elif name == "vhosts":
                values["default_queue_type"] = types[it.get("name")]
            elif name == "users":
                # Old versions write tags as one text.
                tags = it.get("tags") or []
                values["tags"] = sorted(tags.split(",") if isinstance(tags, str) else tags)
            if not _is_rabbitmqs(name, it):
                # Erlang may write an empty object as an empty list.
                plain = {key: {} if value == [] and key != "tags" else value for key, value in values.items()}
                objects[vhost, section.name(it)] = plain
    return normal


def _default_type(vhost: Values) -> str:
    kind = (vhost.get("metadata") or {}).get("default_queue_type")
    return "classic" if kind in (None, "undefined") else str(kind)


def _typed(queue: Values, default: str) -> Values:
    """Return a queue's type, which may be an argument, and its other arguments."""
    arguments = dict(queue.get("arguments") or {})
    kind = arguments.pop("x-queue-type", None) or default
    return {"type": kind, "arguments": arguments}


def _is_rabbitmqs(section: str, values: Values) -> bool:
    """Return whether every server has the object: a predeclared exchange, or the binding of the default exchange."""
    name = str(values.get("source" if section == "bindings" else "name", ""))
    return (section == "exchanges" and (not name or name.startswith("amq."))) or (section == "bindings" and not name)


def _read(place: str, vhost: str | None) -> Values:
    """Return the definitions in a file, or those of a server. Raises BrokerError for anything else."""
    from leveret.admin import definitions_import

    if place.startswith(("http://", "https://")):
        return _fetched(place, vhost)
    return _checked(place, definitions_import.read(place))


def _checked(place: str, definitions: Values) -> Values:
    from leveret.errors import BrokerError

    for name in _SECTIONS:
        objects = definitions.get(name, [])
        if not isinstance(objects, list) or not all(isinstance(it, Mapping) for it in objects):
            raise BrokerError(f"{place}: {name!r} must be a list of objects, as RabbitMQ exports it")
    return definitions


def _fetched(url: str, vhost: str | None) -> Values:
    from leveret.errors import BrokerError

    # The management page adds a file name to the URL of a download: ?download=shop.json.
    server_url, _, path = url.partition("?")[0].partition(_PATH)
    server, chosen = ManagementClient(server_url), vhost or unquote(path.strip("/"))
    try:
        definitions = server.ask("GET", "definitions", *([chosen] if chosen else []))
    except ManagementError as error:
        if not error.status:
            raise BrokerError(f"{error}; enable the management plugin, and name its port") from None
        hint = (
            "; put the name and the password of an administrator into the URL, as in "
            "http://user:password@localhost:15672"
        ) * (error.status == 401)
        raise BrokerError(f"{server.url} answers {error.status}{hint}") from None
    if not isinstance(definitions, Mapping):
        raise BrokerError(f"{server.url} answers with no definitions; leave the path out, or end it in {_PATH}")
    return _checked(server.url, definitions)
