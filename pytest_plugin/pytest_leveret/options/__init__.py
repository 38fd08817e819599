"""The options of the plugin: one row for each, and where its value comes from.

Every run imports this module, so it imports only what pytest has. A setting of a broker has the same name in the
marker, on the command line, in the environment and in the ini file. The marker wins, then `--leveret-WORD`, then
`LEVERET_WORD`, then `leveret_WORD`, then the broker's own default. Texts are parsed here and validated by the broker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: how the help shows it, what it means, and how its text is parsed."""

    word: str
    metavar: str
    help: str
    read: Callable[[str], object]
    # Whether it is a path: in the ini file and in a marker, it is relative to pytest's rootdir.
    is_path: bool = False
    has_ini: bool = True

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
    """A value, and where it was set."""

    # In the form that the broker takes. The broker validates it.
    value: Any
    origin: str


Settings = Mapping[str, Setting]

# The settings of this run, once they have been read and checked.
GENERAL: Final = pytest.StashKey[dict[str, Setting]]()
_ARE_SET: Final = pytest.StashKey[bool]()


def read_names(text: str) -> frozenset[str]:
    """Return the names in a text, separated by commas or white space."""
    return frozenset(text.replace(",", " ").split())


def read_number(text: str) -> int:
    """Return the whole number in a text."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def read_users(text: str) -> dict[str, str]:
    """Return passwords by user name from a text such as `app=secret auditor=other`."""
    from leveret.engine.options import users_in

    return users_in(text)


def read_settings_of_node(text: str) -> dict[str, int | bool | str]:
    """Return the values of settings by name from lines such as `channel_max = 100`."""
    from leveret.engine.options import settings_in

    return settings_in(text)


def read_count(text: str) -> int:
    """Return the whole number in a text, which must be 1 or more."""
    number = read_number(text)
    if number < 1:
        raise ValueError(f"{text!r} is not 1 or more")
    return number


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


_SWITCHES: Final = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}
_VERSIONS: Final = (
    "the RabbitMQ version that the broker behaves as (default: 4.3); several, such as 3.13,4.3, rehearse an upgrade"
)

OPTIONS: Final = (
    Option("rabbitmq", "VERSIONS", _VERSIONS, read_versions),
    Option("permit", "FEATURES", "deprecated features to permit although that version denies them", read_names),
    Option("seed", "NUMBER", "the seed of the broker's random choices (default: 0)", read_number),
    Option("record", "LEVEL", "what to record for assertions and reports: recent or off (default: recent)", str),
    Option(
        "trace_dir",
        "DIR",
        "write every event to a trace file in this directory; an empty value writes none",
        os.path.abspath,
        is_path=True,
    ),
    Option("trace_bodies", "YES_OR_NO", "also write message bodies to the trace file (default: no)", read_switch),
    Option("trace_redact", "NAMES", "more headers whose values are left out of the trace file", read_names),
    Option(
        "checks", "LEVELS", "levels of strict checks, such as unroutable=error or expired_into_nothing=off", read_levels
    ),
    Option(
        "max_redeliveries",
        "NUMBER",
        "how often a message may come back before redelivered_too_often reports it (default: 100)",
        read_count,
    ),
    Option(
        "users", "NAME=PASSWORD", "users with every right on / and on the virtual hosts of leveret_vhosts", read_users
    ),
    Option("vhosts", "NAMES", "virtual hosts to create", read_names),
    Option(
        "definitions",
        "FILE",
        "a definitions.json of RabbitMQ to import; an empty value imports none",
        os.path.abspath,
        is_path=True,
    ),
    Option(
        "declare",
        "RULE",
        "what clients may declare beside the definitions: freely or must_match (default: freely)",
        str,
    ),
    Option("plugins", "NAMES", "plugins of RabbitMQ to enable", read_names),
    Option("settings", "NAME=VALUE", "settings of rabbitmq.conf, such as channel_max=100", read_settings_of_node),
    Option("host", "ADDRESS", "the address that the broker listens on (default: 127.0.0.1)", str),
    Option("port", "NUMBER", "the port that the broker listens on (default: a free one)", read_number),
    Option("management", "YES_OR_NO", "open a port for HTTP beside the broker's (default: no)", read_switch),
)
WORDS: Final = tuple(option.word for option in OPTIONS)

PAGES_MAX: Final = 100
REAL_WAIT_S: Final = 10.0


def _read_url(text: str) -> str:
    from pytest_leveret.real import read_url

    return read_url(text)


def _read_seconds(text: str) -> float:
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        raise ValueError(f"{text!r} is not a number of seconds; write it as in 10") from None


def _read_variables(text: str) -> object:
    from pytest_leveret.brokers.url_env import read_variables

    return read_variables(text)


def _read_packages(text: str) -> object:
    from pytest_leveret.standins import read_packages

    return read_packages(text)


PAGES: Final = (
    Option(
        "pages",
        "WHEN",
        "which tests get a page on what happened: failed, all or off (default: failed)",
        read_choice("failed", "all", "off"),
    ),
    Option(
        "pages_dir",
        "DIR",
        "where the pages are written (default: a new directory in pytest's cache, which keeps three runs)",
        os.path.abspath,
        is_path=True,
    ),
    Option("pages_limit", "NUMBER", f"the most pages that a run writes (default: {PAGES_MAX})", read_count),
)
OTLP: Final = (
    Option(
        "otlp",
        "DIR",
        "write the messages of each test as spans of OpenTelemetry, in OTLP/JSON, to this directory",
        os.path.abspath,
        is_path=True,
    ),
)
URL_ENV: Final = (
    Option(
        "url_env",
        "NAMES",
        "environment variables to set to the URL of leveret_session before conftests and tests are imported, such as "
        "AMQP_URL, or AMQP_URL vhost=shop user=app",
        _read_variables,
    ),
)
STANDINS: Final = (
    Option(
        "replaces",
        "PACKAGES",
        "serve the RabbitMQ that these packages would start: testcontainers, pytest-docker, pytest-rabbitmq; an empty "
        "value replaces nothing",
        _read_packages,
    ),
    Option(
        "unserved",
        "FAIL_OR_SKIP",
        "what becomes of a test that asks a replaced RabbitMQ for something that only a server has (default: fail)",
        read_choice("fail", "skip"),
    ),
)
REAL: Final = (
    Option(
        "real",
        "URL",
        "run on this RabbitMQ, amqp://user:password@host:port, with a virtual host for each test",
        _read_url,
        has_ini=False,
    ),
    Option(
        "real_management",
        "URL",
        "the URL of its management API (default: the same host and user, at the AMQP port + 10000)",
        str,
        has_ini=False,
    ),
    Option(
        "real_wait",
        "SECONDS",
        f"how much time a test may move there, which is waited for (default: {REAL_WAIT_S:g}); beyond, it is skipped",
        _read_seconds,
        has_ini=False,
    ),
)
EXPLORE_ONLY: Final = "leveret_explore_only"
TABLES: Final = (OPTIONS, PAGES, OTLP, URL_ENV, STANDINS, REAL)


def add_options(parser: pytest.Parser, options: Iterable[Option]) -> None:
    """Add options to pytest."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    for option in options:
        group.addoption(option.flag, dest=option.ini, metavar=option.metavar, default=None, help=option.help)
        if option.has_ini:
            parser.addini(option.ini, help=option.help, default=None)


def add_explore_option(parser: pytest.Parser) -> None:
    """Add the option that replays one schedule of an exploration. It has no other place than the command line."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
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
    rows = (option for table in TABLES for option in table)
    are_set = any(value is not None for value in given) or any(_text_of(option, config) for option in rows)
    config.stash[_ARE_SET] = are_set
    return are_set


def general_settings(config: pytest.Config) -> dict[str, Setting]:
    """Return the settings of command line, environment and ini file, as they were when the run began."""
    return config.stash[GENERAL]


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
        return Setting(option.read(text), origin)
    except ValueError as error:
        raise pytest.UsageError(f"{origin}: {error}") from None
