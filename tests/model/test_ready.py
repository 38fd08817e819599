"""The orders of ready entries: each keeps count, bytes and places."""

from __future__ import annotations

import gc
import pickle
from collections import deque
from itertools import permutations

import pytest

from leveret.core.model.message import Message, QueueEntry
from leveret.core.model.queues.ready import (
    Ready,
    ReadyByPriority,
    ReadyFifo,
    ReadyInTwoClasses,
    ReadyReturnsFirst,
    ReadyReturnsThenLevels,
)
from leveret.core.wire.properties import Properties

# Each with the highest priority that it knows.
HIGHEST = {"by priority": 3, "two classes": 1, "returns first": 3}
MAKERS = {
    "fifo": ReadyFifo,
    "by priority": ReadyByPriority,
    "two classes": ReadyInTwoClasses,
    "returns first": ReadyReturnsThenLevels,
    "returns first, no priorities": ReadyReturnsFirst,
}


def entry(position: int, priority: int = 0, expires_at: int | None = None) -> QueueEntry:
    message = Message(position, "", "q", Properties(), b"\0\0", b"x" * position, ("q",))
    made = QueueEntry(message, position, position, 0)
    made.priority, made.expires_at = priority, expires_at
    return made


def picture(item: QueueEntry) -> tuple[object, ...]:
    message = item.message
    properties = message.properties.encode()
    counts = (item.redelivered, item.acquired_count, item.delivery_count)
    numbers = (item.copy, item.position, item.priority, item.enqueued_at, item.expires_at)
    return (*numbers, *counts, message.id, message.head, message.body, properties)


def positions(ready: Ready) -> list[int]:
    return [item.position for item in ready]


def waiting_in(holder: object) -> list[object]:
    """Return what the deques inside hold, as the garbage collector sees it."""
    parts = gc.get_referents(holder)
    if isinstance(holder, deque):
        return [part for part in parts if part is not type(holder)]
    inner = (deque, list, ReadyFifo, ReadyByPriority)
    return [item for part in parts if isinstance(part, inner) for item in waiting_in(part)]


@pytest.fixture(params=MAKERS)
def ready(request: pytest.FixtureRequest) -> Ready:
    made: Ready = MAKERS[request.param]()
    return made


def test_entries_of_equal_rank_come_out_in_order_of_arrival(ready: Ready) -> None:
    for position in range(5):
        ready.append(entry(position))

    assert [ready.pop().position for _ in range(5)] == [0, 1, 2, 3, 4]


def test_count_and_bytes_follow_every_change(ready: Ready) -> None:
    for position in (3, 4, 5):
        ready.append(entry(position))
    first = ready.pop()
    seen = [(len(ready), ready.size_bytes)]

    ready.put_back([first])
    seen.append((len(ready), ready.size_bytes))
    ready.clear()

    assert [*seen, (len(ready), ready.size_bytes)] == [(2, 9), (3, 12), (0, 0)]


@pytest.mark.parametrize("kind", MAKERS)
def test_the_deadline_of_the_head_is_that_of_what_pop_takes(kind: str) -> None:
    ready, highest = MAKERS[kind](), HIGHEST.get(kind, 0)
    for position, priority in ((0, 1), (1, 3), (2, 0)):
        ready.append(entry(position, min(priority, highest), expires_at=10 + position))

    deadline = ready.head_deadline()

    assert ready.pop().expires_at == deadline


def test_an_empty_order_has_no_head(ready: Ready) -> None:
    with pytest.raises(IndexError):
        ready.pop()
    assert (ready.head_deadline(), ready.next_deadline(), ready.pop_expired(10)) == (None, None, [])
    assert not ready


def test_deadlines_are_forgotten_with_the_last_entry(ready: Ready) -> None:
    ready.append(entry(0, expires_at=5))
    seen = [ready.has_deadlines]

    ready.pop()

    assert [*seen, ready.has_deadlines] == [True, False]


def test_the_collector_does_not_track_messages_that_were_never_handed_out(ready: Ready) -> None:
    ready.append(entry(0, expires_at=5))
    ready.append_message(entry(1).message, 1, 0)

    # The collector stops tracking the inner tuples first.
    gc.collect()
    gc.collect()

    assert [gc.is_tracked(item) for item in waiting_in(ready)] == [False, False]


def test_a_message_in_many_queues_waits_as_one_tuple() -> None:
    first, second = ReadyFifo(), ReadyFifo()
    message = entry(5).message

    first.append_message(message, 1, 0)
    second.append_message(message, 2, 0)

    assert waiting_in(first)[0] is waiting_in(second)[0]
    assert (positions(first), positions(second)) == ([1], [2])


def test_a_message_comes_out_as_it_went_in(ready: Ready) -> None:
    made = entry(7, expires_at=9)
    ready.append(made)

    (seen,) = ready
    taken = ready.pop()

    assert [picture(seen), picture(taken)] == [picture(made)] * 2


def test_failed_deliveries_of_a_message_are_not_forgotten(ready: Ready) -> None:
    made = entry(7)
    made.delivery_count, made.redelivered = 3, True

    ready.append(made)

    assert picture(ready.pop()) == picture(made)


