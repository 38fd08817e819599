"""The commands of `leveret` for a suite of tests; those for a single broker are in leveret itself.

`contract` compares the messages of services, `definitions` compares definitions of RabbitMQ, `init` reads a project and
proposes what to write, `needs` measures what consumers need, and `why` reads pages. The command line of leveret finds
them as the entry point `leveret.commands`.
"""

from __future__ import annotations

import argparse

from pytest_leveret.commands import contract, definitions, init, needs, why


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the parser of the command line."""
    contract.add_to(commands)
    definitions.add_to(commands)
    init.add_to(commands)
    needs.add_to(commands)
    why.add_to(commands)
