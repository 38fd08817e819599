"""A copy of a node with everything in it, in memory.

Pickle walks the node. Copied is what the core is made of: its objects, the containers between them, and the code that
waits in timers and work (a lambda with what it holds), so that a copy never acts on the node it was made from. All else
goes by reference: the user's objects and those of other packages, messages, which never change, and leveret's own
constants, which code compares by identity.
"""

from __future__ import annotations

import gc
import io
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message
from leveret.core.model.queues.consumer import Consumer
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection

T = TypeVar("T")

# Where the classes and functions come from whose instances are copied.
_COPIED: Final = (
    "leveret.core.",
    "leveret.faults.",
    "leveret.scripted.own_",
    "leveret.engine.",
    "leveret.observe.checks.",
)
_CONTAINERS: Final = ("array", "builtins", "collections", "functools", "random", "_weakrefset")
_PLAIN: Final = (str, bytes, int, float, bool, type(None), type, types.ModuleType)
# What holds each other in chains.
_SHELLS: Final = (Channel, Connection, Consumer, Exchange, StoredQueue)
_NEVER_COPIED: Final = (Message, types.BuiltinMethodType, types.CodeType)


def copier(value: T, keep: Iterable[object] = (), slot: object = None) -> Callable[[object], T]:
    """Return what makes copies of `value` as it is now, in which `keep` go by reference.

    It takes what a copy has in the place of `slot`.
    """
    octets = io.BytesIO()
    modules = tuple(name for name in sys.modules if name.partition(".")[0] == "leveret")
    pickler = _Pickler(octets, {*_constants(modules), *map(id, keep), id(slot)})
    with _uncollected():
        pickler.dump(value)
        while pickler.shells:
            shells, pickler.shells = pickler.shells, []
            pickler.dump([(shell, shell.__reduce_ex__(pickle.HIGHEST_PROTOCOL)[2]) for shell in shells])

    def copy(filling: object = None) -> T:
        file = io.BytesIO(octets.getvalue())
        unpickler = pickle.Unpickler(file)
        # As an attribute it costs no frame of Python at each call.
        kept = [filling if each is slot else each for each in pickler.kept]
        unpickler.persistent_load = kept.__getitem__  # type: ignore[method-assign]
        with _uncollected():
            made = cast("T", unpickler.load())
            while file.tell() < len(octets.getvalue()):
                for shell, state in unpickler.load():
                    for part in state if isinstance(state, tuple) else (state,):
                        for name, attribute in (part or {}).items():
                            setattr(shell, name, attribute)
        return made

    return copy


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let the garbage collector rest: it would look through all that is new again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Pickler(pickle.Pickler):
    def __init__(self, octets: io.BytesIO, kept_ids: set[int]) -> None:
        super().__init__(octets, pickle.HIGHEST_PROTOCOL)
        self.kept: list[object] = []
        # Those written without their state, so that no chain of them is deeper than pickle goes.
        self.shells: list[Any] = []
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
        if isinstance(value, _SHELLS):
            self.shells.append(value)
            return object.__new__, (type(value),)
        if not isinstance(value, types.FunctionType) or "<" not in value.__qualname__:
            return NotImplemented
        # What it holds may lead back to it, so it is made first and filled afterwards.
        cells = [] if value.__closure__ is None else [cell.cell_contents for cell in value.__closure__]
        made = (value.__code__, value.__module__, value.__defaults__, len(cells))
        return _function, made, cells, None, None, _fill


def _is_copied(value: object) -> bool:
    """Return whether a function, or an instance of a class, is copied."""
    home = (value if isinstance(value, types.FunctionType) else type(value)).__module__
    return type(value) not in _NEVER_COPIED and (home in _CONTAINERS or home.startswith(_COPIED))


def home_of(action: object) -> str:
    """Return the module of the object or the function behind an action."""
    while isinstance(action, partial):
        action = action.func
    action = getattr(action, "__self__", action)
    return (action if isinstance(action, types.FunctionType) else type(action)).__module__


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
