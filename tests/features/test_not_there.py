"""leveret refuses features that it lacks, by name, and never ignores them silently."""

from __future__ import annotations

import pytest
from pamqp import commands
from pamqp.commands import Exchange, Queue

from leveret import Broker, BrokerError
from leveret.core.model import unsupported
from tests.protocol.peer import Frame, Peer, Server, octets, the

BASIC_CREDIT = b"\x00\x3c\x00\xc8" + b"\x01c" + b"\x00\x00\x00\x01" + b"\x00"
AMQP_0_9_1 = b"AMQP\x00\x00\x09\x01"
AMQP_1_0 = b"AMQP\x03\x01\x00\x00"


@pytest.fixture
def peer() -> Peer:
    return Server().peer()


def close_after(peer: Peer, data: bytes) -> tuple[int, str]:
    peer.send_octets(data)
    close = the(peer.read(), commands.Connection.Close)
    return close.reply_code, close.reply_text


def named(feature: str) -> tuple[int, str]:
    return 540, f"NOT_IMPLEMENTED - leveret does not have {feature}; its page 'Features of RabbitMQ' lists what it has"


def declared(frame: Frame) -> bytes:
    return octets(1, frame)


@pytest.mark.parametrize("exchange_type", unsupported.EXCHANGE_TYPES)
def test_an_exchange_type_of_a_plugin_is_named(peer: Peer, exchange_type: str) -> None:
    close = close_after(peer, declared(Exchange.Declare(exchange="x", exchange_type=exchange_type)))

    assert close == named(f"exchange type '{exchange_type}' (plugin {unsupported.EXCHANGE_TYPES[exchange_type]})")


@pytest.mark.parametrize("argument", unsupported.QUEUE_ARGUMENTS)
def test_a_queue_argument_of_a_plugin_is_named(peer: Peer, argument: str) -> None:
    close = close_after(peer, declared(Queue.Declare(queue="q", durable=True, arguments={argument: True})))

    assert close == named(f"queue argument '{argument}' (plugin {unsupported.QUEUE_ARGUMENTS[argument]})")


def test_basic_credit_is_named_where_the_version_has_it() -> None:
    peer = Server("3.13").peer()

    close = close_after(peer, b"\x01\x00\x01" + len(BASIC_CREDIT).to_bytes(4, "big") + BASIC_CREDIT + b"\xce")

    assert close == named("basic.credit")


@pytest.mark.parametrize("version", ["4.3", "4.2", "4.0", "3.13", "3.10"])
def test_amqp_1_0_is_answered_with_what_leveret_speaks(version: str) -> None:
    peer = Server(version).stranger()

    peer.send_octets(AMQP_1_0)

    assert (peer.read_octets(), peer.connection.is_reset) == (AMQP_0_9_1, True)


def test_an_unknown_deprecated_feature_cannot_be_permitted() -> None:
    with pytest.raises(
        ValueError, match="unknown deprecated feature 'ram_node_type'; expected one of transient_nonexcl"
    ):
        Broker(permit={"ram_node_type"})


def test_a_permitted_shared_prefetch_works() -> None:
    peer = Server(permit=frozenset({"global_qos"})).peer()

    peer.send(1, Queue.Declare(queue="q", durable=True), commands.Basic.Qos(prefetch_count=1, global_=True))
    peer.send(1, commands.Basic.Consume(queue="q", consumer_tag="a"), commands.Basic.Consume(queue="q"))
    peer.publish(1, b"1")
    peer.publish(1, b"2")

    assert [type(frame) for _, frame in peer.read()].count(commands.Basic.Deliver) == 1


def test_a_permitted_queue_master_locator_is_accepted() -> None:
    peer = Server(permit=frozenset({"queue_master_locator"})).peer()

    told = peer.told(1, Queue.Declare(queue="q", durable=True, arguments={"x-queue-master-locator": "min-masters"}))

    assert told == ["Queue.DeclareOk"]


@pytest.mark.parametrize("key", ["ha-mode", "shards-per-node", "federation-upstream-set", "rate-limit"])
def test_a_policy_key_without_behaviour_is_refused(leveret: Broker, key: str) -> None:
    with pytest.raises(BrokerError, match=key):
        leveret.admin.set_policy("p", ".*", {key: "all"})


@pytest.mark.parametrize("component", ["mqtt", "operator"])
def test_definitions_with_parameters_of_plugins_are_refused(leveret: Broker, component: str) -> None:
    parameter = {"component": component, "name": "n", "vhost": "/", "value": {}}

    with pytest.raises(BrokerError, match=component):
        leveret.admin.import_definitions({"parameters": [parameter]})
