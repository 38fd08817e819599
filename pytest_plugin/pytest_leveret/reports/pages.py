"""The pages of a run: one for each failed test, an index of them, and the summary of a CI job.

A page is written when a test fails, while its brokers still run. A test that passes costs nothing, unless you ask for
the pages of all tests. Under pytest-xdist each worker writes its pages, and the controller writes the index.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import uuid4

import pytest

from pytest_leveret.brokers import brokers_of, refuse_directory, run_broker
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.brokers.recording import attempt_of, error_text, failure_of
from pytest_leveret.guard import register
from pytest_leveret.options import read_settings
from pytest_leveret.options.table import PAGES, PAGES_MAX
from pytest_leveret.reports import diagnosing, source
from pytest_leveret.reports.report import add_section

if TYPE_CHECKING:
    from leveret.page.formats.index import Entry
    from leveret.page.story import Story

When = Literal["failed", "all", "off"]

_ATTRIBUTE: Final = "leveret_page"
_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
# The directory in pytest's cache. Each run has a directory of its own in it, and the newest ones are kept.
_IN_CACHE: Final = "leveret-pages"
_KEPT_RUNS: Final = 3
_NAME_MAX: Final = 80
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_PAGES: Final = pytest.StashKey["Pages"]()


def prepare(config: pytest.Config) -> None:
    """Read the options. Raises UsageError if one is invalid."""
    settings = read_settings(config, PAGES)
    pages = config.stash[_PAGES] = Pages(config, **{word: setting.value for word, setting in settings.items()})
    if pages.when != "off":
        if "pages_dir" in settings:
            refuse_directory(settings["pages_dir"])
        register(config, pages, "leveret-pages", "list the pages")


def add_page(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Write the page of a test if it gets one, and add the way to it to the report."""
    pages = item.config.stash[_PAGES]
    is_wanted = report.failed or (pages.when == "all" and report.when == "call" and report.passed)
    if pages.when == "off" or not is_wanted:
        return
    started = brokers_of(item)
    if started:
        pages.add(item, report, call)


def file_name(config: pytest.Config, node_id: str, suffix: str) -> str:
    """Return a file name that no other test of the run has, on any worker."""
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    digest = blake2b(f"{worker} {node_id}".encode("utf-8", "backslashreplace"), digest_size=4).hexdigest()
    file, separator, test = node_id.partition("::")
    name = f"{file.rpartition('/')[2]}{separator}{test}"
    readable = _UNSAFE.sub("-", name.encode("ascii", "ignore").decode())
    return f"{readable[:_NAME_MAX].strip('-.')}-{digest}{suffix}"


