"""Valid conversations that use every method leveret handles, as lists of frames.

Each conversation opens a connection and two channels first. ``test_hostile.py`` checks that no method is left out.
"""

from __future__ import annotations

from tests.semantics import codec
from tests.semantics.client import CAPABILITIES

Conversation = tuple[bytes, ...]


def method(channel: int, name: str, **fields: object) -> bytes:
    """Return the frame of a method."""
    return codec.frame(codec.METHOD, channel, codec.encode_method(name, **fields))


def publish(
    channel: int,
    routing_key: str,
    body: bytes = b"body",
    exchange: str = "",
    *,
    mandatory: bool = False,
    **properties: object,
) -> tuple[bytes, ...]:
    """Return the frames of a publish, with a body frame for each 100 octets."""
    parts = [body[at : at + 100] for at in range(0, len(body), 100)]
    header = codec.encode_header(len(body), codec.encode_properties(**properties))
    return (
        method(channel, "basic.publish", exchange=exchange, routing_key=routing_key, mandatory=mandatory),
        codec.frame(codec.HEADER, channel, header),
        *(codec.frame(codec.BODY, channel, part) for part in parts),
    )


def _declare(queue: str, **arguments: object) -> bytes:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return method(1, "queue.declare", queue=queue, durable=True, arguments=named)


