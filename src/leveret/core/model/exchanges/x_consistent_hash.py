"""The consistent-hash exchange: a hash sends each message to one destination, in proportion to the weights.

A binding's key is its weight. The destination of a given value depends on RabbitMQ's own hash, which leveret does not
copy. Like RabbitMQ's, its distribution is stable and proportional.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, Destination
from leveret.core.model.errors import InternalRefusal, PreconditionFailed
from leveret.core.model.exchanges.exchange import NOWHERE, Exchange
from leveret.core.model.message import Message
from leveret.core.wire import erlang
from leveret.core.wire.values import Table

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
HASHED_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
# The hash of a message without the value to be hashed.
_NO_VALUE: Final = 0
# From Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm".
_MULTIPLIER: Final = 2862933555777941757
_MASK: Final = (1 << 64) - 1


class ConsistentHashExchange(Exchange):
    """An exchange that routes by a hash of the routing key, of a header or of a property."""

    __slots__ = ("_bucket_ends", "_owners")

    type_name = "x-consistent-hash"
    routes_by_key_alone = False

    # The ring: owner i has the buckets up to, but not including, bucket_ends[i].
    _owners: list[Destination]
    _bucket_ends: list[int]

    @classmethod
    def check_arguments(cls, arguments: Table, compat: Compat) -> None:
        """Refuse a header together with a property to hash, and a property that cannot be hashed."""
        header, hashed_property = arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)
        if any(field is not None and field.tag != "S" for field in (header, hashed_property)):
            raise InternalRefusal
        if header is not None and hashed_property is not None:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        if hashed_property is None or not isinstance(hashed_property.value, bytes):
            return
        word = hashed_property.value.decode("utf-8", "surrogateescape")
        if word not in HASHED_PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {word}")

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse a key that is not a valid weight."""
        if not _INTEGER.fullmatch(routing_key):
            raise PreconditionFailed(
                f"The binding key must be an integer: {erlang.utf8_binary(erlang.text(routing_key))}"
            )
        if int(routing_key) < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if compat.max_hash_weight is not None and int(routing_key) > compat.max_hash_weight:
            raise PreconditionFailed(f"The binding key must not exceed {compat.max_hash_weight}")

    def _prepare(self) -> None:
        self._owners = []
        self._bucket_ends = []

    def _add(self, binding: Binding) -> None:
        # A second binding of a destination, with another weight, does not affect the ring (seen on 4.3).
        if binding.destination in self._owners:
            return
        self._owners.append(binding.destination)
        self._bucket_ends.append(self._bucket_count + int(binding.routing_key))

    def _remove(self, binding: Binding) -> None:
        if binding.destination not in self._owners:
            return
        index = self._owners.index(binding.destination)
        end = self._bucket_ends[index]
        start = self._bucket_ends[index - 1] if index else 0
        del self._owners[index], self._bucket_ends[index]
        for later in range(index, len(self._bucket_ends)):
            self._bucket_ends[later] -= end - start

    @property
    def _bucket_count(self) -> int:
        return self._bucket_ends[-1] if self._bucket_ends else 0

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the one destination whose bucket the hash selects."""
        if not self._owners:
            return NOWHERE
        bucket = _jump_bucket(self._hash(message), self._bucket_count)
        return (self._owners[bisect_right(self._bucket_ends, bucket)],)

    def _hash(self, message: Message) -> int:
        header, hashed_property = self.arguments.get(HASH_HEADER), self.arguments.get(HASH_PROPERTY)
        if header is not None and isinstance(header.value, bytes):
            name = header.value.decode("utf-8", "surrogateescape")
            field = None if message.headers is None else message.headers.get(name)
            return _NO_VALUE if field is None else zlib.crc32(erlang.text(erlang.term(field.value)))
        if hashed_property is not None:
            value = _property_value(message, hashed_property.value)
            return _NO_VALUE if value is None else zlib.crc32(erlang.text(value))
        return hash_keys(message.routing_keys)


def _property_value(message: Message, name: object) -> str | None:
    properties = message.properties
    if name == b"message_id":
        return properties.message_id
    if name == b"correlation_id":
        return properties.correlation_id
    return None if properties.timestamp is None else str(properties.timestamp)


def hash_keys(routing_keys: tuple[str, ...]) -> int:
    """Return a 32-bit hash of a message's routing keys."""
    return zlib.crc32(erlang.text("\0".join(routing_keys)))


def _jump_bucket(key: int, bucket_count: int) -> int:
    """Return the bucket of `key`, 0 to bucket_count - 1. Adding a bucket moves few keys."""
    bucket, following = -1, 0
    while following < bucket_count:
        bucket = following
        key = (key * _MULTIPLIER + 1) & _MASK
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket
