"""Small projects after the patterns of public ones: red without a server, green after `leveret init --yes`."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from leveret.cli import main

COMPOSE = "services:\n  mq:\n    image: rabbitmq:3.12-management\n    ports: ['PORT:5672']\n"
DELAYED = "rabbitmq-delayed-message-exchange"
PIKA_TEST = """
import pika

def test_it():
    with pika.BlockingConnection({parameters}) as connection:
        connection.channel().queue_declare("q"{options})
"""


def pika_test(parameters: str, options: str = ", durable=True") -> str:
    return PIKA_TEST.format(parameters=parameters, options=options)


# A Docker that starts what it is asked for, in name.
FAKE_DOCKER = """
from unittest.mock import MagicMock
import pytest

@pytest.fixture
def docker(monkeypatch):
    images = []
    client = MagicMock()
    client.api.base_url = "http://127.0.0.1"
    client.containers.create = lambda image, **options: images.append(image) or MagicMock(id="1", status="running")
    monkeypatch.setattr("docker.from_env", lambda **options: client)
    monkeypatch.setattr("testcontainers.core.config.testcontainers_config.ryuk_disabled", True)
    return images
"""

# The files of each project, and the lines that it gets. PORT and HTTP stand for free ports.
PROJECTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "a URL in the code": (
        {"tests/test_it.py": pika_test('pika.URLParameters("amqp://guest:guest@localhost:PORT/")')},
        ["leveret_port = PORT"],
    ),
    "a URL in a fixture, for a user and a virtual host": (
        {
            "conftest.py": """
import pytest

@pytest.fixture(scope="session")
def broker_url():
    return "amqp://app:secret@127.0.0.1:PORT/shop"
""",
            "test_it.py": "import pika\n\ndef test_it(broker_url):\n"
            "    pika.BlockingConnection(pika.URLParameters(broker_url)).close()\n",
        },
        ["leveret_port = PORT", "leveret_users = app=secret", "leveret_vhosts = shop"],
    ),
    "a URL without a port under any variable's name": (
        {
            "app.py": 'import os\n\nMESSAGES = os.getenv("WHERE_TO", "amqp://localhost/")\n',
            "test_it.py": "import app\n" + pika_test("pika.URLParameters(app.MESSAGES)"),
        },
        ["leveret_url_env = WHERE_TO"],
    ),
    "a variable without a default, which only its use tells": (
        {"test_it.py": "import os\n" + pika_test('pika.URLParameters(os.environ["MESSAGING"])')},
        ["leveret_url_env = MESSAGING"],
    ),
    "host and port in variables": (
        {
            "settings.py": """
import os

HOST = os.environ.get("RABBIT_HOST", "localhost")
NUMBER = int(os.environ.get("RABBIT_PORT", 5672))
""",
            "test_it.py": "import settings\n"
            + pika_test("pika.ConnectionParameters(host=settings.HOST, port=settings.NUMBER)"),
        },
        ["leveret_url_env = RABBIT_HOST=host RABBIT_PORT=port"],
    ),
    "parts that functions return, and a fixture": (
        {
            "conftest.py": """
import os
import pytest

HOST = os.environ.get("SHOP_IT_HOST", "localhost")

def _number():
    raw = os.environ.get("SHOP_IT_PORT", "5673")
    try:
        return int(raw)
    except ValueError as error:
        raise RuntimeError(raw) from error

NUMBER = _number()

@pytest.fixture
def login():
    return os.environ.get("SHOP_IT_LOGIN", "guest")
""",
            "test_it.py": """
import pika
from conftest import HOST, NUMBER

def test_it(login):
    credentials = pika.PlainCredentials(login, "guest")
    pika.BlockingConnection(pika.ConnectionParameters(HOST, NUMBER, credentials=credentials)).close()
""",
        },
        ["leveret_url_env = SHOP_IT_HOST=host SHOP_IT_LOGIN=user SHOP_IT_PORT=port"],
    ),
    "all parts in settings of pydantic": (
        {
            "settings.py": """
from pydantic_settings import BaseSettings, SettingsConfigDict

class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SHOP_")
    rabbit_host: str = "rabbitmq"
    rabbit_port: int = 5672
    rabbit_user: str = "app"
    rabbit_password: str = "secret"
    rabbit_vhost: str = "shop"

    @property
    def url(self) -> str:
        return (
            f"amqp://{self.rabbit_user}:{self.rabbit_password}@{self.rabbit_host}:{self.rabbit_port}"
            f"/{self.rabbit_vhost}"
        )
""",
            "test_it.py": "from settings import Settings\n" + pika_test("pika.URLParameters(Settings().url)"),
        },
        ["SHOP_RABBIT_PASSWORD=password", "vhost=shop user=app", "leveret_users = app=secret", "leveret_vhosts = shop"],
    ),
    "a model in settings of pydantic, beside another one": (
        {
            ".env": "APP_RABBIT__HOST=rabbitmq\n",
            "settings.py": """
from pydantic import BaseModel, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

class Database(BaseModel):
    host: str = "database"
    port: int = 5432
    user: str = "postgres"

class Rabbit(BaseModel):
    host: str = "localhost"
    port: int = 5672
    user: str = "guest"
    password: SecretStr = SecretStr("guest")

    @property
    def dsn(self) -> str:
        return f"amqp://{self.user}:{self.password.get_secret_value()}@{self.host}:{self.port}/"

class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="APP_", env_nested_delimiter="__", env_file=".env")
    database: Database = Database()
    rabbit: Rabbit = Rabbit()
