"""docs/management.md lists every endpoint, with the number of recorded scenarios that ask it."""

from __future__ import annotations

from leveret.http.management.routes import ENDPOINTS

from .count import counts, table, written

# RabbitMQ's management has no metrics of its own, its answer to the last one is a crash, and resetting would change
# the statistics of others who use the same server.
_NOT_RECORDED = {
    ("GET", "/metrics"),
    ("GET", "/metrics/per-object"),
    ("DELETE", "/api/reset/{node}"),
    ("GET", "/api/vhosts/{vhost}/deletion/protection"),
}


def test_the_table_of_endpoints_is_current() -> None:
    assert written() == table(), "run: python -m tests.management.count"


def test_every_endpoint_was_recorded() -> None:
    asked = counts()

    missing = {(each.method, each.template) for each in ENDPOINTS} - set(asked)

    assert missing == _NOT_RECORDED
