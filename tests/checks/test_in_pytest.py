"""Strict checks in a user's test suite: where levels come from, and which tests are checked."""

from __future__ import annotations

import textwrap

import pytest

from tests.plugin.conftest import no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]

LOSS = """
    def test_it(leveret):
        leveret.publish("amq.topic", "nowhere")
"""


def test_a_loss_is_a_warning_of_the_test_it_happened_in(run):
    result = run(LOSS)

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*::test_it", "*LeveretWarning: unroutable: 1 message *"])


def test_a_warning_points_to_the_line_of_the_test(run):
    result = run("""
        def test_of_its_own(leveret):
            leveret.publish("amq.direct", "unbound", b"x")

        def test_of_many(leveret_session):
            leveret_session.publish("amq.direct", "unbound", b"x")
    """)

    result.assert_outcomes(passed=2, warnings=2)
    result.stdout.fnmatch_lines(["*.py:1: LeveretWarning: unroutable*", "*.py:4: LeveretWarning: unroutable*"])


def test_a_filter_makes_it_an_error(run):
    run(LOSS, "-W", "error::leveret.LeveretWarning").assert_outcomes(passed=1, errors=1)


def test_the_command_line_sets_levels(run):
    run(LOSS, "--leveret-checks=unroutable=error").assert_outcomes(passed=1, errors=1)
    run(LOSS, "--leveret-checks=off").assert_outcomes(passed=1, warnings=0)


def test_the_environment_and_the_ini_file_set_levels(run, suite, monkeypatch):
    suite.makeini("[pytest]\nleveret_checks = off, unroutable=error")
    run(LOSS).assert_outcomes(passed=1, errors=1)

    monkeypatch.setenv("LEVERET_CHECKS", "off")
    run(LOSS).assert_outcomes(passed=1, warnings=0)


def test_markers_add_to_the_levels_for_all_and_the_closest_wins(run, suite):
    suite.makeini("[pytest]\nleveret_checks = error, overflowed_into_nothing=off")
    result = run("""
        import pytest

        pytestmark = pytest.mark.leveret(checks={"unroutable": "off"})

        def lose(leveret):
            leveret.publish("amq.topic", "nowhere")
            leveret.declare_queue("last", arguments={"x-max-length": 1})
            leveret.publish("", "last", "1")
            leveret.publish("", "last", "2")

        def test_of_module(leveret):
            lose(leveret)

        @pytest.mark.leveret(checks="unroutable")
        def test_of_its_own(leveret):
            lose(leveret)
    """)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_of_its_own*", "*CheckFailedError: unroutable: 1 message *"]
    )


def test_make_leveret_adds_levels_too(run):
    result = run("""
        def test_it(make_leveret):
            make_leveret(checks="unroutable=error").publish("amq.topic", "nowhere")
    """)

    result.assert_outcomes(passed=1, errors=1)


def test_a_test_that_fails_is_not_judged(run):
    result = run(LOSS + "        assert False", "--leveret-checks=error")

    result.assert_outcomes(failed=1, errors=0)


@pytest.mark.parametrize("text", ["unroutabel=error", "unroutable=loud"])
def test_a_misspelt_check_ends_the_run(run, text):
    result = run(LOSS, f"--leveret-checks={text}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--leveret-checks: *"])


