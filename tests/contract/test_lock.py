"""The lock: a text that reads as it was written, and that only grows when parts of it are merged into it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_leveret.contract.lock import (
    Declared,
    Lock,
    LockedBinding,
    LockedConsumer,
    LockedMessage,
    MessageKey,
    parse,
    read,
)

from tests.properties.test_shapes import VALUES
from tests.trace.message_shapes import message_shape

ORDERS = MessageKey("/", "orders", "order.created", "")
BODIES: list[object] = [
    {"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "status": "paid", "total": "10.50", "lines": [{"sku": "a-1"}]},
    {"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3302", "status": "open", "total": "9", "lines": [], "a.b": None},
] * 4


def lock_of(bodies: list[object]) -> Lock:
    lock = Lock()
    message = lock.messages[ORDERS] = LockedMessage({"shop"})
    message.consumers["billing", "billing"] = LockedConsumer("billing", "billing", {"acked"}, {"body.total": "decimal"})
    for body in bodies:
        properties = {"content_type": "application/json", "delivery_mode": 2, "headers": {"tenant": "acme"}}
        message.shape.merge(message_shape(json.dumps(body).encode(), properties))
    lock.exchanges["/", "orders"] = Declared({"topic"}, {()})
    lock.queues["/", "billing"] = Declared(set(), {(("x-dead-letter-exchange", "dead"), ("x-message-ttl", 60_000))})
    lock.bindings.add(LockedBinding("/", "orders", "queue", "billing", "order.*"))
    return lock


def test_the_file_has_a_line_for_each_field() -> None:
    assert lock_of(BODIES).text() == (
        """\
# The messages that the tests have shown. `pytest --leveret-contract=write` writes it; keep it in git.
version = 2

[[message]]
exchange = "orders"
routing_key = "order.created"
publishers = ["shop"]

[message.body]
"$" = "object"
"a\\\\.b" = "optional null"
id = "uuid"
lines = "array"
"lines[]" = "object"
"lines[].sku" = "string"
status = "enum(open, paid)"
total = "decimal"

[message.headers]
tenant = "string"

[message.properties]
content_type = "application/json"
delivery_mode = "persistent"

[[message.consumer]]
queue = "billing"
client = "billing"
settled = ["acked"]

[message.consumer.needs]
"body.total" = "decimal"

[[exchange]]
name = "orders"
type = "topic"

[[queue]]
name = "billing"
arguments = { x-dead-letter-exchange = "dead", x-message-ttl = 60000 }

[[binding]]
exchange = "orders"
to_queue = "billing"
routing_key = "order.*"
"""
    )


@settings(max_examples=25)
@given(st.lists(VALUES, min_size=1, max_size=5))
def test_a_lock_that_was_read_has_the_text_that_was_written(bodies: list[object]) -> None:
    text = lock_of(bodies).text()

    assert parse(text).text() == text


@settings(max_examples=25)
@given(st.lists(VALUES, min_size=1, max_size=6), st.data())
def test_a_part_of_the_tests_does_not_change_what_all_have_written(bodies: list[object], data: st.DataObject) -> None:
    text = lock_of(bodies).text()
    part = data.draw(st.lists(st.sampled_from(bodies), min_size=1, max_size=len(bodies), unique_by=id))

    lock = parse(text)
    lock.merge(lock_of(part))

    assert lock.text() == text


@settings(max_examples=25)
@given(st.lists(VALUES, min_size=1, max_size=6), st.data())
def test_what_workers_have_seen_apart_is_what_one_process_sees(bodies: list[object], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(bodies)))

    lock = Lock()
    for part in (bodies[cut:], bodies[:cut]):
        lock.merge(pickle.loads(pickle.dumps(lock_of(part))))

    assert lock.text() == lock_of(bodies).text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version = 1\n", "version = 1, and this leveret reads version 2"),
        ("nonsense\n", "Expected '='"),
        ("version = 2\n[[message]]\nexchange = 'x'\n", "an entry is incomplete: 'routing_key'"),
        (
            "version = 2\n[[message]]\nexchange = 'x'\nrouting_key = 'k'\n[message.body]\n'$' = 'number?'\n",
            "a field is 'number?'",
        ),
    ],
)
def test_a_file_that_is_no_lock_is_refused_with_its_name(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "messages.lock"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"messages\.lock is no lock") as refused:
        read(path)

    assert reason in str(refused.value)


@pytest.mark.parametrize(("sets", "kinds"), [(16, 16), (17, 1)])
def test_messages_that_are_sent_with_too_many_sets_of_headers_are_one_kind(sets: int, kinds: int) -> None:
    lock = Lock()
    for number in range(sets):
        headers = json.dumps({"kind": f"kind {number}"})
        lock.messages[MessageKey("/", "amq.headers", "", "", headers)] = LockedMessage({"shop"})

    assert len(lock.folded().messages) == kinds
