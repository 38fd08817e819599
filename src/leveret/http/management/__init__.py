"""RabbitMQ's management API, as pure functions of a request and the broker's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.http.guard import known_user
from leveret.http.messages import Request, Response, refusal
from leveret.http.router import Router

if TYPE_CHECKING:
    from leveret.core.model.access import User
    from leveret.engine.engine import Engine


def app(engine: Engine) -> Management:
    """Return the management API of a broker."""
    return Management(engine)


class Endpoint(NamedTuple):
    """One row of the table of routes."""

    method: str
    template: str
    answer: Callable[[User], Response]


def _whoami(user: User) -> Response:
    return Response.of_json({"name": user.name, "tags": list(user.tags), "is_internal_user": True})


ENDPOINTS: Final = (Endpoint("GET", "/api/whoami", _whoami),)


class Management:
    """The app below /api."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._router: Final = Router(ENDPOINTS)

    def handle(self, request: Request) -> Response:
        """Answer a request, as RabbitMQ's management plugin does."""
        user = known_user(request, self._engine)
        if user is None:
            challenge = ("www-authenticate", 'Basic realm="RabbitMQ Management"')
            return refusal(401, "not_authorized", "Not_Authorized", challenge)
        found = self._router.find(request)
        if found is None:
            return refusal(404, "Object Not Found", "Not Found")
        return found.route.answer(user)
