"""The commands that a suite runs inside a container: those of rabbitmqctl and its siblings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leveret.http.rabbitmqctl.line import Printed
    from pytest_leveret.standins.server import StandIn

_SHELLS: Final = ("sh", "bash")
_PLUGINS: Final = "rabbitmq-plugins"


def run(stand_in: StandIn, command: str | Iterable[str]) -> Printed:
    """Run a command in a container, and return its exit code and what it prints."""
    from leveret.http.rabbitmqctl.running import TOOLS, UnservedError
    from leveret.http.rabbitmqctl.running import run as run_line

    stand_in.fleet.count_test()
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    while words and PurePosixPath(words[0]).name in _SHELLS and "-c" in words:
        words = shlex.split(words[-1])
    tool = PurePosixPath(words[0]).name if words else ""
    if tool == _PLUGINS:
        return _plugins(stand_in, words[1:])
    if tool not in TOOLS:
        stand_in.fleet.refuse(f"command {' '.join(words)!r}")
    try:
        printed = run_line(stand_in.broker._engine, tool, words[1:], stand_in.files, stand_in.inside)
    except UnservedError as unserved:
        stand_in.fleet.refuse(str(unserved))
    if printed.code == 0 and "reset" in words:
        stand_in.let_in()
    return printed


def _plugins(stand_in: StandIn, words: list[str]) -> Printed:
    from leveret.broker import BUILT_IN, OVER_HTTP
    from leveret.http.rabbitmqctl.line import UNAVAILABLE, Printed

    name, *plugins = [word for word in words if not word.startswith("-")] or [""]
    enabled = dict.fromkeys([*BUILT_IN, *stand_in.plugins()])
    if name == "list":
        return Printed(0, "".join(f"{plugin}\n" for plugin in enabled))
    others = [plugin for plugin in plugins if plugin not in {*enabled, *OVER_HTTP}]
    if name == "is_enabled" and others:
        return Printed(UNAVAILABLE, "", f"Error:\nPlugin {others[0]} is not enabled\n")
    if name == "enable" and others:
        stand_in.fleet.refuse(f"plugin {others[0]}")
    if name not in ("enable", "disable", "is_enabled"):
        stand_in.fleet.refuse(f"{_PLUGINS} {name}".strip())
    return Printed(0)
