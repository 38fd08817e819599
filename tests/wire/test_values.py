"""Field tables: encoding returns the decoded bytes, and pamqp reads them alike."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pamqp.decode
import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.wire.errors import ShortStringTooLong, UnknownFieldType, WireError
from leveret.core.wire.values import NESTING_MAX, TYPE_NAMES, Field, Table


def short(octets: bytes) -> bytes:
    return bytes([len(octets)]) + octets


def long(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


# Every tag with the bytes that follow it, leveret's value and pamqp's.
SAMPLES = [
    ("t", b"\x01", True, True),
    ("t", b"\x00", False, False),
    ("b", b"\x80", -128, -128),
    ("B", b"\xff", 255, 255),
    ("s", b"\x80\x00", -32768, -32768),
    ("u", b"\xff\xff", 65535, 65535),
    ("I", b"\x80\x00\x00\x00", -(2**31), -(2**31)),
    ("i", b"\xff\xff\xff\xff", 2**32 - 1, 2**32 - 1),
    ("l", b"\x80" + bytes(7), -(2**63), -(2**63)),
    ("f", b"\x3f\xc0\x00\x00", 1.5, 1.5),
    ("d", b"\xbf\xf8" + bytes(6), -1.5, -1.5),
    ("D", b"\x02\x00\x00\x00\x7d", (2, 125), Decimal("1.25")),
    ("S", long(b"text"), b"text", "text"),
    ("S", long(b"\xff\x00"), b"\xff\x00", b"\xff\x00"),
    ("A", long(b"t\x01V"), (Field("t", True), Field("V", None)), [True, None]),
    ("T", bytes(7) + b"\x05", 5, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
    ("F", long(b"\x01ab\x07"), Table((("a", Field("b", 7)),)), {"a": 7}),
    ("V", b"", None, None),
    ("x", long(b"\xff\x00"), b"\xff\x00", bytearray(b"\xff\x00")),
]

IDS = [f"{tag}-{octets.hex()}" for tag, octets, _, _ in SAMPLES]

names = st.binary(max_size=255)
floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.one_of(
    st.sampled_from([b"t\x00", b"t\x01", b"V"]),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: b"l" + struct.pack(">q", n)),
    st.integers(-(2**31), 2**31 - 1).map(lambda n: b"I" + struct.pack(">i", n)),
    st.integers(0, 2**32 - 1).map(lambda n: b"i" + struct.pack(">I", n)),
    st.binary(min_size=2, max_size=2).flatmap(lambda two: st.sampled_from([b"s" + two, b"u" + two])),
    st.binary(min_size=1, max_size=1).flatmap(lambda one: st.sampled_from([b"b" + one, b"B" + one])),
    st.binary(min_size=8, max_size=8).map(lambda eight: b"T" + eight),
    st.binary(min_size=5, max_size=5).map(lambda five: b"D" + five),
    floats.map(lambda number: b"d" + struct.pack(">d", number)),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda number: b"f" + struct.pack(">f", number)),
    st.binary(max_size=40).flatmap(lambda text: st.sampled_from([b"S" + long(text), b"x" + long(text)])),
)


def entries_of(fields: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.tuples(names.map(short), fields).map(b"".join), max_size=5).map(b"".join)


nested = st.recursive(
    plain,
    lambda inner: st.one_of(
        entries_of(inner).map(lambda content: b"F" + long(content)),
        st.lists(inner, max_size=5).map(lambda items: b"A" + long(b"".join(items))),
    ),
    max_leaves=12,
)
contents = entries_of(nested)


@pytest.mark.parametrize(("tag", "octets", "value", "_"), SAMPLES, ids=IDS)
def test_every_tag_is_kept_with_its_value(tag: str, octets: bytes, value: object, _: object) -> None:
    content = b"\x01k" + tag.encode() + octets

    table = Table.decode(content)

    assert table.entries == (("k", (tag, value)),)
    assert table.encode() == long(content)


@pytest.mark.parametrize(("tag", "octets", "_", "value"), SAMPLES, ids=IDS)
def test_pamqp_reads_what_we_write(tag: str, octets: bytes, _: object, value: object) -> None:
    table = Table.decode(b"\x01k" + tag.encode() + octets)

    _, read = pamqp.decode.field_table(table.encode())

    assert read == {"k": value}


def test_there_is_a_sample_and_a_name_for_every_tag() -> None:
    assert {tag for tag, _, _, _ in SAMPLES} == set(TYPE_NAMES)


def test_leveret_reads_the_values_that_pamqp_wrote() -> None:
    meant = {
        "bool": True,
        "byte": 1,
        "long": 2**40,
        "negative": -5,
        "text": "grün",
        "octets": bytearray(b"\xff"),
        "decimal": Decimal("3.14"),
        "time": datetime(2024, 2, 29, 12, 0, tzinfo=UTC),
        "nothing": None,
        "array": [1, "two", {"three": 3}],
        "table": {"inner": {"more": 1.5}},
    }

    table = Table.decode(pamqp.encode.field_table(meant)[4:])

    assert table.to_python() == meant


@given(contents)
def test_octets_to_table_and_back_are_the_same_octets(content: bytes) -> None:
    assert Table.decode(content).encode() == long(content)


@given(contents, st.data())
def test_a_cut_table_raises_nothing_but_wire_errors(content: bytes, data: st.DataObject) -> None:
    cut = content[: data.draw(st.integers(0, len(content)))]

    read_or_refused(cut)


@given(contents, st.data())
def test_a_mutated_table_raises_nothing_but_wire_errors(content: bytes, data: st.DataObject) -> None:
    octets = bytearray(content or b"\x00")
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))

    read_or_refused(bytes(octets))


@given(st.binary(max_size=60))
def test_any_octets_raise_nothing_but_wire_errors(octets: bytes) -> None:
    read_or_refused(octets)


def read_or_refused(content: bytes) -> None:
    try:
        table = Table.decode(content)
    except WireError:
        return
    assert Table.decode(table.encode()[4:]) == table


def test_an_unsigned_long_becomes_a_signed_one() -> None:
    table = Table.decode(b"\x01kL" + struct.pack(">Q", 2**63 + 5))

    assert table.get("k") == Field("l", 5 - 2**63)
    assert table.encode()[4:7] == b"\x01kl"


def test_any_byte_but_zero_is_true_and_is_written_as_one() -> None:
    assert Table.decode(b"\x01kt\x07").encode() == long(b"\x01kt\x01")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("layout", ["f", "d"])
def test_a_float_that_is_no_finite_number_cannot_be_read(layout: str, number: float) -> None:
    with pytest.raises(UnknownFieldType):
        Table.decode(b"\x01k" + layout.encode() + struct.pack(f">{layout}", number))


@pytest.mark.parametrize(
    "content",
    [b"\x01kZ", b"\x01k\x00", b"\x05ab", b"\x02ab", b"\x01kl\x00", b"\x01kS\x00\x00\x00\x09a", b"\x01kD\x00\x00"],
    ids=["unknown tag", "tag zero", "cut name", "no value", "cut number", "cut string", "cut decimal"],
)
def test_an_unknown_tag_and_a_short_table_are_refused_alike(content: bytes) -> None:
    with pytest.raises(UnknownFieldType):
        Table.decode(content)


def test_an_inner_table_may_not_reach_beyond_its_outer_one() -> None:
    inner = b"A" + struct.pack(">I", 3) + b"l\x00\x00"

    with pytest.raises(UnknownFieldType):
        Table.decode(b"\x01k" + inner + b"\x01mV" + bytes(20))


def nested_arrays(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = b"A" + long(content)
    return b"\x01k" + content


def nested_tables(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = b"\x01kF" + long(content)
    return content


@pytest.mark.parametrize("nest", [nested_arrays, nested_tables])
def test_a_table_as_deep_as_allowed_can_be_used_in_every_way(nest: object) -> None:
    assert callable(nest)
    content = nest(NESTING_MAX)

    table = Table.decode(content)

    assert table.encode() == long(content)
    assert table == Table.decode(content)
    assert hash(table) == hash(Table.decode(content))
    assert repr(table)
    assert table.to_python()


@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 18_000])
@pytest.mark.parametrize("nest", [nested_arrays, nested_tables])
def test_a_table_too_deep_is_refused(nest: object, depth: int) -> None:
    assert callable(nest)

    with pytest.raises(UnknownFieldType):
        Table.decode(nest(depth))


def test_of_duplicate_names_all_are_kept_and_the_first_is_found() -> None:
    table = Table.decode(b"\x01kb\x01\x01kb\x02")

    assert len(table) == 2
    assert table.get("k") == Field("b", 1)
    assert table.to_python() == {"k": 1}
    assert table.encode() == long(b"\x01kb\x01\x01kb\x02")


def test_a_name_that_is_not_text_survives() -> None:
    content = b"\x02\xff\xfeV\x00V"

    table = Table.decode(content)

    assert [name for name, _ in table] == ["\udcff\udcfe", ""]
    assert table.encode() == long(content)


def test_sorting_goes_by_octets_and_keeps_the_first_of_duplicates() -> None:
    inner = b"\x01zV\x01aV"
    content = b"\x01bb\x01" + b"\x01\xffV" + b"\x02\xc3\xa9V" + b"\x01aF" + long(inner) + b"\x01bb\x02"

    table = Table.decode(content).sorted_unique()

    assert table.encode() == long(b"\x01aF" + long(inner) + b"\x01bb\x01" + b"\x02\xc3\xa9V" + b"\x01\xffV")


def test_an_entry_is_replaced_in_its_place_or_appended() -> None:
    table = Table.from_python({"a": 1, "b": 2})

    changed = table.with_entry("a", Field("V", None)).with_entry("c", Field("t", True))

    assert changed.to_python() == {"a": None, "b": 2, "c": True}
    assert [name for name, _ in changed] == ["a", "b", "c"]
    assert table.to_python() == {"a": 1, "b": 2}


def test_entries_are_left_out_with_all_their_duplicates() -> None:
    table = Table.decode(b"\x01aV\x01bV\x01aV\x01cV")

    assert [name for name, _ in table.without("a", "c", "z")] == ["b"]


def test_an_empty_table_is_false_and_a_length_of_zero() -> None:
    assert not Table.EMPTY
    assert Table.decode(b"") == Table.EMPTY == Table()
    assert Table.EMPTY.encode() == bytes(4)
    assert "a" not in Table.EMPTY
    assert "a" in Table.from_python({"a": 1})


@pytest.mark.parametrize("seconds", [253402300800, 2**64 - 1])
def test_a_timestamp_after_the_year_9999_is_read_as_one_and_stays_one(seconds: int) -> None:
    table = Table((("at", Field("T", seconds)), ("all", Field("A", (Field("T", seconds),)))))

    read = table.to_python()

    assert read == {"at": seconds, "all": [seconds]}
    assert Table.from_python(read) == table


def test_ordinary_values_get_the_tags_that_clients_choose() -> None:
    table = Table.from_python(
        {
            "text": "é",
            "octets": b"\xff",
            "bool": True,
            "small": -1,
            "big": 2**31,
            "float": 1.5,
            "time": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
            "naive": datetime(1970, 1, 1, 0, 1),
            "decimal": Decimal("1.25"),
            "list": [1],
            "table": {"a": 1},
            "none": None,
            "kept": Field("s", 5),
        }
    )

    assert dict(table.entries) == {
        "text": Field("S", "é".encode()),
        "octets": Field("S", b"\xff"),
        "bool": Field("t", True),
        "small": Field("I", -1),
        "big": Field("l", 2**31),
        "float": Field("d", 1.5),
        "time": Field("T", 60),
        "naive": Field("T", 60),
        "decimal": Field("D", (2, 125)),
        "list": Field("A", (Field("I", 1),)),
        "table": Field("F", Table((("a", Field("I", 1)),))),
        "none": Field("V", None),
        "kept": Field("s", 5),
    }


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, Decimal(-1), Decimal(2**32), Decimal("NaN")])
def test_a_number_that_fits_no_type_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"fit|hold"):
        Table.from_python({"k": value})


def test_an_object_that_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold object"):
        Table.from_python({"k": object()})


def test_a_timestamp_beyond_the_calendar_stays_a_number() -> None:
    table = Table.decode(b"\x01kT" + b"\xff" * 8)

    assert table.to_python() == {"k": 2**64 - 1}


def test_a_name_of_more_than_255_octets_cannot_be_sent() -> None:
    with pytest.raises(ShortStringTooLong):
        Table.from_python({"é" * 128: 1}).encode()
