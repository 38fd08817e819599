"""What a broker is: queue arguments, policy keys, versions of RabbitMQ and how they differ."""

from __future__ import annotations

from tests.house.copies import Tree
from tests.house.recipes import recipe
from tests.house.recipes.protocol import FAST, add_feature

ARGUMENT = """\
    _limit("x-max-consumers", _positive, _CLASSIC_QUORUM, integer_from(1), "maximum number of consumers"),
"""
ARGUMENT_USE = """\
        most = self.settings.max_consumers
        if most is not None and len(self.consumers) >= most:
            raise AccessRefused(f"{self.title} has {most} consumers already")
"""
ARGUMENT_TEST = '''\
"""The argument x-max-consumers and the policy key max-consumers."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker


@pytest.mark.parametrize(("argument", "policy", "most"), [(2, None, 2), (None, 1, 1), (3, 1, 1)])
def test_no_more_consumers_come_than_the_stricter_says(argument: int | None, policy: int | None, most: int) -> None:
    with Broker() as broker:
        broker.declare_queue("q", arguments={} if argument is None else {"x-max-consumers": argument})
        if policy is not None:
            broker.admin.set_policy("few", ".*", {"max-consumers": policy})
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            for _ in range(most):
                channel.basic_consume("q", lambda *_: None)

            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=f"has {most} consumers already"):
                channel.basic_consume("q", lambda *_: None)
'''


@recipe(
    "a queue argument",
    only=FAST,
    apart=(
        "src/leveret/core/model/queues/arguments.py",
        "src/leveret/core/model/queues/settings.py",
        "src/leveret/core/model/queues/<module>.py",
    ),
    also_named={
        "src/leveret/core/model/queues/arguments.py": "x-max-consumers",
        "src/leveret/core/model/queues/queue.py": "max_consumers",
        "src/leveret/core/model/queues/settings.py": "max_consumers",
    },
)
def add_queue_argument(tree: Tree) -> None:
    queues = "src/leveret/core/model/queues"
    tree.insert(f"{queues}/arguments.py", before='    QueueArgument("x-max-priority"', text=ARGUMENT)
    tree.insert(
        f"{queues}/settings.py",
        before='    overflow: str = "drop-head"\n',
        text="    max_consumers: int | None = None\n",
    )
    tree.insert(
        f"{queues}/settings.py",
        before="            overflow=overflow,\n",
        text='            max_consumers=_integer_or_none(merged("x-max-consumers")),\n',
    )
    tree.insert(f"{queues}/queue.py", before="        self.consumers.append(consumer)\n", text=ARGUMENT_USE)
    if "AccessRefused" not in tree.read(f"{queues}/queue.py").partition("class ")[0]:
        line = "from leveret.core.model.errors import AccessRefused\n"
        tree.insert(f"{queues}/queue.py", before="from leveret.core.model.message import", text=line)
    cells = ["`x-max-consumers`", "yes", "yes", "-", "1 and up", "how many consumers it may have"]
    tree.append("docs/reference/arguments.md", f"| {' | '.join(cells)} |\n")
    tree.create("tests/model/test_argument_max_consumers.py", ARGUMENT_TEST)
    for area, name in (("Policy keys", "max-consumers"), ("Queue arguments", "x-max-consumers")):
        add_feature(tree, area, name, "tests/model/test_argument_max_consumers.py")


POLICY_TEST = '''\
"""The policy key rename-keys."""

from __future__ import annotations

from leveret import Broker


def test_an_exchange_says_what_its_policy_asks_of_it() -> None:
    with Broker() as broker:
        broker.declare_exchange("x", "fanout")
        broker.declare_queue("q")
        broker.bind_queue("q", "x")
        broker.admin.set_policy("closed", "x", {"is-closed": "yes"}, apply_to="exchanges")

        assert broker.publish("x", "", b"1") is False
'''
POLICY_USE = """\
        if definition.get("is-closed") == "yes":
            self.bindings.clear()
"""


