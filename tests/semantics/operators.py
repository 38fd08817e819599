"""The operator of a scenario: what rabbitmqctl and the management HTTP API do around it.

Method names are rabbitmqctl's. On a server they go through HTTP, on leveret to ``Broker`` methods of the same names.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    from leveret import Broker

Definition = Mapping[str, object]
_AUTHORIZATION = "Basic " + base64.b64encode(b"guest:guest").decode()
_ALARM_ON = {"memory": ("set_vm_memory_high_watermark", "0.0000001"), "disk": ("set_disk_free_limit", "900000GB")}
_ALARM_OFF = {"memory": ("set_vm_memory_high_watermark", "0.6"), "disk": ("set_disk_free_limit", "50MB")}


class Operator(Protocol):
    """The actions that a scenario may ask of an operator."""

    def add_vhost(self, vhost: str, default_queue_type: str = "classic") -> None: ...
    def delete_vhost(self, vhost: str) -> None: ...
    def add_user(self, user: str, password: str, tags: str = "") -> None: ...
    def delete_user(self, user: str) -> None: ...
    def set_permissions(
        self, user: str, vhost: str, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None: ...
    def clear_permissions(self, user: str, vhost: str) -> None: ...
    def set_topic_permissions(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None: ...
    def set_policy(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int = 0, apply_to: str = "all"
    ) -> None: ...
    def set_operator_policy(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int = 0, apply_to: str = "all"
    ) -> None: ...
    def clear_policy(self, vhost: str, name: str) -> None: ...
    def set_vhost_limit(self, vhost: str, name: str, value: int) -> None: ...
    def set_user_limit(self, user: str, name: str, value: int) -> None: ...
    def trace_on(self, vhost: str) -> None: ...
    def close_connections(self, user: str, reason: str) -> None: ...
    def restart(self) -> None: ...
    def drain(self) -> None: ...
    def revive(self) -> None: ...
    def set_alarm(self, resource: str) -> None: ...
    def clear_alarm(self, resource: str) -> None: ...
    def clean_up(self, vhost: str) -> None: ...


class HttpOperator:
    """An operator with the management HTTP API (AMQP port + 10000, guest)."""

    def __init__(self, address: tuple[str, int], user: Callable[[str], str]) -> None:
        self._host, self._port = address[0], address[1] + 10_000
        self._user = user
        self._users: list[str] = []

    def _request(
        self, verb: str, *segments: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> None:
        path = "/api/" + "/".join(quote(segment, safe="") for segment in segments)
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        sent = {"authorization": _AUTHORIZATION, "content-type": "application/json", **(headers or {})}
        connection.request(verb, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300 and not (verb == "DELETE" and answer.status == 404):
            raise RuntimeError(f"{verb} {path}: {answer.status} {text!r}")

    def add_vhost(self, vhost: str, default_queue_type: str = "classic") -> None:
        body = {} if default_queue_type == "classic" else {"default_queue_type": default_queue_type}
        self._request("PUT", "vhosts", vhost, body=body)

    def delete_vhost(self, vhost: str) -> None:
        self._request("DELETE", "vhosts", vhost)

    def add_user(self, user: str, password: str, tags: str = "") -> None:
        self._users.append(self._user(user))
        self._request("PUT", "users", self._user(user), body={"password": password, "tags": tags})

    def delete_user(self, user: str) -> None:
        self._request("DELETE", "users", self._user(user))

    def set_permissions(
        self, user: str, vhost: str, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        body = {"configure": configure, "write": write, "read": read}
        self._request("PUT", "permissions", vhost, self._user(user), body=body)

    def clear_permissions(self, user: str, vhost: str) -> None:
        self._request("DELETE", "permissions", vhost, self._user(user))

    def set_topic_permissions(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        body = {"exchange": exchange, "write": write, "read": read}
        self._request("PUT", "topic-permissions", vhost, self._user(user), body=body)

    def set_policy(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int = 0, apply_to: str = "all"
    ) -> None:
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        self._request("PUT", "policies", vhost, name, body=body)

    def set_operator_policy(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int = 0, apply_to: str = "all"
    ) -> None:
        body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
        self._request("PUT", "operator-policies", vhost, name, body=body)

    def clear_policy(self, vhost: str, name: str) -> None:
        self._request("DELETE", "policies", vhost, name)

    def set_vhost_limit(self, vhost: str, name: str, value: int) -> None:
        self._request("PUT", "vhost-limits", vhost, name, body={"value": value})

    def set_user_limit(self, user: str, name: str, value: int) -> None:
        self._request("PUT", "user-limits", self._user(user), name, body={"value": value})

    def trace_on(self, vhost: str) -> None:
        self._request("PUT", "vhosts", vhost, body={"tracing": True})

    def close_connections(self, user: str, reason: str) -> None:
        self._request("DELETE", "connections", "username", self._user(user), headers={"X-Reason": reason})

    def restart(self) -> None:
        self._ctl("stop_app")
        self._ctl("start_app")

    def drain(self) -> None:
        self._ctl("eval", "rabbit_maintenance:drain().")

    def revive(self) -> None:
        self._ctl("eval", "rabbit_maintenance:revive().")

    def set_alarm(self, resource: str) -> None:
        """Make the node believe that it runs out of memory or disk."""
        self._ctl(*_ALARM_ON[resource])
        self._await_alarms({"memory", "disk"} & {resource})

    def clear_alarm(self, resource: str) -> None:
        self._ctl(*_ALARM_OFF[resource])

    def _await_alarms(self, resources: set[str]) -> None:
        for _ in range(1000):
            if all(resource in self._alarms() for resource in resources):
                return
        raise RuntimeError(f"no alarm of {resources}")

    def _alarms(self) -> str:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        connection.request("GET", "/api/health/checks/alarms", headers={"authorization": _AUTHORIZATION})
        return connection.getresponse().read().decode()

    def _ctl(self, *arguments: str) -> None:
        """Run rabbitmqctl for the test's own node; LEVERET_ORACLE_CTL holds the command."""
        command = [*shlex.split(os.environ["LEVERET_ORACLE_CTL"]), *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def clean_up(self, vhost: str) -> None:
        """Remove everything that the run created."""
        self.delete_vhost(vhost)
        for user in self._users:
            self._request("DELETE", "users", user)


class LeveretOperator:
    """An operator of a broker in this process: the Broker's own methods."""

    def __init__(self, broker: Broker, user: Callable[[str], str]) -> None:
        self._broker = broker
        self._user = user

    def add_vhost(self, vhost: str, default_queue_type: str = "classic") -> None:
        self._broker.admin.add_vhost(vhost, default_queue_type=default_queue_type)

    def delete_vhost(self, vhost: str) -> None:
        self._broker.admin.delete_vhost(vhost)

    def add_user(self, user: str, password: str, tags: str = "") -> None:
        self._broker.admin.add_user(self._user(user), password, tags=tuple(filter(None, tags.split(","))))

    def delete_user(self, user: str) -> None:
        self._broker.admin.delete_user(self._user(user))

    def set_permissions(
        self, user: str, vhost: str, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        self._broker.admin.set_permissions(self._user(user), vhost, configure=configure, write=write, read=read)

    def clear_permissions(self, user: str, vhost: str) -> None:
        self._broker.admin.clear_permissions(self._user(user), vhost)

    def set_topic_permissions(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self._broker.admin.set_topic_permissions(self._user(user), vhost, exchange, write=write, read=read)

    def set_policy(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int = 0, apply_to: str = "all"
    ) -> None:
        self._broker.admin.set_policy(name, pattern, definition, vhost=vhost, priority=priority, apply_to=apply_to)

    def set_operator_policy(
        self, vhost: str, name: str, pattern: str, definition: Definition, priority: int = 0, apply_to: str = "all"
    ) -> None:
        self._broker.admin.set_operator_policy(
            name, pattern, definition, vhost=vhost, priority=priority, apply_to=apply_to
        )

    def clear_policy(self, vhost: str, name: str) -> None:
        self._broker.admin.clear_policy(name, vhost=vhost)

    def set_vhost_limit(self, vhost: str, name: str, value: int) -> None:
        self._broker.admin.set_vhost_limits(vhost, {name: value})

    def set_user_limit(self, user: str, name: str, value: int) -> None:
        self._broker.admin.set_user_limits(self._user(user), {name: value})

    def trace_on(self, vhost: str) -> None:
        self._broker.admin.trace_on(vhost)

    def close_connections(self, user: str, reason: str) -> None:
        self._broker.admin.close_all_user_connections(self._user(user), reason)

    def restart(self) -> None:
        self._broker.restart()

    def drain(self) -> None:
        self._broker.admin.drain()

    def revive(self) -> None:
        self._broker.admin.revive()

    def set_alarm(self, resource: str) -> None:
        self._broker.admin.set_alarm(resource)

    def clear_alarm(self, resource: str) -> None:
        self._broker.admin.clear_alarm(resource)

    def clean_up(self, vhost: str) -> None:
        """Do nothing: the broker ends with the run."""
