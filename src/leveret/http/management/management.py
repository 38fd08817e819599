"""The app below /api: it finds the endpoint, checks the user, and turns what the endpoint returns into a response.

The order of the checks is that of RabbitMQ's server, cowboy_rest: the path, the method, the credentials, the tag, the
virtual host, and only then the body.
"""

from __future__ import annotations

from typing import Final

from leveret.admin.values import WrongValue
from leveret.core.model.operators.access import User
from leveret.engine.engine import Engine
from leveret.http.guard import known_user
from leveret.http.management.calls import (
    DONE,
    MALFORMED,
    NOT_YOURS,
    ManagementCall,
    ManagementState,
    RefusedCall,
    bad_request,
    no_object,
    not_authorised,
    not_found,
    refused,
)
from leveret.http.management.endpoints import ENDPOINTS
from leveret.http.management.listing import page_of
from leveret.http.management.routes import Who
from leveret.http.messages import Request, Response, refusal
from leveret.http.router import Router

_CHALLENGE: Final = Response(401, (("www-authenticate", 'Basic realm="RabbitMQ Management"'),))
_TAGS: Final = ("administrator", "monitoring", "policymaker", "management")
# The order in which RabbitMQ names methods.
_METHODS: Final = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")
# What an unknown path allows: RabbitMQ looks for a file there.
_OF_FILES: Final = ("HEAD", "GET", "OPTIONS")
_JSON_TYPES: Final = ("application/json", "multipart/form-data")


class Management:
    """The management API of one broker."""

    def __init__(self, engine: Engine) -> None:
        self._state: Final = ManagementState(engine)
        version = engine.compat.version
        self._router: Final = Router(each for each in ENDPOINTS if version in each.versions)

    def handle(self, request: Request) -> Response:
        """Answer a request, as RabbitMQ's management plugin does."""
        methods = self._allowed(request)
        response = self._answered(request, methods)
        if response != MALFORMED and (
            self._state.engine.compat.names_methods_of_path or response.status == 405 or request.method == "OPTIONS"
        ):
            headers = (*response.headers, ("allow", ", ".join(methods)))
            response = Response(response.status, headers, response.body)
        return response

    def _allowed(self, request: Request) -> tuple[str, ...]:
        own = self._router.methods(request)
        if not own:
            return _OF_FILES
        hit = self._router.find(Request("GET", request.path))
        heads = ["HEAD"] if hit is not None and hit.route.has_head else []
        return tuple(sorted([*own, *heads, "OPTIONS"], key=_METHODS.index))

    def _answered(self, request: Request, methods: tuple[str, ...]) -> Response:
        if request.method not in methods:
            return Response(405)
        if request.method == "OPTIONS":
            return Response(200)
        hit = self._router.find(request)
        if hit is None:
            return no_object().response
        endpoint = hit.route
        try:
            user = None
            if endpoint.who != "anyone":
                user = self._user(request)
            call = ManagementCall(self._state, request, user, hit.values)
            if user is not None:
                with self._state.engine.lock:
                    _refuse_unless_permitted(call, endpoint.who)
            if request.method in ("GET", "HEAD") and not _accepts_json(request):
                return Response(406)
            if endpoint.needs_json and not _is_json(request):
                return Response(415)
            with self._state.lock:
                self._state.catch_up()
                answer = endpoint.answer(call)
            if answer is not None and not isinstance(answer, Response):
                page_of(call)
        except RefusedCall as error:
            return error.response
        except WrongValue as error:
            return bad_request(error.reason).response
        if answer is None:
            return DONE
        return answer if isinstance(answer, Response) else Response.of_json(answer)

    def _user(self, request: Request) -> User:
        header = request.headers.get("authorization")
        if header is None:
            raise RefusedCall(_CHALLENGE)
        if header.partition(" ")[0].lower() != "bearer" and request.credentials is None:
            raise RefusedCall(MALFORMED)
        user = known_user(request, self._state.engine)
        if user is None:
            if self._state.engine.compat.challenges_again:
                raise RefusedCall(refusal(401, "not_authorized", "Login failed", *_CHALLENGE.headers))
            raise refused(401, "not_authorized", "Not_Authorized")
        if not any(tag in _TAGS for tag in user.tags):
            raise not_authorised("Not management user")
        return user


def _refuse_unless_permitted(call: ManagementCall, who: Who) -> None:
    """Refuse a user without the tag, or without the virtual host. The caller holds the broker's lock."""
    if call.is_administrator or who == "management":
        return
    is_monitor = call.is_tagged("monitoring")
    if who == "administrator":
        raise not_authorised("Not administrator user")
    if who == "monitoring" and not is_monitor:
        raise not_authorised("Not monitor user")
    if is_monitor and who in ("monitoring", "visible", "watched"):
        return
    if who in ("self", "watched") and call.values["user"] != call.user.name:
        raise not_authorised(NOT_YOURS)
    if who == "policymaker" and not call.is_tagged("policymaker"):
        raise not_authorised(NOT_YOURS)
    name = call.values.get("vhost")
    if name is not None and name in call.node.vhosts and not call.may_see(name):
        if call.compat.hides_vhosts:
            raise not_found()
        raise not_authorised(NOT_YOURS if who == "policymaker" else "User not authorised to access virtual host")


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in _JSON_TYPES


def _accepts_json(request: Request) -> bool:
    if request.path.startswith("/metrics"):
        return True
    wanted = [each.partition(";")[0].strip() for each in request.headers.get("accept", "*/*").split(",")]
    return any(each in ("*/*", "application/*", "application/json") for each in wanted)
