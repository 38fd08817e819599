"""A document as the contract of a suite: what a run checks of it, and what it says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

# Keep it imported. A second copy in a run of this process has classes of its own, which the first does not raise.
import jsonschema_rs  # noqa: F401
import pytest
import yaml

DOCUMENT = {
    "asyncapi": "3.0.0",
    "info": {"title": "shop", "version": "1"},
    "defaultContentType": "application/json",
    "channels": {
        "created": {
            "address": "order.created",
            "bindings": {"amqp": {"is": "routingKey", "exchange": {"name": "orders", "type": "topic"}}},
            "messages": {"order": {"$ref": "#/components/messages/order"}},
        },
        "billing": {
            "address": "billing",
            "bindings": {"amqp": {"is": "queue", "queue": {"name": "billing"}}},
            "messages": {"any": {"payload": {"type": "object", "required": ["total"]}}},
        },
        "failed": {
            "address": "failed",
            "bindings": {"amqp": {"is": "queue", "queue": {"name": "failed"}}},
            "messages": {"report": {"payload": {"type": "object", "required": ["reason"]}}},
        },
        "cancelled": {
            "address": "order.{id}.cancelled",
            "parameters": {"id": {}},
            "bindings": {"amqp": {"is": "routingKey", "exchange": {"name": "orders", "type": "topic"}}},
            "messages": {"cancelled": {"payload": {"type": "object"}}},
        },
    },
    "operations": {},
    "components": {
        "messages": {
            "order": {
                "headers": {"type": "object", "required": ["tenant"]},
                "payload": {"$ref": "#/components/schemas/Order"},
            }
        },
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["id", "lines"],
                "properties": {
                    "id": {"type": "string", "format": "uuid"},
                    "lines": {"type": "array", "items": {"properties": {"count": {"minimum": 1}}}},
                },
            }
        },
    },
}
SHOP = """
import json
import re

import pytest
from client import connect

import pika

ID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


class Shop:
    def __init__(self, url):
        self.channel = connect(url, "shop").channel()
        self.channel.confirm_delivery()

    def order(self, key="order.created", headers={"tenant": "acme"}, **fields):
        body = {"id": ID, "total": "10.50", "lines": [{"count": 1}]} | fields
        self.channel.basic_publish("orders", key, json.dumps(body).encode(), pika.BasicProperties(headers=headers))


class Billing:
    def __init__(self, url):
        self.channel = connect(url, "billing").channel()
        self.channel.exchange_declare("orders", "topic")
        self.channel.queue_declare("failed", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "failed"}
        self.channel.queue_declare("billing", durable=True, arguments=dead)
        self.channel.queue_bind("billing", "orders", "order.*")

    def work(self, queue="billing", is_good=True):
        method, properties, body = self.channel.basic_get(queue)
        if is_good:
            self.channel.basic_ack(method.delivery_tag)
        else:
            self.channel.basic_reject(method.delivery_tag, requeue=False)


@pytest.fixture
def billing(leveret):
    return Billing(leveret.url)


@pytest.fixture
def shop(leveret, billing):
    return Shop(leveret.url)
"""

UNUSED_CHANNELS = [
    "2 of 4 channels, to which no test that passed has sent a message:",
    "  failed",
    "  cancelled",
    "sent, and in none of its channels:",
    "  orders 'invoice.created'",
]


@pytest.fixture
def document(suite: pytest.Pytester) -> Path:
    """The path of the document of a suite that has one."""
    suite.makeini("[pytest]\nleveret_contract = asyncapi.json\n")
    suite.makepyfile(shop=SHOP)
    path = suite.path / "asyncapi.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


def test_a_test_that_sends_what_the_document_does_not_allow_fails_at_its_line(run, document: Path):
    result = run(
        """
        from shop import *

        def test_wrong(shop):
            shop.order(lines=[{"count": 0}, {}], id=7, headers={})

        def test_right(shop):
            shop.order()
        """
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_a_test_that_sends_*.py:3: this test sends what asyncapi.json does not allow:",
            "  orders 'order.created' of shop: `id` is 7; expected string",
            "    by asyncapi.json#/components/schemas/Order/properties/id/type",
            "  orders 'order.created' of shop: `lines[[]0].count` is 0; expected at least 1",
            "    by asyncapi.json#/components/schemas/Order/properties/lines/items/properties/count/minimum",
            "  orders 'order.created' of shop: the header `tenant` is missing",
            "    by asyncapi.json#/components/messages/order/headers/required",
        ]
    )


def test_what_many_tests_send_against_the_document_is_one_line_a_place_at_the_end(run, document: Path):
    result = run(
        """
        from shop import *

        @pytest.mark.parametrize("number", [7, 8, 9])
        def test_wrong(shop, number):
            shop.order(id=number, headers={})
        """
    )

    result.assert_outcomes(failed=3)
    end = result.stdout.lines[result.stdout.lines.index(f"{' leveret: asyncapi.json ':=^80}") :]
    assert end[1:4] == [
        "sent, and not allowed; change the message, or the document if the message is right:",
        "  orders 'order.created' of shop: `id` is 7; expected string",
        "  orders 'order.created' of shop: the header `tenant` is missing",
    ]


def test_a_message_is_checked_for_each_queue_that_it_gets_into(run, document: Path):
    result = run(
        """
        from shop import *

        def test_wrong_for_billing(shop):
            shop.channel.basic_publish("orders", "order.paid", b'{"sum": 1}')
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  orders 'order.paid' of shop: `total` is missing", "    by *#/channels/billing/*"])


