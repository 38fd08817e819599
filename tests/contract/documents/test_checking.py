"""What of a message is compared with what of a document: channels, content types, headers, several messages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer
from threading import Thread
from typing import Any

import pytest
from pytest_leveret.contract.documents.checking import Checker
from pytest_leveret.contract.documents.reading import read

OBJECT = {"payload": {"type": "object", "required": ["id"]}}
ORDERS = {"amqp": {"is": "routingKey", "exchange": {"name": "orders", "type": "topic"}}}


def checker_of(folder: Path, channels: dict[str, Any], **more: Any) -> Checker:
    """Return what checks messages against a document with these channels."""
    path = folder / "asyncapi.json"
    info = {"title": "shop", "version": "1"}
    path.write_text(json.dumps({"asyncapi": "3.0.0", "info": info, "channels": channels, **more}))
    return Checker(read(path))


def findings(checker: Checker, key: str, body: object, exchange: str = "orders", **properties: Any) -> list[str]:
    """Return what is found of a message."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [str(each) for each in checker.findings(checker.channels_of(exchange, key), content, properties)]


@pytest.mark.parametrize(
    ("address", "key", "is_its"),
    [
        ("order.created", "order.created", True),
        ("order.created", "order.paid", False),
        ("order.{id}.paid", "order.7.paid", True),
        ("order.{id}.paid", "order.7.8.paid", False),
        ("order-{id}.paid", "order-7.paid", True),
        ("order-{id}.paid", "invoice-7.paid", False),
        ("order.*", "order.paid", True),
        ("order.#", "order.7.paid", True),
        ("#", "", True),
    ],
)
def test_a_channel_has_the_routing_keys_of_its_address(tmp_path: Path, address: str, key: str, is_its: bool) -> None:
    checker = checker_of(tmp_path, {"it": {"address": address, "bindings": ORDERS, "messages": {"m": OBJECT}}})

    assert bool(findings(checker, key, {})) == is_its


def test_a_channel_of_the_very_key_goes_before_patterns(tmp_path: Path) -> None:
    anything = {"payload": {"type": "string"}}
    checker = checker_of(
        tmp_path,
        {
            "pattern": {"address": "order.{what}", "bindings": ORDERS, "messages": {"m": anything}},
            "exact": {"address": "order.paid", "bindings": ORDERS, "messages": {"m": OBJECT}},
        },
    )

    assert findings(checker, "order.paid", {}) == ["`id` is missing"]
    assert findings(checker, "order.lost", {}) == ["the body is an object; expected string"]


def test_a_direct_exchange_has_no_wildcards(tmp_path: Path) -> None:
    direct = {"amqp": {"is": "routingKey", "exchange": {"name": "orders", "type": "direct"}}}
    checker = checker_of(tmp_path, {"it": {"address": "order.*", "bindings": direct, "messages": {"m": OBJECT}}})

    assert findings(checker, "order.paid", {}) == []
    assert findings(checker, "order.*", {}) == ["`id` is missing"]


def test_a_channel_without_a_binding_is_its_address_in_any_exchange(tmp_path: Path) -> None:
    checker = checker_of(tmp_path, {"it": {"address": "order.paid", "messages": {"m": OBJECT}}})

    assert findings(checker, "order.paid", {}, exchange="anywhere") == ["`id` is missing"]
    assert findings(checker, "order.lost", {}, exchange="anywhere") == []


def test_a_channel_for_answers_without_an_address_has_no_message(tmp_path: Path) -> None:
    checker = checker_of(tmp_path, {"answers": {"address": None, "messages": {"m": OBJECT}}})

    assert findings(checker, "amq.gen-1", {}, exchange="") == []


@pytest.mark.parametrize(
    ("body", "properties", "expected"),
    [
        (b"no json", {"content_type": "application/json"}, ["the body is no JSON; expected application/json"]),
        (b"no json", {}, ['the body is "no json"; expected object']),
        (b'{"id": 1}', {}, []),
        (b'{"id": 1}', {"content_type": "application/cloudevents+json; charset=utf-8"}, []),
        (
            b'{"id": 1}',
            {"content_type": "text/plain"},
            ["the body has the content type text/plain, which is no JSON; expected object"],
        ),
        (
            b"\xff\x00",
            {"content_type": "application/octet-stream"},
            ["the body has the content type application/octet-stream, which is no JSON; expected object"],
        ),
        (b"", {}, ["the body is empty; expected object"]),
        (b"null", {}, ["the body is null; expected object"]),
        (gzip.compress(b"{}", mtime=0), {"content_type": "application/json", "content_encoding": "gzip"}, []),
    ],
)
def test_a_body_is_read_as_its_content_type_says(
    tmp_path: Path, body: bytes, properties: dict[str, Any], expected: list[str]
) -> None:
    channels = {"it": {"address": "order.paid", "bindings": ORDERS, "messages": {"m": OBJECT}}}
    checker = checker_of(tmp_path, channels, defaultContentType="application/json")

    assert findings(checker, "order.paid", body, **properties) == expected


