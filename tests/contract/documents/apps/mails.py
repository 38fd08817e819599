"""A mailer: a fanout and a headers exchange, texts, bytes, maps, and an answer that may be nothing."""

from __future__ import annotations

from datetime import date, timedelta

from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import AnyUrl, BaseModel, Field

broker = RabbitBroker()
signups = RabbitExchange("signups", ExchangeType.FANOUT)
mails = RabbitExchange("mails", ExchangeType.HEADERS)


class SignUp(BaseModel):
    """A user who has signed up."""

    user: int
    born: date | None = None
    home: AnyUrl | None = None
    wait: timedelta = timedelta(0)
    settings: dict[str, bool] = Field(default_factory=dict)


@broker.publisher("welcomed", schema=int | None)
@broker.subscriber(RabbitQueue("mailer"), signups)
async def welcome(user: SignUp) -> int | None:
    """Welcome a user."""
    return user.user or None


@broker.subscriber(RabbitQueue("texts"), mails)
async def text(body: str) -> None:
    """Send a text."""


@broker.subscriber("files")
async def attach(body: bytes) -> None:
    """Keep a file."""


@broker.subscriber("counts")
async def count(counts: dict[str, int]) -> None:
    """Keep counts."""
