"""Crashes of a job's reader, task or sink at five places: no message is lost and none is duplicated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from leveret import Broker
from tests.spark.crashes import Job, SinkError, end_of, faults_of, fill, jvm_pid, kill, reader_pids, worker_pids
from tests.systems import needs_proc

BODIES = [b"%d" % number for number in range(25)]
# The second of three batches.
CRASHING = 1


@pytest.fixture
def job(session: SparkSession, leveret: Broker, tmp_path: Path) -> Job:
    fill(leveret.url, "jobs", BODIES)
    return Job(session, leveret.url, "jobs", tmp_path, "batches", batch=10)


def once(act: Callable[[], object]) -> Callable[[int], None]:
    """Return a function that acts at the crashing batch, the first time it runs."""
    left = [True]

    def strike(batch: int) -> None:
        if batch == CRASHING and left[0]:
            left[0] = False
            act()

    return strike


def fail() -> None:
    raise SinkError("on purpose")


def crash_and_go_on(job: Job) -> list[str]:
    assert end_of(job.start()) != ""
    assert end_of(job.start()) == ""
    return faults_of(job.sink, job.rows(), BODIES)


def test_the_sink_fails_before_it_has_the_batch(job: Job) -> None:
    job.before_write = once(fail)

    assert crash_and_go_on(job) == []


def test_the_sink_fails_when_it_has_the_batch(job: Job) -> None:
    job.after_write = once(fail)

    assert crash_and_go_on(job) == []


def test_the_reader_is_killed_before_the_sink_has_the_batch(job: Job, session: SparkSession) -> None:
    job.before_write = once(lambda: kill(reader_pids(jvm_pid(session))))

    assert crash_and_go_on(job) == []


def test_the_reader_is_killed_when_the_sink_has_the_batch(job: Job, session: SparkSession) -> None:
    job.after_write = once(lambda: kill(reader_pids(jvm_pid(session))))

    assert crash_and_go_on(job) == []


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


def test_the_ack_is_lost_with_its_connection(job: Job, leveret: Broker) -> None:
    leveret.faults.reset_peer(on="basic.ack", client="leveret.spark")

    assert end_of(job.start()) == ""
    assert faults_of(job.sink, job.rows(), BODIES) == []
    leveret.assert_empty("jobs")
