"""nameko's services in the process of the test: they run in green threads, beside a broker with a real thread.

eventlet must patch the process before pytest imports anything else: `nameko test examples/nameko_shop` does that. In
any other run these tests are skipped. They cannot run beside trio, which fails to import in a patched process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from leveret import Broker


def is_patched() -> bool:
    """Return whether eventlet has patched this process, without importing it."""
    return "eventlet" in sys.modules and bool(sys.modules["eventlet"].patcher.is_monkey_patched("socket"))


pytestmark = pytest.mark.skipif(not is_patched(), reason="needs eventlet's patches: nameko test examples/nameko_shop")


@pytest.fixture
def shop(leveret: Broker) -> Iterator[Any]:
    """Run the services, and give a client that calls them by name."""
    from nameko.runners import ServiceRunner
    from nameko.standalone.rpc import ClusterRpcProxy

    from examples.nameko_shop.shop import Mails, Orders, Prices

    config = {"AMQP_URI": leveret.url}
    runner = ServiceRunner(config)
    for service in (Prices, Orders, Mails):
        runner.add_service(service)
    runner.start()
    with ClusterRpcProxy(config, timeout=10) as shop:
        yield shop
    # `stop` would wait for the services' own loops, which look up once a second.
    runner.kill()


def test_an_order_is_placed_and_a_mail_is_sent(leveret: Broker, shop: Any) -> None:
    assert shop.orders.place("tea", 3) == 12

    leveret.assert_published("orders.events", routing_key="placed", json={"article": "tea", "total": 12})
    leveret.wait_idle()
    leveret.assert_acked("evt-orders-placed--mails.on_placed", json={"article": "tea", "total": 12})


def test_an_unknown_article_is_an_error_of_the_caller(leveret: Broker, shop: Any) -> None:
    from nameko.exceptions import RemoteError

    with pytest.raises(RemoteError, match="no article 'coffee'"):
        shop.orders.place("coffee", 1)

    leveret.assert_not_published("orders.events")


def test_a_price_is_asked_for_once(leveret: Broker, shop: Any) -> None:
    shop.orders.place("milk", 2)

    request = leveret.assert_acked("rpc-prices", times=1, timeout=5)[0]
    leveret.assert_published(correlation_id=request.correlation_id, json={"result": 1, "error": None})
