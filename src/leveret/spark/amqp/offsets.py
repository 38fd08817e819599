"""Offsets: how far a query has read. Spark keeps them in the checkpoint, and after any crash they must suffice.

A queue has no positions. So an offset names the messages of its batch, by a digest of their identities. After a crash
the broker redelivers the messages in order, and the digest shows whether they are those of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Self


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch."""

    # Messages that the query has read so far. It makes every offset unique.
    total: int
    # Messages of this batch.
    count: int
    # The identity of the batch's first message, and the digest of all its messages, in hexadecimal.
    first: str
    digest: str
    # Whether each message of the batch differs from the others and from those of the batch before it. If messages are
    # equal, new ones cannot be distinguished from redelivered ones.
    distinct: bool

    @classmethod
    def start(cls) -> Self:
        """Return the offset before the first message."""
        return cls(total=0, count=0, first="", digest="", distinct=True)

    @classmethod
    def of_dict(cls, written: dict[str, object]) -> Self:
        """Return the offset that Spark read from the checkpoint. Raises ValueError if this format did not write it."""
        match written:
            case {"total": int(total), "count": int(count), "first": str(first), "digest": str(digest), **rest}:
                return cls(total, count, first, digest, bool(rest.get("distinct")))
        raise ValueError(
            f"the checkpoint holds the offset {written!r}, which format amqp did not write; use another "
            "checkpointLocation"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the offset as Spark writes it."""
        return asdict(self)

    def after(self, identities: Sequence[bytes], *, distinct: bool) -> Offset:
        """Return the offset behind a further batch."""
        return Offset(
            total=self.total + len(identities),
            count=len(identities),
            first=identities[0].hex(),
            digest=digest_of(identities),
            distinct=distinct,
        )

    def is_of(self, identities: Sequence[bytes]) -> bool:
        """Return whether these messages, in this order, are the offset's batch."""
        return len(identities) == self.count and digest_of(identities) == self.digest


def digest_of(identities: Sequence[bytes]) -> str:
    """Return the digest of a sequence of messages."""
    return blake2b(b"".join(identities), digest_size=16).hexdigest()
