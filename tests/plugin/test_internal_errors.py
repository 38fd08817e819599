"""leveret's internal errors: they fail the test, with their traceback."""

from __future__ import annotations

BREAK = """
    import pytest

    def due():
        raise ZeroDivisionError("inside the broker")

    def break_(broker):
        # A deadline of the broker's own whose action fails.
        broker._engine.node.timers.add(0, due)
"""


def test_an_internal_error_fails_the_test_with_its_own_traceback(run):
    result = run(
        BREAK
        + """
    def test_broken(leveret):
        break_(leveret)

    def test_whole(leveret):
        pass
    """
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_broken*", ">*raise ZeroDivisionError(*", "E*ZeroDivisionError: inside the broker"]
    )


def test_an_internal_error_is_reported_with_a_test_that_failed_anyway(run):
    result = run(
        BREAK
        + """
    def test_broken(leveret):
        break_(leveret)
        leveret.sync()
        assert "something" == "else"
    """
    )

    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*_ test_broken _*", "errors inside leveret:", "*ZeroDivisionError: inside the broker"]
    )


def test_an_internal_error_of_any_broker_counts_and_all_are_stopped(run):
    result = run(
        BREAK
        + """
    brokers = []

    def test_broken(make_leveret):
        brokers.extend([make_leveret(), make_leveret()])
        for broker in brokers:
            break_(broker)

    def test_after():
        assert all("not running" in repr(broker) for broker in brokers)
    """
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*errors inside leveret (2 sub-exceptions)*"])


def test_an_internal_error_of_the_session_fails_the_test_in_which_it_happened_and_no_other(run):
    result = run(
        BREAK
        + """
    def test_before(leveret_session):
        pass

    def test_broken(leveret_session):
        break_(leveret_session)
        leveret_session.reset()

    def test_after(leveret_session):
        pass
    """
    )

    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_broken*"])


def test_broker_check_raises_an_internal_error(run):
    result = run(
        BREAK
        + """
    def test_broken(leveret):
        break_(leveret)
        leveret.sync()
        with pytest.raises(ZeroDivisionError):
            leveret.check()
    """
    )

    result.assert_outcomes(passed=1, errors=1)
