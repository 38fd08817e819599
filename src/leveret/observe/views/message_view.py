"""The view of a message: what a test can read of a message, wherever it found it.

A published message does not change, so a view keeps the message itself and decodes body and headers on access. It knows
of queues and channels only what its creator passes in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, overload

from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.delivery import Delivery
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.observe.calls.hinting import Hinting
from leveret.observe.texts.state import client_text, holder_text
from leveret.trace.events import preview

T = TypeVar("T")

_SHOWN_PROPERTIES: Final = tuple(name for name in PROPERTY_NAMES if name not in ("headers", "delivery_mode"))


class _Property(Generic[T]):
    """A basic property of the viewed message, None if the message does not have it."""

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
    """One entry of a message's x-death: the message died `count` times in `queue` for `reason`."""

    queue: str
    reason: str
    count: int
    exchange: str
    routing_keys: tuple[str, ...]
    # The first of these deaths, in seconds since the epoch.
    time: int
    original_expiration: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class MessageView(Hinting):
    """A frozen view of a message, with its place in a queue if it was found in one."""

    source: Message
    redelivered: bool = False
    # Failed deliveries so far, as quorum queues count them.
    delivery_count: int = 0
    enqueued_at: int | None = None
    expires_at: int | None = None
    # For an unacked message: who holds it, and since when.
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

    @property
    def exchange(self) -> str:
        """The exchange the message was published or dead-lettered to."""
        return self.source.exchange

    @property
    def routing_key(self) -> str:
        """The routing key of the message."""
        return self.source.routing_key

    @property
    def body(self) -> bytes:
        """The body of the message."""
        return self.source.body

    @property
    def text(self) -> str:
        """The body decoded as UTF-8. Raises ValueError if it is not UTF-8."""
        try:
            return self.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"the body of this message is not UTF-8 text: {preview(self.body)}") from error

    @property
    def json(self) -> Any:
        """The body parsed as JSON. Raises ValueError if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the body of this message is not JSON: {preview(self.body)} ({error})") from error

    @property
    def headers(self) -> dict[str, Any]:
        """The headers as Python values, empty if the message has none."""
        table = self.source.headers
        return {} if table is None else table.to_python()

    @property
    def properties(self) -> dict[str, object]:
        """The basic properties that are set, by name."""
        return self.source.properties.to_python()

    @property
    def deaths(self) -> tuple[DeathView, ...]:
        """Where and why the message was dead-lettered, the latest death first; empty if it never was."""
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
        headers = {name: value for name, value in self.headers.items() if not name.startswith(DEATH_HEADERS)}
        parts += [f"headers={headers!r}"] if headers else []
        parts += [f"died in {death.queue!r} ({death.reason}) x{death.count}" for death in self.deaths]
        parts += ["redelivered"] if self.redelivered else []
        parts += [f"held by {holder_text(self.consumer_tag, self.connection)}"] if self.connection is not None else []
        return f"<Message {' '.join(parts)}>"


def entry_view(
    entry: QueueEntry,
    queue: StoredQueue,
    message: Message | None = None,
    *,
    consumer_tag: str | None = None,
    connection: str | None = None,
    delivered_at: int | None = None,
) -> MessageView:
    """Return the view of a message in a queue, as it is or as `message`, and of who holds it if it is not ready."""
    return MessageView(
        message or entry.message,
        redelivered=entry.redelivered,
        delivery_count=queue.delivery_count_of(entry),
        enqueued_at=entry.enqueued_at,
        expires_at=entry.expires_at,
        consumer_tag=consumer_tag,
        connection=connection,
        delivered_at=delivered_at,
    )


def held_view(delivery: Delivery, connection: Connection) -> MessageView:
    """Return the view of a message that a client holds."""
    tag = delivery.consumer.tag if delivery.consumer else None
    return entry_view(
        delivery.entry,
        delivery.queue,
        consumer_tag=tag,
        connection=client_text(connection),
        delivered_at=delivery.delivered_at,
    )


# The view shows these headers as deaths instead.
DEATH_HEADERS: Final = ("x-death", "x-first-death-", "x-last-death-")
