"""The same options in marker, command line, environment and ini file, and which of them wins."""

from __future__ import annotations

import socket

import pytest

from leveret import Broker
from tests.systems import needs_proc

SHOW_VERSION = """
    import pytest

    {marker}
    def test_it(leveret):
        assert "as RabbitMQ {expected}>" in repr(leveret)
"""


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((), "4.3"),
        (("ini",), "4.2"),
        (("ini", "environment"), "4.0"),
        (("ini", "environment", "command line"), "3.13"),
        (("ini", "environment", "command line", "marker"), "3.10"),
        (("ini", "marker"), "3.10"),
    ],
)
def test_the_closest_place_decides_the_version(run, pytester, monkeypatch, places, expected):
    if "ini" in places:
        pytester.makeini("[pytest]\nleveret_rabbitmq = 4.2")
    if "environment" in places:
        monkeypatch.setenv("LEVERET_RABBITMQ", "4.0")
    flags = ["--leveret-rabbitmq=3.13"] if "command line" in places else []
    marker = "@pytest.mark.leveret(rabbitmq='3.10')" if "marker" in places else ""

    result = run(SHOW_VERSION.format(marker=marker, expected=expected), *flags)

    result.assert_outcomes(passed=1)


def test_the_port_for_http_is_an_option_of_the_run_and_of_a_test(run):
    result = run(
        """
        import pytest

        def test_of_the_run(leveret):
            assert leveret.management_url.startswith("http://127.0.0.1:")

        @pytest.mark.leveret(management=False)
        def test_of_the_test(leveret):
            with pytest.raises(RuntimeError, match="start it with management=True"):
                leveret.management_url
        """,
        "--leveret-management=yes",
    )

    result.assert_outcomes(passed=2)


def test_the_session_broker_and_every_made_one_follow_the_options_of_the_run(run):
    result = run(
        """
        def test_it(leveret_session, make_leveret):
            assert "as RabbitMQ 4.0>" in repr(leveret_session)
            assert "as RabbitMQ 4.0>" in repr(make_leveret())
            assert "as RabbitMQ 3.10>" in repr(make_leveret(rabbitmq="3.10"))
        """,
        "--leveret-rabbitmq=4.0",
    )

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("text", ["transient_nonexcl_queues", "global_qos, transient_nonexcl_queues"])
def test_features_are_permitted_by_a_string(run, pytester, text):
    pytester.makeini(f"[pytest]\nleveret_permit = {text}")

    result = run("""
        from client import connect

        def test_it(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders")
    """)

    result.assert_outcomes(passed=1)


def test_an_empty_environment_variable_is_ignored(run, monkeypatch):
    monkeypatch.setenv("LEVERET_RABBITMQ", "")

    result = run(SHOW_VERSION.format(marker="", expected="4.3"))

    result.assert_outcomes(passed=1)


def test_the_same_seed_generates_the_same_names(run):
    result = run(
        """
        names = []

        def test_first(leveret):
            names.append(leveret.declare_queue().name)

        def test_second(leveret):
            assert leveret.declare_queue().name == names[0]

        def test_third(make_leveret):
            assert make_leveret(seed=8).declare_queue().name != names[0]
        """,
        "--leveret-seed=7",
    )

    result.assert_outcomes(passed=3)


def test_the_header_lists_settings_that_differ_from_the_defaults(run, monkeypatch):
    monkeypatch.setenv("LEVERET_SEED", "7")

    result = run("def test_it(): pass", "--leveret-rabbitmq=4.0")

    result.stdout.fnmatch_lines(["leveret: rabbitmq='4.0' (--leveret-rabbitmq), seed=7 (LEVERET_SEED)"])


