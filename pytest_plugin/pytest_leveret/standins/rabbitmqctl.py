"""The commands of rabbitmqctl and its siblings that a suite runs inside a container."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from operator import attrgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_leveret.standins.server import StandIn

# The exit codes of rabbitmqctl: sysexits.h's EX_USAGE, EX_DATAERR and EX_UNAVAILABLE.
_USAGE: Final = 64
_DATA: Final = 65
_UNAVAILABLE: Final = 69
_TOOLS: Final = ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins", "rabbitmq-queues")
# Options with a value; the others are switches.
_VALUED: Final = (
    "-p",
    "--vhost",
    "-n",
    "--node",
    "-t",
    "--timeout",
    "--formatter",
    "--priority",
    "--apply-to",
    "--format",
)
# Commands that succeed because the broker runs, or because nothing is left to do, and what they print.
_PRINTED: Final = {
    **dict.fromkeys(("await_startup", "wait", "node_health_check", "is_booting", "check_port_connectivity"), ""),
    **dict.fromkeys(("check_local_alarms", "check_alarms", "alarms", "check_virtual_hosts", "force_gc"), ""),
    **dict.fromkeys(("enable_feature_flag", "await_online_nodes", "check_running", "is_running"), ""),
    **dict.fromkeys(("version", "server_version"), "{rabbitmq_version}\n"),
    "ping": "Ping succeeded\n",
    "status": "Runtime\n\nRabbitMQ version: {rabbitmq_version}\nNode name: {original_cluster_name}\n",
    "cluster_status": "Running Nodes\n\n{original_cluster_name}\n",
}


# What a listing can show, in RabbitMQ's words, and how it is read from a view.
_Columns = Mapping[str, Callable[[Any], object]]
_Rows = list[dict[str, object]] | None
_Action = Callable[["StandIn", Mapping[str, str], list[str]], _Rows]


class RefusedCommand(Exception):
    """A command that RabbitMQ refuses too: an exit code and a text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def run(stand_in: StandIn, command: str | Iterable[str]) -> tuple[int, str]:
    """Run a command in a container, and return its exit code and what it prints."""
    stand_in.fleet.count_test()
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    while words and words[0] in ("sh", "bash", "/bin/sh", "/bin/bash") and "-c" in words:
        words = shlex.split(words[-1])
    if not words or PurePosixPath(words[0]).name not in _TOOLS:
        stand_in.fleet.refuse(f"command {' '.join(words)!r}")
    tool, *rest = words
    options, arguments = _parsed(rest)
    if not arguments:
        return _USAGE, "Usage: rabbitmqctl [--node <node>] [--quiet] <command> [<command options>]\n"
    name, *arguments = arguments
    if PurePosixPath(tool).name == "rabbitmq-plugins":
        return _plugins(stand_in, name, arguments)
    if name in _PRINTED:
        # A node alone has the name of its cluster.
        return 0, _PRINTED[name].format_map(stand_in.broker.admin.export_definitions())
    action = _COMMANDS.get(name)
    if action is None:
        stand_in.fleet.refuse(f"rabbitmqctl {name}")
    from leveret import BrokerError, NotDeclaredError

    try:
        rows = action(stand_in, options, arguments)
    except RefusedCommand as refusal:
        return refusal.code, f"Error:\n{refusal}\n"
    except (BrokerError, NotDeclaredError) as error:
        return _DATA, f"Error:\n{error}\n"
    except (IndexError, TypeError, ValueError) as error:
        return _USAGE, f"Error (argument validation): {error}\n"
    return 0, "" if rows is None else _printed(rows, options)


