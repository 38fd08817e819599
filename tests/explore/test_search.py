"""The schedules that a search runs, their order, and when it ends; the runs are made up."""

from __future__ import annotations

from collections import Counter

import pytest

from leveret.exploration import Run, Schedule
from leveret.exploration.schedule import Seen, Step
from leveret.exploration.search import Search

STEPS = [
    Step(1, 1, "client->server", "queue.declare", 1),
    Step(1, 1, "client->server", "basic.publish", 1),
    Step(1, 1, "server->client", "basic.deliver", 1),
    Step(1, 1, "server->client", "basic.deliver", 2),
]


class World:
    """A scenario that fails if the name of the schedule contains all the words of one of its `fatal` entries."""

    def __init__(self, *fatal, lacking=()):
        self.fatal = fatal
        self.lacking = lacking
        self.ran = []

    def __call__(self, schedule):
        name = str(schedule)
        self.ran.append(name)
        run = Run(schedule)
        for step in STEPS:
            kinds = ("lost before", "out of order") if step.method == "basic.deliver" else ("lost before",)
            struck = next((it.kind for it in schedule.placements if it.step == step), None)
            run.seen.append(Seen(step, "", kinds, struck))
        run.missing = [word for word in self.lacking if word in name]
        if any(all(word in name for word in words.split(" & ")) for words in self.fatal):
            run.error = AssertionError(name)
        return run


def explore(world, *, on="*", pairs=0, seed=0, keep_going=False, seconds=None):
    search = Search(world, on, pairs, seed, keep_going, seconds)
    plain = world(Schedule())
    world.ran.clear()
    return search.explore(plain)


def test_each_kind_is_placed_at_each_step_in_order_and_the_last_delivery_is_not_overtaken():
    world = World()

    found = explore(world)

    assert world.ran == [
        "lost before conn 1 chan 1 client->server queue.declare #1",
        "lost before conn 1 chan 1 client->server basic.publish #1",
        "lost before conn 1 chan 1 server->client basic.deliver #1",
        "out of order conn 1 chan 1 server->client basic.deliver #1",
        "lost before conn 1 chan 1 server->client basic.deliver #2",
    ]
    assert (found.run_count, found.passed_count) == (5, 5)
    assert str(found).startswith("All 5 schedules over 4 steps passed.\n  declarations among the steps: 1\n  it took ")


def test_the_first_failure_ends_the_search():
    found = explore(World("publish", "deliver"))

    assert found.failed == ["lost before conn 1 chan 1 client->server basic.publish #1"]
    assert str(found).startswith("Of 2 schedules over 4 steps, 1 passed, 1 failed.\n")
    assert "not tried, because the first failure ends the search (keep_going=True goes on): 3 schedules" in str(found)


def test_keep_going_finds_all_failures():
    found = explore(World("publish", "lost before & deliver"), keep_going=True)

    assert len(found.failed) == 3
    assert found.passed_count == 2


@pytest.mark.parametrize("pattern", ["basic.p*", ["basic.publish"], "conn 1 chan 1 client->server basic.*"])
def test_patterns_choose_the_steps(pattern):
    world = World()

    explore(world, on=pattern)

    assert world.ran == ["lost before conn 1 chan 1 client->server basic.publish #1"]


def test_a_run_whose_step_never_occurs_is_retried_once_and_does_not_count_as_passed():
    world = World(lacking=["publish"])

    found = explore(world)

    assert world.ran.count("lost before conn 1 chan 1 client->server basic.publish #1") == 2
    assert found.diverged == ["lost before conn 1 chan 1 client->server basic.publish #1"]
    assert (found.run_count, found.passed_count) == (5, 4)


def test_pairs_follow_when_no_single_fault_is_enough():
    found = explore(World("declare & publish"), pairs=1000)

    assert found.failed == [
        "lost before conn 1 chan 1 client->server queue.declare #1, then "
        "lost before conn 1 chan 1 client->server basic.publish #1"
    ]


def test_only_the_given_number_of_pairs_is_run():
    world = World()

    explore(world, pairs=3)

    assert [name.count(", then ") for name in world.ran] == [0] * 5 + [1] * 3


