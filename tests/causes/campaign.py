"""Break the example projects at random lines, run their tests, and check each sentence that leveret says of a failure.

`python -m tests.causes.campaign --seeds 0-600` prints what is wrong, and a summary. Each seed is one broken line.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.causes.mutations import mutated

ROOT = Path(__file__).parents[2]
EXAMPLES = ("first_test", "dead_letters", "rpc_service", "virtual_time", "without_docker")
FRAMEWORKS = ("pika", "aio-pika", "aiormq", "kombu", "celery", "faststream", "fastapi", "flask", "dramatiq", "taskiq")
_NOT_BROKEN = ("__init__.py", "story.py", "conftest.py", "servers.py")
# A broken program may hang. pytest-timeout then fails the test, as it does for users, and a run of many ends.
_TEST_S = 4
_TESTS_MAX = 30


class Project(NamedTuple):
    """A folder to copy, and the files in it that are broken."""

    name: str
    folder: Path
    # Where the copy of the folder goes, below the directory of the run.
    target: str


def projects() -> list[Project]:
    """Return the projects that are broken."""
    own = [Project(name, ROOT / "examples" / name, f"examples/{name}") for name in EXAMPLES]
    return own + [Project(name, ROOT / "examples/frameworks" / name, ".") for name in FRAMEWORKS]


def broken(seed: int, folder: Path, among: list[Project]) -> dict[str, Any] | None:
    """Copy a project to a folder and break one of its lines; return what was broken."""
    project = among[seed % len(among)]
    target = folder / project.target
    shutil.copytree(project.folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    if project.target.startswith("examples"):
        (folder / "examples/__init__.py").write_text("")
        (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    files = sorted(path for path in target.rglob("*.py") if path.name not in _NOT_BROKEN)
    programs = [path for path in files if not path.name.startswith("test_")]
    turn = seed // len(among)
    # One line in four is of a test.
    chosen = programs if turn % 4 and programs else [path for path in files if path not in programs]
    path = chosen[turn % len(chosen)]
    mutation = mutated(path.read_text(encoding="utf-8"), seed, is_test=path.name.startswith("test_"))
    if mutation is None:
        return None
    path.write_text(mutation.source, encoding="utf-8")
    return {"seed": seed, "project": project.name, "file": path.name, **mutation._asdict(), "source": ""}


def run(folder: Path, test_s: int) -> int:
    """Run the tests of a folder in a child of this process, which has imported what they need."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(output, number)
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith(("LEVERET_", "PYTEST_"))]:
        del os.environ[name]
    os.environ["CAUSES_WITNESS"] = str(folder / "said.jsonl")
    sys.path[:0] = [str(folder), str(ROOT)]
    import pytest

    plugins = ("-p", "tests.causes.witness", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")
    os._exit(
        pytest.main(
            [
                *plugins,
                "-q",
                f"--timeout={test_s}",
                "--timeout-method=signal",
                "--tb=short",
                "--leveret-pages=off",
                ".",
            ]
        )
    )


def failures_of(
    seeds: Iterable[int], among: list[Project], *, at_once: int = 1, test_s: int = _TEST_S
) -> Iterator[dict[str, Any]]:
    """Yield what was said of each test that failed, with what was broken."""
    running: dict[int, tuple[Path, dict[str, Any], float]] = {}
    waiting = list(seeds)[::-1]
    with tempfile.TemporaryDirectory(prefix="causes-") as root:
        while waiting or running:
            while waiting and len(running) < at_once:
                folder = Path(root) / str(waiting[-1])
                what = broken(waiting.pop(), folder, among)
                if what is not None:
                    running[run(folder, test_s)] = (folder, what, time.monotonic() + _TESTS_MAX * test_s)
            for child, (_, _, deadline) in running.items():
                if time.monotonic() > deadline:
                    os.killpg(child, signal.SIGKILL)
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if ended not in running:
                signal.sigtimedwait([signal.SIGCHLD], 0.1)
                continue
            folder, what, _ = running.pop(ended)
            said = folder / "said.jsonl"
            for line in said.read_text(encoding="utf-8").splitlines() if said.exists() else ():
                yield {"broken": what, **json.loads(line)}
            shutil.rmtree(folder, ignore_errors=True)


def _import_all() -> None:
    """Import what the runs need, once for all of them."""
    import aio_pika  # noqa: F401
    import pika  # noqa: F401
    import pytest_leveret.plugin  # noqa: F401

    import leveret.broker
    import leveret.observe.checks.diagnosing
    import leveret.observe.texts.report
    import leveret.page.readings.live  # noqa: F401
    import tests.causes.witness  # noqa: F401


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-300", help="FIRST-LAST")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--test-seconds", type=int, default=_TEST_S, help="the time limit of a test")
    parser.add_argument("--project", action="append", help="only this project")
    parser.add_argument("--write", help="a file for all that was said, as lines of JSON")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    _import_all()

    kinds: Counter[str] = Counter()
    counts = dict.fromkeys(("failures", "failures with a cause", "false sentences"), 0)
    among = [one for one in projects() if not options.project or one.name in options.project]
    for failure in failures_of(
        range(int(first), int(last or first) + 1), among, at_once=options.at_once, test_s=options.test_seconds
    ):
        counts["failures"] += 1
        counts["failures with a cause"] += bool(failure["said"])
        for one in failure["said"]:
            kinds[one["kind"]] += 1
            counts["false sentences"] += bool(one["wrong"])
            if one["wrong"]:
                print(failure["broken"], failure["test"], one["sentence"], one["wrong"], sep="\n    ", flush=True)
        if options.write:
            with open(options.write, "a", encoding="utf-8") as file:
                file.write(json.dumps(failure) + "\n")
    print(counts, dict(kinds))


if __name__ == "__main__":
    main()
