"""Run one command line: refuse what RabbitMQ's tools refuse, print the banner, act, and print what that returned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.engine.engine import Engine
from leveret.errors import BrokerError, NotDeclaredError, RefusedError, nearest
from leveret.http.rabbitmqctl.line import (
    DATA,
    UNAVAILABLE,
    USAGE,
    CommandLine,
    Printed,
    Stopped,
    comma_separated,
    declared,
    size_of,
)
from leveret.http.rabbitmqctl.printing import FORMATTERS, Result, empty_text, text_of

TOOLS: Final = {"rabbitmqctl": "ctl", "rabbitmq-diagnostics": "diagnostics", "rabbitmq-queues": "queues"}
_USAGE: Final = "[--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]"
_APP_IS_STOPPED: Final = (
    "Error: this command requires the 'rabbit' app to be running on the target node. "
    "Start it with 'rabbitmqctl start_app'."
)
_APP_IS_RUNNING: Final = (
    "Error: this command requires the 'rabbit' app to be stopped on the target node. "
    "Stop it with 'rabbitmqctl stop_app'."
)
# What runs without the application.
_WITHOUT_APP: Final = (
    *("ping", "version", "server_version", "start_app", "stop_app", "reset", "check_running", "is_running"),
    *("is_booting", "await_startup", "wait", "hash_password", "status", "cluster_status", "resume_listeners"),
)
# The formatters whose output a program reads.
_MACHINES: Final = ("json", "csv")


class UnservedError(BrokerError):
    """A command that RabbitMQ has, and leveret lacks."""


def run(
    engine: Engine, tool: str, words: Sequence[str], files: MutableMapping[str, bytes], ports: Mapping[int, int]
) -> Printed:
    """Run the words after the name of a tool on a broker.

    `files` are those beside it, by path. `ports` are those that commands show for the broker's own.

    Raises UnservedError for a command that leveret lacks.
    """
    # Only a few brokers are asked by commands.
    from leveret.http.rabbitmqctl.call import Call
    from leveret.http.rabbitmqctl.table import TABLE

    line = CommandLine.read(words)
    command = declared().get(line.command)
    if command is None or TOOLS[tool] not in command["tools"]:
        return Printed(USAGE, "", _unknown_text(tool, line.command))
    if line.command not in TABLE:
        raise UnservedError(f"{tool} {line.command}")
    fault = next(_faults(engine, line, command, files), None)
    if fault is not None:
        code, text = fault
        return Printed(code, "", _usage_text(tool, text, words, command))
    banner, formatter = _banner(line, command), _formatter(line, command)
    try:
        call = Call(engine, line, files, ports)
        with engine.lock if line.command.startswith("list_") else nullcontext():
            result = TABLE[line.command](call)
    except Stopped as stopped:
        return Printed(stopped.code, banner + stopped.output, f"{stopped}\n")
    except RefusedError as error:
        kind, _, text = str(error).partition(" - ")
        return Printed(UNAVAILABLE, banner, f'Error:\n{{:amqp_error, :{kind.lower()}, ~c"{text}", :none}}\n')
    except (BrokerError, NotDeclaredError) as error:
        return Printed(UNAVAILABLE, banner, f"Error:\n{error}\n")
    return Printed(0, banner + _shown(result, line, command, formatter))


def _shown(result: Result, line: CommandLine, command: Mapping[str, Any], formatter: str) -> str:
    """Return what a command prints of its result: the columns of each row that the line asks for."""
    known = command.get("known")
    has_head = not line.has("--silent", "--no-table-headers") and line.command not in _HEADLESS
    if result is None or isinstance(result, str):
        return text_of(result, formatter, has_head=has_head)
    wanted = _columns(line) or command.get("columns", ())
    rows = [{name: row.get(name) for name in wanted} if known else row for row in result]
    # What RabbitMQ does not stream has a line for an empty list.
    return text_of(rows, formatter, has_head=has_head) if rows or known else empty_text(formatter)


def _columns(line: CommandLine) -> list[str]:
    return [name for word in line.arguments for name in comma_separated(word)]


def _unknown_text(tool: str, name: str) -> str:
    """Return what a tool says of a command that it lacks, without the list of all that it has."""
    known = [known for known, command in declared().items() if TOOLS[tool] in command["tools"]]
    near = nearest(name, known)
    if near:
        return f"\nCommand '{name}' not found. \nDid you mean '{near[0]}'? \n\n"
    head = f"\nCommand '{name}' not found. \n" if name else ""
    return f"{head}\nUsage\n\n{tool} {_USAGE}\n"


def _usage_text(tool: str, fault: str, words: Sequence[str], command: Mapping[str, Any]) -> str:
    timeout = " [--timeout <timeout>]" if "--timeout" in command.get("switches", ()) else ""
    usage = f"{tool} [--node <node>] [--longnames] [--quiet] {command['usage']}{timeout}"
    return f"{fault}\nArguments given:\n\t{' '.join(words)}\n\nUsage\n\n{usage}\n"


def _faults(
    engine: Engine, line: CommandLine, command: Mapping[str, Any], files: Mapping[str, bytes]
) -> Iterator[tuple[int, str]]:
    """Yield the exit code and the text for what is wrong with a line, in the order in which RabbitMQ looks."""
    head = "Error (argument validation): "
    if line.invalid:
        yield USAGE, f"{head}Invalid options for this command:\n" + "\n".join(line.invalid)
    words, (least, most) = line.arguments, command["words"]
    if line.command in _WITH_MORE and words[:1] == [_WITH_MORE[line.command]]:
        least = most = 2
    if line.command == "wait" and not words and "--pid" not in line.switches:
        yield USAGE, f'{head}"No pid or pidfile specified"'
    if len(words) < least or (line.command == "update_vhost_metadata" and not _own_switches(line, command)):
        yield USAGE, f"{head}not enough arguments."
    if most is not None and len(words) > most:
        yield USAGE, f"{head}too many arguments."
    unknown = [name for name in _columns(line) if name not in command["known"]] if "known" in command else []
    if unknown:
        yield USAGE, f"{head}Info key(s) {','.join(unknown)} are not supported"
    bad = _bad_argument(line, files)
    if bad is not None:
        yield DATA, f"{head}Bad argument{bad}"
    is_running = engine.loop.is_listening
    if line.command == "reset" and is_running:
        yield USAGE, _APP_IS_RUNNING
    if not is_running and line.command not in _WITHOUT_APP:
        yield USAGE, _APP_IS_STOPPED
    formatter = _formatter(line, command)
    if formatter not in FORMATTERS:
        yield 1, f"unknown formatter {formatter!r}; expected one of {', '.join(FORMATTERS)}"


def _formatter(line: CommandLine, command: Mapping[str, Any]) -> str:
    own = command.get("formatter")
    return line.switches.get("--formatter", own if own in FORMATTERS else "table")


def _own_switches(line: CommandLine, command: Mapping[str, Any]) -> bool:
    return any(name in command["switches"] for name in line.switches)


def _bad_argument(line: CommandLine, files: Mapping[str, bytes]) -> str | None:
    """Return what RabbitMQ says of a word or switch whose value cannot be, None if all can."""
    words, kind = line.arguments, line.switches.get("--default-queue-type")
    match line.command:
        case "add_vhost" | "update_vhost_metadata" if kind is not None and kind not in QUEUE_TYPES:
            return f": Default queue type must be one of: quorum, stream, classic. Provided: {kind}"
        case "add_user" if not words[0]:
            return ": user cannot be an empty string"
        case "import_definitions" if words and words[0] not in files:
            return f": File {words[0]} does not exist"
        case "set_vm_memory_high_watermark" | "set_disk_free_limit" if size_of(words[-1]) is None:
            is_fraction = words[-1].replace(".", "", 1).isdecimal()
            return None if is_fraction else "."
    return None


def _banner(line: CommandLine, command: Mapping[str, Any]) -> str:
    """Return the lines that a command prints before it acts."""
    if line.has("--quiet", "--silent") or line.switches.get("--formatter") in _MACHINES:
        return ""
    words = line.arguments
    cases = [(line.command, case) for case in (*sorted(line.switches), *words, str(len(words)))]
    text = next((_BANNERS[case] for case in cases if case in _BANNERS), command.get("banner"))
    if not text:
        return ""
    least, most = command["words"]
    # Of a command that takes any number of words, the last mark stands for all that remain.
    shown = [*words[:least], ", ".join(words[least:])] if most is None else [*words, ""]
    switches = {name.removeprefix("--").replace("-", "_"): value for name, value in line.switches.items()}
    values = {"and_unused": " and if queue is unused" if line.has("--if-unused") else "", **_DEFAULTS, **switches}
    if "--timeout" in line.switches:
        text = text.replace("60.0", f"{float(line.switches['--timeout'])}")
    return text.format(*shown, **values) + "\n"


# What banners name, if no switch does.
_DEFAULTS: Final = {"vhost": "/", "node": NODE_NAME, "user": "guest", "priority": 0, "apply_to": "all"}
# The banners of commands that have another with a switch, a first word, or a number of words; "" for none.
_BANNERS: Final = {
    ("delete_queue", "--if-empty"): "Deleting queue '{0}' on vhost '{vhost}' if queue is empty{and_unused} ...",
    ("delete_queue", "--if-unused"): "Deleting queue '{0}' on vhost '{vhost}' if queue is unused ...",
    ("clear_topic_permissions", "2"): 'Clearing topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
    ("clear_user_limits", "all"): 'Clearing all limits for user "{0}" ...',
    ("list_user_limits", "--global"): "Listing limits for all users ...",
    ("list_vhost_limits", "--global"): "Listing limits for all vhosts ...",
    ("close_all_connections", "--global"): "Closing all connections to node {node} (across all vhosts), reason: {0}...",
    ("enable_feature_flag", "all"): "Enabling all feature flags ...",
    ("import_definitions", "1"): 'Importing definitions in JSON from a file at "{0}" ...',
    ("hash_password", "1"): "Will hash password {0}",
    ("set_vm_memory_high_watermark", "absolute"): "Setting memory threshold on {node} to {1} bytes ...",
    ("set_disk_free_limit", "mem_relative"): "Setting disk free limit on {node} to {1} times the total RAM ...",
}
# The commands that take a second word after a certain first one.
_WITH_MORE: Final = {"set_vm_memory_high_watermark": "absolute", "set_disk_free_limit": "mem_relative"}
_HEADLESS: Final = ("list_user_topic_permissions",)
