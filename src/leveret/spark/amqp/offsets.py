"""How far a query has read: Spark keeps it in the checkpoint, and it has to suffice to go on after any crash.

A queue has no positions. So an offset says which messages its batch had, by a digest of their identities: after a crash
the broker hands them out again in their order, and the digest tells whether they are the ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch."""

    # Messages read by the query so far; makes every offset another one.
    total: int
    # Messages of this batch.
    count: int
    # The identity of the batch's first message, and the digest of all, in hexadecimal.
    first: str
    digest: str
    # Whether each message of the batch differs from the others and from those of the batch before it. Where messages
    # repeat themselves, equal ones that come later cannot be told from ones that come again.
    distinct: bool

    @classmethod
    def start(cls) -> Self:
        """Before the first message."""
        return cls(total=0, count=0, first="", digest="", distinct=True)

    @classmethod
    def of_dict(cls, written: dict[str, object]) -> Self:
        """As Spark has it from the checkpoint; raises ValueError for what no reader of ours wrote."""
        match written:
            case {"total": int(total), "count": int(count), "first": str(first), "digest": str(digest), **rest}:
                return cls(total, count, first, digest, bool(rest.get("distinct")))
        raise ValueError(f"the checkpoint holds an offset that is not of format amqp: {written!r}; use another one")

    def to_dict(self) -> dict[str, object]:
        """As Spark writes it."""
        return {
            "total": self.total,
            "count": self.count,
            "first": self.first,
            "digest": self.digest,
            "distinct": self.distinct,
        }

    def after(self, identities: Sequence[bytes], *, distinct: bool) -> Offset:
        """The offset behind a further batch."""
        return Offset(
            total=self.total + len(identities),
            count=len(identities),
            first=identities[0].hex(),
            digest=digest_of(identities),
            distinct=distinct,
        )

    def is_of(self, identities: Sequence[bytes]) -> bool:
        """Whether these messages, in this order, are its batch."""
        return len(identities) == self.count and digest_of(identities) == self.digest


def digest_of(identities: Sequence[bytes]) -> str:
    """The digest of a sequence of messages."""
    return blake2b(b"".join(identities), digest_size=16).hexdigest()
