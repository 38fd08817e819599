"""A user's program or function runs as a process beside the test, with the broker's URL, and ends with the test."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from multiprocessing import Pipe
from pathlib import Path
from textwrap import dedent

import pytest
import trio

from leveret import Broker, BrokerError, LeveretWarning, WaitTimeoutError
from leveret.workers import fork_server
from tests.workers import services

PROGRAM = [sys.executable, "-m", "tests.workers.services"]
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the children of these workers are found by POSIX means"),
    pytest.mark.timeout(120),
]

needs_env = pytest.mark.skipif(shutil.which("env") is None, reason="needs the program env")


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.declare_queue("payments")
        broker.declare_queue("receipts")
        yield broker


@contextmanager
def busy_threads(count):
    is_over = threading.Event()

    def spin():
        while not is_over.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("run", [PROGRAM, services.consume], ids=["program", "function"])
def test_a_worker_is_ready_when_it_consumes(broker, run):
    with broker.worker(run) as worker:
        assert len(broker.queue("payments").consumers) == 1
        broker.publish("", "payments", b"7")
        broker.wait_idle()

        broker.assert_acked("payments", body=b"7")
        assert worker.is_running
    assert not worker.is_running
    assert "handled 7" in worker.output
    assert broker.queue("payments").consumers == ()


def test_arguments_reach_the_function(broker):
    with broker.worker(services.consume, args=("receipts",)):
        assert len(broker.queue("receipts").consumers) == 1


def test_the_url_is_for_the_wanted_user_and_virtual_host():
    with Broker(users={"app": "pw"}, vhosts={"shop"}) as broker:
        broker.declare_queue("payments", vhost="shop")
        with broker.worker(services.consume, vhost="shop", user="app"):
            (connection,) = broker.connections
            assert (connection.user, connection.vhost) == ("app", "shop")


def test_what_a_worker_printed_before_its_ack_is_in_its_output_after_it(broker):
    # The thread that reads the pipe waits its turn behind threads that always have something to do.
    with broker.worker(services.consume) as worker, busy_threads(4):
        for number in range(5):
            body = str(number).encode()
            broker.publish("", "payments", body)
            broker.assert_acked("payments", body=body, timeout=60)
            assert worker.output.splitlines()[-1:] == [f"handled {number}"]


def test_a_worker_that_only_publishes_is_ready_by_its_output(broker):
    with broker.worker(services.publish_and_stay, ready="published"):
        broker.assert_ready("payments", times=1)


def test_a_worker_may_be_ready_by_a_condition(broker):
    with broker.worker(services.publish_and_stay, ready=lambda: broker.queue("payments").ready):
        broker.assert_ready("payments", times=1)


def test_a_program_that_ends_before_it_is_ready_fails_with_its_output(broker):
    with (
        pytest.raises(
            BrokerError,
            match=r"(?s)worker 'fail' ended with 3 before it consumes; its URL is in AMQP_URL.*printed:\n  no licence",
        ),
        broker.worker(services.fail),
    ):
        raise AssertionError("unreachable")


def test_a_worker_that_is_not_ready_in_time_says_what_it_has_printed(broker):
    worker = broker.worker(services.publish_and_stay, timeout=0.1).start()
    while not worker.output:
        broker.sync()

    with pytest.raises(
        WaitTimeoutError, match=r"(?s)worker 'publish_and_stay' runs and has not .* within 0.1 s; .*  published"
    ):
        worker.wait_ready()
    worker.end()


def test_a_worker_that_ends_by_itself_fails_the_block(broker):
    def scenario():
        with broker.worker(services.fail_after_the_first) as worker:
            broker.publish("", "payments", b"7")
            while worker.is_running:
                broker.sync()

    with pytest.raises(BrokerError, match=r"(?s)'fail_after_the_first' ended by itself with 1.*out of money"):
        scenario()


def test_kill_ends_it_at_once_and_restart_starts_it_again(broker):
    with broker.worker(services.consume) as worker:
        first = worker.pid

        worker.kill()
        assert worker.returncode == -9
        worker.restart()

        assert worker.pid != first
        broker.publish("", "payments", b"8")
        broker.wait_idle()
        broker.assert_acked("payments", body=b"8")


def test_one_that_ignores_sigterm_is_killed_with_a_warning(broker):
    with broker.worker(services.ignore_sigterm) as worker:
        with pytest.warns(
            LeveretWarning, match=r"'ignore_sigterm' did not end within 0.05 s of SIGTERM, and was killed"
        ):
            worker.terminate(timeout=0.05)

        assert worker.returncode == -9


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux shows whether a process is at work")
def test_the_end_of_the_block_does_not_cut_short_what_a_worker_does_after_its_ack(broker, tmp_path):
    with broker.worker(services.work_after_ack, env={"DONE": str(tmp_path / "done")}):
        broker.publish("", "payments", b"7")
        broker.wait_idle(timeout=60)

    assert (tmp_path / "done").exists()


def test_the_children_of_a_worker_end_with_it(broker, tmp_path):
    pid_file = tmp_path / "pid"
    with broker.worker(services.consume_in_a_child, env={"PID_FILE": str(pid_file)}):
        child = int(pid_file.read_text(encoding="utf-8"))
        assert Path(f"/proc/{child}").exists() or not Path("/proc").exists()
    assert not Path(f"/proc/{child}/exe").exists()


def test_a_worker_that_the_test_does_not_end_ends_with_its_broker():
    with Broker() as broker:
        broker.declare_queue("payments")
        worker = broker.worker(services.consume).start()
        worker.wait_ready()

    assert not worker.is_running


def test_a_worker_of_a_broker_that_is_never_stopped_ends_with_the_process():
    program = """
        import leveret
        broker = leveret.Broker().start()
        worker = broker.worker(["sleep", "600"]).start()
        print(worker.pid)
    """

    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)

    with pytest.raises(ProcessLookupError):
        os.killpg(int(done.stdout), 0)


def test_a_function_that_cannot_be_imported_is_refused(broker):
    def inner():
        pass

    with pytest.raises(ValueError, match="define it at the top of a module"):
        broker.worker(inner).start()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"run": "python -m shop"},
            r"worker\('python -m shop'\): run must be a list .* worker\(\['python', '-m', 'shop'\]\)",
        ),
        ({"run": "shop 'orders"}, r"run must be a list of words, as in worker\(\['shop', \"'orders\"\]\)"),
        ({"run": None}, r"worker\(\): run must be a list of words or a function that is not called, not None"),
        ({"run": Path("shop.py")}, r"run must be a list of words or a function .*Path"),
        (
            {"run": partial(services.consume, "receipts")},
            r"run must be a function itself; give its arguments with args=",
        ),
        ({"run": services.consume, "args": "receipts"}, r"args must be a tuple, as in args=\('receipts',\)"),
        ({"run": PROGRAM, "args": ("receipts",)}, r"put the arguments of a program into its list"),
        ({"run": PROGRAM, "env": {"N": 1}}, r"env\['N'\] must be a string, not 1"),
        ({"run": PROGRAM, "url_env": 5}, r"url_env must be a text or several, as in .*, not 5"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_right(broker, options, message):
    with pytest.raises(TypeError, match=message):
        broker.worker(**options)


def test_arguments_that_no_other_process_can_get_are_refused(broker):
    with (
        Path(__file__).open(encoding="utf-8") as file,
        pytest.raises(TypeError, match=r"worker\(consume\): args cannot be sent to another process: .*pickle"),
    ):
        broker.worker(services.consume, args=(file,)).start()


def test_the_names_of_variables_may_come_from_an_iterator(broker):
    with broker.worker(PROGRAM, url_env=iter(["SHOP_URL", "AMQP_URL"])):
        assert len(broker.queue("payments").consumers) == 1


def test_a_worker_that_waits_in_vain_shows_that_no_variable_has_the_url(broker):
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        pytest.raises(WaitTimeoutError, match=r"; url_env names no variable, and ready= is for"),
        broker.worker(sleeping, url_env=(), timeout=0.1),
    ):
        pass


def test_a_coroutine_function_runs_in_an_event_loop(broker):
    with broker.worker(services.consume_in_a_loop):
        assert len(broker.queue("payments").consumers) == 1


async def used_on_a_loop(broker):
    async with broker.worker(services.consume) as worker:
        first = worker.pid
        broker.publish("", "payments", b"7")
        await broker.aio.wait_idle(timeout=20)
        await worker.aio.restart()
        assert (worker.pid != first, worker.is_running) == (True, True)
        await worker.aio.terminate()
    started = broker.worker(services.consume).start()
    await started.aio.wait_ready(timeout=60)
    await started.aio.end()
    return worker.is_running, started.is_running


@pytest.mark.parametrize("run", [asyncio.run, lambda coroutine: trio.run(lambda: coroutine)], ids=["asyncio", "trio"])
def test_a_worker_is_started_and_awaited_on_an_event_loop(broker, run):
    assert run(used_on_a_loop(broker)) == (False, False)
    broker.assert_acked("payments", body=b"7")


def test_a_worker_that_is_killed_on_an_event_loop_warns_at_the_line_of_the_test(broker):
    async def scenario():
        async with broker.worker(services.ignore_sigterm) as worker:
            await worker.aio.terminate(timeout=0.05)

    with pytest.warns(LeveretWarning, match=r"'ignore_sigterm' did not end within 0.05 s of SIGTERM") as warned:
        asyncio.run(scenario())

    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "way"),
    [
        (lambda worker: worker.__enter__(), r"use: async with broker.worker\(\.\.\.\)$"),
        (lambda worker: worker.start().wait_ready(), r"use: await worker.aio.wait_ready\(\)$"),
        (lambda worker: worker.restart(), r"use: await worker.aio.restart\(\)$"),
    ],
)
def test_a_call_that_would_block_an_event_loop_names_its_awaitable_form(call, way):
    async def scenario(worker):
        call(worker)

    with Broker(checks={"lost_worker": "off"}) as broker, pytest.raises(BrokerError, match=way):
        asyncio.run(scenario(broker.worker(services.consume)))


def environment_of(worker):
    """Return the variables that a program prints."""
    while worker.is_running:
        worker._engine.sync()
    worker.end()
    return dict(line.partition("=")[::2] for line in worker.output.splitlines())


@needs_env
def test_the_address_of_the_broker_is_that_of_the_worker_wherever_it_stands(broker, monkeypatch):
    monkeypatch.setenv("SHOP_URL", f"{broker.url}/%2F?heartbeat=7")
    monkeypatch.setenv("OTHER_PORT", f"127.0.0.1:{broker.port}0")
    worker = broker.worker(["env", f"GIVEN={broker.url}"], env={"MORE": f"url={broker.url}"}).start()
    own = broker.url.replace(str(broker.port), str(worker.port))

    seen = environment_of(worker)

    assert [seen[name] for name in ("GIVEN", "SHOP_URL", "MORE", "OTHER_PORT")] == [
        *(own, f"{own}/%2F?heartbeat=7", f"url={own}", f"127.0.0.1:{broker.port}0")
    ]


def test_a_url_among_the_arguments_of_a_function_is_that_of_the_worker(broker):
    with broker.worker(services.consume_at, args=(broker.url,)):
        assert len(broker.queue("payments").consumers) == 1


def test_a_program_that_is_not_there_is_named(broker):
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        broker.worker(["no-such-program"]).start()


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
def test_workers_leave_no_process_thread_descriptor_or_file():
    """A process of its own does it, so that nothing of other tests counts."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.workers.campaign", "21"], capture_output=True, text=True, check=False
    )

    assert done.stdout.splitlines()[1:] == [
        *("processes left: 0", "threads left: 0", "descriptors left: 0", "files left: 0")
    ]
    assert (done.returncode, done.stderr) == (0, "")


