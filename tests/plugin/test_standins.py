"""A suite that starts RabbitMQ with testcontainers, a compose file or pytest-rabbitmq runs on leveret unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_leveret.standins.server import files_of

from tests.plugin.conftest import Run

# After the patterns of public projects: each is a test file as its project would have it.
SUITES = sorted((Path(__file__).parent / "suites").glob("*.txt"))
ALL = "--leveret-replaces=testcontainers pytest-docker pytest-rabbitmq"
PLUGINS = ("-p", "pytest_rabbitmq.plugin", "-p", "pytest_docker", "-W", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide a Docker that may be here: no suite may need it."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("suite_file", SUITES, ids=lambda path: path.stem)
def test_a_suite_passes_unchanged(run: Run, suite_file: Path) -> None:
    source = suite_file.read_text(encoding="utf-8")
    tests = source.count("\ndef test_") + source.count("\n    def test_") + source.startswith("def test_")

    result = run(source, ALL, *PLUGINS)

    result.assert_outcomes(passed=tests)
    result.stdout.fnmatch_lines([f"leveret: {tests} test* on leveret in * s"])


def test_only_the_tests_that_used_a_container_ran_on_leveret(run: Run) -> None:
    result = run(
        """
        import pika
        import pytest
        from testcontainers.rabbitmq import RabbitMqContainer

        @pytest.fixture(scope="session", autouse=True)
        def parameters():
            with RabbitMqContainer("rabbitmq:4") as container:
                yield container.get_connection_params()

        def test_the_first(parameters):
            pika.BlockingConnection(parameters).close()

        def test_of_a_sum():
            assert 1 + 1 == 3

        def test_of_a_message(parameters):
            pika.BlockingConnection(parameters).close()
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["leveret: 2 tests on leveret in * s"])
    # The broker has nothing to say of the sum.
    result.stdout.no_fnmatch_line("*state of the broker*")


def test_without_the_option_the_suite_wants_docker(run: Run) -> None:
    source = (Path(__file__).parent / "suites" / "module_container.txt").read_text(encoding="utf-8")

    result = run(source, "--leveret-replaces=", *PLUGINS)

    result.stdout.fnmatch_lines(["*DockerException*"])


def test_the_version_is_that_of_the_tag() -> None:
    from pytest_leveret.standins.server import profile_of

    versions = {
        "rabbitmq": "4.3",
        "rabbitmq:latest": "4.3",
        "rabbitmq:management": "4.3",
        "rabbitmq:4-management": "4.3",
        "rabbitmq:4.1.2": "4.0",
        "rabbitmq:3": "3.13",
        "rabbitmq:3.12-alpine": "3.10",
        "rabbitmq:3.13.7@sha256:12": "3.13",
        "bitnami/rabbitmq:3.8": "3.10",
        "localhost:5000/rabbitmq:5": "4.3",
    }

    assert {image: profile_of(image) for image in versions} == versions


@pytest.mark.parametrize("image", ["kbudde/rabbitmq-exporter:1.0", "postgres:16", "rabbitmq-tools"])
def test_another_image_is_left_to_docker(image: str) -> None:
    from pytest_leveret.standins.server import is_rabbitmq

    assert not is_rabbitmq(image)


SHOVEL = """
    from testcontainers.rabbitmq import RabbitMqContainer

    def test_a_shovel():
        with RabbitMqContainer("rabbitmq:4") as container:
            container.exec("rabbitmq-plugins enable rabbitmq_shovel")
"""


def test_what_only_a_server_has_fails_with_the_way_out(run: Run) -> None:
    result = run(SHOVEL, ALL, *PLUGINS)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "leveret stands in for RabbitMQ here and has no plugin rabbitmq_shovel; run this test with "
            "--leveret-replaces= (empty) against a server, or skip such tests with leveret_unserved = skip",
            "leveret: only a server has plugin rabbitmq_shovel: *::test_a_shovel",
        ]
    )


def test_what_only_a_server_has_is_a_skip_by_choice(run: Run) -> None:
    result = run(SHOVEL, ALL, "--leveret-unserved=skip", *PLUGINS)

    result.assert_outcomes(skipped=1)


