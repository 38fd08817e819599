"""The endpoints of the management API, a file for each of its subjects. Importing this declares them all."""

from leveret.http.management.endpoints import (  # noqa: F401 (they declare)
    bindings,
    connections,
    consumers,
    definitions,
    exchanges,
    health,
    messages,
    metrics,
    overview,
    policies,
    queues,
    users,
    vhosts,
)
from leveret.http.management.routes import ENDPOINTS

__all__ = ["ENDPOINTS"]
