"""Mails: a worker that sends mails, with aio-pika. A mail that cannot be sent comes back after half a minute."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

RETRY_AFTER_MS = 30_000
Send = Callable[[str, str], Awaitable[None]]


async def declare(channel: AbstractChannel) -> None:
    """Declare the queue of the mails, and the one where they wait."""
    await channel.declare_queue("mails", durable=True, arguments={"x-max-priority": 5})
    await channel.declare_queue(
        "mails.retry",
        durable=True,
        arguments={
            "x-message-ttl": RETRY_AFTER_MS,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "mails",
        },
    )


async def ask(
    channel: AbstractChannel, to: str, template: str, values: dict[str, str], *, urgent: bool = False
) -> None:
    """Ask for a mail."""
    mail = {"to": to, "template": template, "values": values}
    message = aio_pika.Message(
        json.dumps(mail).encode(),
        content_type="application/json",
        priority=5 if urgent else 1,
        headers={"attempt": 1},
        type="mail.wanted",
    )
    await channel.default_exchange.publish(message, "mails")


class Worker:
    """Sends mails."""

    def __init__(self, channel: AbstractChannel, send: Send) -> None:
        self._channel = channel
        self._send = send

    async def start(self) -> None:
        """Begin to work."""
        await declare(self._channel)
        queue = await self._channel.get_queue("mails")
        await queue.consume(self._on_mail)

    async def _on_mail(self, message: AbstractIncomingMessage) -> None:
        mail = json.loads(message.body)
        try:
            await self._send(mail["to"], mail["template"].format(**mail["values"]))
        except ConnectionError:
            attempt = int(str(message.headers.get("attempt", 1)))
            if attempt == 3:
                await message.reject(requeue=False)
                return
            again = aio_pika.Message(
                message.body,
                content_type=message.content_type,
                priority=message.priority,
                headers={"attempt": attempt + 1},
                type=message.type,
            )
            await self._channel.default_exchange.publish(again, "mails.retry")
        await message.ack()
