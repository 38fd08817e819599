"""The view of a message: what a test may see of one, wherever it was found.

Messages do not change once published, so a view keeps the message itself and decodes body and headers when they are
looked at. It knows nothing of queues and channels but what it was given.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.observe.hinting import Hinting
from leveret.observe.state import client_text, holder_text
from leveret.trace.events import preview

if TYPE_CHECKING:
    from leveret.core.model.message import Message, QueueEntry
    from leveret.core.protocol.connection import Connection
    from leveret.core.protocol.delivery import Delivery

T = TypeVar("T")

_SHOWN_PROPERTIES: Final = tuple(name for name in PROPERTY_NAMES if name not in ("headers", "delivery_mode"))


class _Property(Generic[T]):
    """A basic property of the viewed message, None when it has none."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type[MessageView], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, view: None, owner: type[MessageView]) -> _Property[T]: ...
    @overload
    def __get__(self, view: MessageView, owner: type[MessageView]) -> T | None: ...
    def __get__(self, view: MessageView | None, owner: type[MessageView]) -> _Property[T] | T | None:
        if view is None:
            return self
        value: T | None = getattr(view.source.properties, self._name)
        return value


@dataclass(frozen=True, slots=True)
class DeathView(Hinting):
    """One entry of a message's x-death: it died `count` times in `queue` for `reason`."""

    _called = "a DeathView"

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    # Seconds since the epoch, of the first of these deaths.
    time: int
    original_expiration: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class MessageView(Hinting):
    """This message, and its place in a queue when it was found in one."""

    _called = "a MessageView"

    source: Message
    redelivered: bool = False
    # Failed deliveries before, as quorum queues count them.
    delivery_count: int = 0
    enqueued_at: int | None = None
    expires_at: int | None = None
    # Of an unacked one: who holds it, and since when.
    consumer_tag: str | None = None
    connection: str | None = None
    delivered_at: int | None = None

    content_type = _Property[str]()
    content_encoding = _Property[str]()
    delivery_mode = _Property[int]()
    priority = _Property[int]()
    correlation_id = _Property[str]()
    reply_to = _Property[str]()
    expiration = _Property[str]()
    message_id = _Property[str]()
    timestamp = _Property[int]()
    type = _Property[str]()
    user_id = _Property[str]()
    app_id = _Property[str]()
    cluster_id = _Property[str]()

    @classmethod
    def of_entry(cls, entry: QueueEntry) -> MessageView:
        """A message in a queue."""
        return cls(
            entry.message,
            redelivered=entry.redelivered,
            delivery_count=entry.delivery_count,
            enqueued_at=entry.enqueued_at,
            expires_at=entry.expires_at,
        )

    @classmethod
    def of_delivery(cls, delivery: Delivery, connection: Connection) -> MessageView:
        """A message that a client holds."""
        entry = delivery.entry
        return cls(
            entry.message,
            redelivered=entry.redelivered,
            delivery_count=entry.delivery_count,
            enqueued_at=entry.enqueued_at,
            expires_at=entry.expires_at,
            consumer_tag=delivery.consumer.tag if delivery.consumer else None,
            connection=client_text(connection),
            delivered_at=delivery.delivered_at,
        )

    @property
    def exchange(self) -> str:
        """The exchange it was published to, or dead-lettered to."""
        return self.source.exchange

    @property
    def routing_key(self) -> str:
        """The routing key it came with."""
        return self.source.routing_key

    @property
    def body(self) -> bytes:
        """Its content."""
        return self.source.body

    @property
    def text(self) -> str:
        """The body as UTF-8 text; raises ValueError when it is not."""
        try:
            return self.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"the body of this message is not UTF-8 text: {preview(self.body)}") from error

    @property
    def json(self) -> Any:
        """The body read as JSON; raises ValueError when it is not."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ValueError(f"the body of this message is not JSON: {preview(self.body)} ({error})") from error

    @property
    def headers(self) -> dict[str, Any]:
        """The headers as Python values, empty when there are none."""
        table = self.source.headers
        return {} if table is None else table.to_python()

    @property
    def properties(self) -> dict[str, object]:
        """The basic properties that are set, by name."""
        return self.source.properties.to_python()

    @property
    def deaths(self) -> tuple[DeathView, ...]:
        """Where and why it was dead-lettered, the last death first; empty for one that was not."""
        return tuple(
            DeathView(
                queue=death.queue,
                reason=death.reason,
                count=death.death_count,
                exchange=death.exchange,
                routing_keys=death.routing_keys,
                time=death.time_s,
                original_expiration=death.original_expiration,
            )
            for death in self.source.deaths
        )

    def __repr__(self) -> str:
        parts = [f"exchange={self.exchange!r} routing_key={self.routing_key!r} body={preview(self.body)}"]
        parts += [f"{name}={value!r}" for name in _SHOWN_PROPERTIES if (value := getattr(self, name)) is not None]
        headers = {name: value for name, value in self.headers.items() if not name.startswith(_DEATH_HEADERS)}
        parts += [f"headers={headers!r}"] if headers else []
        parts += [f"died in {death.queue!r} ({death.reason}) x{death.count}" for death in self.deaths]
        parts += ["redelivered"] if self.redelivered else []
        parts += [f"held by {holder_text(self.consumer_tag, self.connection)}"] if self.connection is not None else []
        return f"<Message {' '.join(parts)}>"


# Shown as deaths instead.
_DEATH_HEADERS: Final = ("x-death", "x-first-death-", "x-last-death-")
