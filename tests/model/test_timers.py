"""Timers: the order by deadline and then by setting, and cancelling."""

from __future__ import annotations

from leveret.core.model.timers import Timers


def run_until(timers: Timers, now: int) -> None:
    while (timer := timers.pop_due(now)) is not None:
        assert timer.action is not None
        timer.action()


def test_due_timers_run_in_order_of_deadline_then_of_setting() -> None:
    timers, ran = Timers(), []
    for deadline, name in ((20, "c"), (10, "a"), (20, "d"), (10, "b"), (30, "late")):
        timers.add(deadline, lambda name=name: ran.append(name))

    run_until(timers, 20)

    assert ran == ["a", "b", "c", "d"]


def test_a_deadline_is_due_at_its_instant() -> None:
    timers = Timers()
    timers.add(10, lambda: None)

    assert timers.pop_due(9) is None
    assert timers.pop_due(10) is not None


def test_a_cancelled_timer_never_runs_and_is_not_a_deadline() -> None:
    timers, ran = Timers(), []
    timer = timers.add(10, lambda: ran.append("cancelled"))
    timers.add(20, lambda: ran.append("kept"))

    timer.cancel()
    timer.cancel()

    assert timers.next_deadline() == 20
    run_until(timers, 30)
    assert ran == ["kept"]


def test_without_timers_there_is_no_deadline() -> None:
    timers = Timers()
    timers.add(10, lambda: None).cancel()

    assert timers.next_deadline() is None


def test_the_next_event_is_never_a_recurring_tick() -> None:
    timers = Timers()
    timers.add(10, lambda: None, is_recurring=True)
    timers.add(20, lambda: None)

    assert (timers.next_deadline(), timers.next_event_at()) == (10, 20)


def test_an_action_may_set_a_timer_that_is_due_at_once() -> None:
    timers, ran = Timers(), []
    timers.add(10, lambda: timers.add(5, lambda: ran.append("nested")))

    run_until(timers, 10)

    assert ran == ["nested"]


def test_cancelling_a_timer_that_ran_has_no_effect() -> None:
    timers = Timers()
    timer = timers.add(10, lambda: None)
    run_until(timers, 10)

    timer.cancel()

    assert timers.pop_due(100) is None
