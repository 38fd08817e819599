"""The marker: merged from module, class, test and parameter; an invalid one is refused."""

from __future__ import annotations

import pytest


def test_markers_of_module_class_and_test_are_merged_and_the_closest_wins(run):
    result = run("""
        import pytest

        pytestmark = pytest.mark.leveret(rabbitmq="4.0", seed=7)

        def test_of_module(leveret, make_leveret):
            assert "as RabbitMQ 4.0>" in repr(leveret)
            assert leveret.declare_queue().name == make_leveret(seed=7).declare_queue().name

        @pytest.mark.leveret(rabbitmq="3.13")
        class TestClass:
            def test_of_class(self, leveret):
                assert "as RabbitMQ 3.13>" in repr(leveret)

            @pytest.mark.leveret(rabbitmq="3.10")
            def test_of_its_own(self, leveret, make_leveret):
                assert "as RabbitMQ 3.10>" in repr(leveret)
                assert leveret.declare_queue().name == make_leveret(rabbitmq="4.3").declare_queue().name
    """)

    result.assert_outcomes(passed=3)


def test_a_parameter_is_closer_than_its_test(run):
    result = run("""
        import pytest

        @pytest.mark.leveret(rabbitmq="4.3")
        @pytest.mark.parametrize("version", [
            pytest.param("3.13", marks=pytest.mark.leveret(rabbitmq="3.13")),
            pytest.param("4.0", marks=pytest.mark.leveret(rabbitmq="4.0")),
        ])
        def test_it(leveret, version):
            assert f"as RabbitMQ {version}>" in repr(leveret)
    """)

    result.assert_outcomes(passed=2)


def test_the_marker_is_registered_with_all_its_keywords(run):
    result = run("def test_it(): pass", "--markers")

    result.stdout.fnmatch_lines(
        ["@pytest.mark.leveret(rabbitmq='4.3', permit=*, seed=0, record='recent', trace_dir=*, checks=*, host=*): *"]
    )


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("rabitmq='4.0'", "unknown keyword 'rabitmq'; did you mean 'rabbitmq'?"),
        ("permits='x'", "unknown keyword 'permits'; did you mean 'permit'?"),
        ("strict=True", "*unknown keyword 'strict'; did you mean 'checks=\"error\"'?"),
        ("version='3.13'", "*unknown keyword 'version'; did you mean 'rabbitmq'?"),
        ("tls=True", "*unknown keyword 'tls'; only a broker that the test starts takes it: make_leveret(tls=*)"),
        ("checks=True", "*write 'unroutable=error', or 'error' for all checks"),
        ("zzz=1", "unknown keyword 'zzz'; expected one of rabbitmq, permit, seed, record, trace_dir, *"),
        ("'4.0'", "the marker takes keywords only, as in leveret(rabbitmq='4.0')"),
        ("seed='7'", "seed='7' must be a whole number"),
        ("rabbitmq=4.3", "rabbitmq=4.3 is a number; write the version as a string: rabbitmq='4.3', *"),
        ("users=['app']", "users=['app'] must be a mapping of name to password, *"),
        ("definitions=7", "definitions=7 must be the path of a definitions.json, or what json.load returns"),
        ("port='x'", "port='x' is not a port; expected a number *"),
        ("permit=7", "permit=7 must be one or more names, such as permit={'name'}"),
    ],
)
def test_an_invalid_marker_fails_its_test_before_it_starts(run, marker, said):
    result = run(f"""
        import pytest

        @pytest.mark.leveret({marker})
        def test_wrong(leveret):
            pass

        def test_right(leveret):
            pass
    """)

    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([f"*.py:3: {said}".replace("[", "[[]")])


def test_an_invalid_marker_fails_a_test_without_a_broker(run):
    result = run("""
        import pytest

        @pytest.mark.leveret(rabitmq="4.0")
        def test_wrong():
            pass
    """)

    result.assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("rabbitmq='9.9'", "unknown RabbitMQ version '9.9'; expected one of * (from marker leveret)"),
        (
            "checks='strict'",
            "unknown level of a check 'strict'; did you mean 'error'? (from marker leveret)",
        ),
        (
            "permit='global_qoss'",
            "unknown deprecated feature 'global_qoss'; did you mean 'global_qos'? (from marker leveret)",
        ),
    ],
)
def test_a_value_that_the_broker_refuses_fails_with_its_origin(run, marker, said):
    result = run(f"""
        import pytest

        @pytest.mark.leveret({marker})
        def test_wrong(leveret):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_a_marker_of_its_own_fails_a_test_without_a_broker(run):
    result = run("""
        import pytest

        pytestmark = pytest.mark.leveret(seed=7)

        @pytest.mark.leveret(rabbitmq="3.13")
        def test_marked():
            pass

        def test_beside_others():
            pass

        @pytest.mark.leveret(rabbitmq="3.13")
        def test_asking(request):
            assert "as RabbitMQ 3.13>" in repr(request.getfixturevalue("leveret"))
    """)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*:5: marker leveret: the test uses neither the fixture leveret nor make_leveret; use one of them, *"]
    )


def test_a_marker_cannot_change_the_broker_of_the_session(run):
    result = run("""
        import pytest

        @pytest.mark.leveret(rabbitmq="4.0")
        def test_wrong(leveret_session):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*::test_wrong: the marker leveret cannot change leveret_session, *"])
