"""The site: which app answers which path, behind the guard that all share.

- `/api/...` and `/metrics` are RabbitMQ's management API and metrics.
- `/leveret/v1/...` is the control API.
- Everything else is the live page.

Each app is imported with the first request for it.
"""

from __future__ import annotations

from typing import Final

from leveret.engine.engine import Engine
from leveret.http.guard import refuse_foreign
from leveret.http.messages import App, Request, Response


class Site:
    """Every app of one broker."""

    def __init__(self, engine: Engine, host: str) -> None:
        """Create the site of a broker that listens on `host`."""
        self._engine: Final = engine
        self._host: Final = host
        self._apps: dict[str, App] = {}

    def handle(self, request: Request) -> Response:
        """Answer a request. A foreign page gets 403 before any app sees its request."""
        refused = refuse_foreign(request, self._host)
        if refused is not None:
            return refused
        name = _app_of(request.path)
        app = self._apps.get(name)
        if app is None:
            # Two threads may both make one. Only the first is kept.
            app = self._apps.setdefault(name, _new_app(name, self._engine))
        return app.handle(request)


def _app_of(path: str) -> str:
    first, _, rest = path.removeprefix("/").partition("/")
    if first in ("api", "metrics"):
        return "management"
    if first == "leveret" and rest.partition("/")[0] == "v1":
        return "control"
    return "live"


def _new_app(name: str, engine: Engine) -> App:
    if name == "management":
        from leveret.http.management.management import Management

        return Management(engine)
    if name == "control":
        from leveret.http.control import Control

        return Control(engine)
    from leveret.http.live import Live

    return Live(engine)
