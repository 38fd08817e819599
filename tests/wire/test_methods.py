"""Methods: leveret decodes what clients send and encodes what the server sends, both as pamqp does."""

from __future__ import annotations

from datetime import datetime

import pamqp.base
import pamqp.commands
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.wire import methods
from leveret.core.wire.errors import MalformedUtf8, ShortStringTooLong, Undecodable, UnknownFieldType, WireError
from leveret.core.wire.methods import METHODS, Method
from leveret.core.wire.values import Table

FROM_SERVER = [each for each in METHODS.values() if "S" in each.SENDERS]
FROM_CLIENT = [each for each in METHODS.values() if "C" in each.SENDERS]
# pamqp lacks RabbitMQ's access.request.
PAMQP = pamqp.commands.INDEX_MAPPING
PAMQP_NAMES = {"type": "exchange_type"}

names = st.text("abcxyz019.-_", max_size=60)
pamqp_values: dict[str, st.SearchStrategy[object]] = {
    "shortstr": names,
    "longstr": st.text(max_size=300),
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**63 - 1),
    "table": st.dictionaries(names, st.booleans() | st.integers(-5, 2**40) | names | st.none(), max_size=4),
}
# Fields that the specification reserves, and to which pamqp gives fixed values.
RESERVED = {"ticket", "capabilities", "insist", "out_of_band", "known_hosts", "cluster_id", "channel_id"}


def name_of(method: type[Method]) -> str:
    return method.NAME


def plain(value: object) -> object:
    """Return leveret's value or pamqp's in a form that can be compared."""
    if isinstance(value, Table):
        return value.to_python()
    return value.encode() if isinstance(value, str) else value


def id_octets(method: type[Method]) -> bytes:
    return method.ID.to_bytes(4, "big")


@st.composite
def pamqp_methods(draw: st.DrawFn, method: type[Method]) -> pamqp.base.Frame:
    written = PAMQP[method.ID]()
    for attribute in written.attributes():
        if attribute not in RESERVED:
            setattr(written, attribute, draw(pamqp_values[written.amqp_type(attribute)]))
    return written


@pytest.mark.parametrize("method", [each for each in FROM_CLIENT if each.ID in PAMQP], ids=name_of)
@settings(max_examples=10)
@given(data=st.data())
def test_methods_that_pamqp_encodes_are_decoded(method: type[Method], data: st.DataObject) -> None:
    written = data.draw(pamqp_methods(method))

    read = method.decode(id_octets(method) + written.marshal())

    for name in read.__match_args__:
        assert plain(getattr(read, name)) == plain(getattr(written, PAMQP_NAMES.get(name, name)))


@pytest.mark.parametrize("method", [each for each in FROM_SERVER if each.ID in PAMQP], ids=name_of)
@settings(max_examples=10)
@given(data=st.data())
def test_pamqp_decodes_the_methods_of_the_server(method: type[Method], data: st.DataObject) -> None:
    written, values = data.draw(server_methods(method))

    payload = written.encode()

    assert payload[:4] == id_octets(method)
    read = PAMQP[method.ID]()
    read.unmarshal(payload[4:])
    assert [plain(getattr(read, name)) for name in written.__match_args__] == [plain(value) for value in values]


@st.composite
def server_methods(draw: st.DrawFn, method: type[Method]) -> tuple[Method, list[object]]:
    """Draw a method of leveret's and the values it was made of."""
    values: list[object] = []
    for name in method.__match_args__:
        kind = PAMQP[method.ID].amqp_type(name)
        value = draw(pamqp_values[kind])
        if isinstance(value, dict):
            value = Table.from_python(value)
        values.append(value.encode() if kind == "longstr" and isinstance(value, str) else value)
    return method(*values), values


@pytest.mark.parametrize("method", [each for each in FROM_SERVER if each in FROM_CLIENT], ids=name_of)
@settings(max_examples=10)
@given(data=st.data())
def test_methods_of_both_sides_survive_encoding_and_decoding(method: type[Method], data: st.DataObject) -> None:
    written, _ = data.draw(server_methods(method))

    assert method.decode(written.encode()) == written


def sample(method: type[Method]) -> bytes:
    """Return a payload with a value in every field."""
    if method.ID not in PAMQP:
        return id_octets(method) + b"\x05/data\x1f"
    written = PAMQP[method.ID]()
    fill: dict[str, object] = {"shortstr": "name", "longstr": "text", "bit": True, "table": {"k": [1, {"a": "b"}]}}
    for attribute in written.attributes():
        if attribute not in RESERVED:
            setattr(written, attribute, fill.get(written.amqp_type(attribute), 7))
    return id_octets(method) + written.marshal()


