"""RabbitMQ's management API, as pure functions of a request and the broker's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.engine.engine import Engine
    from leveret.http.management.management import Management


def app(engine: Engine) -> Management:
    """Return the management API of a broker."""
    from leveret.http.management.management import Management

    return Management(engine)
