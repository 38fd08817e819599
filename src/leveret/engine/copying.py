"""A copy of a node with everything in it, in memory.

Pickle walks the node. Copied is what the core is made of: its objects, the containers between them, and the code that
waits in timers and work (a lambda with what it holds), so that a copy never acts on the node it was made from. All else
goes by reference: the user's objects and those of other packages, messages, which never change, and leveret's own
constants, which code compares by identity.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

from leveret.core.model.message import Message

T = TypeVar("T")

# Where the classes and functions come from whose instances are copied.
_COPIED: Final = ("leveret.core.", "leveret.faults.", "leveret.scripted.own_", "leveret.engine.")
_CONTAINERS: Final = ("array", "builtins", "collections", "functools", "random", "_weakrefset")
_PLAIN: Final = (str, bytes, int, float, bool, type(None), type, types.ModuleType)
_NEVER_COPIED: Final = (Message, types.BuiltinMethodType, types.CodeType)


def copier(value: T, keep: Iterable[object] = (), slot: object = None) -> Callable[[object], T]:
    """Return what makes copies of `value` as it is now, in which `keep` go by reference.

    It takes what a copy has in the place of `slot`.
    """
    octets = io.BytesIO()
    modules = tuple(name for name in sys.modules if name.partition(".")[0] == "leveret")
    pickler = _Pickler(octets, {*_constants(modules), *map(id, keep), id(slot)})
    pickler.dump(value)

    def copy(filling: object = None) -> T:
        unpickler = pickle.Unpickler(io.BytesIO(octets.getvalue()))
        # As an attribute it costs no frame of Python at each call.
        kept = [filling if each is slot else each for each in pickler.kept]
        unpickler.persistent_load = kept.__getitem__  # type: ignore[method-assign]
        return cast("T", unpickler.load())

    return copy


class _Pickler(pickle.Pickler):
    def __init__(self, octets: io.BytesIO, kept_ids: set[int]) -> None:
        super().__init__(octets, pickle.HIGHEST_PROTOCOL)
        self.kept: list[object] = []
        self._kept_ids = kept_ids
        self._numbers: dict[int, int] = {}

    def persistent_id(self, value: object) -> int | None:
        """Return the number of what goes by reference."""
        if type(value) in _PLAIN or (_is_copied(value) and id(value) not in self._kept_ids):
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.kept)
            self.kept.append(value)
        return self._numbers[id(value)]

    def reducer_override(self, value: object) -> Any:
        """Take apart code with what it holds, and sets that hold weakly; leave everything else to pickle."""
        if type(value) is WeakSet:
            return WeakSet, (), list(value), None, None, WeakSet.update
        if not isinstance(value, types.FunctionType) or "<" not in value.__qualname__:
            return NotImplemented
        # What it holds may lead back to it, so it is made first and filled afterwards.
        cells = [] if value.__closure__ is None else [cell.cell_contents for cell in value.__closure__]
        made = (value.__code__, value.__module__, value.__defaults__, len(cells))
        return _function, made, cells, None, None, _fill


def _is_copied(value: object) -> bool:
    """Return whether a function, or an instance of a class, is copied."""
    kind = type(value)
    home = (value if isinstance(value, types.FunctionType) else kind).__module__
    return kind not in _NEVER_COPIED and (home in _CONTAINERS or home.startswith(_COPIED))


def _function(code: types.CodeType, module: str, defaults: tuple[object, ...] | None, count: int) -> Callable[..., Any]:
    cells = tuple(types.CellType() for _ in range(count))
    return types.FunctionType(code, vars(sys.modules[module]), code.co_name, defaults, cells)


def _fill(function: types.FunctionType, contents: list[object]) -> None:
    for cell, value in zip(function.__closure__ or (), contents, strict=True):
        cell.cell_contents = value


@lru_cache(maxsize=1)
def _constants(modules: tuple[str, ...]) -> dict[int, object]:
    """Return, by id, the values that these modules and their classes hold, with those inside their tables."""
    found: dict[int, object] = {}
    waiting: list[object] = [value for name in modules for value in list(vars(sys.modules[name]).values())]
    while waiting:
        value = waiting.pop()
        if id(value) in found:
            continue
        if isinstance(value, type) and value.__module__.startswith("leveret."):
            found[id(value)] = value
            waiting += vars(value).values()
        elif not isinstance(value, _PLAIN):
            found[id(value)] = value
            waiting += value if isinstance(value, tuple | list | set | frozenset) else ()
            waiting += (*value, *value.values()) if isinstance(value, dict | types.MappingProxyType) else ()
    return found
