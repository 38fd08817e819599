"""`leveret record`: what is published on a server, in a file, without taking anything and without personal data."""

from __future__ import annotations

import base64
import json
import random
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from html import escape, unescape
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import quote, quote_plus, unquote_plus

import pika
import pytest

from leveret import Broker
from leveret.cli import main
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import Field, Table
from leveret.errors import BrokerError, UnreadableTraceError
from leveret.recording.privacy import Privacy, rule_of
from leveret.recording.rec_file import RecordedMessage, RecordingWriter, as_json, from_json, read_recording
from leveret.recording.sources import without_exclusive

from .conftest import Recording, recorded

EMAIL = "ann.other@example.com"
ORDER = {"id": 7, "customer": {"email": EMAIL, "name": "Ann Other"}, "lines": [{"sku": "a1", "note": "for Ann Other"}]}


def test_a_recording_has_each_header_and_property_with_its_type(server: Broker, recording: Recording) -> None:
    headers = {
        "text": "ü",
        "octets": b"\xff\x00",
        "yes": True,
        "small": 5,
        "large": 2**40,
        "float": 1.25,
        "none": None,
        "exact": Decimal("1.50"),
        "at": datetime(2026, 7, 1, tzinfo=UTC),
        "list": [1, "a", {"b": [False]}],
    }
    with recording("--exchange", "orders") as path:
        server.publish("orders", "order.made", b"\x00\xfe", headers=headers, priority=3, timestamp=1_780_000_000)

    (message,) = read_recording(path).messages

    sent = server.queue("billing").ready[0]
    assert message.properties.to_python() == {"headers": headers} | sent.properties
    assert message.properties.headers == Table.from_python(headers).sorted()
    assert (message.exchange, message.routing_key, message.body) == ("orders", "order.made", b"\x00\xfe")


def test_a_recording_takes_nothing_and_leaves_nothing(server: Broker, recording: Recording) -> None:
    before = {queue.name for queue in server.queues}
    with recording("--queue", "billing", limit=3):
        for number in range(3):
            server.publish("orders", "order.made", json={"id": number})
        server.publish("orders", "order.made", json={"id": 3})

    server.sync()

    assert {queue.name for queue in server.queues} == before
    assert [message.json["id"] for message in server.queue("billing").ready] == [0, 1, 2, 3]
    assert [view.source for view in server.exchange("orders").bindings] == ["orders"]


def test_a_copy_of_a_queue_has_its_bindings(server: Broker, recording: Recording) -> None:
    server.declare_exchange("returns", "headers")
    server.bind_queue("billing", "returns", arguments={"x-match": "all", "shop": "Rome"})
    with recording("--queue", "billing", limit=2) as path:
        server.publish("orders", "shipment.made", b"not for billing")
        server.publish("returns", "", b"not for billing", headers={"shop": "Oslo"})
        server.publish("orders", "order.made", b"1")
        server.publish("returns", "", b"2", headers={"shop": "Rome"})

    read = read_recording(path)

    assert [(it.exchange, it.body) for it in read.messages] == [("orders", b"1"), ("returns", b"2")]
    assert [it["name"] for it in read.definitions["queues"]] == ["billing"]


def test_a_direct_exchange_is_recorded_by_the_keys_of_its_bindings(server: Broker, recording: Recording) -> None:
    server.declare_exchange("mails", "direct")
    for key in ("a", "b"):
        server.bind_queue("billing", "mails", key)
    with recording("--exchange", "mails", limit=2) as path:
        for key in ("a", "c", "b"):
            server.publish("mails", key, b"")

    assert [it.routing_key for it in read_recording(path).messages] == ["a", "b"]


