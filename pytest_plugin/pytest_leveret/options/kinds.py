"""The kinds of values that options have: how a text is read, and what a marker may give in place of a text.

Both raise ValueError with what is valid. Every run imports this module, so it imports only the standard library.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

# What can be replaced, and the module that it needs; a suite without it has nothing to replace.
PACKAGES: Final = {
    "testcontainers": "testcontainers",
    "pytest-rabbitmq": "pytest_rabbitmq",
    "pytest-docker": "pytest_docker",
}
_SWITCHES: Final = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OF_URL: Final = ("vhost", "user")
# What a variable can hold, by the word for it: the whole URL, or a part.
_PARTS: Final = ("url", "host", "port", "user", "password", "vhost", "management_url", "management_port")
# An address in place of a path. In an ini file, the rootdir stands before it, and only one slash is left.
_ADDRESS: Final = re.compile(r"(?:^|[/\\])[a-z][a-z0-9+.-]+:[/\\]")


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable, the part of the URL that it gets, and the virtual host and the user of that URL."""

    name: str
    part: str = "url"
    vhost: str = "/"
    user: str = "guest"


def read_names(text: str) -> frozenset[str]:
    """Return the names in a text, separated by commas or white space."""
    return frozenset(text.replace(",", " ").split())


def read_folder(text: str) -> str:
    """Return the absolute path of a folder."""
    if _ADDRESS.search(text):
        raise ValueError(f"{text!r} is an address; give the path of a folder to write files to")
    return os.path.abspath(text)


def read_number(text: str) -> int:
    """Return the whole number in a text."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def read_count(text: str) -> int:
    """Return the whole number in a text, which must be 1 or more."""
    number = read_number(text)
    if number < 1:
        raise ValueError(f"{text!r} is not 1 or more")
    return number


def read_seconds(text: str) -> float:
    """Return the number of seconds in a text."""
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds; write it as in 10") from None


def read_users(text: str) -> dict[str, str]:
    """Return passwords by user name from a text such as `app=secret auditor=other`."""
    from leveret.engine.options import users_in

    return users_in(text)


def read_settings_of_node(text: str) -> dict[str, int | bool | str]:
    """Return the values of settings by name from lines such as `channel_max = 100`."""
    from leveret.engine.options import settings_in

    return settings_in(text)


def read_levels(value: object) -> str:
    """Return levels of strict checks as one text, in which later levels win."""
    if isinstance(value, Mapping):
        value = [f"{name}={level}" for name, level in value.items()]
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, Iterable) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{value!r} is not a list of levels; write 'unroutable=error', or 'error' for all checks")
    return " ".join(words)


def read_versions(text: str) -> str | tuple[str, ...]:
    """Return the version in a text, or several versions, oldest first."""
    names = sorted(read_names(text), key=_age)
    return tuple(names) if len(names) > 1 else "".join(names)


def _age(version: str) -> list[int]:
    return [int(part) if part.isdecimal() else 0 for part in version.split(".")]


def read_choice(*words: str) -> Callable[[str], str]:
    """Return what reads a text that is one of these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is unknown; expected {', '.join(words[:-1])} or {words[-1]}")
        return text

    return read


def read_switch(text: str) -> bool:
    """Return whether a text means yes."""
    if text.lower() not in _SWITCHES:
        raise ValueError(f"{text!r} is unknown; expected yes or no")
    return _SWITCHES[text.lower()]


def read_url(text: str) -> str:
    """Return a text that is the URL of a server, without a virtual host."""
    path = None
    # The port of a URL raises if it is no port.
    with suppress(ValueError):
        parts = urlsplit(text)
        path = parts.path if parts.scheme == "amqp" and parts.hostname and parts.port != 0 else None
    shown = repr(without_password(text))
    if path is None:
        valid = "an amqp:// URL with a host and a port from 1 to 65535"
        raise ValueError(f"{shown} is not {valid}; write it as in amqp://guest:guest@localhost:5672")
    if path.lower() not in ("", "/", "/%2f"):
        raise ValueError(f"{shown} names a virtual host, but each test gets one of its own there; leave {path!r} out")
    return text


def without_password(url: str) -> str:
    """Return a URL that a run may print, because what it prints is often public."""
    return re.sub(r"(//[^:@/]*):.*@", r"\1:***@", url)


def read_packages(text: str) -> tuple[str, ...]:
    """Return the packages that a text names."""
    names = sorted(read_names(text))
    for name in names:
        if name not in PACKAGES:
            from leveret.errors import unknown

            raise ValueError(unknown("package", name, PACKAGES))
    return tuple(names)


