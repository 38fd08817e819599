"""What each command of rabbitmqctl and rabbitmq-diagnostics does or lists, by its name.

A row calls `admin`, or reads what the management API shows. It returns what the formatter prints, and raises Stopped
where RabbitMQ's command ends with another exit code than 0. Texts and codes are those of RabbitMQ 4.3.6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from operator import itemgetter
from typing import Any, Final

from leveret.admin.admin import Admin, set_policy
from leveret.admin.definitions_export import (
    described_exchange,
    described_metadata,
    described_parameters,
    described_permissions,
    described_topic_permissions,
)
from leveret.admin.definitions_import import policy_of
from leveret.admin.values import Item, WrongValue
from leveret.core.model.node import Node
from leveret.core.model.operators.access import RIGHTS, USER_LIMITS, VHOST_LIMITS, User
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.operators.passwords import PasswordHash
from leveret.core.model.operators.patterns import name_pattern
from leveret.core.model.operators.policy import PolicyInvalid
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.channel import Channel
from leveret.core.wire import erlang
from leveret.engine.engine import Engine
from leveret.http.management.calls import ManagementCall, ManagementState
from leveret.http.management.constant import constant
from leveret.http.management.endpoints import bindings, connections, consumers, health, overview, queues
from leveret.http.messages import Request
from leveret.http.rabbitmqctl.line import DATA, NO_USER, SOFTWARE, UNAVAILABLE, USAGE, Line, Stopped, size_of
from leveret.http.rabbitmqctl.printing import Result, Row
from leveret.observe.texts.state import connections as clients

_OPERATOR: Final = User("rmq-cli", tags=("administrator",))
# What only classic queues have; the others print nothing there.
_OF_CLASSIC: Final = (
    *("exclusive", "message_bytes", "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram"),
    *("message_bytes_persistent", "messages_ram", "messages_persistent", "consumer_utilisation", "consumer_capacity"),
)


class Call:
    """One command line on a broker."""

    def __init__(self, engine: Engine, line: Line, files: MutableMapping[str, bytes]) -> None:
        """`files` are those beside the broker, by path."""
        self.engine, self.line, self.files = engine, line, files
        self.words, self.vhost_name = line.arguments, line.vhost
        self.admin: Final = Admin(engine)
        # What clients had sent before counts.
        engine.sync()

    def management(self, **values: str) -> ManagementCall:
        """Return a call of the management API by an administrator."""
        return ManagementCall(ManagementState(self.engine), Request("GET", "/"), _OPERATOR, values)

    @property
    def node(self) -> Node:
        """The node. What goes through it holds the broker's lock, as all commands that list do."""
        return self.engine.node

    def vhost(self, code: int = DATA, text: str = "Virtual host '{}' does not exist", name: str | None = None) -> str:
        """Return the name of a virtual host, by default that of the line. Raises Stopped if it does not exist."""
        wanted = self.vhost_name if name is None else name
        if wanted not in self.node.vhosts:
            raise Stopped(code, text.format(wanted))
        return wanted

    def user(self, code: int = NO_USER, text: str = 'Error:\nUser "{}" does not exist') -> str:
        """Return the user that the first word names. Raises Stopped if it does not exist."""
        if self.words[0] not in self.node.access.users:
            raise Stopped(code, text.format(self.words[0]))
        return self.words[0]

    def mapping(self, text: str) -> Any:
        """Return the value of a JSON text. Raises Stopped."""
        try:
            return json.loads(text)
        except ValueError:
            head, term = "Could not parse JSON document: {error,", f'{{failed_to_decode_json,<<"{text}">>}}'
            # Erlang begins a line for what would be too long.
            gap = "" if len(head) + len(term) < erlang.LINE_WIDTH else "\n" + " " * 35
            raise Stopped(UNAVAILABLE, f"Error:\n{head}{gap}{term}}}") from None

    def limits(self, text: str, known: tuple[str, ...], what: str, head: str = "") -> dict[str, int]:
        """Return the limits of a JSON text. Raises Stopped, with RabbitMQ's reason."""
        value = self.mapping(text)
        if not isinstance(value, dict):
            raise Stopped(UNAVAILABLE, f"Error:\n{head}{what} not a list {text}{head[-1:]}")
        try:
            return Item({"value": value}).limits("value", known, what)
        except WrongValue as error:
            raise Stopped(UNAVAILABLE, f"Error:\n{head}{error.reason}{head[-1:]}") from None


