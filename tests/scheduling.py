"""The pytest-xdist worker of each test: tests on Spark share one worker, and so do those of one row of CONTRIBUTING,
which share a copy of the repository, those of one page, whose blocks share a namespace, those in a browser, those of
the published files, which are built once, and those that parse all files. The others run on any free one.

The tests on Spark are found by name: with pytest 9.2, pytest-xdist 3.8 does not see the mark `xdist_group`
(pytest-xdist issue 1386).
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadGroupScheduling

_ON_SPARK: Final = ("tests/pipeline/", "tests/spark/", "examples/spark_job/", "examples/trace_to_spark/")
# Files in these folders that use no Spark session.
_ALONE: Final = (
    *(f"tests/spark/test_{name}.py" for name in ("batch", "deliveries", "intake", "options", "rows")),
    *(f"tests/pipeline/test_{name}.py" for name in ("documented", "kernel", "kernel_trace", "report_page")),
    *(f"tests/pipeline/test_{name}.py" for name in ("session_java", "warehouse")),
)
_IN_BROWSER: Final = ("tests/page/browser/", "tests/pipeline/test_report_in_browser.py", "tests/site/")
_PUBLISHED: Final = "tests/release/test_distribution.py"
_PARSING: Final = tuple(f"tests/house/test_{name}.py::" for name in ("docs", "english", "systems", "types", "words"))
_OF_PAGES: Final = "tests/house/test_docs_run.py::"
_IN_COPIES: Final = "tests/house/test_contributing.py"


class OneSparkSession(LoadGroupScheduling):
    """The scheduler of `--dist=loadgroup`: groups on Spark, in the browser, published, parsing, of a row or page."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_IN_BROWSER):
            return "browser"
        if nodeid.startswith(_ON_SPARK) and not nodeid.startswith(_ALONE):
            return "spark"
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
