"""How RabbitMQ keeps passwords: a salt of four octets and the digest of salt and password, base64 in definitions.

leveret keeps the passwords it is given as they are, since a test wants to see them; a hash it only gets from
definitions, and makes one only for them. hashlib is imported when the first hash is looked at.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

_PREFIX: Final = "rabbit_password_hashing_"
ALGORITHMS: Final = tuple(_PREFIX + digest for digest in ("sha256", "sha512", "md5"))
DEFAULT_ALGORITHM: Final = ALGORITHMS[0]
_SALT_SIZE: Final = 4


class PasswordHash(NamedTuple):
    """One password that nobody can read."""

    octets: bytes
    algorithm: str = DEFAULT_ALGORITHM

    @classmethod
    def of(cls, password: str, *, salt: bytes, algorithm: str = DEFAULT_ALGORITHM) -> PasswordHash:
        """The hash of a password."""
        return cls(salt + _digest(algorithm, salt + _octets(password)), algorithm)

    @classmethod
    def from_text(cls, text: str, algorithm: str = DEFAULT_ALGORITHM) -> PasswordHash:
        """The hash that definitions write so; raises ValueError for what is none."""
        if algorithm not in ALGORITHMS:
            raise ValueError(f"{algorithm!r} is none of {', '.join(ALGORITHMS)}")
        try:
            return cls(base64.b64decode(text, validate=True), algorithm)
        except binascii.Error as error:
            raise ValueError(f"{text!r} is not base64: {error}") from None

    @property
    def text(self) -> str:
        """How definitions write it."""
        return base64.b64encode(self.octets).decode()

    def matches(self, password: str) -> bool:
        """Whether it is the hash of this password."""
        salt, digest = self.octets[:_SALT_SIZE], self.octets[_SALT_SIZE:]
        return digest == _digest(self.algorithm, salt + _octets(password))


def _digest(algorithm: str, octets: bytes) -> bytes:
    import hashlib

    return hashlib.new(algorithm.removeprefix(_PREFIX), octets).digest()


def _octets(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")
