"""Every fault is documented and tested, and the page on writing a fault is correct."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pamqp.commands import Basic, Channel, Queue

from leveret import faults
from leveret.faults.named import NamedFaults
from tests.faults.kinds import kinds
from tests.faults.world import FaultyServer
from tests.protocol.peer import declare, octets, split, the
from tests.protocol.peer import names as names_of

ROOT = Path(__file__).parents[2]
NAMED = [name for name, value in vars(NamedFaults).items() if callable(value) and name != "add" and name[0] != "_"]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_fault_is_documented_exported_and_named(kind):
    name = kind.__name__

    assert f"`{name}`" in read("docs/reference/faults.md"), f"docs/reference/faults.md has no line for `{name}`"
    assert name in faults.__all__, f"src/leveret/faults/__init__.py does not have {name}"
    assert f"{name}(" in read("src/leveret/faults/named.py"), f"src/leveret/faults/named.py has no method for {name}"
    assert kind.__doc__, name


@pytest.mark.parametrize("name", NAMED)
def test_every_named_fault_is_documented_and_tested_with_a_client(name):
    tests = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/faults").glob("test_clients*.py"))]
    is_tested = any(f"faults.{name}(" in text or f"faults.{name})" in text for text in tests)

    assert is_tested, f"no file of tests/faults/test_clients*.py calls faults.{name}"
    assert f"`{name}(" in read("docs/reference/faults.md"), f"docs/reference/faults.md has no line for `{name}(...)`"


def test_the_examples_of_writing_a_fault_work():
    page = read("docs/how-to/writing-a-fault.md")
    names: dict[str, type] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    server = FaultyServer()
    peer = server.peer()
    peer.call(1, declare("q"))
    nothing = server.faults.add(on="basic.get", do=names["Nothing"]())
    refusing = server.faults.add(on="basic.get", do=names["RefuseLongQueues"](1))

    peer.publish(1, b"1")
    first = peer.told(1, Basic.Get(queue="q"))
    for _ in range(2):
        peer.publish(1, b"2")
    closed = the(peer.call(1, Basic.Get(queue="q")), Channel.Close)

    assert first == ["Basic.GetOk"]
    assert closed.reply_text == "PRECONDITION_FAILED - this queue is too long"
    assert (nothing.fired, refusing.fired) == (2, 1)

    peer = server.peer()
    pairs = server.faults.add(do=names["Pairs"]("to_client"), connection=2)
    peer.send(1, declare("odd"))
    held = peer.read_octets()
    pairs.remove()
    assert (len(held) % 2, names_of(split(held + peer.read_octets()))) == (0, ["Queue.DeclareOk"])
    assert len(octets(1, Queue.DeclareOk("odd", 0, 0))) % 2 == 0


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")