@pytest.mark.parametrize("options", [["--exchange", "share"], ["--queue", "worker"]])
def test_an_exchange_that_shares_messages_out_is_refused(
    server: Broker, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.declare_exchange("share", "x-consistent-hash")
    server.declare_queue("worker")
    server.bind_queue("worker", "share", "1")

    code = main(["record", server.url, "--management", server.management_url, *options, "-o", str(tmp_path / "x")])

    assert code == 2
    assert "so the recorder's would take messages from the others; use --firehose" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", [None, "^sales$", "^[[:alpha:]]+$", r"\Qsales\E"])
def test_what_would_not_come_to_an_alternate_exchange_any_more_is_not_recorded(
    server: Broker, pattern: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {} if pattern else {"alternate-exchange": "unknown"}
    server.declare_exchange("unknown", "fanout")
    server.declare_exchange("sales", "topic", arguments=arguments)
    server.declare_queue("paid")
    server.bind_queue("paid", "sales", "sale.paid")
    if pattern:
        server.admin.set_policy("rest", pattern, {"alternate-exchange": "unknown"}, apply_to="exchanges")
    record = ["record", server.url, "--management", server.management_url, "--exchange", "sales", "--seconds", "0.1"]

    assert main([*record, "-o", str(tmp_path / "all.rec")]) == 2
    assert "'sales' sends what no queue takes to 'unknown'" in capsys.readouterr().err
    assert main([*record, "--key", "sale.paid", "-o", str(tmp_path / "paid.rec")]) == 0


def test_the_firehose_shows_what_the_consumers_of_a_queue_publish(server: Broker, recording: Recording) -> None:
    server.admin.trace_on()
    with (
        recording("--queue", "billing", "--firehose", limit=2) as path,
        pika.BlockingConnection(pika.URLParameters(server.url)) as connection,
    ):
        channel = connection.channel()
        server.publish("orders", "shipment.made", b"not for billing")
        server.publish("orders", "order.made", b"1", headers={"n": 5})
        method, _, _ = next(channel.consume("billing"))
        channel.basic_publish("", "invoices", b"2")
        channel.basic_ack(method.delivery_tag)

    first, delivery, second = read_recording(path).messages

    assert (first.body, first.queues, first.properties.headers) == (b"1", ("billing",), Table.from_python({"n": 5}))
    assert (delivery.queue, delivery.client, delivery.body) == ("billing", second.client, b"")
    assert (second.routing_key, second.body, second.client != first.client) == ("invoices", b"2", True)


def test_no_byte_of_what_is_dropped_or_hashed_is_in_the_file(server: Broker, recording: Recording) -> None:
    dropped = ("body.customer.name", "body[].customer.name", "headers.x-token", "/[0-9]{16}/")
    rules = ["--hash", "*email*", *(word for rule in dropped for word in ("--drop", rule))]
    with recording("--exchange", "orders", *rules, limit=3) as path:
        server.publish("orders", f"order.{EMAIL}", json=ORDER, headers={"x-token": "tok-17", "about": f"to {EMAIL}"})
        server.publish("orders", "order.b", json=[[], ORDER, {}], headers={"kwargsrepr": repr(ORDER), "task": "bill"})
        server.publish("orders", "order.c", json={"card": "4111111111111111", "email": EMAIL, "sum": 1.10})

    octets = path.read_bytes()

    assert not [text for text in (EMAIL, "Ann Other", "tok-17", "4111111111111111") if text.encode() in octets]
    first, second, third = (it for it in read_recording(path).messages)
    hashed = json.loads(first.body)["customer"]["email"]
    assert hashed == json.loads(second.body)[1]["customer"]["email"] == json.loads(third.body)["email"]
    assert first.routing_key == f"order.{hashed}"
    assert json.loads(first.body)["lines"] == [{"sku": "a1", "note": "for "}]
    assert json.loads(third.body) == {"card": "", "email": hashed, "sum": 1.1}


SECRETS = ("ann.o'other@example.com", 'Zoë "Q" \\Back', "4111 1111 1111", 12345678, 98765.4321, "a.b*c[d]+(e)")


@pytest.mark.parametrize("is_hashed", [False, True])
@pytest.mark.parametrize("secret", SECRETS)
def test_what_a_rule_takes_out_is_nowhere_else_in_the_message(secret: str | float, is_hashed: bool) -> None:
    dice = random.Random(39)
    rules = [rule_of(path, is_hashed=is_hashed) for path in ("body.who", "body[].kw.who")]
    for _ in range(50):
        body: object = {"who": secret, "also": hidden(secret, dice), "n": 7}
        if dice.random() < 0.5:
            body = [[], {"kw": body}]
        headers = Table.from_python({"about": hidden(secret, dice), "kwargsrepr": repr(body)})
        properties = Properties(headers=headers, correlation_id=str(secret))
        octets = json.dumps(body, ensure_ascii=dice.random() < 0.5).encode()
        message = RecordedMessage(1, "orders", f"order.{secret}", properties, octets)

        line = as_json(Privacy(rules).cleaned(message))

        shown = json.dumps(line, ensure_ascii=False) + str(line) + str(json.loads(line["body"]))
        forms = {str(secret), json.dumps(secret).strip('"'), json.dumps(secret, ensure_ascii=False).strip('"')}
        assert [form for form in forms if form in shown] == []


def hidden(secret: str | float, dice: random.Random) -> object:
    """Return a value with the secret somewhere in it."""
    inner = hidden(secret, dice) if dice.random() < 0.5 else secret
    return dice.choice(
        [inner, [inner, 1], {"k": inner}, f"before {secret} after", {str(secret): 1}, [{"deep": [inner]}]]
    )


PEOPLE = ("Jane.Doe0@Example.com", "Müller0", "Zoë Groß", "4111111111111111", "o'hara+b@x.org", 'An "A" \\ <B>')


def test_no_spelling_of_what_a_rule_takes_out_is_left() -> None:
    dice, left = random.Random(59), []
    for number in range(3000):
        secret, is_hashed = dice.choice(PEOPLE), dice.random() < 0.5
        rule = dice.choice(["body.who", "*who*", f"/(?i){re.escape(secret)}/"])
        body = {"who": secret, "also": hidden(spelled(secret, dice), dice), spelled(secret, dice): 1, "n": 7}
        headers = {"about": hidden(spelled(secret, dice), dice), f"x {spelled(secret, dice)}": True}
        properties = Properties(headers=Table.from_python(headers), correlation_id=spelled(secret, dice))
        octets = json.dumps(body, ensure_ascii=dice.random() < 0.5).encode()
        message = RecordedMessage(1, "orders", f"order.{spelled(secret, dice)}", properties, octets)

        line = as_json(Privacy([rule_of(rule, is_hashed=is_hashed)], "key").cleaned(message))

        from_json(line)
        if any(folded(secret) in text for text in readings(line)):
            left.append((number, secret, rule, message, line))

    assert left == []


def spelled(text: str, dice: random.Random) -> str:
    """Return a text in another spelling."""
    inner = dice.choice([text, text.upper(), text.lower(), text.title(), normalize("NFD", text)])
    return dice.choice(
        [
            *(inner, quote(inner), quote_plus(inner), quote(quote(inner)), quote(inner).lower()),
            *(escape(inner), inner.encode("ascii", "xmlcharrefreplace").decode().replace("@", "&#64;")),
            *(json.dumps({"k": inner}), json.dumps(inner)[1:-1].replace("@", "\\u0040"), f"log: {json.dumps([inner])}"),
            f"Basic {base64.b64encode(f'{inner}:secret'.encode()).decode()}",
            f"x.{base64.urlsafe_b64encode(json.dumps({'sub': inner}).encode()).decode().rstrip('=')}.y",
        ]
    )


def readings(value: object) -> set[str]:
    """Return all texts in a value, and what they say once they are decoded in any way, in one spelling."""
    if isinstance(value, dict):
        return {text for pair in value.items() for each in pair for text in readings(each)}
    if isinstance(value, list):
        return {text for each in value for text in readings(each)}
    texts = [str(value)]
    for text in texts:
        found = [unquote_plus(text), unescape(text), text.replace("\\\\", "\\").replace('\\"', '"')]
        found.append(re.sub(r"\\u([0-9a-f]{4})", lambda it: chr(int(it[1], 16)), text))
        for run in re.findall(r"[A-Za-z0-9_+/-]{6,}", text):
            with suppress(ValueError):
                found.append(
                    base64.b64decode(run + "=" * (-len(run) % 4), b"-_" if re.search("[_-]", run) else None).decode()
                )
        with suppress(ValueError):
            found += readings(json.loads(text)) if text[:1] in "{[" else []
        texts += [text for text in found if text not in texts]
    return {folded(text) for text in texts}


def folded(text: str) -> str:
    return normalize("NFKD", text).casefold().replace("+", " ")


@pytest.mark.parametrize(
    ("about", "left"),
    [
        ("to jane.doe0@example.com", "to HASH"),
        ("to JANE.DOE0@EXAMPLE.COM", "to HASH"),
        ("?to=Jane.Doe0%40Example.com&a=1", "?to=HASH&a=1"),
        ("<Jane.Doe0&#64;Example.com>", "<HASH>"),
        (r"log {\"to\": \"Jane.Doe0\u0040Example.com\"}", r"log {\"to\": \"HASH\"}"),
        ("Basic " + base64.b64encode(b"Jane.Doe0@Example.com:x").decode(), "Basic BASE64"),
        ("John.Doe0@Example.com", "John.Doe0@Example.com"),
    ],
)
def test_what_was_hashed_is_found_in_other_spellings(about: str, left: str) -> None:
    first = cleaned({"who": "Jane.Doe0@Example.com", "about": about}, "--hash", "body.who")

    hashed = first["who"]
    coded = base64.b64encode(f"{hashed}:x".encode()).decode()
    assert first["about"] == left.replace("HASH", hashed).replace("BASE64", coded)


def test_a_word_is_taken_out_as_a_whole_word_only() -> None:
    body = {"who": "anna", "age": 1234, "about": "Anna's hannah, annabel, anna1 and 12345 or 1234"}

    kept = cleaned(body, "--drop", "body.who", "--drop", "body.age")

    assert kept["about"] == "'s hannah, annabel, 1 and 12345 or "


@pytest.mark.parametrize(
    "value", [4111111111111111, {"4111111111111111": 1}, [{"a": ["x4111111111111111"]}], 4.111111111111111e15]
)
def test_a_pattern_finds_numbers_and_names(value: object) -> None:
    headers = Table((("4111111111111111", Field("t", True)), ("n", Field("l", 4111111111111111))))
    message = RecordedMessage(
        1, "", "user.4111111111111111", Properties(headers=headers), json.dumps({"a": value}).encode()
    )
    privacy = Privacy([rule_of("/[0-9]{16}/", is_hashed=False)])

    line = as_json(privacy.cleaned(message))

    assert "411111" not in str(line)
    assert (line["key"], line["properties"]["headers"]) == ("user.", [["", "t", True], ["n", "l", 0]])
    assert privacy.counts == {"/[0-9]{16}/": 4}


@pytest.mark.parametrize("rule", ["*email*", "body.data.email"])
def test_a_field_is_found_in_json_in_a_text(rule: str) -> None:
    inner = json.dumps({"email": EMAIL, "sum": 1})

    assert cleaned({"data": inner}, "--drop", rule) == {"data": '{"sum": 1}'}


def test_each_field_of_a_name_that_comes_twice_is_found() -> None:
    body = b'{"email":"ll1@example.com","note":"ll1@example.com","email":"ll2@example.com","n":1.10}'
    message = RecordedMessage(1, "", "", Properties(), body)

    assert Privacy([rule_of("*email*", is_hashed=False)]).cleaned(message).body == b'{"note": "", "n": 1.10}'


@pytest.mark.parametrize("rules", [["--drop", "/[0-9]{16}/"], ["--hash", "*card*"]])
@pytest.mark.parametrize("is_base64", [False, True])
def test_a_compressed_body_is_left_out(
    server: Broker, recording: Recording, rules: list[str], is_base64: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    body = zlib.compress(b'{"card": "4111111111111111"}')
    with recording("--exchange", "orders", *rules) as path:
        server.publish("orders", "order.made", base64.b64encode(body) if is_base64 else body)

    assert read_recording(path).messages[0].body == b""
    assert "bodies left out whole" in capsys.readouterr().out


def test_a_body_that_is_kept_without_a_search_is_counted(
    server: Broker, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    body = zlib.compress(b"tok-17")
    with recording("--exchange", "orders", "--drop", "headers.x-token") as path:
        server.publish("orders", "order.made", body, headers={"x-token": "tok-17"})

    assert read_recording(path).messages[0].body == body
    assert "bodies kept, but not searched, since they are no text: 1" in capsys.readouterr().out


@pytest.mark.parametrize("start", [b"text ", b"\xff\x00 "])
def test_what_was_a_header_is_not_in_a_body_that_is_no_json(start: bytes) -> None:
    headers = Table.from_python({"x-token": "Tok-17!"})
    body = start + b"tok-17%21 " + base64.b64encode(b"id Tok-17!")
    privacy = Privacy([rule_of("headers.x-token", is_hashed=False)])

    kept = privacy.cleaned(RecordedMessage(1, "", "", Properties(headers=headers), body)).body

    assert kept == start + b" " + base64.b64encode(b"id ").rstrip(b"=")


def test_a_decimal_in_which_nothing_is_found_keeps_its_type() -> None:
    message = RecordedMessage(1, "", "", Properties(headers=Table.from_python({"sum": Decimal("1.50")})), b"{}")

    assert Privacy([rule_of("*email*", is_hashed=False)]).cleaned(message) == message


def test_a_hash_keeps_properties_within_what_the_wire_holds() -> None:
    properties = Properties(priority=200, message_id="a@b.io " * 30)
    message = RecordedMessage(1, "", "c@d.io." * 30, properties, b"")
    rules = [rule_of(text, is_hashed=True) for text in ("properties.priority", r"/\w@\w\.io/")]

    line = as_json(Privacy(rules).cleaned(message))

    assert as_json(from_json(line)) == line


@pytest.mark.parametrize("rule", ["*email*", "/[a-z.]+@example.com/"])
@pytest.mark.parametrize("depth", range(300, 1500, 300))
def test_a_value_that_is_nested_deep_keeps_no_field_that_a_rule_takes_out(depth: int, rule: str) -> None:
    text = '{"a":' * depth + f'{{"email": "{EMAIL}"}}' + "}" * depth
    headers = Table.from_python({"about": text if rule.startswith("/") else ""})
    message = RecordedMessage(1, "", "", Properties(headers=headers), text.encode())

    line = as_json(Privacy([rule_of(rule, is_hashed=False)]).cleaned(message))

    assert EMAIL not in str(line)


def cleaned(body: object, *options: str) -> Any:
    """Return a body of JSON as these options of the command leave it."""
    rules = [
        rule_of(text, is_hashed=option == "--hash") for option, text in zip(options[::2], options[1::2], strict=True)
    ]
    message = RecordedMessage(1, "orders", "order.made", Properties(), json.dumps(body).encode())
    return Privacy(rules, "key").cleaned(message).json


def test_hashes_are_equal_in_recordings_with_the_same_key_only(server: Broker, recording: Recording) -> None:
    hashed = []
    for key in ("one", "one", "two"):
        with recording("--exchange", "orders", "--hash", "body.id", "--hash-key", key) as path:
            server.publish("orders", "order.made", json={"id": 123456, "lines": []})
        hashed.append(json.loads(read_recording(path).messages[0].body)["id"])

    assert hashed[0] == hashed[1] != hashed[2]
    assert [len(str(number)) for number in hashed] == [6, 6, 6]


def test_a_body_that_cannot_be_searched_is_left_out(
    server: Broker, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    with recording("--exchange", "orders", "--drop", "body.email") as path:
        server.publish("orders", "order.made", b"\x80\x04 pickled " + EMAIL.encode())

    assert EMAIL.encode() not in path.read_bytes()
    assert "bodies left out whole, since they are no JSON and may hold such a field: 1" in capsys.readouterr().out


def test_a_body_in_which_nothing_is_found_keeps_its_bytes(server: Broker, recording: Recording) -> None:
    body = b'{ "total" : 1.10,\n "id": 1e2, "name": "\\u00fc" }'
    with recording("--exchange", "orders", "--drop", "*email*", "--hash", "/[0-9]{16}/") as path:
        server.publish("orders", "order.made", body)

    assert read_recording(path).messages[0].body == body


def test_a_rule_that_found_nothing_says_so(
    server: Broker, recording: Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    with recording("--exchange", "orders", "--drop", "body.emial"):
        server.publish("orders", "order.made", json={"email": EMAIL})

    assert "dropped body.emial: 0 values; check its name" in capsys.readouterr().out


def test_a_first_run_proposes_what_looks_personal_and_writes_nothing(
    server: Broker, recording: Recording, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with recording("--exchange", "orders", "--propose", limit=1):
        server.publish("orders", "order.made", json={**ORDER, "kind": "b2c"}, headers={"x-token": "a", "shop": "Rome"})

    lines = capsys.readouterr().out.splitlines()

    assert lines == ["--hash 'body.customer.email'", "--hash 'body.customer.name'", "--drop 'headers.x-token'"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("bodies", "proposed"),
    [
        (
            [*[{"customer": {"email": "p1@example.com"}}] * 9, {"customer": {"email": {"work": "p@example.com"}}}],
            ["--hash 'body.customer.email'", "--hash 'body.customer.email.work'"],
        ),
        ([{"data": json.dumps({"to": EMAIL})}], ["--hash 'body.data.to'"]),
        ([{"users": {f"{n:08}": {"to": EMAIL} for n in range(50)}}], ["--hash 'to'"]),
        ([{"by": {f"{n:08}": EMAIL for n in range(50)}}], ["--hash 'body.by'"]),
        ([{"the.to": EMAIL}], ["--hash 'the?to'"]),
        ([[[EMAIL], {"to": EMAIL}, {}]], ["--hash 'body[].to'", "--hash 'body[][]'"]),
    ],
)
def test_what_is_proposed_takes_each_address_out(
    server: Broker, recording: Recording, bodies: list[object], proposed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with recording("--exchange", "orders", "--propose", limit=len(bodies)):
        for body in bodies:
            server.publish("orders", "order.made", json=body, headers={"task": "bill"})

    lines = capsys.readouterr().out.splitlines()

    assert lines == proposed
    options = [word.strip("'") for line in lines for word in line.split()]
    assert not [body for body in bodies if "@example.com" in json.dumps(cleaned(body, *options))]


def test_ctrl_c_ends_a_recording_in_good_order(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    command = [sys.executable, "-m", "leveret", "record", server.url, "--exchange", "orders", "-o", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        server.wait_for_consumer(client="leveret record", timeout=30)
        server.publish("orders", "order.made", b"1")
        server.sync()
        server.wait_idle()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)

    assert (process.returncode, out.startswith(f"{path}: 1 message in ")) == (0, True)
    assert [it.body for it in read_recording(path).messages] == [b"1"]


def test_what_came_before_the_server_ended_the_recording_is_kept(
    server: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders.rec"
    command = [sys.executable, "-m", "leveret", "record", server.url, "--exchange", "orders", "-o", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        server.wait_for_consumer(client="leveret record", timeout=30)
        server.publish("orders", "order.made", b"1")
        server.wait_idle()
        server.admin.close_all_connections("maintenance")
        _, error = process.communicate(timeout=60)

    assert (process.returncode, f"{path} has what came before" in error) == (1, True)
    assert [it.body for it in read_recording(path).messages] == [b"1"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "record what? Give --exchange orders, --queue billing, or --firehose for all messages"),
        (["--exchange", "orders"], "give -o orders.rec to write the recording"),
        (["--exchange", "nowhere", "-o", "x"], "refuses: 404 NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
        (["--queue", "nowhere", "-o", "x"], "--queue nowhere: no exchange leads to it"),
        (["--exchange", "orders", "-o", "x", "--drop", "customer.email"], "as in body.customer.email"),
        (["--exchange", "orders", "-o", "x", "--hash", "/(/"], "--hash /(/: no regular expression"),
        (["--exchange", "orders", "-o", "x", "--sample", "2"], "--sample 2 is no part of all messages"),
        (["--exchange", "orders", "-o", "x", "--drop", "properties.colour"], "no property; a message has content_type"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_right(
    server: Broker, options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["record", server.url, "--management", server.management_url, *options])

    assert (code, text in capsys.readouterr().err) == (2, True)


def written(path: Path, count: int = 20) -> bytes:
    headers = Table((("n", Field("l", 5)), ("n", Field("S", b"\xff")), ("list", Field("A", (Field("t", True),)))))
    with RecordingWriter(path, {"vhost": "/"}) as writer:
        for number in range(count):
            properties = Properties(headers=headers, priority=number)
            writer.add(RecordedMessage(number, "orders", "order.made", properties, f'{{"id": {number}}}'.encode()))
    return path.read_bytes()


def test_a_hundred_damaged_files_are_refused_with_one_line_each(tmp_path: Path) -> None:
    dice, path = random.Random(39), tmp_path / "orders.rec"
    whole = written(path)
    accepted, texts = [], set()
    for number in range(100):
        at = dice.randrange(len(whole))
        cut, flipped = whole[:at], whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :]
        doubled = whole[:at] + whole[at : at + 40] + whole[at:]
        path.write_bytes((cut, flipped, doubled, dice.randbytes(at), whole[at:])[number % 5])
        try:
            read_recording(path)
            accepted.append(number)
        except UnreadableTraceError as error:
            texts.add(str(error))

    assert accepted == []
    assert not [text for text in texts if "\n" in text or not text.startswith(str(path))]


@pytest.mark.parametrize(
    "changed",
    [
        lambda octets: octets.replace(b"\n", b"\r\n"),
        lambda octets: b"\xef\xbb\xbf" + octets,
        lambda octets: octets.decode().encode("utf-16"),
    ],
)
def test_a_file_that_git_or_an_editor_has_written_anew_is_read(
    changed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "orders.rec"
    whole = written(path)
    before = read_recording(path)
    path.write_bytes(changed(whole))

    assert read_recording(path) == before


@pytest.mark.parametrize("damaged", [lambda it: it[:-9], lambda it: it.replace(b"order", b"ordre"), lambda it: it[9:]])
def test_a_damaged_file_names_a_way_out(damaged: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    path.write_bytes(damaged(written(path)))

    with pytest.raises(UnreadableTraceError, match="restore it from where you keep it, or record again"):
        read_recording(path)


def test_definitions_in_a_recording_open_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    with RecordingWriter(path, {"definitions": "definitions.json"}):
        pass

    with pytest.raises(UnreadableTraceError, match="has no object as its definitions"):
        read_recording(path)


def test_a_binding_of_an_exclusive_queue_is_left_out(tmp_path: Path) -> None:
    # As RabbitMQ 4.3.6 lists them: with the binding of an exclusive queue, but without the queue.
    queues = [{"name": "billing", "durable": True, "auto_delete": False, "arguments": {}}]
    exchanges = [{"name": "orders", "type": "fanout", "durable": True, "auto_delete": False, "arguments": {}}]
    to = {"source": "orders", "destination_type": "queue", "routing_key": "", "arguments": {}}
    bindings = [{"destination": name, **to} for name in ("amq.gen-rvFEeX6Q", "billing")]
    definitions, left_out = without_exclusive({"exchanges": exchanges, "queues": queues, "bindings": bindings})
    with RecordingWriter(tmp_path / "orders.rec", {"vhost": "/", "definitions": definitions}) as writer:
        writer.add(recorded(1, {}))

    with Broker() as broker:
        outcomes = broker.replay(tmp_path / "orders.rec").play()

    assert left_out == ["amq.gen-rvFEeX6Q"]
    assert outcomes.of(1) == ["ended billing: left in the queue"]


def test_a_recording_without_messages_says_what_to_do(
    server: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders.rec"
    options = ["--management", server.management_url, "--exchange", "orders", "--seconds", "0.01", "-o", str(path)]
    code = main(["record", server.url, *options])

    assert (code, "check the names of what is recorded" in capsys.readouterr().err) == (0, True)
    with pytest.raises(BrokerError, match="record again while messages are published"):
        server.replay(path)


def test_a_recording_that_lacks_messages_says_how_many_it_has(tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    lines = written(path).splitlines(keepends=True)
    count = len(lines) - 2
    path.write_bytes(b"".join([*lines[:2], *lines[4:]]))

    with pytest.raises(UnreadableTraceError, match=rf"orders\.rec has {count - 2} of {count} messages; restore it"):
        read_recording(path)


def test_the_line_of_a_damaged_message_is_named(tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    lines = written(path).splitlines(keepends=True)
    lines[7] = lines[7].replace(b'"l"', b'"?"')
    path.write_bytes(b"".join(lines))

    with pytest.raises(UnreadableTraceError, match=r"orders\.rec, line 8: this is no message; the file is damaged"):
        read_recording(path)


def test_a_recording_that_fails_leaves_the_older_file(server: Broker, tmp_path: Path) -> None:
    path = tmp_path / "orders.rec"
    before = written(path)

    code = main(["record", server.url, "--exchange", "nowhere", "-o", str(path)])

    assert (code, path.read_bytes(), len(list(tmp_path.iterdir()))) == (2, before, 1)
