"""Workers end with the test process however it ends, and keep the secrets that they are given."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from time import monotonic

import pytest

from leveret import Broker
from leveret.workers import fork_server, processes
from tests.systems import needs_fork
from tests.workers import killed, services

PROGRAM = [sys.executable, "-m", "tests.workers.services"]
pytestmark = [
    needs_fork,
    pytest.mark.timeout(120),
]
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.declare_queue("payments")
        yield broker


@needs_proc
@pytest.mark.parametrize(("kind", "end"), [*zip(killed.KINDS, 2 * list(killed.ENDS), strict=True)])
def test_a_suite_that_is_killed_while_its_workers_run_leaves_no_process(tmp_path, kind, end):
    assert killed.kill(kind, end, tmp_path, 0.05) == []


@needs_proc
@pytest.mark.parametrize("end", killed.ENDS)
def test_a_suite_that_is_killed_while_its_workers_start_leaves_no_process(tmp_path, end):
    assert killed.kill("program", end, tmp_path, -0.4) == []


def done_by(program):
    """Return the finished process that ran a program."""
    return subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=False, timeout=60
    )


def test_workers_that_live_at_the_exit_of_the_process_end_by_sigterm_without_a_warning():
    done = done_by("""
        import atexit

        workers = []
        # This comes last.
        atexit.register(lambda: print(*(worker.returncode for worker in workers)))

        from leveret import Broker
        from tests.workers import services

        broker = Broker().start()
        broker.declare_queue("payments")
        workers += [broker.worker(services.close_at_the_end).start() for _ in range(2)]
        for worker in workers:
            worker.wait_ready()
    """)

    assert (done.stdout, done.stderr) == ("0 0\n", "")


@pytest.mark.parametrize("run", [PROGRAM, services.consume], ids=["program", "function"])
def test_workers_start_again_after_the_process_that_starts_them_was_killed(broker, run):
    with broker.worker(run) as first:
        os.kill(fork_server.SERVER._process.pid, signal.SIGKILL)
        while first.is_running:
            broker.sync()
        assert first.returncode == -signal.SIGKILL

        with broker.worker(run):
            assert len(broker.queue("payments").consumers) == 1


def test_an_error_says_that_the_process_that_starts_workers_ends_each_time(broker, monkeypatch):
    fork_server.SERVER.stop()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    worker = broker.worker(PROGRAM)

    with pytest.raises(ChildProcessError, match=r"ended with 1 before it had started this one, and so did the next;"):
        worker.start()

    monkeypatch.undo()
    with worker:
        assert len(broker.queue("payments").consumers) == 1


def test_a_fork_of_the_test_process_starts_workers_of_its_own():
    done = done_by("""
        import os
        from leveret import Broker
        from tests.workers import services

        def consumer_count():
            with Broker() as broker:
                broker.declare_queue("payments")
                with broker.worker(services.consume):
                    return len(broker.queue("payments").consumers)

        assert consumer_count() == 1
        child = os.fork()
        if not child:
            os._exit(consumer_count())
        counts = [consumer_count() for _ in range(5)]
        print(counts, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)

    assert (done.stdout, done.stderr) == ("[1, 1, 1, 1, 1] 1\n", "")


@needs_proc
def test_a_fork_that_outlives_the_test_process_does_not_keep_its_workers():
    suite = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            dedent("""
                import os, signal, sys, threading
                from leveret import Broker

                broker = Broker().start()
                worker = broker.worker(["sleep", "300"], ready=lambda: True).start()
                print(worker.pid, flush=True)
                if not os.fork():
                    print("forked", flush=True)
                    sys.stdin.read()
                    os._exit(0)
                threading.Event().wait()
            """),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with suite:
        worker, _ = suite.stdout.readline(), suite.stdout.readline()
        suite.kill()
        suite.wait()

        limit = monotonic() + killed.LIMIT_S
        while Path(f"/proc/{worker.strip()}/exe").exists():
            assert monotonic() < limit
            killed.TICK.wait(0.02)


@needs_proc
def test_no_command_line_shows_the_environment_of_a_function_where_there_is_no_fork(broker, monkeypatch):
    # As on macOS.
    monkeypatch.setattr(processes, "_CAN_FORK", False)
    secret, much = "s3cr3t", "x" * 500_000

    with broker.worker(services.consume_with, args=("payments", much), env={"PASSWORD": secret}) as worker:
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (worker.pid, fork_server.SERVER._process.pid)]

        assert worker.output == f"{secret} {len(much)}\n"
        assert [it for it in commands if secret.encode() in it or secret.encode().hex().encode() in it] == []
