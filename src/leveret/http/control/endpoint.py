"""An endpoint of the control API: a row of its table, and what a handler gets.

The router, the check of bodies and the OpenAPI document are all made from these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from leveret.http.control.scope import Scope
from leveret.http.control.shapes import TEXT, Json, Schema
from leveret.http.messages import Request, Response

if TYPE_CHECKING:
    from leveret.admin.admin import Admin
    from leveret.engine.engine import Engine
    from leveret.http.stream import Pump


@dataclass
class Call:
    """One request to an endpoint."""

    engine: Engine
    pump: Pump
    # For virtual hosts without a name of their own. None comes twice.
    numbers: Iterator[int]
    request: Request
    # The names in the path, the checked query, and the body as the schema says.
    values: Mapping[str, str]
    parameters: Mapping[str, str]
    body: Json
    _scope: Scope | None = field(default=None, init=False)

    # No cached_property: before CPython 3.12 all calls share its lock, which two of them would take before and after
    # the broker's.
    @property
    def scope(self) -> Scope:
        """The virtual host in the path. Raises NotDeclaredError if it does not exist."""
        if self._scope is None:
            self._scope = Scope(self.engine, self.values["vhost"])
        return self._scope

    @property
    def admin(self) -> Admin:
        """The commands of an operator."""
        from leveret.admin.admin import Admin

        return Admin(self.engine)


# What a handler returns is sent as JSON with the endpoint's status, unless it is a response already.
Handler = Callable[[Call], object]


class Parameter(NamedTuple):
    """A parameter of the query."""

    meaning: str
    schema: Schema = TEXT


@dataclass(frozen=True)
class Endpoint:
    """A row of the table."""

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
