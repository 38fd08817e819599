"""The shape of messages: what of them is kept, and what never is."""

from __future__ import annotations

import json

import pytest

from leveret.trace.shapes import Shape, key_pattern, message_name
from tests.trace.message_shapes import message_shape


def body_of(*bodies: object) -> Shape:
    shape = Shape()
    for body in bodies:
        shape.merge(message_shape(json.dumps(body).encode(), {"content_type": "application/json"}))
    return shape.fields["body"]


def test_a_field_that_some_messages_lack_is_optional_and_one_that_may_be_null_says_so() -> None:
    body = body_of({"id": 1, "note": None}, {"id": 2, "note": "x", "total": 1.5}, {"id": 3, "note": None})

    assert [name for name in body.fields if body.is_optional(name)] == ["total"]
    assert body.fields["note"].types == {"null": 2, "string": 1}
    assert body.fields["id"].types == {"integer": 3}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "uuid"),
        ("2024-05-01T10:00:00Z", "date-time"),
        ("2024-05-01T10:00:00.123456+02:00", "date-time"),
        ("2024-05-01", "date"),
        ("10:30", "time"),
        ("-12.50", "decimal"),
        ("a.b@c.example", "email"),
        ("amqp://example.com/y", "uri"),
        ("free text", ""),
        ("", ""),
    ],
)
def test_a_text_has_a_format(text: str, form: str) -> None:
    assert body_of({"x": text}).fields["x"].formats == {form: 1}


def test_a_handful_of_words_that_come_often_is_an_enumeration_where_the_name_of_the_field_says_so() -> None:
    body = body_of(*({"status": status, "buyer": status} for status in ("paid", "open", "paid", "open") * 2))

    assert body.fields["status"].enumeration == ("open", "paid")
    assert body.fields["buyer"].enumeration == ()


def test_two_messages_are_too_few_for_an_enumeration() -> None:
    status = body_of({"status": "paid"}, {"status": "paid"}).fields["status"]

    assert status.enumeration == ()
    assert status.is_word


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "4711"),
        ("status", "ada@example.com"),
        ("status", "Ada Lovelace"),
        ("status", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
        ("status", "eyJhbGciOiJIUzI"),
        ("status", "correcthorsebatterystaple"),
        ("name", "ADA"),
        ("customer", "ada"),
        ("password", "HUNTER"),
        ("api_token", "SECRET"),
        ("token_type", "BEARER"),
        ("voucher_code", "SUMMER"),
    ],
)
def test_what_may_be_a_secret_a_name_or_a_number_is_no_value_of_an_enumeration(name: str, value: str) -> None:
    body = body_of(*[{name: value}] * 50)

    assert body.fields[name].enumeration == ()
    assert value not in repr(body)


def test_keys_that_are_data_have_a_mark_in_their_place() -> None:
    body = body_of({"3f2504e0-4f89-41d3-9a0c-0305e82c3301": 1, "ada@example.com": 2, "17": 3, "Ada Lovelace": 4})

    assert sorted(body.fields) == ["{key}", "{number}", "{uuid}"]


@pytest.mark.parametrize(
    ("body", "kind"), [(b"", "empty"), (b"hello", "text"), (b"\x80\x04\x95", "bytes"), (b"{not json", "text")]
)
def test_a_body_that_is_no_json_has_a_shape(body: bytes, kind: str) -> None:
    assert message_shape(body, {}).fields["body"].types == {kind: 1}


def test_properties_have_their_media_type_and_mode_as_formats() -> None:
    properties = message_shape(b"{}", {"content_type": "application/json", "delivery_mode": 2}).fields["properties"]

    assert properties.fields["content_type"].forms == ("application/json",)
    assert properties.fields["delivery_mode"].forms == ("persistent",)


def test_the_arguments_of_a_task_are_fields() -> None:
    headers = {"task": "shop.charge", "id": "x"}
    celery = message_shape(b'[[1, "a"], {"fast": true}, {"chain": null}]', {"headers": headers})

    assert [path for path, _, _ in celery.fields["body"].walk()] == [
        *("", "args", "args.arg0", "args.arg1", "kwargs", "kwargs.fast")
    ]
    assert message_name(b"", {"headers": headers}) == "shop.charge"
    assert message_name(b'{"actor_name": "charge", "args": [], "kwargs": {}}', {}) == "charge"
    assert message_name(b"{}", {"type": "order.created"}) == "order.created"
    assert message_name(b"{}", {}) == ""


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        ("order.created", "order.created"),
        ("order.3f2504e0-4f89-41d3-9a0c-0305e82c3301.paid", "order.{uuid}.paid"),
        ("order.17", "order.{number}"),
        ("reply_3f2504e04f8941d39a0c0305e82c3301", "reply_{uuid}"),
        ("q-deadbeef0123", "q-{hex}"),
        ("user.ada@example.com.left", "{email}"),
        ("session.01ARZ3NDEKTSV4RRFFQ69G5FAV", "session.{id}"),
        ("amq.gen-JzTY20BRgKO", "amq.gen-*"),
        ("orders.v2", "orders.v2"),
    ],
)
def test_the_generated_parts_of_a_routing_key_have_marks_in_their_place(key: str, pattern: str) -> None:
    assert key_pattern(key) == pattern
