"""The marker `leveret_explore`: a whole test, with its fixtures, is the scenario."""

from __future__ import annotations

import signal

import pytest
import pytest_leveret.plugin

# Keep the module imported. Otherwise a run in this process imports it anew, and its classes differ.
from tests.plugin.conftest import NO_COROUTINES, NO_LEFTOVERS

WORKER = """
import threading
import pika
import pytest
from pika.exceptions import AMQPError

class Worker:
    def __init__(self, url):
        self.url = url
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            try:
                with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
                    channel = connection.channel()
                    channel.basic_consume("work", self.on_job)
                    while not self.stopping.is_set():
                        connection.process_data_events(0.01)
            except AMQPError:
                continue

    def on_job(self, channel, method, properties, body):
        channel.basic_publish("", "done", body, pika.BasicProperties(delivery_mode=2))
        channel.basic_ack(method.delivery_tag)

class Hasty(Worker):
    def on_job(self, channel, method, properties, body):
        channel.basic_ack(method.delivery_tag)
        channel.basic_publish("", "done", body, pika.BasicProperties(delivery_mode=2))

@pytest.fixture
def kind():
    return Worker

@pytest.fixture
def worker(leveret, kind):
    leveret.declare_queue("work")
    leveret.declare_queue("done")
    worker = kind(leveret.url)
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield worker
    worker.stopping.set()
    thread.join()
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(WORKER)

    def run_source(source, *arguments):
        pytester.makepyfile(source)
        options = ("-p", "no:cacheprovider", "--strict-markers", *NO_COROUTINES, *arguments, *NO_LEFTOVERS)
        return pytester.runpytest_inprocess(*options, plugins=[pytest_leveret.plugin])

    return run_source


@pytest.fixture
def on_sigint():
    """Return how to set what SIGINT does until the end of the test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


JOBS = """
    import pytest
    from conftest import Hasty, Worker

    pytestmark = pytest.mark.leveret_explore(on=["basic.*", "queue.*"])

    @pytest.mark.parametrize("kind", [Worker, Hasty])
    def test_a_job_is_done(leveret, worker):
        leveret.publish("", "work", b"job", delivery_mode=2)
        leveret.assert_published("", routing_key="done", timeout=4)
        leveret.assert_acked("work", timeout=4)
"""


def test_a_test_runs_without_a_fault_then_with_each_and_is_reported_once(run):
    # Omit the summary, which repeats the errors if CI is set.
    result = run(JOBS, "-v", "-rN")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_a_job_is_done[[]Worker[]] PASSED*",
            "*test_a_job_is_done[[]Hasty[]] FAILED*",
            ">*leveret.assert_*(*",
            "E*AssertionError*expected at least 1 published, saw none that matches*",
            "*- exploration -*",
            "one fault is enough: lost after conn 1 chan 1 client->server basic.ack #1",
            "What happened:",
            "  conn 1 chan 1 server->client basic.deliver #1  'job' from work",
            "  conn 1 chan 1 client->server basic.ack #1  'job' from work",
            "      [*][*][*] connection 1 is lost after the broker has handled this; no answer arrives [*][*][*]",
            "Unlike the run without a fault:",
            "  'job' to the default exchange, key 'done', was never published",
            "Replay it:",
            "  pytest '*::test_a_job_is_done[[]Hasty[]]' --leveret-explore-only='lost after conn 1 * basic.ack #1'",
            "Of * schedules over * steps, * passed, 1 failed.",
        ]
    )
    # Only the reported run shows its logs and events.
    text = result.stdout.str()
    assert text.count("Captured log call") == 1
    assert text.count("- leveret: state of the broker on port") == 1


def test_each_run_has_new_function_fixtures_and_module_fixtures_stay(run):
    result = run(
        """
        import pika
        import pytest

        made = []
        ended = []

        @pytest.fixture(scope="module")
        def of_module():
            made.append("module")
            yield
            ended.append("module")

        @pytest.fixture
        def of_function(of_module, leveret):
            made.append("function")
            yield
            ended.append("function")

        @pytest.mark.leveret_explore(on="queue.declare", faults="lost after")
        def test_explored(leveret, of_function):
            try:
                with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
                    connection.channel().queue_declare("work", durable=True)
            except pika.exceptions.AMQPError:
                pass
            leveret.queue("work")

        def test_next():
            assert made == ["module", "function", "function"]
            assert ended == ["function", "function"]

        def test_module_fixture_is_as_it_was(of_module):
            assert made.count("module") == 1
        """
    )

    result.assert_outcomes(passed=3)


