"""What would fail on another system: modules and functions that Windows lacks, and text in the encoding of a system."""

from __future__ import annotations

import ast
import os

import pytest

from tests.house.repository import SourceFile
from tests.systems import needs_fork

# Modules of the standard library for Unix only.
UNIX_MODULES = ("crypt", "fcntl", "grp", "nis", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
# Names of `os`, `signal` and `socket` for Unix only. Each use stands behind a question whether the name exists.
UNIX_NAMES = (
    *("fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "getloadavg", "getpgid", "getpgrp", "initgroups"),
    *("killpg", "lchown", "chown", "mkfifo", "mknod", "nice", "openpty", "pipe2", "posix_spawn", "pread", "pwrite"),
    *("register_at_fork", "sched_getaffinity", "sendfile", "setpgid", "setsid", "sync", "sysconf", "uname", "wait3"),
    *("pthread_kill", "pthread_sigmask", "setitimer", "sigwait", "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1"),
    *("SO_REUSEPORT", "AF_UNIX", "TCP_QUICKACK"),
)
FORGIVEN = {
    # Behind `hasattr`.
    ("src/leveret/server/loop.py", "register_at_fork"),
    ("src/leveret/observe/calls/callers.py", "register_at_fork"),
    ("src/leveret/pipeline/computing/engines.py", "sched_getaffinity"),
    ("src/leveret/trials/watchdog.py", "pthread_kill"),
    # pytest-timeout has this method only where there is such a signal.
    ("pytest_plugin/pytest_leveret/reports/diagnosing.py", "SIGALRM"),
    # The first is not reached without /proc; the second catches AttributeError.
    ("src/leveret/http/management/endpoints/overview.py", "sysconf"),
    # Where there is no fork, nothing starts that process; the groups of processes stand behind `sys.platform`.
    *(("src/leveret/workers/fork_server.py", name) for name in ("fork", "killpg", "setpgid", "SIGCHLD", "SIGHUP")),
    *(("src/leveret/workers/fork_server.py", name) for name in ("register_at_fork", "SIGKILL")),
    *(("src/leveret/workers/processes.py", name) for name in ("fork", "killpg", "SIGKILL")),
}


def test_no_module_of_unix_is_imported_where_its_absence_would_stop_an_import(source_files: list[SourceFile]) -> None:
    offences = [
        f"{file.at(node)} {name}"
        for file in source_files
        for node in file.tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name in UNIX_MODULES
    ]

    assert offences == []


def test_no_function_of_unix_is_called_unasked(source_files: list[SourceFile]) -> None:
    uses = {
        (file.path, node.attr): file.at(node)
        for file in source_files
        for node in file.nodes(ast.Attribute)
        if node.attr in UNIX_NAMES
        if isinstance(node.value, ast.Name) and node.value.id in ("os", "signal", "socket", "_socket")
    }

    assert [f"{place} {name}" for (path, name), place in uses.items() if (path, name) not in FORGIVEN] == []
    assert uses.keys() >= FORGIVEN, "an exemption that is no longer needed"


def test_text_files_have_an_encoding_and_written_ones_a_newline(source_files: list[SourceFile]) -> None:
    offences = [
        f"{file.at(node)} {lacking}"
        for file in source_files
        for node in file.nodes(ast.Call)
        for lacking in lacking_of(node)
    ]

    assert offences == []


@pytest.mark.parametrize(
    ("call", "lacking"),
    [
        ("open(path)", ["encoding"]),
        ("open(path, 'rb')", []),
        ("open(path, mode='wb')", []),
        ("open(path, 'w', encoding='utf-8')", ["newline"]),
        ("path.read_text()", ["encoding"]),
        ("path.write_text(page, encoding='utf-8')", ["newline"]),
        ("path.write_text(page, encoding='utf-8', newline='')", []),
        ("open(path, 'a')", ["encoding", "newline"]),
        ("os.open(path, flags)", []),
        ("gzip.open(path)", []),
    ],
)
def test_the_rule_finds(call: str, lacking: list[str]) -> None:
    expression = ast.parse(call).body[0]
    assert isinstance(expression, ast.Expr)
    assert isinstance(expression.value, ast.Call)

    assert lacking_of(expression.value) == lacking


def lacking_of(call: ast.Call) -> list[str]:
    """Return which of `encoding` and `newline` a call that opens a text file lacks."""
    function = call.func
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if isinstance(function, ast.Attribute) and function.attr in ("read_text", "write_text"):
        mode = function.attr[0]
    elif isinstance(function, ast.Name) and function.id == "open":
        modes = [*call.args[1:2], *(value for name, value in keywords.items() if name == "mode"), ast.Constant("r")]
        mode = str(ast.literal_eval(modes[0]))
    else:
        return []
    needed = [] if "b" in mode else ["encoding"] if mode == "r" else ["encoding", "newline"]
    return [name for name in needed if name not in keywords]


@needs_fork
def test_the_names_of_unix_are_those_of_a_system() -> None:
    import signal
    import socket

    unknown = [name for name in UNIX_NAMES if not any(hasattr(module, name) for module in (os, signal, socket))]

    # macOS has fewer names than Linux.
    assert set(unknown) <= {"initgroups", "sched_getaffinity", "pipe2", "TCP_QUICKACK"}
