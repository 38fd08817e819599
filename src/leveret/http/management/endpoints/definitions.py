"""The endpoints about definitions: the whole broker or one virtual host, out and in."""

from __future__ import annotations

import re

from leveret.admin.definitions_export import Extent, export, export_vhost
from leveret.admin.definitions_import import load
from leveret.admin.values import WrongValue
from leveret.core.wire import erlang
from leveret.errors import BrokerError
from leveret.http.management.calls import DONE, MALFORMED, ManagementCall, bad_request, value_of
from leveret.http.management.listing import Described, chosen
from leveret.http.management.routes import endpoint
from leveret.http.messages import Response


@endpoint("GET", "/api/definitions", "administrator")
def get_definitions(call: ManagementCall) -> object:
    """Return the definitions of the broker."""
    with call.engine.looking() as node:
        definitions = export(node, _extent(call))
    return _named(call, _shown(call, definitions))


@endpoint("GET", "/api/definitions/{vhost}", "administrator")
def get_of_vhost(call: ManagementCall) -> object:
    """Return the definitions of a virtual host."""
    with call.engine.looking() as node:
        if call.values["vhost"] not in node.vhosts:
            raise bad_request("vhost_not_found")
        return _named(call, _shown(call, export_vhost(call.vhost, _extent(call))))


def _extent(call: ManagementCall) -> Extent:
    return Extent(has_transient=True, has_internal=not call.compat.definitions_name_queue_types)


def _shown(call: ManagementCall, definitions: Described) -> Described:
    """Return the definitions of the broker or of a virtual host, as the version shows them."""
    if call.compat.definitions_name_queue_types:
        return definitions
    queues, metadata = definitions["queues"], definitions.get("metadata")
    assert isinstance(queues, list)
    shown: Described = {
        **definitions,
        "queues": [{name: value for name, value in queue.items() if name != "type"} for queue in queues],
    }
    if isinstance(metadata, dict):
        shown |= {"default_queue_type": metadata["default_queue_type"], "limits": definitions["limits"] or []}
    hidden, vhosts = call.compat.hidden_definitions, definitions.get("vhosts")
    if isinstance(vhosts, list):
        shown["vhosts"] = [
            {name: value for name, value in {**it["metadata"], **it}.items() if name not in (*hidden, "limits")}
            for it in vhosts
        ]
    if not hidden:
        return shown
    if metadata is not None:
        hidden = (*hidden, "product_name", "product_version", "rabbitmq_version")
        for section in ("parameters", "policies") if call.compat.repeats_vhost_in_definitions else ():
            items = definitions[section]
            assert isinstance(items, list)
            shown[section] = [{**item, "vhost": definitions["original_vhost_name"]} for item in items]
    return {name: value for name, value in shown.items() if name not in hidden}


def _named(call: ManagementCall, definitions: Described) -> object:
    """Let a browser save the answer under the name that the query gives."""
    found = definitions if call.compat.definitions_name_queue_types else chosen(call, definitions)
    name = call.parameters.get("download")
    if name is None:
        return found
    if call.compat.downloads_by_token:
        is_fine = re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
    else:
        name = name.replace("\r", "").replace("\n", "").rstrip()
        is_fine = re.fullmatch(r"[^\x00-\x08\x0b-\x1f\x7f]*", name)
    if not is_fine:
        return MALFORMED
    return Response.of_json(found, 200, ("content-disposition", f"attachment; filename={name}"))


@endpoint("POST", "/api/definitions", "administrator", needs_json=True)
def post_definitions(call: ManagementCall) -> object:
    """Add what definitions describe to the broker."""
    return _load(call, None)


@endpoint("POST", "/api/definitions/{vhost}", "administrator", needs_json=True)
def post_of_vhost(call: ManagementCall) -> object:
    """Add what definitions describe to a virtual host."""
    with call.engine.looking():
        name = call.changed_vhost.name
    return _load(call, name)


def _load(call: ManagementCall, vhost: str | None) -> object:
    octets = call.request.body
    if call.request.headers.get("content-type", "").startswith("multipart/form-data"):
        octets = _uploaded(call)
    try:
        definitions = value_of(octets or b"{}", call.compat)
    except (ValueError, RecursionError):
        raise bad_request("failed_to_parse_json") from None
    if not isinstance(definitions, dict):
        raise bad_request("failed_to_parse_json")
    try:
        with call.acting() as node:
            load(node, definitions, vhost, call.user.name, refuses_plugins=True)
    except WrongValue as error:
        if isinstance(error.reason, list) and (vhost is not None or call.compat.prints_faults_of_definitions):
            error.reason = erlang.reason(error.reason)
        raise
    except BrokerError as error:
        raise bad_request(str(error).removeprefix("definitions: ")) from None
    finally:
        call.state.catch_up(call.user.name)
    return DONE


def _uploaded(call: ManagementCall) -> bytes:
    """Return the file of a form. Raises Refusal if it has none."""
    from email import message_from_bytes

    head = f"content-type: {call.request.headers['content-type']}\r\n\r\n".encode()
    form = message_from_bytes(head + call.request.body)
    for part in form.walk():
        if part.get_param("name", header="content-disposition") == "file":
            payload = part.get_payload(decode=True)
            return payload if isinstance(payload, bytes) else b""
    raise bad_request("no_file_uploaded")
