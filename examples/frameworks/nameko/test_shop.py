"""nameko's services in the process of the test: they run in green threads, beside a broker with a real thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import shop
from nameko.exceptions import RemoteError
from nameko.runners import ServiceRunner
from nameko.standalone.rpc import ClusterRpcProxy

from leveret import Broker


class MailServer:
    """A stand-in for the mail server: it is up or down, and records what it sent."""

    def __init__(self) -> None:
        self.is_up = True
        self.sent: list[str] = []

    def send(self, order: dict[str, Any]) -> None:
        if not self.is_up:
            raise ConnectionError
        self.sent.append(order["article"])


@pytest.fixture(autouse=True)
def mail_server(monkeypatch: pytest.MonkeyPatch) -> MailServer:
    mail_server = MailServer()
    monkeypatch.setattr(shop, "send_mail", mail_server.send)
    return mail_server


@pytest.fixture
def config(leveret: Broker) -> Iterator[dict[str, str]]:
    """Run the services, and give the configuration of a client."""
    config = {"AMQP_URI": leveret.url}
    runner = ServiceRunner(config)
    for service in (shop.Prices, shop.Orders, shop.Mails):
        runner.add_service(service)
    runner.start()
    yield config
    # `stop` would wait for the services' loops, which check only once a second whether they must end.
    runner.kill()


@pytest.fixture
def services(config: dict[str, str]) -> Iterator[Any]:
    """A client that calls the services by name."""
    with ClusterRpcProxy(config, timeout=10) as services:
        yield services


def test_an_order_is_placed_and_a_mail_is_sent(leveret: Broker, services: Any, mail_server: MailServer) -> None:
    assert services.orders.place("tea", 3) == 12
    leveret.wait_idle()

    leveret.assert_published("orders.events", routing_key="placed", json={"article": "tea", "total": 12}, times=1)
    assert mail_server.sent == ["tea"]


def test_an_unknown_article_is_an_error_of_the_caller(leveret: Broker, services: Any) -> None:
    with pytest.raises(RemoteError, match="no article 'coffee'"):
        services.orders.place("coffee", 1)

    leveret.assert_not_published("orders.events")


def test_a_mail_is_sent_five_minutes_later_if_the_mail_server_is_down(
    leveret: Broker, services: Any, mail_server: MailServer
) -> None:
    mail_server.is_up = False
    leveret.clock.hold()

    services.orders.place("tea", 3)
    leveret.assert_acked(shop.PLACED, timeout=5)
    mail_server.is_up = True
    leveret.clock.advance(minutes=4)
    assert mail_server.sent == []
    leveret.clock.advance(minutes=1)

    assert mail_server.sent == ["tea"]
    leveret.assert_dead_lettered("mails.later", to=shop.PLACED, reason="expired", times=1)


@pytest.mark.usefixtures("services")
def test_an_event_that_is_not_an_order_is_set_aside(leveret: Broker, mail_server: MailServer) -> None:
    leveret.publish("orders.events", "placed", json={"total": 12})
    leveret.publish("orders.events", "placed", json={"article": "milk", "total": 1})
    leveret.wait_idle()

    assert mail_server.sent == ["milk"]
    assert [message.json for message in leveret.queue("mails.failed").ready] == [{"total": 12}]


def test_the_services_consume_again_after_a_restart(
    leveret: Broker, config: dict[str, str], mail_server: MailServer
) -> None:
    leveret.restart()
    for queue in ("rpc-prices", "rpc-orders", shop.PLACED):
        leveret.wait_for_consumer(queue, timeout=10)

    with ClusterRpcProxy(config, timeout=10) as services:
        assert services.orders.place("tea", 3) == 12
    leveret.wait_idle()

    assert mail_server.sent == ["tea"]
