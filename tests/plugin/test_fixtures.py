"""The fixtures: a fresh broker, a factory, and one for many tests."""

from __future__ import annotations

import pytest


def test_a_test_gets_an_empty_broker_that_clients_reach_by_its_url(run):
    result = run("""
        from client import connect

        def test_it(leveret):
            assert leveret.queues == []
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders", durable=True)
                assert [queue.name for queue in leveret.queues] == ["orders"]
    """)

    result.assert_outcomes(passed=1)


def test_a_client_that_a_test_leaves_running_does_not_reach_the_next_broker(run):
    result = run("""
        import pytest
        from pika.exceptions import AMQPConnectionError
        from client import connect

        urls = []

        def test_first(leveret):
            urls.append(leveret.url)

        def test_second(leveret):
            with pytest.raises(AMQPConnectionError):
                connect(urls[0])
            connect(leveret.url).close()
    """)

    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("arguments", [(), ("--leveret-otlp=spans",)])
def test_a_broker_and_its_messages_are_freed_when_their_test_has_ended(run, arguments):
    source = """
        import gc
        from weakref import ref

        brokers = []

        def test_first(leveret):
            brokers.append(ref(leveret))

        def test_second(make_leveret):
            brokers.append(ref(make_leveret()))

        def test_third():
            gc.collect()
            assert [broker() for broker in brokers] == [None, None]
    """

    result = run(source, *arguments)

    result.assert_outcomes(passed=3)


def test_a_broker_is_freed_though_its_test_has_failed(run_apart):
    # In this process, pytester would keep the error, and with its frames the broker.
    result = run_apart("""
        import gc
        from weakref import ref

        brokers = []

        def test_first(leveret):
            brokers.append(ref(leveret))
            assert leveret.url == "amqp://other"

        def test_second():
            assert not brokers, "pytest keeps the last error"

        def test_third():
            gc.collect()
            assert brokers[0]() is None
    """)

    result.assert_outcomes(passed=1, failed=2)


def test_two_fixtures_that_use_leveret_get_the_same_broker(run):
    result = run("""
        import pytest

        @pytest.fixture
        def orders(leveret):
            return leveret.declare_queue("orders")

        def test_it(orders, leveret):
            assert leveret.queue("orders").name == "orders"
    """)

    result.assert_outcomes(passed=1)


def test_a_factory_starts_any_number_of_brokers_and_stops_them_all(run):
    result = run("""
        import pytest
        from leveret import BrokerError

        brokers = []

        def test_two(make_leveret):
            brokers.extend([make_leveret(), make_leveret(rabbitmq="3.13", seed=7)])
            assert brokers[0].port != brokers[1].port
            assert "as RabbitMQ 3.13" in repr(brokers[1])

        @pytest.mark.parametrize("number", [0, 1])
        def test_both_are_stopped(number):
            assert "not running" in repr(brokers[number])
    """)

    result.assert_outcomes(passed=3)


def test_the_factory_takes_one_permitted_feature_as_a_string(run):
    result = run("""
        from client import connect

        def test_it(make_leveret):
            broker = make_leveret(permit="transient_nonexcl_queues")
            with connect(broker.url) as connection:
                connection.channel().queue_declare("orders")
    """)

    result.assert_outcomes(passed=1)


def test_the_session_broker_keeps_its_state_between_tests(run):
    result = run("""
        def test_first(leveret_session):
            leveret_session.declare_queue("orders")

        def test_second(leveret_session, leveret):
            assert leveret_session.queue("orders").name == "orders"
            assert leveret_session.url != leveret.url
            assert leveret.queues == []
    """)

    result.assert_outcomes(passed=2)


def test_time_that_a_test_held_runs_on_in_the_next(run):
    result = run("""
        def test_first(leveret_session):
            leveret_session.clock.advance(hours=1)

        def test_second(leveret_session):
            assert not leveret_session.clock.is_held
    """)

    result.assert_outcomes(passed=2)


def test_time_that_a_fixture_of_a_class_held_stays_held_until_the_class_ends(run):
    result = run("""
        import pytest

        class TestHeld:
            @pytest.fixture(scope="class")
            def held(self, leveret_session):
                leveret_session.clock.hold()
                yield leveret_session
                assert leveret_session.clock.is_held

            def test_first(self, held):
                held.clock.advance(5)

            def test_second(self, held):
                assert held.clock.is_held

        def test_third(leveret_session):
            assert not leveret_session.clock.is_held
    """)

    result.assert_outcomes(passed=3)


