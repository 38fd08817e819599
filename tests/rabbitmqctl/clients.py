"""The clients whose queues, connections and consumers the listings show, on a server and on leveret alike."""

from __future__ import annotations

import pika


def connect(host: str, port: int) -> pika.BlockingConnection:
    """Open a connection with two queues, three messages, a binding and a consumer in the virtual host "shop"."""
    properties = {"connection_name": "till"}
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(host, port, "shop", client_properties=properties, heartbeat=0)
    )
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("sales", "topic", durable=True)
    channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5, "x-queue-type": "classic"})
    channel.queue_declare("work", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("own", exclusive=True)
    channel.queue_bind("orders", "sales", "order.#")
    channel.queue_bind("work", "sales", "work.*", arguments={"priority": 3})
    for body in (b"1", b"22"):
        channel.basic_publish("sales", "order.new", body, pika.BasicProperties(delivery_mode=2))
    channel.basic_qos(prefetch_count=1)
    channel.basic_publish("", "work", b"1", mandatory=True)
    channel.basic_publish("", "work", b"2", mandatory=True)
    channel.basic_consume("work", lambda *_: None, consumer_tag="worker")
    connection.process_data_events(1)
    return connection