class Pages:
    """The pages that this process writes, and on the controller the list of all."""

    def __init__(
        self, config: pytest.Config, pages: When = "failed", pages_dir: str | None = None, pages_limit: int = PAGES_MAX
    ) -> None:
        self.when: Final = pages
        self._config: Final = config
        self._given: Final = pages_dir
        self._limit: Final = pages_limit
        self._run: Final = str(uuid4().hex if self._worker is None else self._worker["testrunuid"])
        self._written_count = 0
        # What the reports of the run say: its pages, and the outcomes of tests that got none because of the limit.
        self._entries: list[Entry] = []
        self._left_out: list[str] = []
        # Whether the run has a place for pages.
        self._has_folder = True

    @property
    def _worker(self) -> dict[str, Any] | None:
        """What xdist passes to this process if it is a worker, else None."""
        return cast("dict[str, Any] | None", getattr(self._config, "workerinput", None))

    def add(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Write a page, and add its path to the report; or say why there is none."""
        was_collecting = gc.isenabled()
        # The page of many events makes objects by the hundred thousand, and no garbage.
        gc.disable()
        try:
            line = self._write(item, report, call)
        finally:
            if was_collecting:
                gc.enable()
        if line is not None and report.failed:
            add_section(report, "leveret", line)

    def _write(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> str | None:
        known = attempt_of(item).page
        if known is not None and report.when == "teardown":
            # The test has failed already. That page was written before its brokers stopped.
            return f"page: {Path(known).as_uri()}"
        folder = self._folder()
        if folder is None:
            vars(report)[_ATTRIBUTE] = {"no_folder": True}
            return None
        from leveret.page.formats import facts
        from leveret.page.formats.html import save
        from leveret.story.whole_files import write

        story = story_of_test(item, report, call)
        if story is None:
            return None
        if not self._may_write(folder):
            vars(report)[_ATTRIBUTE] = {"left_out": report.outcome}
            return f"page: none, because --leveret-pages-limit={self._limit} was reached"
        name = story["file"] = file_name(item.config, item.nodeid, ".html")
        path = attempt_of(item).page = save(story, os.path.join(folder, name))
        hint = {} if (text := run_broker.hint(item)) is None else {"another_broker": text}
        write(facts.written(facts.facts_of(story, name) | hint), os.path.splitext(path)[0] + ".json")
        error = story["test"].get("error", {}).get("text", "")
        causes = [cause["sentence"] for cause in story["causes"]]
        if report.failed:
            # pytest writes the properties of the item to JUnit's XML with the report on the teardown.
            item.user_properties += [("leveret_cause", cause) for cause in causes]
            report.user_properties = list(item.user_properties)
        vars(report)[_ATTRIBUTE] = {
            "path": path,
            "test": item.nodeid,
            "outcome": story["test"]["outcome"],
            "error": error.strip().partition("\n")[0][:500],
            "causes": causes,
            "seconds": report.duration,
            "diagram": _diagram(story) if report.failed else "",
        }
        return f"page: {Path(path).as_uri()}"

    def _folder(self) -> str | None:
        if self._given is not None:
            return self._given
        cache = getattr(self._config, "cache", None)
        return None if cache is None else os.path.join(cache.mkdir(_IN_CACHE), self._run)

    def _may_write(self, folder: str) -> bool:
        """Count one page more, and return whether the run may write it. The workers of a run share the count."""
        if self._worker is None:
            self._written_count += 1
            return self._written_count <= self._limit
        os.makedirs(folder, exist_ok=True)
        descriptor = os.open(
            os.path.join(folder, f".leveret-{self._run}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            os.write(descriptor, b".")
            # Where this process's byte ends: other workers may have appended since.
            return os.lseek(descriptor, 0, os.SEEK_CUR) <= self._limit
        finally:
            os.close(descriptor)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the page of a test, which may come from a worker."""
        attached = vars(report).get(_ATTRIBUTE)
        if attached is None or self._worker is not None:
            return
        if "no_folder" in attached:
            self._has_folder = False
            return
        if "left_out" in attached:
            self._left_out.append(attached["left_out"])
            return
        from leveret.page.formats.index import Entry

        self._entries.append(Entry(**attached))

    def pytest_sessionfinish(self) -> None:
        """Write the index, and the summary for a CI job that asks for one."""
        if self._worker is not None or not self._entries:
            return
        from leveret.page.formats.index import INDEX, index_of, summary_of
        from leveret.story.whole_files import write

        folder = os.path.dirname(self._entries[0].path)
        for path in Path(folder).glob(".leveret-*"):
            path.unlink(missing_ok=True)
        write(index_of(self._entries, len(self._left_out)), os.path.join(folder, INDEX))
        if self._given is None:
            _delete_old_runs(Path(folder))
        summary = os.environ.get(_SUMMARY)
        if summary and any(entry.outcome != "passed" for entry in self._entries):
            with open(summary, "a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.write(summary_of(self._entries, self._left_out.count("failed")))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the index, and say how many tests got no page."""
        if self._entries:
            from leveret.page.formats.index import INDEX
            from leveret.wording import count_text

            index = Path(self._entries[0].path).with_name(INDEX)
            terminalreporter.write_line(f"leveret: {count_text(len(self._entries), 'page')}: {index.as_uri()}")
        if not self._has_folder:
            terminalreporter.write_line(
                "leveret: no pages, because pytest's cache is off; use --leveret-pages-dir=DIR, or --leveret-pages=off"
            )
        if self._left_out:
            count = len(self._left_out)
            terminalreporter.write_line(
                f"leveret: {count} test{' has' if count == 1 else 's have'} no page, because "
                f"--leveret-pages-limit={self._limit} was reached"
            )


def _delete_old_runs(newest: Path) -> None:
    """Keep the pages of this run and of those before it."""
    runs = [path for path in newest.parent.iterdir() if path.is_dir() and path != newest]
    runs.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for run in runs[_KEPT_RUNS - 1 :]:
        shutil.rmtree(run, ignore_errors=True)


def story_of_test(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> Story | None:
    """Return the story of a test, or None if its brokers recorded nothing."""
    from leveret.page.story import Test, story_of

    brokers = brokers_of(item)
    names = diagnosing.names_of(brokers, call)
    recorded = []
    for broker in brokers:
        reading = harness_of(broker).reading(item.nodeid)
        if reading is not None:
            reading.name = names.get(broker)
            if (found := diagnosing.diagnosis_of(item, broker)) is not None:
                reading.causes, reading.noticed = found.causes, found.noticed
            reading.later_count = diagnosing.later_count(item, broker)
            recorded.append(reading)
    if not recorded:
        return None
    outcome = "passed" if report.passed else "failed" if report.when == "call" else "error"
    test = Test(item.nodeid, outcome, report.when, round(report.duration, 6), error_text(call))
    if (failure := failure_of(call)) is not None:
        test.messages, test.queues, test.assertion = failure.messages, failure.queues, failure.as_json()
    test.failed_at = diagnosing.failed_at(item) if report.failed else None
    story = story_of(recorded, test, source="memory", notes=source.notes_of(item, brokers))
    if report.failed:
        story["code"] = source.code_of(item, call)
    return story


def _diagram(story: Story) -> str:
    if not os.environ.get(_SUMMARY):
        return ""
    from leveret.page.formats.mermaid import mermaid_of

    return mermaid_of(story)