def read_variables(text: str) -> tuple[Variable, ...]:
    """Return the variables in a text: on each line names, then vhost=NAME or user=NAME if the URL is for another one.

    NAME=port, or another part, is a variable that gets this part of the URL. A semicolon ends a line as well, for the
    command line.
    """
    variables: dict[str, Variable] = {}
    for line in re.split(r"[\n;]", text):
        words = [word.partition("=") for word in line.replace(",", " ").split()]
        place = {name: value for name, _, value in words if name in _OF_URL}
        names = {name: value or "url" for name, _, value in words if name not in _OF_URL}
        for name, part in names.items():
            if part not in _PARTS:
                from leveret.errors import unknown

                raise ValueError(
                    f"{unknown('word', name, _OF_URL)}; write a line as in AMQP_URL vhost=shop user=app"
                    if name.islower()
                    else f"{unknown('part of the URL', part, _PARTS)}; write {name}=host, or {name} for the whole URL"
                )
        if place and not names:
            raise ValueError(f"{line.strip()!r} names no variable; write it first, as in AMQP_URL {line.strip()}")
        for name, part in names.items():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an environment variable, such as AMQP_URL")
            if name in variables:
                raise ValueError(f"{name} is named twice, and can hold one URL only; remove one of the two")
            variables[name] = Variable(name, part, **place)
    return tuple(variables.values())


def _must_be(text: str, *kinds: type) -> Callable[[str, object], object]:
    """Return what refuses a value that is of none of these types."""

    def check(word: str, value: object) -> object:
        if not isinstance(value, kinds):
            raise ValueError(f"{word}={value!r} must be {text}")
        return value

    return check


def _check_path(word: str, value: object) -> object:
    return _check_text(word, os.fspath(value) if isinstance(value, os.PathLike) else value)


def _check_definitions(word: str, value: object) -> object:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    return _must_be("the path of a definitions.json, or what json.load returns", str, Mapping)(word, path)


def _check_names(word: str, value: object) -> object:
    # A text is no collection of letters.
    names = read_names(value) if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{word}={value!r} must be one or more names, such as {word}={{'name'}}")
    return names


def _check_levels(word: str, value: object) -> object:
    try:
        return read_levels(value)
    except ValueError as error:
        raise ValueError(f"{word}={value!r}: {error}") from None


def _check_version(word: str, value: object) -> object:
    if isinstance(value, int | float):
        from leveret.core.compat import number_text

        raise ValueError(number_text(value))
    return _check_text(word, value)


def _as_broker(check: str) -> Callable[[str, object], object]:
    """Return a check of the broker's own, which is imported once a marker gives a value."""

    def checked(word: str, value: object) -> object:
        from leveret.engine import options

        act: Callable[[str, object], object] = getattr(options, check)
        return act(word, value)

    return checked


_check_text: Final = _must_be("a string", str)


class ValueKind(NamedTuple):
    """What the values of an option are."""

    # How the help shows a value.
    metavar: str
    # Reads a text of the command line, of the environment or of an ini file.
    read: Callable[[str], object]
    # Returns the value of a keyword, as a marker gives it.
    check: Callable[[str, object], object] = _check_text
    # How `Broker` annotates its keyword.
    annotation: str = "str"


_LINES: Final = "a mapping of names to values, as in settings={'channel_max': 100}"

ADDRESS: Final = ValueKind("ADDRESS", str)
COUNT: Final = ValueKind("NUMBER", read_count, _as_broker("checked_count"), "int")
DEFINITIONS: Final = ValueKind(
    "FILE", os.path.abspath, _check_definitions, "Mapping[str, object] | str | PathLike[str] | None"
)
DIRECTORY: Final = ValueKind("DIR", read_folder, _check_path, "str | PathLike[str] | None")
FEATURES: Final = ValueKind("FEATURES", read_names, _check_names, "str | Iterable[str]")
LEVELS: Final = ValueKind("LEVELS", read_levels, _check_levels, "Wanted")
LINES: Final = ValueKind("NAME=VALUE", read_settings_of_node, _must_be(_LINES, Mapping), "Mapping[str, object] | None")
NAMES: Final = ValueKind("NAMES", read_names, _check_names, "str | Iterable[str]")
NUMBER: Final = ValueKind("NUMBER", read_number, _must_be("a whole number", int), "int")
PORT: Final = ValueKind("NUMBER", read_number, _as_broker("checked_port"), "int")
RECORD: Final = ValueKind("LEVEL", str, annotation="RecordLevel")
RULE: Final = ValueKind("RULE", str, annotation="DeclareRule")
SWITCH: Final = ValueKind("YES_OR_NO", read_switch, _must_be("True or False", bool), "bool")
TLS: Final = ValueKind("", str, annotation="SSLContext | bool")
URL: Final = ValueKind("URL", str)
USERS: Final = ValueKind("NAME=PASSWORD", read_users, _as_broker("checked_users"), "Mapping[str, str] | None")
VERSIONS: Final = ValueKind("VERSIONS", read_versions, _check_version, "RabbitMQVersion")
