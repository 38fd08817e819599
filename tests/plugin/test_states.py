"""The marker `leveret_state`: what each test begins with is built once."""

from __future__ import annotations

import pytest

BUILD = """
    import pika
    import pytest

    built = []

    def shop(leveret):
        built.append(leveret)
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"one")
"""


def test_each_test_begins_with_what_was_built_once(run):
    result = run(
        BUILD
        + """
    @pytest.mark.leveret_state(build=shop)
    @pytest.mark.parametrize("number", range(3))
    def test_it(leveret, number):
        with pika.BlockingConnection(pika.URLParameters(leveret.url)) as client:
            assert client.channel().basic_get("orders", auto_ack=True)[2] == b"one"
        assert len(built) == 1
    """
    )

    result.assert_outcomes(passed=3)


def test_each_version_has_a_state_of_its_own(run):
    result = run(
        BUILD
        + """
    @pytest.mark.leveret_state(build=shop)
    @pytest.mark.parametrize("version", [
        pytest.param(version, marks=pytest.mark.leveret(rabbitmq=version)) for version in ("4.3", "4.0", "4.3")
    ])
    def test_it(leveret, version):
        assert len(leveret.queue("orders").ready) == 1

    def test_the_count():
        assert len(built) == 2
    """
    )

    result.assert_outcomes(passed=4)


def test_a_fixture_of_the_session_may_give_the_state(run):
    result = run("""
        import pytest
        from leveret import Broker

        @pytest.fixture(scope="session")
        def shop():
            with Broker() as broker:
                broker.declare_queue("orders")
                return broker.snapshot()

        @pytest.mark.leveret_state("shop")
        def test_it(leveret):
            assert leveret.queue("orders").name == "orders"
    """)

    result.assert_outcomes(passed=1)


def test_a_failed_test_names_the_line_of_the_builder(run):
    result = run(
        BUILD
        + """
    @pytest.mark.leveret_state(build=shop)
    @pytest.mark.parametrize("number", range(2))
    def test_it(leveret, number):
        leveret.assert_acked("orders", body=b"one")
    """
    )

    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("in shop") >= 2


def test_a_finding_of_the_builder_is_reported_in_the_test_that_built(run):
    result = run("""
        import pytest

        def lose(leveret):
            leveret.publish("", "nowhere", b"one")

        @pytest.mark.leveret(checks="unroutable=error")
        @pytest.mark.leveret_state(build=lose)
        @pytest.mark.parametrize("number", range(2))
        def test_it(leveret, number):
            pass
    """)

    result.assert_outcomes(passed=1, errors=1)


def test_a_marker_that_names_no_state_fails_its_test(run):
    result = run("""
        import pytest

        @pytest.fixture
        def shop():
            return 7

        @pytest.mark.leveret_state("shop")
        def test_no_snapshot(leveret):
            pass

        @pytest.mark.leveret_state
        def test_nothing(leveret):
            pass

        @pytest.mark.leveret_state("shop")
        def test_no_broker():
            pass
    """)

    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*the fixture shop must return what broker.snapshot() gives, not 7*"])


def test_each_set_of_settings_has_a_state_of_its_own(run):
    result = run(
        BUILD
        + """
    @pytest.mark.leveret_state(build=shop)
    def test_plain(leveret):
        pass

    @pytest.mark.leveret(vhosts={"shop"})
    @pytest.mark.leveret_state(build=shop)
    def test_with_a_virtual_host(leveret):
        leveret.declare_queue("orders", vhost="shop")
    """
    )

    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    "body",
    [
        "async def build(leveret):\n    pass",
        "def build(leveret):\n    yield",
        "async def late():\n    pass\n\ndef build(leveret):\n    return late()",
    ],
)
def test_a_builder_that_does_not_build_when_called_is_refused(run_apart, body):
    result = run_apart(f"""
import gc
import pytest

{body}

@pytest.mark.leveret_state(build=build)
@pytest.mark.parametrize("number", range(2))
def test_it(leveret, number):
    pass

def test_after_the_first_error_is_free():
    gc.collect()
""")

    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(["*build must build at once; it cannot be async, nor yield*"])
    result.stdout.no_fnmatch_line("*never awaited*")


def test_a_keyword_that_the_marker_does_not_have_is_refused_before_a_broker_starts(run):
    result = run("""
        import pytest

        @pytest.mark.leveret_state(build=print, typo=1)
        def test_it(leveret):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*leveret_state(build=<*print>, typo=1): the marker takes*leveret_state(build=*"])
    result.stdout.no_fnmatch_line("*no client has connected*")


def test_a_builder_that_fails_is_reported_with_the_broker_on_which_it_built(run):
    result = run("""
        import pika
        import pytest

        def shop(leveret):
            with pika.BlockingConnection(pika.URLParameters(leveret.url)) as client:
                client.channel().queue_declare("orders", durable=True)
                client.channel().basic_publish("", "orders", b"one")
                raise KeyError("no price")

        @pytest.mark.leveret_state(build=shop)
        def test_it(leveret):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*KeyError: 'no price'*", "*orders*1 ready*"])
    result.stdout.no_fnmatch_line("*no client has connected*")
