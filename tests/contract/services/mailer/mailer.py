"""Sends mails that other services ask for. A consumer with aio-pika; what cannot be sent goes to a parking queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

TEMPLATES = {
    "welcome": "Hello {name}, welcome to {shop}.",
    "shipped": "Hello {name}, your parcel {parcel} is on its way.",
}


@dataclass
class Mail:
    """A mail, ready to send."""

    to: str
    subject: str
    text: str
    reply_to: str | None = None
    is_urgent: bool = False


Send = Callable[[Mail], Awaitable[None]]


def mail_of(request: dict) -> Mail:
    """Return the mail that a request asks for."""
    recipient = request["recipient"]
    text = TEMPLATES[request["template"]].format(name=recipient["name"], **request["values"])
    address = recipient["address"]
    if "@" not in address:
        raise ValueError(f"{address!r} is no address")
    return Mail(
        to=address,
        subject=request.get("subject") or request["template"].capitalize(),
        text=text,
        reply_to=request.get("reply_to"),
        is_urgent=request.get("priority") == "high",
    )


class Mailer:
    """The service."""

    def __init__(self, url: str, send: Send) -> None:
        self._url = url
        self._send = send

    async def __aenter__(self) -> Mailer:
        self._connection = await aio_pika.connect(self._url, client_properties={"connection_name": "mailer"})
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=5)
        await channel.declare_queue("mails.parked", durable=True)
        queue = await channel.declare_queue(
            "mails",
            durable=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "mails.parked"},
        )
        self._exchange = channel.default_exchange
        await queue.consume(self._on_request)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connection.close()

    async def _on_request(self, message: AbstractIncomingMessage) -> None:
        async with message.process(requeue=False):
            request = json.loads(message.body)
            await asyncio.wait_for(self._send(mail_of(request)), 5)
            sent = {"request_id": request["request_id"], "status": "sent"}
            await self._exchange.publish(aio_pika.Message(json.dumps(sent).encode()), "mails.log")
