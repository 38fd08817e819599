"""leveret answers every scenario as the real server did; LEVERET_ORACLES adds runs on live servers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType

import pytest

from leveret import Broker
from tests.recording import LATEST
from tests.systems import needs_port_again

from . import scenarios, target
from .scenario import ALL_VERSIONS, SCENARIOS, Scenario, run, transcripts

scenarios.load_all()
# Maintenance closes the port, and its end opens it again.
MARKS = {"operators_maintenance": [needs_port_again]}
CASES = SCENARIOS.cases(MARKS)
ORACLES = target.oracles()


@pytest.mark.parametrize(("scenario", "version"), CASES)
def test_leveret_answers_as_the_server_did(scenario: Scenario, version: str) -> None:
    with target.leveret(version, has_settings=scenario.has_settings) as endpoint:
        answers = run(scenario, endpoint)

    transcripts.check(scenario, version, answers)


def threads_of_leveret() -> set[int]:
    """Return the threads that run code of leveret; a client of an earlier test may start one of its own at any time."""
    return {number for number, frame in sys._current_frames().items() if any(map(_is_leverets, _stack(frame)))}


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_leverets(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("leveret.")


@pytest.mark.parametrize("scenario", [pytest.param(it, id=it.id) for it in SCENARIOS.values() if LATEST in it.versions])
def test_leveret_answers_so_without_a_thread_or_a_socket(scenario: Scenario) -> None:
    before = threads_of_leveret()
    with target.leveret(
        LATEST, has_settings=scenario.has_settings, broker_type=partial(Broker, inline=True)
    ) as endpoint:
        answers = run(scenario, endpoint)
        assert threads_of_leveret() <= before

    transcripts.check(scenario, LATEST, answers)


# What is known of 4.2.9 and 3.13.7 from their sources: the scenario, the version, and the one that it answers as.
AS_ANOTHER = [
    ("errors_frames/a_body_longer_than_announced", "4.2", "4.3"),
    ("errors_frames/an_announced_body_beyond_512_mebibytes", "4.2", "4.3"),
    ("plugin_exchanges/a_consistent_hash_weight_beyond_10000", "4.2", "4.3"),
    ("permissions/a_passive_declare_needs_any_right", "4.2", "4.3"),
    ("policies/how_long_a_pattern_may_be", "4.2", "4.3"),
    ("reply_to/a_rejected_message_becomes_a_reply", "4.2", "4.3"),
    ("errors_methods/a_cancel_ok_for_an_unknown_tag", "4.2", "4.0"),
    ("utf8/names_with_surrogates_and_beyond_unicode", "4.2", "4.0"),
    ("utf8/names_with_surrogates_and_beyond_unicode", "3.13", "4.0"),
    ("transactions/a_stream_alone_deleted_before_commit", "3.13", "4.0"),
    ("priority/a_full_queue_with_a_maximum_of_zero_drops_its_head", "3.13", "4.0"),
]


@pytest.mark.parametrize(("scenario", "version", "other"), AS_ANOTHER)
def test_a_version_between_two_recorded_ones_answers_as_one_of_them(scenario: str, version: str, other: str) -> None:
    area, name = scenario.split("/")
    with target.leveret(version) as endpoint:
        endpoint.version = other
        got = run(SCENARIOS[scenario], endpoint)

    assert got == transcripts.load(other, area, name)


LIVE = [
    pytest.param(it, version, id=f"{it.id}-{version}")
    for version in ALL_VERSIONS
    for it in SCENARIOS.values()
    if version in ORACLES and version in it.versions and not it.needs_own_node and not it.has_settings
]


@pytest.mark.parametrize(("scenario", "version"), LIVE)
def test_the_server_still_answers_so(scenario: Scenario, version: str) -> None:
    with target.oracle(ORACLES[version], version) as endpoint:
        answers = run(scenario, endpoint)

    transcripts.check(scenario, version, answers)
