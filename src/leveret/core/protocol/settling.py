"""The order in which a channel gives several deliveries back, or settles them, at once.

RabbitMQ's channel tells one queue after the other, by name, and each of them consumer by consumer: first what was
fetched by basic.get, each a consumer of its own, then consumers by tag (rabbit_channel, foreach_per_queue). What a
quorum queue takes back from a channel that has ended it takes consumer by consumer too, in an order of its own.
Seen on 3.10, 4.0 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.core.protocol.delivery import Delivery


def by_consumer(deliveries: Iterable[Delivery]) -> list[list[Delivery]]:
    """The deliveries of each queue and consumer, in the order of settling."""
    groups: dict[object, list[Delivery]] = {}
    for delivery in deliveries:
        groups.setdefault((delivery.queue, delivery.consumer or delivery.tag), []).append(delivery)
    return list(groups.values()) if len(groups) < 2 else sorted(groups.values(), key=_settling_key)


def in_order(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """The deliveries in the order of settling."""
    return [delivery for group in by_consumer(deliveries) for delivery in group]


def in_order_of_dying(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """The deliveries in the order in which their queues reject them.

    A classic queue with priorities begins with the highest (rabbit_priority_queue, seen on 3.10, 4.0 and 4.3).
    """
    return [it for group in by_consumer(deliveries) for it in _highest_first(group)]


def _highest_first(group: list[Delivery]) -> list[Delivery]:
    has_priorities = group[0].queue.settings.max_priority > 0
    return sorted(group, key=lambda delivery: -delivery.entry.priority) if has_priorities else group


def by_ended_queue(deliveries: Iterable[Delivery], *, are_consumers_numbered: bool) -> list[list[Delivery]]:
    """The deliveries of each queue, in the order in which it takes them back when their channel ends."""
    groups: dict[object, list[Delivery]] = {}
    for delivery in deliveries:
        groups.setdefault(delivery.queue, []).append(delivery)
    key = _number_key if are_consumers_numbered else _text_key
    return [sorted(group, key=key) if group[0].queue.returns_by_consumer else group for group in groups.values()]


def _settling_key(group: list[Delivery]) -> tuple[bytes, int, bytes]:
    first = group[0]
    if first.consumer is None:
        return _octets(first.queue.name), first.tag, b""
    # Erlang puts numbers, which gets have for a tag, before texts.
    return _octets(first.queue.name), 1 << 64, _octets(first.consumer.tag)


def _number_key(delivery: Delivery) -> tuple[bool, int, bytes]:
    """Consumers in the order of their coming, then gets by the text of their delivery tag."""
    consumer = delivery.consumer
    return (True, 0, _text_key(delivery)) if consumer is None else (False, consumer.ordinal, b"")


def _text_key(delivery: Delivery) -> bytes:
    """The consumer's tag; that of a get is the text of its delivery tag."""
    return _octets(str(delivery.tag) if delivery.consumer is None else delivery.consumer.tag)


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