def test_a_run_without_options_has_no_header(run):
    result = run("def test_it(): pass")

    result.stdout.no_fnmatch_line("leveret:*")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--leveret-rabbitmq=9.9", "*--leveret-rabbitmq: unknown RabbitMQ version '9.9'; expected one of 4.3,*"),
        (
            "--leveret-permit=global_qoss",
            "*--leveret-permit: unknown deprecated feature 'global_qoss'; did you mean 'global_qos'?",
        ),
        ("--leveret-seed=many", "*--leveret-seed: 'many' is not a whole number"),
        ("--leveret-users=app", "*--leveret-users: user 1 is not of the form NAME=PASSWORD or NAME:PASSWORD, *"),
        ("--leveret-settings=channel_max", "*--leveret-settings: 'channel_max' is not of the form NAME=VALUE"),
        ("--leveret-settings=chanel_max=7", "*--leveret-settings: unknown setting 'chanel_max'; did you mean *"),
        ("--leveret-plugins=mqtt", "*--leveret-plugins: unknown plugin 'mqtt'; expected *"),
        ("--leveret-definitions=x.json", "*--leveret-definitions: definitions='*x.json' cannot be read: *"),
        ("--leveret-port=99999", "*--leveret-port: port=99999 is not a port; expected *"),
        ("--leveret-max-redeliveries=0", "*--leveret-max-redeliveries: '0' is not 1 or more"),
        (
            "--leveret-record=all",
            "*--leveret-record: record='all' is unknown; expected 'off' or 'recent'; to keep all events, *",
        ),
    ],
)
def test_an_invalid_option_stops_the_run_at_once(run, flag, said):
    result = run("def test_it(): pass", flag)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_every_option_is_explained(run):
    result = run("", "--help")

    for word in ("rabbitmq", "permit", "seed", "record", "host"):
        result.stdout.fnmatch_lines([f"*--leveret-{word}=*", f"*leveret_{word} (string):*"])


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--leveret-host=no-such-host.invalid", "--leveret-host: cannot listen on no-such-host.invalid: *"),
        ("--leveret-seed=x", "--leveret-seed: 'x' is not a whole number"),
        pytest.param(
            "--leveret-trace-dir=/proc/x", "--leveret-trace-dir: cannot write a file to '/proc/x': *", marks=needs_proc
        ),
    ],
)
def test_a_host_or_directory_that_cannot_be_used_stops_the_run_at_once(run, flag, text):
    result = run("def test_it(leveret): pass", flag)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{text}"])


def test_users_virtual_hosts_and_definitions_come_from_the_ini_file(run, pytester):
    pytester.makeini("""
        [pytest]
        leveret_users = app=secret, auditor:other
        leveret_vhosts = shop billing
        leveret_definitions = production.json
    """)
    pytester.makefile(
        ".json", production='{"queues": [{"name": "orders", "vhost": "shop", "durable": true, "arguments": {}}]}'
    )

    result = run("""
        from client import connect

        def test_it(leveret, leveret_session):
            for broker in (leveret, leveret_session):
                assert broker.queue("orders", vhost="shop").durable
                for user in ("app", "auditor", "guest"):
                    connect(broker.url_for("billing", user)).close()
    """)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["leveret: users=app, auditor (ini option leveret_users), *"])


def test_plugins_and_lines_of_rabbitmq_conf_come_from_the_ini_file(run, pytester):
    pytester.makeini("""
        [pytest]
        leveret_plugins = rabbitmq_event_exchange
        leveret_settings =
            channel_max = 7
            loopback_users=none
    """)

    result = run("""
        from client import connect

        def test_it(leveret, leveret_session):
            for broker in (leveret, leveret_session):
                assert broker.exchange("amq.rabbitmq.event").type == "topic"
                assert connect(broker.url)._impl.params.channel_max == 7
    """)

    result.assert_outcomes(passed=1)


def test_plugins_and_lines_of_rabbitmq_conf_come_from_a_marker(run):
    result = run("""
        import pytest
        from client import connect

        @pytest.mark.leveret(plugins="rabbitmq_event_exchange", settings={"channel_max": 7})
        def test_it(leveret):
            assert leveret.exchange("amq.rabbitmq.event").type == "topic"
            assert connect(leveret.url)._impl.params.channel_max == 7
    """)

    result.assert_outcomes(passed=1)