def test_the_commands_for_the_version_print_it(run: Run) -> None:
    result = run(
        """
        from testcontainers.rabbitmq import RabbitMqContainer

        def test_version():
            with RabbitMqContainer("rabbitmq:3.13") as container:
                asked = [container.exec(command)[1]
                         for command in ("rabbitmqctl version", "rabbitmq-diagnostics -q server_version")]
            assert asked == [b"3.13.7\\n"] * 2
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


def test_the_commands_for_the_state_of_the_node_print_what_suites_look_for(run: Run) -> None:
    result = run(
        """
        from testcontainers.rabbitmq import RabbitMqContainer

        def test_state():
            with RabbitMqContainer("rabbitmq:3.13") as container:
                for command, wanted in {
                    "rabbitmqctl status": "RabbitMQ version: 3.13.7",
                    "rabbitmqctl cluster_status": "Running Nodes\\n\\nrabbit@",
                    "rabbitmq-diagnostics -q ping": "Ping succeeded",
                }.items():
                    code, output = container.exec(command)
                    assert code == 0
                    assert wanted in output.decode()
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


def test_the_configuration_of_a_node_is_what_only_a_server_has(run: Run) -> None:
    result = run(SHOVEL.replace("rabbitmq-plugins enable rabbitmq_shovel", "rabbitmqctl environment"), ALL, *PLUGINS)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["leveret stands in for RabbitMQ here and has no rabbitmqctl environment; *"])


CONFIGURED = """
    import pathlib
    from testcontainers.core.container import DockerContainer

    def test_start(tmp_path):
        (tmp_path / "{name}").write_text('''{text}''')
        container = DockerContainer("rabbitmq:4").with_volume_mapping(str(tmp_path), "/etc/rabbitmq")
        {more}
        with container:
            pass
"""


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("rabbitmq.conf", "heartbeatt = 10", "unknown setting 'heartbeatt'; did you mean 'heartbeat'*refuses to start"),
        ("rabbitmq.conf", "heartbeat", "rabbitmq.conf: line 1, 'heartbeat', is not of the form NAME = VALUE"),
        ("rabbitmq.conf", "auth_backends.1 = ldap", "has no authentication by ldap;*"),
        ("rabbitmq.conf", "default_queue_type = quorum", "has no setting default_queue_type = quorum;*"),
        ("advanced.config", "[{rabbit, [{auth_backends, [rabbit_auth_backend_http]}]}].", "has no authentication by *"),
        ("advanced.config", "[{rabbit, ", "advanced.config is not a list of Erlang terms that ends with a dot"),
        ("rabbitmq.config", "[{rabbit, [{cluster_nodes, {[a@b], disc}}]}].", "has no cluster;*"),
    ],
)
def test_a_configuration_that_cannot_be_honoured_is_refused_by_name(run: Run, name: str, text: str, said: str) -> None:
    result = run(CONFIGURED.format(name=name, text=text, more=""), ALL, *PLUGINS)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{said}*"])


