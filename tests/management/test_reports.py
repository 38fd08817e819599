"""What requests did, in the report of a failure."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import pytest

from leveret import Broker


def test_a_failure_names_the_request_that_published() -> None:
    body = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    with Broker(management=True) as broker:
        broker.declare_queue("q")
        request = Request(
            f"{broker.management_url}/api/exchanges/%2F/amq.default/publish",
            json.dumps(body).encode(),
            {"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "content-type": "application/json"},
        )
        urlopen(request).close()

        with pytest.raises(AssertionError) as failed:
            broker.assert_acked("q")

    assert "from the test at POST /api/exchanges/%2F/amq.default/publish" in str(failed.value)
