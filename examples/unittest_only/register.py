"""Sensors report temperatures, and a register keeps the last one of each. Both use kombu and need only a URL."""

from __future__ import annotations

from typing import Any

from kombu import Connection, Consumer, Exchange, Message, Queue

MEASUREMENTS = Exchange("measurements", type="topic", durable=True)
REGISTER = Queue("register", MEASUREMENTS, routing_key="*.temperature", durable=True)


def report(amqp_url: str, sensor: str, kind: str, value: float) -> None:
    """Publish one measurement."""
    with Connection(amqp_url) as connection:
        producer = connection.Producer(serializer="json")
        producer.publish({"sensor": sensor, "value": value}, exchange=MEASUREMENTS, routing_key=f"{sensor}.{kind}")


class Register:
    """A register of the last temperature of each sensor."""

    def __init__(self, amqp_url: str) -> None:
        """Connect and subscribe to temperatures."""
        self.temperatures: dict[str, float] = {}
        self.connection = Connection(amqp_url)
        self.consumer: Consumer = self.connection.Consumer(
            REGISTER, callbacks=[self.on_measurement], accept=["json"], prefetch_count=1
        )
        self.consumer.consume()

    def take(self, *, patience: float = 5) -> None:
        """Wait for one measurement and keep it; raise TimeoutError if none arrives."""
        try:
            self.connection.drain_events(timeout=patience)
        except TimeoutError:
            raise TimeoutError("no measurement arrived") from None

    def on_measurement(self, body: dict[str, Any], message: Message) -> None:
        """Keep one measurement; reject a value that is not a number."""
        if not isinstance(body.get("value"), int | float):
            message.reject()
            return
        self.temperatures[body["sensor"]] = body["value"]
        message.ack()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
