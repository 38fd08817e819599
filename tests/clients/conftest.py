"""One broker per test for the suites of real client libraries: leveret, or a RabbitMQ to compare with.

A suite knows its broker only by `broker_url`, so no test can depend on which broker that is. Normally it is a fresh
leveret. With `LEVERET_TARGET=oracle` and `LEVERET_ORACLES=4.3=amqp://guest:guest@127.0.0.1:5643/` it is a fresh
virtual host on that RabbitMQ. The virtual host is created and removed through the management API, whose port is the
AMQP port + 10000.

Every wait of a client ends after `PATIENCE` seconds. If a broker falls silent, its test fails and the run goes on.
"""

import base64
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import pytest

PATIENCE = 30


@pytest.fixture
def patience() -> int:
    """The number of seconds for which a client waits for something that must arrive."""
    return PATIENCE


@pytest.fixture
def broker_url() -> Iterator[str]:
    """The URL of an empty broker that only this test uses."""
    if os.environ.get("LEVERET_TARGET") == "oracle":
        with virtual_host_of_oracle() as url:
            yield url
    else:
        from leveret import Broker

        # The clients' own defaults (durable=False, exclusive=False) are denied by 4.3 unless they are permitted.
        with Broker(permit={"transient_nonexcl_queues"}) as broker:
            yield broker.url


@pytest.fixture
def make_broker():
    """leveret's Broker class, for tests that need the broker object itself; on a RabbitMQ they are skipped."""
    if os.environ.get("LEVERET_TARGET") == "oracle":
        pytest.skip("this takes hold of the broker itself")
    from leveret import Broker

    return Broker


@contextmanager
def virtual_host_of_oracle() -> Iterator[str]:
    oracles = dict(entry.split("=", 1) for entry in os.environ["LEVERET_ORACLES"].split(","))
    oracle = urlsplit(oracles.get("4.3") or next(iter(oracles.values())))
    vhost = f"clients-{uuid.uuid4().hex}"
    manage(oracle, "PUT", f"vhosts/{vhost}")
    manage(oracle, "PUT", f"permissions/{vhost}/{oracle.username}", configure=".*", write=".*", read=".*")
    try:
        yield oracle._replace(path=f"/{vhost}").geturl()
    finally:
        manage(oracle, "DELETE", f"vhosts/{vhost}")


def manage(oracle, verb: str, path: str, **body: str) -> None:
    credentials = base64.b64encode(f"{oracle.username}:{oracle.password}".encode()).decode()
    request = Request(
        f"http://{oracle.hostname}:{oracle.port + 10000}/api/{quote(path)}",
        method=verb,
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Basic {credentials}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=PATIENCE):
        pass
