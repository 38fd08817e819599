"""One channel of a scenario: AMQP's methods by name, each waiting for its reply."""

from __future__ import annotations

from collections.abc import Mapping

from . import codec
from .client import Connection, Event, ScenarioEnded

Arguments = Mapping[str, object] | list[tuple[str, object]]


class Channel:
    """A channel number on a connection."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self._published = 0
        self._unconfirmed: set[int] = set()

    def send(self, name: str, **fields: object) -> None:
        """Send a method and wait for nothing."""
        self.connection.send(self.number, name, **fields)

    def receive(self, *names: str) -> Event:
        """Return the next event with one of these names, or the one that closed the channel."""
        return self.connection.take(self.number, *names)

    def call(self, name: str, **fields: object) -> Event:
        """Send a method and return its reply."""
        self.send(name, **fields)
        return self.receive(f"{name}-ok")

    def open(self) -> Event:
        reply = self.call("channel.open")
        if reply.name == "channel.open-ok":
            self.connection.open_channels.append(self.number)
        return reply

    def close(self) -> Event:
        reply = self.call("channel.close", reply_code=200, reply_text="bye")
        self.connection.forget_channel(self.number)
        return reply

    def sync(self) -> None:
        """Wait until the channel has handled everything sent before; effects on queues may still be on their way."""
        hidden = self.connection.log.hidden
        hidden.add("channel.flow-ok")
        self.call("channel.flow", active=True)
        hidden.discard("channel.flow-ok")

    def declare_exchange(
        self, exchange: str | bytes, type: str = "direct", *, durable: bool = True, **fields: object
    ) -> Event:
        return self.call("exchange.declare", exchange=exchange, type=type, durable=durable, **fields)

    def delete_exchange(self, exchange: str, *, if_unused: bool = False) -> Event:
        return self.call("exchange.delete", exchange=exchange, if_unused=if_unused)

    def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> Event:
        fields = {"destination": destination, "source": source, "routing_key": routing_key}
        return self.call("exchange.bind", **fields, arguments=arguments or {})

    def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> Event:
        fields = {"destination": destination, "source": source, "routing_key": routing_key}
        return self.call("exchange.unbind", **fields, arguments=arguments or {})

    def declare(
        self, queue: str | bytes = "", *, durable: bool = True, arguments: Arguments | None = None, **fields: object
    ) -> Event:
        """Declare a queue, durable by default."""
        return self.call("queue.declare", queue=queue, durable=durable, arguments=arguments or {}, **fields)

    def passive(self, queue: str) -> Event:
        """Declare the queue passively; the reply has its message and consumer counts."""
        return self.call("queue.declare", queue=queue, passive=True)

    def bind(self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None) -> Event:
        fields = {"queue": queue, "exchange": exchange, "routing_key": routing_key}
        return self.call("queue.bind", **fields, arguments=arguments or {})

    def unbind(self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None) -> Event:
        fields = {"queue": queue, "exchange": exchange, "routing_key": routing_key}
        return self.call("queue.unbind", **fields, arguments=arguments or {})

    def purge(self, queue: str) -> Event:
        return self.call("queue.purge", queue=queue)

    def delete(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> Event:
        return self.call("queue.delete", queue=queue, if_unused=if_unused, if_empty=if_empty)

    def publish(
        self,
        exchange: str | bytes = "",
        routing_key: str | bytes = "",
        body: str | bytes = "",
        *,
        mandatory: bool = False,
        immediate: bool = False,
        **properties: object,
    ) -> None:
        """Publish a message and wait for nothing."""
        fields = {"exchange": exchange, "routing_key": routing_key, "mandatory": mandatory, "immediate": immediate}
        self.send("basic.publish", **fields)
        self.send_content(body, codec.encode_properties(**properties))
        self._published += 1
        self._unconfirmed.add(self._published)

    def send_content(self, body: str | bytes, properties: bytes = b"\0\0", frame_max: int = 8192) -> None:
        """Send a content header and body frames."""
        octets = codec.octets(body)
        self.header(len(octets), properties)
        for start in range(0, len(octets), frame_max - 8):
            self.body(octets[start : start + frame_max - 8])

    def header(self, body_size: int, properties: bytes = b"\0\0", **fields: int) -> None:
        """Send one content header frame."""
        payload = codec.encode_header(body_size, properties, **fields)
        self.connection.send_frame(codec.HEADER, self.number, payload)

    def body(self, octets: bytes) -> None:
        """Send one body frame."""
        self.connection.send_frame(codec.BODY, self.number, octets)

    def fill(self, queue: str, *bodies: str, **properties: object) -> None:
        """Publish these bodies to a queue without consumers and wait until they are in it."""
        before = self._count(queue)
        for body in bodies:
            self.publish("", queue, body, **properties)
        self._await(queue, before + len(bodies))

    def get(self, queue: str, *, no_ack: bool = False) -> Event:
        self.send("basic.get", queue=queue, no_ack=no_ack)
        return self.receive("basic.get-ok", "basic.get-empty")

    def get_all(self, queue: str) -> None:
        """Get messages without acknowledgement until the queue is empty."""
        while self.get(queue, no_ack=True).name == "basic.get-ok":
            pass

    def await_count(self, queue: str, count: int) -> None:
        """Wait until the queue holds this many ready messages; write into the transcript how many it then holds."""
        self.connection.log.write(self.number, f"{queue} has {self._await(queue, count)} ready")

    def _await(self, queue: str, count: int) -> int:
        for _ in range(self.connection.patience):
            found = self._count(queue)
            if found == count:
                break
        return found

    def _count(self, queue: str) -> int:
        hidden = self.connection.log.hidden
        hidden.add("queue.declare-ok")
        reply = self.passive(queue)
        hidden.discard("queue.declare-ok")
        return int(str(reply["message_count"]))

    def consume(
        self,
        queue: str,
        consumer_tag: str | bytes = "c",
        *,
        arguments: Arguments | None = None,
        **fields: object,
    ) -> Event:
        return self.call("basic.consume", queue=queue, consumer_tag=consumer_tag, arguments=arguments or {}, **fields)

    def cancel(self, consumer_tag: str = "c") -> Event:
        return self.call("basic.cancel", consumer_tag=consumer_tag)

    def deliver(self) -> Event:
        """Return the next delivery."""
        return self.receive("basic.deliver")

    def deliveries(self, count: int) -> list[Event]:
        """Return this many deliveries."""
        return [self._delivery_of(index, count) for index in range(count)]

    def _delivery_of(self, index: int, count: int) -> Event:
        event = self.deliver()
        if event.name != "basic.deliver":
            raise ScenarioEnded(f"waited for delivery {index + 1} of {count}, {event.name} came")
        return event

    def ack(self, delivery_tag: int | Event, *, multiple: bool = False) -> None:
        self.send("basic.ack", delivery_tag=_tag(delivery_tag), multiple=multiple)

    def nack(self, delivery_tag: int | Event, *, multiple: bool = False, requeue: bool = True) -> None:
        self.send("basic.nack", delivery_tag=_tag(delivery_tag), multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int | Event, *, requeue: bool = True) -> None:
        self.send("basic.reject", delivery_tag=_tag(delivery_tag), requeue=requeue)

    def recover(self, *, requeue: bool = True) -> Event:
        return self.call("basic.recover", requeue=requeue)

    def qos(self, prefetch_count: int, *, global_: bool = False, prefetch_size: int = 0) -> Event:
        return self.call("basic.qos", prefetch_size=prefetch_size, prefetch_count=prefetch_count, global_=global_)

    def confirm_select(self, *, gathered: bool = True) -> Event:
        """Turn on confirms; the transcript gets them as sets, because their grouping is a matter of timing."""
        self._published = 0
        self._unconfirmed.clear()
        if gathered:
            self.connection.log.confirmations[self.number] = []
        return self.call("confirm.select")

    def confirms(self) -> None:
        """Wait until every publish is confirmed; the transcript gets the sets of acks and nacks."""
        settled: dict[str, list[int]] = {"basic.ack": [], "basic.nack": []}
        while self._unconfirmed:
            event = self.receive("basic.ack", "basic.nack")
            if event.name not in settled:
                break
            settled[event.name] += self._settle(event)
        names = f"acks={sorted(settled['basic.ack'])} nacks={sorted(settled['basic.nack'])}"
        self.connection.log.write(self.number, f"confirmed {names}")

    def _settle(self, event: Event) -> list[int]:
        tag = int(str(event["delivery_tag"]))
        settled = [number for number in self._unconfirmed if number == tag or (event["multiple"] and number < tag)]
        self._unconfirmed.difference_update(settled)
        return settled

    def receive_confirm(self) -> Event:
        """Return one confirm as it arrived."""
        return self.receive("basic.ack", "basic.nack")

    def tx_select(self) -> Event:
        return self.call("tx.select")

    def commit(self) -> Event:
        return self.call("tx.commit")

    def rollback(self) -> Event:
        return self.call("tx.rollback")


def _tag(delivery: int | Event) -> object:
    return delivery["delivery_tag"] if isinstance(delivery, Event) else delivery