def test_wanted_entries_are_taken_out_of_any_place(ready: Ready) -> None:
    for position in range(6):
        ready.append(entry(position))
    ready.put_back([ready.pop(), ready.pop()])

    taken = ready.take_out(lambda item: item.position % 2 == 1)

    assert sorted(item.position for item in taken) == [1, 3, 5]
    assert (positions(ready), len(ready), ready.size_bytes) == ([0, 2, 4], 3, 6)


def test_a_long_queue_keeps_the_numbers_of_its_copies(ready: Ready) -> None:
    for position in range(2000):
        ready.append(entry(position))

    taken = [ready.pop().copy for _ in range(1500)]
    for position in range(2000, 2500):
        ready.append(entry(position))

    assert taken == list(range(1500))
    assert positions(ready) == list(range(1500, 2500))


def test_putting_nothing_back_changes_nothing(ready: Ready) -> None:
    ready.append(entry(1))

    ready.put_back([])

    assert positions(ready) == [1]


def test_a_fifo_puts_entries_back_between_others() -> None:
    ready = ReadyFifo()
    for position in range(6):
        ready.append(entry(position))
    taken = [ready.pop() for _ in range(4)]
    ready.put_back([taken[3], taken[0]])

    ready.put_back([taken[2], taken[1]])

    assert positions(ready) == [0, 1, 2, 3, 4, 5]


def test_priorities_come_highest_first() -> None:
    ready = ReadyByPriority()
    for position, priority in ((0, 0), (1, 2), (2, 1), (3, 2)):
        ready.append(entry(position, priority))

    assert positions(ready) == [1, 3, 2, 0]


@pytest.mark.parametrize("priorities", list(permutations((0, 4, 17, 31))))
@pytest.mark.parametrize("kind", ["by priority", "returns first"])
def test_levels_come_highest_first_whichever_is_used_first(kind: str, priorities: tuple[int, ...]) -> None:
    ready = MAKERS[kind]()
    for position, priority in enumerate(priorities):
        ready.append(entry(position, priority))

    taken = [ready.pop() for _ in range(4)]
    ready.put_back(taken[:1])

    assert [item.priority for item in taken] == [31, 17, 4, 0]
    assert positions(ready) == [priorities.index(31)]


@pytest.mark.parametrize("kind", ["by priority", "returns first"])
def test_levels_that_no_message_used_take_no_room(kind: str) -> None:
    ready = MAKERS[kind]()
    size = len(pickle.dumps(ready))

    ready.append(entry(1, 31))
    ready.pop()

    assert len(pickle.dumps(ready)) < 2 * size


def test_a_priority_order_puts_back_within_the_level() -> None:
    ready = ReadyByPriority()
    for position, priority in ((0, 1), (1, 1), (2, 2)):
        ready.append(entry(position, priority))
    high, low = ready.pop(), ready.pop()

    ready.put_back([low, high])

    assert positions(ready) == [2, 0, 1]


def test_returned_entries_come_first_in_order_of_return() -> None:
    ready = ReadyReturnsFirst()
    for position in range(4):
        ready.append(entry(position, 2))
    taken = [ready.pop() for _ in range(3)]

    ready.put_back([taken[2]])
    ready.put_back([taken[0], taken[1]])

    assert positions(ready) == [2, 0, 1, 3]


def test_age_is_checked_in_some_places_only() -> None:
    plain, returns = ReadyByPriority(), ReadyReturnsThenLevels()
    for order in (plain, returns):
        for position, priority in ((0, 0), (1, 1), (2, 1), (3, 2)):
            order.append(entry(position, priority, expires_at=10 - position))
    returns.put_back([returns.pop()])

    assert (plain.next_deadline(), returns.next_deadline()) == (7, 7)
    assert [item.position for item in plain.pop_expired(20)] == [3]
    assert [item.position for item in returns.pop_expired(20)] == [3, 1, 0]
    assert (positions(returns), returns.size_bytes) == ([2], 2)


def test_an_entry_before_its_deadline_stays() -> None:
    ready = ReadyReturnsThenLevels()
    for position, priority, expires_at in ((0, 0, 5), (1, 1, 6), (2, 2, None)):
        ready.append(entry(position, priority, expires_at=expires_at))

    expired = ready.pop_expired(5)

    assert [item.position for item in expired] == [0]
    assert (positions(ready), ready.next_deadline()) == ([2, 1], 6)


def test_a_run_ends_before_an_entry_that_was_handed_out() -> None:
    ready = ReadyFifo()
    returned, failed = entry(3), entry(6)
    failed.delivery_count = 1
    for item in (entry(4), entry(5), failed, entry(7)):
        ready.append(item)

    assert list(ready.pop_unseen(9)[1]) == [4, 5]
    ready.put_back([returned])
    assert ready.pop_unseen(9) == ([], ())
    assert (positions(ready), len(ready), ready.size_bytes) == ([3, 6, 7], 3, 16)


def test_runs_and_single_entries_follow_one_another() -> None:
    ready = ReadyFifo()
    for position in range(3000):
        ready.append(entry(position))

    came = []
    while ready:
        came += ready.pop_unseen(256)[1]
        if ready:
            came.append(ready.pop().position)
    assert (came, ready.size_bytes) == (list(range(3000)), 0)
