"""Whether somebody is debugging: then a wait that runs out of time is a person who thinks, and goes on."""

from __future__ import annotations

import sys
from typing import Final

from leveret.observe.callers import modules_on

# Modules of debuggers: of pdb and its like, and of PyCharm's and VS Code's.
_DEBUGGERS: Final = ("bdb", "pdb", "pydevd", "debugpy")


def is_debugged() -> bool:
    """Whether a debugger follows this thread or, where it can tell, is attached to the process.

    A tracer that is none, as that of coverage, does not count.
    """
    debugpy = sys.modules.get("debugpy")
    if debugpy is not None and debugpy.is_client_connected():
        return True
    tracer = sys.gettrace()
    if tracer is not None and _is_of_debugger(tracer):
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None


def is_at_prompt(thread: int) -> bool:
    """Whether another thread stands in a debugger, or one is attached to the process."""
    return is_debugged() or any(name.startswith(_DEBUGGERS) for name in modules_on(thread))


def _is_of_debugger(tracer: object) -> bool:
    owner = type(getattr(tracer, "__self__", tracer))
    names = [getattr(tracer, "__module__", None), *(base.__module__ for base in owner.__mro__)]
    parts = [part for name in names if isinstance(name, str) for part in name.split(".")]
    return any(part.startswith(_DEBUGGERS) for part in parts)
