"""What a type checker sees is what runs: public names, the values and keywords of calls, and awaitable twins."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import get_args

import pytest

import leveret as package
from leveret import (
    Aio,
    AioClock,
    AioConsumer,
    Broker,
    BrokerOptions,
    Clock,
    Event,
    FaultKind,
    ScriptedConsumer,
)
from leveret.broker import KEYWORDS as BROKER_KEYWORDS
from leveret.core.compat import VERSIONS, RabbitMQVersion
from leveret.core.model.operators.policy_keys import APPLY_TO
from leveret.core.wire.properties import PROPERTY_NAMES
from leveret.engine.elsewhere import Twins
from leveret.exploration import KINDS, WORDS, explore
from leveret.observe.assertions import evaluation, keywords, matching
from leveret.observe.checks.finding import PLACES
from leveret.observe.checks.table import CHECKS, CheckName
from leveret.trace import events
from leveret.trace.keywords import EventFields
from tests.house.repository import SourceFile

# Annotations that say nothing to a type checker, and why there is no better one.
MAY_BE_ANYTHING = {
    "MessageView.json": "whatever the publisher has sent",
    "MessageView.headers": "the same",
    "Delivered.json": "the same",
    "Delivered.headers": "the same",
}
# Files with a `__getattr__` that a type checker may see.
MAY_MAKE_UP_NAMES: tuple[str, ...] = ()


def test_a_checker_imports_the_public_names_from_where_they_are_found_when_run(source_files: list[SourceFile]) -> None:
    (init,) = (file for file in source_files if file.path == "src/leveret/__init__.py")
    imports = init.nodes(ast.ImportFrom)
    seen = {f"{node.module}.{name.name}" for node in imports for name in node.names if node.module != "typing"}

    found = {f"leveret.{home}.{name}" for home, names in package._HOMES.items() for name in names}

    assert {name.rpartition(".")[2] for name in found} == set(package.__all__)
    assert {name for name in seen if name.rpartition(".")[2] in package.__all__} == found - {
        "leveret.trace.version.__version__"
    }
    assert [name for name in package.__all__ if getattr(package, name, None) is None] == []


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert package.__version__ == version("leveret")


@pytest.mark.parametrize(
    ("literal", "table"),
    [
        pytest.param(RabbitMQVersion, VERSIONS, id="versions"),
        pytest.param(events.EventKind, events.KINDS, id="kinds of events"),
        pytest.param(CheckName, CHECKS, id="checks"),
        pytest.param(FaultKind, KINDS, id="kinds of faults"),
        pytest.param(keywords.ApplyTo, APPLY_TO, id="targets of policies"),
    ],
)
def test_a_literal_has_the_words_of_its_table(literal: object, table: dict[str, object] | tuple[str, ...]) -> None:
    assert get_args(literal) == tuple(table)


def test_reasons_are_those_an_assertion_accepts() -> None:
    written = {
        "assert_requeued": set(get_args(keywords.RequeueReason)),
        "assert_dead_lettered": set(get_args(keywords.DeadLetterReason)),
        "assert_dropped": set(get_args(keywords.DropReason)),
    }

    assert written == {call: set(reasons) for call, reasons in evaluation._REASONS.items()}


def test_keywords_are_those_their_calls_accept() -> None:
    from leveret.faults import rule

    accepted = {
        keywords.BasicProperties: {*PROPERTY_NAMES} - {"headers"},
        keywords.MessageCriteria: {*matching.KEYWORDS} - {"exchange"},
        keywords.AssertionOptions: {*matching.KEYWORDS, "vhost", "timeout"} - {"exchange"},
        keywords.QueueAssertionOptions: {*matching.KEYWORDS, "vhost", "timeout"},
        keywords.FaultCriteria: {*matching.KEYWORDS},
        keywords.FaultOptions: {*matching.KEYWORDS, *rule.OPTIONS} - {"on", "do"},
        keywords.Places: {*PLACES},
        EventFields: {name for fields in events.POSITIONS.values() for name in fields},
    }

    differing = {kind.__name__: set(kind.__annotations__) ^ accepted[kind] for kind in accepted}

    assert {name: words for name, words in differing.items() if words} == {}, (
        "these differ: src/leveret/observe/assertions/keywords.py from src/leveret/observe/assertions/matching.py, "
        "or src/leveret/trace/keywords.py from src/leveret/trace/events.py"
    )
    assert set(Event.__annotations__) == accepted[EventFields] - {"kind", "at"}


def test_the_options_of_a_broker_are_its_keywords_with_their_types() -> None:
    written = {name: value.__forward_arg__ for name, value in BrokerOptions.__annotations__.items()}

    assert written == {name: kind for name, kind in Broker.__init__.__annotations__.items() if name in written}
    assert set(written) == set(BROKER_KEYWORDS), "src/leveret/engine/broker_options.py has not what Broker() takes"
    assert {*WORDS} & {*written} == {"seed"}
    assert explore.__annotations__["options"] == "Unpack[SeedlessBrokerOptions]"


def test_every_call_that_waits_has_an_awaitable_twin_of_the_same_signature() -> None:
    waiting = {name: value for name, value in methods_of(Broker) if name.startswith(("wait_", "assert_"))}

    blocking = {name: inspect.unwrap(value) for name, value in waiting.items()}
    assert {name: inspect.unwrap(value) for name, value in twins_of(Aio)} == blocking, "src/leveret/time/aio.py differs"
    assert twins_of(AioClock) == [("advance", AioClock.advance)]
    assert twins_of(AioConsumer) == [("next", AioConsumer.next)]
    for kind, of in ((Aio, Broker), (AioClock, Clock), (AioConsumer, ScriptedConsumer)):
        for name, value in twins_of(kind):
            assert inspect.signature(value) == inspect.signature(getattr(of, name))


def test_no_public_name_is_of_any_type() -> None:
    offences = [
        f"{name}.{member}"
        for name in package.__all__
        for member, value in methods_of(getattr(package, name))
        if any("Any" in str(kind) for kind in value.__annotations__.values())
    ]

    assert set(offences) == set(MAY_BE_ANYTHING)


def test_no_public_class_makes_up_names_for_a_checker(source_files: list[SourceFile]) -> None:
    offences = [
        file.path
        for file in source_files
        if "__getattr__" in file.text
        for node in seen_by_a_checker(file.tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    ]

    assert [path for path in offences if path.startswith("src/leveret/")] == list(MAY_MAKE_UP_NAMES)


def methods_of(value: object) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the public methods of a class, and the functions behind its properties, by name."""
    for name in dir(value) if isinstance(value, type) else ():
        member = inspect.getattr_static(value, name)
        function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            yield name, function


def twins_of(kind: type[Twins]) -> list[tuple[str, Callable[..., object]]]:
    """Return the awaitable twins of a class by name."""
    return [(name, value) for name, value in vars(kind).items() if hasattr(value, "__wrapped__")]


def seen_by_a_checker(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a file, without those below `if not TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "not TYPE_CHECKING":
            continue
        yield node
        yield from seen_by_a_checker(node)
