"""Who imports whom, and what an import costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from itertools import accumulate
from pathlib import Path

import grimp
import pytest

from tests.house.repository import SourceFile, is_module, without_house

# Each costs more than all of leveret, and a test suite that does not use it should not pay for it.
DEAR_MODULES = ("asyncio", "ssl", "logging")
# Of the standard library, what a broker needs for a part of its users, if at all: each takes a millisecond or several.
STANDARD_FOR_SOME = (
    *("base64", "dataclasses", "datetime", "decimal", "difflib", "hashlib", "importlib.metadata", "inspect", "json"),
    *("pathlib", "random", "secrets", "socket", "ssl", "subprocess", "threading", "urllib.parse", "weakref", "zlib"),
)
# Of leveret, what only some tests ask for, or only when something went wrong.
OWN_FOR_SOME = (
    *("admin.definitions_export", "admin.definitions_import"),
    *("engine.harness", "exploration", "faults", "scripted.consumer"),
    *("engine.broker_options", "engine.elsewhere", "trace.version", "observe.assertions.keywords", "time.aio"),
    *("time.autojump", "time.clock", "time.naps", "time.stillness", "server.tls", "trace.writer"),
    *("engine.urls", "http", "http.server"),
    *(
        "core.model.event_exchange",
        "core.model.firehose",
        "core.model.operators.passwords",
        "core.model.operators.policy_keys",
    ),
    *("core.model.queues.quorum", "core.model.streams.stream", "core.wire.ordinary"),
    *(f"core.model.exchanges.{name}" for name in ("x_consistent_hash", "x_delayed_message", "x_random")),
    *(
        "observe.checks.judge",
        "observe.texts.state",
        "observe.assertions.evaluation",
        "observe.assertions.matching",
        "observe.texts.report",
        "observe.views.views",
    ),
)
# How many modules of leveret a first connection may load, a fifth of a millisecond each. This only moves down.
OWN_MODULES_MAX = 113

# How many modules a folder may hold, so that it can be seen at a glance.
IN_A_FOLDER_MAX = 16

# How many modules may import each other in a circle, imports for types included; these only move down.
CIRCLE_MAX = 4
CIRCLE_COUNT_MAX = 5
FOLDER_CIRCLE_COUNT_MAX = 2

# A client that needs nothing but sockets logs in and opens "/".
FIRST_CONNECTION = r"""
from _socket import socket

from leveret import Broker

broker = Broker().start()
peer = socket()
peer.connect((broker.host, broker.port))


def ask(octets, answer):
    peer.sendall(octets)
    while answer not in peer.recv(4096):
        pass


