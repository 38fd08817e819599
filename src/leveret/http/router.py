"""The router: it finds the route of a request by method and path.

A template is a path with names in braces, such as "/api/queues/{vhost}/{name}". Each stands for one segment. Paths are
split before they are decoded, so the virtual host "/" is the segment `%2F`. A slash at the end of a path is ignored, as
RabbitMQ's server does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from leveret.http.messages import Request


class Route(Protocol):
    """What the router needs of a row in a table of routes."""

    @property
    def method(self) -> str:
        """The method, such as "GET"."""

    @property
    def template(self) -> str:
        """The path, with names in braces."""


R = TypeVar("R", bound=Route)


class Found(NamedTuple, Generic[R]):
    """A route, and the decoded values of the names in its template."""

    route: R
    values: dict[str, str]


class Router(Generic[R]):
    """A table of routes. If several templates fit a path, a literal segment wins over a name."""

    def __init__(self, routes: Iterable[R]) -> None:
        # By the segments of their template, with None in the place of each name.
        self._patterns: dict[tuple[str | None, ...], tuple[list[str], dict[str, R]]] = {}
        for route in routes:
            parts = segments(route.template)
            pattern = tuple(None if _is_name(part) else part for part in parts)
            self._patterns.setdefault(pattern, (parts, {}))[1][route.method] = route
        self._shapes = sorted({tuple(part is None for part in pattern) for pattern in self._patterns})

    def find(self, request: Request) -> Found[R] | None:
        """Return the route of a request, or None. HEAD takes the route of GET."""
        fitting = self._fitting(request.path)
        if fitting is None:
            return None
        methods, values = fitting
        route = methods.get(request.method) or (methods.get("GET") if request.method == "HEAD" else None)
        return None if route is None else Found(route, values)

    def methods(self, request: Request) -> list[str]:
        """Return the methods that the path of a request allows; none if the path is unknown."""
        fitting = self._fitting(request.path)
        return [] if fitting is None else sorted(fitting[0])

    def _fitting(self, path: str) -> tuple[dict[str, R], dict[str, str]] | None:
        parts = segments(path)
        for shape in self._shapes:
            if len(shape) == len(parts):
                pattern = tuple(None if is_name else part for is_name, part in zip(shape, parts, strict=True))
                if pattern in self._patterns:
                    names, methods = self._patterns[pattern]
                    named = [(name[1:-1], part) for name, part in zip(names, parts, strict=True) if _is_name(name)]
                    return methods, {name: unquote(part, errors="surrogateescape") for name, part in named}
        return None


def segments(path: str) -> list[str]:
    """Return the raw segments of a path, without an empty one at its end."""
    parts = path.split("/")[1:]
    return parts[:-1] if parts and not parts[-1] else parts


def _is_name(segment: str) -> bool:
    return segment.startswith("{")
