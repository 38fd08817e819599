"""A history of recorded runs of a shop, over several commits, one of which changes what the shop sends.

Run `python -m tests.contract.drifting 200` to see what `leveret contract drift` says of each pair of commits.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final
from unittest import mock

import pika

from leveret import Broker
from leveret.cli import main
from leveret.pipeline import Warehouse, ingest
from leveret.trace.run import close_files

COMMITS: Final = tuple(f"commit-{number}" for number in range(5))
# From this commit on, the shop sends the total as a number.
DRIFTED: Final = 3


def order(number: int, commit: int) -> dict[str, object]:
    """Return an order as the shop of a commit sends it. Some fields come in some orders only."""
    total: object = number * 1.5 + 0.25 if commit >= DRIFTED else f"{number}.50"
    body: dict[str, object] = {"id": number, "total": total, "status": ("open", "paid", "sent")[number % 3]}
    if number % 2:
        body["note"] = None if number % 4 == 1 else f"for Ada Lovelace {number}"
    body["lines"] = [{"sku": f"sku-{line}", "count": line} for line in range(number % 3)]
    return body


def record(traces: Path, commit: int, observe: Callable[[Broker], object] | None = None) -> None:
    """Record a run of a commit: the shop publishes 12 orders, which billing reads. Then the broker is observed."""
    close_files()
    with mock.patch.dict(os.environ, {"GITHUB_SHA": COMMITS[commit], "GITHUB_REF_NAME": "main"}):
        # Workers of pytest-xdist share one run.
        os.environ.pop("PYTEST_XDIST_WORKER", None)
        with Broker(trace_dir=traces) as broker:
            parameters = pika.URLParameters(broker.url)
            parameters.client_properties = {"connection_name": "shop"}
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                channel.exchange_declare("orders", "topic", durable=True)
                channel.queue_declare("billing", durable=True)
                channel.queue_bind("billing", "orders", "order.*")
                for number in range(12):
                    channel.basic_publish("orders", "order.created", json.dumps(order(number, commit)).encode())
            parameters.client_properties = {"connection_name": "billing"}
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                for _ in range(12):
                    method, _, _ = channel.basic_get("billing")
                    channel.basic_ack(method.delivery_tag)
                broker.wait_idle()
            if observe is not None:
                observe(broker)
        close_files()


def fill(folder: Path, runs: int) -> Path:
    """Return a warehouse with this many runs, of each commit about equally many."""
    for number in range(runs):
        record(folder / "traces", number * len(COMMITS) // runs)
    ingest(Warehouse(folder / "warehouse"), [folder / "traces"])
    return folder / "warehouse"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        warehouse = fill(Path(place), int(sys.argv[1]))
        for old, new in pairwise(COMMITS):
            print(f"{old} to {new}:", flush=True)
            print("exit code", main(["contract", "drift", str(warehouse), "--from", old, "--to", new]), flush=True)
        main(["contract", "infer", str(warehouse), "--commit", COMMITS[0], "--lock", f"{place}/messages.lock"])
        print(Path(place, "messages.lock").read_text(encoding="utf-8"))
