"""The OpenAPI document of the control API, made from its table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from leveret.http.control.endpoint import Endpoint
from leveret.http.control.shapes import COMPONENTS, TEXT, Json, component
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


def document(endpoints: Iterable[Endpoint]) -> Json:
    """Return the document."""
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.template, {})[endpoint.method.lower()] = _operation(endpoint)
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


def _operation(endpoint: Endpoint) -> Json:
    described: Json = {"operationId": endpoint.name, "summary": endpoint.summary}
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": TEXT} for name in _NAME.findall(endpoint.template)
    ]
    parameters += [
        {"name": name, "in": "query", "description": one.meaning, "schema": one.schema}
        for name, one in endpoint.query.items()
    ]
    if parameters:
        described["parameters"] = parameters
    if endpoint.body is not None:
        is_needed = bool(endpoint.body["required"])
        described["requestBody"] = {"required": is_needed, "content": _json(endpoint.body)}
    described["responses"] = {
        **_success(endpoint),
        **{status: {"$ref": f"#/components/responses/Refused{status}"} for status in _REFUSALS},
    }
    return described


def _success(endpoint: Endpoint) -> Json:
    if endpoint.answer is not None:
        return {str(endpoint.status): {"description": endpoint.summary, "content": _json(endpoint.answer)}}
    if endpoint.media != "application/json":
        return {str(endpoint.status): {"description": endpoint.summary, "content": {endpoint.media: {}}}}
    return {"204": {"description": endpoint.summary}}


def _json(schema: object) -> Json:
    return {"application/json": {"schema": schema}}
