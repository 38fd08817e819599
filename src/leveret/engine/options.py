"""The keywords of a broker, as far as they can be checked without one.

A mistake raises where it was written, and the message says what is valid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from leveret.wording import names_in

_PORT_MAX: Final = 65535


def checked_port(name: str, port: object) -> int:
    """Return a port to listen on, 0 for a free one. Raises ValueError for anything else."""
    __tracebackhide__ = True
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _PORT_MAX:
        raise ValueError(f"{name}={port!r} is not a port; expected a number from 0 (a free one) to {_PORT_MAX}")
    return port


def checked_count(name: str, count: object) -> int:
    """Return a number of things. Raises ValueError unless it is a whole number of 1 or more."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{name}={count!r} must be a whole number of 1 or more, as in {name}=20")
    return count


def checked_seed(seed: object) -> int:
    """Return the seed of chance. Raises ValueError unless it is an integer."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed={seed!r} is not a whole number")
    return seed


def users_in(text: str) -> dict[str, str]:
    """Return passwords by user name from a text such as `app=secret auditor:other`, split at commas and white space.

    Raises ValueError for a user without a name or a password.
    """
    users = {}
    for number, word in enumerate(names_in(text), start=1):
        user = re.fullmatch("([^:=]+)[:=](.+)", word)
        if user is None:
            # The text may be a password, so it is not shown.
            raise ValueError(f"user {number} is not of the form NAME=PASSWORD or NAME:PASSWORD, as in app=secret")
        users[user[1]] = user[2]
    return users


def settings_in(text: str) -> dict[str, int | bool | str]:
    """Return lines of rabbitmq.conf, such as `channel_max = 100`, as values by name; commas and spaces separate too.

    Raises ValueError for a line without a name or a value.
    """
    settings: dict[str, int | bool | str] = {}
    for line in names_in(re.sub(r"\s*=\s*", "=", text.strip())):
        name, _, value = line.partition("=")
        if not (name and value):
            raise ValueError(f"{line!r} is not of the form NAME=VALUE")
        settings[name] = value == "true" if value in ("true", "false") else int(value) if value.isdecimal() else value
    return settings


def checked_users(name: str, users: object) -> Mapping[str, str]:
    """Return passwords by user name. Raises ValueError for anything else."""
    __tracebackhide__ = True
    if not isinstance(users, Mapping) or not all(isinstance(word, str) for item in users.items() for word in item):
        raise ValueError(f"{name}={users!r} must be a mapping of name to password, as in {name}={{'bob': 'secret'}}")
    for user, password in users.items():
        try:
            f"{user}{password}".encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError(f"{name}: user {user!r} has a lone surrogate, which UTF-8 cannot encode") from None
    return users
