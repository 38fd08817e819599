"""A vet that takes in pets: alternatives that a field tells apart, handlers with filters, pairs, a virtual host."""

from __future__ import annotations

from typing import Annotated, Literal

from faststream import Path
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue
from pydantic import BaseModel, Field

broker = RabbitBroker("amqp://guest:guest@localhost:5672/vet")
logs = RabbitExchange("logs", ExchangeType.TOPIC)
delayed = RabbitExchange("delayed", ExchangeType.X_DELAYED_MESSAGE)


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]
    age: float


class Cage(BaseModel):
    """A cage with a pet, and perhaps cages within it."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    size: tuple[int, int]
    tags: set[str] = Field(default_factory=set, max_length=5)
    within: list[Cage] = Field(default_factory=list)


class Owner(BaseModel):
    """An owner."""

    name: str


def is_json(message: RabbitMessage) -> bool:
    """Return whether a message says that it is JSON."""
    return message.content_type == "application/json"


arrivals = broker.subscriber("arrivals")


@arrivals(filter=is_json)
async def arrive(owner: Owner) -> None:
    """Take in an owner."""


@arrivals
async def call(owner: dict[str, str]) -> None:
    """Take in what is no owner."""


@broker.subscriber("pets")
async def examine(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None:
    """Examine a pet."""


@broker.subscriber("cages", delayed)
async def clean(cage: Cage) -> None:
    """Clean a cage."""


@broker.subscriber(RabbitQueue("logs", routing_key="logs.{level}"), logs)
async def log(text: str, level: str = Path()) -> None:
    """Keep a line."""


@broker.subscriber("tick")
async def tick() -> None:
    """Wake up."""


@broker.subscriber("anything")
async def keep(message) -> None:  # type: ignore[no-untyped-def]
    """Keep a message."""
