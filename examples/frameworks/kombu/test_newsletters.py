"""The worker in a thread of its own, on the broker of each test."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest
from kombu import Connection
from kombu.utils.limits import TokenBucket
from newsletters import MailServerDownError, Worker, send_newsletter

from leveret import Broker


class MailServer:
    """A stand-in for the mail server: it is down for `down_count` letters, and sends the rest."""

    def __init__(self) -> None:
        self.down_count = 0
        self.sent: list[str] = []

    def send(self, address: str) -> None:
        if self.down_count:
            self.down_count -= 1
            raise MailServerDownError
        self.sent.append(address)


@pytest.fixture
def mail_server() -> MailServer:
    return MailServer()


@pytest.fixture(autouse=True)
def worker(leveret: Broker, mail_server: MailServer) -> Iterator[Worker]:
    with Connection(leveret.url, transport_options={"confirm_publish": True}) as connection:
        worker = Worker(connection, mail_server.send)
        # By default, kombu waits up to a second before it connects again, and before it looks at `should_stop`.
        worker.restart_limit = TokenBucket(100)
        thread = Thread(target=worker.run, kwargs={"safety_interval": 0.01})
        thread.start()
        leveret.wait_for_consumer("letters")
        yield worker
        worker.should_stop = True
        thread.join()


def test_a_letter_is_sent_once(leveret: Broker, mail_server: MailServer) -> None:
    send_newsletter(leveret.url, ["ann@example.com"])
    leveret.wait_idle()

    assert mail_server.sent == ["ann@example.com"]
    leveret.assert_published("newsletters", routing_key="letter.*", json={"to": "ann@example.com"}, times=1)
    leveret.assert_acked("letters", times=1)


def test_a_letter_waits_for_five_minutes_if_the_mail_server_is_down(leveret: Broker, mail_server: MailServer) -> None:
    mail_server.down_count = 1
    leveret.clock.hold()

    send_newsletter(leveret.url, ["bob@example.com"])
    leveret.assert_acked("letters", timeout=5)
    leveret.clock.advance(minutes=4)
    assert mail_server.sent == []
    leveret.clock.advance(minutes=1)

    assert mail_server.sent == ["bob@example.com"]
    leveret.assert_dead_lettered("letters.later", to="letters", reason="expired", times=1)


def test_a_letter_without_an_address_is_set_aside(leveret: Broker, mail_server: MailServer) -> None:
    leveret.publish("newsletters", "letter.weekly", json={"subject": "hello"})
    send_newsletter(leveret.url, ["ann@example.com"])
    leveret.wait_idle()

    assert mail_server.sent == ["ann@example.com"]
    leveret.assert_dead_lettered("letters", to="letters.failed", reason="rejected", json={"subject": "hello"})


def test_the_worker_consumes_again_after_a_restart(leveret: Broker, mail_server: MailServer) -> None:
    leveret.restart()
    leveret.wait_for_consumer("letters")

    send_newsletter(leveret.url, ["ann@example.com"])
    leveret.wait_idle()

    assert mail_server.sent == ["ann@example.com"]


def test_a_letter_is_sent_again_if_the_connection_is_lost_before_its_ack(
    leveret: Broker, mail_server: MailServer
) -> None:
    leveret.faults.reset_peer(on="basic.ack")

    send_newsletter(leveret.url, ["ann@example.com"])
    leveret.assert_acked("letters", redelivered=True, timeout=10)

    assert mail_server.sent == ["ann@example.com"] * 2
