"""The OpenAPI document of the control API, made from its table."""

from __future__ import annotations

import re
from typing import Final

from leveret.http.control.endpoint import ENDPOINTS, ROOT, ControlCall, ControlEndpoint, endpoint
from leveret.http.control.shapes import COMPONENTS, TABLE, TEXT, Json, component
from leveret.trace.version import __version__

_NAME: Final = re.compile(r"\{(\w+)\}")
_REFUSALS: Final = {
    "400": "The request is wrong.",
    "401": "The user or the password is missing or wrong.",
    "403": "The user is no administrator, or the request comes from another site.",
    "404": "A virtual host, queue, exchange or fault of this name does not exist.",
    "409": "An assertion failed, a wait timed out, the name is taken, or RabbitMQ would refuse this.",
    "413": "The body is too large.",
    "431": "The head of the request is too large.",
}


@endpoint("GET", f"{ROOT}/openapi.json", TABLE)
def get_openapi(_call: ControlCall) -> object:
    """Return this document."""
    return document()


def document() -> Json:
    """Return the document."""
    paths: dict[str, Json] = {}
    for declared in ENDPOINTS:
        paths.setdefault(declared.template, {})[declared.method.lower()] = _operation(declared)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "leveret's control API",
            "version": __version__,
            "description": "Drive a leveret broker from tests in any language: time, faults, assertions, state.",
        },
        "security": [{"user": []}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"user": {"type": "http", "scheme": "basic"}},
            "responses": {
                f"Refused{status}": {"description": text, "content": _json(component("Refusal"))}
                for status, text in _REFUSALS.items()
            },
        },
    }


def _operation(declared: ControlEndpoint) -> Json:
    described: Json = {"operationId": declared.name, "summary": declared.summary}
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": TEXT} for name in _NAME.findall(declared.template)
    ]
    parameters += [
        {"name": name, "in": "query", "description": parameter.meaning, "schema": parameter.schema}
        for name, parameter in declared.query.items()
    ]
    if parameters:
        described["parameters"] = parameters
    if declared.body is not None:
        is_needed = bool(declared.body["required"])
        described["requestBody"] = {"required": is_needed, "content": _json(declared.body)}
    described["responses"] = {
        **_success(declared),
        **{status: {"$ref": f"#/components/responses/Refused{status}"} for status in _REFUSALS},
    }
    return described


def _success(declared: ControlEndpoint) -> Json:
    if declared.answer is not None:
        return {str(declared.status): {"description": declared.summary, "content": _json(declared.answer)}}
    if declared.media != "application/json":
        return {str(declared.status): {"description": declared.summary, "content": {declared.media: {}}}}
    return {"204": {"description": declared.summary}}


def _json(schema: object) -> Json:
    return {"application/json": {"schema": schema}}
