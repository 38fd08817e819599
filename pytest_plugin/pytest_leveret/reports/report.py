"""The report of a test that failed: the sections about its brokers.

An error of an assertion or a wait carries the report of its broker as a note, with the state at that moment. Under
pytest the note becomes a section, below the traceback, so that the error itself ends with the cause.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers import brokers_of, run_broker
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.brokers.recording import attempt_of
from pytest_leveret.guard import LINES, Guarded, note, register
from pytest_leveret.options.scopes import explain_mismatch, explain_missing
from pytest_leveret.reports import diagnosing

if TYPE_CHECKING:
    from leveret import Broker

_ON_GITHUB: Final = "GITHUB_ACTIONS"
_PAGE_TITLE: Final = "leveret: what happened"
# The attribute of a report, and the name in what a worker of xdist hands over, that hold what could not be done.
_NOT_DONE: Final = "leveret_not_done"
_NOT_DONE_MAX: Final = 10
# The attribute of a report that has what went wrong.
_CAUSES: Final = "leveret_causes"


class Reporting:
    """The part of the plugin that takes reports from errors before pytest shows them."""

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Take the reports from the error of a test. pytest's own hook runs next and makes the text of the error."""
        if call.excinfo is None:
            return
        notes = diagnosing.notes_of(item)
        notes.taken, notes.missing = [], None
        with Guarded("explain the error", item, call):
            from leveret.observe.calls.hinting import end_blocks

            end_blocks(call.excinfo.value)
            explain_mismatch(item, call.excinfo.value)
            notes.missing = explain_missing(call.excinfo.value)
            if hasattr(call.excinfo.value, "__notes__"):
                from leveret.observe.texts.report import take_reports

                notes.taken = take_reports(call.excinfo.value)
        with Guarded("say what went wrong", item, call):
            if not isinstance(call.excinfo.value, pytest.skip.Exception):
                diagnosing.note_failure(item, call)