def test_what_the_test_sends_counts_once_a_consumer_has_accepted_it(run, document: Path):
    result = run(
        """
        from shop import *

        def test_rejected(leveret, billing):
            leveret.publish("orders", "order.created", b"no order")
            billing.work(is_good=False)
            billing.work("failed")

        def test_accepted(leveret, billing):
            leveret.publish("orders", "order.created", json={"total": 1})
            billing.work()
        """
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*this test sends what*", "  orders 'order.created': `id` is missing"])


def test_what_a_consumer_has_rejected_is_not_checked_where_it_goes_then(run, document: Path):
    result = run(
        """
        from shop import *

        def test_rejected(shop, billing):
            shop.order()
            billing.work(is_good=False)
            billing.work("failed")
        """
    )

    result.assert_outcomes(passed=1)


def test_a_client_may_send_anything_under_the_name_of_the_list_of_deaths(run, document: Path):
    result = run(
        """
        from shop import *

        @pytest.mark.parametrize("deaths", ["mine", None, 7, ["mine"], {"reason": "rejected"}], ids=repr)
        def test_deaths(shop, deaths):
            shop.order(headers={"tenant": "acme", "x-death": deaths})
        """
    )

    result.assert_outcomes(passed=5)


def test_a_run_says_which_document_was_not_compared_with_all_messages(run, document: Path):
    result = run(
        """
        import pytest
        from shop import *

        @pytest.mark.leveret(record="off")
        def test_order(shop):
            shop.order(id=7)
        """
    )

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["leveret: asyncapi.json: a broker has not recorded all events, so some messages *"])


def test_the_end_of_a_run_lists_unused_channels_and_unknown_messages(run, document: Path):
    result = run(
        """
        from shop import *

        def test_order(shop):
            shop.order()

        def test_other(shop):
            shop.order("invoice.created")
        """
    )

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*leveret: asyncapi.json*", *UNUSED_CHANNELS])


def test_a_lock_and_a_document_are_one_contract(run, suite: pytest.Pytester, document: Path):
    suite.makeini("[pytest]\nleveret_contract =\n    messages.lock\n    asyncapi.yaml\n")
    (suite.path / "asyncapi.yaml").write_text(yaml.safe_dump(DOCUMENT))

    result = run(
        """
        from shop import *

        def test_right(shop, billing):
            shop.order()
            billing.work()

        def test_wrong(shop):
            shop.order("order.paid", total=3)
            shop.order(id="7")
        """,
        "--leveret-contract=write",
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["    by asyncapi.yaml#/components/schemas/Order/properties/id/format"])
    lock = (suite.path / "messages.lock").read_text()
    assert 'routing_key = "order.created"' in lock
    assert "order.paid" not in lock


def test_a_folder_of_schemas_is_a_contract_too(run, suite: pytest.Pytester, document: Path):
    suite.makeini("[pytest]\nleveret_contract = schemas\n")
    (suite.path / "schemas" / "orders").mkdir(parents=True)
    schema = suite.path / "schemas" / "orders" / "order.created.json"
    schema.write_text(json.dumps({"required": ["customer"], "properties": {"total": {"type": "string"}}}))

    result = run("from shop import *\n\ndef test_order(shop):\n    shop.order()\n")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  orders 'order.created' of shop: `customer` is missing",
            "    by schemas/orders/order.created.json#/required",
            # What a failed test has sent does not count.
            "1 of 1 channel, to which no test that passed has sent a message:",
        ]
    )


