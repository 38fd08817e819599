"""The order in which a channel requeues or settles several deliveries at once.

RabbitMQ's channel notifies one queue after the other, by name, and each of them consumer by consumer. Deliveries
fetched by basic.get come first, each as a consumer of its own, then consumers by tag (rabbit_channel,
foreach_per_queue). A quorum queue takes deliveries back from a channel that has ended consumer by consumer too, in an
order of its own. Seen on 3.10, 4.0 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from leveret.core.protocol.delivery import Delivery
from leveret.core.wire import erlang


def by_consumer(deliveries: Iterable[Delivery]) -> list[list[Delivery]]:
    """Return the deliveries of each queue and consumer, in the order of settling."""
    groups: dict[object, list[Delivery]] = {}
    for delivery in deliveries:
        groups.setdefault((delivery.queue, delivery.consumer or delivery.tag), []).append(delivery)
    return list(groups.values()) if len(groups) < 2 else sorted(groups.values(), key=_settling_key)


def in_order(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Return the deliveries in the order of settling."""
    return [delivery for group in by_consumer(deliveries) for delivery in group]


def in_order_of_discard(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Return the deliveries in the order in which their queues discard them.

    A classic queue with priorities begins with the highest (rabbit_priority_queue, seen on 3.10, 4.0 and 4.3).
    """
    return [it for group in by_consumer(deliveries) for it in _highest_first(group)]


def _highest_first(group: list[Delivery]) -> list[Delivery]:
    has_priorities = group[0].queue.settings.max_priority > 0
    return sorted(group, key=lambda delivery: -delivery.entry.priority) if has_priorities else group


def by_ended_queue(deliveries: Iterable[Delivery], *, are_consumers_numbered: bool) -> list[list[Delivery]]:
    """Return the deliveries of each queue, in the order in which it takes them back when their channel ends."""
    groups: dict[object, list[Delivery]] = {}
    for delivery in deliveries:
        groups.setdefault(delivery.queue, []).append(delivery)
    key = _number_key if are_consumers_numbered else _text_key
    return [sorted(group, key=key) if group[0].queue.returns_by_consumer else group for group in groups.values()]


def _settling_key(group: list[Delivery]) -> tuple[bytes, int, bytes]:
    first = group[0]
    if first.consumer is None:
        return erlang.text(first.queue.name), first.tag, b""
    # Erlang sorts numbers before texts. A get has a number for a tag.
    return erlang.text(first.queue.name), 1 << 64, erlang.text(first.consumer.tag)


def _number_key(delivery: Delivery) -> tuple[bool, int, bytes]:
    """Return a key that sorts consumers by age, followed by gets by the text of their delivery tag."""
    consumer = delivery.consumer
    return (True, 0, _text_key(delivery)) if consumer is None else (False, consumer.ordinal, b"")


def _text_key(delivery: Delivery) -> bytes:
    """Return the consumer's tag, or the text of the delivery tag for a get."""
    return erlang.text(str(delivery.tag) if delivery.consumer is None else delivery.consumer.tag)
