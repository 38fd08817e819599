"""The rehearsal of an upgrade: which tests run on which version, and how often."""

from __future__ import annotations

import re

import pytest

from leveret.core.compat import VERSIONS

BOTH = "--leveret-rabbitmq=4.3,4.0"

SHOW_VERSION = """
    def test_it(leveret):
        assert repr(leveret)
"""


def ran(result: pytest.RunResult) -> list[str]:
    """Return the tests of a verbose run, in order."""
    return re.findall(r"^\w+\.py::(.*) (?:PASSED|FAILED)", "\n".join(result.outlines), re.MULTILINE)


def test_tests_with_a_broker_run_once_for_each_version_oldest_first_and_others_once(run):
    result = run(
        """
        import pytest

        def test_plain():
            pass

        @pytest.fixture
        def orders(make_leveret):
            return make_leveret()

        def test_fixture_of_a_fixture(orders, request):
            assert f"as RabbitMQ {request.node.name[-4:-1]}>" in repr(orders)

        @pytest.mark.parametrize("turn", [1, 2])
        def test_parameters(leveret, turn, request):
            assert f"as RabbitMQ {request.node.name[-4:-1]}>" in repr(leveret)

        @pytest.mark.usefixtures("leveret")
        class TestClass:
            def test_by_name(self):
                pass
        """,
        BOTH,
        "-v",
    )

    result.assert_outcomes(passed=9)
    assert ran(result) == [
        "test_plain",
        "test_fixture_of_a_fixture[rabbitmq-4.0]",
        "test_parameters[1-rabbitmq-4.0]",
        "test_parameters[2-rabbitmq-4.0]",
        "TestClass::test_by_name[rabbitmq-4.0]",
        "test_fixture_of_a_fixture[rabbitmq-4.3]",
        "test_parameters[1-rabbitmq-4.3]",
        "test_parameters[2-rabbitmq-4.3]",
        "TestClass::test_by_name[rabbitmq-4.3]",
    ]


@pytest.mark.parametrize("place", ["command line", "environment", "ini"])
def test_versions_can_be_set_like_every_option(run, pytester, monkeypatch, place):
    flags = ["--leveret-rabbitmq=4.3, 3.13"] if place == "command line" else []
    if place == "environment":
        monkeypatch.setenv("LEVERET_RABBITMQ", "4.3 3.13")
    if place == "ini":
        pytester.makeini("[pytest]\nleveret_rabbitmq = 4.3,3.13")

    result = run(SHOW_VERSION, "-v", *flags)

    assert ran(result) == ["test_it[rabbitmq-3.13]", "test_it[rabbitmq-4.3]"]
    result.stdout.fnmatch_lines(["leveret: rabbitmq=3.13, 4.3 (*)"])


def test_versions_are_in_the_order_of_their_numbers(run):
    result = run(SHOW_VERSION, "-v", "--leveret-rabbitmq=4.3,3.10,4.0,3.13,4.2")

    assert re.findall(r"\d+\.\d+", " ".join(ran(result))) == ["3.10", "3.13", "4.0", "4.2", "4.3"]


def test_one_version_named_twice_is_not_a_rehearsal(run):
    result = run(SHOW_VERSION, "-v", "--leveret-rabbitmq=4.0,4.0")

    assert ran(result) == ["test_it"]
    result.stdout.no_fnmatch_line("*upgrade report*")


def test_an_unknown_version_among_others_stops_the_run_at_once(run):
    result = run(SHOW_VERSION, "--leveret-rabbitmq=4.3,9.9")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    known = ", ".join(VERSIONS)
    result.stderr.fnmatch_lines([f"*--leveret-rabbitmq: unknown RabbitMQ version '9.9'; expected one of {known}*"])


def test_a_test_whose_marker_names_a_version_runs_once_on_that(run):
    result = run(
        """
        import pytest

        @pytest.mark.leveret(rabbitmq="3.10")
        class TestClass:
            def test_of_class(self, leveret):
                assert "as RabbitMQ 3.10>" in repr(leveret)

        @pytest.mark.leveret(seed=7)
        def test_other_word(leveret):
            pass
        """,
        BOTH,
        "-v",
    )

    result.assert_outcomes(passed=3)
    assert sorted(ran(result)) == [
        "TestClass::test_of_class",
        "test_other_word[rabbitmq-4.0]",
        "test_other_word[rabbitmq-4.3]",
    ]


def test_a_parameter_whose_marker_names_a_version_runs_once_on_that(run):
    result = run(
        """
        import pytest

        old = pytest.param("old", marks=pytest.mark.leveret(rabbitmq="3.10"))

        @pytest.mark.parametrize("kind", [old, "any"])
        def test_it(leveret, kind):
            assert ("as RabbitMQ 3.10>" in repr(leveret)) == (kind == "old")
        """,
        BOTH,
    )

    result.assert_outcomes(passed=3)


def test_a_broker_made_for_a_version_keeps_it(run):
    result = run(
        """
        def test_it(make_leveret, request):
            assert "as RabbitMQ 3.10>" in repr(make_leveret(rabbitmq="3.10"))
            assert f"as RabbitMQ {request.node.name[-4:-1]}>" in repr(make_leveret())
        """,
        BOTH,
    )

    result.assert_outcomes(passed=2)


def test_a_broker_requested_at_run_time_has_the_newest_version(run):
    result = run(
        """
        def test_it(request):
            assert "as RabbitMQ 4.3>" in repr(request.getfixturevalue("leveret"))
        """,
        BOTH,
    )

    result.assert_outcomes(passed=1)


def test_the_session_broker_serves_all_tests_of_a_version(run):
    result = run(
        """
        import pytest

        urls = []

        @pytest.fixture(scope="session")
        def app(leveret_session):
            urls.append(leveret_session.url)
            return repr(leveret_session)

        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(app, leveret_session, turn, request):
            assert f"as RabbitMQ {request.node.name[-4:-1]}>" in app
            assert app == repr(leveret_session)

        def test_without_a_broker():
            assert len(urls) == 2
        """,
        BOTH,
    )

    result.assert_outcomes(passed=5)


def test_classes_of_unittest_run_once_for_each_version_if_they_use_a_broker(run):
    result = run(
        """
        import unittest
        import pytest

        seen = []

        class OrderTest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _broker(self, leveret):
                self.leveret = leveret

            def test_it(self):
                seen.append(repr(self.leveret)[-4:-1])

        class PlainTest(unittest.TestCase):
            def test_it(self):
                self.assertEqual(seen, ["4.0", "4.3"])

        @pytest.mark.leveret(rabbitmq="3.10")
        @pytest.mark.usefixtures("leveret")
        class OldTest(unittest.TestCase):
            def test_it(self):
                pass
        """,
        BOTH,
        "-v",
    )

    result.assert_outcomes(passed=4)
    assert ran(result) == [
        "OrderTest[rabbitmq-4.0]::test_it",
        "OrderTest[rabbitmq-4.3]::test_it",
        "PlainTest::test_it",
        "OldTest::test_it",
    ]


def test_a_run_with_one_version_shows_no_report_and_no_versions_in_its_ids(run):
    result = run(SHOW_VERSION, "-v", "--leveret-rabbitmq=4.0")

    assert ran(result) == ["test_it"]
    result.stdout.no_fnmatch_line("*upgrade report*")
