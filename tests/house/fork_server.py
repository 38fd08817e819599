"""Runs pytest in copies of the repository, each time in a process forked from this one.

pytest and the clients are imported once, leveret in each fork: from the copy. A request is a line of JSON on standard
input, [folder, arguments, file for the output]; the answer is pytest's exit status.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

PRELOADED = ("pytest", "_pytest.pytester", "_pytest.doctest", "asyncio", "pika", "pamqp.commands", "tomllib", "ssl")


def serve() -> None:
    """Answer requests until standard input ends."""
    for name in PRELOADED:
        import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(folder: str, arguments: list[str], output: str) -> None:
    """Run pytest in a folder, and end this process."""
    import pytest

    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.chdir(folder)
    paths = [os.path.join(folder, part) for part in ("src", "pytest_plugin", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    status = int(pytest.main(arguments))
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    serve()
