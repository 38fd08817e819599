"""The event kinds, and the object that names the fields of a raw tuple."""

from dataclasses import dataclass, field

import pytest

from leveret import Broker
from leveret.core.wire.properties import Properties
from leveret.trace import events
from leveret.trace.events import FIELDS, KINDS, Event, preview


@dataclass
class Message:
    id: int = 7
    exchange: str = "orders"
    routing_key: str = "order.created"
    body: bytes = b'{"id": 7}'
    properties: Properties = field(default_factory=Properties)


DELIVERED = (events.DELIVERED, 3_661_000_001, "/", 1, 2, "orders.work", Message(), 9, "ctag1", 4, False, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_kind_is_an_attribute(kind):
    values = tuple(f"value of {name}" for name in FIELDS[kind])

    event = Event((kind, 17, *values))

    assert (event.kind, event.at) == (kind, 17)
    assert event.fields() == {name: f"value of {name}" for name in FIELDS[kind]}
    assert [getattr(event, name) for name in FIELDS[kind]] == list(values)


@pytest.mark.parametrize("name", sorted({name for names in FIELDS.values() for name in names}))
def test_every_field_of_any_kind_has_a_type(name):
    assert name in Event.__annotations__


def test_a_field_of_another_kind_is_refused_with_the_known_ones():
    with pytest.raises(
        AttributeError, match="a 'delivered' event has no field 'reason'; it has kind, at, vhost, conn, chan"
    ):
        _ = Event(DELIVERED).reason


def test_get_answers_none_for_a_field_of_another_kind():
    event = Event(DELIVERED)

    assert event.get("queue") == "orders.work"
    assert event.get("reason") is None


def test_an_event_prints_in_one_line_without_empty_fields():
    assert repr(Event(DELIVERED)) == (
        "01:01:01.000001 delivered conn=1 chan=2 queue='orders.work' "
        "message=#7 ('orders', 'order.created', '{\"id\": 7}') copy=9 consumer='ctag1' tag=4 count=0"
    )


def test_events_of_equal_tuples_are_equal():
    assert Event(DELIVERED) == Event(DELIVERED)
    assert Event(DELIVERED) != Event((*DELIVERED[:-1], 1))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", "''"),
        (b"plain", "'plain'"),
        ("späte".encode(), "'späte'"),
        (b"\x00\xff", "b'\\x00\\xff'"),
        (b"x" * 1000, "'" + "x" * 59 + "... (1000 bytes)"),
    ],
)
def test_a_body_is_previewed_as_text_when_it_is_text(body, shown):
    assert preview(body) == shown


def test_a_character_cut_by_the_preview_does_not_make_a_text_binary():
    assert preview(b"x" + "ü".encode() * 500) == "'x" + "ü" * 58 + "... (1001 bytes)"


@pytest.mark.parametrize("library", [{"task": "shop.invoice"}, {"task_id": "1", "task_name": "shop.invoice"}])
def test_a_message_that_names_a_task_is_shown_with_it(library: dict[str, str]) -> None:
    with Broker(checks="off") as broker:
        broker.publish("", "celery", b"[[7], {}]", headers=library)

        assert "('', 'celery', task 'shop.invoice' '[[7], {}]')" in str(broker.events.query("published")[0])
