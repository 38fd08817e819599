"""The firehose: copies of published and delivered messages."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario


def listening(s: Run, key: str) -> Channel:
    """Return a channel whose queue ``trace`` gets the firehose's messages with this key."""
    ch = s.channel()
    ch.declare("trace")
    ch.bind("trace", "amq.rabbitmq.trace", key)
    s.operator.trace_on(s.vhost)
    return ch


def note(ch: Channel) -> None:
    """Get one trace message; leave out the fields that differ from run to run."""
    ch.connection.log.hidden.add("basic.get-ok")
    event = ch.get("trace", no_ack=True)
    ch.connection.log.hidden.discard("basic.get-ok")
    headers = dict((event.properties or {})["headers"])
    headers[b"connection"] = headers[b"connection"]._replace(value=b"<connection>")
    event.properties = {**(event.properties or {}), "headers": tuple(headers.items())}
    ch.connection.log.write(ch.number, event.line())


@scenario
def publishes_are_copied(s: Run) -> None:
    ch = listening(s, "publish.#")
    publisher = s.channel()
    publisher.declare("q")
    publisher.bind("q", "amq.topic", "a.*")
    publisher.publish("amq.topic", "a.b", "routed", message_id="m", delivery_mode=2, headers={"b": 1, "CC": ["c"]})
    ch.await_count("trace", 1)
    note(ch)
    publisher.publish("amq.direct", "nowhere", "unrouted")
    ch.await_count("trace", 1)
    note(ch)
    publisher.publish("", "missing", "default")
    ch.await_count("trace", 1)

    note(ch)


@scenario
def deliveries_are_copied(s: Run) -> None:
    ch = listening(s, "deliver.#")
    consumer = s.channel()
    consumer.declare("q")
    consumer.fill("q", "1", "2")
    delivery = consumer.get("q")
    ch.await_count("trace", 1)
    note(ch)
    consumer.nack(delivery)
    consumer.await_count("q", 2)
    consumer.consume("q", no_ack=True)
    consumer.deliveries(2)
    ch.await_count("trace", 2)
    note(ch)

    note(ch)


@scenario
def the_trace_exchange_takes_no_publish(s: Run) -> None:
    ch = s.channel()
    ch.publish("amq.rabbitmq.trace", "publish.x", "1")

    ch.receive()


@scenario
def redeliveries_of_a_quorum_queue_are_copied_with_their_counts(s: Run) -> None:
    ch = listening(s, "deliver.#")
    consumer = s.channel()
    consumer.declare("q", arguments={"x-queue-type": "quorum"})
    consumer.fill("q", "1", headers={"a": 1})
    delivery = consumer.get("q")
    ch.await_count("trace", 1)
    note(ch)
    consumer.nack(delivery)
    consumer.await_count("q", 1)
    consumer.consume("q")
    consumer.deliveries(1)
    ch.await_count("trace", 1)

    note(ch)
