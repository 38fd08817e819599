"""What dies of age: messages at the head of a queue, and queues that nobody uses.

A queue has one timer for its heads and one for itself, never one per message. An entry expires only where RabbitMQ
looks: at the head (see `Ready.pop_expired`); one that an older, longer-lived entry hides stays and counts as ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.model import dead_letter
from leveret.core.model.message import Message
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.queue import Queue


def deadline_of(queue: Queue, message: Message, now: int) -> int | None:
    """When a message that arrives now expires: the shorter of the queue's TTL and its own expiration."""
    ttl_us = queue.settings.message_ttl_us
    expiration = message.properties.expiration
    if expiration is not None:
        own_us = int(expiration) * 1000
        ttl_us = own_us if ttl_us is None else min(ttl_us, own_us)
    return None if ttl_us is None else now + ttl_us


def expire_heads(queue: Queue) -> None:
    """Let go of every head past its deadline, then wait for the next one."""
    now, ready = queue.node.now, queue.ready
    if ready.has_deadlines:
        while expired := ready.pop_expired(now):
            for entry in expired:
                queue.tap_copy(events.EXPIRED, entry)
                dead_letter.send(queue, entry, dead_letter.EXPIRED)
    _arm(queue, ready.next_deadline() if ready.has_deadlines else None)


def watch_disuse(queue: Queue) -> None:
    """Start, restart or stop the clock of x-expires; to be called whenever the queue is used."""
    if queue.disuse_timer is not None:
        queue.disuse_timer.cancel()
        queue.disuse_timer = None
    expires_us = queue.settings.expires_us
    if expires_us is not None and not queue.consumers and not queue.is_deleted:
        queue.disuse_timer = queue.node.timers.add(queue.node.now + expires_us, lambda: _on_disuse(queue))


def _on_disuse(queue: Queue) -> None:
    queue.delete("expired")


def _arm(queue: Queue, deadline: int | None) -> None:
    timer = queue.expiry_timer
    if timer is not None:
        if timer.action is not None and timer.deadline == deadline:
            return
        timer.cancel()
    queue.expiry_timer = None if deadline is None else queue.node.timers.add(deadline, lambda: _on_timer(queue))


def _on_timer(queue: Queue) -> None:
    queue.expiry_timer = None
    expire_heads(queue)
