"""The commands for the node: its state, alarms, listeners, definitions, and the application that stops and starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Final

from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.operators.passwords import PasswordHash
from leveret.http.management.constant import constant
from leveret.http.management.endpoints import overview
from leveret.http.rabbitmqctl.call import Action, Call, nothing
from leveret.http.rabbitmqctl.line import UNAVAILABLE, USAGE, Stopped, size_of
from leveret.http.rabbitmqctl.printing import Row


def _says(text: str) -> Action:
    """Return the action that prints a text, because the broker runs, or because there is nothing to do."""
    return lambda _: text


def _version(call: Call) -> str:
    return call.engine.compat.product_version


def _cluster_status(call: Call) -> str:
    sections = {
        "Basics": f"Cluster name: {call.node.cluster_name}",
        "Disk Nodes": NODE_NAME,
        "Running Nodes": NODE_NAME,
        "Versions": f"{NODE_NAME}: RabbitMQ {_version(call)} on leveret",
        "Maintenance status": f"Node: {NODE_NAME}, status: not under maintenance",
        "Alarms": "\n".join(_alarm_texts(call)) or "(none)",
        "Network Partitions": "(none)",
        "Listeners": "\n".join(f"Node: {NODE_NAME}, {text}" for text in _listener_texts(call, "interface")),
        "Feature flags": "\n".join(f"Flag: {row['name']}, state: {row['state']}" for row in _flags(call)),
    }
    return _sections(sections)


def _status(call: Call) -> str:
    node = call.node
    counts = (len(node.connections), sum(len(vhost.queues) for vhost in node.vhosts.values()), len(node.vhosts))
    sections = {
        "Runtime": f"Is under maintenance?: false\nRabbitMQ version: {_version(call)}\nNode name: {NODE_NAME}",
        "Plugins": "\n".join(["Enabled plugins:", "", *(f" * {name}" for name in sorted(call.engine.plugins))]),
        "Alarms": "\n".join(_alarm_texts(call)) or "(none)",
        "Totals": "Connection count: {}\nQueue count: {}\nVirtual host count: {}".format(*counts),
        "Listeners": "\n".join(_listener_texts(call, "Interface")),
    }
    return _sections(sections)


def _sections(sections: Mapping[str, str]) -> str:
    return "\n\n".join(f"{title}\n\n{text}" for title, text in sections.items())


def _listener_texts(call: Call, interface: str) -> list[str]:
    purposes = {"amqp": "AMQP 0-9-1 and AMQP 1.0", "amqp/ssl": "AMQP 0-9-1 and AMQP 1.0 over TLS", "http": "HTTP API"}
    return [
        f"{interface}: 127.0.0.1, port: {port}, protocol: {name}, purpose: {purposes[name]}"
        for name, port in call.listeners
    ]


def _alarm_texts(call: Call) -> list[str]:
    names = {"memory": "Memory", "disk": "Free disk space"}
    return [f"{names[name]} alarm on node {NODE_NAME}" for name in call.node.alarms]


def _alarms(call: Call) -> str:
    return "\n".join(_alarm_texts(call)) or f"Node {NODE_NAME} reported no alarms, local or clusterwide"


def _check_alarms(call: Call) -> str:
    if call.node.alarms:
        raise Stopped(UNAVAILABLE, _alarms(call))
    return _alarms(call)


def _check_running(call: Call) -> str:
    if not call.engine.loop.is_listening:
        text = "is not running or has not fully booted yet (check with is_booting)"
        raise Stopped(UNAVAILABLE, f"Error:\nRabbitMQ on node {NODE_NAME} {text}")
    return f"RabbitMQ on node {NODE_NAME} is fully booted and running"


def _check_listener(call: Call, *, what: str, found: str, head: str) -> str:
    """Report a listener by its protocol or its port. Raises Stopped if none exists."""
    names = [str(listener[what == "port"]) for listener in call.listeners]
    if call.words[0] in names:
        return f"A listener for {what} {call.words[0]} is running on node {NODE_NAME}."
    text = f"No listener for {what} {call.words[0]} is active on node {NODE_NAME}. Found listeners {found}"
    raise Stopped(UNAVAILABLE, f"{head}{text}: {', '.join(names)}")


def _connectivity(call: Call) -> str:
    ports = [port for _, port in call.listeners]
    tried = "".join(f"Will connect to localhost:{port}\n" for port in ports)
    shown = ", ".join(map(str, ports))
    return f"{tried}Successfully connected to ports {shown} on node {NODE_NAME} (using node hostname resolution)"


def _wait(call: Call) -> str:
    pid = call.line.switches.get("--pid", "1")
    return (
        f"Waiting for erlang distribution on node '{NODE_NAME}' while OS process '{pid}' is running\n"
        f"Waiting for applications 'rabbit_and_plugins' to start on node '{NODE_NAME}'\n"
        f"Applications 'rabbit_and_plugins' are running on node '{NODE_NAME}'"
    )


def _flags(call: Call) -> list[Row]:
    return list(constant(call.engine.compat.version)["feature_flags"])


def _enable_flag(call: Call) -> None:
    if call.words[0] not in ("all", *(row["name"] for row in _flags(call))):
        raise Stopped(USAGE, f"Error:\nThis feature flag is not supported by node {NODE_NAME}")


def _watermark(call: Call) -> None:
    """Set or clear the memory alarm: a fraction that no process can keep to sets it, as suites that test this use."""
    is_low = call.words[0] != "absolute" and float(call.words[0]) < _SMALLEST_WATERMARK
    (call.admin.set_alarm if is_low else call.admin.clear_alarm)("memory")


# RabbitMQ itself takes more of a machine's memory.
_SMALLEST_WATERMARK: Final = 0.001


def _disk_limit(call: Call) -> None:
    """Set or clear the disk alarm: a limit beyond the disk, or many times the memory, sets it."""
    if call.words[0] == "mem_relative":
        limit = int(float(call.words[1]) * overview.memory_bytes())
    else:
        limit = size_of(call.words[0]) or 0
    (call.admin.set_alarm if limit > overview.disk_free() else call.admin.clear_alarm)("disk")


def _import(call: Call) -> str:
    call.admin.import_definitions(json.loads(call.files[call.words[0]]))
    text = "This process is asynchronous and can take some time. Watch target node logs for completion."
    return f"Successfully started definition import. {text}"


def _export(call: Call) -> str | None:
    text = json.dumps(call.admin.export_definitions())
    if call.words[0] == "-":
        return text
    call.files[call.words[0]] = text.encode()
    return None


def _hash(call: Call) -> str:
    with call.engine.acting() as node:
        return PasswordHash.from_password(call.words[0], salt=node.random_octets(4)).text


def _start_app(call: Call) -> None:
    if not call.engine.loop.is_listening:
        call.admin.revive()
        call.engine.restart()


def _reset(call: Call) -> None:
    call.engine.reset()
    call.engine.close_ports()


def _rotate(_: Call) -> None:
    raise Stopped(UNAVAILABLE, "Error:\nThis command does not rotate logs anymore [deprecated]")


def _set_level(call: Call) -> None:
    if call.words[0] not in _LEVELS:
        text = f"level {call.words[0]} is not supported. Try one of {', '.join(_LEVELS)}"
        raise Stopped(UNAVAILABLE, f"Error:\n{text}")


_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")


NODE: Final[Mapping[str, Action]] = {
    "version": _version,
    "server_version": _version,
    "ping": _says("Ping succeeded"),
    "status": _status,
    "cluster_status": _cluster_status,
    "await_startup": nothing,
    "await_online_nodes": nothing,
    "wait": _wait,
    "is_running": _check_running,
    "check_running": _check_running,
    "is_booting": _says(
        f"RabbitMQ on node {NODE_NAME} is fully booted (check with is_running), stopped or has not started booting yet"
    ),
    "check_local_alarms": _says(f"Node {NODE_NAME} reported no local alarms"),
    "check_alarms": _check_alarms,
    "alarms": _alarms,
    "check_port_connectivity": _connectivity,
    "check_port_listener": partial(_check_listener, what="port", found="that use the following ports", head=""),
    "check_protocol_listener": partial(
        _check_listener, what="protocol", found="for the following protocols", head="Error:\n"
    ),
    "check_virtual_hosts": _says(f"Node {NODE_NAME} reported all vhosts as running"),
    "check_if_node_is_quorum_critical": _says(
        f"Node {NODE_NAME} seems to be the only one in a single node cluster, the check does not apply"
    ),
    "check_if_any_deprecated_features_are_used": _says("Cluster reported no deprecated features in use"),
    "node_health_check": nothing,
    "listeners": lambda call: "\n".join(_listener_texts(call, "Interface")),
    "set_vm_memory_high_watermark": _watermark,
    "set_disk_free_limit": _disk_limit,
    "list_feature_flags": _flags,
    "enable_feature_flag": _enable_flag,
    "list_deprecated_features": lambda call: sorted(
        constant(call.engine.compat.version)["deprecated_features"], key=itemgetter("name")
    ),
    "force_gc": nothing,
    "rotate_logs": _rotate,
    "set_log_level": _set_level,
    "import_definitions": _import,
    "export_definitions": _export,
    "hash_password": _hash,
    "suspend_listeners": lambda call: call.engine.close_ports(),
    "resume_listeners": lambda call: call.engine.reopen_ports(),
    "stop_app": lambda call: call.admin.drain(),
    "start_app": _start_app,
    "reset": _reset,
}
