"""How the management API of each RabbitMQ version differs. `Compat` holds what AMQP clients see; this is about HTTP."""

from __future__ import annotations

from typing import Final, NamedTuple


class Dialect(NamedTuple):
    """The differences of one version. The defaults are those of 4.3."""

    # The answer to a user who may not open the virtual host at all.
    access_refused: str = "Access refused."


_DIALECTS: Final[dict[str, Dialect]] = {"4.3": Dialect()}


def dialect_of(version: str) -> Dialect:
    """Return the dialect of a version."""
    return _DIALECTS.get(version, _DIALECTS["4.3"])
