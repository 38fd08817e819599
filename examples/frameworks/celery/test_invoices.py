"""A task that Celery retries by itself, with the broker's clock as the clock of the worker."""

from __future__ import annotations

from collections.abc import Iterator

import invoices
import pytest
from pytest_leveret.celery import running_worker

from leveret import Broker


@pytest.fixture
def broker(leveret_session: Broker) -> Iterator[Broker]:
    leveret_session.reset()
    with running_worker(invoices.app, broker=leveret_session):
        yield leveret_session


def test_an_invoice_is_sent(broker: Broker) -> None:
    invoices.send.delay(7)

    broker.assert_acked("invoices", headers={"task": "invoices.send"}, times=1, timeout=5)


class MailServer:
    """A stand-in for the mail server: it is away for the first `failures_left` invoices, and records all tries."""

    def __init__(self, broker: Broker) -> None:
        self.failures_left = 0
        self.sent: list[int] = []
        self.tried_at: list[float] = []
        self._broker = broker

    def mail(self, number: int) -> None:
        self.tried_at.append(self._broker.clock.now)
        if self.failures_left:
            self.failures_left -= 1
            raise ConnectionError("the mail server is away")
        self.sent.append(number)


@pytest.fixture
def mail_server(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> MailServer:
    mail_server = MailServer(broker)
    monkeypatch.setattr(invoices, "mail", mail_server.mail)
    return mail_server


def test_an_invoice_is_sent_again_after_a_quarter_of_an_hour(broker: Broker, mail_server: MailServer) -> None:
    mail_server.failures_left = 1
    broker.clock.hold()

    invoices.send.delay(7)
    broker.assert_published("", routing_key="invoices", headers={"retries": 1}, timeout=5)
    broker.clock.advance(minutes=14)
    assert mail_server.sent == []
    broker.clock.advance(minutes=1)

    assert mail_server.sent == [7]


def test_an_invoice_is_given_up_after_three_retries(broker: Broker, mail_server: MailServer) -> None:
    mail_server.failures_left = 100

    with broker.clock.autojump():
        invoices.send.delay(7)
        broker.assert_acked("invoices", headers={"retries": 3}, timeout=5)

    assert mail_server.failures_left == 96


def test_retries_within_a_long_step_keep_their_distance(broker: Broker, mail_server: MailServer) -> None:
    mail_server.failures_left = 3
    broker.clock.hold()

    invoices.send.delay(7)
    broker.assert_published("", routing_key="invoices", headers={"retries": 1}, timeout=5)
    broker.clock.advance(hours=3)

    begun_at = mail_server.tried_at[0]
    assert [round(at - begun_at) for at in mail_server.tried_at] == [0, 900, 1800, 2700]
    assert mail_server.sent == [7]
