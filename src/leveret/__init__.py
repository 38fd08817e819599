"""leveret: an in-process AMQP 0-9-1 broker for test suites.

The names below are the public ones; each is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.broker import Broker
    from leveret.errors import (
        BrokerError,
        CheckFailedError,
        EndlessTimeError,
        EventsMissingError,
        ExplorationFailedError,
        LeveretWarning,
        NotDeclaredError,
        RefusedError,
        WaitTimeoutError,
    )
    from leveret.exploration import Exploration, explore
    from leveret.scripted.reply import Reply

__all__ = [
    "Broker",
    "BrokerError",
    "CheckFailedError",
    "EndlessTimeError",
    "EventsMissingError",
    "Exploration",
    "ExplorationFailedError",
    "LeveretWarning",
    "NotDeclaredError",
    "RefusedError",
    "Reply",
    "WaitTimeoutError",
    "explore",
]

_HOMES = {
    "Broker": "leveret.broker",
    "BrokerError": "leveret.errors",
    "EndlessTimeError": "leveret.errors",
    "RefusedError": "leveret.errors",
    "WaitTimeoutError": "leveret.errors",
    "Exploration": "leveret.exploration",
    "ExplorationFailedError": "leveret.exploration",
    "explore": "leveret.exploration",
    "CheckFailedError": "leveret.errors",
    "EventsMissingError": "leveret.errors",
    "LeveretWarning": "leveret.errors",
    "Reply": "leveret.scripted.reply",
    "NotDeclaredError": "leveret.errors",
}


def __dir__() -> list[str]:
    return [*__all__]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'leveret' has no attribute {name!r}{_hint(name)}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """What somebody may have meant: a name of the package, or of the broker that a test forgot to ask for."""
    if name.startswith("_"):
        return ""
    from leveret.broker import Broker
    from leveret.errors import did_you_mean, nearest

    if nearest(name, __all__) or not nearest(name, dir(Broker)):
        return did_you_mean(name, __all__)
    of_a_broker = nearest(name, dir(Broker))[0]
    return f"; {of_a_broker!r} belongs to a broker, which a test gets as the fixture: def test_it(leveret)"
