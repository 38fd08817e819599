"""A delayed broker keeps RabbitMQ's promises: a sample. `python -m tests.flaky.promises` runs all, with more seeds."""

from __future__ import annotations

import pytest

from tests.flaky.promises import DelayedBroker
from tests.semantics import scenarios, target
from tests.semantics.scenario import SCENARIOS, run, transcripts

scenarios.load_all()
SAMPLE = [
    "acknowledging/requeued_messages_return_to_their_place",
    "acknowledging/a_multiple_nack_keeps_the_order",
    "acknowledging/what_returns_with_its_channel_comes_in_order",
    "acknowledging/a_multiple_ack_settles_up_to_its_tag",
    "acknowledging/a_multiple_ack_spans_consumers_and_gets",
    "acknowledging/prefetch_is_per_consumer",
    "acknowledging/messages_return_when_the_server_closes_the_channel",
    "acknowledging/consumed_messages_return_before_close_ok_of_the_client",
    "confirms/confirms_are_numbered_from_one",
    "confirms/a_return_comes_before_its_confirm",
    "confirms/each_channel_counts_for_itself",
    "confirms/mixed_acks_and_nacks",
    "confirms/an_error_on_another_channel_loses_no_confirm",
    "consuming/consume_ok_comes_before_the_first_delivery",
    "consuming/nothing_is_delivered_after_cancel_ok",
    "consuming/consumers_are_served_in_turn",
    "consuming/a_deleted_queue_cancels_its_consumers",
    "consuming/losing_the_socket_returns_what_is_unacked",
    "dead_letter/dead_letters_of_a_multiple_nack_keep_the_order",
    "dead_letter/a_loop_by_rejecting_goes_on",
    "single_active/cancel_ok_comes_before_what_the_next_consumer_of_the_channel_gets",
    "single_active/when_the_active_channel_closes_the_oldest_waiting_follows",
    "transactions/returns_come_before_commit_ok",
    "transactions/closing_the_channel_is_a_rollback",
]


@pytest.mark.parametrize("name", SAMPLE)
def test_a_delayed_broker_answers_as_the_server_did(name: str) -> None:
    scenario = SCENARIOS[name]

    with target.leveret("4.3", broker_type=DelayedBroker) as endpoint:
        answers = run(scenario, endpoint)

    transcripts.check(scenario, "4.3", answers)
