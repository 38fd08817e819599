"""The event kinds: what can happen in a broker, one row each.

The core taps a plain tuple, `(kind, at, *fields)`, because it is made on the hot path; the tuple's layout is the
`fields` of the kind's row in `TABLE`. Other modules derive their lists of kinds from the traits of that row. `Event`
gives such a tuple names when somebody looks. `at` is an instant of the broker's clock in microseconds. A `message`
field holds the published message itself (exchange, routing key, properties, body, id); `copy` is the id of one message
in one queue; `src_copy` the copy a dead letter came from.

The meaning of each kind is the contract of trace schema version 1; kinds and fields may be added, never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, cast, runtime_checkable

# Every kind, for type checkers, in the order of the table.
EventKind = Literal[
    "published",
    "returned",
    "confirmed",
    "nacked_confirm",
    "enqueued",
    "delivered",
    "got",
    "acked",
    "nacked",
    "rejected",
    "requeued",
    "expired",
    "dropped",
    "dead_lettered",
    "purged",
    "conn_open",
    "conn_close",
    "chan_open",
    "chan_close",
    "refused",
    "exchange_declare",
    "exchange_delete",
    "queue_declare",
    "queue_delete",
    "bind",
    "unbind",
    "consume",
    "cancel",
    "qos",
    "called",
    "test_start",
    "test_end",
    "fault",
]

RawEvent = tuple[object, ...]
Tap = Callable[[RawEvent], None]

# Publishing.
PUBLISHED: Final = "published"
RETURNED: Final = "returned"
CONFIRMED: Final = "confirmed"
NACKED_CONFIRM: Final = "nacked_confirm"
# One message in one queue.
ENQUEUED: Final = "enqueued"
DELIVERED: Final = "delivered"
GOT: Final = "got"
ACKED: Final = "acked"
NACKED: Final = "nacked"
REJECTED: Final = "rejected"
REQUEUED: Final = "requeued"
EXPIRED: Final = "expired"
DROPPED: Final = "dropped"
DEAD_LETTERED: Final = "dead_lettered"
PURGED: Final = "purged"
# Why a message was dropped that led to no queue, or died in one without a dead-letter exchange.
NO_ROUTE: Final = "no route"
# Conversations.
CONN_OPEN: Final = "conn_open"
CONN_CLOSE: Final = "conn_close"
CHAN_OPEN: Final = "chan_open"
CHAN_CLOSE: Final = "chan_close"
REFUSED: Final = "refused"
# Topology and consumers.
EXCHANGE_DECLARE: Final = "exchange_declare"
EXCHANGE_DELETE: Final = "exchange_delete"
QUEUE_DECLARE: Final = "queue_declare"
QUEUE_DELETE: Final = "queue_delete"
BIND: Final = "bind"
UNBIND: Final = "unbind"
CONSUME: Final = "consume"
CANCEL: Final = "cancel"
QOS: Final = "qos"
# The test around it.
CALLED: Final = "called"
TEST_START: Final = "test_start"
TEST_END: Final = "test_end"
FAULT: Final = "fault"

# conn and chan are numbers: the connection's ordinal in this broker and the channel number on it. Both are None for
# what the test itself did through the broker's own methods. vhost, exchange, queue and consumer are names.
_WHERE: Final = ("vhost", "conn", "chan")
_COPY: Final = ("vhost", "queue", "message", "copy")
_SETTLED: Final = (*_WHERE, "queue", "message", "copy", "tag", "multiple")
_BINDING: Final = (*_WHERE, "exchange", "destination_kind", "destination", "routing_key", "arguments")

Category = Literal["publishing", "copy", "conversation", "topology", "test"]


class Kind(NamedTuple):
    """The declaration of one kind of event: its category, its fields, and the traits that other tables are made from.

    `reasons` holds every value of the field `reason`, where a test can ask for one.
    """

    category: Category
    fields: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    # A client receives the copy.
    is_delivery: bool = False
    # The copy leaves its queue for good.
    is_end: bool = False
    # The publisher learns whether the broker has the message.
    is_answer: bool = False
    # Happens as a consequence, without a call of a client, when a consumer goes and its deliveries are requeued.
    follows_requeue: bool = False
    # The columns `exchange` and `routing_key` of a trace say where the message was published to.
    is_addressed: bool = False
    # Explains a failure. It is not part of what the code under test does, so the table `control` leaves it out.
    is_explanation: bool = False


TABLE: Final[dict[str, Kind]] = {
    # tag is the publish number in confirm mode, else None.
    PUBLISHED: Kind("publishing", (*_WHERE, "message", "tag"), is_addressed=True),
    RETURNED: Kind("publishing", (*_WHERE, "message", "reason"), is_addressed=True),
    # Once per message; multiple: one method told of several.
    CONFIRMED: Kind("publishing", (*_WHERE, "message", "tag", "multiple"), is_answer=True),
    NACKED_CONFIRM: Kind("publishing", (*_WHERE, "message", "tag", "multiple"), is_answer=True),
    ENQUEUED: Kind("copy", (*_COPY, "src_copy", "expires"), follows_requeue=True, is_addressed=True),
    # tag is the delivery tag; count is how often the copy had been delivered before.
    DELIVERED: Kind(
        "copy",
        (*_WHERE, "queue", "message", "copy", "consumer", "tag", "redelivered", "count"),
        is_delivery=True,
        follows_requeue=True,
        is_addressed=True,
    ),
    GOT: Kind(
        "copy",
        (*_WHERE, "queue", "message", "copy", "tag", "redelivered", "count"),
        is_delivery=True,
        is_addressed=True,
    ),
    # reason: None, or "no_ack" for an automatic one.
    ACKED: Kind("copy", (*_SETTLED, "reason"), is_end=True),
    NACKED: Kind("copy", _SETTLED),
    REJECTED: Kind("copy", _SETTLED),
    REQUEUED: Kind(
        "copy",
        (*_COPY, "reason"),
        ("nacked", "rejected", "recovered", "channel_closed", "consumer_timeout"),
        follows_requeue=True,
    ),
    EXPIRED: Kind("copy", _COPY, is_end=True, follows_requeue=True),
    # reason, of a copy: "no route" (given up by its consumer, and no dead-letter exchange there), "maxlen",
    # "delivery_limit", "restart", "retention" (a stream dropped its oldest segments). Of a message that never became
    # one, so that copy is None: "no route" (it led to no queue), "no requester" (the one a direct reply was for has
    # gone), "rolled_back", "fault", and "cycle" with the queue that it had died in before.
    DROPPED: Kind(
        "copy",
        (*_COPY, "reason"),
        (
            *(NO_ROUTE, "maxlen", "delivery_limit", "restart", "retention"),
            *("cycle", "no requester", "rolled_back", "fault"),
        ),
        is_end=True,
        follows_requeue=True,
        is_addressed=True,
    ),
    # The dying copy: exchange and routing_key are where it goes; reason is the x-death reason.
    DEAD_LETTERED: Kind(
        "copy",
        (*_COPY, "reason", "exchange", "routing_key"),
        ("rejected", "expired", "maxlen", "delivery_limit"),
        is_end=True,
        follows_requeue=True,
    ),
    PURGED: Kind("copy", (*_COPY, "reason"), ("purged", "queue_deleted"), is_end=True),
    # peer is "host:port"; client is the client's own name for the connection, or its product.
    CONN_OPEN: Kind("conversation", (*_WHERE, "peer", "user", "client")),
    # reason: None for an orderly close by the client, else the reply text sent or "connection lost".
    CONN_CLOSE: Kind("conversation", (*_WHERE, "reason")),
    CHAN_OPEN: Kind("conversation", _WHERE),
    CHAN_CLOSE: Kind("conversation", (*_WHERE, "reason")),
    # What a client did wrong: the reply code and text. caller is the line of the user's code that waited for a client
    # then, opener the one that waited when the connection was opened, as far as either could be told.
    REFUSED: Kind("conversation", (*_WHERE, "client", "code", "text", "caller", "opener"), is_explanation=True),
    EXCHANGE_DECLARE: Kind("topology", (*_WHERE, "exchange", "type", "arguments")),
    EXCHANGE_DELETE: Kind("topology", (*_WHERE, "exchange")),
    QUEUE_DECLARE: Kind("topology", (*_WHERE, "queue", "arguments")),
    # reason: None for a method, else "expired", "auto_delete", "exclusive".
    QUEUE_DELETE: Kind("topology", (*_WHERE, "queue", "reason")),
    # exchange is the source; destination a queue's or an exchange's name; destination_kind "queue" or "exchange".
    BIND: Kind("topology", _BINDING),
    UNBIND: Kind("topology", _BINDING),
    CONSUME: Kind("topology", (*_WHERE, "queue", "consumer", "no_ack", "exclusive", "prefetch_count", "arguments")),
    # reason: None for the client's own cancel, else why the broker cancelled it.
    CANCEL: Kind("topology", (*_WHERE, "queue", "consumer", "reason")),
    # is_global: one limit for the channel; is_global_asked: the client wanted that, and the version may deny it.
    QOS: Kind("topology", (*_WHERE, "count", "is_global", "is_global_asked")),
    # The test called a method of the broker; what it caused follows. caller is the line.
    CALLED: Kind("test", ("call", "caller"), is_explanation=True),
    TEST_START: Kind("test", ("test",)),
    TEST_END: Kind("test", ("test", "outcome", "duration")),
    # A fault struck, on a method or event of that name; what it did follows.
    FAULT: Kind("test", (*_WHERE, "on", "fault")),
}

KINDS: Final = tuple(TABLE)
FIELDS: Final[dict[str, tuple[str, ...]]] = {name: kind.fields for name, kind in TABLE.items()}

# Where each field of a kind stands in its raw tuple; `kind` and `at` come first.
POSITIONS: Final[dict[str, dict[str, int]]] = {
    kind: {name: index for index, name in enumerate(("kind", "at", *names))} for kind, names in FIELDS.items()
}

# Kinds by trait, in the order of the table.
ABOUT_MESSAGES: Final = frozenset(name for name, kind in TABLE.items() if "message" in kind.fields)
ABOUT_COPIES: Final = tuple(name for name, kind in TABLE.items() if kind.category == "copy")
DELIVERIES: Final = tuple(name for name, kind in TABLE.items() if kind.is_delivery)
ENDS: Final = tuple(name for name, kind in TABLE.items() if kind.is_end)
ANSWERS: Final = tuple(name for name, kind in TABLE.items() if kind.is_answer)
CONTROL: Final = tuple(name for name, kind in TABLE.items() if name not in ABOUT_MESSAGES and not kind.is_explanation)

_PREVIEW_LENGTH: Final = 60


class TracedMessage(Protocol):
    """What the trace needs to know of a published message; the model's `Message` is one."""

    @property
    def id(self) -> int:
        """This message's number in its broker, kept through dead-lettering."""

    @property
    def exchange(self) -> str:
        """The exchange it was published to."""

    @property
    def routing_key(self) -> str:
        """The key it was published with."""

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """That key, and those of the headers CC and BCC."""

    @property
    def properties(self) -> TracedProperties:
        """What it says of itself."""

    @property
    def body(self) -> bytes:
        """Its content."""


