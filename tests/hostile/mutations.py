"""Ways to spoil the frames of a conversation; most leave the framing intact, so that the damage gets far."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

from tests.semantics import codec

from .corpus import CORPUS, OPENING, Conversation

Mutation = Callable[[random.Random, bytes], bytes]
_ALL_FRAMES = [frame for conversation in CORPUS for frame in conversation[1:]]
_TAGS = b"tbBsuIilLfdTSxAFDVZ\0"
_HEADER = 7


def _rebuilt(frame: bytes, payload: bytes, *, kind: int | None = None, channel: int | None = None) -> bytes:
    """Return the frame with another payload, and perhaps another type or channel, and a length that fits."""
    old_kind, old_channel = struct.unpack_from(">BH", frame)
    return codec.frame(old_kind if kind is None else kind, old_channel if channel is None else channel, payload)


def _payload(frame: bytes) -> bytes:
    return frame[_HEADER:-1]


def _place(dice: random.Random, payload: bytes) -> int:
    """Return a place in the payload, mostly behind the ids of a method."""
    return dice.randrange(4 if len(payload) > 4 and dice.random() < 0.9 else 0, len(payload))


def flip_bits(dice: random.Random, frame: bytes) -> bytes:
    """Flip some bits of the payload."""
    payload = bytearray(_payload(frame))
    for _ in range(dice.randint(1, 4) if payload else 0):
        payload[_place(dice, payload)] ^= 1 << dice.randrange(8)
    return _rebuilt(frame, bytes(payload))


def flip_anywhere(dice: random.Random, frame: bytes) -> bytes:
    """Flip a bit of the whole frame, its length and end octet included."""
    octets = bytearray(frame)
    octets[dice.randrange(len(octets))] ^= 1 << dice.randrange(8)
    return bytes(octets)


def truncate(dice: random.Random, frame: bytes) -> bytes:
    """Cut the payload short."""
    payload = _payload(frame)
    return _rebuilt(frame, payload[: dice.randint(0, max(len(payload) - 1, 0))])


def truncate_raw(dice: random.Random, frame: bytes) -> bytes:
    """Cut the frame itself short, so that the next one is taken for its rest."""
    return frame[: dice.randrange(len(frame))]


def splice(dice: random.Random, frame: bytes) -> bytes:
    """Join the beginning of the payload to the end of another frame's."""
    mine, other = _payload(frame), _payload(dice.choice(_ALL_FRAMES))
    return _rebuilt(frame, mine[: dice.randint(0, len(mine))] + other[dice.randint(0, len(other)) :])


def repeat_inside(dice: random.Random, frame: bytes) -> bytes:
    """Double a part of the payload."""
    payload = _payload(frame)
    start = dice.randint(0, len(payload))
    return _rebuilt(frame, payload[:start] + payload[start : start + dice.randint(1, 30)] * 2 + payload[start:])


def insert(dice: random.Random, frame: bytes) -> bytes:
    """Insert random octets into the payload."""
    payload = _payload(frame)
    at = dice.randint(0, len(payload))
    return _rebuilt(frame, payload[:at] + dice.randbytes(dice.choice((1, 2, 4, 8, 60))) + payload[at:])


def change_channel(dice: random.Random, frame: bytes) -> bytes:
    """Send the frame on another channel."""
    return _rebuilt(frame, _payload(frame), channel=dice.choice((0, 1, 2, 3, 2047, 2048, 65_535)))


def change_type(dice: random.Random, frame: bytes) -> bytes:
    """Give the frame another type."""
    return _rebuilt(frame, _payload(frame), kind=dice.choice((0, 1, 2, 3, 4, 8, 9, 255)))


def change_method(dice: random.Random, frame: bytes) -> bytes:
    """Give the arguments of a method to another method."""
    class_id, method_id = dice.choice(list(codec.METHODS_BY_ID)) if dice.random() < 0.9 else (60, dice.randrange(300))
    return _rebuilt(frame, struct.pack(">HH", class_id, method_id) + _payload(frame)[4:])


def change_length(dice: random.Random, frame: bytes) -> bytes:
    """Change the length of the frame and leave the rest."""
    length = len(_payload(frame)) + dice.choice((-3, -1, 1, 2, 8, 100))
    if dice.random() < 0.1:
        length = dice.choice((0, 131_065, 2**31, 2**32 - 1))
    return frame[:3] + struct.pack(">I", max(length, 0)) + frame[_HEADER:]


def change_inner_length(dice: random.Random, frame: bytes) -> bytes:
    """Overwrite four octets of the payload with a length."""
    payload = _payload(frame)
    if len(payload) < 9:
        return flip_bits(dice, frame)
    at = dice.randrange(4, len(payload) - 4)
    length = dice.choice((0, 1, 5, 255, 256, 65_536, 2**31 - 1, 2**31, 2**32 - 1, len(payload) - at - 4))
    return _rebuilt(frame, payload[:at] + struct.pack(">I", length) + payload[at + 4 :])


def change_tag(dice: random.Random, frame: bytes) -> bytes:
    """Overwrite an octet with the tag of a table's value."""
    payload = bytearray(_payload(frame))
    if payload:
        tags = [at for at, octet in enumerate(payload) if octet in _TAGS] or [0]
        payload[dice.choice(tags)] = dice.choice(_TAGS)
    return _rebuilt(frame, bytes(payload))


