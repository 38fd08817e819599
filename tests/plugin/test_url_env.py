"""The option `leveret_url_env`: URLs in the environment before an application is imported."""

from __future__ import annotations

import os
import re

import pytest

APPLICATION = """
    import os
    from client import connect

    AMQP_URL = os.environ["AMQP_URL"]

    def ship(order):
        with connect(AMQP_URL) as connection:
            connection.channel().basic_publish("amq.topic", "order.shipped", order)
"""


@pytest.fixture
def shop(suite):
    """An application that reads its URL when the conftest imports it."""
    suite.makepyfile(shop=APPLICATION)
    suite.makeconftest("import shop")
    suite.makeini("[pytest]\nleveret_url_env = AMQP_URL\nleveret_checks = unroutable=off")
    return suite


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("AMQP_URL", raising=False)


def test_an_application_that_conftest_imports_reads_the_url_of_the_session_broker(run, shop):
    result = run("""
        import shop

        def test_it(leveret_session):
            assert shop.AMQP_URL == leveret_session.url
            shop.ship(b"7")
            leveret_session.assert_published("amq.topic", routing_key="order.shipped", body=b"7")

        def test_another(leveret_session):
            leveret_session.assert_not_published("amq.topic")
            shop.ship(b"8")
            leveret_session.assert_published("amq.topic", times=1)
    """)

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["leveret: *AMQP_URL=amqp://guest@127.0.0.1:* (ini option leveret_url_env), *"])


def test_a_test_that_takes_no_fixture_is_judged_on_what_its_application_did(run, shop):
    result = run(
        """
        import shop

        def test_without_a_message(): pass
        def test_it(): shop.ship(b"7")
        def test_another(leveret_session): pass
        """,
        "--leveret-checks=unroutable=error",
    )

    # What the second test lost is no error of the third, which asks for the broker.
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(['*leveret_session.allow("unroutable"*', "ERROR *::test_it*"])


def test_a_failed_test_that_takes_no_fixture_shows_what_its_application_did(run, shop):
    result = run("""
        import shop

        def test_without_a_message(): assert 1 == 2

        def test_it():
            shop.ship(b"7")
            assert 3 == 4
    """)

    result.assert_outcomes(failed=2)
    report = result.stdout.str().partition("1 == 2")[2]
    assert "leveret" not in report.partition("test_it")[0]
    assert "published #1 ('amq.topic', 'order.shipped', '7')" in report
    assert "leveret: another broker" not in report


def test_the_header_names_the_version_until_it_is_chosen(run, shop):
    default = run("def test_it(): pass")
    chosen = run("def test_it(): pass", "--leveret-rabbitmq=3.13")

    default.stdout.fnmatch_lines(["leveret: *, as RabbitMQ 4.3 (the default; leveret_rabbitmq chooses another)"])
    chosen.stdout.no_fnmatch_line("*the default; leveret_rabbitmq*")


def test_the_variables_get_their_former_values_at_the_end(run, shop, monkeypatch):
    monkeypatch.setenv("OTHER_URL", "amqp://production")

    result = run(
        "import os\ndef test_it(): assert 'production' not in os.environ['OTHER_URL']",
        "--leveret-url-env=AMQP_URL OTHER_URL",
    )

    result.assert_outcomes(passed=1)
    assert os.environ["OTHER_URL"] == "amqp://production"
    assert "AMQP_URL" not in os.environ


def test_several_variables_name_virtual_hosts_and_users(run, pytester):
    pytester.makeini("""
        [pytest]
        leveret_vhosts = shop
        leveret_users = app=secret
        leveret_url_env =
            AMQP_URL, CELERY_BROKER_URL
            SHOP_URL vhost=shop user=app
    """)

    result = run("""
        import os
        from client import connect

        def test_it(leveret_session):
            assert os.environ["AMQP_URL"] == os.environ["CELERY_BROKER_URL"] == leveret_session.url
            assert os.environ["SHOP_URL"] == leveret_session.url_for("shop", "app")
            connect(os.environ["SHOP_URL"]).close()
    """)

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*secret*")


def test_variables_hold_the_parts_of_the_url(run, pytester):
    pytester.makeini("""
        [pytest]
        leveret_vhosts = shop
        leveret_users = app=secret
        leveret_management = yes
        leveret_url_env =
            RABBIT_HOST=host RABBIT_PORT=port RABBIT_USER=user RABBIT_PASSWORD=password RABBIT_VHOST=vhost
            API_URL=management_url API_PORT=management_port
            SHOP_USER=user SHOP_PASSWORD=password SHOP_VHOST=vhost vhost=shop user=app
    """)

    result = run("""
        import os
        import pika

        def parameters(prefix):
            return pika.ConnectionParameters(
                os.environ["RABBIT_HOST"], int(os.environ["RABBIT_PORT"]), os.environ[f"{prefix}_VHOST"],
                pika.PlainCredentials(os.environ[f"{prefix}_USER"], os.environ[f"{prefix}_PASSWORD"]),
            )

        def test_it(leveret_session):
            for prefix in ("RABBIT", "SHOP"):
                pika.BlockingConnection(parameters(prefix)).close()
            assert os.environ["API_URL"] == leveret_session.management_url
            assert leveret_session.management_url.endswith(":" + os.environ["API_PORT"])
    """)

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*secret*")
    result.stdout.fnmatch_lines(
        ["leveret: *RABBIT_HOST=127.0.0.1, *SHOP_PASSWORD=[*][*][*], * (ini option leveret_url_env), *"]
    )