class TracedProperties(Protocol):
    """What the trace needs to know of a message's properties."""

    @property
    def message_id(self) -> str | None:
        """The publisher's name for the message."""

    @property
    def correlation_id(self) -> str | None:
        """The publisher's name for what it belongs to."""

    @property
    def headers(self) -> Container[str] | None:
        """The names of its headers, None where there are none."""

    def to_python(self) -> dict[str, object]:
        """Those that are present, by name."""


@runtime_checkable
class PlainValue(Protocol):
    """A value of the wire that has an ordinary one, as a field table has."""

    def to_python(self) -> object:
        """The ordinary value."""


class Event:
    """One thing that happened: `kind`, `at`, and the fields of its kind as attributes.

    A field the kind does not have raises AttributeError and names those it has; `get` answers None instead.
    """

    __slots__ = ("raw",)

    vhost: str
    conn: int | None
    chan: int | None
    message: TracedMessage
    copy: int | None
    src_copy: int | None
    expires: int | None
    exchange: str
    routing_key: str
    queue: str | None
    consumer: str
    tag: int | None
    multiple: bool
    redelivered: bool
    count: int
    reason: str | None
    peer: str
    user: str
    client: str
    type: str
    arguments: object
    destination_kind: str
    destination: str
    no_ack: bool
    exclusive: bool
    prefetch_count: int
    is_global: bool
    is_global_asked: bool
    code: int
    text: str
    caller: str | None
    opener: str | None
    call: str
    test: str
    outcome: str
    duration: float
    on: str
    fault: str

    def __init__(self, raw: tuple[object, ...]) -> None:
        # The tuple the core tapped.
        self.raw = raw

    @property
    def kind(self) -> EventKind:
        """What happened, one of `KINDS`."""
        return cast("EventKind", self.raw[0])

    @property
    def at(self) -> int:
        """When, in microseconds of the broker's clock."""
        at = self.raw[1]
        assert isinstance(at, int)
        return at

    def get(self, name: str) -> object:
        """This field, or None when the kind has no such field."""
        position = POSITIONS[self.kind].get(name)
        return None if position is None else self.raw[position]

    def fields(self) -> dict[str, object]:
        """The fields of this kind by name, in the order of the raw tuple, without `kind` and `at`."""
        return dict(zip(FIELDS[self.kind], self.raw[2:], strict=True))

    # A type checker knows the fields declared above and refuses others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            position = POSITIONS[self.kind].get(name)
            if position is None:
                known = ", ".join(FIELDS[self.kind])
                raise AttributeError(f"a {self.kind!r} event has no field {name!r}; it has {known}")
            return self.raw[position]

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Event) else NotImplemented

    def details(self, *, without: tuple[str, ...] = ()) -> str:
        """The fields that say something, in one line."""
        told = {name: value for name, value in self.fields().items() if name not in without}
        return " ".join(_show(name, value) for name, value in told.items() if _is_telling(name, value))

    def __repr__(self) -> str:
        return f"{clock_text(self.at)} {self.kind} {self.details()}".rstrip()


