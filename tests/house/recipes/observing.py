"""What tests use: faults, assertions, strict checks, options and commands."""

from __future__ import annotations

from tests.house.copies import Tree
from tests.house.recipes import recipe

TABLE = "pytest_plugin/pytest_leveret/options/table.py"

FAULT = '''

class Forbid(Fault):
    """A method is refused, as RabbitMQ does if a permission is missing."""

    name = "forbid"
    points = ("method",)
    needs_channel = True
    is_ending = True

    def apply(self, occasion: Occasion) -> bool:
        """Refuse the method."""
        from leveret.core.model.errors import AccessRefused

        raise AccessRefused("forbidden by a fault")
'''
NAMED_FAULT = '''\
    def forbid(self, on: str, **options: Any) -> Rule:
        """Refuse a method, as RabbitMQ does if a permission is missing."""
        return self.add(on=on, do=conversation.Forbid(), **options)

'''
FAULT_TEST = '''\
"""What pika makes of a method that a fault forbids."""

from __future__ import annotations

import pytest
from pika.exceptions import ChannelClosedByBroker


def test_a_forbidden_purge_closes_the_channel_of_pika(broker, connect):
    broker.faults.forbid("queue.purge")

    with pytest.raises(ChannelClosedByBroker, match="forbidden by a fault"):
        connect().channel().queue_purge("work")
'''


@recipe("a fault")
def add_fault(tree: Tree) -> None:
    tree.append("src/leveret/faults/conversation.py", FAULT)
    tree.insert(
        "src/leveret/faults/__init__.py",
        before="from leveret.faults.fault import Fault",
        text="from leveret.faults.conversation import Forbid as Forbid\n",
    )
    tree.insert("src/leveret/faults/named.py", before="    def restart(", text=NAMED_FAULT)
    tree.append("docs/reference/faults.md", "| `forbid(on)` | `Forbid`: a method is refused |\n")
    tree.insert(
        "tests/soak/faults.py",
        before='    "restart": _restart',
        text='    "forbid": _on_messages("forbid", "basic.get"),\n',
    )
    tree.create("tests/faults/test_clients_forbid.py", FAULT_TEST)


ASSERTION = '''\
    def assert_purged(
        self, queue: str, *, times: int | None = None, **options: Unpack[QueueAssertionOptions]
    ) -> MessageView | list[MessageView]:
        """Assert that a matching message was purged from this queue. Its keywords are those of `assert_published`."""
        __tracebackhide__ = True
        return self._assert("assert_purged", queue, options, times=times)

'''
ASSERTION_TEST = '''\
"""assert_purged."""

from __future__ import annotations

import pytest

from leveret import Broker


def test_a_purged_message_is_found() -> None:
    with Broker() as broker:
        broker.declare_queue("jobs")
        broker.publish("", "jobs", b"1")
        with pytest.raises(AssertionError, match="expected at least 1 purged, saw none that matches"):
            broker.assert_purged("jobs")

        broker.purge_queue("jobs")

        assert broker.assert_purged("jobs").body == b"1"
'''


@recipe(
    "an assertion",
    # Its type has no keyword for the reasons that the event has.
    only="(assertion and not reasons) or twin or purged",
    also_named={"src/leveret/observe/assertions/assertions.py": "assert_purged"},
)
def add_assertion(tree: Tree) -> None:
    tree.insert("src/leveret/observe/assertions/assertions.py", before="    def assert_empty(", text=ASSERTION)
    tree.insert(
        "src/leveret/time/aio.py",
        before="    assert_dropped = twin(",
        text="    assert_purged = twin(CheckedAssertions.assert_purged)\n",
    )
    row = '    Happening("purged", (events.PURGED,), "queue"),\n'
    tree.insert("src/leveret/observe/assertions/searching.py", before='    Happening("dropped",', text=row)
    tree.append("docs/reference/broker.md", "| `assert_purged` | queue | was purged |\n")
    tree.create("tests/observe/test_assert_purged.py", ASSERTION_TEST)


