"""Shapes of parts merge into the shape of the whole, in any order and any grouping, and come back from plain data."""

from __future__ import annotations

import json
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from leveret.trace.shapes import ANY_KEY, BODY_MAX, KEYS_MAX, Shape
from tests.trace.message_shapes import message_shape

NAMES = st.sampled_from(
    ["status", "total", "id", "lines", "note", "kind", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "a b"]
)
TEXTS = st.sampled_from(["paid", "open", "PAID", "2024-01-01", "10.50", "a@b.example", "", "free text", *"ABCDEFGHIJ"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=5)
        | st.dictionaries(
            st.integers(0, 99).map("k{}".format), inner, min_size=KEYS_MAX // 2 + 5, max_size=KEYS_MAX + 5
        )
    ),
    max_leaves=25,
)


def shape_of(values: list[object]) -> Shape:
    shape = Shape()
    for value in values:
        shape.add(value)
    return shape


def merged(*shapes: Shape) -> Shape:
    return reduce(lambda first, second: first.merge(second) or first, shapes, Shape())


@given(st.lists(VALUES, max_size=6), st.data())
def test_shapes_of_parts_merge_into_the_shape_of_the_whole_in_any_order(
    values: list[object], data: st.DataObject
) -> None:
    whole = shape_of(values)

    shuffled = data.draw(st.permutations(values))
    cuts = sorted(data.draw(st.tuples(*[st.integers(0, len(values))] * 2)))
    parts = [shape_of(shuffled[: cuts[0]]), shape_of(shuffled[cuts[0] : cuts[1]]), shape_of(shuffled[cuts[1] :])]

    assert merged(*parts) == whole
    assert merged(merged(parts[2], parts[0]), parts[1]) == whole
    assert merged(parts[1], merged(parts[2], parts[0])) == whole


def test_the_size_of_a_shape_is_bounded() -> None:
    wide = message_shape(json.dumps({f"key{at}": at for at in range(10_000)}).encode(), {})
    deep = message_shape(b"[" * 500 + b"]" * 500, {})
    large = message_shape(b'{"a":"' + b"x" * BODY_MAX + b'"}', {})

    assert list(wide.fields["body"].fields) == [ANY_KEY]
    assert sum(1 for _ in deep.walk()) < 12
    assert large.fields["body"].types == {"text": 1}
