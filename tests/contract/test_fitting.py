"""The fast way to compare a message with a shape: it accepts no message that adds something, and costs little."""

from __future__ import annotations

import json
import time
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_leveret.contract.fitting import message_fits
from pytest_leveret.contract.lock import Message

from leveret.trace.shapes import Shape, add_message
from tests.properties.test_shapes import VALUES

PROPERTIES = {"content_type": "application/json", "delivery_mode": 2, "headers": {"tenant": "acme"}}


def order(number: int) -> bytes:
    """Return an order of about one kilobyte."""
    lines = [{"sku": f"a-{number}", "quantity": at, "price": f"{at}.50", "title": "A plain title"} for at in range(5)]
    address = {"street": f"Long Street {number}", "city": "Berlin", "zip": "10115", "country": "DE"}
    customer = {"id": str(uuid.UUID(int=number)), "email": f"ada{number}@example.com", "address": address}
    order = {"id": str(uuid.UUID(int=number)), "at": "2024-05-01T10:00:00Z", "customer": customer, "lines": lines}
    return json.dumps(
        {**order, "status": "open", "currency": "EUR", "total": "12.50", "note": "more text " * 20}
    ).encode()


@settings(max_examples=60)
@given(st.lists(VALUES, min_size=1, max_size=4), VALUES)
def test_a_message_that_fits_adds_nothing(bodies: list[object], body: object) -> None:
    message = Message()
    for each in bodies:
        add_message(message.shape, json.dumps(each).encode(), PROPERTIES)
    before = message.fields()

    if message_fits(message.shape)(json.dumps(body).encode(), PROPERTIES):
        add_message(message.shape, json.dumps(body).encode(), PROPERTIES)

    assert message.fields() == before


def test_messages_like_those_before_fit_and_others_do_not() -> None:
    shape = Shape()
    for number in range(10):
        add_message(shape, order(number), PROPERTIES)
    fits = message_fits(shape)

    assert fits(order(11), PROPERTIES)
    assert not fits(order(11).replace(b'"12.50"', b"12.50"), PROPERTIES)
    assert not fits(order(11).replace(b'"open"', b'"lost"'), PROPERTIES)
    assert not fits(order(11), {**PROPERTIES, "headers": {}})
    assert not fits(order(11), {**PROPERTIES, "delivery_mode": 1})


def test_a_message_of_one_kilobyte_costs_little_more_than_to_read_its_json() -> None:
    bodies = [order(number) for number in range(300)]
    shape = Shape()
    for body in bodies:
        add_message(shape, body, PROPERTIES)
    fits = message_fits(shape)

    # The least of several turns, because other processes only add to it.
    reading = min(_cpu_time(lambda: [json.loads(body) for body in bodies]) for _ in range(7))
    fitting = min(_cpu_time(lambda: [fits(body, PROPERTIES) for body in bodies]) for _ in range(7))

    assert fitting < 3 * reading


def _cpu_time(work: object) -> float:
    began = time.process_time()
    assert callable(work)
    work()
    return time.process_time() - began