""",
            "test_it.py": "from settings import Settings\n" + pika_test("pika.URLParameters(Settings().rabbit.dsn)"),
        },
        [
            "[pytest]\nleveret_url_env = APP_RABBIT__HOST=host APP_RABBIT__PASSWORD=password APP_RABBIT__PORT=port "
            "APP_RABBIT__USER=user\n"
        ],
    ),
    "a URL in a file .env": (
        {
            ".env": "DEBUG=1\nMESSAGES=amqp://guest:guest@rabbitmq:5672/\n",
            "test_it.py": "import os\nfrom dotenv import load_dotenv\n\nload_dotenv()\n"
            + pika_test('pika.URLParameters(os.environ["MESSAGES"])'),
        },
        ["leveret_url_env = MESSAGES"],
    ),
    "a file of configparser": (
        {
            "config.ini": "[database]\nhost = db\nport = 5432\n\n"
            "[rabbitmq]\nhost = localhost\nport = PORT\nuser = app\npassword = secret\n",
            "shop.py": """
from configparser import ConfigParser
from pathlib import Path

settings = ConfigParser()
settings.read(Path(__file__).with_name("config.ini"))
""",
            "test_it.py": """
import pika
from shop import settings

def test_it():
    rabbit = settings["rabbitmq"]
    login = pika.PlainCredentials(rabbit["user"], rabbit["password"])
    pika.BlockingConnection(pika.ConnectionParameters(rabbit["host"], int(rabbit["port"]), "/", login)).close()
""",
        },
        ["leveret_port = PORT", "leveret_users = app=secret"],
    ),
    "the name of a service of a compose network": (
        {"test_it.py": pika_test('pika.ConnectionParameters("rabbitmq", 5672)')},
        ["[pytest]\nleveret_hosts = rabbitmq\n"],
    ),
    "the number of a container, beside the name of a service in a file": (
        {
            "settings.json": '{\n  "mq": {\n    "host": "mq",\n    "port": 5672\n  }\n}\n',
            "test_it.py": """
import asyncio
import json
from pathlib import Path
import aio_pika

async def connect(host):
    await (await aio_pika.connect(host=host, port=5672)).close()

def test_it():
    settings = json.loads(Path(__file__).with_name("settings.json").read_text())
    asyncio.run(connect("172.17.0.2"))
    asyncio.run(connect(settings["mq"]["host"]))

URL = "amqp://172.17.0.2:5672/"
""",
        },
        ["[pytest]\nleveret_hosts = 172.17.0.2 mq\n"],
    ),
    "a compose file with three services, started by hand": (
        {
            "docker-compose.yml": COMPOSE + "  db:\n    image: postgres:16\n  app:\n    build: .\n",
            "test_it.py": pika_test('pika.ConnectionParameters("localhost", PORT)', ""),
        },
        ["leveret_port = PORT", "leveret_rabbitmq = 3.10"],
    ),
    "an older server in a workflow": (
        {
            ".github/workflows/ci.yml": "jobs:\n  t:\n    services:\n      mq: {image: rabbitmq:3-management}\n",
            "test_it.py": pika_test('pika.ConnectionParameters("localhost", PORT)', ""),
        },
        ["leveret_rabbitmq = 3.13"],
    ),
    "the management API at its usual place": (
        {
            "test_it.py": """
import base64
import urllib.request
import pika

def test_it():
    with pika.BlockingConnection(pika.ConnectionParameters("localhost", PORT)) as connection:
        connection.channel().queue_declare("q", durable=True)
    request = urllib.request.Request("http://localhost:HTTP/api/queues/%2F/q")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
    assert urllib.request.urlopen(request).status == 200
""",
        },
        ["leveret_port = PORT", "leveret_management_port = HTTP"],
    ),
    "a user of its own who calls the management API": (
        {
            "conftest.py": """
import os

USER, PASSWORD = os.environ.get("MQ_USER", "app"), os.environ.get("MQ_PASSWORD", "secret")
HOST, API = os.environ.get("MQ_HOST", "mq.shop"), os.environ.get("MQ_API_URL", "http://" + "mq.shop:15672")
""",
            "test_it.py": """
import base64
import urllib.request
import pika
from conftest import API, HOST, PASSWORD, USER

def test_it():
    pika.ConnectionParameters(HOST, credentials=pika.PlainCredentials(USER, PASSWORD))
    request = urllib.request.Request(API + "/api/overview")
    request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())
    assert urllib.request.urlopen(request).status == 200
""",
        },
        [
            "leveret_url_env = MQ_API_URL=management_url MQ_HOST=host MQ_PASSWORD=password MQ_USER=user\n"
            "leveret_management = yes\nleveret_port = 5672\n"
        ],
    ),
    "a fixture of its own named rabbitmq": (
        {
            "conftest.py": """
import pika
import pytest

@pytest.fixture(name="rabbitmq")
def own_server():
    with pika.BlockingConnection(pika.URLParameters("amqp://localhost:PORT")) as connection:
        yield connection
""",
            "test_it.py": 'def test_it(rabbitmq):\n    rabbitmq.channel().queue_declare("q", durable=True)\n',
        },
        ["leveret_port = PORT"],
    ),
    "Django's settings": (
        {
            "shop/__init__.py": "",
            "shop/settings.py": """
import os

SECRET_KEY = "x"
CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL", "amqp://guest:guest@localhost:PORT//")
""",
            "test_it.py": """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
from django.conf import settings
from kombu import Connection

def test_it():
    with Connection(settings.CELERY_BROKER_URL) as connection:
        connection.ensure_connection(max_retries=1)
        connection.SimpleQueue("q").put("x")