def test_the_seed_chooses_the_pairs():
    worlds = [World() for _ in range(3)]

    for world, seed in zip(worlds, (1, 1, 2), strict=True):
        explore(world, pairs=3, seed=seed)

    assert worlds[0].ran == worlds[1].ran != worlds[2].ran


def test_a_pair_of_which_one_fault_is_enough_is_reported_as_that_fault():
    class Whimsical(World):
        """A scenario whose second fault becomes fatal only after a pair has contained it."""

        def __call__(self, schedule):
            if len(schedule.placements) == 2:
                self.fatal = ("publish",)
            return super().__call__(schedule)

    found = explore(Whimsical(), pairs=1000)

    assert found.failed == ["lost before conn 1 chan 1 client->server basic.publish #1"]


def test_what_time_is_left_goes_to_pairs_and_triples_until_none_is_left():
    world = World()

    found = explore(world, seconds=1000)

    pairs = {name for name in world.ran if name.count(", then ") == 1}
    triples = {name for name in world.ran if name.count(", then ") == 2}
    assert len(world.ran) == len(set(world.ran)) == 5 + len(pairs) + len(triples)
    assert (len(pairs), len(triples), found.untried_count) == (9, 7, 0)


@pytest.mark.parametrize(("pairs", "is_said"), [(0, True), (1, False)])
def test_the_summary_says_if_no_run_had_two_faults(pairs, is_said):
    found = explore(World(), pairs=pairs)

    assert ("not tried: more than one fault in a run" in str(found)) == is_said


def test_equal_seeds_draw_equal_pairs_and_triples():
    worlds = [World() for _ in range(3)]

    for world, seed in zip(worlds, (1, 1, 2), strict=True):
        explore(world, seconds=1000, seed=seed)

    assert worlds[0].ran == worlds[1].ran != worlds[2].ran


def test_the_summary_says_how_many_schedules_there_was_no_time_for():
    world = World()

    found = explore(world, seconds=1e-9)

    assert world.ran == []
    assert "not tried, because the time was up: 5 schedules" in str(found)


def test_a_failing_triple_is_shrunk_to_the_faults_that_are_needed():
    class Late(World):
        """A scenario that breaks by the first and the last of three faults, but only once a triple has been run."""

        def __call__(self, schedule):
            if len(schedule.placements) == 3:
                self.fatal = ("declare & deliver #2",)
            return super().__call__(schedule)

    found = explore(Late(), seconds=1000)

    assert found.failed == [
        "lost before conn 1 chan 1 client->server queue.declare #1, then "
        "lost before conn 1 chan 1 server->client basic.deliver #2"
    ]


def test_the_draw_prefers_schedules_with_rare_events():
    class Odd(World):
        """A scenario in which the loss of the declaration leads to steps that no other schedule has."""

        def __call__(self, schedule):
            run = super().__call__(schedule)
            if "declare" in str(schedule):
                run.seen.append(Seen(Step(1, 1, "client->server", "basic.get", 1), "", ("lost before",)))
            return run

    firsts = Counter()
    for seed in range(40):
        world = Odd()
        explore(world, pairs=1, seed=seed)
        firsts["declare" in world.ran[-1].split(", then ")[0]] += 1

    assert firsts[True] > firsts[False]


def test_a_short_search_starts_no_process():
    class Pool:
        """Processes that must not start."""

        def start(self):
            raise AssertionError("started")

    world = World()

    search = Search(world, "*", pairs=3, seed=0, keep_going=False, pool=Pool())

    assert search.explore(world(Schedule())).run_count == 8


def test_a_long_search_goes_on_here_if_no_process_can_run_the_scenario(monkeypatch):
    class Pool:
        """Processes that cannot import the scenario."""

        def start(self):
            raise ValueError("another process cannot run the scenario")

    world = World()
    monkeypatch.setattr("leveret.exploration.search._LONG_S", -1)

    search = Search(world, "*", pairs=3, seed=0, keep_going=False, pool=Pool())

    assert search.explore(world(Schedule())).run_count == 8


def test_passed_runs_keep_no_trace():
    world = World("declare")
    runs = []

    def execute(schedule):
        run = world(schedule)
        run.raw_events = [("published",)]
        runs.append(run)
        return run

    Search(execute, "*", pairs=0, seed=0, keep_going=True).explore(world(Schedule()))

    assert [bool(run.raw_events) for run in runs] == [True, False, False, False, False]
