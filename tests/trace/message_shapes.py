"""The shape of a single message."""

from __future__ import annotations

from collections.abc import Mapping

from leveret.trace.shapes import Shape, add_message


def message_shape(body: bytes, properties: Mapping[str, object]) -> Shape:
    """Return the shape of one message."""
    shape = Shape()
    add_message(shape, body, properties)
    return shape
