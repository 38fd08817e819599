"""docs/reference/management.md lists every endpoint, with the number of recorded scenarios that ask it."""

from __future__ import annotations

import pytest

from leveret import Broker
from leveret.core.compat import VERSIONS, RabbitMQVersion
from leveret.http.management.endpoints import ENDPOINTS

from .asking import ask, management_of
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


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_a_management_api(version: RabbitMQVersion) -> None:
    with Broker(rabbitmq=version) as broker:
        management = management_of(broker)

        overview = ask(management, "GET", "/overview")

    assert overview.status == 200
    assert overview.value["rabbitmq_version"].startswith(version)
