"""The pytest-xdist worker of each test: tests on Spark share one worker, and so do those of one row of CONTRIBUTING,
which share a copy of the repository, those of one page, whose blocks share a namespace, those in a browser, those on
the S3 server, those of the published files, which are built once, and those that parse all files. So do those of one
file of the pipeline, which share what its fixtures compute. The others run on any free one.

The tests on Spark are found by name: with pytest 9.2, pytest-xdist 3.8 does not see the mark `xdist_group`
(pytest-xdist issue 1386).
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadGroupScheduling


def _files(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/test_{name}.py" for name in names.split())


# The files whose tests share the Spark session; a test elsewhere that asks for it would start a second JVM.
_ON_SPARK: Final = (
    "examples/spark_job/",
    "examples/trace_to_spark/",
    *_files("tests/spark", "crashes story stream"),
    *_files("tests/pipeline", "command_on_spark engines incremental_on_spark rules session"),
)
_ON_S3: Final = _files("tests/pipeline", "delta storage two_jobs")
_IN_ITS_FILE: Final = ("tests/pipeline/", "tests/spark/")
_IN_BROWSER: Final = ("tests/page/browser/", "tests/pipeline/test_report_in_browser.py", "tests/site/")
_PUBLISHED: Final = "tests/release/test_distribution.py"
_PARSING: Final = tuple(f"tests/house/test_{name}.py::" for name in ("docs", "english", "systems", "types", "words"))
_OF_PAGES: Final = "tests/house/test_docs_run.py::"
_IN_COPIES: Final = "tests/house/test_contributing.py"


def is_on_spark(nodeid: str) -> bool:
    """Return whether a test runs on the worker of the shared Spark session."""
    return nodeid.startswith(_ON_SPARK)


class OneSparkSession(LoadGroupScheduling):
    """The scheduler of `--dist=loadgroup`, with the groups above."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_IN_BROWSER):
            return "browser"
        if is_on_spark(nodeid):
            return "spark"
        if nodeid.startswith(_ON_S3):
            return "s3"
        if nodeid.startswith(_IN_ITS_FILE):
            return nodeid.partition("::")[0]
        if nodeid.startswith(_PUBLISHED):
            return "published"
        if nodeid.startswith(_PARSING):
            return "parsing"
        if nodeid.startswith(_IN_COPIES):
            # "path::test[a fault-docs/reference/faults.md]" belongs to the row "a fault".
            return nodeid.partition("[")[2].partition("-")[0].rstrip("]")
        if nodeid.startswith(_OF_PAGES) and ".md::" in nodeid:
            # "path::docs/how-to/time.md::test_it" belongs to its page.
            return nodeid.removeprefix(_OF_PAGES).partition("::")[0]
        scope: str = super()._split_scope(nodeid)
        return scope