@pytest.mark.parametrize("method", FROM_CLIENT, ids=name_of)
def test_arguments_cut_anywhere_are_undecodable(method: type[Method]) -> None:
    payload = sample(method)
    method.decode(payload)

    for end in range(4, len(payload)):
        with pytest.raises(Undecodable) as refused:
            method.decode(payload[:end])
        assert refused.value.octets == payload[4:end]


@pytest.mark.parametrize("method", FROM_CLIENT, ids=name_of)
@pytest.mark.parametrize("trailing", [b"\x00", b"z", b"\x00" * 9])
def test_trailing_octets_are_undecodable(method: type[Method], trailing: bytes) -> None:
    payload = sample(method) + trailing

    with pytest.raises(Undecodable) as refused:
        method.decode(payload)

    assert refused.value.octets == payload[4:]


@pytest.mark.parametrize("method", FROM_CLIENT, ids=name_of)
@settings(max_examples=30)
@given(data=st.data())
def test_mutated_arguments_raise_nothing_but_wire_errors(method: type[Method], data: st.DataObject) -> None:
    octets = bytearray(sample(method)) + data.draw(st.binary(max_size=3))
    for _ in range(data.draw(st.integers(0, 3))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))

    try:
        method.decode(bytes(octets))
    except WireError:
        return


def test_access_request_is_read_bit_by_bit() -> None:
    read = methods.AccessRequest.decode(bytes.fromhex("001e000a") + b"\x05/data\x0a")

    assert read == methods.AccessRequest("/data", False, True, False, True, False)
    assert methods.AccessRequestOk(1).encode() == bytes.fromhex("001e000b0001")


def queue_declare(queue: bytes = b"q", bits: int = 0, table: bytes = b"") -> bytes:
    arguments = b"\x00\x00" + bytes([len(queue)]) + queue + bytes([bits]) + len(table).to_bytes(4, "big") + table
    return id_octets(methods.QueueDeclare) + arguments


@pytest.mark.parametrize("bit", range(5))
def test_each_bit_is_its_own_field(bit: int) -> None:
    read = methods.QueueDeclare.decode(queue_declare(bits=1 << bit))

    flags = [read.passive, read.durable, read.exclusive, read.auto_delete, read.nowait]
    assert flags == [place == bit for place in range(5)]


def test_unused_bits_do_not_matter() -> None:
    assert methods.QueueDeclare.decode(queue_declare(bits=0xE4)) == methods.QueueDeclare.decode(queue_declare(bits=4))


# A surrogate, an overlong zero, a lone continuation byte, a code point beyond U+10FFFF.
@pytest.mark.parametrize("octets", [b"\xed\xa0\x80", b"\xc0\x80", b"\x80", b"\xf4\x90\x80\x80"])
def test_a_short_string_that_is_not_utf8_is_refused(octets: bytes) -> None:
    with pytest.raises(MalformedUtf8):
        methods.QueueDeclare.decode(queue_declare(octets))


def test_even_a_reserved_short_string_must_be_utf8() -> None:
    with pytest.raises(MalformedUtf8):
        methods.ChannelOpen.decode(id_octets(methods.ChannelOpen) + b"\x01\xff")


def test_a_publish_may_carry_any_octets_as_exchange_and_routing_key() -> None:
    payload = id_octets(methods.BasicPublish) + b"\x00\x00\x01\xff\x02\xc3\x28\x01"

    read = methods.BasicPublish.decode(payload)

    assert read == methods.BasicPublish("\udcff", "\udcc3(", True, False)


def test_a_short_string_is_judged_before_the_table_behind_it() -> None:
    with pytest.raises(MalformedUtf8):
        methods.QueueDeclare.decode(queue_declare(b"\xff", table=b"\x01aZ"))


def test_trailing_octets_are_judged_before_a_short_string() -> None:
    with pytest.raises(Undecodable):
        methods.QueueDeclare.decode(queue_declare(b"\xff") + b"z")


def test_a_table_that_is_malformed_within_its_length_is_another_error() -> None:
    with pytest.raises(UnknownFieldType):
        methods.QueueDeclare.decode(queue_declare(table=b"\x01aZ"))


def test_reserved_fields_of_the_server_are_empty() -> None:
    assert methods.ConnectionOpenOk().encode() == bytes.fromhex("000a0029 00")
    assert methods.ChannelOpenOk().encode() == bytes.fromhex("0014000b 00000000")
    assert methods.BasicGetEmpty().encode() == bytes.fromhex("003c0048 00")


def test_a_text_of_more_than_255_octets_cannot_be_sent() -> None:
    with pytest.raises(ShortStringTooLong):
        methods.ChannelClose(404, "é" * 128, 0, 0).encode()


def test_a_method_shows_its_fields_in_wire_order() -> None:
    assert repr(methods.BasicAck(7, True)) == "BasicAck(delivery_tag=7, multiple=True)"
    assert methods.BasicAck(7, True) != methods.BasicAck(7, False)
    assert methods.BasicAck(7, True) != datetime.min
