"""When a rule fires: names, matchers, counts and chance; and the errors about invalid rules."""

from __future__ import annotations

import re

import pytest
from pamqp.commands import Basic

from leveret.faults import CloseChannel, CloseConnection, Delay, Fault, NackPublish, ResetPeer, Restart, Withhold
from tests.faults.world import FaultyServer
from tests.protocol.peer import Peer, declare, names, publish_octets, select


class Noted(Fault):
    """A fault that records the occasions it applied to."""

    name = "noted"

    def __init__(self) -> None:
        self.occasions = []

    def apply(self, occasion):
        self.occasions.append((occasion.on, occasion.queue, occasion.message and occasion.message.body))
        return False


@pytest.fixture
def server() -> FaultyServer:
    return FaultyServer()


@pytest.fixture
def peer(server: FaultyServer) -> Peer:
    peer = server.peer()
    peer.call(1, declare("q"), declare("other"))
    return peer


def consume_two(peer: Peer) -> None:
    peer.publish(1, b"one")
    peer.publish(1, b"two")
    peer.call(1, Basic.Consume(queue="q", consumer_tag="c"))


def test_a_fault_that_does_nothing_changes_no_byte(server):
    def conversation(faulty: bool) -> bytes:
        server = FaultyServer()
        for on in ("basic.publish", "basic.ack", "basic.deliver", "confirm.select-ok", "delivered") if faulty else ():
            server.faults.add(on=on, do=Fault())
        peer = server.peer()
        peer.send(1, declare("q"), select(), Basic.Consume(queue="q", consumer_tag="c"))
        peer.send_octets(publish_octets(1, b"body") * 3)
        peer.send(1, Basic.Ack(1), Basic.Ack(2), Basic.Ack(3))
        peer.read()
        return peer.output

    assert conversation(faulty=True) == conversation(faulty=False)


def test_no_hook_is_set_without_rules(server, peer):
    points = server.node.hooks.faults

    rule = server.faults.add(on="basic.ack", do=Fault())
    armed = points.is_armed, points.method is not None
    rule.remove()

    assert armed == (True, True)
    assert (points.is_armed, points.method) == (False, None)


@pytest.mark.parametrize(
    ("on", "struck"),
    [
        ("basic.publish", [("basic.publish", None, b"one"), ("basic.publish", None, b"two")]),
        ("basic.deliver", [("basic.deliver", "q", b"one"), ("basic.deliver", "q", b"two")]),
        ("basic.ack", [("basic.ack", "q", b"one")]),
        ("basic.consume", [("basic.consume", "q", None)]),
        ("basic.consume-ok", [("basic.consume-ok", None, None)]),
        ("acked", [("acked", "q", b"one")]),
        ("enqueued", [("enqueued", "q", b"one"), ("enqueued", "q", b"two")]),
        ("consume", [("consume", "q", None)]),
    ],
)
def test_a_rule_waits_for_a_method_or_event_by_name(server, peer, on, struck):
    fault = Noted()
    server.faults.add(on=on, do=fault)

    consume_two(peer)
    peer.send(1, Basic.Ack(1))

    assert fault.occasions == struck


@pytest.mark.parametrize(
    "criteria",
    [
        {"body": b"two"},
        {"queue": "q", "body": b"two"},
        {"consumer": "c", "body": "two"},
        {"client": re.compile("pe.r"), "body": b"two"},
        {"connection": 1, "channel": 1, "after": 1},
        {"after": 1, "times": 1},
    ],
)
def test_a_rule_matches_client_place_and_message(server, peer, criteria):
    fault = Noted()
    rule = server.faults.add(on="basic.ack", do=fault, **criteria)

    consume_two(peer)
    peer.send(1, Basic.Ack(1), Basic.Ack(2))

    assert fault.occasions == [("basic.ack", "q", b"two")]
    assert rule.fired == 1


