"""The pytest-xdist worker of each test: tests on Spark share one worker, and so do those of one row of CONTRIBUTING,
which share a copy of the repository, those of one page, whose blocks share a namespace, those in a browser, those on
the S3 server, those of the published files, which are built once, those that look at the same runs of pytest-xdist,
those that parse all files, and those that mostly wait. So do those of one file of the pipeline, which share what its
fixtures compute. The others run on any free one, several of a file at once.

The tests on Spark are found by name: with pytest 9.2, pytest-xdist 3.8 does not see the mark `xdist_group`
(pytest-xdist issue 1386).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


def _files(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/test_{name}.py" for name in names.split())


# The files whose tests share the Spark session; a test elsewhere that asks for it would start a second JVM. The first
# starts the JVM of them all.
ON_SPARK: Final = (
    "tests/pipeline/test_own_jvm.py",
    "examples/spark_job/",
    "examples/trace_to_spark/",
    *_files("tests/spark", "crashes story stream traces"),
    *_files("tests/pipeline", "command_on_spark engines incremental_on_spark rules session"),
)
_ON_S3: Final = _files("tests/pipeline", "delta storage two_jobs")
_IN_ITS_FILE: Final = ("tests/pipeline/", "tests/spark/")
IN_BROWSER: Final = (
    "tests/page/browser/",
    "tests/http/test_live_page.py",
    "tests/pipeline/test_report_in_browser.py",
    "tests/site/",
)
_PUBLISHED: Final = "tests/release/test_distribution.py"
_RUNS_OF_XDIST: Final = "tests/plugin/test_xdist.py"
_PARSING: Final = tuple(f"tests/house/test_{name}.py::" for name in ("docs", "english", "systems", "types", "words"))
_OF_PAGES: Final = "tests/house/test_docs_run.py::"
_IN_COPIES: Final = "tests/house/test_contributing.py"
# These wait for most of their time. On several workers at once, they would leave the processors idle.
_WAITING: Final = ("tests/explore/", "tests/stateful/", "tests/workers/")
# Each of these tests takes seconds and shares nothing with others.
_LONG: Final = ("tests/frameworks/", "tests/typing/")
# What takes longest comes first, so that only short groups are left when the workers end.
_FIRST: Final = (
    *ON_SPARK,
    *IN_BROWSER,
    *_WAITING,
    *_IN_ITS_FILE,
    _IN_COPIES,
    *_LONG,
    *(f"tests/{folder}/" for folder in ("release", "house", "flaky", "plugin", "soak", "story", "http", "page")),
)
# How many tests of a file a worker gets at once.
_AT_ONCE: Final = 8


def is_on_spark(nodeid: str) -> bool:
    """Return whether a test runs on the worker of the shared Spark session."""
    return nodeid.startswith(ON_SPARK)


def rank(nodeid: str) -> int:
    """Return when a test comes, from 0: first what takes longest."""
    return next((rank for rank, start in enumerate(_FIRST) if nodeid.startswith(start)), len(_FIRST))


class OneSparkSession(LoadGroupScheduling):
    """The scheduler of `--dist=loadgroup`, with the groups above in the order of collection.

    The one of pytest-xdist counts everything that a worker has done after each test, and searches the whole list for
    each test that it hands out. With 10,000 tests, that takes ten seconds, for which the workers wait.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        # Otherwise groups of many tests come first, however short they are.
        config.option.loadscopereorder = False

    def schedule(self) -> None:
        """Form the groups when all workers have collected the tests."""
        if self.collection is None:
            collected = next(iter(self.registered_collections.values()))
            self._indexes = {nodeid: index for index, nodeid in enumerate(collected)}
            files: Counter[str] = Counter()
            self._groups: dict[str, str] = {}
            for nodeid in collected:
                path = nodeid.partition("::")[0]
                self._groups[nodeid] = _group_of(nodeid) or f"{path} {files[path] // _AT_ONCE}"
                files[path] += 1
        super().schedule()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a group whose tests are all done."""
        super().mark_test_complete(node, item_index, duration)
        groups = self.assigned_work[node]
        group = self._groups[self.registered_collections[node][item_index]]
        if all(groups[group].values()):
            del groups[group]

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]

    def _assign_work_unit(self, node: WorkerController) -> None:
        group, tests = self.workqueue.popitem(last=False)
        self.assigned_work[node][group] = tests
        node.send_runtest_some([self._indexes[nodeid] for nodeid, is_done in tests.items() if not is_done])


def _group_of(nodeid: str) -> str | None:
    """Return the group of a test, or None if it shares nothing and is short."""
    if nodeid.startswith(IN_BROWSER):
        return "browser"
    if is_on_spark(nodeid):
        return "spark"
    if nodeid.startswith(_WAITING):
        return "waiting"
    if nodeid.startswith(_ON_S3):
        return "s3"
    if nodeid.startswith(_IN_ITS_FILE):
        return nodeid.partition("::")[0]
    if nodeid.startswith(_PUBLISHED):
        return "published"
    if nodeid.startswith(_RUNS_OF_XDIST):
        return "xdist"
    if nodeid.startswith(_PARSING):
        return "parsing"
    if nodeid.startswith(_IN_COPIES):
        # "path::test[a fault-docs/reference/faults.md]" belongs to the row "a fault".
        return nodeid.partition("[")[2].partition("-")[0].rstrip("]")
    if nodeid.startswith(_OF_PAGES) and ".md::" in nodeid:
        # "path::docs/how-to/time.md::test_it" belongs to its page.
        return nodeid.removeprefix(_OF_PAGES).partition("::")[0]
    return nodeid if nodeid.startswith(_LONG) else None
