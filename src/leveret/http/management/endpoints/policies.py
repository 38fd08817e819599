"""The endpoints about policies, operator policies and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from leveret.admin.admin import set_policy
from leveret.admin.definitions_export import described_parameters, policies_as_parameters
from leveret.admin.definitions_import import (
    NO_PARAMETER,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS_PARAMETER,
    operator_value_of,
    policy_of,
    vhost_limits_of,
)
from leveret.admin.values import WrongValue
from leveret.core.model.operators.policy import PolicyInvalid, PolicySet
from leveret.core.model.vhost import VirtualHost
from leveret.http.management.calls import CREATED, DONE, ManagementCall, bad_request
from leveret.http.management.endpoints.vhosts import invalid
from leveret.http.management.listing import Described
from leveret.http.management.routes import Who, endpoint, lists, only

_PARAMETER: Final = "/api/parameters/{component}/{vhost}/{name}"
_GLOBAL: Final = "/api/global-parameters/{name}"


class _Policies:
    """The policies of users, or those of operators, with their endpoints."""

    def __init__(self, path: str, who: Who, *, are_operators: bool) -> None:
        self._are_operators: Final = are_operators
        one = f"{path}/{{vhost}}/{{name}}"
        lists(path, "management", ("priority", "vhost", "name"), in_vhost="vhost", one=(one, who))(self._list)
        endpoint("PUT", one, who, needs_json=are_operators)(self._put)
        endpoint("DELETE", one, who)(self._delete)

    def _of(self, vhost: VirtualHost) -> PolicySet:
        return vhost.policies.operator if self._are_operators else vhost.policies.user

    def _list(self, call: ManagementCall) -> list[Described]:
        return [
            {"vhost": vhost.name, "name": policy.name, **policy.described()}
            for vhost in call.vhosts()
            for policy in self._of(vhost).by_name.values()
            if call.asks_for("name", policy.name)
        ]

    def _put(self, call: ManagementCall) -> object:
        name = call.values["name"]
        with call.engine.looking():
            vhost = call.changed_vhost
            is_known = name in self._of(vhost).by_name
        body = call.body("pattern", "definition")
        try:
            with call.acting() as node:
                set_policy(node, vhost.name, policy_of(name, body), is_operator=self._are_operators)
        except PolicyInvalid as error:
            raise invalid(str(error) if self._are_operators else _shown_text(call, str(error))) from None
        return DONE if is_known else CREATED

    def _delete(self, call: ManagementCall) -> None:
        with call.engine.looking():
            name = call.existing(self._of(call.vhost).by_name, "name").name
        clear = call.admin.clear_operator_policy if self._are_operators else call.admin.clear_policy
        clear(name, vhost=call.values["vhost"])


_Policies("/api/policies", "policymaker", are_operators=False)
_Policies("/api/operator-policies", "administrator", are_operators=True)


@lists("/api/parameters", "policymaker", ("vhost", "component", "name"))
@lists("/api/parameters/{component}", "policymaker", ("vhost", "component", "name"))
@lists(
    "/api/parameters/{component}/{vhost}",
    "policymaker",
    ("vhost", "component", "name"),
    one=(_PARAMETER, "policymaker"),
)
def list_parameters(call: ManagementCall) -> list[Described]:
    """List parameters: all, those of a component, those of a component in one virtual host, or one of these."""
    parameters = (each for vhost in call.vhosts() for each in _parameters(vhost, call.values.get("component")))
    return [each for each in parameters if all(call.asks_for(part, str(each[part])) for part in ("component", "name"))]


def _parameters(vhost: VirtualHost, component: str | None) -> Iterator[Described]:
    """Return the parameters of a virtual host. Policies are among them only if their component is asked for."""
    if component == POLICY:
        return policies_as_parameters(vhost, POLICY, vhost.policies.user)
    return described_parameters(vhost)


@endpoint("PUT", _PARAMETER, "policymaker")
def put_parameter(call: ManagementCall) -> object:
    """Set a parameter. Other components than the broker's own belong to plugins that leveret does not have."""
    component = call.values["component"]
    with call.engine.looking():
        name = call.changed_vhost.name
        is_known = bool(list_parameters(call))
    body = call.body("value")
    if component == POLICY:
        raise bad_request(NO_PARAMETER)
    try:
        if component == VHOST_LIMITS_PARAMETER:
            limits = vhost_limits_of(body, call.values["name"])
            call.admin.clear_vhost_limits(name)
            call.admin.set_vhost_limits(name, limits)
        elif component == OPERATOR_POLICY:
            policy = policy_of(call.values["name"], operator_value_of(body, call.values["name"]))
            with call.acting() as node:
                set_policy(node, name, policy, is_operator=True)
        else:
            raise invalid(_shown_text(call, f"component {component} not found"))
    except WrongValue as error:
        raise invalid(_shown_text(call, str(error.reason))) from None
    except PolicyInvalid as error:
        raise invalid(_shown_text(call, str(error))) from None
    return DONE if is_known else CREATED


@endpoint("DELETE", _PARAMETER, "policymaker")
def delete_parameter(call: ManagementCall) -> None:
    """Remove a parameter."""
    with call.engine.looking():
        component, vhost = only(list_parameters(call))["component"], call.vhost.name
    if component == POLICY:
        raise bad_request(NO_PARAMETER)
    if component == VHOST_LIMITS_PARAMETER:
        call.admin.clear_vhost_limits(vhost)
    else:
        call.admin.clear_operator_policy(call.values["name"], vhost=vhost)


@lists("/api/global-parameters", "policymaker", ("name",), one=(_GLOBAL, "policymaker"))
def list_global_parameters(call: ManagementCall) -> list[Described]:
    """List what concerns the broker as a whole."""
    known = call.node.global_parameters
    return [{"name": name, "value": value} for name, value in known.items() if call.asks_for("name", name)]


@endpoint("PUT", _GLOBAL, "policymaker")
def put_global_parameter(call: ManagementCall) -> object:
    """Set a global parameter. leveret keeps them all, and reads the name of the cluster."""
    value, name = call.body("value").get("value"), call.values["name"]
    with call.acting() as node:
        is_known = name in node.global_parameters
        node.set_global_parameter(name, value)
    return DONE if is_known else CREATED


@endpoint("DELETE", _GLOBAL, "policymaker")
def delete_global_parameter(call: ManagementCall) -> None:
    """Remove a global parameter."""
    with call.acting() as node:
        call.existing(node.global_parameters, "name")
        del node.global_parameters[call.values["name"]]


def _shown_text(call: ManagementCall, text: str) -> str:
    """Return a text about an invalid parameter, as the version shows it."""
    return escape(text, quote=False) if call.compat.escapes_texts else text