CHECK_METHOD = """\
    def _requeued(self, event: Event) -> None:
        self._find("put_back", event)

"""
CHECK_TEST = '''\
"""The check put_back."""

from __future__ import annotations


def test_a_message_that_is_put_back_is_found(broker, connect, found):
    broker.publish("orders", "order.created", b"1")
    channel = connect(broker).channel()
    channel.basic_nack(channel.basic_get("orders.work")[0].delivery_tag)
    channel.connection.close()

    assert "1 message put back into its queue" in found(broker)["put_back"]
'''


@recipe("a strict check", also_named={"src/leveret/observe/checks/table.py": "known_check"})
def add_check(tree: Tree) -> None:
    checks = "src/leveret/observe/checks"
    row = '    Check("put_back", "off", "put back into its queue", "message"),\n'
    tree.insert(f"{checks}/table.py", before='    Check("left_ready"', text=row)
    tree.insert(f"{checks}/table.py", before='    "left_ready",\n', text='    "put_back",\n')
    tree.insert(
        f"{checks}/trace_checks.py",
        before="            events.QUEUE_DELETE:",
        text="            events.REQUEUED: self._requeued,\n",
    )
    tree.insert(f"{checks}/trace_checks.py", before="    def _lose(", text=CHECK_METHOD)
    words = '    "put_back": CauseWords("{message} went back to {queue}"),\n'
    tree.insert("src/leveret/story/causes.py", before='    "unknown_argument": ', text=words)
    tree.insert(
        "docs/reference/checks.md", before="| `left_ready` |", text="| `put_back` | off | a message put back |\n"
    )
    tree.create("tests/checks/test_put_back.py", CHECK_TEST)


OPTION_TEST = '''\
"""The label of a broker."""

from __future__ import annotations

from leveret import Broker


def test_a_broker_has_the_label_it_was_given() -> None:
    assert Broker(label="billing").label == "billing"
'''


@recipe(
    "an option of the broker",
    only="keyword or options or label",
    also_named={"src/leveret/broker.py": "Broker()"},
)
def add_option(tree: Tree) -> None:
    tree.insert("src/leveret/broker.py", before="        tls: SSLContext | bool", text='        label: str = "",\n')
    tree.insert("src/leveret/broker.py", before="        - `tls` opens", text="        - `label` is its name.\n")
    tree.insert("src/leveret/broker.py", before="        self._wanted_port =", text="        self.label = label\n")
    tree.insert("src/leveret/engine/broker_options.py", before="    tls_port: int\n", text="    label: str\n")
    tree.insert(TABLE, before='    Option("tls_port"', text='    Option("label", kinds.ADDRESS, "its name"),\n')
    tree.append("docs/reference/broker.md", "`label` is the name that a test gives its broker.\n")
    tree.create("tests/broker/test_label.py", OPTION_TEST)


SETTING_USE = """\
    least = publisher.node.settings.min_message_size
    if least is not None and size < least:
        raise PreconditionFailed(f"message size {size} is smaller than configured min size {least}")
"""
SETTING_TEST = '''\
"""The setting min_message_size."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker


def test_a_body_below_the_size_set_is_refused() -> None:
    with Broker(settings={"min_message_size": 2}) as broker:
        channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
        channel.confirm_delivery()

        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="smaller than configured min size 2"):
            channel.basic_publish("", "q", b"1")
'''


@recipe(
    "a line of rabbitmq.conf",
    only="rabbitmq_conf or below_the_size",
    apart=("src/leveret/core/model/operators/node_settings.py", "src/leveret/core/<package>/<module>.py"),
    also_named={
        "src/leveret/core/model/operators/node_settings.py": "min_message_size",
        "src/leveret/core/protocol/publishing.py": "test_settings_min_message_size",
    },
)
def add_setting(tree: Tree) -> None:
    settings = "src/leveret/core/model/operators/node_settings.py"
    tree.insert(settings, before="    # In milliseconds.\n", text="    min_message_size: int | None = None\n")
    line = "    name = method.exchange\n    publisher.rights.require("
    tree.insert("src/leveret/core/protocol/publishing.py", before=line, text=SETTING_USE)
    tree.append("docs/reference/broker.md", "| `min_message_size` | bytes of a body |\n")
    tree.create("tests/admin/test_settings_min_message_size.py", SETTING_TEST)