WITH_A_DEFAULT_TIMEOUT = """
import socket
from leveret import Broker
from tests.workers import services

if __name__ == "__main__":
    socket.setdefaulttimeout(5)
    with Broker() as broker:
        for queue in ("payments", "receipts"):
            broker.declare_queue(queue)
        for _ in range(2):
            with broker.worker(services.consume):
                print(len(broker.queue("payments").consumers))
"""


def test_a_default_timeout_of_sockets_is_none_of_the_fork_server(tmp_path):
    # The fork server of this process has been started without one.
    program = tmp_path / "program.py"
    program.write_text(WITH_A_DEFAULT_TIMEOUT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("1\n1\n", "")


def test_a_file_is_sent_without_an_acknowledgement_that_other_reports_overtake(broker, monkeypatch):
    # As multiprocessing does on macOS.
    monkeypatch.setattr("multiprocessing.reduction.ACKNOWLEDGE", True)

    with broker.worker(services.consume):
        assert len(broker.queue("payments").consumers) == 1


def test_a_child_that_gets_the_number_of_an_earlier_one_does_not_get_its_exit_code(broker):
    with broker.worker(services.consume) as worker:
        earlier = worker.pid
        # What a wrap of the system's numbers brings about: the fork server reports this number once more.
        theirs, fork_server.SERVER._control = fork_server.SERVER._control, None
        ours, reporting = Pipe()
        try:
            fork_server.SERVER._codes[earlier] = -9
            fork_server.SERVER._control = ours
            reporting.send((earlier, None))
            assert fork_server.SERVER.code_of(earlier) is None
        finally:
            fork_server.SERVER._control = theirs
            fork_server.SERVER._started.clear()
            ours.close()
            reporting.close()


def test_a_function_of_the_script_itself_does_not_run_its_main_part_again(tmp_path):
    program = """
        from leveret import Broker

        def work():
            print("works")

        if __name__ == "__main__":
            print("main part")
            with Broker() as broker:
                worker = broker.worker(work, ready="works")
                with worker:
                    pass
                print(worker.output)
    """
    script = tmp_path / "script.py"
    script.write_text(dedent(program))

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert done.stdout.split("\n") == ["main part", "works", "", ""]
