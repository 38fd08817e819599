"""What is recorded of a run: kinds of events."""

from __future__ import annotations

from tests.house.copies import Tree
from tests.house.recipes import recipe

EVENT_TEST = '''\
"""The event purge_asked."""

from __future__ import annotations

import pika

from leveret import Broker


def test_a_purge_is_recorded_with_its_queue_and_its_client() -> None:
    with Broker() as broker:
        broker.declare_queue("q")
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().queue_purge("q")

        (event,) = broker.events.query("purge_asked")

        assert (event.queue, event.conn, event.chan) == ("q", 1, 1)
'''


@recipe(
    "an event",
    only="kind or keywords or purge",
    also_named={
        "src/leveret/trace/events.py": "PURGE_ASKED",
        "src/leveret/core/protocol/handlers/queue.py": "nothing in src/leveret/core records these",
    },
)
def add_event(tree: Tree) -> None:
    events = "src/leveret/trace/events.py"
    tree.insert(events, before='QOS: Final = "qos"', text='PURGE_ASKED: Final = "purge_asked"\n')
    tree.insert(events, before='    "qos",\n', text='    "purge_asked",\n')
    tree.insert(
        events,
        before="    QOS: Kind(",
        text='    PURGE_ASKED: Kind("topology", (*_WHERE, "queue")),\n',
    )
    tree.insert(
        "src/leveret/story/words.py",
        before="    events.QOS: (Words(",
        text='    events.PURGE_ASKED: (Words("<{who} >asked to purge {queue}", "client", "queue"),),\n',
    )
    handlers = "src/leveret/core/protocol/handlers/queue.py"
    tree.replace(
        handlers,
        "from leveret.core.wire import methods\n",
        "from leveret.core.wire import methods\nfrom leveret.trace import events\n",
    )
    tree.insert(
        handlers,
        before="    count = 0 if leads_to_reply_queue(channel, name)",
        text="    channel.tap(events.PURGE_ASKED, name)\n",
    )
    tree.replace("docs/reference/trace-format.md", "`cancel`, `qos` |", "`cancel`, `purge_asked`, `qos` |")
    tree.create("tests/trace/test_purge_asked.py", EVENT_TEST)
