"""`leveret init` reads a project and writes what its tests need; the test that it writes passes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leveret.cli import main

CELERY = """
import os
from celery import Celery

app = Celery("shop", broker=os.environ["CELERY_BROKER_URL"])
app.conf.task_default_queue = "shop"

@app.task
def bill(number):
    pass
"""
PIKA = """
import os
import pika

def handle(channel, method, properties, body):
    channel.basic_ack(method.delivery_tag)

def main():
    connection = pika.BlockingConnection(pika.URLParameters(os.getenv("RABBITMQ_URL", "amqp://localhost")))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.basic_consume("orders", handle)
    channel.start_consuming()
"""
CELERY_WITH_QUEUES = """
import os
from celery import Celery
from kombu import Exchange, Queue

app = Celery("shop", broker=os.environ["CELERY_BROKER_URL"])
app.conf.update(
    task_default_queue="shop",
    task_queues=[Queue("orders", Exchange("shop"), routing_key="orders"), Queue("mails")],
)
"""
CELERY_UPDATED = """
import os
from celery import Celery

app = Celery("shop", broker=os.environ["CELERY_BROKER_URL"])
app.conf.update(task_default_queue="shop")
"""
AIO_PIKA = """
import asyncio
import aio_pika

async def consume(amqp_url):
    connection = await aio_pika.connect_robust(amqp_url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("mails", durable=True)
        await queue.consume(lambda message: message.ack())
        await asyncio.Future()
"""
FASTSTREAM = """
from os import environ
from faststream.rabbit import RabbitBroker, RabbitQueue

broker = RabbitBroker(environ.get("AMQP_URL", "amqp://guest:guest@localhost/"))

@broker.subscriber("invoices")
async def invoice(body):
    pass
"""
PROJECTS = {
    "celery": (CELERY, "CELERY_BROKER_URL", '"shop"'),
    "pika": (PIKA, "RABBITMQ_URL", '"orders"'),
    "aio_pika": (AIO_PIKA, None, '"mails"'),
    "faststream": (FASTSTREAM, "AMQP_URL", '"invoices"'),
    "nothing known": ("import pika\n", None, "assert_ready"),
}


def project(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", PROJECTS)
def test_the_test_that_it_writes_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # Loading every plugin that is installed here takes most of such a run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = ("-p", "pytest_leveret.plugin", "-p", "pytest_asyncio.plugin")
    source, variable, waits = PROJECTS[name]
    settings = "[pytest]\naddopts = -q\npythonpath = .\nasyncio_default_fixture_loop_scope = function\n"
    project(pytester.path, shop__worker_dot_py=source, pytest_dot_ini=settings)

    assert main(["init", str(pytester.path), "--yes"]) == 0

    assert waits in (pytester.path / "test_leveret.py").read_text(encoding="utf-8")
    written = (pytester.path / "pytest.ini").read_text(encoding="utf-8")
    assert ("leveret_url_env" in written) == (variable is not None)
    assert f"leveret_url_env = {variable}" in written or variable is None
    pytester.runpytest_subprocess(*plugins).assert_outcomes(passed=1)


@pytest.mark.parametrize(("source", "queue"), [(CELERY_WITH_QUEUES, "orders"), (CELERY_UPDATED, "shop")])
def test_the_queue_of_a_celery_worker_is_read_from_an_update_of_its_settings(
    tmp_path: Path, source: str, queue: str
) -> None:
    project(tmp_path, shop_dot_py=source)

    main(["init", str(tmp_path), "--yes"])

    assert f'wait_for_consumer("{queue}")' in (tmp_path / "test_leveret.py").read_text(encoding="utf-8")


def test_it_asks_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, worker_dot_py=PIKA)

    assert main(["init", str(tmp_path)]) == 2

    output = capsys.readouterr()
    assert "+leveret_url_env = RABBITMQ_URL" in output.out
    said = "leveret: nothing was written, because stdin is no terminal to ask at; run it again with --yes\n"
    assert output.err == said
    assert [path.name for path in tmp_path.iterdir()] == ["worker.py"]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("pyproject_dot_toml", '[tool.pytest.ini_options]\naddopts = "-q"\n', 'leveret_url_env = "AMQP_URL"\naddopts'),
        ("setup_dot_cfg", "[metadata]\nname = x\n[tool:pytest]\n", "[tool:pytest]\nleveret_url_env = AMQP_URL\n"),
        ("tox_dot_ini", "[tox]\n[pytest]\naddopts = -q\n", "[pytest]\nleveret_url_env = AMQP_URL\naddopts"),
    ],
)
def test_the_lines_go_where_pytest_has_its_settings(tmp_path: Path, name: str, before: str, after: str) -> None:
    project(tmp_path, app_dot_py='import os\nURL = os.environ["AMQP_URL"]\n', **{name: before})

    main(["init", str(tmp_path), "--yes"])

    assert after in (tmp_path / name.replace("_dot_", ".")).read_text(encoding="utf-8")


def test_a_suite_with_testcontainers_gets_its_line_and_no_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, tests__conftest_dot_py="from testcontainers.rabbitmq import RabbitMqContainer\n")

    main(["init", str(tmp_path), "--yes"])

    assert "leveret_replaces = testcontainers" in (tmp_path / "pytest.ini").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "tests").iterdir()] == ["conftest.py"]
    assert "note: your tests stay as they are" in capsys.readouterr().out


@pytest.mark.parametrize(
    "own", ["from .servers import server_fixture\nrabbitmq = server_fixture()\n", "from .servers import rabbitmq\n"]
)
def test_a_fixture_that_a_function_or_a_module_of_the_project_gives_is_its_own(tmp_path: Path, own: str) -> None:
    project(tmp_path, tests__conftest_dot_py=own, tests__test_shop_dot_py="def test_an_order(rabbitmq):\n    pass\n")

    main(["init", str(tmp_path), "--yes"])

    assert not (tmp_path / "pytest.ini").exists()


@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_fixture_of_the_projects_own_is_not_taken_for_that_of_pytest_rabbitmq(tmp_path: Path, word: str) -> None:
    own = "import pytest\n@pytest.fixture(scope='session')\ndef rabbitmq():\n    return 'amqp://localhost'\n"
    test = f"{word} test_an_order(rabbitmq):\n    pass\n"
    project(tmp_path / "own", tests__conftest_dot_py=own, tests__test_shop_dot_py=test)
    project(tmp_path / "plugin", tests__test_shop_dot_py=test)

    main(["init", str(tmp_path / "own"), "--yes"])
    main(["init", str(tmp_path / "plugin"), "--yes"])

    assert "leveret_replaces" not in (tmp_path / "own" / "pytest.ini").read_text(encoding="utf-8")
    assert "leveret_replaces = pytest-rabbitmq" in (tmp_path / "plugin" / "pytest.ini").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "test",
    [
        "import os\nURL = os.environ['RABBITMQ_URL']\ndef test_an_order():\n    pass\n",
        "async def test_an_order(leveret):\n    pass\n",
    ],
)
def test_a_suite_that_reads_the_variable_or_takes_the_fixture_gets_no_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str
) -> None:
    project(tmp_path, app_dot_py=PIKA, tests__test_shop_dot_py=test)

    main(["init", str(tmp_path), "--yes"])

    assert "leveret_url_env = RABBITMQ_URL" in (tmp_path / "pytest.ini").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "tests").iterdir()] == ["test_shop.py"]
    assert "note: your tests stay as they are\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "noted"),
    [
        ("requirements-dev_dot_txt", "-r requirements.txt\npytest>=8\n", True),
        ("pyproject_dot_toml", '[project.optional-dependencies]\ntest = ["pika", "pytest>=8"]\n', True),
        ("pyproject_dot_toml", '[dependency-groups]\ntest = ["pika", "pytest>=8", "leveret[pytest]"]\n', False),
        ("pyproject_dot_toml", '[tool.pytest.ini_options]\naddopts = "-q"\n', False),
        ("requirements_dot_txt", "pytest-asyncio\n", False),
    ],
)
def test_it_says_which_file_should_list_leveret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, noted: bool
) -> None:
    project(tmp_path, app_dot_py=PIKA, **{name: text})

    main(["init", str(tmp_path)])

    file = name.replace("_dot_", ".")
    clone = "leveret[pytest] @ git+https://github.com/leveret-broker/leveret"
    said = f"note: {file} lists pytest; add leveret[pytest] there; until the first release, {clone}\n"
    assert (said in capsys.readouterr().out) == noted


def test_it_says_what_to_install_only_if_something_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = "from testcontainers.rabbitmq import RabbitMqContainer\n"
    project(tmp_path, first__test_app_dot_py=suite, second__test_app_dot_py=suite)
    main(["init", str(tmp_path / "first"), "--yes"])
    assert capsys.readouterr().out.endswith("leveret: written; now run `python -m pytest`\n")

    # So Python finds a module that is not installed.
    monkeypatch.setitem(sys.modules, "h11", None)
    main(["init", str(tmp_path / "second"), "--yes"])
    assert "now run `pip install 'leveret[http]'`, then `python -m pytest`" in capsys.readouterr().out


def test_the_version_is_that_of_the_compose_file(tmp_path: Path) -> None:
    compose = "services:\n  mq:\n    image: rabbitmq:3.13-management\n"
    project(tmp_path, compose_dot_yml=compose, app_dot_py='import os\nURL = os.getenv("BROKER_URL")\n')

    main(["init", str(tmp_path), "--yes"])

    assert "leveret_rabbitmq = 3.13" in (tmp_path / "pytest.ini").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("rabbitmq:4-management-alpine", "; 4.3 is the newest that is not newer; that is the default"),
        ("rabbitmq:4.3", "; that is the default"),
    ],
)
def test_an_image_that_the_default_version_serves_is_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str, said: str
) -> None:
    compose = f"services:\n  mq:\n    image: {image}\n"
    project(tmp_path, compose_dot_yml=compose, app_dot_py='import os\nURL = os.getenv("BROKER_URL")\n')

    main(["init", str(tmp_path), "--yes"])

    assert f"note: leveret_rabbitmq: compose.yml has {image}{said}, so no line sets it\n" in capsys.readouterr().out
    assert "leveret_rabbitmq" not in (tmp_path / "pytest.ini").read_text(encoding="utf-8")


def test_the_version_is_that_of_the_compose_file_for_tests(tmp_path: Path) -> None:
    for folder, version in (("", "3.13"), ("tests", "4.0")):
        (tmp_path / folder).mkdir(exist_ok=True)
        compose = f"services:\n  mq:\n    image: rabbitmq:{version}\n"
        (tmp_path / folder / "compose.yml").write_text(compose, encoding="utf-8")
    project(tmp_path, app_dot_py='import os\nURL = os.getenv("BROKER_URL")\n')

    main(["init", str(tmp_path), "--yes"])

    assert "leveret_rabbitmq = 4.0" in (tmp_path / "pytest.ini").read_text(encoding="utf-8")


def test_a_variable_has_the_user_that_any_file_gives_it(tmp_path: Path) -> None:
    given = 'os.getenv("AMQP_URL", "amqp://shop:pw@localhost/shop")'
    project(tmp_path, a_dot_py='import os\nURL = os.environ["AMQP_URL"]\n', b_dot_py=f"import os\nURL = {given}\n")

    main(["init", str(tmp_path), "--yes"])

    assert "AMQP_URL vhost=shop user=shop" in (tmp_path / "pytest.ini").read_text(encoding="utf-8")


def test_a_second_run_has_nothing_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, worker_dot_py=PIKA)
    main(["init", str(tmp_path), "--yes", "--skill"])
    capsys.readouterr()

    main(["init", str(tmp_path), "--yes"])

    assert "nothing to write" in capsys.readouterr().out


def test_what_an_agent_should_know_is_written_beside(tmp_path: Path) -> None:
    project(tmp_path, AGENTS_dot_md="# Our rules\n")

    main(["init", str(tmp_path), "--yes", "--skill"])

    skill = (tmp_path / ".agents/skills/leveret/SKILL.md").read_text(encoding="utf-8")
    agents = (tmp_path / "AGENTS.md").read_text(encoding="utf-8")
    assert skill.startswith("---\nname: leveret\n")
    assert agents.startswith("# Our rules\n\n## Tests with RabbitMQ")
    assert "SKILL.md" in agents


def test_a_file_that_cannot_be_parsed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project(tmp_path, old_dot_py="print 'x'\n")

    main(["init", str(tmp_path)])

    assert "old.py could not be parsed" in capsys.readouterr().out


def test_a_folder_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "away")]) == 2

    assert "is no folder" in capsys.readouterr().err
