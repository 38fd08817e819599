"""The endpoints of the control API: each is a function that `endpoint` declares, with what it takes and answers.

The router, the check of queries and bodies and the OpenAPI document are all made from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl

from leveret.errors import did_you_mean, expected
from leveret.http.control.scope import Scope
from leveret.http.control.shapes import TEXT, Json, Schema
from leveret.http.messages import Request, Response

if TYPE_CHECKING:
    from leveret.admin.admin import Admin
    from leveret.engine.engine import Engine
    from leveret.http.stream import EventPump

ROOT: Final = "/leveret/v1"
VHOST: Final = f"{ROOT}/vhosts/{{vhost}}"


@dataclass
class ControlCall:
    """One request to an endpoint."""

    engine: Engine
    pump: EventPump
    # For virtual hosts without a name of their own. None comes twice.
    numbers: Iterator[int]
    request: Request
    # The names in the path, the checked query, and the body as the schema says.
    values: Mapping[str, str]
    parameters: Mapping[str, str]
    body: Json

    @property
    def scope(self) -> Scope:
        """The virtual host in the path. Raises NotDeclaredError if it does not exist."""
        return Scope(self.engine, self.values["vhost"])

    @property
    def admin(self) -> Admin:
        """The commands of an operator."""
        from leveret.admin.admin import Admin

        return Admin(self.engine)


# What a handler returns is sent as JSON with the endpoint's status, unless it is a response already.
Handler = Callable[[ControlCall], object]


class Parameter(NamedTuple):
    """A parameter of the query."""

    meaning: str
    schema: Schema = TEXT


@dataclass(frozen=True)
class ControlEndpoint:
    """A declared endpoint."""

    name: str
    method: str
    template: str
    summary: str
    handler: Handler
    # The schema of the answer. None: there is no body, or `media` names what it is.
    answer: Schema | None = None
    # The schema of the request's body. None: there is none.
    body: Schema | None = None
    # The parameters of the query, by name.
    query: Mapping[str, Parameter] = field(default_factory=dict)
    status: int = 200
    media: str = "application/json"

    def respond(self, value: object) -> Response:
        """Return what a handler returned as a response."""
        if isinstance(value, Response):
            return value
        return Response(204) if self.answer is None else Response.of_json(value, self.status)

    def parameters(self, query: str) -> dict[str, str]:
        """Return the decoded parameters of a query.

        Raises ValueError for a name or value that the endpoint lacks. A name that is misspelt must not be ignored:
        `DELETE /faults?vhots=test-13` would remove the faults of every test.
        """
        given: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True, errors="surrogateescape"):
            if name not in self.query:
                hint = expected(name, self.query) if self.query else "; this takes no parameters, so leave it out"
                raise ValueError(f"unknown parameter {name!r}{hint}")
            if name in given:
                raise ValueError(f"the parameter {name!r} is given twice; give it once")
            _check_value(name, value, self.query[name])
            given[name] = value
        return given


def _check_value(name: str, value: str, parameter: Parameter) -> None:
    words = parameter.schema.get("enum")
    if words is not None and value not in words:
        hint = did_you_mean(value, words)
        raise ValueError(f"{name}={value!r} must be {' or '.join(map(repr, words))}{hint or '; or leave it out'}")
    if parameter.schema.get("type") == "integer" and not (value.isascii() and value.isdecimal()):
        raise ValueError(f"{name}={value!r} must be a whole number, as in {name}=100")
    if not value:
        raise ValueError(f"{name} is empty; give it a value, or leave it out")


# What the modules of endpoints have declared.
ENDPOINTS: Final[list[ControlEndpoint]] = []


def endpoint(
    method: str,
    template: str,
    answer: Schema | None = None,
    body: Schema | None = None,
    *,
    name_end: str = "",
    extent: str = "",
    **more: Any,
) -> Callable[[Handler], Handler]:
    """Declare the decorated handler as an endpoint, under its own name with `name_end`.

    `more` are its other fields. The summary is the docstring in one line, with `extent` before its last dot.
    """

    def declare(handler: Handler) -> Handler:
        first, *others = handler.__name__.split("_")
        name = first + "".join(map(str.title, others)) + name_end
        summary = " ".join((handler.__doc__ or "").split()).removesuffix(".") + extent + "."
        ENDPOINTS.append(ControlEndpoint(name, method, template, summary, handler, answer, body, **more))
        return handler

    return declare