NATIVE = """
leveret_vhosts = ["shop", "stage"]
leveret_port = 0
leveret_rabbitmq = "4.2"
leveret_trace_bodies = false
leveret_seed = 7
leveret_users = {app = "secret", auditor = "other"}
leveret_checks = {unroutable = "error"}
leveret_settings = {channel_max = 3}
"""


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest reads TOML with its own types from 9 on")
@pytest.mark.parametrize(
    ("file", "table"),
    [("pyproject.toml", "[tool.pytest]"), ("pytest.toml", "[pytest]")],
)
def test_options_come_from_toml_in_its_own_types(run, pytester, file, table):
    (pytester.path / file).write_text(f"{table}{NATIVE}", encoding="utf-8")
    result = run("""
        def test_it(leveret):
            assert leveret.rabbitmq == "4.2"
            assert {vhost["name"] for vhost in leveret.admin.export_definitions()["vhosts"]} == {"/", "shop", "stage"}
            assert set(leveret.admin.list_users()) == {"guest", "app", "auditor"}
            leveret.publish("", "nowhere", b"x")
    """)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["leveret: *seed=7 (ini option leveret_seed)*", "*CheckFailedError: unroutable: *"])
    result.stdout.no_fnmatch_line("*PytestRemoved*")


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest reads TOML with its own types from 9 on")
def test_a_version_without_quotes_in_toml_is_refused(run, pytester):
    (pytester.path / "pytest.toml").write_text("[pytest]\nleveret_rabbitmq = 3.10\n", encoding="utf-8")

    result = run("def test_it(leveret): pass")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*ini option leveret_rabbitmq: 3.1 is a number; write it in quotes"])


def test_a_list_in_the_older_table_of_pyproject_is_several_names(run, pytester):
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nleveret_vhosts = ["shop", "stage"]\nleveret_port = 0')

    result = run(
        """
        def test_it(leveret):
            assert {vhost["name"] for vhost in leveret.admin.export_definitions()["vhosts"]} == {"/", "shop", "stage"}
    """,
        "-W",
        "error",
    )

    result.assert_outcomes(passed=1)


def test_users_virtual_hosts_and_definitions_come_from_a_marker(run, pytester):
    pytester.makefile(".json", production='{"queues": [{"name": "orders", "vhost": "/", "arguments": {}}]}')

    result = run("""
        import pytest
        from client import connect

        @pytest.mark.leveret(users={"app": "secret"}, vhosts="shop", definitions="production.json")
        def test_from_a_file(leveret):
            connect(leveret.url_for("shop", "app")).close()
            assert leveret.queue("orders").durable

        @pytest.mark.leveret(definitions={"vhosts": [{"name": "stage"}]})
        def test_from_a_mapping(leveret):
            assert leveret.admin.list_vhosts() == ["/", "stage"]
    """)

    result.assert_outcomes(passed=2)


def test_the_tests_of_a_run_listen_on_the_port_that_is_asked_for(run, free_port):
    result = run(
        f"""
        import pytest
        from client import connect

        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(leveret, turn):
            assert leveret.port == {free_port}
            connect(leveret.url).close()

        def test_another(leveret, make_leveret):
            assert make_leveret(port=0).port != {free_port}
        """,
        f"--leveret-port={free_port}",
    )

    result.assert_outcomes(passed=3)


def test_a_second_broker_on_the_port_is_refused_with_the_way_out(run, free_port):
    result = run("def test_it(leveret, leveret_session): pass", f"--leveret-port={free_port}")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [f"cannot listen on 127.0.0.1 port {free_port}: * (from --leveret-port); one broker at a time can have *"]
    )


def test_a_port_in_use_stops_the_run_at_once(run):
    with Broker() as broker:
        result = run("def test_it(leveret): pass", f"--leveret-port={broker.port}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*--leveret-port: cannot listen on * port {broker.port}: *; stop what listens there, *"]
    )


def test_a_suite_with_its_address_in_the_code_needs_only_the_port(run, free_port):
    result = run(
        f"""
        import urllib.request
        import pika

        def test_it():
            with pika.BlockingConnection(pika.ConnectionParameters("localhost", {free_port})) as connection:
                connection.channel().queue_declare("q", durable=True)

        def test_that_fails():
            with pika.BlockingConnection(pika.ConnectionParameters("localhost", {free_port})) as connection:
                connection.channel().queue_declare("q", passive=True)
                assert 1 == 2
        """,
        f"--leveret-port={free_port}",
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [f"leveret: port={free_port} (--leveret-port), *", "*leveret: state of the broker on port *"]
    )