def nest(dice: random.Random, frame: bytes) -> bytes:
    """Replace the end of the payload by a table that is nested deep."""
    value = dice.choice((b"V", b"t\1", b"S\0\0\0\1x", b"Z", b""))
    for _ in range(dice.choice((3, 20, 100, 1000))):
        inner = value if value[:1] == b"A" and dice.random() < 0.5 else b"\1k" + value
        value = (b"F" if inner[:1] == b"\1" else b"A") + struct.pack(">I", len(inner)) + inner
    table = struct.pack(">I", len(value) + 2) + b"\1k" + value
    payload = _payload(frame)
    # The arguments' table, empty or not, mostly ends a method.
    return _rebuilt(frame, payload[: max(len(payload) - 4, 4)] + table)


def enlarge(dice: random.Random, frame: bytes) -> bytes:
    """Put a huge string in, with a length that fits."""
    payload = _payload(frame)
    at = dice.randint(4, len(payload)) if len(payload) > 4 else len(payload)
    size = dice.choice((255, 256, 5_000, 131_000, 140_000))
    length = struct.pack(">I", size) if size > 255 else bytes([size])
    return _rebuilt(frame, payload[:at] + length + dice.choice((b"x", b"\xff", b"\0", b"#.")) * size + payload[at:])


def change_values(dice: random.Random, frame: bytes) -> bytes:
    """Give one or two fields of a method other values, in the right encoding."""
    try:
        name, fields = codec.decode_method(_payload(frame))
    except (KeyError, ValueError, struct.error):
        return flip_bits(dice, frame)
    for field in dice.sample(list(fields), min(dice.randint(1, 2), len(fields))):
        fields[field] = _other_value(dice, fields[field])
    try:
        return _rebuilt(frame, codec.encode_method(name, **fields))
    except struct.error:
        # A number too large for its field.
        return flip_bits(dice, frame)


def _other_value(dice: random.Random, value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice((0, 1, 2, 3, value + 1, 127, 128, 255, 32_768, 65_535, 2**31, 2**32 - 1, 2**63, 2**64 - 1))
    if isinstance(value, bytes):
        return dice.choice((*_WORDS, value[:-1], value + b"x", value * 2))[:255]
    return [(dice.choice(_WORDS)[:255], dice.choice(_VALUES)) for _ in range(dice.randint(0, 3))]


_WORDS = (
    b"",
    b"q",
    b"p",
    b"s",
    b"x",
    b"y",
    b"c",
    b"dead",
    b"amq.topic",
    b"amq.rabbitmq.reply-to",
    b"\xff\xfe",
    b"\0",
    b"#.#.#.#",
    b"*",
    b"x-max-length",
    b"x-message-ttl",
    b"x-dead-letter-exchange",
    b"x-queue-type",
    b"x-overflow",
    b"x-expires",
    b"x-max-priority",
    b"x-stream-offset",
    b"x-death",
    b"CC",
    b"BCC",
    b"quorum",
    b"stream",
    b"0" * 255,
    "\u2028".encode(),
)
_VALUES: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    0.0,
    float("nan"),
    float("inf"),
    "",
    "quorum",
    "drop-head",
    b"\xff",
    [],
    [None, [1]],
    {},
    {"a": {"b": []}},
    codec.Field("T", 2**64 - 1),
    codec.Field("D", (255, 2**32 - 1)),
    codec.Field("x", b"\0"),
    codec.Field("Z", b""),
    codec.Field("S", b"\xff\xfe"),
)

MUTATIONS: tuple[Mutation, ...] = (
    change_values,
    flip_bits,
    flip_bits,
    flip_anywhere,
    truncate,
    truncate_raw,
    splice,
    repeat_inside,
    insert,
    change_channel,
    change_type,
    change_method,
    change_length,
    change_inner_length,
    change_inner_length,
    change_tag,
    change_tag,
    nest,
    enlarge,
)
# Most mutated frames are to reach a connection that works: what ends it at once, or takes long, is chosen less often.
_RARE = (enlarge, nest, truncate_raw, change_length, change_channel, change_type)
_WEIGHTS = [30 if it is change_values else 0.25 if it in _RARE else 1 for it in MUTATIONS]


def mutated(dice: random.Random, conversation: Conversation) -> Iterator[tuple[bytes, bool]]:
    """Yield the frames of a conversation, many spoiled, doubled, left out or out of order, and whether each is so."""
    frames = list(conversation)
    # Most conversations get past the handshake.
    first = len(OPENING) if dice.random() < 0.9 else dice.randrange(2)
    rate = dice.choice((0.2, 0.5, 0.8))
    for at, frame in enumerate(frames):
        if at < first or dice.random() > rate:
            yield frame, False
            continue
        draw = dice.random()
        if draw < 0.9 and at:
            (mutation,) = dice.choices(MUTATIONS, _WEIGHTS)
            yield mutation(dice, frame), True
        elif draw < 0.93:
            yield frame, False
            yield frame, True
        elif draw < 0.96:
            other = dice.randrange(at, len(frames))
            frames[at], frames[other] = frames[other], frames[at]
            yield frames[at], True
        elif draw < 0.99:
            yield dice.choice(_ALL_FRAMES), True
        # Otherwise the frame is left out.
