"""Words that may not stand in some of our files, and what each rule forgives."""

from __future__ import annotations

import ast
import re

from tests.house.repository import SourceFile

BANNED_CALLS_IN_CORE = ("print", "hash", "id", "input", "open", "eval", "exec")
FORGIVEN_CALLS = {
    # What __hash__ is for; no order depends on it.
    ("src/leveret/core/wire/values.py", "hash"),
}

BANNED_IMPORTS_IN_CORE = ("time", "random", "logging", "socket", "threading", "asyncio", "os", "uuid", "secrets")

# A URL in this repository leads to this machine or to one of these.
KNOWN_HOSTS = (
    "127.0.0.1",
    "localhost",
    "example.com",
    "github.com",
    "keepachangelog.com",
    "semver.org",
    "json-schema.org",
    "pyodide.org",
    "rabbitmq.com",
    "www.rabbitmq.com",
    "raw.githubusercontent.com",
    "leveret-broker.github.io",
    "www.contributor-covenant.org",
)


def test_the_core_calls_nothing_that_prints_reads_or_depends_on_an_address(core_files: list[SourceFile]) -> None:
    offences = [
        f"{file.at(call)} {call.func.id}()"
        for file in core_files
        for call in file.nodes(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id in BANNED_CALLS_IN_CORE
        if (file.path, call.func.id) not in FORGIVEN_CALLS
    ]

    assert offences == []


def test_the_core_asks_no_clock_and_throws_no_dice(core_files: list[SourceFile]) -> None:
    offences = [
        f"{file.at(node)} {name}"
        for file in core_files
        for node in file.nodes(ast.AST)
        for name in imported_names(node)
        if name.split(".")[0] in BANNED_IMPORTS_IN_CORE
    ]

    assert offences == []


def test_the_core_iterates_no_set(core_files: list[SourceFile]) -> None:
    offences = [
        file.at(iterated)
        for file in core_files
        for iterated in [
            *(loop.iter for loop in file.nodes(ast.For)),
            *(part.iter for part in file.nodes(ast.comprehension)),
        ]
        if is_set(iterated)
    ]

    assert offences == []


def test_the_core_is_typed_without_any_and_without_exceptions(core_files: list[SourceFile]) -> None:
    offences = [f"{file.at(name)} Any" for file in core_files for name in file.nodes(ast.Name) if name.id == "Any"]
    offences += [f"{file.path}:{line} {text}" for file in core_files for line, text in file.comments if "type:" in text]

    assert offences == []


def test_nobody_compares_versions_but_compat(source_files: list[SourceFile]) -> None:
    offences = [
        file.at(comparison)
        for file in source_files
        if file.path != "src/leveret/core/compat.py"
        for comparison in file.nodes(ast.Compare)
        for side in (comparison.left, *comparison.comparators)
        if isinstance(side, ast.Attribute) and side.attr in ("version", "product_version")
    ]

    assert offences == []


def test_nobody_sleeps(python_files: list[SourceFile]) -> None:
    offences = [
        file.at(call)
        for file in python_files
        for call in file.nodes(ast.Call)
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "sleep"
        if file.path not in MAY_SLEEP
    ]

    assert offences == []


# Where time really has to pass, because a real RabbitMQ has no clock that a test could move.
# The benchmark measures both for a span of real time. The table of clients waits for a
# client's own thread, and one row is about pika's own `sleep`.
MAY_SLEEP = (
    "tests/checks/swallowing.py",
    "tests/semantics/target.py",
    "tests/management/scenario.py",
    "benchmarks/fairness.py",
    "benchmarks/peer_features.py",
)


def test_doubts_are_no_comments(python_files: list[SourceFile]) -> None:
    marks = re.compile("TODO|FIXME|XXX")

    offences = [
        f"{file.path}:{line} {text}"
        for file in python_files
        # To find the comments takes longer.
        if marks.search(file.text)
        for line, text in file.comments
        if marks.search(text)
    ]

    assert offences == []


def test_no_file_needs_section_banners(python_files: list[SourceFile]) -> None:
    banner = re.compile(r"#\s*[-=*#~]{3,}")

    offences = [
        f"{file.path}:{line} {text}"
        for file in python_files
        if banner.search(file.text)
        for line, text in file.comments
        if banner.match(text)
    ]

    assert offences == []


def test_no_path_of_somebodys_machine_is_written_down(text_files: list[SourceFile]) -> None:
    path = re.compile(r"(?<![\w./~-])/(?:home|root|Users|work|mnt|private)/\w+")

    assert matches(text_files, path) == []


def test_urls_lead_to_known_hosts(text_files: list[SourceFile]) -> None:
    other_host = re.compile(rf"https?://(?:\w+:\w+@)?+(?!(?:{'|'.join(map(re.escape, KNOWN_HOSTS))})\b|\{{|\[)[\w.-]+")

    assert matches(text_files, other_host) == []


def imported_names(node: ast.AST) -> list[str]:
    """These are the modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def is_set(node: ast.expr) -> bool:
    """This says whether an expression plainly makes a set."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


def matches(files: list[SourceFile], pattern: re.Pattern[str]) -> list[str]:
    """These are the places where a pattern is found."""
    return [
        f"{file.path}:{number} {match.group()}"
        for file in files
        for number, line in enumerate(file.lines, start=1)
        for match in pattern.finditer(line)
    ]
