"""The control API: what a Python test does with a broker, over HTTP, for tests in every language.

Its modules declare the endpoints. The router, the check of bodies and the OpenAPI document are made from these. A
handler calls what a Python test would call, on a `Scope`: the broker narrowed to one virtual host. What it raises
becomes a status and a sentence.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from leveret.engine.engine import Engine
from leveret.errors import BrokerError, EventsMissingError, NotDeclaredError, RefusedError, WaitTimeoutError
from leveret.http.control import happenings, messaging, openapi, topology, whole  # noqa: F401 (they declare)
from leveret.http.control.bodies import parsed
from leveret.http.control.endpoint import ENDPOINTS, ControlCall, ControlEndpoint
from leveret.http.guard import refuse_stranger
from leveret.http.messages import Request, Response, refusal
from leveret.http.router import Router
from leveret.http.stream import EventPump

# The errors of leveret that answer a request: the status, and the word for programs. The first that fits counts.
_ANSWERS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (NotDeclaredError, 404, "not_found"),
    (RefusedError, 409, "refused"),
    (AssertionError, 409, "assertion_failed"),
    (WaitTimeoutError, 409, "timed_out"),
    (EventsMissingError, 409, "events_missing"),
    (BrokerError, 409, "impossible"),
    (ValueError, 400, "bad_request"),
    (TypeError, 400, "bad_request"),
)


class Control:
    """The app below /leveret/v1."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._pump: Final = EventPump(engine)
        self._numbers: Final = count(1)
        self._router: Final[Router[ControlEndpoint]] = Router(ENDPOINTS)

    def handle(self, request: Request) -> Response:
        """Answer a request of an administrator."""
        refused = refuse_stranger(request, self._engine)
        if refused is not None:
            return refused
        hit = self._router.find(request)
        if hit is None:
            return self._refuse_unrouted(request)
        try:
            parameters = hit.route.parameters(request.query)
            body = parsed(request.body, hit.route.body)
            call = ControlCall(self._engine, self._pump, self._numbers, request, hit.values, parameters, body)
            return hit.route.respond(hit.route.handler(call))
        except tuple(kind for kind, _, _ in _ANSWERS) as error:
            return _answer(error)

    def _refuse_unrouted(self, request: Request) -> Response:
        methods = self._router.methods(request)
        if methods:
            allowed = ", ".join(methods)
            return refusal(405, "method_not_allowed", f"{request.path} takes {allowed}", ("allow", allowed))
        reason = f"{request.path} is no endpoint; /leveret/v1/openapi.json lists them all"
        return refusal(404, "not_found", reason)


def _answer(error: Exception) -> Response:
    status, word = next((status, word) for kind, status, word in _ANSWERS if isinstance(error, kind))
    if isinstance(error, RefusedError) and error.code == 404:
        status, word = 404, "not_found"
    # Imported here because a test that passes has no failure.
    from leveret.story.failure import failure_of

    value: dict[str, object] = {"error": word, "reason": str(error)}
    notes = getattr(error, "__notes__", ())
    if notes:
        value["report"] = "\n\n".join(map(str, notes))
    if (failure := failure_of(error)) is not None:
        value["failure"] = failure.as_json()
    if isinstance(error, RefusedError):
        value["code"] = error.code
    return Response.of_json(value, status)
