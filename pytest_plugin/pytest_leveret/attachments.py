"""What leveret adds to the reports of others: the page of a failed test in pytest-html and Allure, and GitHub's marks.

Each needs its plugin, or GitHub's runner, and does nothing without.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_leveret.recording import PAGE

_ON_GITHUB: Final = "GITHUB_ACTIONS"
_TITLE: Final = "leveret: what happened"


def add_to_reports(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the page of a test to the reports of the plugins that a run has."""
    path = item.stash.get(PAGE, None)
    if path is None or not report.failed:
        return
    plugins = item.config.pluginmanager
    if plugins.has_plugin("html"):
        from pytest_html import extras

        shown: list[Any] = vars(report).setdefault("extras", [])
        shown.append(extras.url(Path(path).as_uri(), name=_TITLE))
    if plugins.has_plugin("allure_listener"):
        import allure

        attach: Any = allure.attach.file
        attach(path, name=_TITLE, attachment_type=allure.attachment_type.HTML)


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


def prepare(config: pytest.Config) -> None:
    """Write marks if GitHub's runner reads them. Under pytest-xdist, the controller does."""
    if os.environ.get(_ON_GITHUB) == "true" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Annotations(config), "leveret-annotations")


def _escaped(text: str) -> str:
    """Return a text as the data of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
