"""The endpoints about policies, operator policies and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING

from leveret.admin.admin import Admin
from leveret.admin.definitions_export import described_parameters, described_policy
from leveret.admin.definitions_import import VHOST_LIMITS_PARAMETER
from leveret.admin.vhosts_and_users import VHOST_LIMITS
from leveret.core.model.operators.policy import Policies, Policy, PolicyInvalid
from leveret.core.model.operators.policy_keys import printed
from leveret.http.management.calls import CREATED, DONE, Call, no_object, not_found
from leveret.http.management.endpoints.vhosts import invalid, limit_fault
from leveret.http.management.listing import Described, chosen, listed

if TYPE_CHECKING:
    from leveret.core.model.vhost import VirtualHost

ByName = Mapping[str, Policy]


def _user_policies(policies: Policies) -> ByName:
    return policies.user_policies


def _operator_policies(policies: Policies) -> ByName:
    return policies.operator_policies


def _listed(call: Call, of: Callable[[Policies], ByName]) -> object:
    with call.looking():
        found = [_shown(vhost, it) for vhost in call.vhosts() for it in of(vhost.policies).values()]
    return listed(call, found, paged=False)


def _shown(vhost: VirtualHost, policy: Policy) -> Described:
    return {"vhost": vhost.name, "name": policy.name, **described_policy(policy)}


def list_policies(call: Call) -> object:
    """List the policies of a virtual host, or of all that the user sees."""
    return _listed(call, _user_policies)


def list_operator_policies(call: Call) -> object:
    """List the operator policies of a virtual host, or of all that the user sees."""
    return _listed(call, _operator_policies)


def get_policy(call: Call) -> object:
    """Describe a policy."""
    with call.looking():
        return chosen(call, _shown(call.vhost, call.found(call.vhost.policies.user_policies, "name")))


def get_operator_policy(call: Call) -> object:
    """Describe an operator policy."""
    with call.looking():
        return chosen(call, _shown(call.vhost, call.found(call.vhost.policies.operator_policies, "name")))


def _put(call: Call, of: Callable[[Policies], ByName], set_policy: Callable[..., None]) -> object:
    body, name = call.body("pattern", "definition"), call.values["name"]
    with call.looking():
        policies = call.changed_vhost.policies
        is_known = name in of(policies)
        check = policies.check if of is _user_policies else policies.check_operator
    policy = Policy(
        name,
        body["pattern"],  # type: ignore[arg-type]
        body["definition"],  # type: ignore[arg-type]
        apply_to=body.get("apply-to", "all"),  # type: ignore[arg-type]
        priority=body.get("priority", 0),  # type: ignore[arg-type]
    )
    try:
        check(policy)
    except PolicyInvalid as error:
        fault = _shown_text(call, str(error)) if of is _user_policies else str(error)
        raise invalid(fault) from None
    set_policy(
        name,
        policy.pattern,
        policy.definition,
        vhost=call.values["vhost"],
        priority=policy.priority,
        apply_to=policy.apply_to,
    )
    return DONE if is_known else CREATED


def put_policy(call: Call) -> object:
    """Set a policy."""
    return _put(call, _user_policies, Admin(call.engine).set_policy)


def put_operator_policy(call: Call) -> object:
    """Set an operator policy."""
    return _put(call, _operator_policies, Admin(call.engine).set_operator_policy)


def delete_policy(call: Call) -> object:
    """Remove a policy."""
    with call.looking():
        call.found(call.vhost.policies.user_policies, "name")
    Admin(call.engine).clear_policy(call.values["name"], vhost=call.values["vhost"])
    return DONE


def delete_operator_policy(call: Call) -> object:
    """Remove an operator policy."""
    with call.looking():
        call.found(call.vhost.policies.operator_policies, "name")
    Admin(call.engine).clear_operator_policy(call.values["name"], vhost=call.values["vhost"])
    return DONE


def list_parameters(call: Call) -> object:
    """List parameters: all, those of a component, or those of a component in one virtual host."""
    component = call.values.get("component")
    with call.looking():
        found = [each for vhost in call.vhosts() for each in described_parameters(vhost)]
    wanted = [each for each in found if component in (None, each["component"])]
    return listed(call, wanted, ("vhost", "component", "name"), paged=False)


def get_parameter(call: Call) -> object:
    """Describe a parameter."""
    with call.looking():
        return chosen(call, _found(call))


def _found(call: Call) -> Described:
    for each in described_parameters(call.vhost):
        if (each["component"], each["name"]) == (call.values["component"], call.values["name"]):
            return each
    raise no_object()


def put_parameter(call: Call) -> object:
    """Set a parameter. Other components than the broker's own belong to plugins that leveret does not have."""
    value, component = call.body("value")["value"], call.values["component"]
    name = call.values["vhost"]
    with call.looking() as node:
        if name not in node.vhosts:
            raise not_found("vhost_not_found")
        known = [(each["component"], each["name"]) for each in described_parameters(node.vhosts[name])]
        is_known = (component, call.values["name"]) in known
    if component != VHOST_LIMITS_PARAMETER:
        raise invalid(_shown_text(call, f"component {component} not found"))
    limits = value if isinstance(value, dict) else {}
    fault = limit_fault(limits, VHOST_LIMITS, "limits")
    if not isinstance(value, dict | list):
        fault = f"limits not a list {printed(value)}"
    if fault:
        raise invalid(_shown_text(call, fault))
    Admin(call.engine).set_vhost_limits(name, limits)
    return DONE if is_known else CREATED


def delete_parameter(call: Call) -> object:
    """Remove a parameter."""
    with call.looking():
        found = _found(call)
    admin, vhost = Admin(call.engine), call.values["vhost"]
    if found["component"] == VHOST_LIMITS_PARAMETER:
        admin.clear_vhost_limits(vhost)
    else:
        admin.clear_operator_policy(call.values["name"], vhost=vhost)
    return DONE


def list_global_parameters(call: Call) -> object:
    """List what concerns the broker as a whole."""
    known = call.state.global_parameters
    return listed(call, [{"name": name, "value": value} for name, value in known.items()], ("name",), paged=False)


def get_global_parameter(call: Call) -> object:
    """Describe a global parameter."""
    value = call.found(call.state.global_parameters, "name")
    return chosen(call, {"name": call.values["name"], "value": value})


def put_global_parameter(call: Call) -> object:
    """Set a global parameter. leveret keeps it and reads none."""
    value, name = call.body("value")["value"], call.values["name"]
    is_known = name in call.state.global_parameters
    call.state.global_parameters[name] = value
    return DONE if is_known else CREATED


def delete_global_parameter(call: Call) -> object:
    """Remove a global parameter."""
    call.found(call.state.global_parameters, "name")
    del call.state.global_parameters[call.values["name"]]
    return DONE


def _shown_text(call: Call, text: str) -> str:
    """Return a text about an invalid parameter, as the version shows it."""
    return escape(text, quote=False) if call.compat.escapes_texts else text
