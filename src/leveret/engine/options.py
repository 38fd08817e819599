"""The keywords of a broker, as far as they can be checked without one.

A mistake raises where it was written, and the message says what is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PORT_MAX: Final = 65535


def checked_timeout(timeout: object) -> float:
    """Return a timeout in seconds. Raises TypeError unless it is a number, ValueError if it is negative."""
    __tracebackhide__ = True
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout={timeout!r} must be a number of seconds, as in timeout=5")
    if not timeout >= 0:
        raise ValueError(f"timeout={timeout!r} must be 0 or more seconds")
    return timeout


def checked_port(name: str, port: object) -> int:
    """Return a port to listen on, 0 for a free one. Raises ValueError for anything else."""
    if not isinstance(port, int) or not 0 <= port <= _PORT_MAX:
        raise ValueError(f"{name}={port!r} is not a port; expected a number from 0 (a free one) to {_PORT_MAX}")
    return port


def checked_seed(seed: object) -> int:
    """Return the seed of chance. Raises ValueError unless it is an integer."""
    if not isinstance(seed, int):
        raise ValueError(f"seed={seed!r} is not a whole number")
    return seed


def checked_users(users: object) -> Mapping[str, str]:
    """Return passwords by user name. Raises ValueError for anything else."""
    if not isinstance(users, Mapping) or not all(isinstance(word, str) for item in users.items() for word in item):
        raise ValueError(f"users={users!r} must be a mapping of name to password, as in users={{'bob': 'secret'}}")
    return users
