"""The endpoints that publish, assert and wait in one virtual host.

An assertion has an endpoint of its own, made from its method. If it fails, the answer is 409 with the same
text that a Python test gets: what was expected, and the nearest messages.
"""

from __future__ import annotations

import inspect
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from leveret.core.model.operators.patterns import Expression
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.http.control import shapes
from leveret.http.control.bodies import WrongBody
from leveret.http.control.endpoint import Call, Endpoint
from leveret.http.control.shapes import ANYTHING, COUNT, FLAG, NUMBER, TABLE, TEXT, Schema, component, listed, record
from leveret.http.control.topology import VHOST
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


class Assertion(NamedTuple):
    """An assertion of a broker, as its signature and its docstring say it."""

    # The name after `assert_`.
    name: str
    # The name of its first argument, and whether that may be left out.
    place: str
    is_place_optional: bool
    # Its keywords besides those of every assertion.
    own: tuple[str, ...]
    summary: str

    @classmethod
    def of(cls, method: Callable[..., object]) -> Assertion:
        """Return the assertion that a method makes."""
        _, place, *others = inspect.signature(method).parameters.values()
        own = [one.name for one in others if one.kind is inspect.Parameter.KEYWORD_ONLY]
        summary = inspect.cleandoc(method.__doc__ or "").partition("\n")[0]
        name = method.__name__.removeprefix("assert_")
        return cls(name, place.name, place.default is not inspect.Parameter.empty, tuple(own), summary)


# These two ask something else than the recorded events for messages, and have endpoints of their own.
_OTHERS: Final = ("assert_empty", "assert_refused")
ASSERTIONS: Final = tuple(
    Assertion.of(method)
    for name, method in vars(Assertions).items()
    if name.startswith("assert_") and name not in _OTHERS
)
_OWN: Final[dict[str, Schema]] = {"times": COUNT, "reason": PATTERN, "to": TEXT}


def _asserted(assertion: Assertion) -> Endpoint:
    criteria = {name: schema for name, schema in CRITERIA.items() if name != assertion.place}
    schema = record(
        {
            assertion.place: TEXT,
            **{name: _OWN.get(name, ANYTHING) for name in assertion.own},
            "timeout": NUMBER,
            **criteria,
        },
        *(() if not assertion.is_place_optional else (assertion.place,)),
        *assertion.own,
        "timeout",
        *criteria,
    )

    def run(call: Call) -> object:
        options = {name: criterion(name, value) for name, value in call.body.items() if name != _BINARY}
        if _BINARY in call.body:
            options["body"] = _octets(call.body[_BINARY])
        place = options.pop(assertion.place, None)
        arguments = () if place is None else (place,)
        act: Any = getattr(call.scope, f"assert_{assertion.name}")
        found = act(*arguments, **options, vhost=call.scope.vhost)
        views = found if isinstance(found, list) else [found] if isinstance(found, MessageView) else []
        return {"messages": [shapes.message(view) for view in views]}

    words = "".join(part.title() for part in assertion.name.split("_"))
    return Endpoint(
        f"assert{words}",
        "POST",
        f"{VHOST}/assert/{assertion.name.replace('_', '-')}",
        assertion.summary,
        run,
        record({"messages": listed(component("Message"))}),
        schema,
    )


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


def _assert_empty(call: Call) -> object:
    call.scope.assert_empty(call.body["queue"], timeout=call.body.get("timeout"), vhost=call.scope.vhost)
    return None


def _assert_refused(call: Call) -> object:
    options = {name: criterion(name, value) for name, value in call.body.items()}
    event = call.scope.assert_refused(options.pop("code", None), **options)
    return {"code": event.code, "text": event.text, "client": event.client}


def _publish(call: Call) -> object:
    body = dict(call.body)
    octets = _octets(body.pop(_BINARY)) if _BINARY in body else body.pop("body", "")
    properties = body.pop("properties", {})
    is_routed = call.scope.publish(
        body.pop("exchange", ""), body.pop("routing_key", ""), octets, vhost=call.scope.vhost, **body, **properties
    )
    return {"routed": is_routed}


def _wait_idle(call: Call) -> object:
    call.scope.wait_idle(call.body.get("timeout", 5), reconnects=call.body.get("reconnects", True))
    return None


def _wait_for_consumer(call: Call) -> object:
    timeout = call.body.get("timeout", 5)
    return shapes.consumer(call.scope.wait_for_consumer(call.body["queue"], timeout=timeout, vhost=call.scope.vhost))


_NEW_MESSAGE: Final[Schema] = record(
    {
        "exchange": TEXT,
        "routing_key": TEXT,
        "body": TEXT,
        _BINARY: TEXT,
        "json": ANYTHING,
        "headers": TABLE,
        "properties": record(_PROPERTIES, *_PROPERTIES),
        "mandatory": FLAG,
    },
    *("exchange", "routing_key", "body", _BINARY, "json", "headers", "properties", "mandatory"),
)

ENDPOINTS: Final = (
    Endpoint(
        "publish",
        "POST",
        f"{VHOST}/publish",
        "Publish a message, and return whether it reached a queue. The body is text, base64 or JSON.",
        _publish,
        record({"routed": FLAG}),
        _NEW_MESSAGE,
    ),
    *(_asserted(assertion) for assertion in ASSERTIONS),
    Endpoint(
        "assertEmpty",
        "POST",
        f"{VHOST}/assert/empty",
        "Assert that a queue has no ready and no unacked messages.",
        _assert_empty,
        body=record({"queue": TEXT, "timeout": NUMBER}, "timeout"),
    ),
    Endpoint(
        "assertRefused",
        "POST",
        f"{VHOST}/assert/refused",
        "Assert that the broker refused something to a client.",
        _assert_refused,
        record({"code": COUNT, "text": TEXT, "client": TEXT}),
        record(
            {"code": COUNT, "text": PATTERN, "client": PATTERN, "timeout": NUMBER},
            *("code", "text", "client", "timeout"),
        ),
    ),
    Endpoint(
        "waitIdle",
        "POST",
        f"{VHOST}/wait-idle",
        "Wait until no consumer of the virtual host holds a message, can take one, or has to reconnect to take one.",
        _wait_idle,
        body=record({"timeout": NUMBER, "reconnects": FLAG}, "timeout", "reconnects"),
    ),
    Endpoint(
        "waitForConsumer",
        "POST",
        f"{VHOST}/wait-for-consumer",
        "Wait until a queue has a consumer, and return the first one. The queue need not exist yet.",
        _wait_for_consumer,
        component("Consumer"),
        record({"queue": TEXT, "timeout": NUMBER}, "timeout"),
    ),
)
