"""The health checks: 200 if all is well, 503 and a reason if not.

The answers of checks that fail follow RabbitMQ's modules rabbit_mgmt_wm_health_check_*.
"""

from __future__ import annotations

import re
from typing import Final

from leveret.core.compat import BEFORE_4, SINCE_4_2
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.http.management.calls import ManagementCall, bad_request, no_object
from leveret.http.management.endpoints.messages import named
from leveret.http.management.routes import endpoint
from leveret.http.messages import Response

_CHECKS: Final = "/api/health/checks"
_LEADERS: Final = f"{_CHECKS}/quorum-queues-without-elected-leaders"
_OK: Final = {"status": "ok"}
_UNITS: Final = ("days", "weeks", "months", "years")
# The queue with which RabbitMQ checks a virtual host.
_PROBE: Final = "aliveness-test"
_LIMIT_REACHED: Final = "node connection limit is reached"
_SINGLE: Final = {"status": "ok", "reason": "single node cluster"}
# What the names of protocols in paths stand for. Others stand for themselves.
_PROTOCOLS: Final = {"amqp091": "amqp", "amqp10": "amqp", "amqps": "amqp/ssl", "https": "https"}


def _failed(reason: str, **details: object) -> Response:
    return Response.of_json({"status": "failed", "reason": reason, **details}, 503)


@endpoint("GET", f"{_CHECKS}/virtual-hosts", "management")
@endpoint("GET", f"{_CHECKS}/metadata-store/initialized", "management", SINCE_4_2)
@endpoint("GET", f"{_CHECKS}/metadata-store/initialized/with-data", "management", SINCE_4_2)
@endpoint("GET", f"{_CHECKS}/reached-target-cluster-size", "anyone", SINCE_4_2)
@endpoint("GET", f"{_LEADERS}/all-vhosts", "management", SINCE_4_2)
@endpoint("GET", f"{_LEADERS}/all-vhosts/pattern/{{pattern}}", "management", SINCE_4_2)
@endpoint("GET", f"{_LEADERS}/vhost/{{vhost}}", "visible", SINCE_4_2)
@endpoint("GET", f"{_LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}", "visible", SINCE_4_2)
def fine(call: ManagementCall) -> object:
    """Answer that all is well: nothing that the check looks for can fail in a single node."""
    return _OK


@endpoint("GET", f"{_CHECKS}/node-is-mirror-sync-critical", "management", BEFORE_4)
@endpoint("GET", f"{_CHECKS}/node-is-quorum-critical", "management")
def single(call: ManagementCall) -> object:
    """Answer that a single node is never critical for others."""
    return _SINGLE


@endpoint("GET", f"{_CHECKS}/alarms", "management")
def alarms(call: ManagementCall) -> object:
    """Check that no alarm is on."""
    return _alarms(call, "There are alarms in effect in the cluster")


@endpoint("GET", f"{_CHECKS}/local-alarms", "management")
def local_alarms(call: ManagementCall) -> object:
    """Check that no alarm is on at the node."""
    return _alarms(call, "There are alarms in effect on the node")


def _alarms(call: ManagementCall, reason: str) -> object:
    with call.engine.looking() as node:
        alarms_on = [{"node": NODE_NAME, "resource": resource} for resource in node.alarms]
    return _failed(reason, alarms=alarms_on) if alarms_on else _OK


@endpoint("GET", f"{_CHECKS}/port-listener/{{port}}", "management")
def port(call: ManagementCall) -> object:
    """Check that the broker listens on a port."""
    try:
        wanted = int(call.values["port"])
    except ValueError:
        raise bad_request("Invalid port") from None
    ports = [number for _, number in listeners(call)]
    if wanted in ports:
        return {**_OK, "port": wanted}
    return _failed("No active listener", missing=wanted, ports=ports)


@endpoint("GET", f"{_CHECKS}/protocol-listener/{{protocol}}", "management")
def protocol(call: ManagementCall) -> object:
    """Check that the broker listens for a protocol, or for each of several with commas between them."""
    is_list, text = call.compat.lists_protocols, call.values["protocol"].lower()
    known = [name for name, _ in listeners(call)]
    names = [_PROTOCOLS.get(name, name) for name in (text.split(",") if is_list else [text])]
    missing = sorted(name for name in dict.fromkeys(names) if name not in known)
    if not missing:
        return _OK | ({"protocols": known} if is_list else {"protocol": names[0]})
    return _failed("No active listener", missing=missing if is_list else names[0], protocols=known)


def listeners(call: ManagementCall) -> list[tuple[str, int]]:
    """Return the protocols and ports of the broker."""
    engine = call.engine
    ports = [address[1] for address in engine.addresses]
    open_ports = list(zip(("amqp", "amqp/ssl"), ports, strict=False)) if engine.loop.is_listening else []
    management = engine.management_port
    return open_ports if management is None else [*open_ports, ("http", management)]


@endpoint("GET", f"{_CHECKS}/certificate-expiration/{{within}}/{{unit}}", "management")
def certificates(call: ManagementCall) -> object:
    """Check that no certificate expires within a time. A test's certificates are made when it starts."""
    if not re.fullmatch(r"\d+", call.values["within"]):
        raise bad_request("Invalid expiration value.")
    if call.values["unit"] not in _UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    return _OK


@endpoint("GET", f"{_CHECKS}/is-in-service", "anyone", SINCE_4_2)
def in_service(call: ManagementCall) -> object:
    """Check that the broker is not in maintenance mode."""
    if call.engine.loop.is_listening:
        return _OK
    return _failed("this rabbit node is not currently available to serve")


@endpoint("GET", f"{_CHECKS}/below-node-connection-limit", "anyone", SINCE_4_2)
def below_limit(call: ManagementCall) -> object:
    """Check that the node takes another connection."""
    return _below_limit(call, limit=call.node.settings.connection_max)


@endpoint("GET", f"{_CHECKS}/ready-to-serve-clients", "anyone", SINCE_4_2)
def serving(call: ManagementCall) -> object:
    """Check that clients may connect: both of the checks above, and that a port is open for them."""
    if not call.engine.loop.is_listening:
        return _failed("the rabbit node is not currently available to serve")
    return _below_limit(call)


def _below_limit(call: ManagementCall, **details: object) -> object:
    with call.engine.looking() as node:
        count, limit = len(node.connections), node.settings.connection_max
    return _OK if limit is None or count < limit else _failed(_LIMIT_REACHED, **details, connections=count)


@endpoint("GET", "/api/aliveness-test/{vhost}", "vhost")
def aliveness(call: ManagementCall) -> object:
    """Check that a virtual host exists, and that the user may open it."""
    with call.engine.looking(), named(is_get=True):
        rights = call.rights(call.vhost)
        if call.compat.publishes_to_check:
            rights.require("configure", "queue", _PROBE)
            rights.require("write", "exchange", "")
            rights.require("read", "queue", _PROBE)
    return _OK


@endpoint("GET", "/api/healthchecks/node", "management")
@endpoint("GET", "/api/healthchecks/node/{node}", "management")
def node(call: ManagementCall) -> object:
    """Check a node."""
    if call.values.get("node", NODE_NAME) != NODE_NAME:
        raise no_object()
    return _OK
