"""One broker for the tests of a class, a module or a package, and fixtures that ask for the wrong one."""

from __future__ import annotations

import pytest

OF_A_MODULE = """
    import pytest
    from pytest_leveret import leveret_fixture

    orders_broker = leveret_fixture("module", vhosts={"orders"})
    ports = []
"""


def test_the_tests_of_a_module_share_a_broker_and_count_for_themselves(run):
    result = run(
        OF_A_MODULE
        + """
    def test_first(orders_broker, leveret):
        orders_broker.declare_queue("work", vhost="orders")
        orders_broker.publish("", "work", b"1", vhost="orders")
        orders_broker.assert_published("", vhost="orders", times=1)
        assert orders_broker.port != leveret.port
        ports.append(orders_broker.port)

    def test_second(orders_broker):
        orders_broker.assert_not_published("", vhost="orders")
        assert len(orders_broker.queue("work", vhost="orders").ready) == 1
        assert orders_broker.port == ports[0]
    """
    )

    result.assert_outcomes(passed=2)


def test_each_class_has_a_broker_of_its_own(run):
    result = run("""
        import pytest
        from pytest_leveret import leveret_fixture

        broker = leveret_fixture(scope="class")
        brokers = []

        class TestOne:
            @pytest.mark.parametrize("turn", [1, 2])
            def test_it(self, broker, turn):
                brokers.append(broker)

        class TestTwo:
            def test_it(self, broker):
                assert brokers[0] is brokers[1] is not broker
    """)

    result.assert_outcomes(passed=3)


def test_the_modules_of_a_package_share_a_broker(run, pytester):
    source = """
def test_it(broker, pytestconfig):
    assert vars(pytestconfig).setdefault("seen", broker.url) == broker.url
"""
    folder = pytester.mkpydir("orders")
    folder.joinpath("conftest.py").write_text(
        'from pytest_leveret import leveret_fixture\nbroker = leveret_fixture("package")'
    )
    for name in ("test_a.py", "test_b.py"):
        folder.joinpath(name).write_text(source)

    result = run("def test_outside(): pass")

    result.assert_outcomes(passed=3)


def test_a_failure_shows_the_shared_broker(run):
    result = run(
        OF_A_MODULE
        + """
    def test_it(orders_broker):
        orders_broker.declare_queue("work")
        assert False
    """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*leveret: state of the broker on port *"])


def test_an_upgrade_is_rehearsed_with_a_broker_of_each_version(run):
    result = run(
        OF_A_MODULE
        + """
    def test_it(orders_broker, request):
        assert orders_broker.rabbitmq in request.node.name
    """,
        "--leveret-rabbitmq=4.0,4.3",
    )

    result.assert_outcomes(passed=2)


def test_a_marker_cannot_change_a_shared_broker(run):
    result = run(
        OF_A_MODULE
        + """
    @pytest.mark.leveret(rabbitmq="4.0")
    def test_it(orders_broker):
        pass
    """
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker leveret cannot change orders_broker, which serves many tests; *"])


def test_an_unknown_scope_is_refused_with_those_that_exist(run):
    result = run('from pytest_leveret import leveret_fixture\nbroker = leveret_fixture("modul")')

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*scope='modul' is unknown; expected one of session, package, module, class"])


@pytest.mark.parametrize(
    ("scope", "asked", "said"),
    [
        (
            "session",
            "leveret",
            "leveret has a new broker for each function. In a fixture of the session, use leveret_session,*",
        ),
        ("session", "broker", "broker uses leveret, which has a new broker for each function. *use leveret_session, *"),
        ("module", "make_leveret", '    module_broker = leveret_fixture("module")'),
        ("class", "leveret", '    class_broker = leveret_fixture("class")'),
    ],
)
def test_a_wider_fixture_that_asks_for_a_broker_of_one_test_learns_which_to_use(run, scope, asked, said):
    result = run(f"""
        import pytest

        @pytest.fixture
        def broker(leveret):
            return leveret

        @pytest.fixture(scope="{scope}")
        def app({asked}):
            return {asked}

        def test_it(app):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ScopeMismatch: *", said])


def test_a_mismatch_without_a_broker_is_left_alone(run):
    result = run("""
        import pytest

        @pytest.fixture
        def small():
            pass

        @pytest.fixture(scope="session")
        def large(small):
            pass

        def test_it(large):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.no_fnmatch_line("*leveret_session*")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "broker",
            "fixture 'broker' does not exist. The broker of a test is the fixture leveret, and that of the whole run *",
        ),
        ("rabbitmq_proc", "*def rabbitmq_proc(leveret_session):*"),
        ("amqp_url", "*return leveret.url"),
        ("levret", "fixture 'levret' does not exist; did you mean 'leveret'?"),
        ("leveret_sesion", "fixture 'leveret_sesion' does not exist; did you mean 'leveret_session'?"),
    ],
)
def test_a_fixture_that_does_not_exist_is_answered_with_the_one_that_does(run, name, said):
    result = run(f"def test_it({name}): pass")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_a_missing_fixture_of_another_subject_is_left_alone(run):
    result = run("def test_it(database): pass")

    result.assert_outcomes(errors=1)
    result.stdout.no_fnmatch_line("*-- leveret --*")