def test_the_management_port_serves_the_api_of_the_broker_of_the_run(run, free_port):
    result = run(
        f"""
        from urllib.request import Request, urlopen

        def test_it():
            guest = {{"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}}
            assert urlopen(Request("http://localhost:{free_port}/api/overview", headers=guest)).status == 200
        """,
        f"--leveret-management-port={free_port}",
    )

    result.assert_outcomes(passed=1)


def test_a_broker_of_a_test_has_the_port_while_it_runs(run, free_port):
    result = run(
        f"""
        import pika

        def declare(**options):
            with pika.BlockingConnection(pika.ConnectionParameters("localhost", {free_port})) as connection:
                connection.channel().queue_declare("q", durable=True, **options)

        def test_of_the_run(): declare()

        def test_of_its_own(leveret):
            declare()
            leveret.queue("q")

        def test_of_the_run_again(): declare(passive=True)

        def test_of_the_session(leveret_session):
            declare(passive=True)
            assert leveret_session.port == {free_port}
        """,
        f"--leveret-port={free_port}",
    )

    result.assert_outcomes(passed=4)


def test_a_port_in_the_code_is_the_broker_of_each_worker_of_xdist(run_apart, free_port):
    result = run_apart(
        f"""
        import os
        import subprocess
        import sys
        import pika
        import pytest

        def declare(host="localhost"):
            with pika.BlockingConnection(pika.ConnectionParameters(host, {free_port})) as connection:
                connection.channel().queue_declare("q", durable=True)

        @pytest.mark.parametrize("turn", range(4))
        def test_of_the_run(turn, leveret_session):
            for host in ("localhost", "127.0.0.1", "0.0.0.0"):
                declare(host)
            with pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"])) as connection:
                connection.channel().queue_declare("q", passive=True)
            assert os.environ["AMQP_PORT"] == str(leveret_session.port) != "{free_port}"
            leveret_session.queue("q")

        def test_of_its_own(leveret):
            declare()
            leveret.queue("q")

        def test_of_a_program():
            code = "import socket; socket.create_connection(('localhost', {free_port})).close()"
            subprocess.run([sys.executable, "-c", code], check=True)

        def test_that_fails():
            declare()
            assert 1 == 2
        """,
        f"--leveret-port={free_port}",
        "--leveret-url-env=AMQP_URL AMQP_PORT=port",
        "-n2",
        beside=("xdist",),
    )

    result.assert_outcomes(passed=6, failed=1)
    header = "leveret: AMQP_URL, AMQP_PORT for each worker (--leveret-url-env), localhost:"
    result.stdout.fnmatch_lines(
        [f"{header}{free_port} for each worker (--leveret-port)*", "*leveret: state of the broker on port *"]
    )


def test_the_management_port_is_that_of_each_worker_of_xdist(run_apart, free_port):
    code = (
        "from urllib.request import Request, urlopen; guest = {'Authorization': 'Basic Z3Vlc3Q6Z3Vlc3Q='}; "
        f"assert urlopen(Request('http://localhost:{free_port}/api/overview', headers=guest)).status == 200"
    )
    result = run_apart(
        f"""
        import subprocess
        import sys

        def test_it():
            {code}

        def test_of_a_program():
            subprocess.run([sys.executable, "-c", {code!r}], check=True)
        """,
        f"--leveret-management-port={free_port}",
        "-n2",
        beside=("xdist",),
    )

    result.assert_outcomes(passed=2)


def test_workers_of_xdist_are_refused_a_port_that_a_server_has(run_apart):
    with Broker() as broker:
        result = run_apart("def test_it(): pass", f"--leveret-port={broker.port}", "-n2", beside=("xdist",))

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--leveret-port: * port {broker.port}: *; stop what listens there, *"])


def test_a_test_is_examined_on_the_port_of_the_run(run_apart, free_port):
    result = run_apart(
        f"""
        import pika

        def test_it():
            with pika.BlockingConnection(pika.ConnectionParameters("localhost", {free_port})) as connection:
                connection.channel().queue_declare("q", durable=True)
        """,
        f"--leveret-port={free_port}",
        "--leveret-flaky=4",
    )

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*4 of 4*"])
