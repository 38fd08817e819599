"""Crashes of a job's reader, task or sink at five places: no message is lost and none is duplicated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret import Broker
from tests.spark.crashes import Job, SinkError, end_of, faults_of, fill, jvm_pid, kill, reader_pids, worker_pids
from tests.systems import needs_proc

BODIES = [b"%d" % number for number in range(30)]
BATCH = 5


@dataclass
class Crashed:
    """A job that crashed in each of its batches but the first and the last, and went on in a new query each time."""

    # How the query ended that crashed in a batch.
    errors: dict[int, str]
    rows: list[tuple[str | None, bytes]]

    def faults_in(self, batch: int) -> list[str]:
        """Return which messages of a batch were lost or doubled."""
        bodies = BODIES[batch * BATCH : (batch + 1) * BATCH]
        return faults_of("batches", [row for row in self.rows if row[1] in bodies], bodies)


def fail() -> None:
    raise SinkError("on purpose")


@pytest.fixture(scope="module")
def crashed(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    def kill_reader() -> None:
        kill(reader_pids(jvm_pid(session)))

    before, after = {1: fail, 3: kill_reader}, {2: fail, 4: kill_reader}
    with Broker() as broker:
        fill(broker.url, "jobs", BODIES)
        job = Job(session, broker.url, "jobs", tmp_path_factory.mktemp("job"), "batches", batch=BATCH)
        job.before_write = lambda batch: before.pop(batch, nothing)()
        job.after_write = lambda batch: after.pop(batch, nothing)()
        errors = {batch: end_of(job.start()) for batch in (1, 2, 3, 4)}
        assert end_of(job.start()) == ""
    return Crashed(errors, job.rows())


def nothing() -> None:
    return None


@needs_proc
def test_the_sink_fails_before_it_has_the_batch(crashed: Crashed) -> None:
    assert "on purpose" in crashed.errors[1]
    assert crashed.faults_in(1) == []


@needs_proc
def test_the_sink_fails_when_it_has_the_batch(crashed: Crashed) -> None:
    assert "on purpose" in crashed.errors[2]
    assert crashed.faults_in(2) == []


@needs_proc
def test_the_reader_is_killed_before_the_sink_has_the_batch(crashed: Crashed) -> None:
    assert crashed.errors[3] != ""
    assert crashed.faults_in(3) == []


@needs_proc
def test_the_reader_is_killed_when_the_sink_has_the_batch(crashed: Crashed) -> None:
    assert crashed.errors[4] != ""
    assert crashed.faults_in(4) == []


@needs_proc
def test_a_job_that_crashed_again_and_again_has_each_message_once(crashed: Crashed) -> None:
    assert faults_of("batches", crashed.rows, BODIES) == []


@needs_proc
def test_a_task_is_killed(session: SparkSession, leveret: Broker, tmp_path: Path) -> None:
    fill(leveret.url, "jobs", BODIES)
    # Each partition needs two new Python processes afterwards, which import pandas and Arrow.
    job = Job(session, leveret.url, "jobs", tmp_path, "queue", batch=10, partitions=1)
    # The broker takes its publishes and does not confirm them, so the task waits until it is killed.
    withheld = leveret.faults.withhold_confirms()

    query = job.start()
    leveret.assert_published("", routing_key="jobs.out", timeout=60)
    withheld.remove()
    kill(worker_pids(jvm_pid(session)))

    assert "Python worker exited unexpectedly" in end_of(query)
    assert end_of(job.start()) == ""
    assert faults_of("queue", job.rows(), BODIES) == []


def test_the_ack_is_lost_with_its_connection(session: SparkSession, leveret: Broker, tmp_path: Path) -> None:
    fill(leveret.url, "jobs", BODIES)
    job = Job(session, leveret.url, "jobs", tmp_path, "batches", batch=10)
    leveret.faults.reset_peer(on="basic.ack", client="leveret.spark")

    assert end_of(job.start()) == ""
    assert faults_of(job.sink, job.rows(), BODIES) == []
    leveret.assert_empty("jobs")