def test_the_content_type_of_a_message_is_checked_and_another_payload_is_not(tmp_path: Path) -> None:
    message = {"contentType": "application/x-protobuf", **OBJECT}
    checker = checker_of(tmp_path, {"it": {"address": "order.paid", "bindings": ORDERS, "messages": {"m": message}}})

    assert findings(checker, "order.paid", b"\x08\x01", content_type="application/x-protobuf") == []
    assert findings(checker, "order.paid", {}, content_type="application/json") == [
        "the property `content_type` is 'application/json'; expected application/x-protobuf"
    ]


def test_a_payload_in_another_language_than_json_schema_is_not_checked(tmp_path: Path) -> None:
    avro = {"payload": {"schemaFormat": "application/vnd.apache.avro;version=1.9.0", "schema": {"type": "record"}}}
    checker = checker_of(tmp_path, {"it": {"address": "order.paid", "bindings": ORDERS, "messages": {"m": avro}}})

    assert findings(checker, "order.paid", b"\x02\x03") == []


def test_headers_of_a_document_may_be_properties_of_amqp(tmp_path: Path) -> None:
    headers = {
        "type": "object",
        "required": ["tenant", "correlation_id"],
        "properties": {"correlation_id": {"type": "string"}, "at": {"format": "date-time"}, "raw": {"type": "string"}},
        "additionalProperties": False,
    }
    checker = checker_of(
        tmp_path, {"it": {"address": "a", "bindings": ORDERS, "messages": {"m": {"headers": headers}}}}
    )
    sent = {"at": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"\xff"}

    assert findings(checker, "a", {}, headers=sent, message_id="1") == [
        "the header `tenant` is missing",
        "the header `correlation_id` is missing",
    ]
    assert findings(checker, "a", {}, headers={**sent, "tenant": 1}, correlation_id="c") == [
        "the header `tenant` is not allowed"
    ]


def test_the_property_type_says_which_message_of_a_channel_it_is(tmp_path: Path) -> None:
    messages = {
        "paid": {"bindings": {"amqp": {"messageType": "paid"}}, "payload": {"required": ["sum"]}},
        "lost": {"bindings": {"amqp": {"messageType": "lost"}}, "payload": {"required": ["reason", "by"]}},
    }
    checker = checker_of(tmp_path, {"it": {"address": "order", "bindings": ORDERS, "messages": messages}})

    assert findings(checker, "order", {"sum": 1}, type="lost") == ["`reason` is missing", "`by` is missing"]
    assert findings(checker, "order", {"sum": 1}) == []
    assert findings(checker, "order", {}) == ["`sum` is missing"]


def test_what_may_be_a_secret_is_not_shown(tmp_path: Path) -> None:
    message = {"payload": {"properties": {"password": {"type": "integer"}, "name": {"contains": {"type": "string"}}}}}
    checker = checker_of(tmp_path, {"it": {"address": "a", "bindings": ORDERS, "messages": {"m": message}}})

    assert findings(checker, "a", {"password": "hunter2"}) == ["`password` is a text; expected integer"]
    assert findings(checker, "a", {"name": [1]}) == ["`name` is an array of 1 item; expected what `contains` says"]


def test_references_lead_to_other_files_and_traits_are_merged(tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "order.json").write_text(
        json.dumps({"Order": {"properties": {"line": {"$ref": "#/Line"}}}, "Line": {"required": ["sku"]}})
    )
    message = {"traits": [{"headers": {"required": ["tenant"]}}], "payload": {"$ref": "types/order.json#/Order"}}
    checker = checker_of(tmp_path, {"it": {"address": "a", "bindings": ORDERS, "messages": {"m": message}}})

    found = checker.findings(checker.channels_of("orders", "a"), b'{"line": {}}', {})

    assert [f"{each}, {each.place}" for each in found] == [
        "`line.sku` is missing, order.json#/Line/required",
        "the header `tenant` is missing, asyncapi.json#/channels/it/messages/m/traits/0/headers/required",
    ]


@pytest.fixture
def network() -> Iterator[list[str]]:
    """The URL of a web server, and then the requests that it has got."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        requests.append(f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield requests
        finally:
            server.shutdown()
            thread.join()


def test_a_schema_of_an_unknown_draft_is_refused_and_not_fetched(tmp_path: Path, network: list[str]) -> None:
    payload = {"$schema": f"{network.pop()}/draft"}

    with pytest.raises(
        ValueError, match=r"#/channels/it/messages/m/payload has the \$schema 'http:.*/draft'; expected"
    ):
        checker_of(tmp_path, {"it": {"address": "a", "bindings": ORDERS, "messages": {"m": {"payload": payload}}}})
    assert network == []
