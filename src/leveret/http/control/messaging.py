"""The endpoints that publish, assert and wait in one virtual host.

An assertion has an endpoint of its own, made from its method. If it fails, the answer is 409 with the same
text that a Python test gets: what was expected, and the nearest messages.
"""

from __future__ import annotations

import inspect
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

from leveret.core.model.operators.patterns import Expression
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.http.control import shapes
from leveret.http.control.bodies import WrongBody
from leveret.http.control.endpoint import VHOST, ControlCall, endpoint
from leveret.http.control.shapes import ANYTHING, COUNT, FLAG, NUMBER, TABLE, TEXT, Schema, component, listed, record
from leveret.observe.assertions import matching
from leveret.observe.assertions.assertions import Assertions
from leveret.observe.views.message_view import MessageView

_BINARY: Final = "body_base64"
# Properties of a message that are not texts.
_NUMBERS: Final = ("delivery_mode", "priority", "timestamp")
PATTERN: Final[Schema] = {"oneOf": [TEXT, record({"regex": TEXT})]}
CRITERIA: Final[dict[str, Schema]] = {
    **dict.fromkeys(matching.KEYWORDS, PATTERN),
    **dict.fromkeys(_NUMBERS, NUMBER),
    "json": ANYTHING,
    "json_contains": {"oneOf": [TABLE, listed(ANYTHING)]},
    "headers": TABLE,
    "redelivered": FLAG,
    _BINARY: TEXT,
}
_PROPERTIES: Final[dict[str, Schema]] = {
    name: {"type": "integer"} if name in _NUMBERS else TEXT for name in PROPERTY_NAMES if name != "headers"
}
_NEW_MESSAGE: Final = record(
    {},
    {
        **dict.fromkeys(("exchange", "routing_key", "body", _BINARY), TEXT),
        "json": ANYTHING,
        "headers": TABLE,
        "properties": record({}, _PROPERTIES),
        "mandatory": FLAG,
    },
)
# These two ask something else than the recorded events for messages, and have endpoints of their own.
_OTHERS: Final = ("assert_empty", "assert_refused")
ASSERTIONS: Final = {
    name: act for name, act in vars(Assertions).items() if name.startswith("assert_") and name not in _OTHERS
}
_OWN: Final[dict[str, Schema]] = {"times": COUNT, "reason": PATTERN, "to": TEXT}


def _declare(name: str, act: Callable[..., object]) -> None:
    """Declare the endpoint of an assertion, whose signature says what it takes."""
    _, first, *others = inspect.signature(act).parameters.values()
    own = {each.name: _OWN.get(each.name, ANYTHING) for each in others if each.kind is inspect.Parameter.KEYWORD_ONLY}
    criteria = {word: schema for word, schema in CRITERIA.items() if word != first.name}
    named: dict[str, Schema] = {first.name: TEXT}
    is_optional = first.default is not inspect.Parameter.empty
    keywords = {**(named if is_optional else {}), **own, "timeout": NUMBER, **criteria}

    def run(call: ControlCall) -> object:
        options = {word: criterion(word, value) for word, value in call.body.items() if word != _BINARY}
        if _BINARY in call.body:
            options["body"] = _octets(call.body[_BINARY])
        arguments = [options.pop(first.name)] if first.name in options else []
        answer = getattr(call.scope, name)(*arguments, **options, vhost=call.scope.vhost)
        views = answer if isinstance(answer, list) else [answer] if isinstance(answer, MessageView) else []
        return {"messages": shapes.json_of(views)}

    run.__name__, run.__doc__ = name, (act.__doc__ or "").partition("\n")[0]
    path = f"{VHOST}/assert/{name.removeprefix('assert_').replace('_', '-')}"
    schema = record({} if is_optional else named, keywords)
    endpoint("POST", path, record({"messages": listed(component("Message"))}), schema)(run)


for _name, _act in ASSERTIONS.items():
    _declare(_name, _act)


def criterion(name: str, value: Any) -> Any:
    """Return a value to compare with: a pattern is written as {"regex": "..."}."""
    if name not in ("json", "json_contains", "headers") and isinstance(value, dict):
        try:
            return Expression(value["regex"])
        except re.error as error:
            raise WrongBody(f"{name}: {value['regex']!r} is no regular expression: {error}") from None
    return value


def _octets(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise WrongBody(f"{_BINARY} is not base64: {error}") from None


@endpoint("POST", f"{VHOST}/assert/empty", None, record({"queue": TEXT}, {"timeout": NUMBER}))
def assert_empty(call: ControlCall) -> None:
    """Assert that a queue has no ready and no unacked messages."""
    call.scope.assert_empty(**call.body, vhost=call.scope.vhost)


@endpoint(
    "POST",
    f"{VHOST}/assert/refused",
    record({"code": COUNT, "text": TEXT, "client": TEXT}),
    record({}, {"code": COUNT, "text": PATTERN, "client": PATTERN, "timeout": NUMBER}),
)
def assert_refused(call: ControlCall) -> object:
    """Assert that the broker refused something to a client."""
    options = {name: criterion(name, value) for name, value in call.body.items()}
    event = call.scope.assert_refused(options.pop("code", None), **options)
    return {"code": event.code, "text": event.text, "client": event.client}


@endpoint("POST", f"{VHOST}/publish", record({"routed": FLAG}), _NEW_MESSAGE)
def publish(call: ControlCall) -> object:
    """Publish a message, and return whether it reached a queue. The body is text, base64 or JSON."""
    body = dict(call.body)
    octets = _octets(body.pop(_BINARY)) if _BINARY in body else body.pop("body", "")
    properties = body.pop("properties", {})
    is_routed = call.scope.publish(
        body.pop("exchange", ""), body.pop("routing_key", ""), octets, vhost=call.scope.vhost, **body, **properties
    )
    return {"routed": is_routed}


@endpoint("POST", f"{VHOST}/wait-idle", None, record({}, {"timeout": NUMBER, "reconnects": FLAG}))
def wait_idle(call: ControlCall) -> None:
    """Wait until no consumer of the virtual host holds a message, can take one, or has to reconnect to take one."""
    call.scope.wait_idle(**call.body)


@endpoint("POST", f"{VHOST}/wait-for-consumer", component("Consumer"), record({"queue": TEXT}, {"timeout": NUMBER}))
def wait_for_consumer(call: ControlCall) -> object:
    """Wait until a queue has a consumer, and return the first one. The queue need not exist yet."""
    return shapes.json_of(call.scope.wait_for_consumer(**call.body, vhost=call.scope.vhost))
