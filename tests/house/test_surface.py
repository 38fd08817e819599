"""What a test can call or set is documented and tested: keywords, assertions, commands, options."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import leveret
from leveret import (
    BindingView,
    ChannelView,
    ConnectionView,
    ConsumerView,
    ExchangeView,
    FaultPlan,
    MessageView,
    QueueView,
)
from leveret.admin.admin import Admin
from leveret.broker import KEYWORDS, Broker
from leveret.core.compat import VERSIONS
from leveret.core.model.operators import node_settings
from leveret.observe.assertions.matching import KEYWORDS as KEYWORDS_OF_MESSAGES
from leveret.observe.assertions.searching import HAPPENINGS
from tests.house.repository import SourceFile, members_of, without_house

# How many public names a broker may have beside its assertions, which are twelve. This only moves down; the last that
# was added is `replay`.
OTHER_NAMES_MAX = 45

VIEWS = [BindingView, ChannelView, ConnectionView, ConsumerView, ExchangeView, MessageView, QueueView]

# Assertions that ask something else than the trace for messages.
OF_NO_HAPPENING = ("assert_empty", "assert_not_published", "assert_ready", "assert_refused")

ASSERTIONS = [name for name in members_of(Broker) if name.startswith("assert_")]
COMMANDS = [name for name, value in members_of(Admin).items() if not name.startswith("_") and callable(value)]


@pytest.fixture(scope="session")
def tests_text(python_files: list[SourceFile]) -> str:
    return "\n".join(file.text for file in without_house(python_files) if file.path.startswith(("tests/", "examples/")))


def test_every_public_name_is_documented(root: Path) -> None:
    pages = read(root, "docs/reference/types.md") + read(root, "docs/reference/broker.md")

    missing = [name for name in leveret.__all__ if not name.startswith("_") and f"`{name}`" not in pages]

    assert missing == [], "neither docs/reference/types.md nor docs/reference/broker.md names these of leveret"


def test_every_keyword_of_a_broker_is_documented_and_tested(root: Path, tests_text: str) -> None:
    page = read(root, "docs/reference/broker.md")

    offences = [
        f"docs/reference/broker.md does not name the keyword `{name}` of Broker()"
        for name in KEYWORDS
        if f"`{name}`" not in page
    ]
    offences += [
        f"no test gives Broker() the keyword {name!r}; write it in tests/broker"
        for name in KEYWORDS
        if f"({name}=" not in tests_text and f" {name}=" not in tests_text
    ]

    assert offences == []


def test_every_line_of_rabbitmq_conf_is_documented_and_tested(root: Path, tests_text: str) -> None:
    page = read(root, "docs/reference/broker.md")

    offences = [
        f"docs/reference/broker.md does not name the line `{name}` of settings"
        for name in node_settings.names()
        if f"`{name}`" not in page
    ]
    offences += [
        f"no test gives Broker(settings=...) the line {name!r}; write it in tests/admin"
        for name in node_settings.names()
        if f'"{name}": ' not in tests_text
    ]

    assert offences == []


def test_every_extra_is_documented_with_what_it_installs(root: Path) -> None:
    extras = tomllib.loads(read(root, "pyproject.toml"))["project"]["optional-dependencies"]
    page = read(root, "docs/reference/extras.md")

    documented = {
        name: set(packages.split(", ")) for name, packages in re.findall(r"^\| `([\w-]+)` \| (.*?) \|", page, re.M)
    }

    for_users = {
        name: packages for name, packages in extras.items() if name not in ("examples", "docs", "dev", "dev-all")
    }
    assert documented == {name: {name_of(package) for package in packages} for name, packages in for_users.items()}


def name_of(requirement: str) -> str:
    """Return the name of a package, or of the extra of leveret that a requirement names."""
    of_leveret = re.match(r"leveret\[(.*)\]", requirement)
    return of_leveret[1] if of_leveret else re.split(r"[^\w-]", requirement)[0]


def test_every_version_is_documented(root: Path) -> None:
    offences = [
        f"{path} does not name RabbitMQ {version}"
        for path in ("README.md", "docs/reference/options.md")
        for version in VERSIONS
        if not re.search(rf"(?<![\d.]){re.escape(version)}(?!\d)", read(root, path))
    ]

    assert offences == []


def test_every_assertion_is_documented_tested_and_has_its_events(root: Path, tests_text: str) -> None:
    page = read(root, "docs/reference/broker.md")

    offences = [f"docs/reference/broker.md has no line for `{name}`" for name in ASSERTIONS if f"| `{name}" not in page]
    offences += [
        f"no test calls {name}; write it in tests/observe" for name in ASSERTIONS if f".{name}(" not in tests_text
    ]
    offences += [
        f"HAPPENINGS in src/leveret/observe/assertions/searching.py has no row for {name}"
        for name in ASSERTIONS
        if name not in OF_NO_HAPPENING and name.removeprefix("assert_") not in HAPPENINGS
    ]
    offences += [
        f"HAPPENINGS has a row {name!r}, and src/leveret/observe/assertions/assertions.py has no assert_{name}"
        for name in HAPPENINGS
        if f"assert_{name}" not in ASSERTIONS
    ]

    assert offences == []


def test_the_help_of_an_assertion_names_its_keywords() -> None:
    """An editor shows the docstring, and of the keywords themselves only `**options`."""
    full = Broker.assert_published.__doc__ or ""
    assert [word for word in (*KEYWORDS_OF_MESSAGES, "times", "timeout", "vhost") if f"`{word}`" not in full] == [
        "exchange"
    ]

    others = [name for name in ASSERTIONS if name not in ("assert_published", "assert_empty", "assert_refused")]
    for name in others:
        assert "`assert_published`" in (getattr(Broker, name).__doc__ or ""), name


def test_every_admin_command_is_documented_and_tested(root: Path, tests_text: str) -> None:
    page = read(root, "docs/reference/admin.md")

    offences = [
        f"docs/reference/admin.md does not name `{name}` of broker.admin"
        for name in COMMANDS
        if not re.search(rf"`{name}[`(]", page)
    ]
    offences += [
        f"no test calls {name} of broker.admin; write it in tests/admin"
        for name in COMMANDS
        if f".{name}(" not in tests_text
    ]

    assert offences == []


def read(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_has_no_methods(kind: type) -> None:
    """An editor completes with everything public, so what only leveret calls is a function of the module."""
    assert [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))] == []


def test_broker_faults_has_only_what_the_page_of_faults_lists(root: Path) -> None:
    page = read(root, "docs/reference/faults.md")

    assert [name for name in dir(FaultPlan) if name[0] != "_" and not re.search(rf"\b{name}\b", page)] == []


def test_a_broker_has_few_public_names() -> None:
    names = {name for name in (*dir(Broker), *vars(Broker())) if not name.startswith(("_", "assert_"))}

    assert len(names) <= OTHER_NAMES_MAX, sorted(names)
