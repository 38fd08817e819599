"""The live page: one HTML file that shows a running broker as it changes, and acts on it.

What it shows comes from `feed`, as server-sent events. What it does goes through the control API.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Final

from leveret.engine.engine import Engine
from leveret.errors import NotDeclaredError
from leveret.http.control.shapes import queue as queue_json
from leveret.http.guard import refuse_stranger
from leveret.http.live.feed import Feed
from leveret.http.messages import Request, Response, refusal
from leveret.observe.views.names import find_queue
from leveret.page.formats.assets import Assets, asset

_FOLDER: Final = os.path.join(os.path.dirname(__file__), "assets")
# Parts of the page of a test, and what the live page adds.
_SHARED: Final = ("style.css", "graph.css", "dom.js", "graph.js", "drawing.js")
# How many messages of an open queue the page shows.
_MESSAGES_MOST: Final = 50
_OWN: Final = ("live.css", "live.js")


class Live:
    """The app at /."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._feed: Final = Feed(engine)

    def handle(self, request: Request) -> Response:
        """Answer a request of an administrator."""
        if request.path not in ("/", "/live", "/live/queue"):
            reason = f"{request.path} does not exist; the live page is /, the APIs are /api and /leveret/v1"
            return refusal(404, "not_found", reason)
        refused = refuse_stranger(request, self._engine)
        if refused is not None:
            return refused
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "method_not_allowed", f"{request.path} takes GET, HEAD", ("allow", "GET, HEAD"))
        if request.path == "/":
            return _page()
        return self._feed.open() if request.path == "/live" else self._queue(request.parameters)

    def _queue(self, place: Mapping[str, str]) -> Response:
        """Return a queue as it stands. A barrier would have to read all that a flood of clients has sent."""
        with self._engine.lock:
            node = self._engine.node
            try:
                queue = find_queue(node, place.get("vhost", "/"), place.get("name", ""))
            except NotDeclaredError as error:
                return refusal(404, "not_found", str(error))
            answer = queue_json(queue, node, _MESSAGES_MOST)
        return Response.of_json(answer)


@cache
def _page() -> Response:
    texts = {name: asset(name) for name in _SHARED} | {name: asset(name, _FOLDER) for name in _OWN}
    assets = Assets.joined(texts)
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>leveret</title>\n<style>{assets.style}</style>\n</head>\n<body>\n"
        "<noscript>This page needs JavaScript. /leveret/v1/state has the same as JSON.</noscript>\n"
        f"<script>{assets.script}</script>\n</body>\n</html>\n"
    )
    response = Response.of_text(page, "text/html")
    policy = ("content-security-policy", f"{assets.policy}; connect-src 'self'; frame-ancestors 'none'")
    return Response(200, (*response.headers, policy, ("cache-control", "no-cache")), response.body)
