"""The tests of the price server."""

import json
import threading
import uuid

import pika
import pytest
from prices import serve

REQUEST = {
    "article": "tea",
    "quantity": 3,
    "voucher": "TEA10",
    "currency": "USD",
    "locale": "en",
    "customer": {"id": 7, "group": "b2b"},
}


@pytest.fixture(autouse=True)
def prices(leveret):
    stopping = threading.Event()
    thread = threading.Thread(target=serve, args=(leveret.url, stopping))
    thread.start()
    leveret.wait_for_consumer("prices")
    yield
    stopping.set()
    thread.join()


def ask(url, request):
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        number = str(uuid.uuid4())
        properties = pika.BasicProperties(reply_to=queue, correlation_id=number)
        channel.basic_publish("", "prices", json.dumps(request), properties)
        _, properties, body = next(channel.consume(queue, auto_ack=True, inactivity_timeout=5))
        assert properties.correlation_id == number
        return json.loads(body)


def test_a_price_in_dollars(leveret):
    assert ask(leveret.url, REQUEST) == {"cents": 1530, "currency": "USD"}


def test_an_unknown_article_has_no_price(leveret):
    assert ask(leveret.url, {"article": "spoon"}) == {"error": "unknown article spoon"}