_Action = Callable[[Call], Result]
_NO_SUCH_USER: Final = (UNAVAILABLE, 'Error:\n{{:no_such_user, "{}"}}')
_NO_SUCH_VHOST: Final = (UNAVAILABLE, "Error:\nVirtual host {} does not exist")
_NO_GRANTEE: Final = (NO_USER, "Error:\nUser {} does not exist")
_INVALID: Final = "Validation failed\n\n"


def _vhost_rows(call: Call) -> Iterator[Row]:
    for vhost in call.node.vhosts.values():
        shown = {"name": vhost.name, "tracing": vhost.firehose is not None, **described_metadata(vhost)}
        shown |= {"tags": sorted(vhost.tags), "protected_from_deletion": bool(vhost.is_protected)}
        yield {**shown, "cluster_state": {NODE_NAME: "running"}, "metadata": described_metadata(vhost)}


def _add_vhost(call: Call) -> None:
    switches = call.line.switches
    kind = switches.get("--default-queue-type", "classic")
    tags, description = _comma_separated(switches.get("--tags", "")), switches.get("--description", "")
    call.admin.add_vhost(call.words[0], default_queue_type=kind, description=description, tags=tags)


def _comma_separated(text: str) -> list[str]:
    return [tag.strip() for tag in text.split(",") if tag.strip()]


def _update_vhost(call: Call) -> None:
    name, switches = call.vhost(name=call.words[0]), call.line.switches
    tags = _comma_separated(switches["--tags"]) if "--tags" in switches else None
    call.admin.update_vhost_metadata(
        name,
        default_queue_type=switches.get("--default-queue-type"),
        description=switches.get("--description"),
        tags=tags,
    )
    if "--protected-from-deletion" in switches:
        _protect(call, is_protected=call.line.has("--protected-from-deletion"))


def _protect(call: Call, *, is_protected: bool) -> None:
    call.node.vhosts[call.vhost(name=call.words[0])].is_protected = is_protected


def _delete_vhost(call: Call) -> None:
    name = call.vhost(name=call.words[0])
    if call.node.vhosts[name].is_protected:
        text = "it is protected from deletion. To lift the protection, inspect and update its metadata"
        raise Stopped(DATA, f"Error:\nCannot delete this virtual host: {text}")
    call.admin.delete_vhost(name)


def _trace(call: Call, *, is_on: bool) -> str:
    if call.vhost_name in call.node.vhosts:
        (call.admin.trace_on if is_on else call.admin.trace_off)(call.vhost_name)
    return f"Trace {'enabled' if is_on else 'disabled'} for vhost {call.vhost_name}"


def _set_vhost_limits(call: Call) -> None:
    name = call.vhost()
    call.admin.set_vhost_limits(name, call.limits(call.words[0], VHOST_LIMITS, "limits", _INVALID))


def _list_vhost_limits(call: Call) -> Result:
    if call.line.has("--global"):
        limited = [vhost for vhost in call.node.vhosts.values() if vhost.limits]
        return [{"vhost": vhost.name, "limits": _compact(vhost.limits)} for vhost in limited] or ""
    limits = call.node.vhosts[call.vhost()].limits
    return _compact(limits) if limits else ""


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _clear_vhost_limits(call: Call) -> None:
    vhost = call.node.vhosts.get(call.vhost_name)
    if vhost is None or not vhost.limits:
        raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")
    call.admin.clear_vhost_limits(vhost.name)


def _add_user(call: Call) -> str | None:
    name, *password = call.words
    if not password:
        raise Stopped(DATA, "Error:\nPassword is not provided via argument or stdin", "Password: \n")
    if name in call.node.access.users:
        raise Stopped(SOFTWARE, f'Error:\nUser "{name}" already exists')
    call.admin.add_user(name, password[0])
    if call.line.has("--quiet", "--silent"):
        return None
    hint = "See 'rabbitmqctl help set_permissions' to learn more."
    return f"Done. Don't forget to grant the user permissions to some virtual hosts! {hint}"


