"""The commands of `leveret` that know pytest: `init` reads a project and proposes what to write, `why` reads pages.

The command line of leveret finds them as the entry point `leveret.commands`.
"""

from __future__ import annotations

import argparse

from pytest_leveret.commands import init, why


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the parser of the command line."""
    init.add_to(commands)
    why.add_to(commands)
