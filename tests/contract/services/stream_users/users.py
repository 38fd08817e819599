"""The users, with FastStream: sign-ups become welcome messages, and a deletion takes everything of a user away."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from uuid import UUID, uuid4

from faststream import FastStream, Header
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from pydantic import BaseModel, Field

broker = RabbitBroker(os.environ["AMQP_URL"], reconnect_interval=0.5)
app = FastStream(broker)
users = RabbitExchange("users", ExchangeType.DIRECT, durable=True)


class SignUp(BaseModel):
    """A person who signs up."""

    name: str
    email: str
    password: str
    age: int | None = None


class Welcome(BaseModel):
    """What the mailer is to send."""

    user: UUID = Field(default_factory=uuid4)
    email: str
    language: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))


known: dict[str, UUID] = {}


@broker.subscriber(RabbitQueue("signups", durable=True, arguments={"x-message-ttl": 60_000}), users)
@broker.publisher("welcome", users, persist=True)
async def sign_up(person: SignUp, language: str = Header("language", default="en")) -> Welcome:
    """Sign a person up."""
    welcome = Welcome(email=person.email, language=language)
    known[person.email] = welcome.user
    return welcome


@broker.subscriber(RabbitQueue("deletions", durable=True), users)
async def delete(user: UUID) -> None:
    """Delete a user."""
    email = next((email for email, number in known.items() if number == user), None)
    if email is not None:
        del known[email]


async def ask_to_sign_up(name: str, email: str, password: str, *, language: str | None = None) -> None:
    """Ask to sign a person up, as the website does."""
    headers = {} if language is None else {"language": language}
    await broker.publish(
        SignUp(name=name, email=email, password=password), "signups", users, headers=headers, message_type="SignUp"
    )