def _delete_user(call: Call) -> None:
    if call.words[0] in call.node.access.users:
        call.admin.delete_user(call.words[0])


def _authenticate(call: Call) -> str:
    name, password = call.words
    text = "- invalid credentials" if password else _BLANK
    if not password or call.node.access.authenticate(name, password) is None:
        raise Stopped(DATA, f"Error:\nError: failed to authenticate user \"{name}\"\nuser '{name}' {text}")
    return "Success"


_BLANK: Final = (
    "attempted to log in with a blank password, which is prohibited by the internal authN backend. To use TLS/x509 "
    "certificate-based authentication, see the rabbitmq_auth_mechanism_ssl plugin and configure the client to use the "
    "EXTERNAL authentication mechanism. Alternatively change the password for the user to be non-blank."
)


def _set_user_limits(call: Call) -> None:
    limits = call.limits(call.words[1], USER_LIMITS, "user-limits")
    call.admin.set_user_limits(call.user(*_NO_SUCH_USER), limits)


def _list_user_limits(call: Call) -> Result:
    users, name = call.node.access.users, call.line.switches.get("--user", "guest")
    if call.line.has("--global"):
        return [{"user": it.name, "limits": _compact(it.limits)} for it in users.values() if it.limits] or ""
    if name not in users:
        raise Stopped(_NO_SUCH_USER[0], _NO_SUCH_USER[1].format(name))
    return _compact(users[name].limits)


def _set_permissions(call: Call) -> None:
    _grant(call, [call.vhost(*_NO_SUCH_VHOST)])


def _grant(call: Call, vhosts: Iterable[str]) -> None:
    _, configure, write, read = call.words
    user = call.user(*_NO_GRANTEE)
    for right in (configure, write, read):
        try:
            name_pattern(right, is_pcre2=call.engine.compat.has_pcre2)
        except re.error as error:
            fault = f'{{:invalid_regexp, ~c"{right}", {{~c"{error.msg}", {error.pos}}}}}'
            raise Stopped(UNAVAILABLE, f"Error:\n{fault}") from None
    for vhost in vhosts:
        call.admin.set_permissions(user, vhost, configure=configure, write=write, read=read)


def _permissions(rows: Callable[[Node], Iterator[Mapping[str, object]]], *columns: str, of_user: bool) -> _Action:
    """Return the action that lists the permissions of a user, or in a virtual host."""

    def act(call: Call) -> Result:
        key, name = ("user", call.user(*_NO_SUCH_USER)) if of_user else ("vhost", call.vhost())
        return [{column: row[column] for column in columns} for row in rows(call.node) if row[key] == name]

    return act


def _clear_permissions(call: Call, *, are_of_topics: bool) -> None:
    user, vhost = call.words[0], call.vhost_name
    if user in call.node.access.users and vhost in call.node.vhosts:
        if are_of_topics:
            call.admin.clear_topic_permissions(user, vhost, *call.words[1:])
        else:
            call.admin.clear_permissions(user, vhost)


def _set_topic_permissions(call: Call) -> None:
    _, exchange, write, read = call.words
    vhost = call.vhost(*_NO_SUCH_VHOST)
    call.admin.set_topic_permissions(call.user(*_NO_GRANTEE), vhost, exchange, write=write, read=read)


def _policies(call: Call, *, are_operators: bool) -> list[Row]:
    policies = call.node.vhosts[call.vhost()].policies
    return [
        {"vhost": call.vhost_name, "name": it.name, **it.described(), "definition": _compact(it.definition)}
        for it in (policies.operator if are_operators else policies.user).by_name.values()
    ]


def _set_policy(call: Call, *, are_operators: bool) -> None:
    name, pattern, text = call.words
    vhost, switches = call.vhost(), call.line.switches
    value = {
        "pattern": pattern,
        "definition": call.mapping(text),
        "priority": int(switches.get("--priority", 0)),
        "apply-to": switches.get("--apply-to", "all"),
    }
    try:
        with call.engine.acting() as node:
            set_policy(node, vhost, policy_of(name, Item(value)), is_operator=are_operators)
    except PolicyInvalid as error:
        raise Stopped(UNAVAILABLE, f"Error:\n{_INVALID}{error}\n") from None


