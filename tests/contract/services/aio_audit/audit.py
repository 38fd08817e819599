"""The audit: it keeps what other services do, with aio-pika and an exchange that routes by headers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage


class Journal:
    """Records acts. What is secret goes to a queue of its own."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel

    async def open(self) -> None:
        """Declare the exchange."""
        self._acts = await self._channel.declare_exchange("acts", aio_pika.ExchangeType.HEADERS, durable=True)

    async def record(self, actor: str, action: str, subject: dict[str, Any], *, secret: bool = False) -> None:
        """Record an act."""
        body = {
            "actor": actor,
            "action": action,
            "subject": subject,
            "at": datetime.now(UTC).isoformat(),
            "changes": [{"field": name, "value": value} for name, value in subject.items()],
        }
        message = aio_pika.Message(
            json.dumps(body).encode(),
            content_type="application/json",
            headers={"level": "secret" if secret else "public", "system": "shop"},
            timestamp=datetime.now(UTC),
        )
        await self._acts.publish(message, "")


class Audit:
    """Keeps acts."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel
        self.kept: list[dict[str, Any]] = []

    async def start(self) -> None:
        """Begin to keep."""
        acts = await self._channel.declare_exchange("acts", aio_pika.ExchangeType.HEADERS, durable=True)
        for level in ("public", "secret"):
            queue = await self._channel.declare_queue(f"audit.{level}", durable=True)
            await queue.bind(acts, arguments={"x-match": "all", "level": level})
            await queue.consume(self._on_act)

    async def _on_act(self, message: AbstractIncomingMessage) -> None:
        async with message.process():
            self.kept.append(json.loads(message.body))