CHANNEL = """
    import pika
    import pytest

    @pytest.fixture
    def channel(leveret):
        with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
            yield connection.channel()

    @pytest.mark.leveret_explore(on="channel.open", faults="lost before")
    def test_explored(channel):
        pass
"""


def test_a_fault_that_ends_a_fixture_is_found_too(run):
    result = run(CHANNEL)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["one fault is enough: lost before conn 1 chan 1 client->server channel.open #1"])


def test_the_replay_line_of_the_report_repeats_the_failure(run):
    result = run(CHANNEL, "--leveret-explore-only", "lost before conn 1 chan 1 client->server channel.open #1")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["Of 1 schedule over * steps, 1 failed."])


def test_a_lost_confirmed_message_fails_a_test_that_asserts_nothing(run):
    result = run(
        """
        import pika
        import pytest
        from leveret.faults import Drop

        @pytest.mark.leveret_explore(faults=[Drop()], on="basic.publish")
        def test_explored(leveret):
            leveret.declare_queue("work")
            with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.basic_publish("", "work", b"1")
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Confirmed and lost:", "  '1', published to * was confirmed and is lost: the fault *"])


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a thread cannot be interrupted without a signal")
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_a_test_that_hangs_is_interrupted_and_the_next_one_runs(run, on_sigint, handler):
    # A shell starts a process in the background with SIGINT ignored.
    on_sigint(handler)

    result = run(
        """
        import threading
        import pika
        import pytest

        @pytest.mark.leveret_explore(on="queue.declare", limit=2)
        def test_hanging(leveret):
            try:
                with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
                    connection.channel().queue_declare("work", durable=True)
            except pika.exceptions.AMQPError:
                threading.Event().wait()

        def test_next(leveret):
            leveret.declare_queue("work")
        """
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*it did not end within 2 s: it was waiting at *in test_hanging", "*queues: none"])
    result.stdout.no_fnmatch_line("*Timeout*")
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_coroutine_is_explored_by_the_plugin_that_runs_it(run):
    result = run(
        """
        import aio_pika
        import pytest

        @pytest.mark.leveret_explore(on="queue.declare", faults=["lost before"])
        @pytest.mark.asyncio
        async def test_explored(leveret):
            connection = await aio_pika.connect(leveret.url)
            async with connection:
                channel = await connection.channel()
                await channel.declare_queue("work", durable=True)
        """,
        "-p",
        "pytest_asyncio.plugin",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["one fault is enough: lost before conn 1 chan 1 client->server queue.declare #1"])


def test_a_step_that_never_occurs_warns_and_fails_a_replay(run):
    source = """
        import pika
        import pytest

        calls = []

        @pytest.mark.leveret_explore(on="basic.qos", faults=["lost before"])
        def test_fickle(leveret):
            calls.append(leveret)
            with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
                if len(calls) == 1:
                    connection.channel().basic_qos(prefetch_count=1)
        """
    step = "lost before conn 1 chan 1 client->server basic.qos #1"

    explored = run(source)
    replayed = run(source, "--leveret-explore-only", step)

    explored.assert_outcomes(passed=1, warnings=1)
    explored.stdout.fnmatch_lines(["*a step did not occur again in two runs:", f"*{step}"])
    replayed.assert_outcomes(failed=1)
    replayed.stdout.fnmatch_lines(["*nothing was explored"])


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("leveret_explore(onn='basic.*')", "the marker leveret_explore has no keyword 'onn'; did you mean 'on'*"),
        ("leveret_explore('basic.*')", "the marker takes keywords only, as in leveret_explore(on='basic.[*]')"),
        ("leveret_explore(faults='lost')", "unknown kind of fault 'lost'; *"),
        ("leveret_explore(processes=2)", "the runs of a test share its fixtures, so they stay in its process; *"),
        ("leveret_explore(only='basic.ack')", "only='basic.ack' does not begin with a kind of fault; *"),
    ],
)
def test_an_invalid_marker_fails_the_test_and_names_its_place(run, marker, text):
    result = run(f"import pytest\n@pytest.mark.{marker}\ndef test_it(leveret): pass")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*.py:2: leveret_explore: {text}"])


LEAVING = """
    import threading

    import leveret
    import pika
    import pytest

    over, attempts = threading.Event(), []

    def consume(url):
        while not over.is_set():
            attempts.append(url)
            try:
                channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
                channel.basic_consume("work", lambda *_: None)
                channel.start_consuming()
            except pika.exceptions.AMQPError:
                over.wait({between_s})

    def scenario(broker):
        broker.declare_queue("work")
        threading.Thread(target=consume, args=(broker.url,), daemon=True).start()
        broker.wait_for_consumer("work")

    {explored}

    def test_next():
        try:
            before = len(attempts)
            while len(attempts) < before + 10:
                threading.Event().wait(0.001)
        finally:
            over.set()
        raise ValueError("the next test fails")
"""
AS_A_CALL = """
    def test_explored():
        leveret.explore(scenario, faults="lost before", on="basic.consume")
"""
AS_A_MARKER = """
    @pytest.mark.leveret_explore(faults="lost before", on="basic.consume")
    def test_explored(leveret):
        scenario(leveret)
"""


# When the exploration ends, a worker that waits for longer is between two calls of its client.
@pytest.mark.parametrize("between_s", ["0", "0.05"])
@pytest.mark.parametrize("explored", [AS_A_CALL, AS_A_MARKER], ids=["call", "marker"])
def test_a_worker_that_a_scenario_has_left_behind_does_not_log_into_the_next_test(run, explored, between_s):
    result = run(LEAVING.replace("{explored}", explored.strip()).replace("{between_s}", between_s))

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*Captured log*")


def test_a_test_without_a_broker_or_without_a_client_cannot_be_explored(run):
    result = run(
        """
        import pytest

        @pytest.mark.leveret_explore
        def test_without_broker(): pass

        @pytest.mark.leveret_explore
        def test_without_client(leveret): pass
        """
    )

    result.assert_outcomes(errors=1, failed=1)
    result.stdout.fnmatch_lines(["*does not use the fixture leveret*", "*no client connected to the broker*"])


def test_a_test_that_fails_without_a_fault_fails_as_usual(run):
    result = run(
        """
        import pytest

        @pytest.mark.leveret_explore
        def test_broken(leveret):
            assert 1 == 2
        """
    )

    result.assert_outcomes(failed=1)
    assert "exploration" not in result.stdout.str().replace("leveret_explore", "")


EXPLORED = """
import leveret
import pika
import pytest

def scenario(broker):
    broker.declare_queue("work")
    try:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        connection.channel().basic_publish("", "work", b"1")
        connection.close()
    except pika.exceptions.AMQPError:
        pass

def test_by_itself():
    leveret.explore(scenario)

@pytest.mark.leveret_explore
def test_marked(leveret):
    scenario(leveret)
"""


@pytest.mark.parametrize("name", ["test_by_itself", "test_marked"])
def test_verbose_shows_progress(run, name):
    # After twenty, or earlier where they take long.
    told = "  * schedules over * steps run, the last: * conn 1 chan *"

    run(EXPLORED, "-v", "-k", name).stdout.fnmatch_lines([told, "  All * schedules over * steps passed."])
    run(EXPLORED, "-k", name).stdout.no_fnmatch_line(told)


def test_a_schedule_under_which_the_test_skips_itself_is_none_that_passed(run):
    source = """
import pika
import pytest

@pytest.mark.leveret_explore(on="basic.get", faults=["lost before"])
def test_it(leveret):
    leveret.declare_queue("jobs")
    try:
        with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
            connection.channel().basic_get("jobs")
    except pika.exceptions.AMQPError:
        pytest.skip("the broker cannot be reached")
"""

    result = run(source, "-v")

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        [
            "*Of 1 schedule over * steps, 1 skipped.*",
            "*nothing was explored under 1 schedule of 1, because the test skipped itself:*",
        ]
    )


def test_the_cause_of_an_explored_failure_is_that_of_its_schedule(run, pytester):
    result = run(
        """
        from contextlib import suppress

        import pika
        import pytest

        @pytest.mark.leveret_explore(faults=["restart before"], on="connection.close")
        def test_it(leveret):
            leveret.declare_queue("orders")
            connection = pika.BlockingConnection(pika.URLParameters(leveret.url))
            connection.channel().basic_publish("", "orders", b"1")
            with suppress(pika.exceptions.AMQPError):
                connection.close()
            leveret.assert_ready("orders", body=b"1")
        """,
        "--leveret-pages-dir=pages",
    )

    result.stdout.fnmatch_lines(["#1 was lost when the broker restarted: it was not persistent*"])
    (facts,) = pytester.path.glob("pages/*.json")
    assert "was lost when the broker restarted" in facts.read_text(encoding="utf-8").partition('"noticed"')[0]