def _clear_policy(call: Call, *, are_operators: bool) -> None:
    vhost = call.node.vhosts.get(call.vhost_name)
    known = () if vhost is None else (vhost.policies.operator if are_operators else vhost.policies.user).by_name
    if call.words[0] not in known:
        raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")
    clear = call.admin.clear_operator_policy if are_operators else call.admin.clear_policy
    clear(call.words[0], vhost=call.vhost_name)


def _parameter_rows(call: Call) -> list[Row]:
    vhost = call.node.vhosts[call.vhost()]
    return [
        {"component": row["component"], "name": row["name"], "value": _compact(row["value"])}
        for row in described_parameters(vhost)
    ]


def _set_parameter(call: Call) -> None:
    component = call.words[0]
    call.vhost()
    if component == "policy":
        raise Stopped(UNAVAILABLE, "Error:\npolicies may not be set using this method")
    raise Stopped(UNAVAILABLE, f"Error:\n{_INVALID}component {component} not found\n")


def _clear_parameter(call: Call) -> None:
    call.vhost()
    raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")


def _clear_global(call: Call) -> None:
    if call.words[0] not in call.node.global_parameters:
        raise Stopped(UNAVAILABLE, "Error:\nParameter does not exist")
    with call.engine.acting() as node:
        del node.global_parameters[call.words[0]]


def _set_global(call: Call) -> None:
    value = call.mapping(call.words[1])
    with call.engine.acting() as node:
        node.set_global_parameter(call.words[0], value)


def _pid(*numbers: int | None) -> str:
    return f"<{NODE_NAME}.{'.'.join(map(str, numbers))}>"


def _of_vhost(rows: Callable[[Call, VirtualHost], Iterable[Row]]) -> _Action:
    """Return what lists rows of the line's virtual host. One that does not exist has none."""

    def listed(call: Call) -> list[Row]:
        vhost = call.node.vhosts.get(call.vhost_name)
        return [] if vhost is None else list(rows(call, vhost))

    return listed


def _queue_rows(call: Call, vhost: VirtualHost) -> Iterator[Row]:
    if call.line.has("--offline"):
        return
    shown = queues.list_in_detail(call.management(vhost=vhost.name))
    for number, (row, queue) in enumerate(zip(shown, vhost.queues.values(), strict=True)):
        owner = queue.exclusive_owner
        is_classic = queue.type_name == "classic"
        yield {
            **{name: value for name, value in row.items() if is_classic or name not in _OF_CLASSIC},
            "arguments": queue.arguments,
            "pid": None if queue.type_name == "stream" else _pid(500 + number, 0, 0),
            "owner_pid": None if owner is None else _pid(owner.number, 0, 0),
            "leader": NODE_NAME,
            "members": [NODE_NAME],
            "online": None if is_classic else [NODE_NAME],
        }


def _exchange_rows(call: Call, vhost: VirtualHost) -> Iterator[Row]:
    for exchange in vhost.exchanges.values():
        policy, _ = vhost.policies.for_exchange(exchange.name)
        declared = described_exchange(vhost, exchange)
        yield {**declared, "arguments": exchange.arguments, "policy": None if policy is None else policy.name}


def _binding_rows(_: Call, vhost: VirtualHost) -> Iterator[Row]:
    for row in bindings.rows_of(vhost):
        yield {
            "source_name": row.source,
            "source_kind": "exchange",
            "destination_name": row.destination,
            "destination_kind": row.kind,
            "routing_key": row.routing_key,
            "arguments": row.arguments,
        }


def _consumer_rows(call: Call, vhost: VirtualHost) -> Iterator[Row]:
    shown = consumers.list_consumers(call.management(vhost=vhost.name))
    held = [each for queue in vhost.queues.values() for each in queue.consumers if each.connection_number > 0]
    for row, consumer in zip(shown, held, strict=True):
        channel = consumer.subscriber
        assert isinstance(channel, Channel)
        yield {
            **row,
            "queue_name": consumer.queue.name,
            "channel_pid": _pid(*channel.origin, 0),
            "arguments": consumer.arguments,
        }


