"""The options of a run: where their values come from, the markers of its tests, and which fixtures share a broker.

`table` has a row for each option, of which `kinds` read the texts; `markers` are those of the tests, and `scopes` says
what fixtures share. The marker wins, then `--leveret-WORD`, then `LEVERET_WORD`, then `leveret_WORD`, then the broker's
own default. Every run imports this room, so it imports only what pytest has. The broker validates the values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from pytest_leveret.options.table import TABLE, Option


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it was set."""

    # In the form that the broker takes. The broker validates it.
    value: Any
    origin: str


Settings = Mapping[str, Setting]

# The fixture on which all others of leveret depend; it has the version of a rehearsal as its parameter.
FIXTURE: Final = "_leveret_rabbitmq"
# The settings of this run, once they have been read and checked.
GENERAL: Final = pytest.StashKey[dict[str, Setting]]()
# The test that is running or ending.
RUNNING: Final = pytest.StashKey[pytest.Item]()
_ARE_SET: Final = pytest.StashKey[bool]()
EXPLORE_ONLY: Final = "leveret_explore_only"


def add_options(parser: pytest.Parser) -> None:
    """Add the options of the table, and the one that replays a schedule, which is for the command line only."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    for option in TABLE:
        group.addoption(option.flag, dest=option.ini, metavar=option.kind.metavar, default=None, help=option.help)
        if option.has_ini:
            parser.addini(option.ini, help=option.help, default=None)
    group.addoption(
        "--leveret-explore-only",
        dest=EXPLORE_ONLY,
        metavar="SCHEDULE",
        default=None,
        help="run tests marked leveret_explore under this schedule only, as their report names it",
    )


def has_settings(config: pytest.Config) -> bool:
    """Return whether anything of leveret's is set when the run begins. If not, nothing is for the rest of the run."""
    given = (value for name, value in vars(config.option).items() if name.startswith("leveret_"))
    are_set = any(value is not None for value in given) or any(_text_of(option, config) for option in TABLE)
    config.stash[_ARE_SET] = are_set
    return are_set


def general_settings(config: pytest.Config) -> dict[str, Setting]:
    """Return the settings of command line, environment and ini file, as they were when the run began."""
    return config.stash[GENERAL]


def versions(config: pytest.Config) -> tuple[str, ...]:
    """Return the versions of a rehearsal, oldest first; none if only one was given."""
    setting = general_settings(config).get("rabbitmq")
    return setting.value if setting is not None and isinstance(setting.value, tuple) else ()


def settings_for(config: pytest.Config, version: str | None) -> dict[str, Setting]:
    """Return the settings of the whole run for one version of a rehearsal, by default the newest."""
    settings = dict(general_settings(config))
    rehearsed = versions(config)
    if rehearsed:
        settings["rabbitmq"] = Setting(version or rehearsed[-1], settings["rabbitmq"].origin)
    return settings


def read_settings(config: pytest.Config, options: Iterable[Option]) -> dict[str, Setting]:
    """Return the settings of these options that are set. Raises UsageError if a text cannot be parsed."""
    settings: dict[str, Setting] = {}
    for option in options:
        found = _text_of(option, config)
        if found is not None:
            settings[option.word] = _read(option, *found)
    return settings


def given(config: pytest.Config, name: str) -> Any:
    """Return what the command line gives for an option; None if it does not.

    Before pytest has loaded the conftests, it has read only the options of the plugins known by then.
    """
    value = config.getoption(name, None)
    return getattr(config.known_args_namespace, name, None) if value is None else value


def _text_of(option: Option, config: pytest.Config) -> tuple[str, str] | None:
    if not config.stash.get(_ARE_SET, True):
        return None
    text = given(config, option.ini)
    if text is not None:
        # An empty path on the command line is none, even if environment or ini file set one.
        return (str(text), option.flag) if text or not option.is_path else None
    text = os.environ.get(option.variable)
    if text or not option.has_ini:
        return (text, option.variable) if text else None
    origin = f"ini option {option.ini}"
    text = _ini_text(_ini_value(config, option.ini), origin)
    if text and option.is_path:
        text = str(config.rootpath / text)
    return (text, origin) if text else None


def _ini_value(config: pytest.Config, name: str) -> object:
    """Return the value of an ini option as the file has it.

    pytest 9 reads TOML with its own types, and getini() refuses all but the one that the option was registered with.
    """
    entry: Any = getattr(config, "_inicfg", {}).get(name)
    return entry.value if hasattr(entry, "value") else config.getini(name)


def _ini_text(value: object, origin: str) -> str:
    """Return a value of an ini file as the text that it would be elsewhere: lists and tables have a line an entry."""
    if isinstance(value, float):
        raise pytest.UsageError(f"{origin}: {value!r} is a number; write it in quotes")
    if isinstance(value, Mapping):
        return "\n".join(f"{name}={_ini_text(one, origin)}" for name, one in value.items())
    if isinstance(value, list):
        return "\n".join(_ini_text(one, origin) for one in value)
    return str(value).lower() if isinstance(value, bool) else str("" if value is None else value)


def _read(option: Option, text: str, origin: str) -> Setting:
    try:
        return Setting(option.kind.read(text), origin)
    except ValueError as error:
        raise pytest.UsageError(f"{origin}: {error}") from None