""",
        },
        ["leveret_url_env = CELERY_BROKER_URL"],
    ),
    "Celery": (
        {
            "shop/__init__.py": "",
            "shop/celeryconfig.py": 'broker_url = "pyamqp://guest:guest@localhost:PORT//"\ntask_ignore_result = True\n',
            "shop/worker.py": """
from celery import Celery

app = Celery("shop")
app.config_from_object("shop.celeryconfig")

@app.task
def bill(number):
    return number
""",
            "tests/test_it.py": "from shop.worker import bill\n\ndef test_it(): bill.apply_async([1], retry=False)\n",
        },
        ["leveret_port = PORT"],
    ),
    "unittest": (
        {
            "test_it.py": """
import unittest
import pika

class TestQueue(unittest.TestCase):
    def setUp(self):
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(host="127.0.0.1", port=PORT))
        self.addCleanup(self.connection.close)

    def test_it(self):
        self.connection.channel().queue_declare("q", durable=True)
""",
        },
        ["leveret_port = PORT"],
    ),
    "pytest-xdist": (
        {
            "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-n2 -p xdist"\n',
            "test_it.py": pika_test('pika.ConnectionParameters("localhost", PORT)'),
        },
        ['leveret_port = "PORT"'],
    ),
    "testcontainers": (
        {
            "conftest.py": """
import pytest
from testcontainers.rabbitmq import RabbitMqContainer

@pytest.fixture(scope="session")
def parameters():
    with RabbitMqContainer("rabbitmq:3.13") as server:
        yield server.get_connection_params()
""",
            "test_it.py": "import pika\n\ndef test_it(parameters):\n    pika.BlockingConnection(parameters).close()\n",
        },
        ["leveret_replaces = testcontainers"],
    ),
    "one of the three services of a compose file": (
        {
            "compose.yml": COMPOSE + "  db:\n    image: postgres:16\n  app:\n    build: .\n    depends_on: [mq, db]\n",
            "conftest.py": """
import pytest
from testcontainers.compose import DockerCompose

@pytest.fixture(scope="session")
def port():
    with DockerCompose(".", services=["mq"]) as services:
        yield int(services.get_service_port("mq", 5672))
""",
            "test_it.py": "def test_it(port):\n    import pika\n\n"
            '    pika.BlockingConnection(pika.ConnectionParameters("localhost", port)).close()\n',
        },
        ["leveret_replaces = testcontainers"],
    ),
    "a Postgres beside it, for which there is Docker": (
        {
            "conftest.py": FAKE_DOCKER,
            "test_it.py": """
import pika
from testcontainers.core.container import DockerContainer
from testcontainers.rabbitmq import RabbitMqContainer

def test_it(docker):
    with RabbitMqContainer("rabbitmq:3.13") as server, DockerContainer("postgres:16"):
        pika.BlockingConnection(server.get_connection_params()).close()
    assert docker == ["postgres:16"]
""",
        },
        ["leveret_replaces = testcontainers"],
    ),
    "the configuration file of RabbitMQ 3.6": (
        {
            "rabbitmq.config": '[{rabbit, [{default_user, <<"app">>}, {default_pass, <<"pw">>}]}].\n',
            "test_it.py": """
from pathlib import Path
import pika
from testcontainers.core.container import DockerContainer

def test_it():
    file = str(Path(__file__).with_name("rabbitmq.config"))
    server = DockerContainer("rabbitmq:3.6").with_exposed_ports(5672)
    with server.with_volume_mapping(file, "/etc/rabbitmq/rabbitmq.config"):
        url = f"amqp://app:pw@localhost:{server.get_exposed_port(5672)}/"
        pika.BlockingConnection(pika.URLParameters(url)).close()
""",
        },
        ["leveret_replaces = testcontainers"],
    ),
}


# Below those that systems hand out by themselves, and other ones in each process that runs these tests.
PORTS = count(20_000 + os.getpid() % 37 * 300)


def free_ports() -> list[str]:
    """Return two ports that nothing has."""
    free: list[str] = []
    while len(free) < 2:
        port = next(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            free.append(str(port))
    return free


@pytest.fixture
def run_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[], pytest.RunResult]:
    """Return a function that runs the project's tests, without a Docker that may be here."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT", "AMQP_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    # Loading every plugin that is installed here takes most of such a run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    return lambda: pytester.runpytest_subprocess("-p", "pytest_leveret.plugin", "-p", "no:cacheprovider")


def placed(text: str, port: str, http: str) -> str:
    """Return a text with the ports of this test."""
    return re.sub(r"\bHTTP\b", http, re.sub(r"\bPORT\b", port, text))