def clock_text(at: int) -> str:
    """This instant as the UTC time of day, to the microsecond."""
    from datetime import UTC, datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)).strftime("%H:%M:%S.%f")


def printable(text: str) -> str:
    """A text that can be shown anywhere: names that are not UTF-8 hold octets no terminal and no report takes."""
    return text.encode("utf-8", "backslashreplace").decode()


def preview(body: bytes, limit: int = _PREVIEW_LENGTH) -> str:
    """A body in a few characters: its text when it is text, else its bytes, cut when long."""
    start = body[: limit * 4]
    try:
        shown = repr(start.decode("utf-8"))
    except UnicodeDecodeError as error:
        # A character cut in half by our own limit is no sign of a binary body.
        is_cut = len(start) < len(body) and error.start >= len(start) - 3
        shown = repr(start[: error.start].decode("utf-8")) if is_cut else repr(start)
    if len(shown) <= limit + 2 and len(start) == len(body):
        return shown
    return f"{shown[:limit]}... ({len(body)} bytes)"


def _is_telling(name: str, value: object) -> bool:
    if value is None or value is False:
        return False
    return (name, value) != ("vhost", "/") and not (name == "arguments" and not value)


def _show(name: str, value: object) -> str:
    if name != "message":
        # A field table would show its wire types, which say little in a report.
        plain = value.to_python() if isinstance(value, PlainValue) else value
        return f"{name}={plain!r}"
    message = Event((PUBLISHED, 0, "/", None, None, value, None)).message
    return f"message=#{message.id} ({message.exchange!r}, {message.routing_key!r}, {preview(message.body)})"
