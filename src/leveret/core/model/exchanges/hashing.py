"""Hashes for the exchanges that distribute messages: unlike `hash()`, they are the same in every run."""

from __future__ import annotations

import zlib
from typing import Final

from leveret.core.wire import erlang

# From Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm".
_MULTIPLIER: Final = 2862933555777941757
_MASK: Final = (1 << 64) - 1


def hash_keys(routing_keys: tuple[str, ...]) -> int:
    """Return a 32-bit hash of a message's routing keys."""
    return zlib.crc32(erlang.text("\0".join(routing_keys)))


def jump_bucket(key: int, bucket_count: int) -> int:
    """Return the bucket of `key`, 0 to bucket_count - 1. Adding a bucket moves few keys."""
    bucket, following = -1, 0
    while following < bucket_count:
        bucket = following
        key = (key * _MULTIPLIER + 1) & _MASK
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket
