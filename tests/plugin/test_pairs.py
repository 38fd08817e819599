"""Two features of leveret in one run: each pair of the table runs as it says, or is refused at the start."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import pytest

# Keep it imported. Otherwise every run in this process would import it anew, and what it imports of leveret.
import pytest_leveret.flaky.doctor  # noqa: F401
from pytest_leveret.trials.pairs import (
    CHECK,
    EXPLORE,
    FEATURES,
    FLAKY,
    MATCH,
    NEEDS,
    REAL,
    REPORTS,
    SEED,
    VERSIONS,
    WRITE,
    XDIST,
    refused,
)

from leveret import Broker
from tests.plugin.conftest import NO_LEFTOVERS

# It notes each of its runs, with whether the code under test has had its message.
SUITE = """
import json
from contextlib import suppress
import pytest
from client import connect
from pika.exceptions import AMQPError
{mark}
def test_shop(leveret):
    leveret.declare_queue("jobs")
    with suppress(AMQPError), connect(leveret.url, "shop") as connection:
        channel = connection.channel()
        channel.basic_publish("", "jobs", b'{{"id": 1}}')
        leveret.assert_published(routing_key="jobs", timeout=60)
        method, _, body = channel.basic_get("jobs")
        with open("runs.txt", "a") as file:
            file.write(str(json.loads(body)["id"]) + "\\n")
        channel.basic_ack(method.delivery_tag)
    leveret.assert_acked("jobs", timeout=60)
