"""The names of steps and schedules: leveret can read the names that a report prints."""

from __future__ import annotations

import pytest

from leveret.exploration import KINDS, Schedule
from leveret.exploration.kinds import kinds_of
from leveret.exploration.schedule import Step
from leveret.faults import CloseChannel, Expire, Reorder


def test_a_step_is_named_by_connection_channel_direction_method_and_which():
    step = Step(1, 2, "client->server", "basic.ack", 3)

    assert str(step) == "conn 1 chan 2 client->server basic.ack #3"
    assert Step.parse(str(step)) == step


@pytest.mark.parametrize("name", ["order worker", "conn 2", "worker (2)"])
def test_a_step_of_a_connection_with_a_name_is_read_as_it_is_written(name):
    step = Step(name, 1, "client->server", "basic.ack", 3)

    assert Step.parse(str(step)) == step
    assert Schedule.parse(f"lost after {step}", KINDS).placements[0].step == step


@pytest.mark.parametrize("text", ["", "basic.ack", "conn 1 chan 1 basic.ack #1", "conn 1 chan 1 client->server ack #1"])
def test_text_that_is_not_a_step_raises_and_shows_an_example(text):
    with pytest.raises(ValueError, match="is not a step; write it as in 'conn 1 chan 1 client->server"):
        Step.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "lost after conn 1 chan 1 client->server basic.ack #2",
        "out of order conn 1 chan 1 server->client basic.deliver #1",
        "lost before conn 1 chan 0 server->client connection.start #1, then restart before conn 2 chan 1 "
        "client->server queue.declare #1",
    ],
)
def test_a_schedule_is_read_as_it_is_written(text):
    assert str(Schedule.parse(text, KINDS)) == text


def test_a_schedule_of_an_unknown_kind_raises_and_lists_the_kinds():
    with pytest.raises(ValueError, match="does not begin with a kind of fault; expected one of 'lost before'"):
        Schedule.parse("vanished conn 1 chan 1 client->server basic.ack #2", KINDS)


def test_a_schedule_without_a_step_raises_and_shows_one():
    with pytest.raises(ValueError, match=r"only='lost after basic\.ack' names no step after the kind"):
        Schedule.parse("lost after basic.ack", KINDS)


def test_a_misspelt_kind_raises_with_a_suggestion():
    with pytest.raises(ValueError, match="unknown kind of fault 'lost afer'; did you mean 'lost after'"):
        kinds_of(["lost afer"])


def test_a_custom_fault_is_a_kind_by_its_name():
    kinds = kinds_of(["lost after", CloseChannel(404)])

    assert list(kinds) == ["lost after", "close_channel"]
    assert kinds["close_channel"].new().code == 404


def test_each_run_gets_a_fault_of_its_own():
    kind = kinds_of(CloseChannel(404))["close_channel"]

    assert kind.new() is not kind.new()


@pytest.mark.parametrize(
    ("faults", "error", "text"),
    [
        ([], ValueError, "faults=\\(\\) is empty; give at least one kind of fault"),
        ([3], TypeError, "neither the name of a kind nor a fault"),
        ([Expire()], ValueError, "cannot be placed at a step; give a fault that applies to methods or deliveries"),
        ([Reorder()], ValueError, "cannot be placed at one step; use the kind 'out of order'"),
    ],
)
def test_faults_that_cannot_be_placed_at_a_step_raise(faults, error, text):
    with pytest.raises(error, match=text):
        kinds_of(faults)
