"""What changed over the last runs: each change is found, with the commit since which it is so, and no other."""

from __future__ import annotations

from functools import partial

import pytest

from leveret.pipeline import Warehouse, ingest, read_table, update
from leveret.pipeline.reading import Read
from tests.pipeline import shop_history
from tests.pipeline.shop_history import DEAD_LETTERED_FROM, LEAKS_FROM, REDELIVERED_FROM, commit


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    folder = tmp_path_factory.mktemp("history")
    shop_history.record(folder / "traces")
    warehouse = Warehouse(folder / "warehouse")
    ingest(warehouse, folder / "traces", processes=1)
    update(warehouse, processes=1)
    return partial(read_table, warehouse)


def test_each_change_of_forty_runs_is_found_at_its_commit_and_no_other(read: Read) -> None:
    columns = ("kind", "queue", "measure", "to_queue", "before", "after", "since_commit")

    found = {tuple(row[name] for name in columns) for row in read("changes").to_pylist()}

    assert found == {
        ("step", "orders", "redeliveries", None, 5, 20, commit(REDELIVERED_FROM)),
        ("step", "invoices", "dead_letters", "orders.dead", 0, 1, commit(DEAD_LETTERED_FROM)),
        ("growth", "audit", "leaked", None, 0, 31, commit(LEAKS_FROM)),
    }