ask(b"AMQP\0\0\x09\x01", b"\0\x0a\0\x0a")
login = b"\0\x0a\0\x0b" + b"\0\0\0\0" + b"\x05PLAIN" + b"\0\0\0\x0c\0guest\0guest" + b"\x05en_US"
ask(b"\x01\0\0\0\0\0\x24" + login + b"\xce", b"\0\x0a\0\x1e")
tuned = b"\x01\0\0\0\0\0\x0c" + b"\0\x0a\0\x1f" + b"\x07\xff\0\x02\0\0\0\0" + b"\xce"
ask(tuned + b"\x01\0\0\0\0\0\x08" + b"\0\x0a\0\x28" + b"\x01/\0\0" + b"\xce", b"\0\x0a\0\x29")
"""


def test_every_layer_imports_only_what_stands_below_it(root: Path) -> None:
    # In a process of its own: the linter configures logging, which would disable the loggers of other tests.
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"], cwd=root, capture_output=True, text=True, timeout=100
    )

    assert ran.returncode == 0, f"against the layers of pyproject.toml:\n{ran.stdout}{ran.stderr}"


def test_every_package_has_a_test(root: Path, python_files: list[SourceFile]) -> None:
    tests = [file for file in without_house(python_files) if file.path.startswith("tests/")]
    tested = {word for file in tests for word in re.findall(r"\bleveret(?:\.| import )(\w+)", file.text)}
    tested.update(file.path.split("/")[1] for file in tests)
    packages = [path.stem for path in sorted((root / "src/leveret").iterdir()) if is_module(path)]

    offences = [f"no test imports leveret.{name}; write tests/{name}" for name in packages if name not in tested]

    assert offences == []


def test_programs_that_no_test_runs_import_what_leveret_has(python_files: list[SourceFile]) -> None:
    missing = [
        f"{file.at(node)} {node.module}.{name.name}"
        for file in python_files
        if '__name__ == "__main__"' in file.text
        for node in file.nodes(ast.ImportFrom)
        if node.module is not None and node.module.startswith("leveret.")
        for name in node.names
        if not has(node.module, name.name)
    ]

    assert missing == []


@pytest.mark.parametrize("statement", ["import leveret", "from leveret import Broker", "Broker().start().stop()"])
def test_nothing_dear_is_imported_before_it_is_asked_for(statement: str) -> None:
    code = f"from leveret import Broker; {statement}" if statement.startswith("Broker") else statement

    imported = modules_after(code)

    assert [name for name in DEAR_MODULES if name in imported] == []


def test_a_first_connection_loads_nothing_that_only_some_ask_for() -> None:
    before, after = set(modules_after("")), modules_after(FIRST_CONNECTION)

    needless = [name for name in (*STANDARD_FOR_SOME, *(f"leveret.{name}" for name in OWN_FOR_SOME)) if name in after]

    assert "leveret.core.protocol.connection" in after
    assert [name for name in needless if name not in before] == []


def test_a_broker_that_comes_and_goes_loads_nothing_dear() -> None:
    before, after = modules_after(""), modules_after("from leveret import Broker; Broker().start().stop()")

    assert [name for name in STANDARD_FOR_SOME if name in after and name not in before] == []


def test_no_folder_holds_more_modules_than_can_be_seen_at_a_glance(source_files: list[SourceFile]) -> None:
    counts = Counter(file.path.rpartition("/")[0] for file in source_files)

    assert {folder: count for folder, count in counts.items() if count > IN_A_FOLDER_MAX} == {}


def test_a_first_connection_loads_no_more_modules_than_it_may() -> None:
    own = [name for name in modules_after(FIRST_CONNECTION) if name.split(".")[0] == "leveret"]

    assert len(own) <= OWN_MODULES_MAX


def test_pytest_loads_the_plugin_without_loading_the_broker() -> None:
    imported = modules_after("import pytest_leveret.plugin")

    assert [name for name in imported if name.split(".")[0] == "leveret"] == []


def test_circles_of_imports_are_few_and_small() -> None:
    circles = circles_of(grimp.build_graph("leveret", exclude_type_checking_imports=False, cache_dir=None))

    larger = [circle for circle in circles if len(circle) > CIRCLE_MAX]

    assert larger == []
    assert len(circles) <= CIRCLE_COUNT_MAX, circles


def test_no_modules_of_the_plugin_import_each_other_in_a_circle() -> None:
    circles = circles_of(grimp.build_graph("pytest_leveret", exclude_type_checking_imports=False, cache_dir=None))

    assert circles == []


def test_circles_through_the_folders_of_modules_are_few_and_small() -> None:
    """Python imports a folder before a module in it, and the folder may import its other modules."""
    graph = grimp.build_graph("leveret", exclude_type_checking_imports=True, cache_dir=None)
    for module in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            for folder in accumulate(imported.split(".")[:-1], "{}.{}".format):
                if not f"{module}.".startswith(f"{folder}."):
                    graph.add_import(importer=module, imported=folder)

    circles = circles_of(graph)

    assert [circle for circle in circles if len(circle) > CIRCLE_MAX] == []
    assert len(circles) <= FOLDER_CIRCLE_COUNT_MAX, circles


def has(module: str, name: str) -> bool:
    """Return whether a module has a name, or is a package with such a module."""
    try:
        return hasattr(import_module(module), name) or import_module(f"{module}.{name}") is not None
    except ModuleNotFoundError as error:
        # What another package lacks says nothing of leveret.
        return not str(error.name).startswith("leveret.")


def circles_of(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the groups of modules that import each other, sorted: the strongly connected components of the graph."""
    imports = {module: sorted(graph.find_modules_directly_imported_by(module)) for module in sorted(graph.modules)}
    # Tarjan's algorithm: the lowest index that a module reaches names its component.
    lowest: dict[str, int] = {}
    path: list[str] = []
    circles: list[list[str]] = []

    def visit(module: str) -> int:
        index = lowest[module] = len(lowest)
        path.append(module)
        for imported in imports[module]:
            if imported not in lowest:
                lowest[module] = min(lowest[module], visit(imported))
            elif imported in path:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == index:
            component = path[path.index(module) :]
            del path[path.index(module) :]
            if len(component) > 1:
                circles.append(sorted(component))
        return lowest[module]

    for module in imports:
        if module not in lowest:
            visit(module)
    return sorted(circles)


def modules_after(code: str) -> list[str]:
    """This returns the names in sys.modules of a fresh interpreter that ran `code`."""
    program = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.split()
