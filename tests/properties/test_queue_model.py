"""A classic queue against a list: after any operations, both hold the same messages in the same order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.core.model.message import QueueEntry
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.queue import Queue
from tests.model.world import World, bodies, consume, inbox


class Item:
    """One message in the list."""

    def __init__(self, number: int, expires_at: int | None) -> None:
        self.number = number
        self.expires_at = expires_at
        self.redelivered = False


class QueueMachine(RuleBasedStateMachine):
    """A state machine that drives a queue and a list side by side.

    The list knows order, time and length. Which consumer gets a message is taken from the queue.
    """

    @initialize(ttl=st.sampled_from([None, 40]), max_length=st.sampled_from([None, 2, 5]))
    def begin(self, ttl: int | None, max_length: int | None) -> None:
        self.world = World()
        arguments = {"message_ttl": ttl, "max_length": max_length}
        self.queue: Queue = self.world.queue(**{name: value for name, value in arguments.items() if value is not None})
        self.ttl, self.max_length = ttl, max_length
        self.now_ms = 0
        self.ready: list[Item] = []
        # The unsettled deliveries: the entry, its consumer (None for a get), the item.
        self.held: list[tuple[QueueEntry, Consumer | None, Item]] = []
        self.consumers: list[Consumer] = []
        self.seen: dict[int, int] = {}
        self.ended: list[int] = []
        self.published = 0

    @rule(ttl=st.sampled_from([None, None, 0, 20, 60]))
    def publish(self, ttl: int | None) -> None:
        self.published += 1
        item = Item(self.published, self.deadline(ttl))
        self.ready.append(item)
        properties = {} if ttl is None else {"expiration": str(ttl)}
        self.world.publish(b"%d" % item.number, **properties)
        self.follow()
        # A message that a consumer took at once neither counts nor expires.
        self.trim()

    @rule()
    def get(self) -> None:
        entry = self.queue.get(no_ack=False)
        self.expire()
        if entry is None:
            assert self.ready == []
            return
        item = self.ready.pop(0)
        self.check(entry, item)
        self.held.append((entry, None, item))
        self.expire()

    @rule(prefetch=st.integers(0, 3), no_ack=st.booleans(), priority=st.integers(-1, 1))
    def consume(self, prefetch: int, no_ack: bool, priority: int) -> None:
        self.consumers.append(consume(self.queue, prefetch_count=prefetch, no_ack=no_ack, priority=priority))
        self.follow()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.queue.remove_consumer(self.consumers.pop(data.draw(st.integers(0, len(self.consumers) - 1))))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        entry, consumer, item = self.draw_held(data)
        self.queue.acknowledge(entry, consumer)
        self.ended.append(item.number)
        self.follow()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        entry, consumer, item = self.draw_held(data)
        self.queue.discard(entry, consumer, is_failure=True)
        self.ended.append(item.number)
        self.follow()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        self.give_back([self.draw_held(data)])

    @precondition(lambda self: self.held)
    @rule()
    def recover(self) -> None:
        returned, self.held = self.held, []
        self.give_back(returned)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ended += [item.number for item in self.ready]
        self.ready = []

    @rule(ms=st.sampled_from([1, 10, 20, 50]))
    def advance(self, ms: int) -> None:
        self.world.elapse(ms)
        self.now_ms += ms
        self.expire()

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert bodies(self.queue.ready) == [b"%d" % item.number for item in self.ready]
        assert [entry.redelivered for entry in self.queue.ready] == [item.redelivered for item in self.ready]
        assert self.queue.ready.size_bytes == sum(len(str(item.number)) for item in self.ready)

    @invariant()
    def no_consumer_has_room_while_an_entry_is_ready(self) -> None:
        if hasattr(self, "queue") and self.queue.ready:
            assert not any(consumer.has_room() for consumer in self.consumers)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert sorted(self.queue.unacked) == sorted(entry.copy for entry, _, _ in self.held)
        for consumer in self.consumers:
            assert consumer.unacked_count == sum(1 for _, holder, _ in self.held if holder is consumer)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if hasattr(self, "queue"):
            everywhere = [*self.ended, *(item.number for item in self.ready), *(item.number for *_, item in self.held)]
            assert sorted(everywhere) == list(range(1, self.published + 1))

    def deadline(self, ttl: int | None) -> int | None:
        spans = [span for span in (ttl, self.ttl) if span is not None]
        return self.now_ms + min(spans) if spans else None

    def give_back(self, returned: list[tuple[QueueEntry, Consumer | None, Item]]) -> None:
        for _, _, item in returned:
            item.redelivered = True
            self.ready.append(item)
        self.ready.sort(key=lambda item: item.number)
        self.trim()
        self.queue.requeue([(entry, consumer) for entry, consumer, _ in returned], "nacked", is_failure=False)
        self.follow()

    def follow(self) -> None:
        """Move what consumers were handed from the list of ready items to those held."""
        for consumer in dict.fromkeys([*self.consumers, *(holder for _, holder, _ in self.held if holder)]):
            deliveries = inbox(consumer)
            handed, deliveries[:] = list(deliveries), []
            for entry in handed:
                item = next(item for item in self.ready if b"%d" % item.number == entry.message.body)
                self.check(entry, item)
                self.ready.remove(item)
                if consumer.no_ack:
                    self.ended.append(item.number)
                else:
                    self.held.append((entry, consumer, item))
        # The queue checks the age of the next entry after each delivery (see ClassicQueue.deliver_ready).
        self.expire()

    def check(self, entry: QueueEntry, item: Item) -> None:
        assert entry.message.body == b"%d" % item.number
        assert entry.redelivered is item.redelivered

    def trim(self) -> None:
        while self.max_length is not None and len(self.ready) > self.max_length:
            self.ended.append(self.ready.pop(0).number)
        self.expire()

    def expire(self) -> None:
        while self.ready and self.ready[0].expires_at is not None and self.ready[0].expires_at <= self.now_ms:
            self.ended.append(self.ready.pop(0).number)

    def draw_held(self, data: st.DataObject) -> tuple[QueueEntry, Consumer | None, Item]:
        return self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))


QueueMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestQueueAgainstAList = QueueMachine.TestCase
