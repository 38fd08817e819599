"""Reading the frames of other threads does not disturb them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from types import FrameType

import pytest

from leveret.observe.calls.callers import standing_line, waiting_line


@pytest.fixture
def collecting(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether garbage collection was enabled each time the frames were read."""
    looks: list[bool] = []
    frames_of_threads = sys._current_frames

    def note() -> dict[int, FrameType]:
        looks.append(gc.isenabled())
        return frames_of_threads()

    monkeypatch.setattr(sys, "_current_frames", note)
    return looks


def test_no_garbage_is_collected_while_frames_of_other_threads_are_read(collecting: list[bool]) -> None:
    standing_line(threading.get_ident())

    assert collecting == [False]
    assert gc.isenabled()


def test_no_garbage_is_collected_while_threads_are_listed(collecting: list[bool]) -> None:
    waiting_line()

    assert collecting
    assert not any(collecting)
    assert gc.isenabled()


def test_disabled_garbage_collection_stays_disabled(collecting: list[bool]) -> None:
    gc.disable()
    try:
        standing_line(threading.get_ident())
        assert not gc.isenabled()
    finally:
        gc.enable()

    assert collecting == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_frames_are_read_collects_garbage_and_can_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames_of_threads = sys._current_frames
    children: list[int] = []

    def fork() -> dict[int, FrameType]:
        child = os.fork()
        if child == 0:
            monkeypatch.undo()
            is_collecting = gc.isenabled()
            standing_line(threading.get_ident())
            os._exit(7 if is_collecting else 8)
        children.append(child)
        return frames_of_threads()

    monkeypatch.setattr(sys, "_current_frames", fork)
    standing_line(threading.get_ident())

    (child,) = children
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
