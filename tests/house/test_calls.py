"""The tables by which calls of a test are checked are complete, and have no row that no call needs."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import FunctionType
from typing import NamedTuple

import pytest

from leveret import Broker
from leveret.observe.assertions import keywords
from leveret.observe.calls import calls
from tests.house.repository import SourceFile

# Parameters of these types are checked by their methods, which know more of them: `object` is compared with `==`.
OF_METHODS = (
    *("object", "bytes | str", "datetime | int", "Fault", "Sequence[int]", "Sequence[str]"),
    *("DeadLetterReason | Pattern[str]", "DropReason | Pattern[str]", "RequeueReason | Pattern[str]"),
    *(
        "Sequence[str] | Callable[..., object]",
        "tuple[object, ...]",
    ),
)
# Numbers whose range is that of any number, or depends on the call.
WITHOUT_RANGE = (
    *("after", "at", "channel", "connection", "days", "delivery_mode", "hours"),
    *("minutes", "ms", "priority", "probability", "since"),
)
# Texts that AMQP does not limit, or that are no names of AMQP.
LONG_TEXTS = (
    *("app_id", "client", "cluster_id", "configure", "content_encoding", "content_type", "correlation_id"),
    *("default_queue_type", "description", "expiration", "limit", "message_id", "name", "on", "password", "pattern"),
    *("read", "reason", "reply_to", "text", "type", "user", "user_id", "write"),
)
NUMBERS = ("int", "float", "float | timedelta", "int | str")


class Parameter(NamedTuple):
    """A parameter of a checked call, its type without None, and whether the call is checked by it."""

    call: str
    name: str
    kind: str
    is_checked: bool


@pytest.fixture(scope="module")
def parameters(source_files: list[SourceFile]) -> list[Parameter]:
    """These are the parameters of all calls that `checks_calls` checks."""
    kinds = [
        getattr(import_module(file.path[len("src/") : -len(".py")].replace("/", ".")), node.name)
        for file in source_files
        if "@checks_calls" in file.text
        for node in file.nodes(ast.ClassDef)
        if any("checks_calls" in ast.unparse(each) for each in node.decorator_list)
    ]
    return [parameter for kind in kinds for parameter in parameters_of(kind)]


def parameters_of(kind: type) -> Iterator[Parameter]:
    """Yield the parameters of the public methods of a class, with the keywords that they take by `**`."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if name.startswith("_") or not isinstance(member, FunctionType):
            continue
        act = inspect.unwrap(member)
        checked = calls.Signature(act)._kinds
        others = inspect.getfullargspec(act).varargs
        for parameter, annotation in written(act.__annotations__):
            if parameter == others:
                continue
            base = annotation.removesuffix(" | None")
            yield Parameter(f"{kind.__name__}.{name}", parameter, base, parameter in checked)


def written(annotations: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield parameters with their annotations, as they are written."""
    for name, annotation in annotations.items():
        if annotation.startswith("Unpack["):
            table = getattr(keywords, annotation[len("Unpack[") : -1]).__annotations__
            yield from ((word, kind.__forward_arg__) for word, kind in table.items())
        elif name != "return":
            yield name, annotation


def test_every_type_of_a_parameter_is_checked_or_left_to_its_method(parameters: list[Parameter]) -> None:
    own = {name for names in calls._OWN.values() for name in names}

    unchecked = {each.kind for each in parameters if not each.is_checked and each.name not in own}

    assert sorted(unchecked) == sorted(OF_METHODS), "give it a row of _KINDS in src/leveret/observe/calls/calls.py"


def test_every_number_has_a_range_or_needs_none(parameters: list[Parameter]) -> None:
    numbers = {each.name for each in parameters if each.kind in NUMBERS}

    assert sorted(numbers) == sorted({*calls._RANGES, *WITHOUT_RANGE})


def test_every_text_is_a_short_string_of_amqp_or_may_be_long(parameters: list[Parameter]) -> None:
    texts = {each.name for each in parameters if each.kind == "str"}

    assert sorted(texts) == sorted({*calls._SHORT, *LONG_TEXTS})


def test_every_row_of_the_tables_is_needed(parameters: list[Parameter]) -> None:
    of_broker = Broker.__init__.__annotations__.values()
    kinds = {each.kind for each in parameters} | {kind.removesuffix(" | None") for kind in of_broker}

    assert [kind for kind in calls._KINDS if kind not in kinds] == []
    assert [start for start in calls._PREFIXES if not any(kind.startswith(start) for kind in kinds)] == []
