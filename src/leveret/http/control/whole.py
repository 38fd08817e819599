"""The endpoints for the broker as a whole: its state, its time, its faults, its life."""

from __future__ import annotations

import inspect
from typing import Any, Final, get_args

from leveret.core.model.operators.patterns import Expression
from leveret.errors import NotDeclaredError, expected, unknown_keyword
from leveret.faults.conversation import When
from leveret.faults.named import NamedFaults, Refusal
from leveret.faults.rule import OPTIONS, Rule
from leveret.faults.streams import Direction
from leveret.http.control import shapes
from leveret.http.control.bodies import WrongBody
from leveret.http.control.endpoint import ROOT, ControlCall, Parameter, endpoint
from leveret.http.control.messaging import CRITERIA, PATTERN, criterion
from leveret.http.control.shapes import ANYTHING, COUNT, FLAG, NUMBER, TEXT, Json, Schema, component, listed, record
from leveret.observe.assertions.keywords import Alarm
from leveret.observe.views.names import find_vhost
from leveret.time.clock import Clock
from leveret.trace.version import __version__

_CLOCK: Final[Schema] = record({"now": NUMBER, "is_held": FLAG, "is_jumping": FLAG})
_SPAN: Final[dict[str, Schema]] = dict.fromkeys(("seconds", "ms", "minutes", "hours", "days"), NUMBER)
_SETTLE: Final[dict[str, Schema]] = {"settle": NUMBER, "limit": COUNT}
_STATE: Final[Schema] = record(
    {
        "leveret": TEXT,
        "rabbitmq": TEXT,
        "clock": _CLOCK,
        "vhosts": listed(TEXT),
        "queues": listed(component("QueueHead")),
        "connections": listed(component("Connection")),
        "faults": listed(component("Fault")),
    }
)


@endpoint("GET", f"{ROOT}/state", _STATE)
def get_state(call: ControlCall) -> object:
    """Return the state of the whole broker."""
    with call.engine.looking() as node:
        return {
            "leveret": __version__,
            "rabbitmq": call.engine.compat.version,
            "clock": get_clock(call),
            "vhosts": list(node.vhosts),
            "queues": shapes.queue_heads(node),
            "connections": shapes.connections(node),
            "faults": list_faults(call),
        }


@endpoint("GET", f"{ROOT}/clock", _CLOCK)
def get_clock(call: ControlCall) -> Json:
    """Return the broker's time, in seconds since 1970."""
    clock = Clock(call.engine)
    return {"now": clock.now, "is_held": clock.is_held, "is_jumping": call.engine.is_jumping}


@endpoint("POST", f"{ROOT}/clock/hold", _CLOCK)
def hold_clock(call: ControlCall) -> object:
    """Stop time."""
    Clock(call.engine).hold()
    return get_clock(call)


@endpoint("POST", f"{ROOT}/clock/release", _CLOCK)
def release_clock(call: ControlCall) -> object:
    """Let time run on."""
    Clock(call.engine).release()
    return get_clock(call)


@endpoint("POST", f"{ROOT}/clock/advance", _CLOCK, record({}, {**_SPAN, **_SETTLE, "heartbeats": FLAG}))
def advance_clock(call: ControlCall) -> object:
    """Stop time, and move it on by the sum of what is given, from deadline to deadline. Clients get time to react."""
    Clock(call.engine).advance(**call.body)
    return get_clock(call)


@endpoint("POST", f"{ROOT}/clock/autojump", _CLOCK, record({}, {**_SETTLE, "while_held": FLAG}))
def autojump_clock(call: ControlCall) -> object:
    """Let time jump to the next deadline whenever the broker and its clients have nothing to do."""
    Clock(call.engine).autojump(**call.body)
    return get_clock(call)


# The faults by name: the methods of `broker.faults` that add one.
_METHODS: Final = {name: act for name, act in vars(NamedFaults).items() if not name.startswith("_") and name != "add"}
# What JSON has for the types of their parameters. Their values are checked by the method.
_TYPES: Final[dict[str, Schema]] = {
    "int": COUNT,
    "str": TEXT,
    "float": NUMBER,
    "float | None": shapes.optional(NUMBER),
    "When": {"enum": list(get_args(When))},
    "Refusal": {"enum": list(get_args(Refusal))},
    "Alarm": {"enum": list(get_args(Alarm))},
    "Direction": {"enum": list(get_args(Direction))},
}
# The parameters that every fault takes, besides the criteria that select messages.
_WHEN: Final[dict[str, Schema]] = {
    **dict.fromkeys((name for name in OPTIONS if name != "do"), PATTERN),
    "on": TEXT,
    "after": COUNT,
    "times": shapes.optional(COUNT),
    "probability": NUMBER,
    "optional": FLAG,
    "sent_by": {"enum": ["client", "broker"]},
    "vhost": TEXT,
    "connection": COUNT,
    "channel": COUNT,
}


