"""What the plugin reports about faults that never fired, and faults added by a test's marker."""

from __future__ import annotations

import pytest
import pytest_leveret.plugin


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_source(source):
        pytester.makepyfile(source)
        options = ("-p", "no:cacheprovider", "--strict-markers")
        return pytester.runpytest_inprocess(*options, plugins=[pytest_leveret.plugin])

    return run_source


def test_an_unused_fault_fails_a_test_with_the_fixture(run):
    result = run(
        """
        def test_unused(leveret):
            leveret.faults.reset_peer(on="basic.ack")

        def test_optional(leveret):
            leveret.faults.reset_peer(on="basic.ack", optional=True)
        """
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*CheckFailedError: unused_fault: 1 fault that the test added did not happen, or too rarely",
            "*<reset_peer on basic.ack, times=1> never fired: nothing matched",
            "*if you expect this: optional=True, leveret.allow(*",
        ]
    )


def test_an_unused_fault_of_a_failed_test_is_not_reported_then_or_later(run):
    result = run(
        """
        def test_failing(leveret_session):
            leveret_session.faults.reset_peer(on="basic.ack")
            assert False

        def test_next(leveret_session):
            pass
        """
    )

    result.assert_outcomes(passed=1, failed=1)


def test_an_unused_fault_of_the_session_broker_fails_the_test_that_added_it(run):
    result = run(
        """
        def test_unused(leveret_session):
            leveret_session.faults.reset_peer(on="basic.ack")

        def test_next(leveret_session):
            pass
        """
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_unused*"])


def test_the_report_of_a_failed_test_names_the_faults(run):
    result = run(
        """
        def test_failing(leveret):
            leveret.faults.block_publishers()
            assert False
        """
    )

    result.stdout.fnmatch_lines(["faults:", "  <block_publishers> fired once"])


def test_a_marker_adds_a_rule(run):
    result = run(
        """
        import pytest
        from leveret.faults import Withhold, Fault

        pytestmark = pytest.mark.leveret_fault(on="basic.get-ok", do=Fault(), optional=True)

        @pytest.mark.leveret_fault(on="queue.declare-ok", do=Withhold(), times=2, optional=True)
        def test_marked(leveret):
            assert [(rule.on, rule.times) for rule in leveret.faults.rules] == [
                ("basic.get-ok", None),
                ("queue.declare-ok", 2),
            ]
        """
    )

    result.assert_outcomes(passed=1)


def test_an_invalid_marker_fails_before_the_test_runs(run):
    result = run(
        """
        import pytest
        from leveret.faults import Withhold

        @pytest.mark.leveret_fault(on="queue.declare_ok", do=Withhold())
        def test_marked(leveret):
            pass
        """
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*:4: leveret_fault: unknown method or event 'queue.declare_ok'; did you mean*"])


@pytest.mark.parametrize(
    ("fixture", "text"),
    [
        ("", "the test does not use the fixture leveret; use it, or remove the marker"),
        ("leveret_session", "the test does not use the fixture leveret; use it, or remove the marker"),
        ("make_leveret", "*for a broker of make_leveret, call broker.faults.add(*"),
    ],
)
def test_a_marker_on_a_test_without_a_broker_fails_the_test(run, fixture, text):
    result = run(
        f"""
        import pytest

        @pytest.mark.leveret_fault(on="basic.publish", do=None)
        def test_marked({fixture}):
            pass
        """
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*:3: leveret_fault: {text}"])


def test_a_marker_of_a_module_applies_to_its_tests_with_a_broker(run):
    result = run(
        """
        import pytest
        from leveret.faults import Fault

        pytestmark = pytest.mark.leveret_fault(on="basic.get-ok", do=Fault(), optional=True)

        def test_without():
            pass

        def test_asking(request):
            assert request.getfixturevalue("leveret").faults.rules
        """
    )

    result.assert_outcomes(passed=2)


def test_a_marker_without_a_fault_names_the_import_of_faults(run):
    result = run(
        """
        import pytest

        @pytest.mark.leveret_fault(on="basic.ack")
        def test_marked(leveret):
            pass
        """
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*leveret_fault: do= is missing; *from leveret.faults import *"])


def test_a_marked_fault_that_ends_something_applies_once(run):
    result = run(
        """
        import pytest
        from leveret.faults import ResetPeer

        @pytest.mark.leveret_fault(on="basic.publish", do=ResetPeer(), optional=True)
        def test_marked(leveret):
            assert [rule.times for rule in leveret.faults.rules] == [1]
        """
    )

    result.assert_outcomes(passed=1)
