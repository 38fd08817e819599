"""The kinds of events: everything that can happen in a broker, one row each.

The core passes the tap a plain tuple, `(kind, at, *fields)`, because it makes one on the hot path. The `fields` of the
kind's row in `TABLE` give the layout. Other modules derive their lists of kinds from the traits of that row. `Event`
gives access to such a tuple by name. `at` is an instant of the broker's clock in microseconds. A `message` field holds
the published message itself (exchange, routing key, properties, body, id). `copy` is the id of one message in one
queue, and `src_copy` is the copy that a dead letter came from.

The meaning of each kind is the contract of trace schema version 1; kinds and fields may be added, never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from datetime import datetime

    from leveret.trace.caller import Caller

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
# The reason for dropping a message that led to no queue, or was rejected in one without a dead-letter exchange.
NO_ROUTE: Final = "no route"
# The reason of an automatic ack, which no client sent.
NO_ACK: Final = "no_ack"
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
# The test.
CALLED: Final = "called"
TEST_START: Final = "test_start"
TEST_END: Final = "test_end"
FAULT: Final = "fault"

# conn is the ordinal of the connection in this broker, and chan the channel number on it. Both are None for what the
# test itself did through the broker's methods. vhost, exchange, queue and consumer are names.
_WHERE: Final = ("vhost", "conn", "chan")
_COPY: Final = ("vhost", "queue", "message", "copy")
# up_to_tag is the newest tag that a multiple ack or nack settled: events of one channel that share it are of one
# method. It is None for a single one, and in files of older versions.
_SETTLED: Final = (*_WHERE, "queue", "message", "copy", "tag", "multiple", "up_to_tag")
_BINDING: Final = (*_WHERE, "exchange", "destination_kind", "destination", "routing_key", "arguments")

Category = Literal["publishing", "copy", "conversation", "topology", "test"]
Stand = Literal["ready", "unacked", "gone"]


class Kind(NamedTuple):
    """The declaration of one kind of event: its category, its fields, and the traits that other tables are made from.

    `reasons` holds every value of the field `reason`, for kinds of which a test can select a reason.
    """

    category: Category
    fields: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    # Where the copy is afterwards.
    stand: Stand | None = None
    # The message, or the copy, is lost, unless a dead letter follows.
    is_loss: bool = False
    # The publisher learns whether the broker has the message.
    is_answer: bool = False
    # It may happen without a call by a client, as a consequence of requeues when a consumer leaves.
    follows_requeue: bool = False
    # The columns `exchange` and `routing_key` of a trace say where the message was published to.
    is_addressed: bool = False
    # It explains a failure and is not an act of the code under test, so the table `control` leaves it out.
    is_explanation: bool = False


TABLE: Final[dict[str, Kind]] = {
    # tag is the publish number in confirm mode, else None.
    PUBLISHED: Kind("publishing", (*_WHERE, "message", "tag"), is_addressed=True),
    RETURNED: Kind("publishing", (*_WHERE, "message", "reason"), is_loss=True, is_addressed=True),
    # One event for each message. multiple: one method confirmed several messages.
    CONFIRMED: Kind("publishing", (*_WHERE, "message", "tag", "multiple"), is_answer=True),
    NACKED_CONFIRM: Kind("publishing", (*_WHERE, "message", "tag", "multiple"), is_answer=True),
    ENQUEUED: Kind("copy", (*_COPY, "src_copy", "expires"), stand="ready", follows_requeue=True, is_addressed=True),
    # tag is the delivery tag; count is how often the copy had been delivered before.
    DELIVERED: Kind(
        "copy",
        (*_WHERE, "queue", "message", "copy", "consumer", "tag", "redelivered", "count"),
        stand="unacked",
        follows_requeue=True,
        is_addressed=True,
    ),
    GOT: Kind(
        "copy",
        (*_WHERE, "queue", "message", "copy", "tag", "redelivered", "count"),
        stand="unacked",
        is_addressed=True,
    ),
    # reason: None, or "no_ack" for an automatic ack.
    ACKED: Kind("copy", (*_SETTLED, "reason"), stand="gone"),
    NACKED: Kind("copy", _SETTLED),
    REJECTED: Kind("copy", _SETTLED),
    REQUEUED: Kind(
        "copy",
        (*_COPY, "reason"),
        ("nacked", "rejected", "recovered", "channel_closed", "consumer_timeout"),
        stand="ready",
        follows_requeue=True,
    ),
    EXPIRED: Kind("copy", _COPY, stand="gone", is_loss=True, follows_requeue=True),
    # The reasons for a copy: "rejected", "delivery_limit", "maxlen" (its queue has no dead-letter exchange), "restart",
    # "retention" (a stream dropped its oldest segments). The reasons for a message without a copy, where copy is None:
    # "no route" (it led to no queue), "no requester" (the requester of a direct reply has gone), "rolled_back",
    # "uncommitted" (the client closed the channel without tx.commit), "fault", and "cycle", where queue is the one in
    # which it had died before.
    DROPPED: Kind(
        "copy",
        (*_COPY, "reason"),
        (
            *("rejected", "maxlen", "delivery_limit", "restart", "retention"),
            *(NO_ROUTE, "cycle", "no requester", "rolled_back", "uncommitted", "fault"),
        ),
        stand="gone",
        is_loss=True,
        follows_requeue=True,
        is_addressed=True,
    ),
    # The fields describe the dying copy. exchange and routing_key say where it goes; reason is the x-death reason.
    DEAD_LETTERED: Kind(
        "copy",
        (*_COPY, "reason", "exchange", "routing_key"),
        ("rejected", "expired", "maxlen", "delivery_limit"),
        stand="gone",
        follows_requeue=True,
    ),
    PURGED: Kind("copy", (*_COPY, "reason"), ("purged", "queue_deleted"), stand="gone"),
    # peer is "host:port"; client is the client's own name for the connection, or its product. opener is the line of the
    # user's code that was waiting for a client at that time, or None if it could not be found.
    CONN_OPEN: Kind("conversation", (*_WHERE, "peer", "user", "client", "opener")),
    # reason: None for an orderly close by the client, else the reply text sent or "connection lost".
    # is_shutdown: True if the broker stopped or restarted, else None.
    CONN_CLOSE: Kind("conversation", (*_WHERE, "reason", "is_shutdown")),
    CHAN_OPEN: Kind("conversation", _WHERE),
    CHAN_CLOSE: Kind("conversation", (*_WHERE, "reason")),
    # A client's mistake, with the reply code and text. caller is the line of the user's code that was waiting for a
    # client at that time, and opener the one when the connection was opened. Either is None if it could not be found.
    # cause is what the text leaves out, such as an unknown user, or None. subject has the problem in a word and
    # the names that it is about, such as that of the queue that is missing, or None.
    REFUSED: Kind(
        "conversation", (*_WHERE, "client", "code", "text", "caller", "opener", "cause", "subject"), is_explanation=True
    ),
    EXCHANGE_DECLARE: Kind("topology", (*_WHERE, "exchange", "type", "arguments")),
    EXCHANGE_DELETE: Kind("topology", (*_WHERE, "exchange")),
    QUEUE_DECLARE: Kind("topology", (*_WHERE, "queue", "arguments")),
    # reason: None for a method, else "expired", "auto_delete", "exclusive".
    QUEUE_DELETE: Kind("topology", (*_WHERE, "queue", "reason")),
    # exchange is the source, destination the name of a queue or an exchange, destination_kind "queue" or "exchange".
    BIND: Kind("topology", _BINDING),
    UNBIND: Kind("topology", _BINDING),
    CONSUME: Kind("topology", (*_WHERE, "queue", "consumer", "no_ack", "exclusive", "prefetch_count", "arguments")),
    # reason: None for the client's own cancel, else why the broker cancelled it.
    CANCEL: Kind("topology", (*_WHERE, "queue", "consumer", "reason")),
    # is_global: one limit for the channel. is_global_asked: the client asked for that, but the version may refuse it.
    QOS: Kind("topology", (*_WHERE, "count", "is_global", "is_global_asked")),
    # The test called a method of the broker; the events that it caused follow. caller is the line of the call.
    CALLED: Kind("test", ("call", "caller"), is_explanation=True),
    TEST_START: Kind("test", ("test",)),
    # error is the text of what the test failed with, or None.
    TEST_END: Kind("test", ("test", "outcome", "duration", "error")),
    # A fault fired, on a method or event with the name `on`; the events that it caused follow.
    FAULT: Kind("test", (*_WHERE, "on", "fault")),
}

KINDS: Final = tuple(TABLE)
FIELDS: Final[dict[str, tuple[str, ...]]] = {name: kind.fields for name, kind in TABLE.items()}

# Connection and channel, in the raw tuple of a kind that has them.
CHANNEL: Final = slice(2 + _WHERE.index("conn"), 2 + len(_WHERE))
# The fields of an event of a kind that only a newer leveret has, as far as a row of any kind may have them.
OTHER_FIELDS: Final = (*_WHERE, "queue", "message", "copy", "reason")


class _Positions(dict[str, dict[str, int]]):
    def __missing__(self, kind: str) -> dict[str, int]:
        return _positions(OTHER_FIELDS)


def _positions(names: Sequence[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(("kind", "at", *names))}


# The index of each field in the raw tuple of a kind; `kind` and `at` come first.
POSITIONS: Final[dict[str, dict[str, int]]] = _Positions((kind, _positions(names)) for kind, names in FIELDS.items())

# Kinds by trait, in the order of the table.
ABOUT_MESSAGES: Final = frozenset(name for name, kind in TABLE.items() if "message" in kind.fields)
ABOUT_COPIES: Final = tuple(name for name, kind in TABLE.items() if kind.category == "copy")
# A copy enters a queue, or comes back to it.
ARRIVALS: Final = tuple(name for name, kind in TABLE.items() if "src_copy" in kind.fields)
REQUEUES: Final = tuple(name for name, kind in TABLE.items() if kind.stand == "ready" and name not in ARRIVALS)
# A client receives a copy; a consumer does.
DELIVERIES: Final = tuple(name for name, kind in TABLE.items() if kind.stand == "unacked")
PUSHES: Final = tuple(name for name in DELIVERIES if "consumer" in FIELDS[name])
# A copy leaves its queue for good; it does so as a dead letter.
ENDS: Final = tuple(name for name, kind in TABLE.items() if kind.stand == "gone")
DEATHS: Final = tuple(name for name in ENDS if "routing_key" in FIELDS[name])
# The ends that are a reason themselves.
WITHOUT_REASON: Final = tuple(name for name in ENDS if "reason" not in FIELDS[name])
LOSSES: Final = tuple(name for name, kind in TABLE.items() if kind.is_loss)
# The publisher gets its message back.
RETURNS: Final = tuple(name for name in LOSSES if TABLE[name].category == "publishing")
# What a client does with a delivery.
SETTLING: Final = tuple(name for name, kind in TABLE.items() if kind.category == "copy" and "multiple" in kind.fields)
# What a client does with a delivery that it does not want.
REFUSING: Final = (NACKED, REJECTED)
ANSWERS: Final = tuple(name for name, kind in TABLE.items() if kind.is_answer)
# What happened before a test and still explains it: who is connected, what is declared, who consumes.
EXPLAINING: Final = frozenset(name for name, kind in TABLE.items() if kind.category in ("conversation", "topology"))
# The beginning and the end of a test.
MARKS: Final = (TEST_START, TEST_END)
_ADDRESSED: Final = frozenset(name for name, kind in TABLE.items() if kind.is_addressed)
# What a connection, or the test itself, causes.
BY_SOMEONE: Final = frozenset(name for name, kind in TABLE.items() if "conn" in kind.fields)
CONTROL: Final = tuple(name for name, kind in TABLE.items() if name not in ABOUT_MESSAGES and not kind.is_explanation)

_PREVIEW_LENGTH: Final = 60
# The columns of a trace file that come from the message, and its attributes.
_OF_MESSAGE: Final = {"msg": "id", "exchange": "exchange", "routing_key": "routing_key"}
# The exchanges of Celery's events and control replies, to which it publishes even without a listener.
CELERY_EXCHANGES: Final = ("celeryev", "celery.pidbox", "reply.celery.pidbox")
# The headers in which Celery and taskiq name the task. Their bodies hold only its arguments, or much else first.
_TASK_HEADERS: Final = ("task", "task_name")


class TracedMessage(Protocol):
    """The part of a published message that the trace needs; the model's `Message` has it."""

    @property
    def id(self) -> int:
        """The message's number in its broker; dead-lettering does not change it."""

    @property
    def exchange(self) -> str:
        """The exchange that it was published to."""

    @property
    def routing_key(self) -> str:
        """The routing key that it was published with."""

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """That key, and those of the headers CC and BCC."""

    @property
    def properties(self) -> TracedProperties:
        """The message's properties."""

    @property
    def body(self) -> bytes:
        """The message's body."""


