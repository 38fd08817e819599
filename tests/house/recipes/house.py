"""What the house is made of: modules and examples."""

from __future__ import annotations

from tests.house.copies import Tree
from tests.house.recipes import recipe

MODULE = '''\
"""Greetings."""

from __future__ import annotations


def greet(name: str) -> str:
    """Return a greeting."""
    return f"hello {name}"
'''
MODULE_TEST = '''\
"""Greetings."""

from __future__ import annotations

from leveret.greeting import greet


def test_a_name_is_greeted() -> None:
    assert greet("hare") == "hello hare"
'''


@recipe(
    "a package or module directly below `leveret`", only="every_layer_imports or has_its_place or has_a_test or greeted"
)
def add_module(tree: Tree) -> None:
    tree.create("src/leveret/greeting.py", MODULE)
    tree.replace(
        "pyproject.toml", '    "clocks | errors | wording",\n]', '    "clocks | errors | greeting | wording",\n]'
    )
    tree.replace(
        "docs/architecture.md", "| `clocks`, `errors`, `wording` |", "| `clocks`, `errors`, `wording`, `greeting` |"
    )
    tree.create("tests/greeting/test_greeting.py", MODULE_TEST)


APPLICATION = '''\
"""Sends letters."""

from __future__ import annotations

import pika


def send(url: str, text: bytes) -> None:
    """Send one letter."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        connection.channel().basic_publish("", "letters", text)
'''
APPLICATION_TEST = '''\
"""Letters are sent."""

from __future__ import annotations

from examples.letters.mailer import send
from leveret import Broker


def test_a_letter_is_sent(leveret: Broker) -> None:
    leveret.declare_queue("letters")

    send(leveret.url, b"Dear hare")

    leveret.assert_published("", body=b"Dear hare")
'''
STORY = '''\
"""Letters: one is sent."""

from __future__ import annotations

from examples.letters.mailer import send
from leveret import Broker


def tell() -> None:
    """Send a letter and print it."""
    with Broker() as broker:
        broker.declare_queue("letters")
        send(broker.url, b"Dear hare")
        print(broker.queue("letters").ready)
'''


@recipe("an example", only="not telling and not (tell and delivered)")
def add_example(tree: Tree) -> None:
    tree.create("examples/letters/__init__.py", '"""Letters."""\n')
    tree.create("examples/letters/mailer.py", APPLICATION)
    tree.create("examples/letters/test_mailer.py", APPLICATION_TEST)
    tree.create("examples/letters/story.py", STORY)
    tree.insert("examples/__main__.py", before='    "planted_bugs"', text='    "letters",\n')
