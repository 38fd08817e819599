"""The ways out that pytest names in a run with leveret: each row makes the mistake in a suite, then does as told."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from leveret import Broker
from tests.plugin.conftest import Run, no_options_of_ours, run, suite
from tests.plugin.test_options import free_port

__all__ = ["free_port", "no_options_of_ours", "run", "suite"]

FIXTURE = "def test_it(leveret): pass"
URL = 'import os\ndef test_it(leveret_session): assert os.environ["AMQP_URL"].startswith("amqp://")'
EXPLORED = "import pytest\n@pytest.mark.leveret_explore\ndef test_it(leveret): pass\ndef test_other(leveret): pass"
# A client that does something, so that there is a step for a fault.
DECLARES = """
import pytest
from client import connect
{mark}
def test_it({fixture}):
    with connect(leveret.url) as connection:
        connection.channel().queue_declare("orders", durable=True)
"""
EXPLORES = "from leveret.faults import Delay\n@pytest.mark.leveret_explore(on='queue.*', faults=[Delay(0.001)])"
STATE = """
import pytest
def make_orders(broker):
    broker.declare_queue("orders")
{mark}
def test_it({fixture}):
    {use}
"""


def marked(mark: str, test: str = FIXTURE) -> str:
    return f"import pytest\n@pytest.mark.{mark}\n{test}"


def declaring(mark: str, fixture: str = "leveret") -> str:
    return DECLARES.format(mark=mark, fixture=fixture)


def in_state(mark: str, use: str = "assert leveret.queue('orders')", fixture: str = "leveret") -> str:
    return STATE.format(mark=mark, fixture=fixture, use=use)


# The mistake in a suite and its options, what pytest says to do, and the suite and options that do it.
IN_SUITES: dict[str, tuple[str, list[str], str, str, list[str]]] = {
    # Markers.
    "a marker that changes a broker of many": (
        marked('leveret(rabbitmq="3.13")', "def test_it(): pass"),
        ["--leveret-url-env=AMQP_URL"],
        "use the fixture leveret, or set leveret_rabbitmq for all tests",
        'def test_it(leveret_session): assert leveret_session.rabbitmq == "3.13"',
        ["--leveret-url-env=AMQP_URL", "leveret_rabbitmq = 3.13"],
    ),
    "a marker for the broker of the session": (
        marked('leveret(rabbitmq="3.13")', "def test_it(leveret_session): pass"),
        [],
        "use the fixture leveret, or set the option for all tests",
        marked('leveret(rabbitmq="3.13")', 'def test_it(leveret): assert leveret.rabbitmq == "3.13"'),
        [],
    ),
    "a marker without a broker": (
        marked('leveret(rabbitmq="3.13")', "def test_it(): pass"),
        [],
        "use one of them, or remove the marker",
        marked('leveret(rabbitmq="3.13")', 'def test_it(make_leveret): assert make_leveret().rabbitmq == "3.13"'),
        [],
    ),
    "a version by position": (
        marked("leveret('3.13')"),
        [],
        "as in leveret(rabbitmq='3.13')",
        marked("leveret(rabbitmq='3.13')", "def test_it(leveret): assert leveret.rabbitmq == '3.13'"),
        [],
    ),
    "a version that has lost its 0": (
        marked("leveret(rabbitmq=3.1)"),
        [],
        "rabbitmq='3.10'",
        marked("leveret(rabbitmq='3.10')"),
        [],
    ),
    "a keyword of another name": (
        marked("leveret(version='3.13')"),
        [],
        "did you mean 'rabbitmq'?",
        marked("leveret(rabbitmq='3.13')"),
        [],
    ),
    "a keyword of a broker that the test makes": (
        marked("leveret(tls=True)"),
        [],
        "only a broker that the test starts takes it: make_leveret(tls=...)",
        "def test_it(make_leveret): assert make_leveret(tls=True).tls.url",
        [],
    ),
    "a switch that is a text": (
        marked("leveret(management='yes')"),
        [],
        "management='yes' must be True or False",
        marked("leveret(management=True)", "def test_it(leveret): assert leveret.management_url"),
        [],
    ),
    "names that are numbers": (
        marked("leveret(vhosts=[5])"),
        [],
        "such as vhosts={'name'}",
        marked("leveret(vhosts={'name'})", "def test_it(leveret): assert leveret.url_for('name')"),
        [],
    ),
    "settings that are a text": (
        marked("leveret(settings='channel_max=100')"),
        [],
        "as in settings={'channel_max': 100}",
        marked("leveret(settings={'channel_max': 100})"),
        [],
    ),
    "users that are a text": (
        marked("leveret(users='bob')"),
        [],
        "as in users={'bob': 'secret'}",
        marked("leveret(users={'bob': 'secret'})", "def test_it(leveret): assert leveret.url_for(user='bob')"),
        [],
    ),
    "levels that are a number": (
        marked("leveret(checks=5)"),
        [],
        "write 'unroutable=error', or 'error' for all checks",
        marked("leveret(checks='unroutable=error')"),
        [],
    ),
    # States.
    "a state that is no function": (
        in_state("@pytest.mark.leveret_state(1)"),
        [],
        "leveret_state(build=make_orders)",
        in_state("@pytest.mark.leveret_state(build=make_orders)"),
        [],
    ),
    "a state of a broker that the test makes": (
        in_state("@pytest.mark.leveret_state(build=make_orders)", "make_leveret()", "make_leveret"),
        [],
        "for a broker of make_leveret, call build(broker), or broker.restore(state)",
        in_state(
            "",
            "broker, other = make_leveret(), make_leveret(); make_orders(broker); other.restore(broker.snapshot());"
            " assert other.queue('orders')",
            "make_leveret",
        ),
        [],
    ),
    "a state that is built later": (
        in_state("@pytest.mark.leveret_state(build=make_orders)").replace("def make_orders", "async def make_orders"),
        [],
        "it cannot be async, nor yield",
        in_state("@pytest.mark.leveret_state(build=make_orders)"),
        [],
    ),
    "a fixture that gives no state": (
        "import pytest\n@pytest.fixture(scope='session')\ndef orders(leveret_session): return 1\n"
        "@pytest.mark.leveret_state('orders')\ndef test_it(leveret): pass",
        [],
        "must return what broker.snapshot() gives",
        "import pytest\n@pytest.fixture(scope='session')\ndef orders(leveret_session):\n"
        "    leveret_session.declare_queue('orders')\n    return leveret_session.snapshot()\n"
        "@pytest.mark.leveret_state('orders')\ndef test_it(leveret): assert leveret.queue('orders')",
        [],
    ),
    # Faults and explorations.
    "a fault by position": (
        declaring("@pytest.mark.leveret_fault('basic.ack')"),
        [],
        "as in leveret_fault(on='basic.ack', do=...)",
        declaring("from leveret.faults import Delay\n@pytest.mark.leveret_fault(on='queue.declare', do=Delay(0.001))"),
        [],
    ),
    "a fault without the broker of a test": (
        "import pytest\nfrom leveret.faults import Delay\n"
        "@pytest.mark.leveret_fault(on='queue.declare', do=Delay(0.001))\ndef test_it(): pass",
        [],
        "use it, or remove the marker",
        declaring("from leveret.faults import Delay\n@pytest.mark.leveret_fault(on='queue.declare', do=Delay(0.001))"),
        [],
    ),
    "a fault of a broker that the test makes": (
        "import pytest\nfrom leveret.faults import Delay\n"
        "@pytest.mark.leveret_fault(on='queue.declare', do=Delay(0.001))\ndef test_it(make_leveret): pass",
        [],
        "for a broker of make_leveret, call broker.faults.add(...) with the same keywords",
        declaring("from leveret.faults import Delay", "make_leveret").replace(
            "    with",
            "    leveret = broker = make_leveret()\n    broker.faults.add(on='queue.declare', do=Delay(0.001))\n"
            "    with",
        ),
        [],
    ),
    "a pattern by position": (
        declaring("@pytest.mark.leveret_explore('queue.*')"),
        [],
        "as in leveret_explore(on='basic.*')",
        declaring(EXPLORES),
        [],
    ),
    "processes of a test": (
        declaring("@pytest.mark.leveret_explore(on='queue.*', faults='redelivered', processes=2)"),
        [],
        "leave processes out",
        declaring(EXPLORES),
        [],
    ),
    "an exploration without a broker": (
        declaring("@pytest.mark.leveret_explore(on='queue.*')", ""),
        [],
        "exploration needs the broker of that fixture",
        declaring(EXPLORES),
        [],
    ),
    "two treatments": (
        EXPLORED,
        ["--leveret-flaky-seed=3"],
        "leave the test out with -m 'not leveret_explore'",
        EXPLORED,
        ["--leveret-flaky-seed=3", "-m", "not leveret_explore"],
    ),
    # Fixtures.
    "a version of a made broker by position": (
        "def test_it(make_leveret): make_leveret('3.13')",
        [],
        "as in make_leveret(rabbitmq='3.13')",
        "def test_it(make_leveret): assert make_leveret(rabbitmq='3.13').rabbitmq == '3.13'",
        [],
    ),
    "a name that is none": (
        "def test_it(make_leveret): make_leveret(name=' ')",
        [],
        "expected a text such as 'paris', or leave it out",
        "def test_it(make_leveret): make_leveret(name='paris'), make_leveret()",
        [],
    ),
    "a scope that does not exist": (
        "from pytest_leveret import leveret_fixture\nbroker = leveret_fixture('modul')\ndef test_it(broker): pass",
        [],
        "expected one of session, package, module, class",
        "from pytest_leveret import leveret_fixture\na = leveret_fixture('session')\nb = leveret_fixture('package')\n"
        "c = leveret_fixture('module')\nd = leveret_fixture('class')\ndef test_it(a, b, c, d): assert a.url != d.url",
        [],
    ),
    "a fixture of the session that asks for the broker of a test": (
        "import pytest\n@pytest.fixture(scope='session')\ndef url(leveret): return leveret.url\ndef test_it(url): pass",
        [],
        "In a fixture of the session, use leveret_session",
        "import pytest\n@pytest.fixture(scope='session')\ndef url(leveret_session): return leveret_session.url\n"
        "def test_it(url): assert url",
        [],
    ),
    "a misspelt fixture": (
        "def test_it(levret): pass",
        [],
        "did you mean 'leveret'?",
        FIXTURE,
        [],
    ),
    # Options and ini lines.
    "a contract without a lock": (
        FIXTURE,
        ["--leveret-contract=check"],
        "set leveret_contract = messages.lock, then write it with --leveret-contract=write",
        FIXTURE,
        ["leveret_contract = messages.lock", "--leveret-contract=write"],
    ),
    "a folder that is an address": (
        FIXTURE,
        ["--leveret-trace-dir=s3://traces"],
        "give the path of a folder to write files to",
        FIXTURE,
        ["--leveret-trace-dir=traces"],
    ),
    "a limit of pages that is none": (
        FIXTURE,
        ["--leveret-pages-limit=0"],
        "is not 1 or more",
        FIXTURE,
        ["--leveret-pages-limit=1"],
    ),
    "pages of a kind that is none": (
        FIXTURE,
        ["--leveret-pages=some"],
        "expected failed, all or off",
        FIXTURE,
        ["--leveret-pages=off"],
    ),
    "a level of recording that is none": (
        FIXTURE,
        ["--leveret-record=all"],
        "expected 'off' or 'recent'",
        FIXTURE,
        ["--leveret-record=recent"],
    ),
    "a switch that is none": (
        FIXTURE,
        ["--leveret-management=maybe"],
        "expected yes or no",
        "def test_it(leveret): assert leveret.management_url",
        ["--leveret-management=yes"],
    ),
    "a version that does not exist": (
        FIXTURE,
        ["--leveret-rabbitmq=4.1"],
        "take '4.0'",
        "def test_it(leveret): assert leveret.rabbitmq == '4.0'",
        ["--leveret-rabbitmq=4.0"],
    ),
    "a user without a password": (
        FIXTURE,
        ["--leveret-users=app"],
        "as in app=secret",
        "def test_it(leveret): assert leveret.url_for(user='app')",
        ["--leveret-users=app=secret"],
    ),
    "a setting without a value": (
        FIXTURE,
        ["--leveret-settings=channel_max"],
        "is not of the form NAME=VALUE",
        FIXTURE,
        ["--leveret-settings=channel_max=5"],
    ),
    "a level of a check that is none": (
        FIXTURE,
        ["--leveret-checks=unroutable=fatal"],
        "expected one of ",
        FIXTURE,
        ["--leveret-checks=unroutable=error"],
    ),
    "a package that is not replaced": (
        FIXTURE,
        ["--leveret-replaces=docker"],
        "expected one of testcontainers, pytest-rabbitmq, pytest-docker",
        FIXTURE,
        ["--leveret-replaces=pytest-docker"],
    ),
    "a wait that is no number": (
        FIXTURE,
        ["--leveret-real-wait=long"],
        "write it as in 10",
        FIXTURE,
        [],
    ),
    "a wait on no server": (
        FIXTURE,
        ["--leveret-real-wait=10"],
        "give both or neither",
        FIXTURE,
        [],
    ),
    # The variables of an application.
    "a variable in small letters": (
        FIXTURE,
        ["--leveret-url-env=amqp_url=x"],
        "write a line as in AMQP_URL vhost=shop user=app",
        FIXTURE,
        ["--leveret-url-env=AMQP_URL vhost=shop user=app", "--leveret-vhosts=shop", "--leveret-users=app=x"],
    ),
    "a part of a URL that is none": (
        URL,
        ["--leveret-url-env=AMQP_URL=hst"],
        "write AMQP_URL=host, or AMQP_URL for the whole URL",
        URL,
        ["--leveret-url-env=AMQP_URL"],
    ),
    "a virtual host of no variable": (
        URL,
        ["--leveret-url-env=vhost=shop", "--leveret-vhosts=shop"],
        "write it first, as in AMQP_URL vhost=shop",
        URL,
        ["--leveret-url-env=AMQP_URL vhost=shop", "--leveret-vhosts=shop"],
    ),
    "a variable that is none": (
        URL,
        ["--leveret-url-env=5_URL"],
        "such as AMQP_URL",
        URL,
        ["--leveret-url-env=AMQP_URL"],
    ),
    "a variable named twice": (
        URL,
        ["--leveret-url-env=AMQP_URL; AMQP_URL vhost=shop", "--leveret-vhosts=shop"],
        "remove one of the two",
        URL,
        ["--leveret-url-env=AMQP_URL"],
    ),
    "a virtual host of a variable": (
        URL,
        ["--leveret-url-env=AMQP_URL vhost=shop"],
        "to create it, set leveret_vhosts = shop",
        URL,
        ["--leveret-url-env=AMQP_URL vhost=shop", "leveret_vhosts = shop"],
    ),
    "a user of a variable": (
        URL,
        ["--leveret-url-env=AMQP_URL user=app"],
        "to create it, set leveret_users = app=PASSWORD",
        URL,
        ["--leveret-url-env=AMQP_URL user=app", "leveret_users = app=PASSWORD"],
    ),
    "the URL of a port that is not open": (
        "import os\ndef test_it(leveret_session): assert os.environ['API']",
        ["--leveret-url-env=API=management_url"],
        "set leveret_management = yes",
        "import os\ndef test_it(leveret_session): assert os.environ['API']",
        ["--leveret-url-env=API=management_url", "leveret_management = yes"],
    ),
    # Results.
    "a method that is compared": (
        "def test_it(leveret): assert leveret.flow == ''",
        [],
        "write flow() == ...",
        "def test_it(leveret): assert leveret.flow() == ''",
        [],
    ),
    "a view that is compared": (
        "def test_it(leveret):\n    leveret.declare_queue('q')\n    assert leveret.queue('q') == 'q'",
        [],
        "compare one of its fields: name, vhost, type",
        "def test_it(leveret):\n    leveret.declare_queue('q')\n    assert leveret.queue('q').name == 'q'",
        [],
    ),
    "a tuple that is compared with a list": (
        "def test_it(leveret):\n    leveret.declare_queue('q')\n    assert leveret.queue('q').ready == []",
        [],
        "compare list(...) == []",
        "def test_it(leveret):\n    leveret.declare_queue('q')\n    assert list(leveret.queue('q').ready) == []",
        [],
    ),
    "a tuple that is compared with a number": (
        "def test_it(leveret):\n    leveret.declare_queue('q')\n    assert leveret.queue('q').ready == 0",
        [],
        "compare len(...) == 0",
        "def test_it(leveret):\n    leveret.declare_queue('q')\n    assert len(leveret.queue('q').ready) == 0",
        [],
    ),
    "a call that was never awaited": (
        "import asyncio\ndef test_it(leveret):\n    async def act(): leveret.aio.wait_idle()\n    asyncio.run(act())",
        [],
        "write await broker.aio.wait_idle(...)",
        "import asyncio\ndef test_it(leveret):\n    async def act(): await leveret.aio.wait_idle()\n"
        "    asyncio.run(act())",
        [],
    ),
    "a worker that was never started": (
        "def test_it(leveret): leveret.worker(['sleep', '60'], ready=lambda: True)",
        [],
        "was never started: use it in a with statement",
        "def test_it(leveret):\n    with leveret.worker(['sleep', '60'], ready=lambda: True): pass",
        [],
    ),
    "a client of another broker": (
        "import pika\nfrom contextlib import suppress\ndef test_it(leveret):\n    with suppress(Exception):\n"
        "        pika.BlockingConnection(pika.ConnectionParameters('127.0.0.1', 1))\n"
        "    leveret.declare_queue('q')",
        [],
        "give that code the broker's url",
        "import pika\ndef test_it(leveret): pika.BlockingConnection(pika.URLParameters(leveret.url)).close()",
        ["-W", "error::leveret.LeveretWarning"],
    ),
    "a failure without a client": (
        "def test_it(leveret):\n    leveret.declare_queue('orders')\n"
        "    leveret.wait_for_consumer('orders', timeout=0)",
        [],
        "name the variable that it reads in leveret_url_env",
        "import os, pika\ndef test_it(leveret_session):\n"
        "    pika.BlockingConnection(pika.URLParameters(os.environ['AMQP_URL'])).close()",
        ["leveret_url_env = AMQP_URL"],
    ),
}


def run_with(run: Run, suite: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """Run a suite with options, and with those that are lines of an ini file in one."""
    lines = [option for option in options if option.startswith("leveret_")]
    (suite.path / "pytest.ini").write_text("\n".join(["[pytest]", *lines]), encoding="utf-8")
    return run(source, *(option for option in options if option not in lines))


@pytest.mark.parametrize("what", IN_SUITES)
def test_a_way_out_of_pytest_works_as_its_text_says(run: Run, suite: pytest.Pytester, what: str) -> None:
    wrong, flags, said, right, other_flags = IN_SUITES[what]

    refused = run(wrong, *flags)
    passed = run_with(run, suite, right, *other_flags)

    assert said in f"{refused.stdout}{refused.stderr}"
    passed.assert_outcomes(passed=1, deselected=passed.parseoutcomes().get("deselected", 0))


OTHER_FIXTURES = {
    "broker": "broker.declare_queue('orders')",
    "rabbitmq_proc": "rabbitmq_proc.declare_queue('orders')",
    "amqp_url": "pika.BlockingConnection(pika.URLParameters(amqp_url)).close()",
    "rabbitmq_port": "pika.BlockingConnection(pika.ConnectionParameters(port=rabbitmq_port)).close()",
}


@pytest.mark.parametrize("name", OTHER_FIXTURES)
def test_the_fixture_that_pytest_proposes_for_another_name_works(run: Run, name: str) -> None:
    source = f"import pika\ndef test_it({name}):\n    {OTHER_FIXTURES[name]}\n"

    text = str(run(source).stdout)
    lines = re.search(r"For another name, write:\n((?:.*\n){3})", text)

    assert lines is not None, text
    proposed = textwrap.dedent(re.sub(r"(?m)^E", " ", lines[1]))
    run(f"import pytest\n{proposed}\n{source}").assert_outcomes(passed=1)


@pytest.mark.parametrize("scope", ["module", "class", "package"])
def test_the_broker_that_pytest_proposes_for_a_wider_fixture_works(run: Run, scope: str) -> None:
    source = f"import pytest\n@pytest.fixture(scope='{scope}')\ndef url(leveret): return leveret.url\n"
    test = "def test_it(url): assert url\n"

    text = str(run(source + test).stdout)
    lines = re.search(r" +(from pytest_leveret import leveret_fixture)\n.* +(\w+_broker = .*)\n", text)

    assert lines is not None, text
    proposed = f"{lines[1]}\n{lines[2]}\n{source}".replace("leveret)", f"{scope}_broker)")
    run(f"{proposed.replace('leveret.url', f'{scope}_broker.url')}{test}").assert_outcomes(passed=1)


def test_a_version_in_toml_works_in_quotes(run: Run, suite: pytest.Pytester) -> None:
    suite.makepyprojecttoml("[tool.pytest]\nleveret_rabbitmq = 3.13\n")
    refused = run(FIXTURE)

    suite.makepyprojecttoml("[tool.pytest]\nleveret_rabbitmq = '3.13'\n")
    passed = run("def test_it(leveret): assert leveret.rabbitmq == '3.13'")

    assert "write it in quotes" in f"{refused.stdout}{refused.stderr}"
    passed.assert_outcomes(passed=1)


def test_a_server_is_used_without_the_virtual_host_that_the_error_leaves_out(run: Run) -> None:
    with Broker(management=True, checks="all=off") as server:
        url = f"amqp://guest:guest@127.0.0.1:{server.port}"
        options = [f"--leveret-real-management={server.management_url}"]
        refused = run(FIXTURE, f"--leveret-real={url}/shop", *options)
        assert "each test gets one of its own there; leave '/shop' out" in f"{refused.stdout}{refused.stderr}"

        run("def test_it(leveret): leveret.declare_queue('q')", f"--leveret-real={url}", *options).assert_outcomes(
            passed=1
        )


@pytest.mark.parametrize("other", ["make_leveret(port=0)", "@pytest.mark.leveret(port=0)"])
def test_the_ways_out_of_a_port_that_is_taken_work(run: Run, free_port: int, other: str) -> None:
    flag = f"--leveret-port={free_port}"
    refused = run("def test_it(leveret_session, leveret): pass", flag)
    assert other in str(refused.stdout)

    if other.startswith("@"):
        source = f"import pytest\n{other}\ndef test_it(leveret_session, leveret): pass"
    else:
        source = f"def test_it(leveret_session, make_leveret): assert {other}.port != leveret_session.port"

    run(source, flag).assert_outcomes(passed=1)


@pytest.mark.parametrize(("user", "is_line"), [("app", True), ("my,app", False), ("my app", False)])
def test_a_user_that_no_ini_line_can_hold_gets_other_ways(run: Run, user: str, is_line: bool) -> None:
    result = run(f"""
        import pika

        def test_it(leveret):
            credentials = pika.PlainCredentials({user!r}, "secret")
            pika.BlockingConnection(pika.ConnectionParameters(port=leveret.port, credentials=credentials))
    """)

    text = str(result.stdout)
    assert (f"leveret_users = {user}=PASSWORD in the ini file" in text) == is_line
    assert f"@pytest.mark.leveret(users={{{user!r}: password}}), or leveret" in text


# What a client is refused: the client, and the beginning of the line with the ways out.
REFUSED: dict[str, tuple[str, str]] = {
    "an unknown user": ("connect(leveret.url.replace('guest:guest', 'app:secret'))", "To add user 'app': "),
    "an unknown virtual host": (
        "connect(f'amqp://guest:guest@127.0.0.1:{leveret.port}/shop')",
        "To add vhost 'shop': ",
    ),
    "a denied queue": ("connect(leveret.url).channel().queue_declare('q')", "  permit it: "),
    "a denied queue of an older version": (
        "connect(leveret.url).channel().queue_declare('q')",
        "  or, if you run an older RabbitMQ, set its version: ",
    ),
    "a denied argument": (
        "connect(leveret.url).channel().queue_declare('q', durable=True, "
        "arguments={'x-queue-master-locator': 'min-masters'})",
        "  permit it: ",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_each_way_out_of_a_refusal_lets_the_client_in(run: Run, suite: pytest.Pytester, what: str) -> None:
    act, beginning = REFUSED[what]

    def source(mark: str = "", call: str = "") -> str:
        lines = ["import pytest", "from client import connect", "password = 'secret'", mark, "def test_it(leveret):"]
        return "\n".join([*lines, f"    {call or 'pass'}", f"    {act}"])

    text = str(run(source()).stdout)
    [line] = {found[1] for found in re.finditer(rf"(?m)^ *{re.escape(beginning.strip())} (.*)$", text)}
    ways = line.split(", or ")

    assert len(ways) >= 2
    for way in ways:
        if way.startswith("@"):
            passed = run_with(run, suite, source(mark=way))
        elif way.endswith(" in the ini file"):
            line = way.removesuffix(" in the ini file").replace("PASSWORD", "secret")
            passed = run_with(run, suite, source(), line)
        else:
            passed = run_with(run, suite, source(call=way))
        passed.assert_outcomes(passed=1)


# A strict check, and the body of a test in which it finds something.
FINDS = {
    "unroutable": "connect(leveret.url).channel().basic_publish('amq.topic', 'k', b'x')",
    "unknown_argument": (
        "connect(leveret.url).channel().queue_declare('q', durable=True, arguments={'x-message-tll': 1})"
    ),
    "unacked_at_end": "leveret.declare_queue('q'); leveret.publish('', 'q', b'x'); leveret.c = connect(leveret.url); "
    "leveret.c.channel().basic_get('q')",
    "never_awaited": "leveret.aio.wait_idle()",
    "lost_worker": "leveret.worker(['true'])",
    "no_client": "leveret.url",
    "unused_fault": "leveret.faults.reset_peer(on='basic.ack')",
    "rejected_into_nothing": "leveret.declare_queue('q'); leveret.publish('', 'q', b'x'); "
    "c = connect(leveret.url).channel(); c.basic_reject(c.basic_get('q')[0].delivery_tag, requeue=False)",
    "expired_into_nothing": "connect(leveret.url); leveret.declare_queue('q', arguments={'x-message-ttl': 1}); "
    "leveret.publish('', 'q', b'x'); leveret.clock.advance(1)",
    "overflowed_into_nothing": "connect(leveret.url); leveret.declare_queue('q', arguments={'x-max-length': 1}); "
    "leveret.publish('', 'q', b'x'); leveret.publish('', 'q', b'y')",
    "unseen_channel_error": "c = connect(leveret.url).channel(); c.basic_publish('nope', 'k', b'x'); "
    "leveret.assert_refused(404, timeout=5) if False else leveret.wait_idle()",
}


@pytest.mark.parametrize("check", FINDS)
def test_each_way_to_expect_a_finding_ends_its_report(run: Run, suite: pytest.Pytester, check: str) -> None:
    body = FINDS[check]

    def source(mark: str = "", call: str = "", body: str = body) -> str:
        lines = ["import pytest, re", "from client import connect", mark, "def test_it(leveret):"]
        return "\n".join([*lines, f"    {call or 'pass'}", f"    {body}"])

    text = str(run(source(), f"--leveret-checks={check}=error").stdout)
    found = re.search(rf"{check}: (?:.*\n)*?.*if you expect this: (.*)\n", text)
    assert found is not None, text
    ways = re.split(r", (?:or )?(?=optional=|leveret[._]|@pytest)", found[1])

    assert len(ways) >= 3, ways
    for way in ways:
        flags = [f"--leveret-checks={check}=error"]
        if way.startswith("@"):
            passed = run_with(run, suite, source(mark=way), *flags)
        elif way.endswith(" in the ini file"):
            passed = run_with(run, suite, source(), way.removesuffix(" in the ini file"))
        elif way.startswith("optional"):
            passed = run_with(run, suite, source(body=body.replace(")", f", {way})")), *flags)
        else:
            passed = run_with(run, suite, source(call=way), *flags)
        passed.assert_outcomes(passed=1)
        assert re.search(rf"{check}: \d", str(passed.stdout)) is None, way


def test_the_ways_out_of_a_run_without_a_cache_work(run: Run, tmp_path: Path) -> None:
    source = "def test_it(leveret): leveret.declare_queue('q'); assert False"

    refused = str(run(source).stdout)
    there = str(run(source, f"--leveret-pages-dir={tmp_path}").stdout)
    off = str(run(source, "--leveret-pages=off").stdout)

    said = "no pages, because pytest's cache is off; use --leveret-pages-dir=DIR, or --leveret-pages=off"
    assert said in refused
    assert said not in there
    assert list(tmp_path.glob("*.html"))
    assert said not in off