def test_the_configuration_wins_over_the_arguments_of_erl() -> None:
    from pytest_leveret.standins.configuration import lines_of

    arguments = {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+P 65536 -rabbit heartbeat 17 frame_max 9000"}

    lines = lines_of(arguments, {"/etc/rabbitmq/rabbitmq.conf": b"heartbeat = 11\ndefault_pass = 'a#b'"})

    assert lines == {"heartbeat": "11", "frame_max": "9000", "default_pass": "a#b"}


def test_a_start_is_logged_with_the_plugins_that_rabbitmq_would_start(run: Run) -> None:
    result = run(
        """
        from testcontainers.core.container import DockerContainer

        def test_logs(tmp_path):
            with DockerContainer("rabbitmq:3-management") as container:
                assert "completed with 4 plugins" in container.get_logs()[0].decode()
            (tmp_path / "enabled_plugins").write_text("[rabbitmq_management, rabbitmq_tracing].")
            with DockerContainer("rabbitmq:3").with_volume_mapping(str(tmp_path), "/etc/rabbitmq") as container:
                assert "Server startup complete; 4 plugins started." in container.get_logs()[0].decode()
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["rabbitmq_shovel", "rabbitmq_event_exchange"])
def test_a_command_that_enables_a_plugin_counts(run: Run, name: str) -> None:
    result = run(
        f"""
        from testcontainers.core.container import DockerContainer

        def test_plugin():
            command = ["bash", "-c", "rabbitmq-plugins enable --offline {name} && rabbitmq-server"]
            with DockerContainer("rabbitmq:4").with_command(command) as container:
                assert b"amq.rabbitmq.event" in container.exec("rabbitmqctl list_exchanges").output
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(**{"failed" if name == "rabbitmq_shovel" else "passed": 1})


def test_a_variable_with_which_the_image_does_not_start_is_named(run: Run) -> None:
    more = 'container.with_env("RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "0.6")'

    result = run(CONFIGURED.format(name="rabbitmq.conf", text="", more=more), ALL, *PLUGINS)

    result.stdout.fnmatch_lines(["*error: RABBITMQ_VM_MEMORY_HIGH_WATERMARK is set but deprecated*"])


def test_a_plugin_that_leveret_lacks_is_not_enabled(run: Run) -> None:
    result = run(
        """
        from testcontainers.rabbitmq import RabbitMqContainer

        def test_plugins():
            with RabbitMqContainer("rabbitmq:4") as container:
                asked = [container.exec(f"rabbitmq-plugins is_enabled rabbitmq_{name}")[0]
                         for name in ("shovel", "consistent_hash_exchange")]
            assert asked == [69, 0]
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


def test_a_service_beside_rabbitmq_needs_docker_and_says_so(run: Run, suite: pytest.Pytester) -> None:
    suite.makefile(".yml", **{"docker-compose": "services: {mq: {image: rabbitmq}, db: {image: postgres}}"})

    result = run(
        """
        from testcontainers.compose import DockerCompose

        def test_two_services():
            DockerCompose(".").start()
        """,
        ALL,
        *PLUGINS,
    )

    result.stdout.fnmatch_lines(["*has no service db of the compose file, and there is no Docker for it;*"])


def test_docker_gets_the_other_services_and_the_commands_that_are_not_about_rabbitmq(
    run: Run, suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.makefile(".yml", **{"docker-compose": "services: {mq: {image: rabbitmq}, db: {image: postgres}}"})
    docker = suite.path / "docker"
    docker.write_text('#!/bin/sh\necho "$@" >> docker.log\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(suite.path))

    result = run(
        """
        from testcontainers.compose import DockerCompose

        def test_two_services():
            with DockerCompose(".") as compose:
                compose.get_logs("db")
                compose.exec_in_container(["psql", "mq"], "db")
                compose._run_command([*compose.docker_compose_command(), "config"])
                assert compose.exec_in_container(["rabbitmqctl", "-q", "ping"], "mq")[0] == "Ping succeeded\\n"
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)
    assert (suite.path / "docker.log").read_text().splitlines() == [
        "compose up --wait --no-deps db",
        "compose logs db",
        "compose exec -T db psql mq",
        "compose config",
        "compose down --volumes db",
    ]


def test_a_lost_message_of_such_a_suite_is_reported_in_its_test(run: Run) -> None:
    result = run(
        """
        import pika
        from testcontainers.rabbitmq import RabbitMqContainer

        def test_a_typo():
            with RabbitMqContainer("rabbitmq:4") as container:
                with pika.BlockingConnection(container.get_connection_params()) as connection:
                    connection.channel().basic_publish("", "oders", b"x")
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*unroutable: 1 message lost*"])


def test_a_stopped_application_lets_nobody_in_until_it_starts_again(run: Run) -> None:
    result = run(
        """
        import pika
        import pytest
        from testcontainers.rabbitmq import RabbitMqContainer

        def test_an_outage():
            with RabbitMqContainer("rabbitmq:4") as container:
                parameters = container.get_connection_params()
                container.exec("rabbitmqctl stop_app")
                with pytest.raises(pika.exceptions.AMQPConnectionError):
                    pika.BlockingConnection(parameters)
                container.exec("rabbitmqctl start_app")
                pika.BlockingConnection(parameters).close()
        """,
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


def test_an_unknown_package_gets_a_suggestion(run: Run) -> None:
    result = run("def test_it(): pass", "--leveret-replaces=testcontainer")

    result.stderr.fnmatch_lines(["*unknown package 'testcontainer'*testcontainers*"])


# A Docker whose containers print and answer what testcontainers waits for, and which notes their images.
FAKE_DOCKER = """
    import socket
    from unittest.mock import MagicMock

    import docker
    import pytest

    @pytest.fixture
    def images(monkeypatch):
        images = []
        server = socket.create_server(("127.0.0.1", 0))
        container = MagicMock(id="1", status="running")
        container.logs.return_value = b"1 Started!"

        def create(image, **options):
            images.append(image.partition(":")[0])
            return container

        client = MagicMock()
        client.api.base_url = "http://127.0.0.1"
        client.api.port.return_value = [{"HostPort": str(server.getsockname()[1])}]
        client.containers.create = create
        monkeypatch.setattr(docker, "from_env", lambda **options: client)
        yield images
        server.close()
"""
MIXED = """
    from testcontainers.core.container import DockerContainer, Reaper

    def test_a_database_beside_rabbitmq(images):
        with DockerContainer("rabbitmq:4").with_exposed_ports(5672):
            first = list(images)
            with DockerContainer("postgres:16").with_exposed_ports(5432), DockerContainer("redis:7"):
                pass
        Reaper.delete_instance()
        print("before", first, "then", images)
"""


@pytest.mark.parametrize(("disabled", "asked"), [("false", "'testcontainers/ryuk', "), ("true", "")])
def test_other_images_and_the_reaper_go_to_docker(
    run_apart: Run, monkeypatch: pytest.MonkeyPatch, disabled: str, asked: str
) -> None:
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", disabled)
    monkeypatch.setenv("TESTCONTAINERS_CONNECTION_MODE", "docker_host")

    result = run_apart(FAKE_DOCKER + MIXED, "-s", ALL, *PLUGINS)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*before [[]] then [[]{asked}'postgres', 'redis']*"])


def test_what_else_a_suite_asks_of_docker_goes_there(run: Run) -> None:
    result = run(
        FAKE_DOCKER
        + """
    from testcontainers.core import docker_client
    from testcontainers.core.container import DockerContainer

    def test_docker(images):
        client = DockerContainer("rabbitmq:4").get_docker_client()
        assert isinstance(client, docker_client.DockerClient)
        client.client.containers.create("of its own")
        assert images == ["of its own"]
""",
        ALL,
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


def test_an_option_that_replaced_nothing_is_named_at_the_end(run: Run) -> None:
    result = run("def test_it(): pass", "--leveret-replaces=testcontainers", *PLUGINS)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        "leveret: --leveret-replaces: nothing was replaced, because no test started a RabbitMQ with testcontainers. *"
    )


def test_an_option_that_replaced_nothing_names_what_docker_started_instead(run: Run) -> None:
    result = run(
        """
        import pytest
        from testcontainers.core.container import DockerContainer

        def test_it():
            with pytest.raises(Exception):
                DockerContainer("shop/queue:4").start()
        """,
        "--leveret-replaces=testcontainers",
        *PLUGINS,
    )

    result.stdout.fnmatch_lines("*no test started a RabbitMQ with testcontainers, only shop/queue:4. If *")


@pytest.mark.parametrize("argument", ["--collect-only", "--leveret-replaces="])
def test_a_run_that_could_replace_nothing_says_nothing(run: Run, argument: str) -> None:
    result = run("def test_it(): pass", "--leveret-replaces=testcontainers", argument, *PLUGINS)

    result.stdout.no_fnmatch_line("*nothing was replaced*")


TRANSIENT = """
    import pika
    import pytest
    {imports}

    {marker}
    def test_it({fixture}):
        {block}
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
                connection.channel().queue_declare("hello")
"""
CONTAINER = {
    "imports": "from testcontainers.rabbitmq import RabbitMqContainer",
    "fixture": "",
    "block": 'with RabbitMqContainer("rabbitmq:4.3") as server:\n            port = int(server.get_exposed_port(5672))',
}
PROCESS = {
    "imports": "from pytest_rabbitmq import factories\n    own = factories.rabbitmq_proc(port=None)\n",
    "fixture": "own",
    "block": "port = own.port\n        if True:",
}
PERMIT = '@pytest.mark.leveret(permit={"transient_nonexcl_queues"})'


@pytest.mark.parametrize("server", [CONTAINER, PROCESS], ids=["testcontainers", "pytest-rabbitmq"])
@pytest.mark.parametrize(
    ("marker", "option"),
    [
        ("", "--leveret-permit=transient_nonexcl_queues"),
        ("", "--leveret-rabbitmq=4.2"),
        (PERMIT, ""),
        ('@pytest.mark.leveret(rabbitmq="4.2")', ""),
    ],
)
def test_each_way_out_of_a_denied_feature_acts_on_what_a_suite_starts(
    run: Run, server: dict[str, str], marker: str, option: str
) -> None:
    source = TRANSIENT.format(**server, marker=marker)

    run(source, ALL, *PLUGINS, *filter(None, [option])).assert_outcomes(passed=1)


LOSES = """
    import pika
    import pytest
    from testcontainers.rabbitmq import RabbitMqContainer

    @pytest.fixture(scope="session")
    def port():
        with RabbitMqContainer("rabbitmq:4.3") as server:
            yield int(server.get_exposed_port(5672))

    def lose(port):
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
            connection.channel().basic_publish("amq.topic", "nobody", b"7")

    def test_of_the_warning(port): lose(port)

    @pytest.mark.leveret(checks="unroutable=off")
    def test_of_its_advice(port): lose(port)

    @pytest.mark.leveret(checks="unroutable=error")
    def test_of_an_error(port): lose(port)

    def test_of_the_next(port): lose(port)
"""


def test_the_warning_on_what_a_suite_starts_names_only_what_acts(run: Run) -> None:
    result = run(LOSES, ALL, *PLUGINS)

    result.assert_outcomes(passed=4, errors=1, warnings=2)
    result.stdout.fnmatch_lines(
        '*if you expect this: @pytest.mark.leveret(checks="unroutable=off"), or leveret_checks = unroutable=off in *'
    )


def test_a_marker_that_changed_nothing_fails_its_test(run: Run) -> None:
    source = LOSES.partition("    def test_of_the_warning")[0]

    result = run(
        f"{source}\n    def test_first(port): pass\n\n    {PERMIT}\n    def test_it(port): pass\n", ALL, *PLUGINS
    )

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*marker leveret: permit changed nothing, * set leveret_permit for all tests"])


def test_users_and_definitions_of_the_run_are_on_what_a_suite_starts(run: Run, suite: pytest.Pytester) -> None:
    suite.makefile(".json", definitions='{"queues": [{"name": "orders", "vhost": "/", "durable": true}]}')

    result = run(
        """
        import pika
        from testcontainers.rabbitmq import RabbitMqContainer

        def test_it():
            with RabbitMqContainer("rabbitmq:3.13", username="own", password="pw") as server:
                port = int(server.get_exposed_port(5672))
                for user, password in (("own", "pw"), ("app", "secret")):
                    credentials = pika.PlainCredentials(user, password)
                    parameters = pika.ConnectionParameters("127.0.0.1", port, credentials=credentials)
                    with pika.BlockingConnection(parameters) as connection:
                        connection.channel().queue_declare("orders", passive=True)
        """,
        ALL,
        "--leveret-users=app=secret",
        "--leveret-definitions=definitions.json",
        *PLUGINS,
    )

    result.assert_outcomes(passed=1)


def test_a_mounted_folder_that_is_not_rabbitmqs_is_not_read(tmp_path: Path) -> None:
    tmp_path.joinpath("dump.bin").write_bytes(b"x" * 100)

    assert files_of({str(tmp_path): "/var/lib/data"}) == {}
    assert files_of({str(tmp_path): "/etc/rabbitmq/conf.d"}) == {"/etc/rabbitmq/conf.d/dump.bin": b"x" * 100}
