"""Password hashes as RabbitMQ stores them: a salt of four bytes and the digest of salt and password, in base64.

leveret keeps a password as plain text, because a test may want to read it. Hashes appear only in definitions: leveret
reads them on import and makes them on export. The module imports hashlib when it computes its first digest.
"""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

_PREFIX: Final = "rabbit_password_hashing_"
ALGORITHMS: Final = tuple(_PREFIX + digest for digest in ("sha256", "sha512", "md5"))
DEFAULT_ALGORITHM: Final = ALGORITHMS[0]
_SALT_SIZE: Final = 4


class PasswordHash(NamedTuple):
    """The salted hash of one password."""

    salted_digest: bytes
    algorithm: str = DEFAULT_ALGORITHM

    @classmethod
    def from_password(cls, password: str, *, salt: bytes, algorithm: str = DEFAULT_ALGORITHM) -> PasswordHash:
        """Return the hash of a password."""
        return cls(salt + _digest(algorithm, salt + _encoded(password)), algorithm)

    @property
    def text(self) -> str:
        """The hash as definitions write it."""
        return base64.b64encode(self.salted_digest).decode()

    def matches(self, password: str) -> bool:
        """Return whether this is the hash of the password."""
        salt, digest = self.salted_digest[:_SALT_SIZE], self.salted_digest[_SALT_SIZE:]
        return digest == _digest(self.algorithm, salt + _encoded(password))


def _digest(algorithm: str, data: bytes) -> bytes:
    import hashlib

    return hashlib.new(algorithm.removeprefix(_PREFIX), data).digest()


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")