@recipe(
    "a policy key without a queue argument",
    only=FAST,
    apart=("src/leveret/core/model/operators/policy_keys.py", "src/leveret/core/model/exchanges/<module>.py"),
    also_named={
        "src/leveret/core/model/operators/policy_keys.py": "is-closed",
        "src/leveret/core/model/exchanges/exchange.py": "test_policy_key_closed",
    },
)
def add_policy_key(tree: Tree) -> None:
    row = '    PolicyKey("is-closed", is_string, "is-closed value"),\n'
    tree.insert("src/leveret/core/model/operators/policy_keys.py", before='    PolicyKey("target-group-size"', text=row)
    tree.insert("src/leveret/core/model/exchanges/exchange.py", before="        by_policy = ", text=POLICY_USE)
    tree.create("tests/model/test_policy_key_closed.py", POLICY_TEST)
    add_feature(tree, "Policy keys", "is-closed", "tests/model/test_policy_key_closed.py")


DIFFERENCE_TEST = '''\
"""What a purge tells, on each version."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker


@pytest.mark.parametrize(("version", "count"), [("4.3", 1), ("4.2", 0)])
def test_a_purge_tells_how_much_it_took_from_4_3_on(version: str, count: int) -> None:
    with Broker(rabbitmq=version) as broker:
        broker.declare_queue("q")
        broker.publish("", "q", b"1")
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            assert connection.channel().queue_purge("q").method.message_count == count
'''


@recipe(
    "a difference between versions",
    only="difference or difference_purge or purge",
    also_named={
        "src/leveret/core/compat.py": "purge_tells_count",
        "src/leveret/core/protocol/handlers/queue.py": "purge_tells_count",
    },
)
def add_difference(tree: Tree) -> None:
    add_field(tree)
    tree.replace(
        "src/leveret/core/protocol/handlers/queue.py",
        "channel.send(methods.QueuePurgeOk(count))",
        "channel.send(methods.QueuePurgeOk(count if channel.node.compat.purge_tells_count else 0))",
    )
    tree.show("tests/protocol/test_difference_purge.py", DIFFERENCE_TEST)


def add_field(tree: Tree) -> None:
    """Add a flag of Compat that is on in the newest version."""
    field = (
        "    # queue.purge-ok tells how many messages were purged; otherwise 0.\n"
        '    purge_tells_count: bool = since("4.3")\n'
    )
    tree.insert("src/leveret/core/compat.py", before="    checks_delivery_mode: bool =", text=field)


VERSION_TEST = '''\
"""RabbitMQ 4.4 differs from 4.3 in the tag of a direct reply."""

from __future__ import annotations

from leveret import Broker
from leveret.core.compat import Compat


def test_the_version_differs_in_one_thing() -> None:
    new, old = Compat.for_version("4.4"), Compat.for_version("4.3")

    differences = {name for name in Compat._fields if getattr(new, name) != getattr(old, name)}

    assert differences == {"version", "product_version", "replies_take_no_tag"}
    assert Broker(rabbitmq="4.4").rabbitmq == "4.4"
'''
VERSION = """\
_V4_4: Final = _V4_3._replace(version="4.4", product_version="4.4.0", replies_take_no_tag=True)

"""


@recipe("a RabbitMQ version", only="version or page_is_that")
def add_version(tree: Tree) -> None:
    compat = "src/leveret/core/compat.py"
    tree.insert(compat, before="_V4_2: Final = ", text=VERSION)
    tree.replace(compat, 'RabbitMQVersion = Literal["4.3",', 'RabbitMQVersion = Literal["4.4", "4.3",')
    tree.replace(compat, "for each in (_V4_3,", "for each in (_V4_4, _V4_3,")
    tree.append("README.md", "leveret behaves as RabbitMQ 4.4 too.\n")
    tree.append("docs/reference/options.md", "`rabbitmq` may be 4.4.\n")
    tree.show("tests/model/test_version_4_4.py", VERSION_TEST)
    tree.generate("-m", "tests.features", writes=["docs/reference/features.md"])
