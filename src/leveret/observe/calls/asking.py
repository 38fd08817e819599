"""What a plain comparison asked for, by the two values that pytest compared and the code that compared them.

The code says which side is the expected one: the side that is written out, else the right one. It says too whether the
other side is a count, at which queue of a broker it looked, and from which queues it is filled. An assertion without a
comparison, and an error in a line of a test, have their code only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from os.path import abspath
from queue import Empty
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Final

from leveret.errors import NotDeclaredError
from leveret.observe.calls.callers import CLIENTS, is_of_client, is_of_user
from leveret.observe.calls.feeding import sources_of, statements_at, statements_of
from leveret.story.asked import QUEUES, Asked, Comparison, Raised
from leveret.trace import events
from leveret.trace.caller import Caller
from leveret.wording import safe_text

_OPERATORS: Final[dict[str, type[ast.cmpop]]] = {
    "==": ast.Eq,
    "in": ast.In,
    ">=": ast.GtE,
    ">": ast.Gt,
    "is": ast.Is,
    "is not": ast.IsNot,
}
# Those of them that compare two values.
_EQUAL: Final = ("==", "is", ">", ">=")
_EXPECTED: Final = "expect"
# What clients say of a message that they published, by a word in their errors.
_ANSWERS: Final = {"unroutable": events.RETURNED, "no_route": events.RETURNED, "nack": events.NACKED_CONFIRM}
# What begins a block in which a test expects the error of a channel.
_EXPECTS_ERROR: Final = re.compile(r"raises\w*\(.*(channel|precondition|amqp)", re.IGNORECASE)
_TEXT_MAX: Final = 2_000
# The methods that look a value up.
_LOOKS_UP: Final = ("get", "count", "index")


def expects_error(caller: object) -> bool:
    """Return whether the line of a test is in a block such as `with pytest.raises(ChannelClosedByBroker)`."""
    at = caller.called_from or caller if isinstance(caller, Caller) else Caller("")
    blocks = [it for it in statements_of(abspath(at.path)) if isinstance(it, ast.With | ast.AsyncWith)]
    around = [it for it in blocks if it.lineno <= (at.line or 0) <= (it.end_lineno or 0)]
    return any(_EXPECTS_ERROR.search(ast.unparse(item.context_expr)) for it in around for item in it.items)


def asked_by(operator: str, left: object, right: object, frame: FrameType | None) -> Asked:
    """Return what a comparison that failed asked for. `frame` is that of the assertion, if it is known."""
    asked = Asked()
    compared = None if frame is None else _compared(frame, operator)
    if operator not in _OPERATORS or (frame is not None and compared is None):
        return asked
    is_left = operator == "in" or (compared is not None and _is_left_expected(*compared))
    expected, found = (left, right) if is_left else (right, left)
    shown = None if compared is None else compared[1] if is_left else compared[0]
    if operator == "is not" and right is None:
        asked.is_falsy, shown = True, None if compared is None else compared[0]
    elif shown is None or not _is_calculated(shown):
        Comparison(expected, found, "==" if operator in _EQUAL else operator).ask(asked)
    if shown is not None and frame is not None:
        _look_at(asked, frame, shown)
        if _is_count(shown):
            asked.count, asked.total = asked.total or asked.count, None
        elif _is_place(shown):
            asked.reordered, asked.total, asked.missing = [expected, found], None, ()
        elif keys := list(_keys(shown)):
            _ask_for_key(asked, keys[0], expected, found)
    return asked


def _ask_for_key(asked: Asked, key: object, expected: object, found: object) -> None:
    """Note that a comparison missed the value of a key, or has the key less often than it expected."""
    if found is None:
        asked.missing, asked.is_falsy = [*asked.missing, key], True
    elif asked.total is not None and asked.total[0] > asked.total[1]:
        asked.missing = asked.fewer = [key]


def asked_by_error(error: BaseException) -> Asked:
    """Return what the line of a test asked for that raised an error which is no comparison."""
    asked, frames = Asked(), list(_user_frames(error.__traceback__))
    if not frames:
        return asked
    frame, line = frames[-1]
    if type(error).__name__ in ("AssertionError", "Failed"):
        test = next((node.test for node in _asserts(frame, line)), None)
        if test is None or isinstance(test, ast.Compare | ast.Constant):
            _look_at_conditions(asked, frames[:-1])
            return asked
        asked.is_falsy = not isinstance(test, ast.UnaryOp)
        _look_at(asked, frame, test, line)
        return asked
    nodes = [(frame, line, node) for frame, line in frames for node in _statements(frame, line)]
    if isinstance(error, NotDeclaredError):
        asked.missing, asked.names = [text for *_, node in nodes for text in _texts(node)], frozenset({QUEUES})
    elif isinstance(error, KeyError) and error.args:
        asked.correlation = error.args[0]
    elif isinstance(error, IndexError | TimeoutError | Empty) or (
        # `basic_get` returns None for an empty queue. Code that the test calls has other reasons for None.
        len(frames) == 1 and isinstance(error, AttributeError | TypeError) and "NoneType" in safe_text(error, str)
    ):
        asked.is_falsy = True
        for frame, line, node in nodes:
            _look_at(asked, frame, node, line)
    return asked


def raised_by(error: BaseException) -> Iterator[Raised]:
    """Yield the errors that failed a test: that one, those in a group, and those from which code raised them.

    An error that code handles is none of them, if the code then fails of another one: it has to raise that one itself.
    """
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        seen.add(id(one))
        if not isinstance(one, AssertionError):
            yield _raised(one)
        origins = [*(one.exceptions if isinstance(one, BaseExceptionGroup) else ()), one.__cause__]
        if one.__context__ is not None and _is_raised_over(one, one.__context__):
            origins.append(one.__context__)
        waiting += (it for it in origins if it is not None and id(it) not in seen)


def _raised(error: BaseException) -> Raised:
    text = safe_text(error, str, _TEXT_MAX)
    if type(error).__module__.partition(".")[0] not in CLIENTS or not any(
        is_of_client(frame) for frame, _ in walk_tb(error.__traceback__)
    ):
        return Raised(text)
    said = f"{type(error).__name__} {text}".casefold()
    answer = next((kind for word, kind in _ANSWERS.items() if word in said), "")
    held = getattr(error, "messages", None) or [getattr(error, "message", None)]
    # ReturnedMessage of pika, DeliveredMessage of aiormq.
    frames = ((getattr(one, "method", None) or getattr(one, "delivery", None), one) for one in held)
    return Raised(text, answer, [(it.exchange, it.routing_key, one.body) for it, one in frames if it is not None])


def _is_raised_over(error: BaseException, earlier: BaseException) -> bool:
    """Return whether the function that caught an earlier error raised this one by itself."""
    frames, caught_in = list(_user_frames(error.__traceback__)), earlier.__traceback__
    if not frames or caught_in is None or frames[-1][0] is not caught_in.tb_frame:
        return False
    return any(isinstance(node, ast.Raise) for node in _statements(*frames[-1]))


def _texts(node: ast.AST) -> Iterator[str]:
    return (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _look_at(asked: Asked, frame: FrameType, shown: ast.AST, line: int | None = None) -> None:
    """Note the names, the queues and the sources of what a comparison shows."""
    asked.names |= frozenset(_names(shown))
    sources = sources_of(frame, [shown], line)
    asked.queues = (*asked.queues, *sources.views)
    asked.sources |= sources.strings


def _look_at_conditions(asked: Asked, frames: list[tuple[FrameType, int]]) -> None:
    """Note what the test waited for in vain, if it gave the helper that failed a condition: `until(lambda: seen)`."""
    nodes = [
        (frame, line, one) for frame, line in frames for node in _statements(frame, line) for one in ast.walk(node)
    ]
    for frame, line, node in nodes:
        if isinstance(node, ast.Lambda) and not node.args.args and not isinstance(node.body, ast.UnaryOp):
            asked.is_falsy = True
            _look_at(asked, frame, node.body, line)


def _user_frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of the user's code in which an error came by, and their lines, the outermost first."""
    while traceback is not None:
        if is_of_user(traceback.tb_frame):
            yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _compared(frame: FrameType, operator: str) -> tuple[ast.expr, ast.expr] | None:
    """Return both sides of the comparison that the assertion of a frame made."""
    kind = _OPERATORS.get(operator)
    for node in _asserts(frame, frame.f_lineno):
        for one in ast.walk(node.test):
            if kind is not None and isinstance(one, ast.Compare) and isinstance(one.ops[0], kind):
                return one.left, one.comparators[0]
    return None