OPENING: Conversation = (
    codec.PROTOCOL_HEADER,
    method(
        0,
        "connection.start-ok",
        client_properties={"product": "hostile", "capabilities": CAPABILITIES},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    ),
    method(0, "connection.tune-ok", channel_max=2047, frame_max=131_072, heartbeat=60),
    method(0, "connection.open", virtual_host="/"),
    method(1, "channel.open"),
    method(2, "channel.open"),
)
_CLOSING: Conversation = (
    method(1, "channel.close", reply_code=200, reply_text="bye"),
    method(0, "connection.close", reply_code=200, reply_text="bye"),
)
_HEADERS = {
    "text": "v",
    "number": 7,
    "large": 2**40,
    "flag": True,
    "nothing": None,
    "float": 1.5,
    "table": {"inner": {"more": [1, {"deep": "x"}]}},
    "list": ["a", 1, [2, [3]]],
    "when": codec.Field("T", 1_700_000_000),
    "decimal": codec.Field("D", (2, 314)),
    "octets": codec.Field("x", b"\0\xff"),
}
_ALL_PROPERTIES: dict[str, object] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": _HEADERS,
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 1_700_000_000,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
}
_CLASSIC: Conversation = (
    method(1, "exchange.declare", exchange="x", type="topic", durable=True, arguments={"alternate-exchange": "y"}),
    method(1, "exchange.declare", exchange="y", type="fanout"),
    _declare("q", dead_letter_exchange="x", dead_letter_routing_key="dead", max_length=5, message_ttl=60_000),
    _declare("p", max_priority=5, overflow="reject-publish", max_length_bytes=1000, single_active_consumer=True),
    method(1, "queue.bind", queue="q", exchange="x", routing_key="a.#"),
    method(1, "exchange.bind", destination="y", source="x", routing_key="*.b"),
    *publish(1, "a.b", exchange="x", **_ALL_PROPERTIES),
    *publish(1, "q", b"x" * 350, headers={"CC": ["p", "q"], "BCC": ["p"]}),
    *publish(1, "p", priority=9, expiration="0"),
    method(1, "basic.get", queue="q"),
    method(1, "basic.qos", prefetch_count=2),
    method(1, "basic.consume", queue="q", consumer_tag="c", arguments={"x-priority": 3}),
    method(1, "basic.ack", delivery_tag=1),
    method(1, "basic.nack", delivery_tag=2, multiple=True, requeue=True),
    method(1, "basic.reject", delivery_tag=3),
    method(1, "basic.recover", requeue=True),
    method(1, "basic.recover-async", requeue=True),
    method(1, "channel.flow", active=True),
    method(1, "basic.cancel", consumer_tag="c"),
    method(1, "queue.purge", queue="p"),
    method(1, "queue.unbind", queue="q", exchange="x", routing_key="a.#"),
    method(1, "exchange.unbind", destination="y", source="x", routing_key="*.b"),
    method(1, "queue.delete", queue="q", if_unused=True, if_empty=True),
    method(1, "exchange.delete", exchange="x", if_unused=True),
)
_QUORUM: Conversation = (
    _declare("qq", queue_type="quorum", delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key="dead"),
    _declare("dead", queue_type="quorum", max_length=3),
    method(1, "confirm.select"),
    *(part for number in range(3) for part in publish(1, "qq", b"%d" % number, priority=number, mandatory=True)),
    method(1, "basic.consume", queue="qq", consumer_tag="c"),
    method(1, "basic.reject", delivery_tag=1, requeue=True),
    method(1, "basic.nack", delivery_tag=2, multiple=True),
    *publish(1, "lost", mandatory=True),
    method(1, "queue.delete", queue="qq"),
)
_STREAM: Conversation = (
    _declare("s", queue_type="stream", max_length_bytes=100_000, max_age="1D"),
    *(part for number in range(4) for part in publish(1, "s", b"%d" % number, headers={"n": number})),
    method(1, "basic.qos", prefetch_count=2),
    method(1, "basic.consume", queue="s", consumer_tag="c", arguments={"x-stream-offset": "first"}),
    method(1, "basic.ack", delivery_tag=2, multiple=True),
    method(1, "basic.consume", queue="s", consumer_tag="d", arguments={"x-stream-offset": 1, "x-stream-filter": ["a"]}),
    method(1, "basic.cancel", consumer_tag="c"),
)
_TRANSACTION: Conversation = (
    _declare("t"),
    method(1, "tx.select"),
    *publish(1, "t", b"one", **_ALL_PROPERTIES),
    method(1, "tx.commit"),
    method(1, "basic.get", queue="t"),
    method(1, "basic.ack", delivery_tag=1),
    *publish(1, "nowhere", b"two", mandatory=True),
    method(1, "tx.rollback"),
    method(1, "tx.commit"),
)
_EXCHANGES: Conversation = (
    _declare("e"),
    method(1, "exchange.declare", exchange="h", type="headers", durable=True),
    method(1, "queue.bind", queue="e", exchange="h", arguments={"x-match": "any-with-x", "x-a": 1, "b": None}),
    *publish(1, "", exchange="h", headers={"x-a": 1, "b": "y"}),
    method(1, "exchange.declare", exchange="i", type="x-consistent-hash", arguments={"hash-header": "k"}),
    method(1, "queue.bind", queue="e", exchange="i", routing_key="10"),
    *publish(1, "k1", exchange="i", headers={"k": "v"}),
    method(1, "exchange.declare", exchange="j", type="x-recent-history", arguments={"x-recent-history-length": 2}),
    *publish(1, "", exchange="j"),
    method(1, "queue.bind", queue="e", exchange="j"),
    method(1, "exchange.declare", exchange="amq.topic", passive=True),
    method(1, "exchange.declare", exchange="k", type="direct", auto_delete=True, internal=True, nowait=True),
)
_REQUESTS: Conversation = (
    method(1, "queue.declare", queue="", exclusive=True),
    method(1, "basic.consume", queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True),
    *publish(1, "", b"request", reply_to="amq.rabbitmq.reply-to"),
    method(1, "basic.get", queue="", no_ack=True),
    *publish(2, "amq.rabbitmq.reply-to.g1h2AAxub2RlQGhvc3QAAAAAAAAAAAAAAAA=.abc", b"reply"),
    method(2, "queue.declare", queue="amq.rabbitmq.reply-to.xxxx", passive=True),
    method(2, "channel.close-ok"),
)
_ODDITIES: Conversation = (
    method(1, "access.request", realm="/data", exclusive=False, passive=True, active=True, write=True, read=True),
    method(1, "basic.credit", consumer_tag="c", credit=5),
    method(1, "basic.cancel-ok", consumer_tag="c"),
    method(1, "channel.flow-ok", active=True),
    codec.frame(codec.HEARTBEAT, 0, b""),
    method(0, "connection.update-secret", new_secret="s", reason="rotated"),
    method(0, "connection.secure-ok", response="x"),
    method(0, "connection.close-ok"),
    method(1, "channel.open"),
)
CORPUS: tuple[Conversation, ...] = tuple(
    (*OPENING, *talk, *_CLOSING)
    for talk in (_CLASSIC, _CLASSIC, _QUORUM, _STREAM, _TRANSACTION, _EXCHANGES, _REQUESTS, _ODDITIES)
)


def method_ids() -> set[tuple[int, int]]:
    """Return the methods that the corpus contains, as their two ids."""
    frames = [frame for conversation in CORPUS for frame in conversation[1:] if frame[0] == codec.METHOD]
    return {(int.from_bytes(frame[7:9]), int.from_bytes(frame[9:11])) for frame in frames}
