"""What is said of an attribute that is not there: the nearest that is, or all there are where they are few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from leveret.errors import did_you_mean

# A list of more names helps nobody.
_LISTED_MAX: Final = 40


class Hinting:
    """This answers a slip of the pen in a test with the right spelling."""

    __slots__ = ()

    # What it is, at the beginning of a sentence.
    _called: ClassVar[str]
    # Names that stand somewhere else, and where.
    _elsewhere: ClassVar[Mapping[str, str]] = {}

    # For type checkers what is not there is not there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            hint = f"; {self._elsewhere[name]}" if name in self._elsewhere else _hint(name, type(self))
            raise AttributeError(f"{self._called} has nothing that is called {name!r}{hint}")


def _hint(name: str, kind: type) -> str:
    if name.startswith("_"):
        return ""
    known = [one for one in dir(kind) if not one.startswith("_")]
    hint = did_you_mean(name, known)
    return hint if hint or len(known) > _LISTED_MAX else f"; it has {', '.join(known)}"