def test_a_misspelt_check_in_a_marker_fails_its_test(run):
    result = run("""
        import pytest

        @pytest.mark.leveret(checks="unroutabel=error")
        def test_it(leveret): pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown check 'unroutabel'; did you mean 'unroutable'?*"])


def test_each_test_is_judged_by_what_happened_in_it_on_the_broker_of_the_run(run):
    result = run(
        """
        def test_fails(leveret_session):
            leveret_session.publish("amq.topic", "first")
            assert False

        def test_loses(leveret_session):
            leveret_session.publish("amq.topic", "second")

        def test_is_fine(leveret_session):
            pass
        """,
        "--leveret-checks=error",
    )

    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_loses*", "*CheckFailedError: unroutable: 1 message *"])


def test_leftovers_on_the_broker_of_the_run_are_judged_at_its_end(run):
    result = run(
        """
        from client import connect

        def test_it(leveret_session):
            test_it.connection = connect(leveret_session.url)
        """,
        "--leveret-checks=connection_not_closed=error",
    )

    result.assert_outcomes(passed=1, errors=1)


def test_an_exception_in_an_answer_fails_the_test(run):
    result = run("""
        def test_it(leveret):
            leveret.respond("prices", lambda request: 1 / 0)
            leveret.publish("", "prices")
            leveret.wait_idle()
    """)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ZeroDivisionError*"])


def test_markers_set_the_level_of_an_unused_fault(run):
    result = run("""
        import pytest
        from leveret.faults import Withhold

        @pytest.mark.leveret(checks="unused_fault=off")
        @pytest.mark.leveret_fault(on="basic.get-ok", do=Withhold())
        def test_off(leveret):
            leveret.sync()

        @pytest.mark.leveret(checks="unused_fault=warning")
        def test_warned(leveret):
            leveret.faults.reset_peer(on="basic.ack")
    """)

    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(["*::test_warned", "*LeveretWarning: unused_fault: 1 fault *"])


@pytest.mark.parametrize(
    ("argument", "marker", "warning_count"),
    [
        ("--leveret-max-redeliveries=3", "", 1),
        ("--leveret-max-redeliveries=4", "", 0),
        ("--leveret-max-redeliveries=4", "@pytest.mark.leveret(max_redeliveries=3)", 1),
    ],
)
def test_options_and_markers_set_how_often_a_message_may_come_back(run, argument, marker, warning_count):
    result = run(
        f"""
        import pytest
        from client import connect

        {marker}
        def test_it(leveret):
            leveret.declare_queue("jobs")
            leveret.publish("", "jobs", b"poison")
            with connect(leveret.url) as connection:
                channel = connection.channel()
                for _ in range(4):
                    channel.basic_nack(channel.basic_get("jobs")[0].delivery_tag)
        """,
        argument,
    )

    result.assert_outcomes(passed=1, warnings=warning_count)


def test_a_number_of_redeliveries_that_is_none_fails_its_test(run):
    result = run("""
        import pytest

        @pytest.mark.leveret(max_redeliveries=0)
        def test_it(leveret):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*max_redeliveries=0 must be a whole number of 1 or more, as in max_redeliveries=20*"])


def test_the_way_out_calls_the_broker_as_the_test_does(run):
    result = run("""
        def test_own(leveret):
            leveret.publish("", "nowhere", b"1")

        def test_shared(leveret_session):
            leveret_session.publish("", "nowhere", b"1")

        def test_made(make_leveret):
            make_leveret().publish("", "nowhere", b"1")
    """)

    result.assert_outcomes(passed=3, warnings=3)
    result.stdout.fnmatch_lines_random(
        [f'*if you expect this: {name}.allow("unroutable"*' for name in ("leveret", "leveret_session", "broker")]
    )


def test_a_fault_that_an_earlier_test_left_behind_is_attributed_to_it(run):
    result = run("""
        def test_first(leveret_session):
            leveret_session.faults.nack_publishes(optional=True)

        def test_second(leveret_session):
            leveret_session.faults.drop(optional=True)
            leveret_session.assert_published("")
    """)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*<nack_publishes*> never fired: nothing matched, added in *::test_first", "*<drop*> never fired*matched"]
    )


@pytest.mark.parametrize(
    ("lines", "is_reported"),
    [
        (
            "    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as raised:\n        declare(channel, 2)\n",
            False,
        ),
        (
            "    with unittest.TestCase().assertRaises(\n    AMQPChannelError):\n        declare(channel, 2)\n",
            False,
        ),
        ("    with pytest.raises(ValueError):\n        try_to_declare(channel)\n        raise ValueError\n", True),
        ("    with pytest.raises(AMQPChannelError):\n        declare(channel, 2)\n    try_to_declare(again)\n", True),
    ],
)
def test_a_refusal_that_the_test_expects_is_not_reported(run, lines, is_reported):
    result = run(f"""
import unittest
import pika
import pytest
from client import connect
from pika.exceptions import AMQPChannelError

def declare(channel, length):
    channel.queue_declare("q", durable=True, arguments={{"x-max-length": length}})

def try_to_declare(channel):
    try:
        declare(channel, 3)
    except AMQPChannelError:
        pass

def test_it(leveret):
    with connect(leveret.url) as connection:
        channel, again = connection.channel(), connection.channel()
        declare(channel, 1)
{textwrap.indent(lines, "    ")}
""")

    result.assert_outcomes(passed=1, warnings=int(is_reported))
