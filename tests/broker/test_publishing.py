"""Messages that the test publishes: they obey the rules for clients, and an error points to the test's own line."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pika
import pytest

from leveret import Broker, RefusedError, Timestamp
from leveret.core.wire.values import Field

LIMIT = 100
STAMPED = "message_interceptors.incoming.set_header_timestamp.overwrite"


def nested(levels: int) -> dict[str, object]:
    """Return headers with this many nested tables."""
    headers: dict[str, object] = {"leaf": 1}
    for _ in range(levels):
        headers = {"table": headers}
    return headers


# Publishes that are refused to a client: exchange, routing key, body, properties.
REFUSED = {
    "missing exchange": ("nowhere", "k", b"a", {}),
    "internal exchange": ("amq.rabbitmq.trace", "k", b"a", {}),
    "oversize": ("", "q", bytes(LIMIT + 1), {}),
    "oversize to a missing exchange": ("nowhere", "k", bytes(LIMIT + 1), {"expiration": "x"}),
    "missing exchange and bad expiration": ("nowhere", "k", b"a", {"expiration": "x"}),
    "expiration without a number": ("", "q", b"a", {"expiration": "soon"}),
    "empty expiration": ("", "q", b"a", {"expiration": ""}),
    "expiration with a unit": ("", "q", b"a", {"expiration": "10ms"}),
    "negative expiration": ("", "q", b"a", {"expiration": "-1"}),
    "expiration of centuries": ("", "q", b"a", {"expiration": "9999999999999"}),
    "CC of another type": ("", "q", b"a", {"headers": {"CC": 5}}),
    "BCC of another type": ("", "q", b"a", {"headers": {"BCC": "q"}}),
    "bad expiration and bad CC": ("", "q", b"a", {"expiration": "x", "headers": {"CC": 5}}),
    "direct reply without a consumer": ("", "q", b"a", {"reply_to": "amq.rabbitmq.reply-to"}),
    "headers nested too deep": ("", "q", b"a", {"headers": nested(70)}),
}
# 4.x accepts any delivery mode.
REFUSED_BY_3_10 = {
    "delivery mode": ("", "q", b"a", {"delivery_mode": 7}),
    "bad delivery mode and bad expiration": ("", "q", b"a", {"delivery_mode": 7, "expiration": "x"}),
    "bad delivery mode and bad CC": ("", "q", b"a", {"delivery_mode": 7, "headers": {"CC": 5}}),
}
CASES = [
    (version, name)
    for version in ("4.3", "4.0", "3.10")
    for name in (*REFUSED, *(REFUSED_BY_3_10 if version == "3.10" else ()))
]


def refused_to_client(broker: Broker, exchange: str, key: str, body: bytes, properties: dict) -> tuple[int, str]:
    """Return the code and text with which the broker closes a real client's channel or connection."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    with pytest.raises((pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)) as refused:
        channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))
    if connection.is_open:
        connection.close()
    return refused.value.reply_code, refused.value.reply_text


@pytest.mark.parametrize(("version", "name"), CASES)
def test_the_test_is_refused_what_a_client_is_refused(version: str, name: str) -> None:
    exchange, key, body, properties = {**REFUSED, **REFUSED_BY_3_10}[name]
    with Broker(rabbitmq=version, settings={"max_message_size": LIMIT}) as broker:
        broker.declare_queue("q")
        expected = refused_to_client(broker, exchange, key, body, properties)

        with pytest.raises(RefusedError) as refused:
            broker.publish(exchange, key, body, **properties)

        assert (refused.value.code, str(refused.value)) == expected
        broker.assert_not_published()
        assert not broker.queue("q").ready


def test_an_interceptor_stamps_what_the_test_publishes_as_it_stamps_a_clients() -> None:
    with Broker(settings={STAMPED: True}) as broker:
        broker.declare_queue("q")
        with closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
            connection.channel().basic_publish("", "q", b"client", pika.BasicProperties(timestamp=1))
        broker.publish("", "q", b"test", timestamp=1)

        of_client, of_test = broker.queue("q").ready

        assert of_client.headers is not None
        assert list(of_test.headers) == list(of_client.headers) == ["timestamp_in_ms"]
        assert of_test.timestamp == of_client.timestamp


def test_a_responders_reply_is_stamped_too() -> None:
    with Broker(settings={STAMPED: True}) as broker:
        broker.declare_queue("replies")
        broker.respond("requests", b"pong")
        broker.publish("", "requests", b"ping", reply_to="replies")

        (reply,) = broker.queue("replies").ready

        assert list(reply.headers) == ["timestamp_in_ms"]


def test_3_10_refuses_the_test_an_unknown_delivery_mode() -> None:
    with Broker(rabbitmq="3.10") as broker, pytest.raises(RefusedError, match="delivery_mode_unknown,7") as refused:
        broker.publish("", "q", delivery_mode=7)

    assert refused.value.code == 406


def test_the_test_may_publish_for_any_user(broker: Broker) -> None:
    broker.declare_queue("q")
    broker.publish("", "q", b"a", user_id="somebody")

    assert broker.queue("q").ready[0].user_id == "somebody"


NOT_ENCODABLE = "a\ud800"
LONG = "k" * 256