def _parsed(words: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    arguments: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            arguments.append(word)
        elif equals or name not in _VALUED:
            options[name] = value
        else:
            options[name] = next(rest, "")
    return options, arguments


def _printed(rows: list[dict[str, object]], options: Mapping[str, str]) -> str:
    """Return rows as rabbitmqctl prints them: JSON, or a line a row with tabs, with the names of the columns above."""
    if options.get("--formatter") == "json":
        return json.dumps(rows) + "\n"
    lines = ["\t".join(_cell(value) for value in row.values()) for row in rows]
    bare = {"-s", "--silent", "--no-table-headers"} & options.keys()
    return "".join(f"{line}\n" for line in (lines if bare or not rows else ["\t".join(rows[0]), *lines]))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _vhost(options: Mapping[str, str]) -> str:
    return options.get("-p") or options.get("--vhost") or "/"


def _chosen(rows: Iterable[Any], columns: _Columns, wanted: list[str], usual: int) -> list[dict[str, object]]:
    """Return the wanted columns of each row, or the first few."""
    for name in wanted:
        if name not in columns:
            raise RefusedCommand(_USAGE, f"Info key(s) {name} are not supported")
    names = wanted or [*columns][:usual]
    return [{name: columns[name](row) for name in names} for row in rows]


def _same(*names: str) -> _Columns:
    """Return columns that a view has by the same names."""
    return {name: attrgetter(name) for name in names}


_QUEUE: Final[_Columns] = {
    "name": lambda queue: queue.name,
    "messages": lambda queue: len(queue.ready) + len(queue.unacked),
    "messages_ready": lambda queue: len(queue.ready),
    "messages_unacknowledged": lambda queue: len(queue.unacked),
    "consumers": lambda queue: len(queue.consumers),
    "state": lambda _: "running",
    **_same("type", "durable", "auto_delete", "exclusive", "arguments"),
}
_EXCHANGE: Final = _same("name", "type", "durable", "auto_delete", "internal", "arguments")
_CONNECTION: Final[_Columns] = {**_same("user", "name"), "state": lambda _: "running", **_same("vhost")}


def _listing(kind: str, columns: _Columns) -> _Action:
    """Return the action that lists what a virtual host has of a kind of views, the first two columns by default."""

    def act(stand_in: StandIn, options: Mapping[str, str], wanted: list[str]) -> list[dict[str, object]]:
        rows = [row for row in getattr(stand_in.broker, kind) if row.vhost == _vhost(options)]
        return _chosen(rows, columns, wanted, 2)

    return act


def _defined(kind: str, *columns: str) -> _Action:
    """Return the action that lists what the definitions of a virtual host have of a kind."""

    def act(stand_in: StandIn, options: Mapping[str, str], _: list[str]) -> list[dict[str, object]]:
        described: Any = stand_in.broker.admin.export_definitions()
        rows = [row for row in described[kind] if row["vhost"] == _vhost(options)]
        return [{column: row[column] for column in columns} for row in rows]

    return act


def _import(stand_in: StandIn, _: Mapping[str, str], arguments: list[str]) -> None:
    path = arguments[0]
    if path not in stand_in.files:
        raise RefusedCommand(_DATA, f"File {path} does not exist")
    stand_in.broker.admin.import_definitions(json.loads(stand_in.files[path]))


def _export(stand_in: StandIn, _: Mapping[str, str], arguments: list[str]) -> None:
    stand_in.files[arguments[0]] = json.dumps(stand_in.broker.admin.export_definitions()).encode()


def _start_app(stand_in: StandIn, _: Mapping[str, str], __: list[str]) -> None:
    stand_in.broker.admin.revive()
    stand_in.broker.restart()


def _plugins(stand_in: StandIn, name: str, plugins: list[str]) -> tuple[int, str]:
    from leveret.broker import BUILT_IN, OVER_HTTP

    enabled = dict.fromkeys([*BUILT_IN, *stand_in.plugins()])
    if name == "list":
        return 0, "".join(f"{plugin}\n" for plugin in enabled)
    others = [plugin for plugin in plugins if plugin not in {*enabled, *OVER_HTTP}]
    if name == "is_enabled" and others:
        return _UNAVAILABLE, f"Error:\nPlugin {others[0]} is not enabled\n"
    if name == "enable" and others:
        stand_in.fleet.refuse(f"plugin {others[0]}")
    if name not in ("enable", "disable", "is_enabled"):
        stand_in.fleet.refuse(f"rabbitmq-plugins {name}")
    return 0, ""


def _calling(name: str) -> _Action:
    """Return the action that calls the method of this name with the words of a command in order, and prints nothing."""

    def act(stand_in: StandIn, options: Mapping[str, str], words: list[str]) -> None:
        broker = stand_in.broker
        method: Callable[..., object] = getattr(broker if name in _OF_BROKER else broker.admin, name)
        parameters = signature(method).parameters
        places = [each for each in parameters if each != "vhost"]
        # Of rights, rabbitmqctl leaves out none.
        if len(words) > len(places) or ("read" in places and len(words) < len(places)):
            raise ValueError(f"{name} takes {', '.join(places)}")
        given: dict[str, Any] = {
            place: json.loads(word) if word.startswith("{") else word
            for place, word in zip(places, words, strict=False)
        }
        if "vhost" in parameters:
            given["vhost"] = _vhost(options)
        if "priority" in parameters:
            given |= {"priority": int(options.get("--priority", 0)), "apply_to": options.get("--apply-to", "all")}
        method(**given)

    return act


_OF_BROKER: Final = ("purge_queue", "delete_queue", "reset")
# The methods that have the name of their command.
_SAME: Final = (
    *("add_user", "delete_user", "change_password", "clear_password", "set_user_limits", "add_vhost", "delete_vhost"),
    *("set_vhost_limits", "set_permissions", "clear_permissions", "set_topic_permissions", "set_policy"),
    *("clear_policy", "close_all_connections", "trace_on", "trace_off", *_OF_BROKER),
)
_COMMANDS: Final[dict[str, _Action]] = {
    "list_queues": _listing("queues", _QUEUE),
    "list_exchanges": _listing("exchanges", _EXCHANGE),
    "list_connections": lambda it, _, wanted: _chosen(it.broker.connections, _CONNECTION, wanted, 3),
    "list_permissions": _defined("permissions", "user", "configure", "write", "read"),
    "list_policies": _defined("policies", "vhost", "name", "pattern", "apply-to", "definition", "priority"),
    "list_users": lambda it, _, __: [
        {"user": user, "tags": list(tags)} for user, tags in it.broker.admin.list_users().items()
    ],
    "list_vhosts": lambda it, _, __: [{"name": name} for name in it.broker.admin.list_vhosts()],
    **{name: _calling(name) for name in _SAME},
    "set_user_tags": lambda it, _, words: it.broker.admin.set_user_tags(*words),
    "import_definitions": _import,
    "export_definitions": _export,
    "stop_app": lambda it, _, __: it.broker.admin.drain(),
    "start_app": _start_app,
}