def _asserts(frame: FrameType, line: int) -> list[ast.Assert]:
    return [node for node in statements_at(frame, line) if isinstance(node, ast.Assert)]


def _statements(frame: FrameType, line: int) -> list[ast.stmt]:
    """Return the statement of one line, without those that hold others."""
    return [node for node in statements_at(frame, line) if not hasattr(node, "body")]


def _is_left_expected(left: ast.expr, right: ast.expr) -> bool:
    if _is_written_out(left) != _is_written_out(right):
        return _is_written_out(left)
    return any(_EXPECTED in name for name in _names(left)) and not any(_EXPECTED in name for name in _names(right))


def _is_written_out(node: ast.expr) -> bool:
    """Return whether an expression is a literal, or a container of such."""
    return not any(isinstance(one, ast.Name | ast.Attribute) for one in ast.walk(node))


def _is_calculated(node: ast.expr) -> bool:
    """Return whether an expression is the result of an operation, or a number: no value that came in a message."""
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Constant)


def _is_count(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def _is_place(node: ast.expr) -> bool:
    """Return whether an expression is what stands at one place of a list."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int)
    )


def _keys(node: ast.expr) -> Iterator[str]:
    """Yield the text that an expression looks up: `found.get("ann")`, `tried.count("ann")`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(text)), *_]):
            yield from (text,) if method in _LOOKS_UP else ()


def _names(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr
