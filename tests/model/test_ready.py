"""The orders of waiting: each keeps count, bytes and place."""

from __future__ import annotations

import pytest

from leveret.model.message import Message, QueueEntry
from leveret.model.ready import Ready, ReadyByPriority, ReadyFifo, ReadyReturnsFirst
from leveret.wire.properties import Properties

MAKERS = {
    "fifo": ReadyFifo,
    "by priority": lambda: ReadyByPriority(4),
    "returns first": lambda: ReadyReturnsFirst(ReadyByPriority(4)),
    "returns first, no priorities": lambda: ReadyReturnsFirst(ReadyFifo()),
}


def entry(position: int, priority: int = 0) -> QueueEntry:
    message = Message(position, "", "q", Properties(), b"\0\0", b"x" * position, ("q",))
    made = QueueEntry(message, position, position, 0, position)
    made.priority = priority
    return made


def positions(ready: Ready) -> list[int]:
    return [item.position for item in ready]


@pytest.fixture(params=MAKERS)
def ready(request: pytest.FixtureRequest) -> Ready:
    made: Ready = MAKERS[request.param]()
    return made


def test_equals_come_out_as_they_went_in(ready: Ready) -> None:
    for position in range(5):
        ready.append(entry(position))

    assert [ready.pop().position for _ in range(5)] == [0, 1, 2, 3, 4]


def test_count_and_bytes_follow_what_comes_and_goes(ready: Ready) -> None:
    for position in (3, 4, 5):
        ready.append(entry(position))
    first = ready.pop()
    told = [(len(ready), ready.size_bytes)]

    ready.put_back([first])
    told.append((len(ready), ready.size_bytes))
    ready.clear()

    assert [*told, (len(ready), ready.size_bytes)] == [(2, 9), (3, 12), (0, 0)]


def test_the_head_is_what_pop_takes(ready: Ready) -> None:
    for position, priority in ((0, 1), (1, 3), (2, 0)):
        ready.append(entry(position, priority if not isinstance(ready, ReadyFifo) else 0))
    try:
        head = ready.head()
    except IndexError:
        pytest.fail("a head is there")

    assert ready.pop() is head


def test_an_empty_order_has_no_head(ready: Ready) -> None:
    with pytest.raises(IndexError):
        ready.head()
    with pytest.raises(IndexError):
        ready.pop()
    assert ready.heads() == []
    assert not ready


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
    ready = ReadyByPriority(3)
    for position, priority in ((0, 0), (1, 2), (2, 1), (3, 2)):
        ready.append(entry(position, priority))

    assert positions(ready) == [1, 3, 2, 0]


def test_a_priority_order_puts_back_within_the_level() -> None:
    ready = ReadyByPriority(3)
    for position, priority in ((0, 1), (1, 1), (2, 2)):
        ready.append(entry(position, priority))
    high, low = ready.pop(), ready.pop()

    ready.put_back([low, high])

    assert positions(ready) == [2, 0, 1]


def test_returned_entries_come_first_in_order_of_return() -> None:
    ready = ReadyReturnsFirst(ReadyByPriority(3))
    for position in range(4):
        ready.append(entry(position, 2))
    taken = [ready.pop() for _ in range(3)]

    ready.put_back([taken[2]])
    ready.put_back([taken[0], taken[1]])

    assert positions(ready) == [2, 0, 1, 3]


def test_heads_are_where_age_is_looked_at() -> None:
    plain, returns = ReadyByPriority(3), ReadyReturnsFirst(ReadyByPriority(3))
    for order in (plain, returns):
        for position, priority in ((0, 0), (1, 1), (2, 1), (3, 2)):
            order.append(entry(position, priority))
    returns.put_back([returns.pop()])

    assert [item.position for item in plain.heads()] == [3]
    assert [item.position for item in returns.heads()] == [3, 1, 0]


def test_any_head_can_be_taken_out() -> None:
    ready = ReadyReturnsFirst(ReadyByPriority(3))
    for position, priority in ((0, 0), (1, 1)):
        ready.append(entry(position, priority))
    ready.put_back([ready.pop()])

    for head in ready.heads():
        ready.remove(head)

    assert not ready
    assert ready.size_bytes == 0
