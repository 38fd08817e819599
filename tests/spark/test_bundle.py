"""leveret's code for tasks in other places. `python -m benchmarks.spark_backends` shows it on real clusters."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from leveret.spark.bundle import supply


class Session:
    """What `supply` needs of a session, at a master or of Spark Connect, which has none."""

    def __init__(self, master: str | None) -> None:
        if master is not None:
            self.sparkContext = SimpleNamespace(master=master)
        self.sent: list[str] = []

    def addArtifacts(self, *paths: str, pyfile: bool) -> None:
        assert pyfile
        self.sent += paths


@pytest.mark.parametrize("master", [None, "spark://host:7077", "local-cluster[2,1,1024]"])
def test_a_session_gets_leveret_once_if_its_tasks_run_elsewhere(master: str | None) -> None:
    session = Session(master)

    supply(session)
    supply(session)

    assert len(session.sent) == 1


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_a_session_gets_nothing_if_its_tasks_run_here(master: str) -> None:
    session = Session(master)

    supply(session)

    assert session.sent == []


def test_a_python_without_leveret_imports_it_from_what_is_sent() -> None:
    session = Session(None)
    supply(session)
    program = f"import sys; sys.path.insert(0, {session.sent[0]!r}); import leveret; print(leveret.__file__)"

    # Without `site` and variables, Python has only its standard library.
    ran = subprocess.run([sys.executable, "-SE", "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith(session.sent[0])