class TracedProperties(Protocol):
    """The part of a message's properties that the trace needs."""

    @property
    def message_id(self) -> str | None:
        """The publisher's name for the message."""

    @property
    def correlation_id(self) -> str | None:
        """The publisher's name for what the message belongs to."""

    @property
    def headers(self) -> Container[str] | None:
        """The names of the headers, or None if the message has no headers."""

    def to_python(self) -> dict[str, object]:
        """Return the properties that are set, by name."""


@runtime_checkable
class PlainValue(Protocol):
    """A value of the wire that converts to an ordinary one, such as a field table."""

    def to_python(self) -> object:
        """Return the ordinary value."""


class Event:
    """One thing that happened: `kind`, `at`, and the fields of its kind as attributes.

    Accessing a field that the kind does not have raises AttributeError; `get` returns None instead.
    """

    __slots__ = ("at", "kind", "raw")

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
    up_to_tag: int | None
    redelivered: bool
    count: int
    reason: str | None
    is_shutdown: bool | None
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
    caller: Caller | None
    opener: Caller | None
    cause: str | None
    subject: Mapping[str, str] | None
    call: str
    test: str
    outcome: str
    duration: float
    error: str | None
    on: str
    fault: str

    def __init__(self, raw: tuple[object, ...]) -> None:
        # The tuple that the core passed to the tap.
        self.raw = raw
        # One of `KINDS`.
        self.kind: EventKind = cast("EventKind", raw[0])
        # The time of the event, in microseconds of the broker's clock.
        self.at: int = cast("int", raw[1])

    def get(self, name: str) -> object:
        """Return a field, or None if the kind has no such field.

        As in a trace file, `msg` is the number of the message, and `exchange` and `routing_key` say where it was
        published to, if the kind has no fields of these names.
        """
        kind = self.kind
        places = POSITIONS[kind]
        position = places.get(name)
        if position is not None:
            return self.raw[position]
        attribute = _OF_MESSAGE.get(name)
        if attribute is None or "message" not in places or (name != "msg" and kind not in _ADDRESSED):
            return None
        return cast("object", getattr(self.raw[places["message"]], attribute))

    def fields(self) -> dict[str, object]:
        """Return the fields by name, in the order of the raw tuple, without `kind` and `at`."""
        return dict(zip(FIELDS[self.kind], self.raw[2:], strict=True))

    # A type checker knows the fields declared above and refuses others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            position = POSITIONS[self.kind].get(name)
            if position is None:
                known = ", ".join(("kind", "at", *FIELDS[self.kind]))
                raise AttributeError(f"a {self.kind!r} event has no field {name!r}; it has {known}")
            return self.raw[position]

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Event) else NotImplemented

    def __repr__(self) -> str:
        fields = [_show(name, value) for name, value in self.fields().items() if not _is_default(name, value)]
        return " ".join([clock_text(self.at), self.kind, *fields])