def write(root: Path, files: dict[str, str], ports: list[str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(placed(text, *ports), encoding="utf-8")


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_is_green_after_init(
    pytester: pytest.Pytester,
    run_tests: Callable[[], pytest.RunResult],
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    files, lines = PROJECTS[name]
    ports = free_ports()
    write(pytester.path, files, ports)

    assert main(["init", str(pytester.path), "--yes"]) == 0

    settings = next(pytester.path / it for it in ("pyproject.toml", "pytest.ini") if (pytester.path / it).exists())
    written = settings.read_text(encoding="utf-8")
    for line in lines:
        assert placed(line, *ports) in written
    run_tests().assert_outcomes(passed=1)
    capsys.readouterr()
    main(["init", str(pytester.path), "--yes"])
    assert capsys.readouterr().out == "leveret: nothing to write; this project is set up\n"


def test_a_server_that_docker_py_starts_is_named_as_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = 'docker.from_env().containers.run("rabbitmq:3.13", detach=True, ports={"5672/tcp": 5672})'
    files = {
        "conftest.py": f"import docker\nimport pytest\n\n@pytest.fixture\ndef server():\n    return {start}\n",
        "test_it.py": "def test_it(server):\n    import pika\n\n"
        '    pika.BlockingConnection(pika.ConnectionParameters("localhost", 5672)).close()\n',
    }
    write(tmp_path, files, ["", ""])

    assert main(["init", str(tmp_path), "--yes"]) == 0

    said = "conftest.py starts RabbitMQ with docker-py, which leveret does not replace; start it with testcontainers"
    assert f"note: {said}, or leave that out\n" in capsys.readouterr().out


# What looks like an address of RabbitMQ, and is none.
OTHERS = {
    "redis as Celery's broker": 'import celery, os\nURL = os.getenv("CELERY_BROKER_URL", "redis://localhost/0")\n',
    "no broker at all": 'import celery, os\nURL = os.getenv("CELERY_BROKER_URL", "memory://")\n',
    "a broker of MQTT": 'import os\nWHERE = os.getenv("BROKER_HOST", "localhost"), os.getenv("BROKER_PORT", "1883")\n',
    "Kafka": 'import os\nSERVERS = os.environ["KAFKA_BROKER_URL"]\n',
    "a number": "import pika\nTOTAL = 15_672 + 56_720\n",
    "a docstring": 'import pika\n\ndef f():\n    """Connects to amqp://localhost:5672."""\n',
    "a port without a word of AMQP": "NUMBER = 5672\n",
    "a variable that is set": 'import os\nos.environ["X_URL"] = str(1)\n',
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_broker_is_not_taken_for_rabbitmq(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"test_app.py": f"{OTHERS[name]}\ndef test_it(leveret): pass\n"}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    assert [path.name for path in tmp_path.iterdir()] == ["test_app.py"]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('SERVER = {"host": "localhost", "port": 5672}', ["leveret_port = 5672"]),
        ("pika.BlockingConnection()", ["leveret_port = 5672"]),
        (
            'pika.ConnectionParameters(host=os.environ["RABBIT_HOST"])',
            ["leveret_url_env = RABBIT_HOST=host", "port = 5672"],
        ),
        ('API = ("localhost", 15672), pika.ConnectionParameters("localhost")', ["leveret_management_port = 15672"]),
        ('URL = os.environ.get("AMQP_URL") or "amqp://localhost"', ["leveret_url_env = AMQP_URL"]),
        (
            'URL = os.environ["AMQP_URL"], is_open("localhost", 5672)',
            ["leveret_url_env = AMQP_URL", "leveret_port = 5672"],
        ),
        ('pika.PlainCredentials("app", "pw"), pika.ConnectionParameters("localhost")', ["leveret_users = app=pw"]),
        (
            'URL = os.environ.get("AMQP_URL", "amqp://app:pw@localhost/shop")',
            ["leveret_url_env = AMQP_URL vhost=shop user=app", "leveret_users = app=pw", "leveret_vhosts = shop"],
        ),
    ],
)
def test_each_way_to_name_an_address_is_read(tmp_path: Path, source: str, lines: list[str]) -> None:
    write(tmp_path, {"test_app.py": f"import os\nimport pika\n{source}\n"}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    written = (tmp_path / "pytest.ini").read_text(encoding="utf-8")
    assert [line for line in lines if line not in written] == []


SETTINGS = """
from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings

class Shop(BaseSettings):
    class Config:
        env_prefix = "SHOP_"
    {field}
"""
TWO_SETTINGS = """
from pydantic_settings import BaseSettings

class Rabbit(BaseSettings):
    class Config:
        env_prefix = "QUEUE_"
    host: str = "rabbit"
    port: int = 5672

    @property
    def url(self):
        return f"amqp://{self.host}:{self.port}"

class Database(BaseSettings):
    class Config:
        env_prefix = "DB_"
    host: str = "database"
    port: int = 5432
"""
FORMATTED = '"amqp://{}:{}@{}:{}//".format("guest", "guest", os.environ.get("CELERY_HOST", "broker"), 5672)'
OF_HOST = "leveret_url_env = CELERY_HOST=host\nleveret_port = 5672\n"


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (
            SETTINGS.format(field='broker: str = Field("", validation_alias=AliasChoices("RABBIT_DSN", "AMQP_DSN"))'),
            "leveret_url_env = RABBIT_DSN\n",
        ),
        (SETTINGS.format(field='broker_url: str = Field("", alias=name_of("x"))'), ""),
        (TWO_SETTINGS, "leveret_url_env = QUEUE_HOST=host QUEUE_PORT=port\n"),
        (f'broker_url = os.environ.get("CELERY_BROKER_URL", {FORMATTED})', "leveret_url_env = CELERY_BROKER_URL\n"),
        ('URL = os.environ.get("AMQP_URL", f"amqp://{name()}@localhost:{5672}")', "leveret_url_env = AMQP_URL\n"),
        (f"broker_url = {FORMATTED}", OF_HOST),
        ('broker_url = "amqp://%s:%d//" % (os.environ.get("CELERY_HOST", "broker"), 5672)', OF_HOST),
        (
            'URL = "amqp://%s:%s/%s" % (os.environ["RABBIT_HOST"], os.environ["RABBIT_PORT"], "shop")',
            "leveret_url_env = RABBIT_HOST=host RABBIT_PORT=port\nleveret_vhosts = shop\n",
        ),
        ('URL = f"amqp://localhost:{free_port()}"', ""),
        ('pika.ConnectionParameters(host="localhost", port=free_port())', ""),
        ("pika.ConnectionParameters(virtual_host='/', **elsewhere)", ""),
    ],
)
def test_only_the_address_that_the_code_reads_is_written(tmp_path: Path, source: str, written: str) -> None:
    app = f"import os\nimport celery\nimport pika\n{source}\n"
    write(tmp_path, {"app.py": app, "test_it.py": "def test_it(leveret): pass\n"}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    settings = tmp_path / "pytest.ini"
    assert (settings.read_text(encoding="utf-8") if settings.exists() else "[pytest]\n") == f"[pytest]\n{written}"


FIXED_TOO = 'pika.ConnectionParameters("localhost", 5672)\nos.environ.get("AMQP_URL", "amqp://DEFAULT")'


@pytest.mark.parametrize(
    ("source", "more", "is_named"),
    [
        (FIXED_TOO.replace("DEFAULT", "app:pw@localhost:5672/shop"), {}, False),
        (FIXED_TOO.replace("DEFAULT", "localhost"), {"compose.yml": "AMQP_URL: amqp://mq:5672"}, False),
        (FIXED_TOO.replace("DEFAULT", "localhost"), {"ci.yml": "AMQP_URL: amqp://mq:5672"}, True),
        (FIXED_TOO.replace("DEFAULT", "localhost"), {".env": "AMQP_URL=amqp://staging.example"}, True),
        (FIXED_TOO.replace("DEFAULT", "mq.example"), {}, True),
        (FIXED_TOO.replace('.get("AMQP_URL", "amqp://DEFAULT")', '["AMQP_USER"]'), {}, True),
        (FIXED_TOO.replace("amqp://DEFAULT", "http://localhost:15672").replace("P_", "P_API_"), {}, True),
        ('pika.ConnectionParameters(host=os.environ.get("AMQP_HOST", "localhost"))', {}, True),
    ],
)
def test_a_variable_whose_default_is_the_address_in_the_code_is_left_alone_unless_a_file_sets_it(
    tmp_path: Path, source: str, more: dict[str, str], is_named: bool
) -> None:
    write(tmp_path, {"test_it.py": f"import os\nimport pika\n{source}\n"} | more, free_ports())

    main(["init", str(tmp_path), "--yes"])

    written = (tmp_path / "pytest.ini").read_text(encoding="utf-8")
    assert "leveret_port = 5672\n" in written
    assert ("leveret_url_env = AMQP" in written) is is_named


def test_tests_that_need_what_is_not_installed_are_not_tried(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = 'import pika\npika.BlockingConnection()\nAPI = "http://localhost:15672/api"\n'
    write(tmp_path, {"test_it.py": source}, free_ports())
    monkeypatch.setattr("pytest_leveret.commands.proposal.find_spec", lambda name: None if name == "h11" else name)

    assert main(["init", str(tmp_path), "--yes", "--try"]) == 2

    said = capfd.readouterr()
    assert said.out.endswith("leveret: written\n")
    assert said.err == (
        "leveret: the tests need leveret[http] and were not run; run `pip install 'leveret[http]'`, then "
        "`leveret init --try`\n"
    )


def test_the_reason_of_a_port_says_only_what_stands_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "bare", {"test_it.py": "import pika\nNUMBER = 5672\n"}, free_ports())
    write(tmp_path / "host", {"test_it.py": f"import os\nimport celery\nurl = {FORMATTED}\n"}, free_ports())
    call = "pika.ConnectionParameters(\n    host='localhost',\n)\n"
    write(tmp_path / "call", {"test_it.py": f"import pika\nAMQP = {call}"}, free_ports())

    main(["init", str(tmp_path / "bare")])
    main(["init", str(tmp_path / "host")])
    main(["init", str(tmp_path / "call")])

    output = capsys.readouterr().out
    assert "note: leveret_port: test_it.py:2 names the port 5672\n" in output
    assert "note: leveret_port: test_it.py:3 names amqp://$CELERY_HOST:5672\n" in output
    assert "note: leveret_port: test_it.py:2 leads to localhost, port 5672\n" in output


@pytest.mark.parametrize(
    "environment",
    [
        "{RABBITMQ_DEFAULT_USER: shop, RABBITMQ_DEFAULT_PASS: 's}', RABBITMQ_DEFAULT_VHOST: shop}",
        "['RABBITMQ_DEFAULT_USER=shop', 'RABBITMQ_DEFAULT_PASS=s}', RABBITMQ_DEFAULT_VHOST=shop]",
        "\n      RABBITMQ_DEFAULT_USER: shop\n      RABBITMQ_DEFAULT_PASS: s}\n      RABBITMQ_DEFAULT_VHOST: ${V-shop}"
        "\n      # RABBITMQ_DEFAULT_VHOST: old",
    ],
)
def test_the_login_of_an_image_is_read_as_yaml(tmp_path: Path, environment: str) -> None:
    compose = f"services:\n  mq:\n    image: rabbitmq\n    environment: {environment}\n  app:\n    environment:\n"
    compose += "      - {MESSAGES: 'amqp://shop:s%7D@mq/shop'}\n"
    app = 'import os\nimport pika\nURL = os.environ["MESSAGES"]\n'
    write(tmp_path, {"compose.yml": compose, "test_it.py": app}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    assert (tmp_path / "pytest.ini").read_text(encoding="utf-8").splitlines()[1:] == [
        "leveret_url_env = MESSAGES vhost=shop user=shop",
        "leveret_users = shop=s}",
        "leveret_vhosts = shop",
    ]


def test_a_compose_file_is_read_by_its_lines_if_there_is_no_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    compose = "services:\n  mq:\n    # image: rabbitmq:3.10\n    image: 'rabbitmq:3.13'\n    environment:\n"
    compose += "      RABBITMQ_DEFAULT_USER: shop\n      RABBITMQ_DEFAULT_PASS: secret\n  app:\n    image: shop\n"
    compose += "    environment:\n      - MESSAGES=amqp://shop:secret@mq/\n"
    app = 'import os\nimport pika\nURL = os.environ["MESSAGES"]\n'
    write(tmp_path, {"compose.yml": compose, "test_it.py": app}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    assert (tmp_path / "pytest.ini").read_text(encoding="utf-8").splitlines()[1:] == [
        "leveret_url_env = MESSAGES user=shop",
        "leveret_users = shop=secret",
        "leveret_rabbitmq = 3.13",
    ]


def test_a_file_that_ends_without_a_line_break_is_shown_in_lines_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"pytest.ini": "[pytest]\naddopts = -q", "test_it.py": pika_test('pika.URLParameters("amqp://localhost")')}
    write(tmp_path, files, free_ports())

    main(["init", str(tmp_path)])

    assert " addopts = -q\nnote: leveret_port: " in capsys.readouterr().out


def test_a_client_of_amqp_that_imports_no_other_names_its_port(tmp_path: Path) -> None:
    client = "class Connection:\n    HEADER = b'AMQP'\n\n    def __init__(self, host='localhost', port=5672): ...\n"
    write(tmp_path, {"own.py": client, "test_it.py": "import own\n"}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    assert (tmp_path / "pytest.ini").read_text(encoding="utf-8") == "[pytest]\nleveret_port = 5672\n"


def test_a_name_that_only_docker_knows_is_led_here_and_another_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = 'A = "amqp://mq.example/", "amqp://host/"\nURL = os.getenv("AMQP_URL", "")\n'
    write(tmp_path / "shop", {"test_it.py": f'import os\n{urls}B = "amqp://rabbitmq:5672"\n'}, free_ports())
    write(tmp_path / "urls", {"test_it.py": f"import os\n{urls}"}, free_ports())
    write(tmp_path / "far", {"test_it.py": 'import pika\nA = "amqp://mq.example/"\n'}, free_ports())

    said = []
    for folder in ("shop", "urls", "far"):
        main(["init", str(tmp_path / folder)])
        said.append(capsys.readouterr().out)

    shop, urls, far = said
    assert (
        "leveret_hosts: test_it.py:4 names amqp://rabbitmq:5672, of a network of Docker or a private one; in " in shop
    )
    assert "leveret_hosts" not in urls
    assert "note: test_it.py:2 names amqp://mq.example:5672, which is another machine: let it read the " in far


MQTT = "[broker]\nhost = localhost\nport = 1883\n"
NAMED = "import pika\nFILE = 'NAME'\n"


@pytest.mark.parametrize(
    ("name", "text", "code", "written"),
    [
        ("app.ini", "[broker]\nhost: localhost\nport: 5672\n", NAMED, "leveret_port = 5672\n"),
        ("app.toml", '[rabbit]\nhost = "localhost"  # here\n', NAMED, "leveret_port = 5672\n"),
        ("app.yml", "queue:\n  rabbit_host: localhost\n  rabbit_port: 5673\n", NAMED, "leveret_port = 5673\n"),
        ("app.json", '{"rabbit": {\n  "url": "amqp://rabbit:5673/"\n}}\n', NAMED, "leveret_hosts = rabbit\n"),
        ("app.yaml", "rabbit:\n  host: $HOST\n", NAMED, ""),
        ("app.yaml", "rabbit:\n  host: localhost\n  management_port: 15672\n", NAMED, "leveret_port = 5672\n"),
        ("app.ini", "[credentials]\nhost = 172.17.0.2\nport = 5672\n", NAMED, "leveret_hosts = 172.17.0.2\n"),
        ("app.ini", MQTT, NAMED, ""),
        ("app.ini", MQTT.replace("1883", "5672"), "import pika\n", ""),
        ("app.ini", MQTT.replace("1883", "5672"), NAMED.replace("pika", "paho"), ""),
    ],
)
def test_an_address_is_read_in_a_file_of_settings_that_the_code_names(
    tmp_path: Path, name: str, text: str, code: str, written: str
) -> None:
    write(tmp_path, {name: text, "test_it.py": code.replace("NAME", name)}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    settings = tmp_path / "pytest.ini"
    assert (settings.read_text(encoding="utf-8") if settings.exists() else "") == (written and f"[pytest]\n{written}")


def test_the_reason_of_an_address_in_a_file_names_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"app.ini": "[mq]\nvhost = a\nhost = localhost\nport = 5672\n", "test_it.py": NAMED}, free_ports())
    write(tmp_path, {"test_it.py": NAMED.replace("NAME", "app.ini")}, free_ports())

    main(["init", str(tmp_path)])

    assert "note: leveret_port: app.ini:3 leads to localhost, port 5672\n" in capsys.readouterr().out


TRIED = """
import pika
import pytest

def connect():
    return pika.BlockingConnection(pika.ConnectionParameters("localhost", PORT))

def test_passes():
    connect().close()

def test_fails():
    with connect() as connection:
        connection.channel().queue_declare("q")

def test_of_a_sum():
    assert 1 + 1 == 3

def test_elsewhere():
    pika.BlockingConnection(pika.ConnectionParameters("localhost", 1)).close()
"""


def test_the_tests_are_tried_with_the_proposal_and_each_red_one_has_its_reason(
    pytester: pytest.Pytester, run_tests: object, capfd: pytest.CaptureFixture[str]
) -> None:
    ports = free_ports()
    write(pytester.path, {"test_it.py": TRIED}, ports)
    pytester.makeini("[pytest]\naddopts = -p pytest_leveret.plugin")

    assert main(["init", str(pytester.path), "--try"]) == 1

    assert "leveret_" not in (pytester.path / "tox.ini").read_text(encoding="utf-8")
    output = capfd.readouterr().out
    assert "leveret: 3 failed, 1 passed; 2 reached leveret\n" in output
    assert re.search(
        r"failed test_it.py::test_fails: .*permit it: leveret_permit = transient_nonexcl_queues in", output
    )
    assert "failed test_it.py::test_of_a_sum (no client of it reached leveret): assert (1 + 1) == 3" in output
    assert re.search(
        r"failed test_it.py::test_elsewhere \(no client of it reached leveret\): .*AMQPConnectionError", output
    )


def test_a_variable_that_breaks_a_test_is_left_out_if_another_line_leads_to_leveret(
    pytester: pytest.Pytester, run_tests: object, capfd: pytest.CaptureFixture[str]
) -> None:
    source = "\nimport os\n\ndef test_of_defaults():\n    assert 'AMQP_URL' not in os.environ\n"
    write(pytester.path, {"test_it.py": pika_test('pika.ConnectionParameters("rabbitmq")') + source}, free_ports())
    pytester.makefile(".ini", pytest="[pytest]\naddopts = -p pytest_leveret.plugin\n")
    write(pytester.path, {"app.py": 'import os\nURL = os.environ.get("AMQP_URL")\n'}, free_ports())

    assert main(["init", str(pytester.path), "--yes", "--try"]) == 0

    assert "leveret: 2 passed; 1 reached leveret\n" in capfd.readouterr().out
    written = (pytester.path / "pytest.ini").read_text(encoding="utf-8")
    assert written == "[pytest]\nleveret_hosts = rabbitmq\naddopts = -p pytest_leveret.plugin"


def test_a_test_that_a_variable_breaks_is_named_and_the_usual_port_taken_in_its_place(
    pytester: pytest.Pytester, run_tests: object, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
import os
import pika

def where():
    return os.getenv("RABBIT_HOST", "localhost"), int(os.getenv("RABBIT_PORT", "5672"))

def test_of_defaults():
    assert where() == ("localhost", 5672)

def test_of_another():
    assert where() == ("localhost", 1)
"""
    write(pytester.path, {"test_it.py": source}, free_ports())
    pytester.makefile(".ini", pytest="[pytest]\naddopts = -p pytest_leveret.plugin\n")
    usual = socket.socket()
    is_free = usual.connect_ex(("127.0.0.1", 5672)) != 0
    usual.close()

    assert main(["init", str(pytester.path), "--yes", "--try"]) != 0

    said = capfd.readouterr().out
    assert said.count("fails only if leveret_url_env is set") == 1
    assert "note: test_it.py::test_of_defaults fails only if leveret_url_env is set; let it delete " in said
    written = (pytester.path / "pytest.ini").read_text(encoding="utf-8")
    assert ("leveret_port = 5672\n" in written) == is_free
    assert ("leveret_url_env" in written) != is_free


def test_tests_that_take_too_long_are_stopped_with_what_was_seen(
    pytester: pytest.Pytester, run_tests: object, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
import pika, threading

def test_passes():
    pika.BlockingConnection(pika.ConnectionParameters("localhost", PORT)).close()

def test_hangs():
    threading.Event().wait()

def test_after(): pass
"""
    write(pytester.path, {"test_it.py": source}, free_ports())
    pytester.makeini("[pytest]\naddopts = -p pytest_leveret.plugin")

    assert main(["init", str(pytester.path), "--try", "--seconds", "10"]) == 1

    output = capfd.readouterr().out
    assert "leveret: 1 passed, 1 stopped; 1 reached leveret; stopped after 10 s\n" in output
    assert "  stopped test_it.py::test_hangs (no client of it reached leveret): stopped after 10 s\n" in output


@pytest.mark.parametrize(
    ("more", "is_permitted"),
    [
        ({}, True),
        ({"compose.yml": COMPOSE.replace(":3.12-management", "")}, False),
        ({"compose.yml": COMPOSE.replace("rabbitmq:3.12-management", f"x/{DELAYED}:latest")}, True),
        ({"compose.yml": COMPOSE.replace("rabbitmq:3.12-management", f"x/{DELAYED}:4.3.0")}, False),
        (
            {
                "test_it.py": "from testcontainers.rabbitmq import RabbitMqContainer\n\ndef test_it():\n"
                "    with RabbitMqContainer() as server:\n        import pika\n\n"
                "        with pika.BlockingConnection(server.get_connection_params()) as connection:\n"
                '            connection.channel().queue_declare("q")\n',
            },
            False,
        ),
    ],
)
def test_what_4_3_denies_is_permitted_if_nothing_says_which_rabbitmq_it_is_for(
    pytester: pytest.Pytester,
    run_tests: object,
    capfd: pytest.CaptureFixture[str],
    more: dict[str, str],
    is_permitted: bool,
) -> None:
    files = {"test_it.py": pika_test('pika.ConnectionParameters("localhost", PORT)', "")} | more
    write(pytester.path, files, free_ports())
    pytester.makefile(".ini", pytest="[pytest]\naddopts = -p pytest_leveret.plugin\n")

    assert main(["init", str(pytester.path), "--yes", "--try"]) == (not is_permitted)

    said = capfd.readouterr().out
    assert "leveret: written\nleveret: running the tests once\n" in said
    assert "1 failed; 1 reached leveret\n" in said
    assert ("leveret: running the tests once more\nleveret: 1 passed; 1 reached leveret\n" in said) is is_permitted
    written = (pytester.path / "pytest.ini").read_text(encoding="utf-8")
    assert ("leveret_permit = transient_nonexcl_queues\n" in written) is is_permitted


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise OSError('refused\\n(Background on this error)')", "OSError: refused"),
        ("try:\n    1/0\nexcept Exception as it:\n    raise ValueError('for it\\nmore') from it", "ValueError: for it"),
        ("x = (", "SyntaxError: '(' was never closed"),
    ],
)
def test_a_module_that_cannot_be_imported_has_the_line_of_its_error(
    pytester: pytest.Pytester, run_tests: object, capfd: pytest.CaptureFixture[str], source: str, why: str
) -> None:
    write(pytester.path, {"test_it.py": source}, free_ports())
    pytester.makeini("[pytest]\naddopts = -p pytest_leveret.plugin")

    main(["init", str(pytester.path), "--try"])

    assert f"  error test_it.py (no client of it reached leveret): {why}\n" in capfd.readouterr().out


def test_what_is_skipped_without_a_server_has_its_reason(
    pytester: pytest.Pytester, run_tests: object, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_it(number):
    pytest.skip("no RabbitMQ at localhost:5673")

@pytest.mark.xfail
def test_of_a_bug():
    assert False
"""
    write(pytester.path, {"test_it.py": source}, free_ports())
    pytester.makeini("[pytest]\naddopts = -p pytest_leveret.plugin")

    main(["init", str(pytester.path), "--try"])

    output = capfd.readouterr().out
    assert "leveret: 3 skipped, 1 xfailed; 0 reached leveret\n  skipped 3: no RabbitMQ at localhost:5673\n" in output


def test_examples_and_documents_are_no_code_of_the_tests(tmp_path: Path) -> None:
    write(tmp_path, {"examples/send.py": "import pika\npika.BlockingConnection()\n", "test_it.py": ""}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    assert not (tmp_path / "pytest.ini").exists()


def test_the_usual_port_wins_over_that_of_a_test_of_urls(tmp_path: Path) -> None:
    source = 'import pika\nPORT = 5672\nA, B = "amqp://user:pass@localhost:1234/vumi", "amqp://localhost:1234"\n'
    write(tmp_path, {"test_it.py": source.replace("PORT", "USUAL")}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    assert (tmp_path / "pytest.ini").read_text(encoding="utf-8") == "[pytest]\nleveret_port = 5672\n"


def test_a_section_with_a_comment_is_that_of_pytest(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": '[tool.pytest-env]\n[tool.pytest.ini_options] # see there\naddopts = "-q"\n',
            "test_it.py": pika_test('pika.URLParameters("amqp://localhost")'),
        },
        free_ports(),
    )

    main(["init", str(tmp_path), "--yes"])

    written = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    assert '[tool.pytest.ini_options] # see there\nleveret_port = "5672"\naddopts' in written


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("rabbitmq:3.8.3-management", "3.10 is the oldest that leveret has"),
        ("rabbitmq:3.12", "3.10 is the newest that is not newer"),
        ("rabbitmq:3", "3.13 is the newest that is not newer"),
        ("rabbitmq:3.13.7-alpine", ""),
    ],
)
def test_the_reason_of_a_version_is_true(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str, said: str
) -> None:
    compose = f"services:\n  mq:\n    image: {image}\n"
    write(
        tmp_path,
        {"compose.yml": compose, "test_it.py": pika_test("None") + "pika.BlockingConnection()\n"},
        free_ports(),
    )

    main(["init", str(tmp_path)])

    assert f"note: leveret_rabbitmq: compose.yml has {image}{said and '; '}{said}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        (".gitlab-ci.yml", "tests:\n  services:\n    - name: rabbitmq:3\n", "3.13"),
        (".gitlab-ci.yml", "tests:\n  services:\n    - 'rabbitmq:3.13-alpine'\n", "3.13"),
        (".github/workflows/ci.yml", "jobs:\n  t:\n    steps:\n    - run: docker pull rabbitmq:4.2\n", "4.2"),
        ("docker/Dockerfile.mq", "# FROM rabbitmq:3.10\nFROM registry.org/base/rabbitmq:4.0.5-management\n", "4.0"),
        ("ci.yml", "URL: amqp://guest@rabbitmq:5672/\nUP: wait-for rabbitmq:5672\n# rabbitmq:3.10\n", ""),
    ],
)
def test_an_image_names_the_version_wherever_it_stands(tmp_path: Path, name: str, text: str, written: str) -> None:
    write(tmp_path, {name: text, "test_it.py": pika_test('"amqp://localhost"')}, free_ports())

    main(["init", str(tmp_path), "--yes"])

    settings = (tmp_path / "pytest.ini").read_text(encoding="utf-8")
    assert re.findall("leveret_rabbitmq = (.*)", settings) == ([written] if written else [])


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("rabbitmq:${TAG:-3.13}", "leveret_rabbitmq: compose.yml has rabbitmq:3.13"),
        ("${REGISTRY:-docker.io}/rabbitmq:3.13", "leveret_rabbitmq: compose.yml has docker.io/rabbitmq:3.13"),
        ("rabbitmq:${OF_FILE}", "leveret_rabbitmq: compose.yml has rabbitmq:3.13-alpine"),
        (
            "rabbitmq:${UNKNOWN}",
            "compose.yml has rabbitmq:${UNKNOWN}, and no file gives its version; name it with leveret_rabbitmq",
        ),
    ],
)
def test_the_variables_of_a_compose_file_are_filled_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str, said: str
) -> None:
    compose = f"services:\n  mq:\n    image: {image}\n"
    files = {"compose.yml": compose, ".env": "OF_FILE=3.13-alpine\n", "test_it.py": "import pika\nNUMBER = 5672\n"}
    write(tmp_path, files, free_ports())

    main(["init", str(tmp_path)])

    assert f"note: {said}\n" in capsys.readouterr().out
