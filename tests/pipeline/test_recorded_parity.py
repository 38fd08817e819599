"""Random workloads recorded on RabbitMQ: leveret publishes, routes and delivers the same, by trace and by firehose."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from leveret.pipeline import parity
from leveret.pipeline.frames import read_events
from leveret.trace.firehose import write_trace
from leveret.trace.run import close_files
from tests.pipeline.parity_recordings import load
from tests.pipeline.parity_workload import replay

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def ways(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataFrame]:
    """The events of all workloads from leveret's trace, leveret's firehose and RabbitMQ's firehose."""
    folder = tmp_path_factory.mktemp("parity")
    rows = {"leveret-firehose": [], "rabbitmq": []}
    for version, recorded, told in load():
        outcome, ours = replay(recorded, version, folder / "leveret")
        assert outcome.is_whole, f"{recorded.name} was answered otherwise than it was recorded"
        rows["leveret-firehose"] += ours
        rows["rabbitmq"] += told
    close_files()
    for way, each in rows.items():
        numbered = [{**row, "seq": seq} for seq, row in enumerate(each)]
        write_trace(numbered, str(folder / way), run=way, started=STARTED)
    return {way: read_events(spark, [folder / way]) for way in ("leveret", *rows)}


@pytest.mark.filterwarnings("ignore")
def test_leverets_trace_agrees_with_rabbitmqs_firehose(ways: dict[str, DataFrame]) -> None:
    assert parity.compare(ways["leveret"], ways["rabbitmq"], ["test"]).collect() == []


@pytest.mark.filterwarnings("ignore")
def test_leverets_firehose_agrees_with_rabbitmqs_including_headers_that_queues_add(ways: dict[str, DataFrame]) -> None:
    assert parity.compare(ways["leveret-firehose"], ways["rabbitmq"], ["test"], ignored_headers=()).collect() == []