def began_at(raw_events: Sequence[RawEvent], test: str | None = None) -> int:
    """Return the place at which a test began, or the last one without a name; 0 if no mark of it is left."""
    return max((at for at, raw in enumerate(raw_events) if raw[0] == TEST_START and test in (None, raw[-1])), default=0)


def reason_of(kind: str, reason: object) -> object:
    """Return why something happened, in the words of x-death where a copy ended: rejected, expired, maxlen."""
    return kind if kind in WITHOUT_REASON else reason


def as_python(value: object) -> object:
    """Return the value of a field, a field table as a mapping."""
    # Most values are simple. To ask one whether it is a table takes longer than all else that is done with it.
    if value is None or isinstance(value, str | int):
        return value
    return value.to_python() if isinstance(value, PlainValue) else value


def clock_text(at: int) -> str:
    """Return an instant as the UTC time of day, to the microsecond."""
    seconds, microseconds = divmod(at, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours % 24:02}:{minute:02}:{second:02}.{microseconds:06}"


def printable(text: str) -> str:
    """Return a text that any terminal and report can show: bytes that are not UTF-8 become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def named(message: TracedMessage) -> str:
    """Return a message as every report names it: by its number, its exchange, its routing key and its content."""
    return f"#{message.id} ({message.exchange!r}, {message.routing_key!r}, {content(message)})"


def content(message: TracedMessage) -> str:
    """Return what a message says in a few characters: the task that headers name, its retry and time, and its body."""
    headers = message.properties.headers
    if headers is None or not any(name in headers for name in _TASK_HEADERS) or not isinstance(headers, PlainValue):
        return preview(message.body)
    plain = cast("dict[str, object]", headers.to_python())
    retries, due = plain.get("retries"), eta_of(plain)
    more = [f"retry {retries}"] if isinstance(retries, int) and retries else []
    more += [] if due is None else [f"due {due:%Y-%m-%d %H:%M:%S%z}"]
    more_text = f" ({', '.join(more)})" if more else ""
    return f"task {task_of(plain)!r}{more_text} {preview(message.body)}"


def eta_of(headers: Mapping[str, object]) -> datetime | None:
    """Return when Celery is to run the task that headers name; None if at once, or if they name no task."""
    eta = headers.get("eta")
    if task_of(headers) is None or not isinstance(eta, str):
        return None
    from datetime import UTC, datetime

    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return None
    return due if due.tzinfo else due.replace(tzinfo=UTC)


def task_of(headers: Mapping[str, object]) -> object:
    """Return the task that headers name, as those of Celery and taskiq do; None if they name none."""
    return next((headers[name] for name in _TASK_HEADERS if name in headers), None)


def preview(body: bytes, limit: int = _PREVIEW_LENGTH) -> str:
    """Return a body in a few characters: its text if it is UTF-8, else its bytes, cut if it is long."""
    start = body[: limit * 4]
    try:
        shown = repr(start.decode("utf-8"))
    except UnicodeDecodeError as error:
        # If our own limit cuts a character in half, the body may still be text.
        is_cut = len(start) < len(body) and error.start >= len(start) - 3
        shown = repr(start[: error.start].decode("utf-8")) if is_cut else repr(start)
    if len(shown) <= limit + 2 and len(start) == len(body):
        return shown
    return f"{shown[:limit]}... ({len(body)} bytes)"


def _is_default(name: str, value: object) -> bool:
    if value is None or value is False:
        return True
    return (name, value) == ("vhost", "/") or (name == "arguments" and not value)


def _show(name: str, value: object) -> str:
    if name != "message":
        # A field table would show its wire types, which do not help in a report.
        return f"{name}={as_python(value)!r}"
    return f"message={named(cast('TracedMessage', value))}"