PYTEST_OPTION = """\
    Option("tls", kinds.SWITCH._replace(annotation="SSLContext | bool"), "open a second port (default: no)", "True"),
"""
PYTEST_OPTION_TEST = '''\
"""The option tls."""

from __future__ import annotations


def test_a_port_with_tls_is_opened_by_the_command_line(run):
    result = run(
        """
        def test_it(leveret):
            assert leveret.tls.url.startswith("amqps://")
        """,
        "--leveret-tls=yes",
    )

    result.assert_outcomes(passed=1)
'''


@recipe("a pytest option", also_named={TABLE: "--leveret-tls"})
def add_pytest_option(tree: Tree) -> None:
    tree.insert(TABLE, before='    Option("host"', text=PYTEST_OPTION)
    tree.replace(TABLE, '    Option("tls", kinds.TLS, "open a second port, which speaks TLS", reach="leveret"),\n', "")
    cells = ["`tls`", "`tls=True`", "`--leveret-tls=YES_OR_NO`", "`LEVERET_TLS`", "`leveret_tls`", "-"]
    tree.append("docs/reference/options.md", f"| {' | '.join(cells)} |\n")
    tree.create("tests/plugin/test_option_tls.py", PYTEST_OPTION_TEST)


COMMAND = '''\
    def list_queues(self, vhost: str = "/") -> list[str]:
        """Return the names of a virtual host's queues."""
        with self._engine.looking() as node:
            return sorted(find_vhost(node, vhost).queues)

'''
COMMAND_TEST = '''\
"""list_queues."""

from __future__ import annotations

from leveret import Broker


def test_queues_are_listed_by_name() -> None:
    with Broker() as broker:
        for name in ("b", "a"):
            broker.declare_queue(name)

        assert broker.admin.list_queues() == ["a", "b"]
'''


@recipe("an admin command", also_named={"src/leveret/admin/admin.py": "broker.admin"})
def add_command(tree: Tree) -> None:
    tree.insert("src/leveret/admin/admin.py", before="    def drain(self)", text=COMMAND)
    tree.append("docs/reference/admin.md", "| queues | `list_queues` |\n")
    tree.create("tests/admin/test_list_queues.py", COMMAND_TEST)


NAME_TEST = '''\
"""The name leveret.Fault."""

from __future__ import annotations

import leveret
from leveret.faults import Fault


def test_a_fault_of_ones_own_has_its_base_at_the_top() -> None:
    assert leveret.Fault is Fault
'''


@recipe(
    "a public name", only="checker or public or any_type or base_at", also_named={"src/leveret/__init__.py": "leveret"}
)
def add_public_name(tree: Tree) -> None:
    init = "src/leveret/__init__.py"
    tree.insert(
        init, before="    from leveret.faults.plan import", text="    from leveret.faults.fault import Fault as Fault\n"
    )
    tree.insert(init, before='    "faults.plan": (', text='    "faults.fault": ("Fault",),\n')
    tree.append("docs/reference/types.md", "`Fault` is the base of faults of your own.\n")
    tree.show("tests/users/test_public_fault.py", NAME_TEST)


KEYWORD_TEST = '''\
"""The keyword deaths."""

from __future__ import annotations

import pytest

from leveret import Broker


def test_a_message_is_found_by_its_deaths() -> None:
    with Broker() as broker:
        broker.declare_queue("q")
        broker.publish("", "q", b"1")

        assert broker.assert_published("", deaths=()).body == b"1"
        with pytest.raises(AssertionError):
            broker.assert_published("", deaths=("rejected",))
'''


@recipe("a keyword of assertions and faults", only="keyword or deaths")
def add_keyword(tree: Tree) -> None:
    tree.insert(
        "src/leveret/observe/assertions/matching.py",
        before='    "redelivered": Criterion,',
        text='    "deaths": Criterion,\n',
    )
    keywords = "src/leveret/observe/assertions/keywords.py"
    tree.replace(keywords, "    json: object\n", "    json: object\n    deaths: object\n")
    tree.show("tests/observe/test_keyword_deaths.py", KEYWORD_TEST)
