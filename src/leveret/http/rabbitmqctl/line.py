"""A command line of rabbitmqctl, read by what RabbitMQ's tools say of their commands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

# The exit codes of RabbitMQ's tools, by the names of sysexits.h: EX_USAGE and so on.
USAGE: Final = 64
DATA: Final = 65
NO_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
# What every command takes; the others are in `commands.json`.
_COMMON: Final = {
    **dict.fromkeys(("--node", "--vhost", "--formatter", "--printer"), "string"),
    **dict.fromkeys(("--quiet", "--silent", "--longnames", "--help", "--no-table-headers", "--dry-run"), "boolean"),
    "--timeout": "integer",
}
_LETTERS: Final = {
    "-n": "--node",
    "-t": "--timeout",
    "-p": "--vhost",
    "-q": "--quiet",
    "-s": "--silent",
    "-l": "--longnames",
    "-?": "--help",
}


class Stopped(Exception):
    """A command that ends with an exit code, and a text for stderr."""

    def __init__(self, code: int, text: str, output: str = "") -> None:
        super().__init__(text)
        self.code = code
        # What it has written to stdout.
        self.output = output


class Printed(NamedTuple):
    """The exit code of a command, and what it wrote to stdout and to stderr."""

    code: int
    output: str = ""
    errors: str = ""


@cache
def declared() -> Mapping[str, Mapping[str, Any]]:
    """Return what RabbitMQ's tools say of their commands, by name."""
    value: Mapping[str, Mapping[str, Any]] = json.loads(files(__package__).joinpath("commands.json").read_bytes())
    return value


@dataclass
class CommandLine:
    """The words and switches of a command line. The first word is the command."""

    words: list[str] = field(default_factory=list)
    switches: dict[str, str] = field(default_factory=dict)
    # The switches that the command does not have, or whose value is none.
    invalid: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, words: Sequence[str]) -> CommandLine:
        """Return what is said after the name of a tool."""
        # Switches may stand before the command, which says what switches it has.
        command = declared().get(next(iter(_read(words, {}, {}).words), ""), {})
        return _read(words, command.get("switches", {}), command.get("aliases", {}))

    @property
    def command(self) -> str:
        """The name of the command, "" if there is none."""
        return self.words[0] if self.words else ""

    @property
    def arguments(self) -> list[str]:
        """The words after the command."""
        return self.words[1:]

    @property
    def vhost(self) -> str:
        """The virtual host that the command is about."""
        return self.switches.get("--vhost", "/")

    def has(self, *names: str) -> bool:
        """Return whether one of these switches is on."""
        return any(self.switches.get(name) == "true" for name in names)


def _read(words: Sequence[str], own: Mapping[str, str], aliases: Mapping[str, str]) -> CommandLine:
    line, rest = CommandLine(), iter(words)
    kinds, letters = {**_COMMON, **own}, {**_LETTERS, **aliases}
    for word in rest:
        if not word.startswith("-") or word == "-":
            line.words.append(word)
            continue
        given, equals, value = word.partition("=")
        name = letters.get(given, given)
        kind = kinds.get(name)
        if kind == "boolean":
            line.switches[name] = value if equals else "true"
        elif kind is None:
            line.invalid.append(f"{given} : ")
        else:
            value = value if equals else next(rest, "")
            line.switches[name] = value
            if kind == "integer" and not value.lstrip("-").isdecimal():
                line.invalid.append(f"{given} : {value}")
    return line


def comma_separated(text: str) -> list[str]:
    """Return the names in a text such as "a, b"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def size_of(text: str) -> int | None:
    """Return the bytes of a text such as "1GB" or "1GiB", None if it is none, as "1gb" and "1.5GB" (seen on 4.3)."""
    unit = text.lstrip("0123456789")
    number = text[: len(text) - len(unit)]
    return int(number) * _UNITS[unit] if number and unit in _UNITS else None


_UNITS: Final = {"": 1} | {
    f"{letter}{rest}": base**power
    for power, letter in enumerate("kMG", 1)
    for rest, base in (("", 1024), ("iB", 1024), ("B", 1000))
}
