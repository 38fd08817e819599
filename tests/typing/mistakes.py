"""What a user may get wrong: a type checker reports each line that ends in a comment, and no other line.

tests/typing/test_checkers.py runs the type checkers on a copy.
"""

from __future__ import annotations

from pytest_leveret import MakeLeveret

import leveret as leveret_package
from leveret import Broker, explore
from leveret.faults import ResetPeer


def test_names() -> None:
    from leveret import Message  # a name that the package does not have

    print(Message, leveret_package.vresion)  # another one


def test_spelling(leveret: Broker, make_leveret: MakeLeveret) -> None:
    leveret.wait_idel()  # a misspelt method
    leveret.assert_acked("orders", tims=2)  # a wrong keyword of an assertion
    leveret.assert_dead_lettered("orders", reason="reject")  # an unknown reason
    leveret.assert_requeued("orders", timeout="5")  # text for a number of seconds
    leveret.publish("", "orders", b"", delivery_mod=2)  # a wrong keyword of publish
    leveret.faults.drop(rooting_key="orders")  # a wrong keyword of a fault
    leveret.faults.add(on="basic.ack", do=ResetPeer(), time=1)  # a wrong keyword of add
    leveret.faults.refuse_connections("restart")  # an unknown kind of refusal
    leveret.clock.advance(minute=1)  # a wrong keyword of advance
    leveret.events.query("publishd")  # an unknown kind of event
    leveret.events.query("published", exchnge="")  # an unknown field of events
    leveret.allow("unroutabel")  # an unknown check
    leveret.allow("unroutable", que="orders")  # a wrong keyword of allow
    leveret.consume("orders", ack="automatic")  # an unknown way to acknowledge
    leveret.admin.add_usr("bob", "secret")  # a misspelt method of admin
    leveret.admin.set_policy("p", ".*", {"max-length": 1}, apply_to="queue")  # an unknown target
    leveret.admin.set_alarm("cpu")  # an unknown alarm
    leveret.faults.block_publishers("cpu")  # an unknown alarm
    make_leveret(rabbitmq="4.1")  # an unknown version
    make_leveret(recrd="off")  # a wrong keyword of make_leveret


def test_results(leveret: Broker) -> None:
    messages = leveret.assert_published("", times=2)
    print(messages.body)  # a list used as one message
    print(leveret.assert_published("").bdy)  # a misspelt attribute of a message
    print(leveret.queue("orders").redy)  # a misspelt attribute of a queue
    for event in leveret.events.query("acked"):
        print(event.quue)  # a misspelt attribute of an event
    print(leveret.wait_for_consumer("orders").unacked)  # an attribute of another view


async def test_on_an_event_loop(leveret: Broker) -> None:
    await leveret.aio.wait_idel()  # a misspelt twin
    await leveret.aio.assert_acked("orders", rooting_key="a")  # a wrong keyword of a twin
    await leveret.aio.wait_idle(timeout="5")  # text for a number of seconds
    await leveret.aio.clock.advance(minute=1)  # a wrong keyword of the clock's twin
    print(leveret.aio.assert_acked("orders").body)  # the await is missing
    print((await leveret.aio.assert_acked("orders", times=2)).body)  # a list used as one message
    consumer = leveret.consume("orders")
    print((await consumer.aio.next()).delivry_tag)  # a misspelt attribute of a delivery


def test_brokers() -> None:
    Broker(rabbitmq="4.1")  # an unknown version
    Broker(checks={"unroutable": "eror"})  # an unknown level
    Broker(checks={"unroutabel": "error"})  # an unknown check
    Broker(record="full")  # an unknown level of recording
    Broker(recrd="off")  # a wrong keyword
    explore(print, faults=["lost"])  # an unknown kind of fault
    explore(print, rabitmq="4.3")  # a wrong keyword of explore
