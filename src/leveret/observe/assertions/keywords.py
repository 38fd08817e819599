"""The keywords that several calls share, as types: what a type checker needs to refuse one that is misspelt.

The calls check their keywords themselves when they run, so nothing here is imported before a test asks for it. Each
class is held equal to the table it stands for by tests/house/test_types.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from os import PathLike

# The values of `reason=` in the assertions about messages that leave or return to a queue.
RequeueReason = Literal["nacked", "rejected", "recovered", "channel_closed", "consumer_timeout"]
DeadLetterReason = Literal["rejected", "expired", "maxlen", "delivery_limit"]
DropReason = Literal[
    "no route",
    "rejected",
    "expired",
    "maxlen",
    "delivery_limit",
    "restart",
    "retention",
    "cycle",
    "no requester",
    "rolled_back",
    "uncommitted",
    "fault",
]

# What a policy applies to.
ApplyTo = Literal["queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all"]

# What an alarm is about.
Alarm = Literal["memory", "disk"]


class NoKeywords(TypedDict):
    """No further keywords, for a call that raises for unknown ones with the closest spelling."""


class BasicProperties(TypedDict, total=False):
    """The basic properties of a message without its headers, as keywords of `publish` and `Reply`."""

    content_type: str | None
    content_encoding: str | None
    delivery_mode: int | None
    priority: int | None
    correlation_id: str | None
    reply_to: str | None
    expiration: str | None
    message_id: str | None
    timestamp: datetime | int | None
    type: str | None
    user_id: str | None
    app_id: str | None
    cluster_id: str | None


class MessageCriteria(TypedDict, total=False):
    """The criteria that select messages. The `__eq__` of each value decides (see `observe.matching`)."""

    routing_key: object
    body: object
    json: object
    json_contains: object
    headers: object
    redelivered: object
    content_type: object
    content_encoding: object
    delivery_mode: object
    priority: object
    correlation_id: object
    reply_to: object
    expiration: object
    message_id: object
    timestamp: object
    type: object
    user_id: object
    app_id: object
    cluster_id: object


class AssertionOptions(MessageCriteria, total=False):
    """The keywords of an assertion: criteria, the virtual host, and how many seconds to wait."""

    vhost: str
    timeout: float | None


class QueueAssertionOptions(AssertionOptions, total=False):
    """The keywords of an assertion about a queue, with the exchange as one more criterion."""

    exchange: object


class FaultCriteria(MessageCriteria, total=False):
    """The criteria that select the messages a fault affects."""

    exchange: object


class FaultOptions(FaultCriteria, total=False):
    """The keywords of `broker.faults.add`: when, how often and on whose messages a fault happens."""

    after: int
    times: int | None
    probability: float | None
    optional: bool
    sent_by: Literal["client", "broker"] | None
    vhost: object
    client: object
    connection: int | None
    channel: int | None
    queue: object
    consumer: object


class Places(TypedDict, total=False):
    """The places that limit what `allow` allows."""

    queue: object
    exchange: object
    routing_key: object
    client: object
    vhost: object


class WorkerOptions(TypedDict, total=False):
    """The keywords of `Broker.worker` that a worker takes itself."""

    args: tuple[object, ...]
    url_env: str | Iterable[str] | None
    env: Mapping[str, str] | None
    cwd: str | PathLike[str] | None
    ready: Callable[[], object] | str | None
    name: str | None
    timeout: float


class ReplayOptions(TypedDict, total=False):
    """The keywords of `Broker.replay` that choose and change the messages."""

    where: Callable[[Any], object] | None
    first: int
    limit: int | None
    times: int
    today: bool
    vhost: str
