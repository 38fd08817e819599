"""The endpoints about the broker as a whole: overview, nodes, names, feature flags."""

from __future__ import annotations

import os
import platform
import sys
import threading
from contextlib import suppress
from shutil import disk_usage
from typing import Final

from leveret.core.compat import BEFORE_4_2, CERTIFICATE_LOGINS, EXTERNAL, SINCE_3_13, SINCE_4, SINCE_4_2
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.vhost import VirtualHost
from leveret.http.management import statistics
from leveret.http.management.calls import ManagementCall, bad_request, no_object, not_authorised
from leveret.http.management.constant import constant
from leveret.http.management.endpoints.health import listeners
from leveret.http.management.endpoints.vhosts import lengths
from leveret.http.management.listing import Described
from leveret.http.management.routes import describes, endpoint, lists
from leveret.observe.texts.state import connections as clients

_RETENTION: Final = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}
_COUNTED: Final = (statistics.PUBLISHING, statistics.DELIVERING)


@describes("/api/overview", "management")
def get_overview(call: ManagementCall) -> Described:
    """Describe the broker: its version, what it holds, and what has happened."""
    is_short = call.flag("disable_stats")
    overview: Described = {
        **call.compat.overview,
        "management_version": call.compat.product_version,
        "rates_mode": "basic",
        "sample_retention_policies": _RETENTION,
        "exchange_types": exchange_types(call),
        "product_version": call.compat.product_version,
        "product_name": "RabbitMQ",
        "rabbitmq_version": call.compat.product_version,
        "cluster_name": call.node.cluster_name,
        **_runtime(call),
        "disable_stats": is_short,
        "enable_queue_totals": is_short and call.flag("enable_queue_totals"),
    }
    if call.is_monitor:
        overview["node"] = NODE_NAME
    if not is_short:
        overview |= _totals(call, list(call.vhosts()))
        if call.is_monitor:
            overview |= {"listeners": _listeners(call), "contexts": _contexts(call)}
    return overview


def _runtime(call: ManagementCall) -> Described:
    """Return what runs the broker, under the names of what runs RabbitMQ."""
    versions: Described = {
        "erlang_version": "",
        "erlang_full_version": f"leveret on {platform.python_implementation()} {platform.python_version()}",
    }
    return {**versions, "crypto_lib_version": ""} if call.compat.names_crypto else versions


def exchange_types(call: ManagementCall) -> list[Described]:
    """Return the exchange types of the version, sorted by name."""
    return [
        {"name": name, "description": text, "enabled": True}
        for name, text in constant("exchange_types").items()
        if name not in call.compat.missing_exchange_types
    ]


def _totals(call: ManagementCall, vhosts: list[VirtualHost]) -> Described:
    node, counted = call.node, call.state.statistics
    broker, now = counted.of(*statistics.BROKER), node.now
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    connections = [it for it in clients(node) if call.is_monitor or it.user == call.user.name]
    counts = broker if call.is_monitor else statistics.together(counted.of("vhost", vhost.name) for vhost in vhosts)
    messages = statistics.message_stats(counts, now, *_COUNTED).get("message_stats", {})
    assert isinstance(messages, dict)
    consumer_count = sum(len(queue.consumers) for queue in queues)
    return {
        "churn_rates": statistics.shown(broker, statistics.CHURN, now),
        "statistics_db_event_queue": 0,
        "object_totals": {
            "connections": len(connections),
            "channels": sum(it.channel_count for it in connections),
            "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
            "queues": len(queues),
            **({"consumers": consumer_count} if call.is_monitor or consumer_count else {}),
        },
        "message_stats": messages
        | (statistics.shown({}, ("disk_reads", "disk_writes"), now) if call.is_monitor else {}),
        "queue_totals": statistics.rates(counts, lengths(queues), now) if call.is_monitor or queues else {},
    }


def _listeners(call: ManagementCall) -> list[Described]:
    host = call.engine.addresses[0][0] if call.engine.addresses else ""
    return [
        {
            "node": NODE_NAME,
            "protocol": protocol,
            "ip_address": host,
            "port": port,
            "socket_opts": {"nodelay": True},
            "tls": protocol.endswith("/ssl"),
        }
        for protocol, port in listeners(call)
    ]


def _contexts(call: ManagementCall) -> list[Described]:
    port = call.engine.management_port
    if port is None:
        return []
    host = call.engine.addresses[0][0] if call.engine.addresses else ""
    described = {"node": NODE_NAME, "description": "RabbitMQ Management", "path": "/"}
    return [{**described, "ip": host, "port": str(port)}]


@lists("/api/nodes", "monitoring", ("name",), one=("/api/nodes/{node}", "monitoring"))
def list_nodes(call: ManagementCall) -> list[Described]:
    """List the only node."""
    return [_node(call)] if call.asks_for("node", NODE_NAME) else []


