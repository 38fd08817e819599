"""One list of scenarios for every library, so that no suite leaves one out.

If a library cannot do something, the list gives the reason.
"""

import ast
from pathlib import Path

import pytest

SUITES = ["pika_blocking", "pika_callbacks", "aio_pika", "aiormq", "py_amqp", "kombu"]

SCENARIOS = [
    "declare_bind_and_get",
    "server_named_queue",
    "exclusive_queue_is_locked_and_ends_with_its_connection",
    "redeclare_with_other_arguments_is_refused",
    "exchange_to_exchange_binding",
    "purge_and_delete",
    "error_on_one_channel_leaves_the_other_working",
    "reopened_connection_finds_what_it_left",
    "wrong_password_is_refused",
    "confirmed_publish",
    "mandatory_publish_without_route_is_returned",
    "full_queue_nacks_the_publish",
    "tx_commit_and_rollback",
    "body_of_five_megabytes",
    "headers_of_every_type_come_back",
    "consume_and_ack",
    "requeue_and_reject",
    "recover_requeues_what_is_unacked",
    "prefetch_is_enforced",
    "cancel_gives_no_more_deliveries",
    "consumer_is_notified_when_its_queue_is_deleted",
    "unknown_delivery_tag_closes_the_channel",
    "expired_message_is_dead_lettered",
    "rpc_over_direct_reply_to",
]

LACKING = {
    ("aio_pika", "recover_requeues_what_is_unacked"): "it has no basic.recover",
    ("aio_pika", "unknown_delivery_tag_closes_the_channel"): "a message refuses a second ack itself",
    ("kombu", "unknown_delivery_tag_closes_the_channel"): "a message refuses a second ack itself",
}


def scenarios_of(suite):
    folder = Path(__file__).parent / suite
    trees = [ast.parse(path.read_text()) for path in folder.glob("test_*.py")]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for tree in trees for node in tree.body if isinstance(node, functions)}


@pytest.mark.parametrize("suite", SUITES)
def test_every_library_is_asked_every_scenario(suite):
    names = scenarios_of(suite)

    missing = [name for name in SCENARIOS if f"test_{name}" not in names and (suite, name) not in LACKING]

    assert missing == []


@pytest.mark.parametrize(("suite", "scenario"), LACKING)
def test_a_suite_has_no_test_of_a_scenario_that_it_is_exempt_from(suite, scenario):
    assert f"test_{scenario}" not in scenarios_of(suite)
