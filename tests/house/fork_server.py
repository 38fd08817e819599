"""Runs pytest in copies of the repository, each time in a process forked from this one.

pytest and the clients are imported once, leveret in each fork: from the copy. What else a run imports from outside its
copy is imported here afterwards, so that the next fork has it. A request is a line of JSON on standard input, [folder,
arguments, file for the output]; the answer is pytest's exit status.

If the command line names modules, as for suites that use the leveret of this repository, they are imported once too,
and nothing is imported afterwards.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

PRELOADED = ("_pytest.pytester", "_pytest.doctest", "asyncio", "pika", "pamqp.commands", "tomllib", "ssl")
# Where modules are that no copy changes. An environment may see the packages of another one.
_ELSEWHERE = (sys.prefix, sys.base_prefix, str(Path(pytest.__file__).parents[1]))


def serve() -> None:
    """Answer requests until standard input ends."""
    more = sys.argv[1:]
    for name in (*PRELOADED, *more):
        import_module(name)
    for line in sys.stdin:
        _learn_files()
        # The forks need not look for garbage among what they share.
        gc.collect()
        gc.freeze()
        source, target = os.pipe()
        child = os.fork()
        if not child:
            folder, arguments, output = json.loads(line)
            run(folder, arguments, output, target)
        os.close(target)
        with open(source, encoding="utf-8") as imported:
            names = imported.read().split()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        for name in () if more else names:
            with suppress(ImportError):
                import_module(name)


def _learn_files() -> None:
    """Let `inspect` learn the files of all modules: pytest asks it at a failure, and each fork would do it anew."""
    inspect.getmodule(compile("", "<no file>", "exec"))


def run(folder: str, arguments: list[str], output: str, imported: int) -> None:
    """Run pytest in a folder, name the modules that it has imported from elsewhere, and end this process."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.chdir(folder)
    sys.argv = ["pytest", *arguments]
    paths = [os.path.join(folder, part) for part in ("src", "pytest_plugin", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    before = set(sys.modules)
    status = int(pytest.main(arguments))
    os.write(imported, " ".join(name for name in sys.modules if name not in before and is_elsewhere(name)).encode())
    sys.stdout.flush()
    os._exit(status)


def is_elsewhere(name: str) -> bool:
    """Tell whether a module was imported from outside the copy, and pytest has not rewritten its asserts."""
    from _pytest.assertion.rewrite import AssertionRewritingHook

    spec = getattr(sys.modules[name], "__spec__", None)
    if spec is None or isinstance(spec.loader, AssertionRewritingHook):
        return False
    return isinstance(spec.origin, str) and spec.origin.startswith(_ELSEWHERE)


if __name__ == "__main__":
    serve()
