"""The command lines of `lines.txt` end and print on leveret as they do on RabbitMQ 4.3.6."""

from __future__ import annotations

import json
from functools import cache

import pytest

from leveret import Broker
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.http.rabbitmqctl.running import run

from .lines import GROUPS, Answer, clients_of, masked, recorded, words_of

_FORMAT_OF_LISTS = "RabbitMQ's formatter fails at a list; leveret prints it as in a table"
_LISTENERS = "leveret listens on no port for other nodes, and on the ports of a stand-in in their order"
_MEASURED = "memory, and what a queue keeps in memory, are a server's own"
_CLUSTER_ID = "leveret has no id of a cluster"
_STATUS = "leveret reports what it has of the sections: no runtime, disks and memory"
# The lines whose exit code or output differs, and why.
DIFFERENT = {
    "list_vhosts name tags --formatter csv": _FORMAT_OF_LISTS,
    "list_users --formatter csv": _FORMAT_OF_LISTS,
    "list_vhosts --formatter colour": "a sentence instead of Elixir's stack",
    "list_vhost_limits -p shop --formatter json": "the limits are in `message`, as those of users are",
    "list_global_parameters": _CLUSTER_ID,
    "list_global_parameters -q": _CLUSTER_ID,
    "list_global_parameters -q --formatter json": _CLUSTER_ID,
    "list_queues -p shop -q name messages_ready messages_unacknowledged messages messages_ready_ram "
    "messages_persistent": _MEASURED,
    "list_queues -p shop -q name message_bytes memory consumer_utilisation consumer_capacity": _MEASURED,
    "list_connections": "the client's port",
    'close_all_connections -p shop "go away"': "leveret closes at once what the line before has closed",
    "cluster_status": _STATUS,
    "status": _STATUS,
    "rabbitmq-diagnostics check_port_connectivity": _LISTENERS,
    "rabbitmq-diagnostics check_port_listener 1": _LISTENERS,
    "rabbitmq-diagnostics check_port_listener 1 -q": _LISTENERS,
    "rabbitmq-diagnostics check_protocol_listener colour": _LISTENERS,
    "rabbitmq-diagnostics listeners": _LISTENERS,
    "set_log_level colour": "leveret prints the banner first",
    "hash_password secret": "the salt is random",
}
CASES = [(group, number) for group, lines in GROUPS.items() for number in range(len(lines))]
RECORDED = recorded()


@cache
def answers(group: str) -> list[Answer]:
    """Return what leveret answers to the lines of a group."""
    with Broker(management=True, plugins=["rabbitmq_event_exchange"]) as broker:
        files: dict[str, bytes] = {}

        def answer(line: str) -> Answer:
            tool, *words = words_of(line, broker.port)
            printed = run(broker._engine, tool, words, files, {})
            http_port = int(broker.management_url.rpartition(":")[2])
            texts = (it.replace(str(http_port), "15672") for it in printed[1:])
            return line, printed.code, *(masked(it, NODE_NAME, broker.port) for it in texts)

        with clients_of(group, answer, broker.port):
            return [answer(line) for line in GROUPS[group]]


def rows(text: str) -> object:
    """Return what is compared: JSON as its values, and the lines of a table in any order."""
    try:
        value = json.loads(text)
    except ValueError:
        return sorted(text.splitlines())
    return sorted(map(json.dumps, (sorted(it.items()) if isinstance(it, dict) else it for it in value)))


@pytest.mark.parametrize(("group", "number"), CASES, ids=[f"{group}-{GROUPS[group][at]}" for group, at in CASES])
def test_a_command_line_ends_and_prints_as_on_rabbitmq(group: str, number: int) -> None:
    line, code, output, errors = RECORDED[group][number]

    answered = answers(group)[number]

    same = (code, rows(output), errors) == (answered[1], rows(answered[2]), answered[3])
    assert answered[0] == line
    assert same != (line in DIFFERENT), answered