def test_a_test_that_fails_on_another_broker_is_pointed_to_the_one_at_the_url(run, shop):
    result = run("""
        import shop

        def test_it(leveret):
            shop.ship(b"7")
            leveret.assert_published("amq.topic")
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["leveret_session is the broker at AMQP_URL; leveret and make_leveret are others. *"])


def test_a_test_whose_application_came_to_its_own_broker_is_not_pointed_to_another(run, shop):
    result = run("""
        import shop

        def test_it(leveret, monkeypatch):
            monkeypatch.setattr(shop, "AMQP_URL", leveret.url)
            shop.ship(b"7")
            assert False
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["set-up: c1 worker*"])
    result.stdout.no_fnmatch_line("*another broker*")


def test_each_of_two_brokers_has_the_name_of_its_fixture_once(run, shop):
    result = run("""
        import shop

        def test_it(leveret):
            shop.ship(b"7")
            assert False
    """)

    titles = re.findall(r"-+ leveret: (.*) -+", result.stdout.str())
    assert [title.partition(" on port")[0] for title in titles] == [
        "state of the broker",
        "leveret_session: state of the broker",
        "another broker",
    ]


def test_the_header_names_the_option_of_several_variables_once(run, shop):
    shop.makeini("[pytest]\nleveret_url_env = AMQP_URL PORT=port")

    result = run("def test_it(): pass")

    result.stdout.fnmatch_lines(
        ["leveret: AMQP_URL=amqp://guest@127.0.0.1:*, PORT=[0-9]* (ini option leveret_url_env), as RabbitMQ *"]
    )


def test_the_url_stays_when_the_rehearsal_of_an_upgrade_changes_the_version(run, shop):
    result = run(
        """
        import shop

        def test_it(leveret_session, request):
            assert shop.AMQP_URL == leveret_session.url
            assert leveret_session.rabbitmq in request.node.name
            shop.ship(b"7")
            leveret_session.assert_published("amq.topic", times=1)
        """,
        "--leveret-rabbitmq=3.13,4.0,4.3",
    )

    result.assert_outcomes(passed=3)


def test_a_failure_without_clients_names_the_variable(run):
    result = run(
        """
        def test_it(leveret_session):
            leveret_session.assert_published("amq.topic")
        """,
        "--leveret-url-env=AMQP_URL",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no client has connected: leveret_url_env sets AMQP_URL to this broker's url; *"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AMQP-URL", "'AMQP-URL' is not the name of an environment variable, such as AMQP_URL"),
        ("vhost=/", "'vhost=/' names no variable; write it first, as in AMQP_URL vhost=/"),
        ("A B; A", "A is named twice, and can hold one URL only; remove one of the two"),
        ("A vhsot=/", "unknown word 'vhsot'; did you mean 'vhost'?; write a line as in AMQP_URL vhost=shop user=app"),
        ("A=prot", "unknown part of the URL 'prot'; did you mean 'port'?; write A=host, or A for the whole URL"),
        ("A=management_url", "A=management_url: the broker serves no HTTP; set leveret_management = yes"),
        ("A vhost=shop", "A: unknown virtual host 'shop'; *; to create it, set leveret_vhosts = shop"),
        ("A user=app", "A: unknown user 'app'; *; to create it, set leveret_users = app=PASSWORD"),
    ],
)
def test_a_wrong_line_stops_the_run_at_once(run, text, said):
    result = run("def test_it(): pass", f"--leveret-url-env={text}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--leveret-url-env: {said}"])
    assert "A" not in os.environ


WORKER = """
    import os
    import sys
    import pytest

    PROGRAM = '''
    import os, pika
    channel = pika.BlockingConnection(pika.URLParameters(os.environ["SHOP_URL"])).channel()
    channel.queue_declare("orders", durable=True)
    channel.basic_consume("orders", lambda channel, method, *_: channel.basic_ack(method.delivery_tag))
    channel.start_consuming()
    '''

    def test_the_session_broker(leveret_session):
        with leveret_session.worker([sys.executable, "-c", PROGRAM]):
            (connection,) = leveret_session.connections
            assert (connection.vhost, connection.user) == ("shop", "app")

    def test_another_broker(leveret):
        with leveret.worker([sys.executable, "-c", PROGRAM]):
            (connection,) = leveret.connections
            assert (connection.vhost, connection.user) == ("shop", "app")

    def test_another_virtual_host(leveret):
        with leveret.worker([sys.executable, "-c", PROGRAM], vhost="stock"):
            (connection,) = leveret.connections
            assert (connection.vhost, connection.user) == ("stock", "guest")

    def test_only_a_named_variable(leveret_session, leveret):
        print_url = [sys.executable, "-c", "import os; print(os.environ['SHOP_URL'], flush=True)"]
        worker = leveret.worker(print_url, url_env="OTHER_URL").start()
        while worker.is_running:
            leveret.sync()
        worker.end()
        assert worker.output == os.environ["SHOP_URL"] + "\\n"
"""


def test_a_worker_gets_the_url_of_its_broker_in_the_variables_of_the_run(run, pytester):
    pytester.makeini("""
        [pytest]
        leveret_vhosts = shop, stock
        leveret_users = app=secret
        leveret_url_env = SHOP_URL vhost=shop user=app
    """)

    run(WORKER).assert_outcomes(passed=4)
