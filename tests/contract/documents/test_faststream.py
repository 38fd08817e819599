"""The documents of FastStream: they are read with tolerance, find thirty seeded violations, and no false one."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from fast_depends.pydantic import PydanticSerializer
from faststream.message import encode_message
from pytest_leveret.contract.documents.checking import Checker
from pytest_leveret.contract.documents.reading import Document, read

from tests.contract.documents.apps import mails, orders, pets
from tests.contract.documents.faststream_documents import APPS, VERSIONS, write

JSON = {"content_type": "application/json"}
TEXT = {"content_type": "text/plain"}
SERIALIZER = PydanticSerializer()
Version = Literal["3.0.0", "2.6.0"]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Document]:
    """The document of each app in each version."""
    read_documents = {}
    for version in VERSIONS:
        folder = tmp_path_factory.mktemp("documents")
        for name in APPS:
            read_documents[name, version] = read(write(name, folder, version))
    return read_documents


TOLERATED = {
    ("orders", "3.0.0"): {"exchange-in-name", "address"},
    ("pets", "3.0.0"): {"dialect", "address", "exchange-in-name", "filters", "empty-payload", "parameters", "vhost"},
    ("mails", "3.0.0"): {"exchange-in-name"},
    ("orders", "2.6.0"): {"key-in-operation"},
    ("pets", "2.6.0"): {"dialect", "filters", "empty-payload", "parameters", "vhost", "key-in-operation"},
    ("mails", "2.6.0"): {"key-in-operation"},
}


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_tolerated_has_a_name(documents: dict[tuple[str, str], Document], app: str, version: Version) -> None:
    assert {name for name, _ in documents[app, version].tolerated} == TOLERATED[app, version]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_channel_is_where_the_service_sends_and_receives(
    documents: dict[tuple[str, str], Document], version: Version
) -> None:
    channels = {channel.name: channel for channel in documents["orders", version].channels}

    assert channels["billing:orders:Bill"].queue == "billing"
    assert channels["billing:orders:Bill"].bindings == [("orders", "order.*")]
    assert channels["OrderCreated"].takes("orders", "order.created")
    assert not channels["OrderCreated"].takes("orders", "order.paid")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_publisher_sends_to_an_exchange_even_if_its_document_has_a_queue(
    documents: dict[tuple[str, str], Document], version: Version
) -> None:
    channels = {channel.name: channel for channel in documents["mails", version].channels}

    assert channels["welcomed:_:Publisher"].queue is None
    assert channels["welcomed:_:Publisher"].takes("", "welcomed")


def order(**changes: Any) -> dict[str, Any]:
    valid = {
        "id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "status": "open",
        "total": "12.50",
        "placed_at": "2026-11-23T10:00:00Z",
        "lines": [{"sku": "tea-1", "count": 2}],
        "note": None,
    }
    return {name: value for name, value in {**valid, **changes}.items() if value != "left out"}


def cage(**changes: Any) -> dict[str, Any]:
    return {"pet": {"kind": "cat", "lives": 9}, "size": [2, 3], "tags": ["new"], "within": [], **changes}


SEEDED: list[tuple[str, str, object, str, str]] = [
    ("orders", "billing", order(id="left out"), "`id` is missing", "/Order/required"),
    ("orders", "billing", order(id=7), "`id` is 7; expected string", "/Order/properties/id/type"),
    ("orders", "billing", order(id="7"), '`id` is "7"; expected the format uuid', "/Order/properties/id/format"),
    ("orders", "billing", order(status="lost"), '`status` is "lost"; expected "open" or "paid"', "/status/enum"),
    ("orders", "billing", order(status=None), '`status` is null; expected string', "/status/type"),
    ("orders", "billing", order(total=None), "`total` is null; expected number or string", "/total/anyOf"),
    ("orders", "billing", order(total=[1]), "`total` is an array of 1 item; expected number or string", "/anyOf"),
    ("orders", "billing", order(placed_at="today"), '`placed_at` is "today"; expected the format date-time', "/format"),
    ("orders", "billing", order(placed_at="2026-02-30T10:00:00Z"), "expected the format date-time", "/format"),
    ("orders", "billing", order(lines=[]), "`lines` is an array of 0 items; expected at least 1 item", "/minItems"),
    ("orders", "billing", order(lines={}), "`lines` is an object; expected array", "/lines/type"),
    ("orders", "billing", order(lines=[{"sku": "T 1", "count": 1}]), "`lines[0].sku`", "/Line/properties/sku/pattern"),
    ("orders", "billing", order(lines=[{"sku": "tea-1", "count": 0}]), "expected at least 1", "/count/minimum"),
    ("orders", "billing", order(lines=[{"sku": "tea-1", "count": 101}]), "expected at most 100", "/count/maximum"),
    ("orders", "billing", order(lines=[{"sku": "tea-1", "count": 1.5}]), "is 1.5; expected integer", "/count/type"),
    ("orders", "billing", order(lines=[{"sku": "tea-1"}]), "`lines[0].count` is missing", "/Line/required"),
    ("orders", "billing", order(note=3), "`note` is 3; expected string or null", "/note/anyOf"),
    ("orders", "billing", [order()], "the body is an array of 1 item; expected object", "/Order/type"),
    ("orders", "billing", b"{'id': 7}", "the body is no JSON; expected application/json", "Message"),
    ("orders", "orders/invoice.created", {"order": str(uuid.UUID(int=1)), "amount": 0}, "more than 0", "/amount/"),
    (
        "orders",
        "orders/invoice.created",
        {"order": str(uuid.UUID(int=1)), "amount": 1, "currency": "EURO"},
        "expected at most 3 characters",
        "/currency/maxLength",
    ),
    ("orders", "count", {"at_most": 3}, "`sku` is missing", "/required"),
    ("pets", "pets", {"kind": "cow"}, '`kind` is "cow"; expected "cat" or "dog"', "/oneOf"),
    ("pets", "pets", {"kind": "cat", "lives": 10}, "`lives` is 10; expected at most 9", "/lives/maximum"),
    ("pets", "pets", {"kind": "dog", "age": "old"}, '`age` is "old"; expected number', "/Dog/properties/age/type"),
    ("pets", "cages", cage(size=[1, "x"]), '`size[1]` is "x"; expected integer', "/size/prefixItems/1/type"),
    ("pets", "cages", cage(size=[1, 2, 3]), "expected at most 2 items", "/size/maxItems"),
    ("pets", "cages", cage(tags=["a", "a"]), "expected each item once", "/tags/uniqueItems"),
    ("pets", "cages", cage(within=[cage(pet=None)]), "`within[0].pet` is null; expected object", "/pet/oneOf"),
    ("pets", "arrivals", {"name": 7}, "`name` is 7; expected string", ""),
    ("pets", "arrivals", 7, "the body is 7; expected object", ""),
    ("mails", "mailer", {"user": "7"}, '`user` is "7"; expected integer', "/SignUp/properties/user/type"),
    ("mails", "mailer", {"user": 7, "born": "31.12.1999"}, "expected the format date", "/born/anyOf/0/format"),
    ("mails", "mailer", {"user": 7, "settings": {"dark": 1}}, "`settings.dark` is 1; expected boolean", "/type"),
    ("mails", "texts", {"text": "hello"}, "the body is an object; expected string", "/type"),
    ("mails", "counts", {"a": 1, "b": None}, "`b` is null; expected integer", "/additionalProperties/type"),
]  # fmt: skip


@pytest.mark.parametrize(("app", "where", "body", "sentence", "pointer"), SEEDED)
def test_a_seeded_violation_is_found(
    documents: dict[tuple[str, str], Document], app: str, where: str, body: object, sentence: str, pointer: str
) -> None:
    checker = Checker(documents[app, "3.0.0"])
    exchange, _, key = where.rpartition("/")
    channels = checker.channels_of(exchange, key) if exchange else checker.channels_from(key)

    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    findings = checker.findings(channels, content, JSON)

    assert sentence in str(findings[0])
    assert pointer in str(findings[0].place)


def an_order(chance: random.Random) -> object:
    zone = chance.choice([None, UTC, timezone(timedelta(hours=5, minutes=30))])
    lines = [orders.Line(sku=f"tea-{chance.randint(0, 99)}", count=chance.randint(1, 100)) for _ in range(3)]
    return orders.Order(
        id=uuid.UUID(int=chance.getrandbits(128)),
        status=chance.choice(["open", "paid"]),
        total=Decimal(chance.randint(-999, 99_999)) / 100,
        placed_at=datetime(2026, 1, 1, tzinfo=zone) + timedelta(microseconds=chance.randint(0, 10**15)),
        lines=lines[: chance.randint(1, 3)],
        note=chance.choice([None, "", "leave at the door", "\u2615 \x00"]),
    )


def an_invoice(chance: random.Random) -> object:
    return orders.Invoice(order=uuid.UUID(int=chance.getrandbits(128)), amount=chance.choice([0.01, 1e300, 19.99, 3]))


def a_pet(chance: random.Random) -> object:
    return chance.choice([pets.Cat(kind="cat", lives=chance.randint(1, 9)), pets.Dog(kind="dog", age=chance.random())])


def a_cage(chance: random.Random, depth: int = 0) -> object:
    within = [a_cage(chance, depth + 1) for _ in range(chance.randint(0, 2))] if depth < 2 else []
    tags = set(chance.sample(["a", "b", "c"], chance.randint(0, 3)))
    return pets.Cage.model_construct(pet=a_pet(chance), size=(1, chance.randint(-5, 5)), tags=tags, within=within)


def a_sign_up(chance: random.Random) -> object:
    return mails.SignUp(
        user=chance.getrandbits(62),
        born=chance.choice([None, date(1815, 12, 10)]),
        home=chance.choice([None, "https://example.com/b\u00fccher?a=b#c", "mailto:ada@example.com"]),
        wait=timedelta(seconds=chance.randint(-(10**6), 10**6), milliseconds=chance.randint(0, 999)),
        settings={f"key {chance.random()}": chance.choice([True, False]) for _ in range(3)},
    )


MESSAGES: list[tuple[str, str, Callable[[random.Random], object]]] = [
    ("orders", "billing", an_order),
    ("orders", "orders/order.created", an_order),
    ("orders", "orders/invoice.created", an_invoice),
    ("orders", "count", lambda chance: {"sku": "tea-1", **({"at_most": 3} if chance.random() < 0.5 else {})}),
    ("pets", "pets", a_pet),
    ("pets", "cages", a_cage),
    ("pets", "arrivals", lambda chance: pets.Owner(name="Ada")),
    ("pets", "arrivals", lambda chance: {"name": "Ada", "town": "London"}),
    ("pets", "logs", lambda chance: chance.choice(["", "a line", '{"a": 1}', "17"])),
    ("pets", "tick", lambda chance: chance.choice([None, {"any": 1}, "text", b"\xff"])),
    ("pets", "anything", lambda chance: chance.choice([None, {"any": 1}, "text", b"\xff", [1, None]])),
    ("mails", "mailer", a_sign_up),
    ("mails", "texts", lambda chance: chance.choice(["", "hello", "null"])),
    ("mails", "files", lambda chance: chance.randbytes(20)),
    ("mails", "counts", lambda chance: {f"c{chance.random()}": chance.randint(-9, 9) for _ in range(4)}),
    ("mails", "/welcomed", lambda chance: chance.choice([None, 7])),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_valid_message_of_a_thousand_is_found(documents: dict[tuple[str, str], Document], version: Version) -> None:
    chance = random.Random(f"seed 1 {version}")
    checkers = {app: Checker(documents[app, version]) for app in APPS}
    false = []
    for number in range(1000):
        app, where, make = MESSAGES[number % len(MESSAGES)]
        exchange, slash, key = where.rpartition("/")
        checker = checkers[app]
        channels = checker.channels_of(exchange, key) if slash else checker.channels_from(key)
        body, content_type = encode_message(make(chance), SERIALIZER)
        findings = checker.findings(channels, body, {"content_type": content_type} if content_type else {})
        false += [f"{where}: {finding}: {body!r}" for finding in findings]
        assert channels or version == "2.6.0"

    assert false == []


def test_one_body_of_a_handler_without_a_message_is_as_good_as_another(tmp_path: Path) -> None:
    checker = Checker(read(write("pets", tmp_path)))

    assert checker.findings(checker.channels_from("tick"), b"anything", TEXT) == []