def _node(call: ManagementCall) -> Described:
    node = call.node
    counts, now = call.state.statistics.of(*statistics.BROKER), node.now
    gauges: Described = {
        "mem_used": resident_bytes(),
        "fd_used": open_files(),
        "sockets_used": len(node.connections),
        "proc_used": threading.active_count(),
        "disk_free": disk_free(),
        **constant("node_gauges"),
    }
    description: Described = {
        **constant("node"),
        "name": NODE_NAME,
        "being_drained": not call.engine.loop.is_listening,
        "os_pid": str(os.getpid()),
        "mem_limit": memory_bytes(),
        "mem_alarm": "memory" in node.alarms,
        "disk_free_alarm": "disk" in node.alarms,
        "fd_total": files_max(),
        "sockets_total": files_max(),
        "proc_total": sys.maxsize,
        "uptime": (node.wall_now - call.state.started_at) // 1000,
        "processors": os.cpu_count() or 1,
        "exchange_types": exchange_types(call),
        "auth_mechanisms": [
            {"name": name, "description": "", "enabled": name in node.settings.auth_mechanisms}
            for name in node.compat.mechanisms
            if name != EXTERNAL or CERTIFICATE_LOGINS in call.engine.plugins
        ],
        "contexts": _contexts(call),
        "enabled_plugins": ["rabbitmq_management", *sorted(call.engine.plugins)],
        **({"rabbitmq_version": call.compat.product_version, **_runtime(call)} if call.compat.names_crypto else {}),
        **statistics.rates({}, gauges, now),
        **statistics.shown(counts, statistics.CHURN, now),
    }
    return call.visible(description)


def resident_bytes() -> int:
    """Return the memory of the process, of which the broker is a part; 0 if the system does not say."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def memory_bytes() -> int:
    """Return the memory of the machine; 0 if the system does not say."""
    with suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def open_files() -> int:
    """Return how many files the process has open; 0 if the system does not say."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return 0


def files_max() -> int:
    """Return how many files the process may open; 0 if the system does not say."""
    with suppress(ImportError):
        from resource import RLIMIT_NOFILE, getrlimit

        return getrlimit(RLIMIT_NOFILE)[0]
    return 0


def disk_free() -> int:
    """Return the free bytes of the disk that the process works on."""
    return disk_usage(os.curdir).free


@endpoint("GET", "/api/version", "anyone", SINCE_4)
def get_version(call: ManagementCall) -> object:
    """Return the version of RabbitMQ that the broker behaves as."""
    return call.compat.product_version


@describes("/api/cluster-name", "management")
def get_cluster_name(call: ManagementCall) -> Described:
    """Return the name of the cluster."""
    return {"name": call.node.cluster_name}


@endpoint("PUT", "/api/cluster-name", "administrator")
def put_cluster_name(call: ManagementCall) -> None:
    """Rename the cluster."""
    name = call.body("name").text("name")
    with call.acting() as node:
        node.global_parameters["cluster_name"] = name


@lists("/api/extensions", "management", ())
def list_extensions(call: ManagementCall) -> list[Described]:
    """List the extensions of the management page."""
    return [{"javascript": "dispatcher.js"}]


@lists("/api/feature-flags", "management", ())
def list_feature_flags(call: ManagementCall) -> list[Described]:
    """List the feature flags, all of which are enabled."""
    if call.compat.hides_feature_flags and not call.is_administrator:
        raise not_authorised("Not administrator user")
    return list(constant(call.compat.version)["feature_flags"])


@endpoint("PUT", "/api/feature-flags/{name}/enable", "administrator", needs_json=True)
def enable_feature_flag(call: ManagementCall) -> None:
    """Enable a feature flag. All are."""
    if call.values["name"] not in [flag["name"] for flag in constant(call.compat.version)["feature_flags"]]:
        raise bad_request("unsupported")


@endpoint("GET", "/api/deprecated-features", "management", SINCE_3_13)
def list_deprecated_features(call: ManagementCall) -> object:
    """List the deprecated features, and whether the broker permits them."""
    return constant(call.compat.version)["deprecated_features"]


@endpoint("GET", "/api/deprecated-features/used", "management", SINCE_3_13)
def nothing(call: ManagementCall) -> object:
    """List nothing: leveret has no part that this would list."""
    return []


@endpoint("POST", "/api/rebalance/queues", "administrator")
@endpoint("DELETE", "/api/reset", "administrator")
def done(call: ManagementCall) -> None:
    """Do nothing: in a single node there is nothing to do."""


@endpoint("GET", "/api/auth", "anyone", BEFORE_4_2)
def get_auth(call: ManagementCall) -> object:
    """Describe how the management page logs in."""
    return call.compat.auth_answer


@endpoint("GET", "/api/auth/attempts/{node}", "monitoring")
def list_attempts(call: ManagementCall) -> object:
    """Return no counts of logins: leveret does not count them."""
    done_on_node(call)
    return []


@endpoint("DELETE", "/api/auth/attempts/{node}", "monitoring", BEFORE_4_2)
@endpoint("DELETE", "/api/auth/attempts/{node}", "administrator", SINCE_4_2)
@endpoint("DELETE", "/api/reset/{node}", "administrator")
def done_on_node(call: ManagementCall) -> None:
    """Do nothing, if the node exists."""
    if call.values["node"] != NODE_NAME:
        raise no_object()
