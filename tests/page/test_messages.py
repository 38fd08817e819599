"""The messages of a story: bodies, headers, frameworks, and what is hidden of them."""

from __future__ import annotations

import json
import random
import re

import pika
import pytest

from leveret import Broker
from leveret.page.formats.assets import assets
from tests.page.conftest import Clients, story_in

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "quote \" and ' and ` and \\",
    "\u2028line\u2029separators",
    "nul \0 and bell \7",
    "\u202eright to left\u202c",
    "&lt;b&gt; &amp;",
)


def only(story):
    (message,) = story["messages"]
    return message


def published(clients, body=b"1", exchange="", key="jobs", **properties):
    channel = clients.channel()
    channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))
    clients.broker.sync()
    return only(clients.story())


def test_json_is_a_value(clients):
    message = published(clients, b'{"id": 7, "lines": [1, 2.5, null]}')

    assert message["body"]["json"] == {"id": 7, "lines": [1, 2.5, None]}
    assert message["label"] == '{"id": 7, "lines": [1, 2.5, null]}'


@pytest.mark.parametrize("body", [b'{"id": 9007199254740993}', b"[NaN]", b"[1e999]", b'{"cut', b"[" * 5000])
def test_json_that_a_browser_would_change_is_text(clients, body):
    message = published(clients, body)

    assert message["body"]["text"] == body.decode()


def test_bytes_are_hexadecimal_digits(clients):
    assert published(clients, b"\x00\xff\x10")["body"]["hex"] == "00ff10"


def test_a_long_body_is_cut_and_its_size_known(clients):
    body = published(clients, b"x" * 1_000_000)["body"]

    assert (len(body["text"]), body["cut"], body["size"]) == (16_000, 1_000_000, 1_000_000)


def test_secrets_are_hidden_in_headers_and_in_json(clients):
    body = json.dumps({"id": 7, "card": {"token": "t0p"}}).encode()
    message = published(clients, body, headers={"Authorization": "Bearer t0p", "tries": 1, "x": {"api_key": "t0p"}})

    assert message["headers"] == {"Authorization": "(redacted)", "tries": 1, "x": {"api_key": "(redacted)"}}
    assert message["redacted"] == ["Authorization", "x.api_key"]
    assert message["body"]["json"] == {"id": 7, "card": {"token": "(redacted)"}}
    assert "t0p" not in clients.page()


def test_names_of_the_users_own_are_hidden_too(tmp_path):
    with Broker(trace_redact={"x-customer"}, checks="all=off") as broker:
        clients = Clients(broker, tmp_path)
        published(clients, headers={"X-Customer": "Ada"})

        assert "Ada" not in clients.page()


def test_passwords_of_users_are_in_no_page(tmp_path):
    with Broker(users={"shop": "s3cret-of-shop"}) as broker:
        broker.save_page(tmp_path / "page.html")

    assert "s3cret-of-shop" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_unchanged_and_never_ends_the_script(broker, clients, text):
    name = text.replace("\0", "")
    broker.declare_queue(name)
    broker.publish("", name, text.encode(), headers={name: text}, message_id=name)

    page = clients.page()
    message = only(story_in(page))

    assert message["body"]["text"] == text
    assert message["headers"] == {name: text}
    assert ["message_id", name] in message["properties"]
    assert [queue["name"] for queue in story_in(page)["queues"]] == [name]
    story = page[page.index('id="story">') :].partition(">")[2].partition("</script>")[0]
    assert not set(story) & set("<>&\u2028\u2029")
    assert page.count("<script") == 2


def test_the_policy_allows_the_style_and_the_script_of_the_page_only(clients):
    page = clients.page()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)

    assert policy == assets().policy
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert f"<style>{assets().style}</style>" in page
    assert f"<script>{assets().script}</script>" in page
    assert not re.search(r"https?://(?!www\.w3\.org/)", page)


def test_a_task_of_celery_is_named_by_its_header(clients):
    headers = {"task": "shop.tasks.send_mail", "id": "4bb1", "argsrepr": "(7,)", "retries": 2, "lang": "py"}
    message = published(clients, b"[[7], {}, {}]", headers=headers)

    assert (message["framework"], message["label"]) == ("Celery", "shop.tasks.send_mail")
    assert message["summary"] == [
        ["task", "shop.tasks.send_mail"],
        ["id", "4bb1"],
        ["argsrepr", "(7,)"],
        ["retries", "2"],
    ]


