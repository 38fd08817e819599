"""The options of `format("amqp")`: each is one row here, and is checked when the read or write is planned.

Names are compared without regard to case, because Spark lower-cases them. docs/how-to/spark-amqp.md lists every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit

from leveret.errors import OptionError, unknown

if TYPE_CHECKING:
    from pika.connection import Parameters

T = TypeVar("T")

# The largest prefetch of one consumer.
PREFETCH_MAX: Final = 65535

STREAM_READ: Final = "readStream"
BATCH_READ: Final = "read"
WRITE: Final = "write"

# The operations that accept each option: reading a stream, reading a batch, and writing a batch or a stream.
OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "url": (STREAM_READ, BATCH_READ, WRITE),
    "user": (STREAM_READ, BATCH_READ, WRITE),
    "password": (STREAM_READ, BATCH_READ, WRITE),
    "connectionName": (STREAM_READ, BATCH_READ, WRITE),
    "queue": (STREAM_READ, BATCH_READ, WRITE),
    "ack": (STREAM_READ, BATCH_READ),
    "exclusive": (STREAM_READ,),
    "maxMessagesPerBatch": (STREAM_READ,),
    "maxBatchWaitSeconds": (STREAM_READ,),
    "messagesPerPartition": (STREAM_READ,),
    "prefetch": (STREAM_READ,),
    "reconnectSeconds": (STREAM_READ,),
    "maxMessages": (BATCH_READ,),
    "exchange": (WRITE,),
    "routingKey": (WRITE,),
    "onReturn": (WRITE,),
    "persistent": (WRITE,),
    "confirmWindow": (WRITE,),
    "confirmTimeoutSeconds": (WRITE,),
}
# Spark passes its own options to the sink too.
_OF_SPARK: Final = ("checkpointlocation",)
_SPELLING: Final = {name.lower(): name for name in OPTIONS}


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """A broker, and the user that logs in to it."""

    url: str = field(repr=False)
    connection_name: str

    def parameters(self) -> Parameters:
        """Return pika's connection parameters."""
        import pika

        parameters = pika.URLParameters(self.url)
        parameters.client_properties = {"connection_name": self.connection_name}
        return parameters


@dataclass(frozen=True, slots=True)
class StreamReadOptions:
    """The options of `readStream`."""

    endpoint: BrokerLogin
    queue: str
    # When to acknowledge. "commit": once Spark has committed the batch; "auto": on reading, before Spark has it.
    ack: str
    exclusive: bool
    max_messages_per_batch: int
    max_batch_wait_s: float
    messages_per_partition: int
    prefetch: int
    reconnect_s: float


@dataclass(frozen=True, slots=True)
class BatchReadOptions:
    """The options of `read`."""

    endpoint: BrokerLogin
    queue: str
    # When to acknowledge. "requeue": never; "on_read": as each message is read.
    ack: str
    # None: as many messages as are ready when reading begins.
    max_messages: int | None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of `write` and `writeStream`."""

    endpoint: BrokerLogin
    exchange: str | None
    routing_key: str | None
    # What to do with a returned message: "fail", "ignore", or "column", by the row's column `mandatory`.
    on_return: str
    persistent: bool
    confirm_window: int
    confirm_timeout_s: float


def check_reading(options: Mapping[str, str]) -> None:
    """Check what every read needs, before it is known which read it is. Raises OptionError."""
    _required(_known(options, STREAM_READ, BATCH_READ), "queue", "the queue to read")
    _endpoint(options)


def stream_read_options(options: Mapping[str, str]) -> StreamReadOptions:
    """Return the options of `readStream`. Raises OptionError if one is unknown, missing or invalid."""
    given = _known(options, STREAM_READ)
    queue = _required(given, "queue", "the queue to read")
    batch = _number(given, "maxMessagesPerBatch", 10_000, PREFETCH_MAX)
    exclusive = _boolean(given, "exclusive", default=False)
    # Two consumers at most, each with the largest prefetch of the protocol; an exclusive consumer is the only one. One
    # is the default, because a second one and more unacknowledged messages slow RabbitMQ down more than they help.
    largest = PREFETCH_MAX if exclusive else 2 * PREFETCH_MAX
    return StreamReadOptions(
        endpoint=_endpoint(given),
        queue=queue,
        ack=_choice(given, "ack", ("commit", "auto"), {"requeue": BATCH_READ, "on_read": BATCH_READ}),
        exclusive=exclusive,
        max_messages_per_batch=batch,
        max_batch_wait_s=_seconds(given, "maxBatchWaitSeconds", 5.0),
        messages_per_partition=_number(given, "messagesPerPartition", 25_000, 10_000_000),
        prefetch=max(batch, _number(given, "prefetch", min(2 * batch, PREFETCH_MAX), largest)),
        reconnect_s=_seconds(given, "reconnectSeconds", 30.0),
    )


def batch_read_options(options: Mapping[str, str]) -> BatchReadOptions:
    """Return the options of `read`. Raises OptionError if one is unknown, missing or invalid."""
    given = _known(options, BATCH_READ)
    return BatchReadOptions(
        endpoint=_endpoint(given),
        queue=_required(given, "queue", "the queue to read"),
        ack=_choice(given, "ack", ("requeue", "on_read"), {"commit": STREAM_READ, "auto": STREAM_READ}),
        max_messages=_number(given, "maxMessages", 1, 2**40) if "maxmessages" in given else None,
    )


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of `write` and `writeStream`. Raises OptionError if one is unknown, missing or invalid."""
    given = _known(options, WRITE)
    exchange, routing_key, queue = given.get("exchange"), given.get("routingkey"), given.get("queue")
    if queue is not None:
        if exchange is not None or routing_key is not None:
            raise OptionError(
                "option queue excludes exchange and routingKey: it means the default exchange and the queue's name as "
                "routing key; leave out queue, or leave out the others"
            )
        exchange, routing_key = "", queue
    return WriteOptions(
        endpoint=_endpoint(given),
        exchange=exchange,
        routing_key=routing_key,
        on_return=_choice(given, "onReturn", ("fail", "ignore", "column"), {}),
        persistent=_boolean(given, "persistent", default=True),
        confirm_window=_number(given, "confirmWindow", 2000, 1_000_000),
        confirm_timeout_s=_seconds(given, "confirmTimeoutSeconds", 30.0),
    )