@pytest.mark.parametrize(
    "criteria", [{"queue": "other"}, {"client": "someone"}, {"channel": 2}, {"connection": 9}, {"body": b"three"}]
)
def test_a_rule_leaves_others_alone(server, peer, criteria):
    rule = server.faults.add(on="basic.ack", do=CloseChannel(), optional=True, **criteria)

    consume_two(peer)
    peer.send(1, Basic.Ack(1), Basic.Ack(2))

    assert (rule.fired, names(peer.read())) == (0, [])


def test_times_ends_a_rule_and_the_seed_decides_chance(server, peer):
    counts = []
    for _ in range(2):
        server = FaultyServer(seed=3)
        peer = server.peer()
        peer.call(1, declare("q"))
        rule = server.faults.add(on="basic.publish", do=Fault(), probability=0.5)
        limited = server.faults.add(on="basic.publish", do=Fault(), times=2)
        for _ in range(20):
            peer.publish(1, b"x")
        counts.append((rule.fired, limited.fired))

    assert counts[0] == counts[1]
    assert 0 < counts[0][0] < 20
    assert counts[0][1] == 2


@pytest.mark.parametrize(
    ("fault", "times"), [(CloseChannel(), 1), (ResetPeer(), 1), (Restart(), 1), (Fault(), None), (Delay(1), None)]
)
def test_with_on_a_fault_that_ends_something_applies_once_and_others_each_time(server, fault, times):
    added = server.faults.add(on="basic.ack", do=fault)
    unlimited = server.faults.add(on="basic.ack", do=fault, times=None)

    assert (added.times, unlimited.times) == (times, None)


def test_refused_connections_appear_under_the_name_of_the_call(server):
    rule = server.faults.refuse_connections()

    for _ in range(3):
        server.peer()

    assert (rule.fired, repr(rule)) == (3, "<refuse_connections on accept>")


def test_a_fault_is_in_the_trace_before_its_effect(server, peer):
    server.faults.add(on="basic.publish", do=CloseChannel(312, "gone"))

    peer.publish(1, b"x")

    kinds = [event.kind for event in server.events()][-3:]
    (fired,) = server.events("fault")
    assert kinds == ["fault", "refused", "chan_close"]
    assert (fired.conn, fired.chan, fired.on, fired.fault) == (1, 1, "basic.publish", "close_channel")


def test_the_complaint_of_a_rule_says_why_it_never_fired(server, peer):
    never = server.faults.add(on="basic.ack", do=CloseChannel(), queue="q")
    late = server.faults.add(on="basic.publish", do=CloseChannel(), after=1)
    peer.publish(1, b"x")

    assert never.complaint() == "<close_channel on basic.ack, queue='q', times=1> never fired: nothing matched"
    assert late.complaint().endswith("never fired: 1 occasion matched, after=1")


@pytest.mark.parametrize(
    ("criteria", "instead"),
    [
        ({"client": "shop"}, "2 basic.publish did not match; clients seen: 'peer'"),
        ({"channel": 2}, "2 basic.publish did not match; channels seen: 1"),
        (
            {"routing_key": "r"},
            "2 basic.publish did not match; messages seen: <Message exchange='' routing_key='q' body='one'>, "
            "<Message exchange='' routing_key='q' body='two'>",
        ),
    ],
)
def test_the_complaint_of_a_rule_lists_the_events_that_occurred_instead(server, peer, criteria, instead):
    rule = server.faults.add(on="basic.publish", do=Fault(), **criteria)

    peer.publish(1, b"one")
    peer.publish(1, b"two")

    assert rule.complaint().endswith(f"never fired: {instead}")


@pytest.mark.parametrize("name", ["nack_publishes", "withhold_confirms", "delay_confirms"])
def test_a_fault_of_confirms_reports_a_channel_outside_confirm_mode(server, peer, name):
    rule = getattr(server.faults, name)(**({"seconds": 1} if name == "delay_confirms" else {}))

    peer.publish(1, b"x")

    assert rule.complaint() == (
        f"<{name} on basic.publish> never fired: 1 basic.publish did not match; its channel is not in confirm mode"
    )


