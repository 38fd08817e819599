"""Chance from a seed: the same seed gives the same throws.

Most brokers throw nothing, and then nothing is made for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from random import Random

T = TypeVar("T")


class SeededDice:
    """These are the dice of a node; it takes no chance from anywhere else."""

    __slots__ = ("_random", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random: Random | None = None

    def choice(self, seq: Sequence[T], /) -> T:
        """This is one of `seq`, each equally likely."""
        return self._thrown().choice(seq)

    def randbytes(self, n: int, /) -> bytes:
        """These are so many random octets."""
        return self._thrown().randbytes(n)

    def _thrown(self) -> Random:
        if self._random is None:
            from random import Random

            self._random = Random(self._seed)
        return self._random