WRONG_CALLS = [
    (("shop", b"a"), {}, TypeError, [r"publish\(\): routing_key", "b'a'", r'publish\("shop", "key", b"a"\)']),
    (("shop", {"id": 1}), {}, TypeError, [r"publish\(\): routing_key", r'publish\("shop", "key", json=\{"id": 1\}\)']),
    (("shop", b"key", b"a"), {}, TypeError, [r"publish\(\): routing_key must be text, not b'key'$"]),
    ((b"shop", "key"), {}, TypeError, [r"publish\(\): exchange", "b'shop'"]),
    (("", LONG), {}, ValueError, [r"publish\(\): routing_key", "256 bytes", "255"]),
    ((LONG, "key"), {}, ValueError, [r"publish\(\): exchange", "256 bytes", "255"]),
    (("", "ü" * 128), {}, ValueError, [r"publish\(\): routing_key", "256 bytes"]),
    (("", NOT_ENCODABLE), {}, ValueError, [r"publish\(\): routing_key", r"'a\\ud800'"]),
    ((NOT_ENCODABLE, "key"), {}, ValueError, [r"publish\(\): exchange", r"'a\\ud800'"]),
    (("", "q", NOT_ENCODABLE), {}, ValueError, [r"publish\(\): body", r"'a\\ud800'"]),
    (("", "q"), {"headers": {LONG: 1}}, ValueError, [r"publish\(\): header name", "256 bytes", "255"]),
    (("", "q"), {"headers": {NOT_ENCODABLE: 1}}, ValueError, [r"publish\(\): header name", r"'a\\ud800'"]),
    (("", "q"), {"headers": {"x": NOT_ENCODABLE}}, ValueError, [r"publish\(\): headers\['x'\]", r"'a\\ud800'"]),
    (("", "q"), {"headers": {"x": {LONG: 1}}}, ValueError, [r"publish\(\): headers\['x'\]", "kkk"]),
    (("", "q"), {"headers": {"x": object}}, TypeError, [r"publish\(\): headers\['x'\]", "class 'object'"]),
    (("", "q"), {"headers": {"x": 2**64}}, ValueError, [r"publish\(\): headers\['x'\]", str(2**64)]),
    (("", "q"), {"headers": {"x": float("nan")}}, ValueError, [r"publish\(\): headers\['x'\]", "nan"]),
    (("", "q"), {"headers": {5: 1}}, TypeError, [r"publish\(\): header name", "5"]),
    (("", "q"), {"headers": "x"}, TypeError, [r"publish\(\): headers", "'x'"]),
    (("", "q"), {"headers": nested(100_000)}, ValueError, [r"publish\(\): headers\['table'\]", "nested"]),
    (("", "q"), {"message_id": LONG}, ValueError, [r"publish\(\): message_id", "256 bytes"]),
    (("", "q"), {"message_id": 5}, TypeError, [r"publish\(\): message_id", "5"]),
    (("", "q"), {"priority": "high"}, TypeError, [r"publish\(\): priority", "'high'"]),
    (("", "q"), {"priority": 256}, ValueError, [r"publish\(\): priority", "256"]),
    (("", "q"), {"timestamp": -1}, ValueError, [r"publish\(\): timestamp", "-1"]),
    (("", "q"), {"prioritty": 1}, TypeError, [r"publish\(\)", "'prioritty'", "did you mean 'priority'"]),
    (("", "q", object()), {}, TypeError, ["body"]),
]


@pytest.mark.parametrize(("given", "named", "error", "said"), WRONG_CALLS)
def test_an_invalid_publish_names_its_value_and_publishes_nothing(
    broker: Broker, given: tuple, named: dict, error: type[Exception], said: list[str]
) -> None:
    broker.declare_queue("q")
    broker.declare_exchange("shop", "fanout")
    broker.bind_queue("q", "shop")

    for text in said:
        with pytest.raises(error, match=text):
            broker.publish(*given, **named)

    broker.assert_not_published()
    assert not broker.queue("q").ready


def test_bytes_that_are_not_text_can_be_published_again(broker: Broker) -> None:
    broker.declare_queue("a\udcff")
    broker.publish("", "a\udcff", b"a", message_id="\udcff", headers={"\udcff": "\udcff"})

    (message,) = broker.queue("a\udcff").ready
    broker.publish("", message.routing_key, message_id=message.message_id, headers=message.headers)

    assert len(broker.queue("a\udcff").ready) == 2


def test_a_header_holds_a_timestamp_that_no_calendar_has(broker: Broker) -> None:
    broker.declare_queue("q")

    broker.publish("", "q", b"a", headers={"until": Timestamp(2**63)})
    (first,) = broker.queue("q").ready
    broker.publish("", "q", b"b", headers=first.headers)

    tables = [message.source.properties.headers for message in broker.queue("q").ready]
    assert [table and table.get("until") for table in tables] == [Field("T", 2**63)] * 2


@pytest.mark.parametrize("moment", [Timestamp(-1), datetime(1969, 12, 31, tzinfo=UTC), Timestamp(2**64)])
def test_a_moment_that_no_timestamp_holds_is_named(broker: Broker, moment: object) -> None:
    with pytest.raises(ValueError, match=r"headers\['at'\] cannot be a header: -?\d+ seconds since 1970 do not fit"):
        broker.publish("", "q", b"", headers={"at": moment})