def _own_parameters(name: str) -> dict[str, Schema]:
    """Return the parameters that belong to a fault itself."""
    parameters = inspect.signature(_METHODS[name]).parameters.values()
    own = [parameter for parameter in parameters if parameter.name not in ("self", "options", *_WHEN)]
    return {parameter.name: _TYPES.get(parameter.annotation, ANYTHING) for parameter in own}


# The faults that act at once without `on`. Over HTTP that must be said, because it hits the clients of every test.
_NOW: Final = "now"
_INSTANT: Final = tuple(
    name
    for name, act in _METHODS.items()
    if "on" in (given := inspect.signature(act).parameters) and given["on"].default is None
)
_PARAMETERS: Final = {word: schema for name in _METHODS for word, schema in _own_parameters(name).items()}
_FAULT: Final = record({"fault": {"enum": list(_METHODS)}}, {**_PARAMETERS, **_WHEN, **CRITERIA})


@endpoint("GET", f"{ROOT}/faults", listed(component("Fault")))
def list_faults(call: ControlCall) -> list[Json]:
    """List the faults, with how often each has fired."""
    return [shapes.fault(number, rule) for number, rule in enumerate(call.engine.fault_rules(), 1)]


@endpoint("POST", f"{ROOT}/faults", component("Fault"), _FAULT, status=201)
def add_fault(call: ControlCall) -> object:
    """Add a fault.

    `vhost` limits it to one virtual host; the other names select occasions, as in Python. With `"on": "now"` it acts at
    once.
    """
    body = dict(call.body)
    name = body.pop("fault")
    own = _own_parameters(name)
    for word in body:
        if word in _PARAMETERS and word not in own:
            raise unknown_keyword(f"the fault {name!r}", word, (*own, *_WHEN))
    if "vhost" in body:
        with call.engine.lock:
            find_vhost(call.engine.node, body["vhost"])
    if name in _INSTANT:
        if "on" not in body:
            raise WrongBody(
                f"'on' is missing for the fault {name!r}; name a method or an event, such as basic.ack, "
                'or say "now" to act at once on everything that matches'
            )
        if body["on"] == _NOW:
            del body["on"]
    options = {word: criterion(word, value) for word, value in body.items()}
    for word, value in options.items():
        if isinstance(value, Expression):
            # When a message that is too long for the pattern arrives, no request waits for an error.
            try:
                value.require_any_length()
            except ValueError as error:
                raise WrongBody(f"{word}: {value.pattern!r} cannot be used by a fault: {error}") from None
    add: Any = getattr(call.engine.faults, name)
    rule = add(**options)
    return shapes.fault(call.engine.fault_rules().index(rule) + 1, rule)


def _rule(call: ControlCall) -> tuple[int, Rule]:
    rules, number = call.engine.fault_rules(), call.values["fault"]
    if not (number.isdecimal() and 1 <= int(number) <= len(rules)):
        raise NotDeclaredError(f"fault {number} does not exist{expected(number, map(str, range(1, len(rules) + 1)))}")
    return int(number), rules[int(number) - 1]


@endpoint("GET", f"{ROOT}/faults/{{fault}}", component("Fault"))
def get_fault(call: ControlCall) -> object:
    """Return a fault by its id."""
    return shapes.fault(*_rule(call))


@endpoint("DELETE", f"{ROOT}/faults/{{fault}}", component("Fault"))
def remove_fault(call: ControlCall) -> object:
    """Remove a fault, and return how often it fired."""
    _rule(call)[1].remove()
    return shapes.fault(*_rule(call))


@endpoint(
    "DELETE", f"{ROOT}/faults", query={"vhost": Parameter("remove only those that were added for this virtual host")}
)
def remove_faults(call: ControlCall) -> None:
    """Remove all faults."""
    vhost = call.parameters.get("vhost")
    chosen = call.engine.fault_rules(vhost)
    if vhost is not None and not chosen:
        # The virtual host of a fault may have been deleted before the fault.
        with call.engine.lock:
            find_vhost(call.engine.node, vhost)
    for rule in chosen:
        rule.remove()


@endpoint("POST", f"{ROOT}/reset")
def reset(call: ControlCall) -> None:
    """Close every connection and forget all state."""
    call.engine.reset()


@endpoint("POST", f"{ROOT}/restart")
def restart(call: ControlCall) -> None:
    """Restart as RabbitMQ does: keep what is durable, and close all connections."""
    call.engine.restart()
