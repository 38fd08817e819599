"""What the objects that a test holds have in common: they answer a mistake of the test with what is valid.

An unknown attribute of a `Hinting` raises with the closest known name, or with all of them if they are few. A call of a
class that is decorated with `checks_calls` raises for a wrong argument before it does anything. The last frame of what
it raises on purpose is the test's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import _GeneratorContextManager
from functools import wraps
from traceback import walk_tb
from types import FunctionType
from typing import TYPE_CHECKING, ClassVar, Final, ParamSpec, TypeVar

from leveret.errors import BrokerError, NotDeclaredError, WaitTimeoutError, nearest_call
from leveret.wording import with_article

if TYPE_CHECKING:
    from leveret.observe.calls.calls import Signature

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

# Marks an error that a checked call has raised on purpose.
_CUT: Final = "_is_cut_by_leveret"
# What leveret reports to the caller. The way to any other exception may be of interest.
_REPORTED: Final = (BrokerError, NotDeclaredError, WaitTimeoutError)
# A longer list of names does not help.
_LISTED_MAX: Final = 40


def checks_calls(kind: C) -> C:
    """Check each call of a public method of this class, its own and those of its bases, before the method begins."""
    methods = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    for name, value in methods.items():
        if isinstance(value, FunctionType) and not name.startswith("_"):
            setattr(kind, name, _checked(value))
    return kind


def _checked(act: Callable[P, T]) -> Callable[P, T]:
    """Return a method that checks its arguments before it acts."""
    written: Callable[..., object] = act
    while hasattr(written, "__wrapped__"):
        written = written.__wrapped__
    code = written.__code__
    optional_count = len(written.__defaults__ or ()) + len(written.__kwdefaults__ or ())
    needs_arguments = code.co_argcount - 1 + code.co_kwonlyargcount > optional_count
    # Read at the first call that needs it, because most methods are never called.
    signature: Signature | None = None

    @wraps(act)
    def checked_call(*arguments: P.args, **options: P.kwargs) -> T:
        nonlocal signature
        __tracebackhide__ = True
        try:
            if needs_arguments or options or len(arguments) > 1:
                if signature is None:
                    from leveret.observe.calls.calls import Signature

                    signature = Signature(written)
                signature.check(arguments, options)
            return act(*arguments, **options)
        except BaseException as error:
            end_blocks(error)
            if isinstance(error, Exception):
                leave_out_frames(error)
            raise

    return checked_call


# The code of checked calls, whose frames are no methods that the test has named.
CHECKED_CALL: Final = _checked(nearest_call).__code__


def end_blocks(error: BaseException) -> None:
    """End each `with` block that the handler of a signal, such as pytest-timeout's, kept from beginning or ending.

    It may raise just before or after the block. The traceback then keeps the block, and that the broker's lock, for
    which the loop waits.
    """
    for frame, _ in walk_tb(error.__traceback__):
        manager = frame.f_locals.get("self")
        if type(manager) is _GeneratorContextManager and hasattr(manager, "gen"):
            manager.gen.close()


def leave_out_frames(error: Exception) -> None:
    """Let an error that leveret raised on purpose end at the test's own line, whatever prints it.

    It is on purpose if the error is one of leveret's own, or if the function that raised it hides its frame. The frames
    of an error inside leveret stay. A bare `raise` that follows adds no frame for its own function.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return
    is_ours = str(last.tb_frame.f_globals.get("__name__")).startswith(("leveret.", "pytest_leveret."))
    is_on_purpose = isinstance(error, _REPORTED) or "__tracebackhide__" in last.tb_frame.f_code.co_varnames
    # One checked call may have made another, which has cut the frames already.
    if is_ours and (is_on_purpose or _CUT in vars(error)):
        vars(error)[_CUT] = True
        error.__traceback__ = None


class Hinting:
    """A base class that answers a misspelt attribute with the right spelling."""

    __slots__ = ()

    # What the object is, at the beginning of a sentence, if its class does not say it: "broker.admin".
    _called: ClassVar[str] = ""
    # The attributes that hold a part of it, whose names a test may look for here.
    _parts: ClassVar[tuple[str, ...]] = ()

    # Hidden from type checkers, which would take any attribute for known.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            __tracebackhide__ = True
            hint = "" if name.startswith("_") else hint_at(name, type(self)) or self._hint_at_part(name)
            if not hint and not name.startswith("_"):
                hint = _near(name, type(self))
            called = self._called or with_article(type(self).__name__)
            raise AttributeError(f"{called} has no attribute {name!r}{hint}")

        def _hint_at_part(self, name: str) -> str:
            # A part that is looked for here is missing itself, so this object is not complete.
            parts = [] if name in self._parts else [getattr(self, part) for part in self._parts]
            return next((hint for part in parts if (hint := hint_at(name, type(part), at=part._called))), "")


def hint_at(name: str, kind: type, *, at: str = "") -> str:
    """Return what to use instead of a name that another tool has; "" if there is no answer.

    `at` is where a test finds an object of that kind, if it looked elsewhere. Then the names of that kind count too.
    """
    from leveret.observe.calls.other_names import EVERYWHERE, OTHER_NAMES, answer_to

    if at and name in _names(kind):
        return f"; use {at}.{name}"
    table = next((OTHER_NAMES[base.__name__] for base in kind.__mro__ if base.__name__ in OTHER_NAMES), EVERYWHERE)
    answer = answer_to(name, table) or answer_to(name, EVERYWHERE)
    for prefix in ("assert_not_", "assert_no_", "assert_never_"):
        positive = f"assert_{name.removeprefix(prefix)}"
        if answer is None and name.startswith(prefix) and positive in _names(kind):
            return f"; pass times=0, as in {positive}(..., times=0)"
    if answer is None:
        return ""
    if answer not in _names(kind):
        return f"; use broker.{answer}" if answer.isidentifier() else f"; {answer}"
    return f"; use {at}.{answer}" if at else f"; did you mean {answer!r}?"


def _near(name: str, kind: type) -> str:
    close, names = nearest_call(name, _names(kind)), _names(kind)
    if close:
        return f"; did you mean {close[0]!r}?"
    return "" if len(names) > _LISTED_MAX else f"; it has {', '.join(names)}"


def _names(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]
