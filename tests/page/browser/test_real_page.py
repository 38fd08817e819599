"""A page that a broker wrote."""

from __future__ import annotations

from pathlib import Path

import pika
from playwright.sync_api import expect

from leveret import Broker
from tests.page.browser.conftest import Open


def test_page_of_a_broker_shows_what_its_client_did(open_file: Open, tmp_path: Path) -> None:
    with Broker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("jobs", durable=True)
            channel.basic_publish("", "jobs", b'{"id": 1}')
            channel.basic_get("jobs", auto_ack=True)
        saved = broker.save_page(tmp_path / "broker.html")

    page = open_file(Path(saved), "#message-1")

    expect(page.locator(".details")).to_contain_text('"id": 1')
    expect(page.locator(".step.active")).to_contain_text("published #1")
