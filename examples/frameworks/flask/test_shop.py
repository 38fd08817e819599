"""Requests and the command `mails`, on the broker whose URL leveret has put into the environment."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import shop

from leveret import Broker


class MailServer:
    """A stand-in for the mail server: it is up or down, and records to whom it sent."""

    def __init__(self) -> None:
        self.is_up = True
        self.sent: list[object] = []

    def send(self, order: dict[str, object]) -> None:
        if not self.is_up:
            raise ConnectionError
        self.sent.append(order["customer"])


@pytest.fixture
def mail_server(monkeypatch: pytest.MonkeyPatch) -> MailServer:
    mail_server = MailServer()
    monkeypatch.setitem(shop.app.config, "SEND_MAIL", mail_server.send)
    return mail_server


@pytest.fixture(autouse=True)
def broker(leveret_session: Broker) -> Iterator[Broker]:
    """The broker at the URL that the application has read, emptied for each test."""
    leveret_session.reset()
    return leveret_session


def place_order(customer: str) -> int:
    return shop.app.test_client().post("/orders", json={"customer": customer}).status_code


def send_mails() -> None:
    shop.app.test_cli_runner().invoke(args=["mails"], catch_exceptions=False)


def test_an_order_is_published_and_its_mail_is_sent(broker: Broker, mail_server: MailServer) -> None:
    assert place_order("ann") == 202
    send_mails()

    broker.assert_published("shop", routing_key="order.placed", json={"customer": "ann"}, times=1)
    assert mail_server.sent == ["ann"]
    broker.assert_empty("mails")


def test_a_mail_is_sent_ten_minutes_later_if_the_mail_server_is_down(broker: Broker, mail_server: MailServer) -> None:
    mail_server.is_up = False
    place_order("ann")
    broker.clock.hold()
    send_mails()
    mail_server.is_up = True

    broker.clock.advance(minutes=9)
    send_mails()
    assert mail_server.sent == []
    broker.clock.advance(minutes=1)
    send_mails()

    assert mail_server.sent == ["ann"]


def test_an_order_without_a_customer_is_acknowledged_and_logged(
    broker: Broker, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    shop.app.test_client().post("/orders", json={"article": "tea"})
    place_order("bob")
    with caplog.at_level(logging.ERROR):
        send_mails()

    assert mail_server.sent == ["bob"]
    assert "skipped a mail that cannot be sent" in caplog.text
    broker.assert_acked("mails", json={"article": "tea"})


def test_a_request_says_so_if_the_confirm_is_lost_with_the_connection(broker: Broker) -> None:
    broker.faults.reset_peer(on="basic.publish", when="after")

    assert place_order("ann") == 503

    # The broker has the order all the same: a customer who tries again must not get two parcels.
    broker.assert_published("shop", json={"customer": "ann"}, times=1)


def test_a_request_says_so_if_the_broker_refuses_connections(broker: Broker) -> None:
    with broker.faults.refuse_connections():
        assert place_order("ann") == 503

    assert place_order("ann") == 202