"""
MARK = """
@pytest.mark.leveret_explore(on="basic.ack", faults=["lost after"])"""
DEFINITIONS = {"queues": [{"name": name, "vhost": "/", "durable": True} for name in ("jobs", "spare")]}
OPTIONS: dict[str, tuple[str, ...]] = {
    FLAKY: ("--leveret-flaky=3",),
    SEED: ("--leveret-flaky-seed=3",),
    VERSIONS: ("--leveret-rabbitmq=4.2,4.3",),
    XDIST: ("-p", "xdist.plugin", "-n", "1"),
    WRITE: ("--leveret-contract=write",),
    CHECK: ("--leveret-contract=check",),
    REPORTS: (
        *("--leveret-pages=all", "--leveret-pages-dir=pages"),
        *("--leveret-otlp=spans", "--leveret-trace-dir=traces"),
    ),
    MATCH: ("--leveret-declare=must_match", "--leveret-definitions=definitions.json"),
}
# Those that run tests in their own way, and print nothing of pytest's.
IN_THEIR_WAY = (FLAKY, NEEDS)


# Only the two modes of one option are no pair.
PAIRS = [pair for pair in combinations(FEATURES, 2) if pair != (WRITE, CHECK)]


class Project:
    """A suite of one test, in which two features meet."""

    def __init__(self, pytester: pytest.Pytester, server: Broker, names: tuple[str, str]) -> None:
        self._pytester = pytester
        self._server = server
        self._names = names
        self.folder: Path = pytester.path
        pytester.makepyfile(test_shop=SUITE.format(mark=MARK if EXPLORE in names else ""))
        pytester.makeini("[pytest]\n" + ("leveret_contract = messages.lock\n" if {WRITE, CHECK} & {*names} else ""))
        (self.folder / "definitions.json").write_text(json.dumps(DEFINITIONS), encoding="utf-8")

    def run(self) -> str:
        """Run it with both features, and return what it printed; the exit code stands in the last line."""
        words = [word for name in self._names for word in self._options(name)]
        test = "test_shop.py::test_shop"
        if self._names == (FLAKY, VERSIONS):
            test += "[rabbitmq-4.3]"
        if NEEDS in self._names:
            result = self._pytester.run(sys.executable, "-m", "leveret", "needs", test, *words)
        elif XDIST in self._names:
            result = self._pytester.runpytest_subprocess("-v", "-rs", *words, test)
        else:
            result = self._pytester.runpytest_inprocess("-v", "-rs", *words, test, *NO_LEFTOVERS)
        return "\n".join([*result.outlines, *result.errlines, f"exit code {int(result.ret)}"])

    def _options(self, name: str) -> tuple[str, ...]:
        if name == REAL:
            url, management = self._server.url, self._server.management_url
            return (f"--leveret-real={url}", f"--leveret-real-management={management}")
        return OPTIONS.get(name, ())

    def bodies(self) -> list[str]:
        """Return what the code under test got in each run of the test that came so far."""
        file = self.folder / "runs.txt"
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    def files(self, folder: str) -> list[Path]:
        """Return the files in a folder of the project."""
        return [path for path in (self.folder / folder).rglob("*") if path.is_file()]


Shown = Callable[[Project, str, str], bool]


def shows_flaky(project: Project, printed: str, other: str) -> bool:
    return len(project.bodies()) >= 3 and "3 of 3 passed, in" in printed.replace("always in", "in")


def shows_needs(project: Project, printed: str, other: str) -> bool:
    return len(project.bodies()) >= 4 and "what shop needs, by" in printed and "required" in printed


def shows_exploration(project: Project, printed: str, other: str) -> bool:
    if other == REAL:
        return "only leveret could run" in printed and "the marker leveret_explore" in printed
    return len(project.bodies()) >= 2 and "exit code 0" in printed


def shows_versions(project: Project, printed: str, other: str) -> bool:
    if other in IN_THEIR_WAY:
        return "rabbitmq-4.3" in printed or other == NEEDS
    if other == REAL:
        lines = ("4.2 did not run", "nothing was compared", "passed")
        return all(line in printed for line in lines)
    return len(project.bodies()) >= 2 and "no test would notice an upgrade" in printed


def shows_server(project: Project, printed: str, other: str) -> bool:
    return "on a real RabbitMQ" in printed and (other == EXPLORE or "tests ran there" in printed)


def shows_workers(project: Project, printed: str, other: str) -> bool:
    return other == NEEDS or "[gw0]" in printed


def shows_lock(project: Project, printed: str, other: str) -> bool:
    return '"jobs"' in (project.folder / "messages.lock").read_text(encoding="utf-8")


def shows_check(project: Project, printed: str, other: str) -> bool:
    return other == FLAKY or "messages.lock, 1 note: not in it" in printed


def shows_reports(project: Project, printed: str, other: str) -> bool:
    folders = [project.files(name) for name in ("pages", "spans", "traces")]
    return not any(folders) if other in IN_THEIR_WAY else all(folders)


def shows_unused(project: Project, printed: str, other: str) -> bool:
    return other in IN_THEIR_WAY or "of the definitions, no test used queue 'spare'" in printed


SHOWN: dict[str, Shown] = {
    FLAKY: shows_flaky,
    SEED: lambda project, printed, other: "1" in project.bodies() or other == REAL,
    NEEDS: shows_needs,
    EXPLORE: shows_exploration,
    VERSIONS: shows_versions,
    REAL: shows_server,
    XDIST: shows_workers,
    WRITE: shows_lock,
    CHECK: shows_check,
    REPORTS: shows_reports,
    MATCH: shows_unused,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with Broker(management=True, checks="all=off") as broker:
        yield broker


@pytest.fixture(autouse=True)
def _no_workers(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs be no part of a run with workers."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)


def test_the_page_says_of_each_pair_what_comes_of_it() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/pairs.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]

    assert [tuple(row[:2]) for row in rows] == [(shown(first), shown(second)) for first, second in PAIRS]
    for names, (_, _, what) in zip(PAIRS, rows, strict=True):
        pair = refused(*names)
        if pair is None:
            assert what.endswith(".")
            assert not what.startswith("refused")
        else:
            assert what == f"refused: {pair.why}. Instead, {pair.instead}."


def shown(name: str) -> str:
    """Return a feature as the page has it: what the user types is code."""
    return re.sub(
        r"(--[\w=-]+|leveret needs|leveret_explore|leveret_rabbitmq|leveret_declare = must_match)", r"`\1`", name
    )


@pytest.mark.parametrize("names", PAIRS, ids=" & ".join)
def test_two_features_run_together_or_are_refused_at_the_start(
    pytester: pytest.Pytester, server: Broker, names: tuple[str, str]
) -> None:
    project = Project(pytester, server, names)
    if CHECK in names:
        (project.folder / "messages.lock").write_text("version = 2\n", encoding="utf-8")

    printed = project.run()

    if (pair := refused(*names)) is not None:
        assert f"{names[0]} does not go together with {names[1]}: {pair.why}; {pair.instead}" in printed
        assert project.bodies() == []
        assert printed.endswith("exit code 2" if NEEDS in names else "exit code 4")
    else:
        first, second = names
        assert SHOWN[first](project, printed, second), printed
        assert SHOWN[second](project, printed, first), printed
        assert printed.endswith("exit code 0"), printed
