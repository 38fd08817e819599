"""Whether a client is at work: a worker that computes has not reacted yet, however busy the machine is."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from leveret import Broker
from leveret.server import threads
from leveret.server.threads import Threads
from leveret.time.stillness import Stillness

pytestmark = pytest.mark.skipif(not Threads().can_tell, reason="the system does not report what threads do")


def looks_while_somebody_computes(broker: Broker) -> list[bool]:
    """Return, for each look, whether a client was at work while a thread computed without a pause."""
    stillness, looks = Stillness(broker._engine), []
    has_looked = False

    def compute() -> None:
        while not has_looked:
            pass

    worker = threading.Thread(target=compute)
    worker.start()
    try:
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:
            looks.append(stillness.are_clients_at_work())
    finally:
        has_looked = True
        worker.join()
    return looks


@contextmanager
def a_busy_broker() -> Iterator[None]:
    """Run a busy thread that belongs to a broker: it is no client, and competes for the interpreter."""
    is_ended = threading.Event()

    def run() -> None:
        threads.register_thread()
        while not is_ended.is_set():
            pass
        threads.unregister_thread()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_ended.set()
        thread.join()


def test_a_thread_that_computes_is_seen_in_every_look(leveret: Broker) -> None:
    looks = looks_while_somebody_computes(leveret)

    assert looks
    assert all(looks)


def test_a_thread_that_computes_is_seen_while_the_test_replaces_open(leveret: Broker) -> None:
    with mock.patch("builtins.open", mock.mock_open(read_data="a file of the code under test")):
        looks = looks_while_somebody_computes(leveret)

    assert looks
    assert all(looks)


def test_a_thread_that_waits_for_the_interpreter_is_at_work(leveret: Broker) -> None:
    with a_busy_broker():
        looks = looks_while_somebody_computes(leveret)

    assert looks
    assert all(looks)


def test_threads_that_wait_are_not_at_work(leveret: Broker) -> None:
    gate = threading.Event()
    waiting = [threading.Thread(target=gate.wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    stillness = Stillness(leveret._engine)

    is_still = any(not stillness.are_clients_at_work() for _ in range(100))

    gate.set()
    for thread in waiting:
        thread.join()
    assert is_still


def test_a_thread_that_stops_while_it_is_looked_at_was_at_work() -> None:
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    watched = Threads()
    watched.processes = (str(busy.pid),)
    read, before = threads._read, threads._read(f"/proc/{busy.pid}/task/{busy.pid}/schedstat")

    def read_as_before_the_next_tick(path: str) -> bytes:
        if not path.endswith("schedstat"):
            return read(path)
        os.kill(busy.pid, signal.SIGSTOP)
        os.waitpid(busy.pid, os.WUNTRACED)
        return before

    watched.look()
    with mock.patch.object(threads, "_read", read_as_before_the_next_tick):
        share = watched.busy_share()

    busy.kill()
    busy.wait()
    assert share >= 1
