"""A plugin of pytest that hides what Windows does not have: `pytest -p tests.without_posix`.

It hides from this process fork, SO_REUSEADDR, the system's socketpair, the modules for Unix only, and the folder /proc.
It makes leveret wait with select, in processes that a test starts too. The rest stays as the system has it: paths, most
signals, and how sockets behave.
"""

from __future__ import annotations

import _socket
import builtins
import multiprocessing
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "pty")
_NAMES = {
    "os": ("fork", "forkpty", "register_at_fork", "sysconf", "getloadavg", "sched_getaffinity", "mkfifo"),
    "_socket": ("SO_REUSEADDR", "SO_REUSEPORT", "socketpair", "TCP_QUICKACK", "AF_UNIX", "SO_PEERCRED"),
    "signal": ("pthread_kill",),
}


def _hide() -> None:
    # Those that import them at the start keep what they have.
    import asyncio
    import socket
    import subprocess

    assert asyncio
    assert subprocess
    system_socketpair = _socket.socketpair

    def socketpair(
        family: int = socket.AF_UNIX, kind: int = socket.SOCK_STREAM, protocol: int = 0
    ) -> tuple[socket.socket, ...]:
        """Do for clients, such as asyncio, what the standard library does on Windows."""
        return tuple(
            socket.socket(family, kind, protocol, end.detach()) for end in system_socketpair(family, kind, protocol)
        )

    socket.socketpair = socketpair  # type: ignore[assignment]
    builtins.__import__ = _without_modules(builtins.__import__)
    for name, hidden in _NAMES.items():
        module = __import__(name)
        for attribute in hidden:
            if hasattr(module, attribute):
                delattr(module, attribute)
    os.environ["LEVERET_POLLER"] = "select"
    multiprocessing.set_start_method("spawn", force=True)
    os.stat = _without_proc(os.stat)
    os.readlink = _without_proc(os.readlink)
    sys.addaudithook(_refuse_proc)


def _without_modules(system_import: Callable[..., ModuleType]) -> Callable[..., ModuleType]:
    """Return an import that refuses leveret the modules for Unix. Some clients need them on any system but Windows."""

    def import_module(name: str, globals: dict[str, str] | None = None, *rest: object, **named: object) -> ModuleType:
        if name in _MODULES and (globals or {}).get("__name__", "").startswith(("leveret", "pytest_leveret")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return system_import(name, globals, *rest, **named)

    return import_module


def _without_proc(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call on a path that finds no /proc. Audit hooks do not see it."""

    def look(path: object, *rest: object, **named: object) -> Any:
        _refuse_proc("open", (path,))
        return call(path, *rest, **named)

    return look


def _refuse_proc(event: str, arguments: tuple[object, ...]) -> None:
    """Behave as if there were no /proc."""
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", str(arguments[0]))


_hide()
