"""The plugin: the hooks that pytest calls.

Neither this module nor the modules it imports import `leveret`. A run that does not use leveret imports nothing more:
each hook asks `use` before it does anything.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_leveret import contract, flaky, options, use
from pytest_leveret.fixtures import fresh_broker, leveret_session, make_leveret, rehearsed_version
from pytest_leveret.guard import Guarded
from pytest_leveret.options import markers
from pytest_leveret.options.table import OF_RUN
from pytest_leveret.use import is_used

__all__ = ["fresh_broker", "leveret_session", "make_leveret", "rehearsed_version"]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options. This is the first hook that pytest calls, before it loads any conftest."""
    leave_asserts_alone(pluginmanager)
    options.add_options(parser)
    contract.add_setting(parser)
    flaky.add_options(parser)


def leave_asserts_alone(pluginmanager: pytest.PytestPluginManager) -> None:
    """Keep pytest from rewriting the asserts of the broker.

    pytest rewrites all modules of a distribution that contains a plugin. That doubles the time of the first import and
    slows the asserts on the broker's hot path. pytest has no public way to prevent it. If this one stops working, only
    speed is lost.
    """
    marked = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("leveret")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None, object, object]:
    """Start the broker of the run before conftests, or plugins such as Django's, import an application."""
    flaky.complete_arguments(args)
    if options.read_settings(early_config, OF_RUN):
        from pytest_leveret import real
        from pytest_leveret.brokers import run_broker

        real.prepare(early_config)
        run_broker.prepare(early_config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and refuse invalid options."""
    for line in markers.LINES:
        config.addinivalue_line("markers", line)
    if use.is_asked_for(config):
        use.begin(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return a line with the settings that differ from the defaults."""
    if not is_used(config):
        return None
    from pytest_leveret import brokers, real
    from pytest_leveret.brokers import run_broker

    settings, led = options.general_settings(config), run_broker.PORTS if brokers.role_of(config) else ()
    parts = [f"{word}={_shown(it.value)} ({it.origin})" for word, it in settings.items() if word not in led]
    parts += run_broker.header(config)
    parts = [f"on {place}", *parts] if (place := real.place(config)) else parts
    return f"leveret: {', '.join(parts)}" if parts else None


def _shown(value: object) -> str:
    # The header names users without their passwords.
    value = sorted(value) if isinstance(value, frozenset | set) else value
    return ", ".join(value) if isinstance(value, list | tuple | Mapping) else repr(value)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let the broker of the run know the session whose tests it serves."""
    if is_used(session.config):
        from pytest_leveret.brokers import run_broker

        run_broker.begin_session(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests ran on leveret instead of a server, and which option did nothing."""
    if is_used(config):
        from pytest_leveret import standins

        with Guarded("count the tests on leveret", config):
            for line in standins.summary(config):
                terminalreporter.write_line(f"leveret: {line}")


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each version of a rehearsal. The version comes last in its id."""
    if is_used(metafunc.config):
        from pytest_leveret.rehearsals import rehearsal

        rehearsal.multiply(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, object, object]:
    """Run classes of unittest once for each version as well."""
    collected = yield
    if not is_used(collector.config):
        return collected
    from pytest_leveret.rehearsals import rehearsal

    return rehearsal.with_copies(collected, collector.config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that a rehearsal does not need, before other plugins select or sort."""
    if use.has_broker() or any(map(use.asks, items)):
        use.begin(config)
    if is_used(config):
        from pytest_leveret.rehearsals import rehearsal

        items[:] = rehearsal.without_spares(config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a feature that does not go together with a marker of the tests that are to run."""
    if is_used(session.config) and not hasattr(session.config, "workerinput"):
        from pytest_leveret.trials import pairs

        pairs.refuse_pairs(session.config, session.items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse an invalid marker before anything of the test runs."""
    item.config.stash[options.RUNNING] = item
    if is_used(item.config):
        from pytest_leveret import brokers, explore, real, standins
        from pytest_leveret.brokers import recording, run_broker, states

        recording.begin_attempt(item)
        has_run_broker, has_standins = run_broker.is_started(item.config), standins.are_on(item.config)
        markers.refuse_wrong_marker(item, has_run_broker=has_run_broker, has_standins=has_standins)
        explore.refuse_wrong_marker(item)
        states.refuse_wrong_marker(item)
        real.skip_marked(item)
        brokers.note_start(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Show the brokers of a test when the user interrupts it, and free them when it has ended."""
    try:
        return (yield)
    except KeyboardInterrupt:
        if is_used(item.config):
            from pytest_leveret.reports import report

            with Guarded("show the brokers", item.config):
                report.show_interrupted(item)
        raise
    finally:
        if is_used(item.config):
            # A limit of pytest-timeout may end only now. Beyond this point its error would end the run.
            with Guarded("forget a test", item.config):
                from pytest_leveret.brokers import recording
                from pytest_leveret.reports import diagnosing

                recording.forget(item)
                diagnosing.forget(item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Let a fixture of several tests hold a clock for them."""
    if fixturedef.scope == "function" or not is_used(request.config):
        return (yield)
    from pytest_leveret import brokers

    with brokers.keeping_holds(request.config, fixturedef):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Raise an internal error of a shared broker in the test in which it happened."""
    __tracebackhide__ = True
    if not is_used(item.config):
        return (yield)
    from pytest_leveret import brokers, standins
    from pytest_leveret.brokers.harness import harness_of
    from pytest_leveret.rehearsals import rehearsal

    with Guarded("note what a test used", item):
        if used := brokers.used_brokers(item):
            rehearsal.note_traces(item, used)
            standins.note_use(item, used)
    try:
        return (yield)
    finally:
        brokers.release_clocks(item.config)
        # A broker that has ended with this test was judged by its fixture.
        if used := brokers.used_brokers(item):
            brokers.check(used)
            if brokers.has_passed(item):
                brokers.judge(used, item)
            else:
                for broker in used:
                    harness_of(broker).excuse()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the brokers to the report of a test that failed."""
    if not is_used(item.config) and use.is_about_leveret(call):
        use.begin(item.config)
        from pytest_leveret.reports import report

        report.Reporting().pytest_runtest_makereport(item, call)
    with _whole_parsing():
        result = yield
    if not is_used(item.config):
        return result
    from pytest_leveret import brokers
    from pytest_leveret.brokers import recording
    from pytest_leveret.real import differences
    from pytest_leveret.rehearsals import rehearsal
    from pytest_leveret.reports import pages, report

    markers.show_unexpected(call, result)
    if result.failed:
        with Guarded("describe the brokers", item, result):
            report.add_sections(item, result)
    with Guarded("write the page", item, result):
        pages.add_page(item, result, call)
    with Guarded("add the page to the reports", item, result):
        report.add_to_reports(item, result)
    with Guarded("record the outcome", item, result):
        if result.when == "call":
            brokers.note_end(item, result, recording.error_text(call) if result.failed else None)
    with Guarded("compare the versions", item, result):
        rehearsal.add_to_report(item, result)
        differences.note_broker(item, result)
    return result


@contextmanager
def _whole_parsing() -> Iterator[None]:
    """Keep the garbage collector off while pytest parses the source of a failed test, where it can break the parser.

    Before CPython 3.11.8, a parse within a parse raises SystemError (CPython issue 106905), which ends the whole run. A
    robust connection that an earlier test left open is enough: when it is collected, asyncio logs a traceback, which
    parses source too. From 3.12 on, the collector does not run inside the parser.
    """
    is_at_risk = sys.version_info < (3, 11, 8) and gc.isenabled()
    if is_at_risk:
        gc.disable()
    try:
        yield
    finally:
        if is_at_risk:
            gc.enable()
