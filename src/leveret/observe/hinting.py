"""The error for an unknown attribute: it suggests the closest known name, or lists all of them if they are few."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from leveret.errors import did_you_mean

# A longer list of names does not help.
_LISTED_MAX: Final = 40


class Hinting:
    """A base class that answers a misspelt attribute with the right spelling."""

    __slots__ = ()

    # What the object is, at the beginning of a sentence: "a Broker".
    _called: ClassVar[str]
    # Names that exist somewhere else, and where.
    _elsewhere: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        # Python names a call with a wrong argument by its qualified name. A mixin's methods take that of the class that
        # the user knows; a base that is such a class itself keeps its own.
        mixins = [
            base for base in cls.__mro__ if base.__module__.startswith("leveret.") and not issubclass(base, Hinting)
        ]
        for mixin in mixins:
            for name, value in vars(mixin).items():
                if isinstance(value, FunctionType) and not name.startswith("_"):
                    value.__qualname__ = f"{cls.__name__}.{name}"

    # Hidden from type checkers, which would take any attribute for known.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            hint = f"; {self._elsewhere[name]}" if name in self._elsewhere else _hint(name, type(self))
            raise AttributeError(f"{self._called} has no attribute {name!r}{hint}")


def _hint(name: str, kind: type) -> str:
    if name.startswith("_"):
        return ""
    known = [one for one in dir(kind) if not one.startswith("_")]
    hint = did_you_mean(name, known)
    return hint if hint or len(known) > _LISTED_MAX else f"; it has {', '.join(known)}"
