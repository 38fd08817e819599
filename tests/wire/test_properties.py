"""Basic properties: present exactly if they were sent, read as pamqp reads them, refused as RabbitMQ refuses them."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pamqp.commands
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.wire.errors import ShortStringTooLong, UndecodableProperties
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table

# A value of every property and its bytes, in wire order.
SAMPLES: list[tuple[str, int, str | int | Table, bytes]] = [
    ("content_type", 15, "text/plain", b"\x0atext/plain"),
    ("content_encoding", 14, "gzip", b"\x04gzip"),
    ("headers", 13, Table.from_python({"a": 1}), b"\x00\x00\x00\x07\x01aI\x00\x00\x00\x01"),
    ("delivery_mode", 12, 2, b"\x02"),
    ("priority", 11, 9, b"\x09"),
    ("correlation_id", 10, "c", b"\x01c"),
    ("reply_to", 9, "r", b"\x01r"),
    ("expiration", 8, "1000", b"\x041000"),
    ("message_id", 7, "m", b"\x01m"),
    ("timestamp", 6, 2**31, b"\x00\x00\x00\x00\x80\x00\x00\x00"),
    ("type", 5, "t", b"\x01t"),
    ("user_id", 4, "guest", b"\x05guest"),
    ("app_id", 3, "", b"\x00"),
    ("cluster_id", 2, "\udcff", b"\x01\xff"),
]

texts = st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
octets_8 = st.integers(0, 255)
values = dict.fromkeys(PROPERTY_NAMES, texts) | {
    "headers": st.dictionaries(st.text(max_size=20), st.integers(-5, 2**40) | st.text(max_size=9) | st.none()).map(
        Table.from_python
    ),
    "delivery_mode": octets_8,
    "priority": octets_8,
    "timestamp": st.integers(0, 2**64 - 1),
}
some_properties = st.fixed_dictionaries({}, optional=values).map(lambda chosen: Properties(**chosen))


@pytest.mark.parametrize(("name", "bit", "value", "octets"), SAMPLES, ids=[name for name, *_ in SAMPLES])
def test_a_property_alone_is_its_flag_and_its_octets(
    name: str, bit: int, value: str | int | Table, octets: bytes
) -> None:
    properties = Properties().replace(**{name: value})

    assert properties.encode() == struct.pack(">H", 1 << bit) + octets
    assert Properties.decode(properties.encode()) == properties


def test_all_fourteen_stand_in_the_order_of_their_flags() -> None:
    octets = b"\xff\xfc" + b"".join(octets for *_, octets in SAMPLES)

    properties = Properties.decode(octets)

    assert [name for name, *_ in SAMPLES] == list(PROPERTY_NAMES)
    assert [getattr(properties, name) for name in PROPERTY_NAMES] == [value for _, _, value, _ in SAMPLES]
    assert properties.encode() == octets


def test_no_properties_are_two_octets_of_flags() -> None:
    assert Properties().encode() == b"\x00\x00"
    assert Properties.decode(b"\x00\x00") == Properties()


def test_an_empty_headers_table_stays_present() -> None:
    properties = Properties.decode(b"\x20\x00\x00\x00\x00\x00")

    assert properties.headers == Table.EMPTY
    assert properties.encode() == b"\x20\x00\x00\x00\x00\x00"


@given(some_properties)
def test_properties_survive_the_wire(properties: Properties) -> None:
    assert Properties.decode(properties.encode()) == properties


def test_pamqp_reads_what_we_write() -> None:
    present = {name: value for name, _, value, _ in SAMPLES if name not in ("app_id", "cluster_id", "headers")}
    octets = Properties(headers=Table.from_python({"k": [1, None, {"x": "y"}]}), app_id="leveret").replace(**present)

    read = pamqp.commands.Basic.Properties()
    read.unmarshal(int.from_bytes(octets.encode()[:2], "big"), octets.encode()[2:])

    expected = present | {"timestamp": datetime.fromtimestamp(2**31, UTC), "app_id": "leveret"}
    assert {name: getattr(read, {"type": "message_type"}.get(name, name)) for name in expected} == expected
    assert read.headers == {"k": [1, None, {"x": "y"}]}


def test_we_read_what_pamqp_writes() -> None:
    written = pamqp.commands.Basic.Properties(
        content_type="a",
        content_encoding="b",
        headers={"k": "v", "n": [1, 2]},
        delivery_mode=1,
        priority=3,
        correlation_id="c",
        reply_to="d",
        expiration="4",
        message_id="e",
        timestamp=datetime(2024, 1, 1, tzinfo=UTC),
        message_type="f",
        user_id="g",
        app_id="h",
    )

    read = Properties.decode(written.marshal())

    assert read.to_python() == {
        "content_type": "a",
        "content_encoding": "b",
        "headers": {"k": "v", "n": [1, 2]},
        "delivery_mode": 1,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "d",
        "expiration": "4",
        "message_id": "e",
        "timestamp": 1704067200,
        "type": "f",
        "user_id": "g",
        "app_id": "h",
    }


# All seen on RabbitMQ 4.3, 4.0 and 3.10.
@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\x00",
        b"\x00\x00abc",
        b"\x08\x00\x05abc",
        b"\x08\x00",
        b"\x80\x00",
        b"\x80\x00\x05abc",
        b"\x20\x00\x00\x00",
        b"\x20\x00\x00\x00\x00\x05abc",
        b"\x20\x00\x00\x00\x00\x03\x01kZ",
        b"\x00\x40\x00\x00",
        b"\x00\x01\x00\x00",
    ],
)
def test_cut_malformed_and_trailing_octets_are_refused(octets: bytes) -> None:
    with pytest.raises(UndecodableProperties):
        Properties.decode(octets)


@pytest.mark.parametrize("unused", [1, 2, 3])
def test_the_two_unused_flags_are_ignored_and_not_sent_on(unused: int) -> None:
    properties = Properties.decode(bytes([0x08, unused, 5]))

    assert properties.encode() == b"\x08\x00\x05"


@given(some_properties, st.data())
def test_cut_properties_are_refused(properties: Properties, data: st.DataObject) -> None:
    octets = properties.encode()
    cut = octets[: data.draw(st.integers(0, len(octets) - 1))]

    with pytest.raises(UndecodableProperties):
        Properties.decode(cut)


@given(some_properties, st.data())
def test_mutated_properties_raise_nothing_else(properties: Properties, data: st.DataObject) -> None:
    octets = bytearray(properties.encode())
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(octets_8)

    try:
        Properties.decode(bytes(octets))
    except UndecodableProperties:
        return


def test_a_replacement_is_a_copy() -> None:
    properties = Properties(priority=1, expiration="5")

    changed = properties.replace(expiration=None, type="x")

    assert changed == Properties(priority=1, type="x")
    assert properties == Properties(priority=1, expiration="5")


def test_a_replacement_knows_its_names() -> None:
    with pytest.raises(TypeError, match="no such property: colour"):
        Properties().replace(colour="red")


def test_ordinary_values_become_properties() -> None:
    properties = Properties.from_python(
        {"headers": {"a": 1}, "timestamp": datetime(1970, 1, 1, 0, 1, tzinfo=UTC), "type": None}
    )

    assert properties == Properties(headers=Table((("a", Field("I", 1)),)), timestamp=60)


def test_a_value_that_is_no_property_is_refused() -> None:
    with pytest.raises(TypeError, match="property type cannot be"):
        Properties.from_python({"type": 1.5})


def test_a_text_of_more_than_255_octets_cannot_be_sent() -> None:
    with pytest.raises(ShortStringTooLong):
        Properties(type="x" * 256).encode()


def test_a_representation_shows_the_present_properties() -> None:
    assert repr(Properties(priority=1, type="x")) == "Properties(priority=1, type='x')"
