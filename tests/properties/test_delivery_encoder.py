"""The encoder of deliveries: what it remembers of the last one changes no byte of the next."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.model.message import Message
from leveret.core.protocol.delivery import DeliveryEncoder, with_content
from leveret.core.wire.frames import method_frame
from leveret.core.wire.methods import BasicDeliver
from leveret.core.wire.properties import Properties

CHANNEL, FRAME_MAX = 3, 64
LIMIT = FRAME_MAX - 8
SETTINGS = settings(max_examples=100)


def message(key: str, priority: int | None) -> Message:
    """Return the first of several messages that share a head."""
    properties = Properties(priority=priority)
    return Message(1, "", key, properties, properties.encode(), b"", (key,))


KINDS = (message("a", None), message("a", 1), message("a longer key", None))
EDITED = Properties(priority=7).encode()
DELIVERIES = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from((0, 1, 5, 5, 5, LIMIT, LIMIT + 1, 3 * LIMIT)),
    st.booleans(),
    st.sampled_from((None, None, EDITED)),
)


@SETTINGS
@given(st.lists(DELIVERIES, max_size=30))
def test_every_delivery_equals_its_method_and_content_encoded_separately(
    deliveries: list[tuple[Message, int, bool, bytes | None]],
) -> None:
    encoder = DeliveryEncoder("consumer", CHANNEL, FRAME_MAX)

    for tag, (kind, size, is_redelivered, octets) in enumerate(deliveries, 1):
        sent = kind.repeated(tag, bytes(size))
        method = BasicDeliver("consumer", tag, is_redelivered, sent.exchange, sent.routing_key)
        expected = with_content(method_frame(CHANNEL, method), sent, CHANNEL, FRAME_MAX, octets)
        assert b"".join(encoder.encode(tag, is_redelivered, sent, octets)) == expected