def test_what_was_tolerated_of_a_document_is_listed_by_name(run, document: Path):
    document.write_text(json.dumps(DOCUMENT).replace('"parameters": {"id": {}}, ', ""))

    result = run("from shop import *\n\ndef test_order(shop):\n    shop.order('order.7.cancelled')\n")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "accepted although AsyncAPI has it otherwise:",
            "  parameters: parameters of an address that are not declared (#/channels/cancelled)",
        ]
    )


TEST = "def test_nothing():\n    pass\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "*asyncapi.json is no AsyncAPI document: Expecting property name*"),
        ('{"openapi": "3.1.0"}', "*it has no `asyncapi`; JSON Schemas are in a folder, as *"),
        (
            json.dumps(DOCUMENT).replace("#/components/schemas/Order", "#/components/schemas/Ordre"),
            "*asyncapi.json#/components/messages/order/payload: the reference '#/components/schemas/*' leads nowhere",
        ),
        (
            json.dumps(DOCUMENT).replace("#/components/schemas/Order", "https://example.com/order.json"),
            "*the reference 'https://example.com/order.json' leads into the network; keep that file beside this one",
        ),
        (
            json.dumps(DOCUMENT).replace('"object"', '"objekt"'),
            '*asyncapi.json#/* is no JSON Schema: `type`: "objekt" is not valid *',
        ),
        (
            json.dumps(DOCUMENT).replace('"is": "queue"', '"is": "que"'),
            "*asyncapi.json#/channels/billing/bindings/amqp/is: expected 'queue' or 'routingKey', and it is 'que'",
        ),
        (
            json.dumps(DOCUMENT).replace("#/components/schemas/Order", "types.json#/Order"),
            "*asyncapi.json#/components/*: the reference 'types.json#/Order' leads to a file that does not exist",
        ),
        (json.dumps({**DOCUMENT, "channels": []}), "*asyncapi.json#/channels: expected an object, and it is *"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(run, document: Path, text: str, reason: str):
    document.write_text(text)

    result = run(TEST)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*leveret_contract: {reason}"])


def test_a_document_that_does_not_exist_is_named_with_the_folder_of_its_path(run, document: Path):
    document.unlink()

    result = run(TEST)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*leveret_contract: {document} does not exist; name a document by its path from {document.parent}"]
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "*schemas is no folder of JSON Schemas: orders/order.created.json: Expecting property name*"),
        ('{"$ref": "#/Order"}', "*order.created.json# is no JSON Schema: Pointer '/Order' does not exist"),
        ("[]", "*schemas is no folder of JSON Schemas: orders/order.created.json: a schema is an object"),
    ],
)
def test_the_schema_of_a_folder_that_cannot_be_read_is_named(run, suite: pytest.Pytester, text: str, reason: str):
    suite.makeini("[pytest]\nleveret_contract = schemas\n")
    (suite.path / "schemas" / "orders").mkdir(parents=True)
    (suite.path / "schemas" / "orders" / "order.created.json").write_text(text)

    result = run(TEST)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*leveret_contract: {reason}"])


def test_a_missing_library_is_named_with_the_extra(run, document: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)

    result = run(TEST)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*leveret_contract: asyncapi.json needs jsonschema-rs to be checked; pip install 'leveret[[]asyncapi]'*"]
    )


@pytest.mark.parametrize(
    ("ini", "option", "reason"),
    [
        (
            "asyncapi.json",
            "--leveret-contract=write",
            "*--leveret-contract: there is no lock in leveret_contract; set *",
        ),
        (
            "\n    a.lock\n    b.lock",
            "--leveret-contract=check",
            "*leveret_contract: a.lock and b.lock are several locks*",
        ),
    ],
)
def test_a_contract_that_no_run_can_have_is_refused(
    run, suite: pytest.Pytester, document: Path, ini: str, option: str, reason: str
):
    suite.makeini(f"[pytest]\nleveret_contract = {ini}\n")

    result = run(TEST, option)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([reason])


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "asyncapi.md"


@pytest.mark.parametrize("is_right", [True, False])
def test_the_example_of_the_guide_does_what_the_guide_says(run, suite: pytest.Pytester, is_right: bool):
    page = PAGE.read_text(encoding="utf-8")
    blocks = {word: re.findall(rf"```{word}\n(.*?)```", page, re.DOTALL) for word in ("ini", "json", "python", "text")}
    suite.makeini(blocks["ini"][0])
    (suite.path / "asyncapi.json").write_text(blocks["json"][0])
    source = blocks["python"][0]
    suite.makepyfile(test_shop=source if is_right else source.replace('"total": 12.5', '"total": "12.50"'))

    result = run("", "test_shop.py")

    result.assert_outcomes(passed=int(is_right), failed=int(not is_right))
    assert blocks["text"][1 if is_right else 0] in result.stdout.str()