def _connection_rows(call: Call) -> Iterator[Row]:
    for row, connection in zip(connections.list_connections(call.management()), clients(call.node), strict=True):
        properties = connection.client_properties
        pid = _pid(connection.number, 0, 0)
        yield {**row, "pid": pid, "protocol": "{0,9,1}", "client_properties": properties}


def _channel_rows(call: Call) -> Iterator[Row]:
    for row in connections.list_channels(call.management()):
        yield {**row, "pid": _pid(0, 0, 0)}


def _purge(call: Call) -> None:
    vhost = call.node.vhosts.get(call.vhost_name)
    if vhost is None or call.words[0] not in vhost.queues:
        raise Stopped(DATA, "Object (queue, stream, exchange, etc) was not found")
    with call.engine.acting():
        if vhost.queues[call.words[0]].type_name == "stream":
            raise Stopped(UNAVAILABLE, "Error:\nnot_supported")
        vhost.queues[call.words[0]].purge()


def _delete_queue(call: Call) -> str:
    vhost, name = call.node.vhosts.get(call.vhost_name), call.words[0]
    if vhost is None or name not in vhost.queues:
        raise Stopped(USAGE, "Error:\nNo such queue was found")
    with call.engine.acting():
        if_unused, if_empty = call.line.has("--if-unused"), call.line.has("--if-empty")
        count = vhost.delete_queue(name, if_unused=if_unused, if_empty=if_empty)
    return f"Queue was successfully deleted with {count} ready messages"


def _close_connection(call: Call) -> None:
    pid, reason = call.words
    for connection in clients(call.node):
        if pid == _pid(connection.number, 0, 0):
            call.admin.close_connection(connection.number, reason)


def _close_all(call: Call) -> str:
    vhost = None if call.line.has("--global") else call.vhost_name
    is_known = vhost is None or vhost in call.node.vhosts
    return f"Closed {call.admin.close_all_connections(call.words[0], vhost=vhost) if is_known else 0} connections"


def _close_of_user(call: Call) -> None:
    if call.words[0] in call.node.access.users:
        call.admin.close_all_user_connections(*call.words)


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
        for name, port in health.listeners(call.management())
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
    """Return that a listener is there, by its protocol or its port. Raises Stopped if none is."""
    names = [str(listener[what == "port"]) for listener in health.listeners(call.management())]
    if call.words[0] in names:
        return f"A listener for {what} {call.words[0]} is running on node {NODE_NAME}."
    text = f"No listener for {what} {call.words[0]} is active on node {NODE_NAME}. Found listeners {found}"
    raise Stopped(UNAVAILABLE, f"{head}{text}: {', '.join(names)}")


def _connectivity(call: Call) -> str:
    ports = [port for _, port in health.listeners(call.management())]
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


def _says(text: str) -> _Action:
    """Return the action that prints a text, because the broker runs, or because there is nothing to do."""
    return lambda _: text


def _nothing(_: Call) -> None:
    pass


def _rotate(_: Call) -> None:
    raise Stopped(UNAVAILABLE, "Error:\nThis command does not rotate logs anymore [deprecated]")


def _set_level(call: Call) -> None:
    if call.words[0] not in _LEVELS:
        text = f"level {call.words[0]} is not supported. Try one of {', '.join(_LEVELS)}"
        raise Stopped(UNAVAILABLE, f"Error:\n{text}")


_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")


def _set_tags(call: Call) -> None:
    call.admin.set_user_tags(call.user(), *call.words[1:])


def _set_vhost_tags(call: Call) -> None:
    name, *tags = call.words
    call.admin.update_vhost_metadata(call.vhost(DATA, 'Error:\nVirtual host "{}" does not exist', name), tags=tags)


