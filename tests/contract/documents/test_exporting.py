"""A lock as a document: valid, read again as the lock, and kept by the suite that has written the lock."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_leveret.contract.comparing import lock_changes
from pytest_leveret.contract.documents import importing
from pytest_leveret.contract.documents.checking import FORMATS
from pytest_leveret.contract.documents.exporting import document_of, schemas_of
from pytest_leveret.contract.documents.reading import read as read_document
from pytest_leveret.contract.documents.schemas import schema_of
from pytest_leveret.contract.lock import Lock, LockedMessage, MessageKey, read

from leveret.cli import main
from leveret.trace.shapes import Shape
from tests.contract.documents.faststream_documents import write
from tests.contract.running import LOCK, NAMES, SERVICES, copy_of, run_forked
from tests.properties.test_shapes import VALUES
from tests.trace.message_shapes import message_shape

SHOP = str(SERVICES / "pika_shop" / LOCK)


@pytest.mark.parametrize("name", NAMES)
def test_a_document_reads_as_the_lock_that_was_exported(name: str, tmp_path: Path) -> None:
    lock = read(SERVICES / name / LOCK)
    path = tmp_path / "asyncapi.json"
    path.write_text(json.dumps(document_of(lock, name, "1")))

    changes = lock_changes(lock, importing.read(path))

    # Texts that may become an enumeration are texts in a schema.
    assert [str(each) for each in changes if "word" not in each.text] == []


# One of each kind of client. A message of Celery has its arguments at places.
@pytest.mark.parametrize("name", ["celery_reports", "pika_prices", "stream_stock"])
def test_a_suite_keeps_to_the_document_of_its_own_lock(name: str, tmp_path: Path) -> None:
    service = copy_of(name, tmp_path)
    (service / "asyncapi.json").write_text(json.dumps(document_of(read(service / LOCK), name, "1")))

    status, output = run_forked(service, "-o", "leveret_contract=asyncapi.json")

    assert status == pytest.ExitCode.OK, output
    assert "leveret: asyncapi.json" not in output


def test_a_suite_keeps_to_the_schemas_of_its_own_lock(tmp_path: Path) -> None:
    service = copy_of("pika_shop", tmp_path)
    assert main(["contract", "export", SHOP, "--format=json-schema", "--output", str(service / "schemas")]) == 0

    status, output = run_forked(service, "-o", "leveret_contract=schemas")

    assert status == pytest.ExitCode.OK, output
    assert sorted(path.relative_to(service).as_posix() for path in service.rglob("schemas/**/*.json")) == [
        f"schemas/orders/order.{name}.json" for name in ("cancelled", "created", "paid")
    ]


@pytest.mark.parametrize(
    ("exchange", "key", "path"),
    [
        ("", "billing", "billing.json"),
        ("orders", "order.{uuid}.paid", "orders/order.{uuid}.paid.json"),
        ("a/b", "*:x", "a%2Fb/%2A%3Ax.json"),
        ("..", "a", "%2E%2E/a.json"),
        ("audit", "", "audit/#.json"),
    ],
)
def test_the_path_of_a_schema_leads_to_its_messages(tmp_path: Path, exchange: str, key: str, path: str) -> None:
    lock = Lock({MessageKey("/", exchange, key, ""): LockedMessage(shape=message_shape(b'{"id": 1}', {}))})
    [(written, schema)] = schemas_of(lock).items()
    (tmp_path / written).parent.mkdir(exist_ok=True)
    (tmp_path / written).write_text(json.dumps(schema))

    [channel] = read_document(tmp_path).channels

    assert written == path
    assert channel.queue == key if not exchange else channel.takes(exchange, key.replace("{uuid}", "7"))


def test_a_document_is_printed_or_written_as_its_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["contract", "export", SHOP, "--title=Shop", "--version=2.1.0"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["contract", "export", SHOP, "--output", str(tmp_path / "shop.yaml")]) == 0

    assert printed["info"] == {"title": "Shop", "version": "2.1.0"}
    assert printed["channels"]["orders.order.created"]["bindings"]["amqp"]["exchange"] == {
        "name": "orders",
        "type": "topic",
        "vhost": "/",
    }
    assert printed["operations"]["shop.sends.orders.order.created"]["action"] == "send"
    assert yaml.safe_load((tmp_path / "shop.yaml").read_text())["channels"] == printed["channels"]


def test_schemas_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "export", SHOP, "--format=json-schema"]) == 2

    assert "--format=json-schema writes a file for each message; name a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nope.lock", ": No such file or directory; correct the path"),
        ("asyncapi.json", " is a document already; name a lock"),
    ],
)
def test_what_is_no_lock_is_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    main(["contract", "export", SHOP, "--output", str(tmp_path / "asyncapi.json")])

    assert main(["contract", "export", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err == f"leveret: {tmp_path / name}{reason}\n"


@pytest.mark.parametrize("version", ["3.0.0", "2.6.0"])
def test_the_document_of_a_consumer_is_compared_with_the_lock_of_a_publisher(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    document = write("orders", tmp_path, version)  # type: ignore[arg-type]

    assert main(["contract", "check", SHOP, str(document)]) == 1

    output = capsys.readouterr().out
    breaking = output.partition("not breaking:")[0]
    assert (
        "  orders 'order.created' of shop: `lines[].count` is missing; orders reads `lines[].count` as integer"
        in breaking
    )
    assert "  orders 'order.paid' of shop: `placed_at` is missing; orders reads `placed_at` as date-time" in breaking
    assert "`total`" not in "".join(line for line in breaking.splitlines() if "order.created" in line)


def test_the_document_of_a_publisher_is_compared_with_that_of_a_consumer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = write("orders", tmp_path)
    publisher = tmp_path / "changed.json"
    publisher.write_text(consumer.read_text().replace('"open", "paid"', '"open", "paid", "lost"'))

    assert main(["contract", "check", str(publisher), str(consumer)]) == 1

    assert "`status` is 'lost', and was one of open, paid; orders reads `status` as enum(open, paid)" in (
        capsys.readouterr().out
    )


@settings(max_examples=50)
@given(st.lists(VALUES, min_size=1, max_size=6))
def test_the_schema_of_a_shape_allows_what_has_the_shape(values: list[object]) -> None:
    shape = Shape()
    # JSON has no infinity.
    values = [value for value in values if "Infinity" not in json.dumps(value)]
    for value in values:
        shape.add(value)

    schema = schema_of(shape)

    validator = jsonschema_rs.Draft7Validator(schema, validate_formats=True, formats=FORMATS)
    assert [value for value in values if not validator.is_valid(value)] == []
