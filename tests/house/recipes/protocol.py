"""What clients see of the broker: exchange types and methods."""

from __future__ import annotations

from tests.house.copies import Tree
from tests.house.recipes import recipe

# Not those that read every transcript or parse every file, and not those about how the table of features is printed.
FAST = (
    "not counts and not scenario and not difference and not kind and not recorded and not one_row"
    " and not default_version and not command_line and not ascii and not json and not one_version and not unknown"
    " and not remark"
)

EXCHANGE = '''\
"""The first exchange: only the oldest binding counts."""

from __future__ import annotations

from collections.abc import Sequence

from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message


class FirstExchange(Exchange):
    """Routes to the oldest of its bindings."""

    __slots__ = ()

    type_name = "x-first"

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the oldest destination."""
        return [binding.destination for binding in self.bindings.values()][:1]
'''
EXCHANGE_TEST = '''\
"""The exchange type x-first."""

from __future__ import annotations

from leveret import Broker


def test_a_message_goes_to_the_oldest_binding() -> None:
    with Broker() as broker:
        broker.declare_exchange("x", "x-first")
        for name in ("old", "new"):
            broker.declare_queue(name)
            broker.bind_queue(name, "x", "")

        broker.publish("x", "", b"1")

        assert [len(broker.queue(name).ready) for name in ("old", "new")] == [1, 0]
'''


@recipe("an exchange type", only=FAST)
def add_exchange_type(tree: Tree) -> None:
    tree.create("src/leveret/core/model/exchanges/x_first.py", EXCHANGE)
    tree.insert(
        "src/leveret/core/model/exchanges/__init__.py",
        before='    "x-random":',
        text='    "x-first": "x_first.FirstExchange",\n',
    )
    tree.append("docs/reference/arguments.md", "| `x-first` | to its oldest binding |\n")
    tree.create("tests/model/test_exchange_first.py", EXCHANGE_TEST)
    add_feature(tree, "Exchange types", "x-first", "tests/model/test_exchange_first.py")


METHODS = """\
class QueueCount(Method, ids=(50, 60), senders="C"):
    queue: ShortString


class QueueCountOk(Method, ids=(50, 61), senders="S"):
    message_count: Long


"""
METHOD_HANDLER = '''

def count(channel: Channel, method: methods.QueueCount) -> None:
    """Tell how many messages are ready."""
    channel.send(methods.QueueCountOk(len(channel.vhost.queue(method.queue, channel.connection).ready)))
'''
METHOD_TEST = '''\
"""queue.count."""

from __future__ import annotations

from tests.protocol.peer import Server, declare

COUNT, COUNT_OK = b"\\x00\\x32\\x00\\x3c\\x01q", b"\\x00\\x32\\x00\\x3d\\x00\\x00\\x00\\x02"


def test_ready_messages_are_counted() -> None:
    peer = Server().peer()
    peer.call(1, declare("q"))
    for _ in range(2):
        peer.publish(1, b"1")

    peer.send_octets(b"\\x01\\x00\\x01" + len(COUNT).to_bytes(4) + COUNT + b"\\xce")

    assert peer.read_octets() == b"\\x01\\x00\\x01" + len(COUNT_OK).to_bytes(4) + COUNT_OK + b"\\xce"
'''


@recipe("an AMQP method", only=FAST)
def add_method(tree: Tree) -> None:
    tree.insert("src/leveret/core/wire/methods.py", before="class BasicQos(", text=METHODS)
    handlers = "src/leveret/core/protocol/handlers"
    tree.append(f"{handlers}/queue.py", METHOD_HANDLER)
    tree.insert(
        f"{handlers}/__init__.py", before="_on_channel(m.BasicQos,", text="_on_channel(m.QueueCount, queue.count)\n"
    )
    tree.create("tests/protocol/test_queue_count.py", METHOD_TEST)
    add_feature(tree, "Methods", "queue.count", "tests/protocol/test_queue_count.py")


def add_feature(tree: Tree, area: str, name: str, proof: str) -> None:
    """Add a row to the table of features, and write its page anew."""
    tree.replace("tools/features.toml", f'["{area}"]\n', f'["{area}"]\n"{name}" = ["{proof}"]\n')
    tree.generate("-m", "tests.features", writes=["docs/reference/features.md"])
