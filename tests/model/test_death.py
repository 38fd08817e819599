"""Histories of deaths: many messages share the log of one, and none sees another's deaths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.model.dead_letters.death import NO_DEATHS, Death, History

QUEUES = ("a", "b", "c", "d")
REASONS = ("expired", "maxlen", "rejected")


def death(queue: str, reason: str) -> Death:
    return Death(queue, reason, 1, 0, "", ("key",), None)


# Each step continues one of the histories made so far, so that several continue the same one.
@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(QUEUES), st.sampled_from(REASONS)), max_size=40))
def test_a_history_is_not_changed_by_those_that_continue_it(steps: list[tuple[int, str, str]]) -> None:
    histories: list[tuple[History, tuple[Death, ...]]] = [(NO_DEATHS, ())]
    for chosen, queue, reason in steps:
        history, deaths = histories[chosen % len(histories)]
        newest = death(queue, reason)
        histories.append((history.with_newest(newest), (newest, *deaths)))

    for history, deaths in histories:
        assert (tuple(history), len(history), bool(history)) == (deaths, len(deaths), bool(deaths))


@given(st.lists(st.tuples(st.sampled_from(QUEUES), st.sampled_from(REASONS)), unique=True))
def test_a_death_is_found_by_its_queue_and_reason(places: list[tuple[str, str]]) -> None:
    history = History.from_deaths(death(queue, reason) for queue, reason in places)
    history.with_newest(death("later", "expired"))

    for queue in (*QUEUES, "later"):
        for reason in REASONS:
            found = death(queue, reason) if (queue, reason) in places else None
            assert history.find(queue, reason) == found
