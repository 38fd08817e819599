"""Random choices from a seed: the same seed gives the same choices.

Most brokers need none, so the generator is created on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from random import Random

T = TypeVar("T")


class SeededDice:
    """The dice of a node, its only source of chance."""

    __slots__ = ("_random", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random: Random | None = None

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one of `seq`, each with equal probability."""
        return self._generator().choice(seq)

    def randbytes(self, n: int, /) -> bytes:
        """Return `n` random bytes."""
        return self._generator().randbytes(n)

    def _generator(self) -> Random:
        if self._random is None:
            from random import Random

            self._random = Random(self._seed)
        return self._random