def _known(options: Mapping[str, str], *ways: str) -> dict[str, str]:
    """Return the options by their lower-cased names. Raises OptionError if one belongs to none of the `ways`."""
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name in _OF_SPARK:
            continue
        if name not in _SPELLING:
            raise OptionError(unknown("option", name, sorted(OPTIONS, key=str.lower)))
        spelled = _SPELLING[name]
        if not set(ways) & set(OPTIONS[spelled]):
            raise OptionError(
                f"option {spelled} belongs to {' and '.join(OPTIONS[spelled])}, not to {' or '.join(ways)}; "
                "leave it out"
            )
    return given


def _required(given: Mapping[str, str], name: str, meaning: str) -> str:
    value = given.get(name.lower())
    if not value:
        raise OptionError(f"format amqp needs the option {name!r}: {meaning}")
    return value


def _endpoint(options: Mapping[str, str]) -> BrokerLogin:
    given = {name.lower(): value for name, value in options.items()}
    url = _required(given, "url", "the broker's URL, for example amqp://guest:guest@localhost:5672/%2F")
    parts = _parts_of(url)
    if "user" in given or "password" in given:
        own = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        user, password = given.get("user", own[0]), given.get("password", own[1])
        host = parts.netloc.rpartition("@")[2]
        parts = parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{host}")
    elif parts.username and parts.password is None:
        raise OptionError(
            f"option url names the user {unquote(parts.username)!r} without a password: write user:password@, or set "
            "the option password"
        )
    endpoint = BrokerLogin(parts.geturl(), given.get("connectionname") or "leveret.spark")
    if parts.query:
        # The rest of the URL was checked above. Only pika understands the query.
        _understood(endpoint.parameters, "option url")
    return endpoint


def _parts_of(url: str) -> SplitResult:
    parts = _understood(lambda: urlsplit(url), "option url")
    _understood(lambda: parts.port, "option url")
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
        raise OptionError(
            f"option url is not an AMQP URL, its scheme is {parts.scheme!r} and its host {parts.hostname or ''!r}: it "
            "must begin with amqp:// or amqps:// and name a host, for example amqp://guest:guest@localhost:5672/%2F"
        )
    return parts


def _understood(read: Callable[[], T], what: str) -> T:
    try:
        return read()
    except (ValueError, TypeError) as error:
        raise OptionError(
            f"{what} is invalid: {error}; write it as in amqp://guest:guest@localhost:5672/%2F"
        ) from error


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...], elsewhere: Mapping[str, str]) -> str:
    """Return one of the choices; the first is the default. `elsewhere` maps choices to the operation that has them."""
    value = given.get(name.lower(), choices[0]).lower()
    if value in elsewhere:
        raise OptionError(f"option {name}={value} belongs to {elsewhere[value]}; use one of {', '.join(choices)}")
    if value not in choices:
        raise OptionError(f"option {name}={value!r} is not valid; use one of {', '.join(choices)}")
    return value


def _boolean(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = given.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise OptionError(f"option {name}={value!r} is neither true nor false; use one of them")
    return value == "true"


def _number(given: Mapping[str, str], name: str, default: int, largest: int) -> int:
    value = given.get(name.lower(), str(default))
    number = int(value) if value.isascii() and value.isdigit() else 0
    if not 1 <= number <= largest:
        raise OptionError(f"option {name}={value!r} must be a whole number from 1 to {largest}")
    return number


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    value = given.get(name.lower(), str(default))
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise OptionError(f"option {name}={value!r} must be a number of seconds, 0 or more")
    return seconds