TABLE: Final[Mapping[str, _Action]] = {
    # Virtual hosts.
    "list_vhosts": lambda call: list(_vhost_rows(call)),
    "add_vhost": _add_vhost,
    "update_vhost_metadata": _update_vhost,
    "set_vhost_tags": _set_vhost_tags,
    "enable_vhost_deletion_protection": partial(_protect, is_protected=True),
    "disable_vhost_deletion_protection": partial(_protect, is_protected=False),
    "delete_vhost": _delete_vhost,
    "trace_on": partial(_trace, is_on=True),
    "trace_off": partial(_trace, is_on=False),
    "set_vhost_limits": _set_vhost_limits,
    "list_vhost_limits": _list_vhost_limits,
    "clear_vhost_limits": _clear_vhost_limits,
    "restart_vhost": lambda call: f"Vhost '{call.vhost()}' is already running on node '{NODE_NAME}'",
    "reconcile_vhosts": _nothing,
    # Users and permissions.
    "list_users": lambda call: [{"user": it.name, "tags": list(it.tags)} for it in call.node.access.users.values()],
    "add_user": _add_user,
    "delete_user": _delete_user,
    "change_password": lambda call: call.admin.change_password(call.user(), call.words[1]),
    "clear_password": lambda call: call.admin.clear_password(call.user(*_NO_SUCH_USER)),
    "authenticate_user": _authenticate,
    "set_user_tags": _set_tags,
    "set_user_limits": _set_user_limits,
    "list_user_limits": _list_user_limits,
    "clear_user_limits": lambda call: call.admin.clear_user_limits(call.user(*_NO_SUCH_USER), call.words[1]),
    "set_permissions": _set_permissions,
    "set_permissions_globally": lambda call: _grant(call, list(call.node.vhosts)),
    "clear_permissions": partial(_clear_permissions, are_of_topics=False),
    "list_permissions": _permissions(described_permissions, "user", *RIGHTS, of_user=False),
    "list_user_permissions": _permissions(described_permissions, "vhost", *RIGHTS, of_user=True),
    "set_topic_permissions": _set_topic_permissions,
    "clear_topic_permissions": partial(_clear_permissions, are_of_topics=True),
    "list_topic_permissions": _permissions(
        described_topic_permissions, "user", "exchange", "write", "read", of_user=False
    ),
    "list_user_topic_permissions": _permissions(
        described_topic_permissions, "vhost", "exchange", "write", "read", of_user=True
    ),
    # Policies and parameters.
    "set_policy": partial(_set_policy, are_operators=False),
    "clear_policy": partial(_clear_policy, are_operators=False),
    "list_policies": partial(_policies, are_operators=False),
    "set_operator_policy": partial(_set_policy, are_operators=True),
    "clear_operator_policy": partial(_clear_policy, are_operators=True),
    "list_operator_policies": partial(_policies, are_operators=True),
    "set_parameter": _set_parameter,
    "clear_parameter": _clear_parameter,
    "list_parameters": _parameter_rows,
    "set_global_parameter": _set_global,
    "clear_global_parameter": _clear_global,
    "list_global_parameters": lambda call: [
        {"name": name, "value": _compact(value)} for name, value in call.node.global_parameters.items()
    ],
    "set_cluster_name": lambda call: call.node.set_global_parameter("cluster_name", call.words[0]),
    # Queues, exchanges and clients.
    "list_queues": _of_vhost(_queue_rows),
    "list_unresponsive_queues": lambda _: [],
    "list_exchanges": _of_vhost(_exchange_rows),
    "list_bindings": _of_vhost(_binding_rows),
    "list_consumers": _of_vhost(_consumer_rows),
    "list_connections": lambda call: list(_connection_rows(call)),
    "list_channels": lambda call: list(_channel_rows(call)),
    "purge_queue": _purge,
    "delete_queue": _delete_queue,
    "close_connection": _close_connection,
    "close_all_connections": _close_all,
    "close_all_user_connections": _close_of_user,
    # The node.
    "version": _version,
    "server_version": _version,
    "ping": _says("Ping succeeded"),
    "status": _status,
    "cluster_status": _cluster_status,
    "await_startup": _nothing,
    "await_online_nodes": _nothing,
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
    "node_health_check": _nothing,
    "listeners": lambda call: "\n".join(_listener_texts(call, "Interface")),
    "set_vm_memory_high_watermark": _watermark,
    "set_disk_free_limit": _disk_limit,
    "list_feature_flags": _flags,
    "enable_feature_flag": _enable_flag,
    "list_deprecated_features": lambda call: sorted(
        constant(call.engine.compat.version)["deprecated_features"], key=itemgetter("name")
    ),
    "force_gc": _nothing,
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