class NotDone:
    """The part of the plugin that shows what could not be done."""

    def __init__(self, config: pytest.Config) -> None:
        """Begin a run in which everything can be done."""
        self._config: Final = config
        self._lines: Final[list[str]] = config.stash.setdefault(LINES, [])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the lines about a test to its report, once all other parts have added theirs."""
        try:
            report = yield
        except pytest.fail.Exception as error:
            # A time-out between two guarded blocks, or while pytest itself describes what the test failed with.
            if not brokers_of(item):
                raise
            own = "" if call.excinfo is None else f"{call.excinfo.typename}, of which pytest could not say more: "
            known: Any = dict.fromkeys(item.keywords, 1), "failed", f"{own}{error}", call.when
            report = pytest.TestReport(item.nodeid, item.location, *known)
        lines = item.stash.get(LINES, [])
        if lines:
            del item.stash[LINES]
            if report.failed:
                add_section(report, "leveret", "\n".join(lines))
            else:
                vars(report)[_NOT_DONE] = lines
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the lines about tests that passed, which may come from a worker."""
        if not hasattr(self._config, "workerinput"):
            self._lines.extend(f"{report.nodeid}: {line}" for line in vars(report).get(_NOT_DONE, ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Hand the lines about the run to the controller, from a worker."""
        output: dict[str, Any] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_NOT_DONE] = self._lines

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take the lines of a worker."""
        note(self._config, *getattr(node, "workeroutput", {}).get(_NOT_DONE, ()))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the lines."""
        for line in self._lines[:_NOT_DONE_MAX]:
            terminalreporter.write_line(line)
        if len(self._lines) > _NOT_DONE_MAX:
            terminalreporter.write_line(f"and {len(self._lines) - _NOT_DONE_MAX} more that leveret could not do")


def add_sections(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add a section for each broker of a failed test: as it was when the error was raised, or else as it is now."""
    _forget_hidden_frames(report)
    if sentences := diagnosing.sentences_of(item):
        add_section(report, "leveret: what went wrong", "\n".join(sentences))
        vars(report)[_CAUSES] = sentences
    if noticed := diagnosing.noticed_in(item):
        add_section(report, "leveret: also noticed", "\n".join(noticed))
    taken = diagnosing.notes_of(item).taken
    names = diagnosing.variables_at_failure(item)
    texts: list[str] = [*taken]
    for broker in brokers_of(item):
        with Guarded(f"report on {broker!r}", item, report):
            texts += [] if harness_of(broker).is_shown_by(taken) else [_text(broker, item)]
    named = {harness_of(broker).name for broker in diagnosing.brokers_with_causes(item)}
    others = []
    for text in texts:
        # pytest draws the title as a line, so that the first line of the report costs none of its own.
        title, _, rest = text.partition("\n")
        broker_name = getattr(text, "broker", "")
        shown = f"{variable}: {title}" if (variable := names.get(broker_name)) is not None else title
        if named and broker_name not in named:
            others.append(shown)
        else:
            add_section(report, f"leveret: {shown.removeprefix('leveret: ')}", rest)
    if others:
        add_section(report, "leveret: other brokers", "\n".join(others))
    for broker in brokers_of(item):
        for name, lines in harness_of(broker).outputs():
            add_section(report, f"leveret: output of worker {name!r}", lines)
    if missing := diagnosing.notes_of(item).missing:
        add_section(report, "leveret", missing)
    if hint := run_broker.hint(item):
        add_section(report, "leveret: another broker", hint)


def _forget_hidden_frames(report: pytest.TestReport) -> None:
    """Take out pytest's advice to show hidden frames, if all of them are the plugin's, as in an error of a check."""
    traceback = getattr(report.longrepr, "reprtraceback", None)
    entries = getattr(traceback, "reprentries", [])
    if traceback is not None and all(getattr(entry, "reprfileloc", None) is None for entry in entries):
        traceback.extraline = None


def add_section(report: pytest.TestReport, title: str, text: str) -> None:
    """Add a section to the error of a test, before the output that pytest has captured.

    pytest also prints it under --show-capture=no, and writes it to JUnit's XML.
    """
    add = getattr(report.longrepr, "addsection", None)
    if add is None:
        report.longrepr = f"{report.longreprtext}\n\n{title}\n{text}"
    else:
        add(title, text)


def show_progress(plugins: pytest.PytestPluginManager, text: str) -> None:
    """Write a line to the terminal, even while pytest captures output; nothing in a worker of xdist, which has none."""
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    if reporter is not None:
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"  {text}")
            reporter.flush()


def show_interrupted(item: pytest.Item) -> None:
    """Show the brokers of a test that was interrupted, for which pytest makes no report."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return
    for broker in brokers_of(item):
        terminal.section(f"leveret, interrupted in {item.nodeid}")
        terminal.write_line(_text(broker, item))


def _text(broker: Broker, item: pytest.Item) -> str:
    return harness_of(broker).report(diagnosing.later_count(item, broker))


def add_to_reports(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the page of a test to the reports of the plugins that a run has."""
    path = attempt_of(item).page
    if path is None or not report.failed:
        return
    plugins = item.config.pluginmanager
    if plugins.has_plugin("html"):
        from pytest_html import extras

        shown: list[Any] = vars(report).setdefault("extras", [])
        shown.append(extras.url(Path(path).as_uri(), name=_PAGE_TITLE))
    if plugins.has_plugin("allure_listener"):
        import allure

        attach: Any = allure.attach.file
        attach(path, name=_PAGE_TITLE, attachment_type=allure.attachment_type.HTML)


class Details:
    """What went wrong in the details of a test's status, by which the categories of Allure's report group tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Final = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the sentences below the error. Allure has made the details of the same report."""
        listener: Any = self._config.pluginmanager.get_plugin("allure_listener")
        sentences = vars(report).get(_CAUSES)
        with Guarded("add what went wrong to Allure's report", self._config):
            if listener is not None and sentences:
                result = listener.allure_logger.get_test(listener._cache.get(report.nodeid))
                result.statusDetails.message = "\n".join([result.statusDetails.message, *sentences])


class Annotations:
    """GitHub's marks in the list of changed files: leveret's warnings, each at the line that it is about."""

    def __init__(self, config: pytest.Config) -> None:
        self._root: Final = config.rootpath
        self._lines: Final[dict[str, None]] = {}

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, location: tuple[str, int, str] | None
    ) -> None:
        """Note a warning of leveret."""
        from leveret import LeveretWarning

        if isinstance(warning_message.message, LeveretWarning):
            file = os.path.relpath(warning_message.filename, os.environ.get("GITHUB_WORKSPACE", self._root))
            text = _escaped(str(warning_message.message))
            self._lines[f"::warning file={file},line={warning_message.lineno},title=leveret::{text}"] = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the marks where the runner reads them."""
        for line in self._lines:
            terminalreporter.write_line(line)


def prepare_annotations(config: pytest.Config) -> None:
    """Write marks if GitHub's runner reads them. Under pytest-xdist, the controller does."""
    if os.environ.get(_ON_GITHUB) == "true" and not hasattr(config, "workerinput"):
        register(config, Annotations(config), "leveret-annotations", "annotate the warnings")


def _escaped(text: str) -> str:
    """Return a text as the data of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
