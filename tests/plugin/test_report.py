"""What pytest shows about the brokers of a failed test."""

from __future__ import annotations

import re

DENIED = """
    from client import connect

    def declare(channel):
        channel.queue_declare("orders")

    def test_it(leveret):
        connection = connect(leveret.url, name="order worker")
        declare(connection.channel())
"""


def test_a_failed_test_shows_seed_set_up_queues_and_the_events_with_their_clients(run):
    result = run("""
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("orders")
            leveret.publish("", "orders", b"hello")
            with connect(leveret.url, name="order worker") as connection:
                assert connection.channel().basic_get("orders")[2] == b"goodbye"
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- leveret: state of the broker on port *, RabbitMQ 4.3 -*",
            "set-up: c1 order worker; 1 queue",
            "queues when the test failed: orders 0 ready, 1 unacked, 0 consumers",
            "queues after its clean-up: orders 1 ready, no consumers",
            "events, seconds since the test began:",
            "  0.* the test (*.py:5) published #1 ('', 'orders', 'hello') to 'orders'",
            "  0.* c1/ch1 got #1 from 'orders'",
        ]
    )


def test_a_message_that_the_failure_describes_is_named_beside_the_other_events(run):
    result = run("""
        def test_it(leveret):
            leveret.declare_queue("orders")
            leveret.publish("", "orders", b"first")
            leveret.publish("", "orders", b"second")
            leveret.assert_published("", routing_key="orders", body=b"second.")
    """)

    result.stdout.fnmatch_lines(
        [
            "*nearest: #2 *",
            "events, seconds since the test began (#2: see above):",
            "  0.* published #1 ('', 'orders', 'first') to 'orders'",
        ]
    )


def test_only_the_tail_of_a_long_trace_is_shown(run):
    result = run("""
        def test_it(leveret):
            leveret.declare_queue("orders")
            for number in range(30):
                leveret.publish("", "orders", str(number))
            assert False
    """)

    result.stdout.fnmatch_lines(["last 10 of 30 events, seconds since the test began:", "*('', 'orders', '29')*"])
    result.stdout.no_fnmatch_line("*('', 'orders', '3')*")


def test_a_test_that_passes_shows_nothing(run):
    result = run("def test_it(leveret): leveret.declare_queue('orders')", "-rA")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*- leveret: *")


def test_a_failed_test_without_a_broker_shows_nothing(run):
    result = run("def test_it(): assert False")

    result.stdout.no_fnmatch_line("*- leveret: *")


def test_a_failing_fixture_shows_the_broker_it_used(run):
    result = run("""
        import pytest

        @pytest.fixture
        def orders(leveret):
            leveret.declare_queue("orders")
            raise RuntimeError("no")

        def test_it(orders):
            pass
    """)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*- leveret: *", "queues: empty: orders"])


def test_the_report_of_an_error_is_the_only_section(run):
    # Omit the summary, which repeats the errors if CI is set.
    result = run(
        """
        def test_it(leveret):
            leveret.wait_for_consumer("orders", timeout=0)
        """,
        "-rN",
    )

    result.assert_outcomes(failed=1)
    assert str(result.stdout).count("state of the broker on port") == 1
    result.stdout.fnmatch_lines(
        ["E*'orders' has no consumers after 0 s; queue 'orders' was not declared", "*- leveret: *"]
    )


def test_the_report_of_an_error_shows_the_moment_of_the_error(run):
    result = run("""
        from client import connect

        def test_it(leveret):
            leveret.declare_queue("orders")
            leveret.publish("", "orders", "x")
            with connect(leveret.url) as connection:
                channel = connection.channel()
                channel.basic_get("orders")
                leveret.assert_acked("orders")
    """)

    result.stdout.fnmatch_lines(
        ["*- leveret: *", "queues: orders 0 ready, 1 unacked held by a basic.get of worker for *"]
    )


def test_the_report_of_a_unittest_is_a_section(run):
    result = run("""
        import unittest
        from leveret import Broker

        class Test(unittest.TestCase):
            def test_it(self):
                broker = self.enterContext(Broker())
                broker.declare_queue("orders")
                broker.assert_acked("orders")
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: assert_acked('orders')*", "*- leveret: state of the broker on*"])
    assert str(result.stdout).count("state of the broker on port") == 1


def test_an_error_that_shows_one_of_two_brokers_is_followed_by_both(run):
    result = run("""
        def test_it(leveret, make_leveret):
            make_leveret().wait_for_consumer("orders", timeout=0)
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*- leveret: *", "*- leveret: *"])


def test_every_broker_of_a_test_is_shown(run):
    result = run("""
        def test_it(leveret, make_leveret, leveret_session):
            make_leveret(rabbitmq="4.0", seed=7)
            assert False
    """)

    result.stdout.fnmatch_lines(
        [
            "*state of the broker on port *, RabbitMQ 4.3 -*",
            "*state of the broker on port *, RabbitMQ 4.0, seed 7 -*",
            "*state of the broker on port *, RabbitMQ 4.3 -*",
        ]
    )


def test_the_events_of_the_session_are_those_of_the_test(run):
    result = run("""
        def test_first(leveret_session):
            leveret_session.declare_queue("orders")
            leveret_session.publish("", "orders", "of the first")

        def test_second(leveret_session):
            leveret_session.publish("", "orders", "of the second")
            assert False
    """)

    result.stdout.fnmatch_lines(["  0.* the test (*) published #2 ('', 'orders', 'of the second') to 'orders'"])
    result.stdout.no_fnmatch_line("*of the first*")


def test_the_errors_and_clients_of_an_earlier_test_on_a_shared_broker_are_left_out(run):
    result = run("""
        import socket
        import pytest
        from client import connect
        from pika.exceptions import AMQPError

        def test_first(leveret_session):
            connect(leveret_session.url, "first").close()
            with pytest.raises(AMQPError):
                connect(leveret_session.url.replace("guest:guest", "guest:wrong"), "intruder")
            with socket.create_connection(("127.0.0.1", leveret_session.port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\\r\\n")
                stranger.recv(1)

        def test_second(leveret_session):
            connection = connect(leveret_session.url, "second")
            channel = connection.channel()
            channel.queue_declare("orders", durable=True)
            tag = channel.basic_consume("orders", print)
            channel.basic_cancel(tag)
            channel.basic_consume("orders", print)
            assert False
    """)

    report = result.stdout.str()
    assert re.findall("set-up: .*", report) == ["set-up: c4 second; 1 queue, 1 consumer"]
    assert "errors sent to clients" not in report
    assert "intruder" not in report
    assert "HTTP request" not in report


def test_a_test_that_fails_where_an_earlier_one_was_refused_shows_its_own_refusal(run):
    result = run("""
        from client import connect

        def test_first(leveret_session):
            connect(leveret_session.url, "first").channel().queue_declare("cards", passive=True)

        def test_second(leveret_session):
            connect(leveret_session.url, "second").channel().queue_declare("cards", passive=True)
    """)

    refused = re.findall(r"  (\w+) \(c\d/ch1\) got 404", result.stdout.str())
    assert refused == ["first", "second"]


def test_a_message_that_the_failure_describes_alone_leaves_a_line_for_its_events(run):
    result = run("""
        def test_it(leveret):
            leveret.declare_queue("orders")
            leveret.publish("", "orders", json={"id": 7})
            leveret.assert_ready("orders", json={"id": 8})
    """)

    result.stdout.fnmatch_lines(["events: #1: see above"])


def test_a_report_without_a_trace_says_why(run):
    result = run("def test_it(leveret): assert False", "--leveret-record=off")

    result.stdout.fnmatch_lines(["no events recorded: the broker has record='off'; use record='recent'"])


def test_a_denied_feature_is_reported_with_client_line_and_all_ways_out(run):
    result = run(DENIED)

    result.stdout.fnmatch_lines(
        [
            "errors sent to clients:",
            "  order worker (c1/ch1) got 541 INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.",
            "    during the call at *.py:4 in declare, called from *.py:8 in test_it",
            "*declare the queue with durable=True (or exclusive=True)*",
            '*permit it: @pytest.mark.leveret(permit={"transient_nonexcl_queues"}), or '
            "leveret_permit = transient_nonexcl_queues*",
            '*set its version: @pytest.mark.leveret(rabbitmq="4.2"), or leveret_rabbitmq = 4.2 in the ini file',
        ]
    )


def test_each_way_out_of_a_denied_feature_works(run):
    result = run(
        """
        import pytest
        from client import connect

        def test_durable(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders", durable=True)

        def test_exclusive(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders", exclusive=True)

        @pytest.mark.leveret(permit={"transient_nonexcl_queues"})
        def test_permitted(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders")

        @pytest.mark.leveret(rabbitmq="4.2")
        def test_older(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders")
        """
    )

    result.assert_outcomes(passed=4)


def test_the_line_of_a_coroutine_that_awaited_the_refused_call_is_found(run):
    result = run("""
        import asyncio
        import aio_pika

        async def declare(url):
            connection = await aio_pika.connect(url)
            channel = await connection.channel()
            await channel.declare_queue("orders")

        def test_it(leveret):
            asyncio.run(declare(leveret.url))
    """)

    result.stdout.fnmatch_lines(
        [
            "errors sent to clients:",
            "  aiormq (c1/ch1) got 541 *",
            "    during the call at *.py:7 in declare",
        ]
    )


def test_a_refused_client_is_named_by_the_line_that_opened_its_connection(run):
    result = run("""
        import pytest
        from client import connect
        from pika.exceptions import AMQPError

        def test_it(leveret):
            connection = connect(leveret.url, name="order worker")
            channel = connection.channel()
            with leveret._engine.lock:
                # The broker reads it when pika has long returned.
                channel.basic_ack(17)
            leveret.sync()
            assert False
    """)

    result.stdout.fnmatch_lines(
        [
            "  order worker (c1/ch1) got 406 PRECONDITION_FAILED - unknown delivery tag 17",
            "    on the connection opened at *client.py:6 in connect, called from *.py:6 in test_it",
        ]
    )


def test_a_wrong_password_is_reported(run):
    result = run("""
        from client import connect

        def test_it(leveret):
            connect(leveret.url.replace("guest:guest", "guest:wrong"))
    """)

    result.stdout.fnmatch_lines(
        [
            "  worker (c1) got 403 ACCESS_REFUSED - Login was refused *",
            "    during the call at *client.py:6 in connect*",
        ]
    )


def test_a_deleted_working_directory_does_not_break_a_broker(run):
    result = run("""
        from client import connect

        def test_it(leveret, tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
            tmp_path.rmdir()
            leveret.declare_queue("orders")
            connect(leveret.url).close()
    """)

    result.assert_outcomes(passed=1)


NOISY = """
    import logging

    def test_it(leveret):
        logging.error("the client's own log")
        assert leveret.queues
"""


def test_the_state_of_the_broker_comes_before_captured_logs(run):
    result = run(NOISY)

    result.stdout.fnmatch_lines(["*- leveret: state of the broker on port *", "*- Captured log call -*"])


def test_the_state_of_the_broker_is_shown_without_captured_output(run):
    result = run(NOISY, "--show-capture=no")

    result.stdout.fnmatch_lines(["*- leveret: state of the broker on port *"])
    result.stdout.no_fnmatch_line("*Captured log call*")


def test_an_error_of_a_check_shows_no_frames_of_the_plugin(run):
    result = run("""
        import pytest
        from client import connect

        @pytest.mark.leveret(checks="unroutable=error")
        def test_it(leveret):
            with connect(leveret.url) as connection:
                connection.channel().basic_publish("", "nowhere", b"1")
    """)

    result.stdout.fnmatch_lines(["E * leveret.CheckFailedError: unroutable: 1 message lost: *"])
    result.stdout.no_fnmatch_line("*pytest_leveret*")
    result.stdout.no_fnmatch_line("*traceback entries are hidden*")


def test_an_error_that_ended_the_thread_of_a_consumer_is_named_with_its_line(run):
    result = run(
        """
        import threading
        from client import connect

        def handle(channel, method, properties, body):
            raise KeyError("customer")

        def work(url):
            channel = connect(url).channel()
            channel.basic_consume("orders", handle)
            channel.start_consuming()

        def test_it(leveret):
            leveret.declare_queue("orders")
            leveret.publish("", "orders", b"x")
            worker = threading.Thread(target=work, args=(leveret.url,), name="order-worker")
            worker.start()
            worker.join(10)
            leveret.assert_acked("orders")
    """,
        "-W",
        "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*leveret: what went wrong*",
            "worker held #1 of 'orders' when thread 'order-worker' died of KeyError: 'customer' at *.py:5 in handle, *",
        ]
    )


def test_a_task_of_a_client_is_named_by_the_handler_that_it_ran(run):
    result = run(
        """
        import asyncio
        import aio_pika

        async def scenario(leveret):
            handled = asyncio.Event()

            async def handle(message):
                handled.set()
                raise KeyError("customer")

            named = {"connection_name": "mailer"}
            async with await aio_pika.connect(leveret.url, client_properties=named) as connection:
                channel = await connection.channel()
                queue = await channel.declare_queue("orders", durable=True)
                await queue.consume(handle)
                leveret.publish("", "orders", b"x")
                await handled.wait()
                for _ in range(5):  # the loop calls what waits for the end of the task
                    await asyncio.sleep(0)
                leveret.assert_acked("orders")

        def test_it(leveret):
            asyncio.run(scenario(leveret))
        """,
        "--show-capture=no",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["mailer held #1 of 'orders' when task 'handle' died of KeyError: 'customer' at *"])


ON_A_LOOP = ("-p", "pytest_asyncio.plugin")
SERVICE = """
    import asyncio
    import aio_pika

    kept = []

    async def consume(url):
        async with await aio_pika.connect(url) as connection:
            queue = await (await connection.channel()).declare_queue("orders", durable=True)
            async with queue.iterator() as orders:
                async for order in orders:
                    async with order.process():
                        raise KeyError(order.body.decode())

    async def handled(leveret, body):
        kept.append(asyncio.create_task(consume(leveret.url)))
        await leveret.aio.wait_for_consumer("orders", timeout=5)
        leveret.publish("", "orders", body)
        await asyncio.wait([kept[-1]], timeout=5)
"""


def test_a_task_that_the_application_keeps_is_named_with_the_error_that_ended_it(run, suite):
    suite.makepyfile(service=SERVICE)
    result = run(
        """
        import gc
        import pytest
        import service

        @pytest.mark.asyncio
        async def test_it(leveret):
            await service.handled(leveret, "tea")
            assert leveret.url == ""

        def test_asyncio_reports_it_too(caplog):
            service.kept.clear()
            gc.collect()
            assert "Task exception was never retrieved" in caplog.text
    """,
        *ON_A_LOOP,
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    )

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["*leveret: also noticed*", "task 'consume' died of KeyError: 'tea' at service.py:12 in consume"]
    )


def test_a_task_whose_error_was_read_or_whose_loop_has_ended_is_not_named(run, suite):
    suite.makepyfile(service=SERVICE)
    result = run(
        """
        import pytest
        import service

        @pytest.mark.asyncio
        async def test_earlier(leveret_session):
            await service.handled(leveret_session, "of an earlier test")

        @pytest.mark.asyncio
        async def test_it(leveret_session):
            await service.handled(leveret_session, "read")
            service.kept[-1].exception()
            assert leveret_session.url == ""

        def test_end():
            service.kept.clear()
    """,
        *ON_A_LOOP,
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    )

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.no_fnmatch_line("*died of*")


def test_a_test_that_passes_leaves_the_hook_of_threads_as_it_was(run):
    result = run("""
        import threading
        seen = []

        def test_it(leveret):
            seen.append(threading.excepthook)

        def test_without_a_broker():
            assert threading.excepthook is not seen[0]
    """)

    result.assert_outcomes(passed=2)


def test_the_test_that_published_what_an_earlier_one_left_is_named(run):
    result = run("""
        def test_first(leveret_session):
            leveret_session.declare_queue("orders")
            leveret_session.publish("", "orders", b"x")

        def test_second(leveret_session):
            leveret_session.assert_empty("orders")

        def test_third(leveret_session):
            leveret_session.assert_acked("orders")
    """)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*ready: #1 ('', 'orders', 'x'), published in *::test_first",
            "*ready since before this test: #1 ('', 'orders', 'x'), published in *::test_first",
        ]
    )


def test_what_asyncio_logs_without_an_error_does_not_fail_a_test(run):
    result = run(
        """
        import logging

        def test_passed(leveret):
            logging.getLogger("asyncio").error("no error", exc_info=False)
        """
    )

    result.assert_outcomes(passed=1)


def test_of_several_brokers_only_those_that_a_cause_names_are_shown_in_full(run):
    result = run(
        """
        def test_orders(make_leveret):
            shop, stock, mail = (make_leveret() for _ in range(3))
            shop.declare_queue("orders")
            shop.publish("", "oders", b"seven teas")
            stock.declare_queue("items")
            assert [message.text for message in shop.queue("orders").ready] == ["seven teas"]
        """
    )

    result.stdout.fnmatch_lines(
        [
            "E *AssertionError*",
            "*leveret: what went wrong*",
            "shop: #1 from the test reached no queue: *",
            "*leveret: shop: state of *",
            "set-up: *",
            "*leveret: other brokers*",
            "stock: state of the broker on port *",
            "mail: state of the broker on port *",
        ]
    )


def test_an_error_that_a_client_gets_again_and_again_has_one_line(run):
    result = run("""
        from client import connect
        from pika.exceptions import AMQPError

        def test_it(leveret):
            for _ in range(4):
                try:
                    connect(leveret.url, name="scanner").channel().queue_declare("cards", passive=True)
                except AMQPError:
                    pass
            assert False
    """)

    result.stdout.fnmatch_lines(["  scanner (c4/ch1) got 404 NOT_FOUND - no queue 'cards' in vhost '/' (4 times)"])
    assert "c4/ch1 was refused" in result.stdout.str()
    assert "c3/ch1" not in result.stdout.str()
