"""What is compared of the values that code sends: their type, their place among others, and what they came from."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import pika
import pytest

from leveret import Broker
from leveret.recording.judging import Outcomes

from .test_replay import declare, running

IDS = [str(uuid.UUID(int=0xABCDEF * 7**36 + number)) for number in range(20)]
OTHER = str(uuid.UUID(int=0xFEDCBA * 7**36))
LINES = [{"sku": "A", "qty": 2}, {"sku": "B", "qty": 3}]
SWAPPED = [{"sku": "A", "qty": 3}, {"sku": "B", "qty": 2}]
Sends = Callable[[dict[str, Any]], list[tuple[str, Any]]]


def hashed(short: int) -> str:
    """Return an address as `--hash` writes it."""
    return f"{hashlib.sha256(str(short).encode()).hexdigest()[:16]}@hashed.invalid"


@pytest.fixture
def path(orders: Callable[..., Path]) -> Path:
    return orders(
        [
            {
                "id": 10_000_000 + number,
                "short": 10_000 + number,
                "uuid": it,
                "mail": hashed(10_000 + number),
                "state": "shipped",
                "mode": "overland",
                "mails": [f"anna{number}@example.com", f"bert{number}@example.com"],
            }
            for number, it in enumerate(IDS)
        ]
    )


@pytest.fixture
def outcomes_of(path: Path) -> Callable[..., Outcomes]:
    """Return a function that replays the orders to code that sends a key and a body, or several, for each.

    `acks_first` is for code of which it is not certain for which message it sends something.
    """

    def run(sends: Sends, *, acks_first: bool = False) -> Outcomes:
        with Broker(checks="all=off") as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            declare(broker)
            broker.declare_exchange("out", "topic")
            channel = connection.channel()

            def on_order(_: object, method: pika.spec.Basic.Deliver, properties: object, body: bytes) -> None:
                if acks_first:
                    channel.basic_ack(method.delivery_tag)
                for key, sent in sends(json.loads(body)):
                    channel.basic_publish("out", key, json.dumps(sent).encode())
                if not acks_first:
                    channel.basic_ack(method.delivery_tag)

            channel.basic_consume("billing", on_order)
            with running(connection):
                return broker.replay(path).play()

    return run


CHANGED: dict[str, tuple[Sends, Sends]] = {
    "a number as text": (lambda o: [("inv", {"order": o["id"]})], lambda o: [("inv", {"order": str(o["id"])})]),
    "one key for all": (lambda o: [(f"inv.{o['uuid']}", {})], lambda o: [(f"inv.{OTHER}", {})]),
    "the key of the next": (lambda o: [(f"inv.{o['id']}", {})], lambda o: [(f"inv.{o['id'] + 1}", {})]),
    "the short key of the next": (lambda o: [(f"inv.{o['short']}", {})], lambda o: [(f"inv.{o['short'] + 1}", {})]),
    "another id in a text": (
        lambda o: [("inv", {"text": f"order {o['uuid']}"})],
        lambda o: [("inv", {"text": f"order {OTHER}"})],
    ),
    "swapped quantities": (lambda o: [("inv", {"lines": LINES})], lambda o: [("inv", {"lines": SWAPPED})]),
    "reversed lines": (lambda o: [("inv", {"lines": LINES})], lambda o: [("inv", {"lines": LINES[::-1]})]),
    "another item": (
        lambda o: [("inv", {"to": o["mails"][0], "text": f"for {o['mails'][0]}"})],
        lambda o: [("inv", {"to": o["mails"][1], "text": f"for {o['mails'][1]}"})],
    ),
    "a number that came with a fraction of zero": (
        lambda o: [("inv", {"order": o["id"]})],
        lambda o: [("inv", {"order": float(o["id"])})],
    ),
    "a number with a fraction of zero": (lambda o: [("inv", {"level": 3})], lambda o: [("inv", {"level": 3.0})]),
    "now as a date": (
        lambda o: [("inv", {"at": datetime.now(UTC).isoformat()})],
        lambda o: [("inv", {"at": datetime.now(UTC).date().isoformat()})],
    ),
    "now without its offset": (
        lambda o: [("inv", {"at": datetime.now(UTC).isoformat()})],
        lambda o: [("inv", {"at": datetime.now(UTC).replace(tzinfo=None).isoformat()})],
    ),
    "now as a number": (
        lambda o: [("inv", {"at": datetime.now(UTC).isoformat()})],
        lambda o: [("inv", {"at": time()})],
    ),
    "now in milliseconds": (
        lambda o: [("inv", {"at": int(time())})],
        lambda o: [("inv", {"at": int(time() * 1000)})],
    ),
    "lines in parts": (
        lambda o: [("inv", {"lines": LINES[:1]})],
        lambda o: [("inv", {"lines": [{"sku": "A"}, {"qty": 2}]})],
    ),
    "another nesting": (
        lambda o: [("inv", {"rows": [[1, 2], [3, 4]]})],
        lambda o: [("inv", {"rows": [[1, 2, 3], [4]]})],
    ),
    "the names of a map": (
        lambda o: [("inv", {"by_user": {"Anna Smith": 3}})],
        lambda o: [("inv", {"by_user": {"Bob Smith": 3}})],
    ),
    "the customer of another order, beside a constant that one order has too": (
        lambda o: [("inv", {"to": o["uuid"]}), ("stats", {"version": 10_001})],
        lambda o: [("inv", {"to": IDS[o["short"] % 10_000 - 1]}), ("stats", {"version": 10_001})],
    ),
    "the hashed address of another order": (
        lambda o: [("inv", {"to": o["mail"]})],
        lambda o: [("inv", {"to": hashed(o["short"] - 1)})],
    ),
    "messages with swapped items": (
        lambda o: [("line", {"to": mail, "number": number}) for number, mail in enumerate(o["mails"])],
        lambda o: [("line", {"to": mail, "number": 1 - number}) for number, mail in enumerate(o["mails"])],
    ),
    "messages with swapped quantities": (
        lambda o: [("line", it) for it in LINES],
        lambda o: [("line", it) for it in SWAPPED],
    ),
}
SAME: dict[str, tuple[Sends, Sends]] = {
    "the order of messages": (lambda o: [("line", it) for it in LINES], lambda o: [("line", it) for it in LINES[::-1]]),
    "ids of its own": (
        lambda o: [(f"inv.{uuid.uuid4()}", {"text": f"made {uuid.uuid4()}", "id": str(uuid.uuid4())})],
        lambda o: [(f"inv.{uuid.uuid4()}", {"text": f"made {uuid.uuid4()}", "id": str(uuid.uuid4())})],
    ),
    "a map in another order": (
        lambda o: [("inv", {"by_user": {"Anna Smith": 3, "Bob Smith": 4}})],
        lambda o: [("inv", {"by_user": {"Bob Smith": 4, "Anna Smith": 3}})],
    ),
    "now to another fraction of a second": (
        lambda o: [("inv", {"at": datetime.now(UTC).isoformat(), "s": int(time()), "ms": time() * 1000})],
        lambda o: [("inv", {"at": f"{datetime.now(UTC):%FT%T}+00:00", "s": int(time()), "ms": time() * 1000})],
    ),
    "an item that is the same": (
        lambda o: [("inv", {"to": [o["mails"][0], o["mails"][0]][0]})],
        lambda o: [("inv", {"to": [o["mails"][0], o["mails"][0]][1]})],
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_value_is_named_in_one_sentence(name: str, outcomes_of: Callable[[Sends], Outcomes]) -> None:
    before, now = map(outcomes_of, CHANGED[name])

    (sentence,) = now.differences(before)
    assert "(20 times, first #1)" in sentence


@pytest.mark.parametrize("name", SAME)
def test_an_equal_value_is_not_named(name: str, outcomes_of: Callable[[Sends], Outcomes]) -> None:
    before, now = map(outcomes_of, SAME[name])

    assert now.differences(before) == []


def test_hashed_data_of_another_message_are_named_where_all_are_judged_together(
    outcomes_of: Callable[..., Outcomes],
) -> None:
    before = outcomes_of(lambda o: [("inv", {"to": o["mail"]})], acks_first=True)
    now = outcomes_of(lambda o: [("inv", {"to": hashed(o["short"] // 2 * 2)})], acks_first=True)

    assert now.differences(before) == ["all messages: sends another body.to in out 'inv' (of all)"]


def test_what_a_client_sends_for_a_message_that_it_has_settled_belongs_to_no_later_one(
    outcomes_of: Callable[..., Outcomes],
) -> None:
    def sends(o: dict[str, Any]) -> list[tuple[str, Any]]:
        # It works for a while, in which the next message may come, and sends nothing for the last ones.
        number = o["id"] - 10_000_000
        return [("inv", {"id": o["id"], "sum": sum(range(5_000_000))})] if number < 3 else []

    outcomes = outcomes_of(sends, acks_first=True)

    assert [outcomes.of(number) for number in (1, 2, 3, 4)] == [["ended billing: acked"]] * 4


def test_ids_made_anew_are_masked_where_all_are_judged_together(outcomes_of: Callable[..., Outcomes]) -> None:
    def sends(o: dict[str, Any]) -> list[tuple[str, Any]]:
        return [(f"inv.{uuid.uuid4()}", {"to": f"{uuid.uuid4().hex[:16]}@example.com", "of": o["mail"]})]

    before, now = (outcomes_of(sends, acks_first=True) for _ in range(2))

    assert now.differences(before) == []


def test_each_field_of_a_sentence_has_its_own_count(outcomes_of: Callable[[Sends], Outcomes]) -> None:
    before = outcomes_of(lambda o: [("inv", {"total": o["short"] % 7, "rate": o["short"] % 5})])
    now = outcomes_of(lambda o: [("inv", {"total": (o["short"] % 7) + (o["short"] > 10_017), "rate": 9})])

    assert now.differences(before) == [
        "orders 'order.made': sends another body.rate (20 times, first #1) and body.total (2 times, first #19) "
        "in out 'inv'"
    ]


def test_a_text_of_fewer_than_eight_characters_is_not_taken_for_one_that_came(
    outcomes_of: Callable[[Sends], Outcomes],
) -> None:
    outcomes = outcomes_of(lambda o: [("inv", {"mode": o["mode"], "state": o["state"]})])

    sent = [line for line in outcomes.of(1) if line.startswith("field out 'inv' body.")]
    assert [line.rpartition(": ")[2] for line in sent] == ["{body.mode}", '"shipped"']


def test_a_list_in_another_order_in_each_run_is_noise(
    outcomes_of: Callable[[Sends], Outcomes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.expected"
    for mode, lines in (("write", LINES), ("again", LINES[::-1]), ("check", LINES)):
        monkeypatch.setenv("LEVERET_EXPECTED", mode)
        outcomes_of(lambda o, lines=lines: [("inv", {"lines": lines})]).assert_expected(file)


def test_items_of_a_list_in_another_order_in_each_run_are_compared_without_it(
    outcomes_of: Callable[[Sends], Outcomes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.expected"
    for mode, step in (("write", 1), ("again", -1), ("check", 1)):
        monkeypatch.setenv("LEVERET_EXPECTED", mode)
        outcomes_of(lambda o, step=step: [("inv", {"to": o["mails"][::step]})]).assert_expected(file)

    with pytest.raises(AssertionError, match=r"sends another body\.to\[\] in out 'inv'"):
        outcomes_of(lambda o: [("inv", {"to": [o["mails"][0], "all@example.com"]})]).assert_expected(file)


def test_a_sentence_says_how_the_type_of_a_value_has_changed(
    outcomes_of: Callable[[Sends], Outcomes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.expected"
    monkeypatch.setenv("LEVERET_EXPECTED", "write")
    outcomes_of(lambda o: [("inv", {"level": 3})]).assert_expected(file)
    monkeypatch.delenv("LEVERET_EXPECTED")

    with pytest.raises(AssertionError, match=r"sends body\.level as a text in out 'inv', not as an integer \(at least"):
        outcomes_of(lambda o: [("inv", {"level": "3"})]).assert_expected(file)


def test_a_file_whose_short_digests_do_not_show_the_change_is_judged(
    outcomes_of: Callable[[Sends], Outcomes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.expected"
    outcomes = outcomes_of(lambda o: [("inv", {"total": o["short"] * 3})])
    monkeypatch.setenv("LEVERET_EXPECTED", "write")
    outcomes.assert_expected(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[2]["field"]["out 'inv'"]["body.total"]["digest"] = "0" * 16
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.delenv("LEVERET_EXPECTED")

    with pytest.raises(AssertionError, match=r"sends another body\.total in out 'inv' \(at least 1 time, the first "):
        outcomes.assert_expected(file)


def test_a_file_has_no_names_of_fields_that_are_data_and_no_text_beside_an_id(
    outcomes_of: Callable[[Sends], Outcomes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.expected"
    monkeypatch.setenv("LEVERET_EXPECTED", "write")

    outcomes_of(lambda o: [("inv", {"by": {"Anna Smith": 3}, "to": [o["uuid"], "Bob"]})]).assert_expected(file)

    assert "body.by.{key}" in file.read_text()
    assert [name for name in ("Anna", "Bob") if name in file.read_text()] == []