def test_a_rule_without_on_reports_which_clients_were_connected(server, peer):
    rule = server.faults.reset_peer(client="shop")

    assert rule.complaint().endswith("never fired: clients seen: 'peer'")


def test_leaving_its_block_removes_a_rule_and_reports_if_it_never_fired(server, peer):
    with server.faults.add(on="basic.ack", do=CloseChannel()) as rule:
        peer.publish(1, b"x")

    assert server.unused == [rule]
    assert server.node.hooks.faults.method is None


def test_leaving_the_block_of_a_rule_that_fired_reports_nothing(server, peer):
    with server.faults.close_channel(on="basic.publish") as rule:
        peer.publish(1, b"x")

    assert rule.fired == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"on": "basic.akc", "do": Fault()}, "unknown method or event 'basic.akc'; did you mean 'basic.ack'?"),
        ({"on": "delivred", "do": Fault()}, "did you mean 'delivered'?"),
        (
            {"on": "basic.ack", "do": Withhold()},
            "on='basic.ack': withhold cannot apply there; it applies to methods that the broker sends",
        ),
        (
            {"on": "queue.declare-ok", "do": NackPublish()},
            "on='queue.declare-ok': nack_publishes cannot apply there; it applies to methods that clients send",
        ),
        (
            {"on": "enqueued", "do": CloseChannel()},
            "on='enqueued': close_channel needs a connection, and this event has none; wait for a method",
        ),
        (
            {"on": "connection.open", "do": CloseChannel()},
            "on='connection.open': close_channel needs a channel, and this method has none; wait for a method",
        ),
        (
            {"on": "queue.declare", "do": Fault(), "sent_by": "broker"},
            "sent_by='broker': the broker never sends queue.declare; leave sent_by= out",
        ),
        ({"on": "basic.qos", "do": Fault(), "body": b"x"}, "body=b'x' never matches: basic.qos has no message; leave"),
        (
            {"on": "confirm.select", "do": Fault(), "queue": "q"},
            "queue='q' never matches: confirm.select has no queue; leave queue= out",
        ),
        ({"on": "basic.ack", "do": Fault(), "times": 0}, "times=0 must be a whole number, 1 or more"),
        ({"on": "basic.ack", "do": Fault(), "after": -1}, "after=-1 must be a whole number, 0 or more"),
        ({"on": "basic.ack", "do": Fault(), "probability": 2}, "probability=2 must be above 0 and at most 1"),
        (
            {"do": Delay(1)},
            "delay needs on=; it applies to methods that clients send, methods that the broker sends, basic.deliver",
        ),
        ({"do": CloseConnection(), "after": 2}, "after=2: without on=, close_connection applies at once"),
    ],
)
def test_an_invalid_rule_raises_where_it_is_added(server, rule, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        server.faults.add(**rule)

    assert server.faults.rules == []


def test_an_unknown_keyword_raises_with_a_suggestion(server):
    with pytest.raises(TypeError, match="no keyword 'quue'"):
        server.faults.add(on="basic.ack", do=Fault(), quue="q")
    with pytest.raises(ValueError, match="seconds=0 must be above 0"):
        server.faults.delay("basic.ack", seconds=0)


@pytest.mark.parametrize(
    ("do", "text"),
    [
        (
            "close_channel",
            "do='close_channel' is not a fault; pass an instance of a fault, such as do=CloseChannel(...) "
            "(from leveret.faults import CloseChannel)",
        ),
        (
            Withhold,
            "is not a fault; pass an instance of a fault, such as do=Withhold(...) "
            "(from leveret.faults import Withhold)",
        ),
        (
            "end",
            "do='end' is not a fault; pass an instance of a fault, such as do=ResetPeer(...) "
            "(from leveret.faults import ResetPeer)",
        ),
        (None, "do= is missing; pass an instance of a fault, such as do="),
    ],
)
def test_a_value_that_is_not_a_fault_raises_and_suggests_one_with_its_import(server, do, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        server.faults.add(on="basic.ack", do=do)
