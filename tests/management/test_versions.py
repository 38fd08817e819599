"""Each version has the paths that its source names, and answers them as that source does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leveret import Broker
from leveret.core.compat import VERSIONS, RabbitMQVersion
from leveret.http.management.endpoints import ENDPOINTS

from .asking import ask, management_of

# The paths of rabbit_mgmt_dispatcher at v4.3.5, v4.2.9, v4.0.5, v3.13.7 and v3.10.8, with the versions that have them.
PATHS: dict[str, str] = json.loads(Path(__file__).with_name("paths.json").read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_has_the_paths_of_its_source(version: str) -> None:
    known = {endpoint.template for endpoint in ENDPOINTS if endpoint.template.startswith("/api/")}

    ours = {re.sub(r"{\w+}", "*", each.template) for each in ENDPOINTS if version in each.versions} & set(PATHS)

    ever = {re.sub(r"{\w+}", "*", template) for template in known}
    assert ever <= PATHS.keys()
    assert ours == {path for path, versions in PATHS.items() if path in ever and version in versions.split()}


@pytest.mark.parametrize(
    ("version", "path", "status", "part"),
    [
        ("4.2", "/health/checks/is-in-service", 200, {"status": "ok"}),
        ("4.2", "/health/checks/ready-to-serve-clients", 200, {"status": "ok"}),
        ("4.2", "/health/checks/metadata-store/initialized/with-data", 200, {"status": "ok"}),
        ("4.2", "/health/checks/quorum-queues-without-elected-leaders/vhost/%2F", 200, {"status": "ok"}),
        ("4.2", "/health/checks/protocol-listener/amqp,http", 200, {"protocols": ["amqp", "http"]}),
        ("4.2", "/auth", 404, {}),
        ("4.2", "/overview", 200, {"is_op_policy_updating_enabled": True}),
        ("3.13", "/deprecated-features/used", 200, None),
        ("3.13", "/queues/detailed", 200, None),
        ("3.13", "/health/checks/is-in-service", 404, {}),
        ("3.13", "/nodes/rabbit@leveret", 200, {"being_drained": False}),
        ("3.10", "/queues/detailed", 404, {}),
    ],
)
def test_a_profile_without_a_server_answers_as_its_source_says(
    version: RabbitMQVersion, path: str, status: int, part: dict[str, object] | None
) -> None:
    with Broker(rabbitmq=version, management=True) as broker:
        answered, body = ask(management_of(broker), "GET", path)

    assert answered == status
    assert part is None or (isinstance(body, dict) and part.items() <= body.items())


def test_the_deprecated_features_of_3_13_are_those_of_its_source() -> None:
    with Broker(rabbitmq="3.13", management=True) as broker:
        _, body = ask(management_of(broker), "GET", "/deprecated-features")

    assert {item["name"]: item["deprecation_phase"] for item in body} == dict.fromkeys(
        (
            *("classic_queue_mirroring", "global_qos", "management_metrics_collection", "ram_node_type"),
            "transient_nonexcl_queues",
        ),
        "permitted_by_default",
    )
