"""What the files, the environment and the arguments of a container say to RabbitMQ, all as lines of rabbitmq.conf.

Later ones win: the arguments of erl, rabbitmq.conf, the files of conf.d, and the Erlang terms of rabbitmq.config and
advanced.config. RabbitMQ refuses to start with a name that it does not know, and so does leveret. `settings.txt` has
the names of RabbitMQ 3.10 to 4.3: a star is one part of a name, and two are any number of parts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files as files_in
from itertools import chain
from typing import Final

Lines = dict[str, str]
# A term of Erlang: a number, an atom or a text, a list, or a tuple.
Term = str | list["Term"] | tuple["Term", ...]

_CONF: Final = re.compile(
    r"/etc/rabbitmq/(rabbitmq\.conf|conf\.d/[^/]+\.conf)|/(opt/)?bitnami/rabbitmq/(etc/rabbitmq|conf)/[^/]+\.conf"
)
_TERMS: Final = re.compile(r"/etc/rabbitmq/(rabbitmq|advanced)\.config|/(opt/)?bitnami/rabbitmq/.*\.config")
_ARGUMENTS: Final = ("RABBITMQ_SERVER_ERL_ARGS", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS")
_TOKEN: Final = re.compile(
    r"""\s+|%[^\n]*|(?P<text><<"(?:[^"\\]|\\.)*">>|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"|(?P<word>-?[\w.]*\w(?:@[\w.]+)?)|(?P<mark>[\[\]{}.,#|]|=>)"
)
_BRACKETS: Final = {"[": "]", "{": "}"}
# The names that a version has under another name.
_ALIASES: Final = {"max_channels_per_connection": "channel_max", "max_connections": "connection_max"}


class WrongConfiguration(ValueError):
    """A configuration with which RabbitMQ refuses to start."""


def lines_of(environment: Mapping[str, str], files: Mapping[str, bytes]) -> Lines:
    """Return the settings of a container by name. Raises WrongConfiguration."""
    named = [
        environment[name] for name in ("RABBITMQ_CONFIG_FILE", "RABBITMQ_ADVANCED_CONFIG_FILE") if name in environment
    ]
    folder = environment.get("RABBITMQ_CONFIG_FILES", "/etc/rabbitmq/conf.d").rstrip("/")
    texts = {path: content.decode() for path, content in sorted(files.items(), key=lambda it: "/conf.d/" in it[0])}
    lines: Lines = {}
    for name in _ARGUMENTS:
        lines |= _of_terms(_of_arguments(shlex.split(environment.get(name, ""))))
    for path, text in texts.items():
        is_named = path in named or path.rpartition(".")[0] in named or path.rpartition("/")[0] == folder
        if path.endswith(".conf") and (is_named or _CONF.fullmatch(path)):
            lines |= _conf(path, text)
    for path, text in texts.items():
        if path.endswith(".config") and (path.rpartition(".")[0] in named or path in named or _TERMS.fullmatch(path)):
            lines |= _of_terms(_terms(path, text))
    return {_ALIASES.get(name, name): value for name, value in lines.items()}


def _conf(path: str, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not (name and equals):
            raise WrongConfiguration(f"{path}: line {number}, {line.strip()!r}, is not of the form NAME = VALUE")
        if _known().fullmatch(name) is None:
            from leveret.errors import did_you_mean

            raise WrongConfiguration(
                f"{path}: unknown setting {name!r}{did_you_mean(name, _names())}; RabbitMQ refuses to start with it"
            )
        quoted = re.match(r"'([^']*)'", value)
        yield name, quoted[1] if quoted else value.partition("#")[0].strip()


@cache
def _names() -> tuple[str, ...]:
    return tuple(files_in(__package__).joinpath("settings.txt").read_text(encoding="utf-8").split())


@cache
def _known() -> re.Pattern[str]:
    """Return the pattern of the names that RabbitMQ knows."""
    patterns = (re.escape(name).replace(r"\*\*", ".+").replace(r"\*", r"[^.]+") for name in _names())
    return re.compile("|".join(patterns))


def _terms(path: str, text: str) -> Term:
    """Return the term of a file. Raises WrongConfiguration."""
    try:
        return _term(_tokens(text))
    except (ValueError, StopIteration):
        raise WrongConfiguration(f"{path} is not a list of Erlang terms that ends with a dot") from None


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the tokens of Erlang terms, and whether each is a mark. Raises ValueError."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(text[at:])
        at = found.end()
        if found["text"]:
            yield re.sub(r"\\(.)", r"\1", found["text"].strip("<>")[1:-1]), False
        elif found["word"] or found["mark"]:
            yield found["word"] or found["mark"], bool(found["mark"])


def _term(tokens: Iterator[tuple[str, bool]]) -> Term:
    token, is_mark = next(tokens)
    if not is_mark:
        return token
    if token == "#":
        return _term(tokens)
    return _inner(tokens, _BRACKETS[token])


def _inner(tokens: Iterator[tuple[str, bool]], end: str) -> Term:
    items: list[Term] = []
    for token in tokens:
        if token == (end, True):
            return items if end == "]" else tuple(items)
        if token not in ((",", True), ("|", True), ("=>", True)):
            items.append(_term(chain([token], tokens)))
    raise ValueError(end)


def _of_arguments(words: Sequence[str]) -> Term:
    """Return the terms that arguments of erl, such as `-rabbit heartbeat 10`, set."""
    found: list[Term] = []
    application, rest = "", list(words)
    while rest:
        word = rest.pop(0)
        if word[:1] in ("-", "+"):
            application = word[1:]
        elif application and rest and rest[0][:1] not in ("-", "+"):
            found.append((application, [(word, _value(rest.pop(0)))]))
    return found


def _value(text: str) -> Term:
    try:
        return _term(_tokens(text)) if text[:1] in "[{\"'<" else text
    except (ValueError, StopIteration):
        return text


def _of_terms(config: Term) -> Lines:
    """Return the lines that stand for the settings of the applications rabbit and rabbitmq_management."""
    lines: Lines = {}
    for application in config if isinstance(config, list) else ():
        match application:
            case ("rabbit" | "rabbitmq_management" as name, [*settings]):
                for setting in settings:
                    if isinstance(setting, tuple) and len(setting) == 2 and isinstance(setting[0], str):
                        lines |= _lines(setting[0], setting[1], of_broker=name == "rabbit")
    return lines


def _lines(name: str, value: Term, *, of_broker: bool) -> Lines:
    if name == "load_definitions":
        return {name: str(value)}
    if not of_broker:
        return {}
    values = [str(each[-1] if isinstance(each, tuple) else each) for each in value] if isinstance(value, list) else []
    match name:
        case "loopback_users":
            return {f"{name}.{user}": "true" for user in values} or {name: "none"}
        case "default_user_tags":
            return {f"{name}.{tag}": "true" for tag in values}
        case "auth_mechanisms" | "auth_backends":
            return {f"{name}.{number}": each for number, each in enumerate(values, start=1)}
        case "default_permissions":
            return {
                f"{name}.{right}": each for right, each in zip(("configure", "write", "read"), values, strict=False)
            }
        case "tcp_listeners" if values:
            return {"listeners.tcp.default": values[0]}
        case "cluster_nodes":
            return {"cluster_formation.classic_config": str(value)}
    return {name: "infinity" if value == "undefined" else value} if isinstance(value, str) else {}


def plugins_in(texts: Iterable[str]) -> list[str]:
    """Return the plugins that texts such as `[rabbitmq_management,rabbitmq_tracing].` name."""
    return [name for text in texts for name in re.findall(r"\brabbitmq_\w+", text)]


def of_command(command: object) -> dict[str, str]:
    """Return the variables that stand for a container's command: the plugins that it enables before RabbitMQ starts."""
    text = command if isinstance(command, str) else " ".join(map(str, command if isinstance(command, list) else ()))
    enabled = plugins_in(re.findall(r"rabbitmq-plugins\s+enable\s+([^;&|]+)", text))
    return {"RABBITMQ_PLUGINS": " ".join(enabled)} if enabled else {}
