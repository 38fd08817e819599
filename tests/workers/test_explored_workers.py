"""explore kills a worker at each step of its client, starts it again, and finds what that breaks."""

from __future__ import annotations

import sqlite3
import sys
import threading
from time import monotonic

import pytest

from leveret import Broker, BrokerError, ExplorationFailedError, explore
from leveret.exploration.faults import Killed
from leveret.workers.processes import forked
from tests.workers import services

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX"),
    pytest.mark.timeout(200),
]
KILLED = ("killed before", "killed after")


def payment_with(worker):
    def scenario(broker, folder):
        broker.declare_queue("payments")
        broker.declare_queue("receipts")
        with broker.worker(worker, env={"DB": str(folder / "shop.db")}):
            broker.publish("", "payments", b"7")
            broker.wait_idle(timeout=60)
        with sqlite3.connect(folder / "shop.db") as database:
            assert database.execute("select id from paid").fetchall() == [("7",)]
        database.close()

    return scenario


def test_a_payment_that_is_written_twice_is_found_with_its_step():
    with pytest.raises(ExplorationFailedError) as failed:
        explore(payment_with(services.pay), faults=KILLED, on="basic.*", limit=30)

    text = str(failed.value)
    assert "the process of connection payer is killed before the broker handles this" in text
    assert "'7' from payments was delivered twice instead of once" in text
    assert 'explore(scenario, only="killed before conn payer chan 1 client->server basic.publish #1")' in text


def test_its_mended_twin_passes_at_every_step():
    exploration = explore(payment_with(services.pay_once), faults=KILLED, on="basic.*", limit=30)

    assert exploration.passed_count == exploration.run_count == 4


def test_a_connection_of_the_test_itself_is_never_killed():
    def scenario(broker):
        import pika

        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel()

    with pytest.raises(ValueError, match="killed before, killed after: only connections of workers are killed"):
        explore(scenario, faults=KILLED)


def test_a_worker_that_a_fault_kills_is_awaited_until_it_is_ready_again():
    with Broker() as broker:
        broker.declare_queue("payments")
        with broker.worker(services.consume) as worker:
            (before,) = broker.queue("payments").consumers
            worker.die()

            broker.wait_idle(timeout=60)

            (after,) = broker.queue("payments").consumers
            assert (worker.death_count, after.tag != before.tag) == (1, True)


def test_a_worker_that_fails_to_start_again_after_a_fault_fails_its_block(tmp_path):
    def scenario(broker):
        broker.declare_queue("payments")
        with broker.worker(services.consume_in_a_new_folder, env={"FOLDER": str(tmp_path / "new")}) as worker:
            worker.die()
            broker.wait_idle(timeout=60)

    with (
        Broker() as broker,
        pytest.raises(BrokerError, match=r"(?s)ended by itself with 1 before its block did.*FileExistsError"),
    ):
        scenario(broker)


def test_a_worker_is_killed_even_if_it_acts_before_its_start_returns(tmp_path):
    alive, looking = tmp_path / "alive", threading.Event()

    def wait_for_life(frame, event, arg):
        # The processor is another's when the process has been forked: it runs ahead.
        if event == "return" and frame.f_code is forked.__code__:
            sys.setprofile(None)
            limit = monotonic() + 0.5
            while not alive.exists() and monotonic() < limit:
                looking.wait(0.01)

    with Broker() as broker:
        broker.declare_queue("payments")
        broker.publish("", "payments", b"7")
        broker.faults.add(on="basic.ack", do=Killed("after"))
        sys.setprofile(wait_for_life)
        try:
            with broker.worker(services.live_on, env={"ALIVE": str(alive)}) as worker:
                broker.assert_acked("payments", timeout=30)
        finally:
            sys.setprofile(None)

        assert worker.death_count == 1
        assert not alive.exists()


def test_a_worker_that_is_killed_while_it_ends_is_not_started_again():
    ended = []

    def scenario(broker):
        broker.declare_queue("payments")
        with broker.worker(services.close_at_the_end) as worker:
            pass
        ended.append((worker.death_count, worker.is_running))
        assert [it.name for it in threading.enumerate() if it.name.startswith("restart of")] == []

    explore(scenario, faults=KILLED, on="*client->server connection.close *", limit=60)

    assert ended == [(0, False)] * 2 + [(1, False)] * 2
