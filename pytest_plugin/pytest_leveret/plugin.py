"""The plugin: what pytest calls.

Nothing of `leveret` is imported here or by what is imported here: a run that uses no broker pays nothing for this.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_leveret import brokers, explore, faults, markers, options, real, recording, rehearsal, report
from pytest_leveret.fixtures import fresh_broker, leveret_session, make_leveret, rehearsed_version

__all__ = ["fresh_broker", "leveret_session", "make_leveret", "rehearsed_version"]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of every word; the first hook there is, so before any conftest."""
    leave_asserts_alone(pluginmanager)
    options.add_options(parser)
    explore.add_option(parser)
    real.add_options(parser)


def leave_asserts_alone(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from rewriting the asserts of the broker.

    It does so for all of a distribution with a plugin in it, which doubles the time of the first import and slows what
    the broker asserts on its hot path. pytest has no public way to ask for less; without this one things still work.
    """
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("leveret")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse options that no broker takes."""
    config.addinivalue_line("markers", markers.LINE)
    config.addinivalue_line("markers", faults.LINE)
    config.addinivalue_line("markers", explore.LINE)
    config.pluginmanager.register(explore.Explorer(), "leveret-explorer")
    config.pluginmanager.register(recording.Recording(), "leveret-recording")
    brokers.refuse_unusable(config)
    real.prepare(config)
    if versions := rehearsal.versions(config):
        from pytest_leveret import upgrade_report

        upgrade_report.plan(config, versions)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name what differs from the defaults."""
    settings = options.general_settings(config)
    told = [f"{word}={_shown(setting.value)} ({setting.origin})" for word, setting in settings.items()]
    told = [f"on {place}", *told] if (place := real.place(config)) else told
    return f"leveret: {', '.join(told)}" if told else None


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else repr(value)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each version of a rehearsal; the version stands last in its id."""
    rehearsal.multiply(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, object, object]:
    """Do the same for classes of unittest."""
    return rehearsal.with_copies((yield), collector.config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a rehearsal does not need, before anybody selects or sorts."""
    items[:] = rehearsal.without_spares(config, items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that cannot be meant before anything of the test runs."""
    recording.begin_attempt(item)
    markers.refuse_wrong_marker(item)
    faults.refuse_wrong_marker(item)
    explore.refuse_wrong_marker(item)
    real.skip_marked(item)
    brokers.note_start(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Show what the brokers of a test were waiting for when somebody has lost patience."""
    try:
        return (yield)
    except KeyboardInterrupt:
        report.show_interrupted(item)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Raise what went wrong inside the session's broker in the test in which it did."""
    explore.end_watch(item)
    shared = brokers.session_broker(item)
    if shared is not None:
        rehearsal.look_at(item, [shared])
    try:
        return (yield)
    finally:
        shared = brokers.session_broker(item)
        if shared is not None:
            brokers.check([shared])
            if brokers.has_passed(item):
                brokers.judge([shared], item)
            else:
                brokers.excuse([shared])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the brokers of a test that failed."""
    result = yield
    if result.failed:
        report.add_sections(item, result, call)
        explore.note_failure(item, call)
    if result.when == "call":
        brokers.note_end(item, result)
    rehearsal.tell(item, result)
    return result