@pytest.mark.parametrize(
    ("framework", "label", "body", "properties"),
    [
        ("taskiq", "shop:pay", b"{}", {"headers": {"task_name": "shop:pay", "task_id": "1"}}),
        (
            "dramatiq",
            "pay",
            b'{"queue_name": "default", "actor_name": "pay", "args": [7], "kwargs": {}, "message_id": "1"}',
            {},
        ),
        ("FastStream", '{"id": 7}', b'{"id": 7}', {"app_id": "faststream-0.5.34", "correlation_id": "c"}),
        ("nameko", "a.b.2", b"{}", {"headers": {"nameko.call_id_stack": ["standalone.1", "a.b.2"]}}),
    ],
)
def test_messages_of_frameworks_are_read_for_what_they_are(clients, framework, label, body, properties):
    message = published(clients, body, **properties)

    assert (message["framework"], message["label"]) == (framework, label)
    assert message["summary"]


def test_a_mailbox_of_kombu_names_its_method(broker, clients):
    broker.declare_exchange("celery.pidbox", "fanout")
    message = published(clients, b'{"method": "ping", "arguments": {}}', "celery.pidbox", "")

    assert (message["framework"], message["label"]) == ("kombu", "ping")


def test_a_message_of_no_framework_has_none(clients):
    assert "framework" not in published(clients, b'{"task": "wash up"}', headers={"id": 1})


def test_many_large_bodies_still_fit(broker, clients):
    broker.declare_queue("jobs")
    chance = random.Random(5)
    for _ in range(300):
        broker.publish("", "jobs", chance.randbytes(8_000).hex().encode())

    page = clients.page()

    assert len(page) < 2_000_000
    story = story_in(page)
    assert len(story["messages"]) == 300
    assert story["cut"]["bodies"] == 300
    assert story["cut"]["events"] == 0


def test_a_page_keeps_every_event_and_the_whole_bodies_of_ten_thousand(broker, clients):
    broker.declare_queue("jobs")
    for number in range(5_100):
        broker.publish("", "jobs", b'{"id": %d, "customer": "number %d", "items": ["tea", "cups"]}' % (number, number))

    page = clients.page()

    assert len(page) < 700_000
    story = story_in(page)
    assert story["cut"] == {"events": 0, "bodies": 0}
    assert len([event for event in story["events"] if event["kind"] == "published"]) == 5_100
    assert story["messages"][0]["body"]["json"] == {"id": 0, "customer": "number 0", "items": ["tea", "cups"]}


def test_a_withheld_confirm_comes_first_and_names_its_fault(broker, clients):
    broker.declare_queue("jobs")
    channel = clients.channel("bulk")
    channel._impl.confirm_delivery(lambda frame: None, lambda frame: None)
    broker.faults.withhold_confirms(client="bulk")
    channel._impl.basic_publish("", "jobs", b"1")
    channel.connection.process_data_events(0)
    broker.sync()

    story = clients.story()

    (message,) = story["messages"]
    fault = next(event for event in story["events"] if event["kind"] == "fault")
    called = next(event for event in story["events"] if event["text"] == "the test called withhold_confirms")
    assert (message["outcome"], message["tone"]) == ("never confirmed (withheld); ready in 'jobs'", "bad")
    assert fault["message"] == message["number"]
    assert fault["line"] == called["line"]
    assert "setup" not in called


def test_what_a_client_did_not_settle_or_returned_again_and_again_comes_first(broker, clients):
    broker.declare_queue("jobs")
    broker.publish("", "jobs", b"1")
    channel = clients.channel("worker")
    for _ in range(2):
        method, _, _ = channel.basic_get("jobs")
        channel.basic_nack(method.delivery_tag, requeue=True)
    channel.basic_get("jobs")
    broker.sync()

    story = clients.story()

    (message,) = story["messages"]
    nacked = next(event for event in story["events"] if event["kind"] == "nacked")
    assert message["outcome"].startswith("not settled by c1/ch1; requeued 2 times; ")
    assert ["multiple", "no"] in nacked["detail"]
    assert ["requeue", "yes"] in nacked["detail"]


def test_a_message_in_a_queue_that_is_never_consumed_is_no_problem(broker, clients):
    broker.declare_queue("audit")
    broker.publish("", "audit", b"1")

    (message,) = clients.story()["messages"]

    assert message["tone"] == "plain"