@pytest.mark.parametrize("asked_for", ["leveret_session", 'request.getfixturevalue("leveret_session")'])
def test_time_that_a_fixture_of_a_test_held_runs_on_in_the_next(run, asked_for):
    result = run(f"""
        import pytest

        @pytest.fixture
        def held(request, leveret_session):
            broker = {asked_for}
            broker.clock.hold()
            return broker

        @pytest.fixture
        def broken(held):
            raise ZeroDivisionError

        def test_first(held):
            assert held.clock.is_held

        def test_second(leveret_session):
            assert not leveret_session.clock.is_held

        def test_third(broken):
            pass

        def test_fourth(leveret_session):
            assert not leveret_session.clock.is_held
    """)

    result.assert_outcomes(passed=3, errors=1)


def test_assertions_on_the_broker_of_the_session_count_from_the_beginning_of_the_test(run):
    result = run("""
        import pytest
        from client import connect
        from pika.exceptions import AMQPError

        @pytest.fixture(scope="session")
        def shop(leveret_session):
            with connect(leveret_session.url) as connection:
                yield connection

        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(leveret_session, shop, turn):
            leveret_session.assert_not_published("amq.topic")
            with pytest.raises(AssertionError):
                leveret_session.assert_refused(404)
            shop.channel().basic_publish("amq.topic", "order.created", b"x")
            with pytest.raises(AMQPError):
                shop.channel().queue_declare("missing", passive=True)
            leveret_session.assert_published("amq.topic", times=1)
            leveret_session.assert_refused(404)
            assert len(leveret_session.events.query("published")) == turn
    """)

    result.assert_outcomes(passed=2, warnings=2)


def test_failures_on_the_session_broker_name_the_test_of_earlier_events(run):
    result = run("""
        def test_a(leveret_session):
            leveret_session.declare_queue("orders")
            leveret_session.publish("", "orders", b"x")

        def test_b(leveret_session):
            leveret_session.assert_published("", routing_key="orders")
    """)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *before this test began, so not counted: 1 in *.py::test_a"])


def test_the_broker_of_the_session_can_be_emptied_between_tests(run):
    result = run("""
        import pytest

        @pytest.fixture(autouse=True)
        def empty(leveret_session):
            leveret_session.reset()

        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(leveret_session, turn):
            assert leveret_session.queues == []
            leveret_session.declare_queue("orders")
    """)

    result.assert_outcomes(passed=2)


def test_fixtures_of_the_session_may_use_the_broker_of_the_session(run):
    result = run("""
        import pytest

        @pytest.fixture(scope="session")
        def app(leveret_session):
            return {"amqp": leveret_session.url}

        def test_it(app, leveret_session):
            assert app["amqp"] == leveret_session.url
    """)

    result.assert_outcomes(passed=1)


def test_a_unittest_class_gets_its_broker_by_a_fixture_of_its_own(run):
    result = run("""
        import unittest
        import pytest
        from client import connect

        class OrderTest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _broker(self, leveret):
                self.leveret = leveret

            def test_declaring(self):
                with connect(self.leveret.url) as connection:
                    connection.channel().queue_declare("orders", durable=True)
                self.assertEqual(self.leveret.queue("orders").name, "orders")

            def test_nothing_is_left(self):
                self.assertEqual(self.leveret.queues, [])
    """)

    result.assert_outcomes(passed=2)


def test_a_unittest_class_may_ask_for_a_broker_by_name_only(run):
    result = run("""
        import unittest
        import pytest

        @pytest.mark.usefixtures("leveret")
        class OrderTest(unittest.IsolatedAsyncioTestCase):
            async def test_it(self):
                pass
    """)

    result.assert_outcomes(passed=1)


def test_a_worker_that_outlives_its_test_is_refused_with_the_name_of_the_test(run):
    result = run("""
        import pika
        import pytest
        from client import connect

        left_behind = []

        def test_leaves_a_connection(leveret):
            left_behind.append(connect(leveret.url))

        def test_of_its_own():
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
                left_behind[0].process_data_events(5)

            text = closed.value.reply_text
            assert text.startswith("CONNECTION_FORCED - broker forced connection closure with reason 'shutdown': ")
            assert text.endswith(".py::test_leaves_a_connection")
    """)

    result.assert_outcomes(passed=2)


def test_the_factory_refuses_positional_arguments(run):
    result = run("""
        def test_it(make_leveret):
            make_leveret("4.0")
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TypeError: make_leveret takes keywords only, as in make_leveret(rabbitmq='4.0')"])


def test_a_test_does_not_wait_for_a_client_that_an_earlier_test_has_lost(run):
    result = run("""
        from client import connect

        def test_first(leveret_session):
            leveret_session.declare_queue("orders")
            connection = connect(leveret_session.url)
            connection.channel().basic_consume("orders", lambda *_: None)
            leveret_session.faults.reset_peer()
            leveret_session.publish("", "orders")

        def test_second(leveret_session):
            leveret_session.wait_idle(timeout=0)
    """)

    result.assert_outcomes(passed=2)
