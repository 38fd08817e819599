"""The tests of the service aio_mails."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel
from mails import Worker, ask, declare


class Server:
    def __init__(self) -> None:
        self.failures = 0
        self.sent: list[str] = []

    async def send(self, to: str, text: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.sent.append(text)


@pytest.fixture
async def web(leveret) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(leveret.url, client_properties={"connection_name": "web"}) as connection:
        channel = await connection.channel()
        await declare(channel)
        yield channel


@pytest.fixture(autouse=True)
async def server(leveret) -> AsyncIterator[Server]:
    server = Server()
    async with await aio_pika.connect(leveret.url, client_properties={"connection_name": "mailer"}) as connection:
        await Worker(await connection.channel(), server.send).start()
        yield server


@pytest.mark.parametrize("urgent", [True, False])
async def test_a_mail_is_sent(leveret, web: AbstractChannel, server: Server, urgent: bool) -> None:
    await ask(web, "ada@example.com", "Hello {name}", {"name": "Ada"}, urgent=urgent)

    await leveret.aio.assert_acked("mails", timeout=5)
    assert server.sent == ["Hello Ada"]


async def test_a_mail_that_cannot_be_sent_is_sent_later(leveret, web: AbstractChannel, server: Server) -> None:
    server.failures = 1
    leveret.clock.hold()
    await ask(web, "ada@example.com", "Order {order} is paid", {"order": "17"})
    await leveret.aio.assert_acked("mails", timeout=5)
    await leveret.aio.clock.advance(seconds=30)

    await leveret.aio.assert_acked("mails", times=2, timeout=5)
    assert server.sent == ["Order 17 is paid"]


async def test_a_mail_that_never_goes_out_is_dropped(leveret, web: AbstractChannel, server: Server) -> None:
    server.failures = 1
    message = aio_pika.Message(
        b'{"to": "x", "template": "y", "values": {}}', headers={"attempt": 3}, type="mail.wanted"
    )
    await web.default_exchange.publish(message, "mails")

    await leveret.aio.assert_dropped("mails", timeout=5)
    assert server.sent == []
