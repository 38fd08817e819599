"""The options: one row for each word that says which broker a test gets, and where a value comes from.

A word is the same as a marker's keyword, on the command line, in the environment and in the ini file. The marker wins,
then `--leveret-WORD`, then `LEVERET_WORD`, then `leveret_WORD`, then the broker's own default. Texts are read here and
judged by the broker itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest


@dataclass(frozen=True, slots=True)
class Option:
    """One word: how it is shown, what it means, and how its text is read."""

    word: str
    metavar: str
    help: str
    read: Callable[[str], object]

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--leveret-{self.word.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"LEVERET_{self.word.upper()}"

    @property
    def ini(self) -> str:
        """Its name in the ini file."""
        return f"leveret_{self.word}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and the place it was given at."""

    # As the broker takes it, which judges it.
    value: Any
    origin: str


Settings = Mapping[str, Setting]

_GENERAL: Final = pytest.StashKey[dict[str, Setting]]()


def read_names(text: str) -> frozenset[str]:
    """The names in a text, parted by commas or white space."""
    return frozenset(text.replace(",", " ").split())


def read_number(text: str) -> int:
    """The whole number in a text."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def read_levels(value: object) -> str:
    """Levels of strict checks as one text, in which what comes later wins."""
    if isinstance(value, Mapping):
        value = [f"{name}={level}" for name, level in value.items()]
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, Iterable) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{value!r} are no levels of checks, as in 'unroutable=error'")
    return " ".join(words)


def read_versions(text: str) -> str | tuple[str, ...]:
    """The version in a text, or several, oldest first."""
    names = sorted(read_names(text), key=_age)
    return tuple(names) if len(names) > 1 else "".join(names)


def _age(version: str) -> list[int]:
    return [int(part) if part.isdecimal() else 0 for part in version.split(".")]


def read_switch(text: str) -> bool:
    """Whether a text says yes."""
    if text.lower() not in _SWITCHES:
        raise ValueError(f"{text!r} is neither yes nor no")
    return _SWITCHES[text.lower()]


_SWITCHES: Final = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}
_VERSIONS: Final = (
    "the RabbitMQ version the broker behaves as (default: 4.3); several, as in 3.13,4.3, rehearse an upgrade"
)

OPTIONS: Final = (
    Option("rabbitmq", "VERSIONS", _VERSIONS, read_versions),
    Option("permit", "FEATURES", "deprecated features to allow though that version denies them", read_names),
    Option("seed", "NUMBER", "the seed of what the broker leaves to chance (default: 0)", read_number),
    Option("record", "LEVEL", "what is recorded for assertions and reports: ring or off (default: ring)", str),
    Option(
        "trace_dir",
        "DIR",
        "write everything that happens to a trace file in this directory; empty: do not",
        os.path.abspath,
    ),
    Option("trace_bodies", "YES_OR_NO", "write the bodies of messages to it too (default: no)", read_switch),
    Option("trace_redact", "NAMES", "further headers whose values are not written to it", read_names),
    Option("checks", "LEVELS", "levels of strict checks, as unroutable=error or expired_into_nothing=off", read_levels),
    Option("host", "ADDRESS", "the address the broker listens on (default: 127.0.0.1)", str),
)
WORDS: Final = tuple(option.word for option in OPTIONS)


def add_options(parser: pytest.Parser) -> None:
    """Tell pytest of every option."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    for option in OPTIONS:
        group.addoption(option.flag, dest=option.ini, metavar=option.metavar, default=None, help=option.help)
        parser.addini(option.ini, help=option.help, default=None)


def general_settings(config: pytest.Config) -> dict[str, Setting]:
    """What command line, environment and ini file said when the run began, by word."""
    return config.stash[_GENERAL]


def read_general_settings(config: pytest.Config) -> dict[str, Setting]:
    """Read command line, environment and ini file; UsageError for a text that cannot be read."""
    settings = config.stash[_GENERAL] = dict[str, Setting]()
    for option in OPTIONS:
        found = _text_of(option, config)
        if found is not None:
            settings[option.word] = _read(option, *found)
    return settings


def _text_of(option: Option, config: pytest.Config) -> tuple[str, str] | None:
    text = config.getoption(option.ini)
    if text is not None:
        # In no directory nothing is written, whatever environment and ini file say.
        return (str(text), option.flag) if text or option.word != "trace_dir" else None
    text = os.environ.get(option.variable)
    if text:
        return text, option.variable
    text = config.getini(option.ini)
    if text and option.word == "trace_dir":
        text = config.rootpath / text
    return (str(text), f"ini option {option.ini}") if text else None


def _read(option: Option, text: str, origin: str) -> Setting:
    try:
        return Setting(option.read(text), origin)
    except ValueError as error:
        raise pytest.UsageError(f"{origin}: {error}") from None
