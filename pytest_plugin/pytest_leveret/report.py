"""The report of a test that failed: the sections about its brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_leveret.brokers import brokers_of

if TYPE_CHECKING:
    from leveret import Broker


def add_sections(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Add a section for each broker of a failed test, unless there is only one and the error already shows it."""
    brokers = brokers_of(item)
    if len(brokers) == 1 and call.excinfo is not None:
        from leveret.observe.report import is_shown_by

        if is_shown_by(call.excinfo.value):
            return
    for broker in brokers:
        report.sections.append(("leveret", _text(broker)))


def show_interrupted(item: pytest.Item) -> None:
    """Show the brokers of a test that was interrupted, for which pytest makes no report."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return
    for broker in brokers_of(item):
        terminal.section(f"leveret, interrupted in {item.nodeid}")
        terminal.write_line(_text(broker))


def _text(broker: Broker) -> str:
    try:
        from leveret.engine.harness import Harness

        return Harness(broker).report()
    except Exception as error:
        # An error here would end the whole run, and hide the failure it should explain.
        return f"leveret could not report on {broker!r}: {error!r}"
