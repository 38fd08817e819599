"""The parts of the definitions that no test has used: a line at the end of a run with `declare="must_match"`.

A test uses what it or a client declares, binds, consumes from or sends messages through. Each test says in its report
what it used, so that the line is right with the workers of pytest-xdist too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, cast

import pytest

from pytest_leveret.brokers import brokers_of
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.guard import Guarded

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.core.model.binding import Binding
    from leveret.core.model.exchanges.exchange import Exchange
    from leveret.core.model.message import Message
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import VirtualHost
    from leveret.observe.checks.not_in_definitions import Part
    from leveret.trace.events import Event

_ATTRIBUTE: Final = "leveret_parts"
_SHOWN_MAX: Final = 10


class Usage:
    """The parts that the definitions of a run have, and those that its tests used."""

    def __init__(self) -> None:
        self._defined: Final[dict[Part, None]] = {}
        self._used: Final[set[Part]] = set()
        self._left_out_count = 0

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Count tests that cannot use anything, because they do not run."""
        self._left_out_count += len(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add what a test used to its report, while its brokers still run."""
        result = yield
        if result.when == "call":
            with Guarded("say what it used of the definitions", item, result):
                parts = [both for broker in brokers_of(item) if (both := _parts(broker, item.nodeid))]
                vars(result)[_ATTRIBUTE] = [[sorted(defined), sorted(used)] for defined, used in parts]
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test used, or count it as one that did not run."""
        self._left_out_count += report.when == "setup" and not report.passed
        for defined, used in getattr(report, _ATTRIBUTE, ()):
            self._defined.update(dict.fromkeys(map(tuple, defined)))
            self._used.update(map(tuple, used))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name what no test has used."""
        if not self._defined:
            return
        from leveret.wording import count_text

        if text := self._unused_text():
            left_out = f" ({count_text(self._left_out_count, 'test')} did not run)" if self._left_out_count else ""
            terminalreporter.write_line(f"leveret: of the definitions, no test used {text}{left_out}")

    def _unused_text(self) -> str:
        from leveret.observe.checks.not_in_definitions import part_text

        unused = {part: None for part in self._defined if part not in self._used}
        texts = [
            part_text(part)
            for kind in ("exchange", "queue", "binding")
            for part in unused
            if part[1] == kind and not any(end in unused for end in _ends(part))
        ]
        more = [f"{len(texts) - _SHOWN_MAX} more"] if len(texts) > _SHOWN_MAX else []
        return ", ".join([*texts[:_SHOWN_MAX], *more])


def _ends(part: Part) -> tuple[Part, ...]:
    """Return the exchange and the destination of a binding, which say enough if they are unused."""
    vhost, kind, name, *rest = part
    return ((vhost, "exchange", name), (vhost, *rest[:2])) if kind == "binding" else ()


def _parts(broker: Broker, test: str) -> tuple[list[Part], set[Part]] | None:
    """Return what the definitions of a broker have, and what a test used; None if that does not matter."""
    engine = broker._engine
    if not engine.node.defined or engine.loop.is_abandoned or engine.judge.level_of("not_in_definitions") == "off":
        return None
    harness_of(broker).sync()
    events = harness_of(broker).events_of(test)
    with engine.lock:
        used = _Uses(engine.node).of(events)
    # What RabbitMQ declares itself is not for the tests to use.
    defined = [part for part in engine.node.defined if part[2] and not part[2].startswith("amq.")]
    return defined, used.intersection(defined)


class _Uses:
    """What events use of the topology of a node."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._used: Final[set[Part]] = set()
        # An exchange with one binding, by the binding, to ask whether that takes a message.
        self._alone: Final[dict[Binding, Exchange]] = {}

    def of(self, happened: list[Event]) -> set[Part]:
        """Return what these events use."""
        from leveret.observe.checks.not_in_definitions import NAMED_BY, part_of
        from leveret.trace import events

        routed: dict[tuple[object, ...], tuple[VirtualHost, Message]] = {}
        for event in happened:
            if event.kind in NAMED_BY or event.kind == events.BIND:
                self._used.add(part_of(event))
            elif event.kind in (events.CONSUME, *events.ARRIVALS, *events.DELIVERIES):
                self._used.add((event.vhost, "queue", str(event.queue)))
            message = _message(event)
            if message is not None and (vhost := self._node.vhosts.get(event.vhost)) is not None:
                routed.setdefault((vhost.name, *message.head[:4]), (vhost, message))
        for vhost, message in routed.values():
            for binding in self._way(vhost, message.exchange, message, {}):
                self._used.add(binding)
        return self._used

    def _way(self, vhost: VirtualHost, name: str, message: Message, passed: dict[str, None]) -> Iterator[Part]:
        """Yield the exchanges and bindings through which a message goes from this exchange on."""
        from leveret.observe.checks.not_in_definitions import binding_part

        exchange = vhost.exchanges.get(name)
        if exchange is None or name in passed:
            return
        passed[name] = None
        yield vhost.name, "exchange", name
        taken = [binding for binding in exchange.bindings.values() if self._takes(exchange, binding, message)]
        for it in taken:
            ends = name, it.destination_kind, it.destination.name
            yield binding_part(vhost.name, *ends, it.routing_key, it.arguments)
            if it.destination_kind == "exchange":
                yield from self._way(vhost, it.destination.name, message, passed)
        if not taken and exchange.alternate_exchange:
            yield from self._way(vhost, exchange.alternate_exchange, message, passed)

    def _takes(self, exchange: Exchange, binding: Binding, message: Message) -> bool:
        from leveret.core.model.exchanges.exchange import ExchangeDeclaration

        alone = self._alone.get(binding)
        if alone is None:
            wanted = ExchangeDeclaration(exchange.name, exchange.type_name, arguments=exchange.arguments)
            alone = self._alone[binding] = type(exchange)(wanted, dice=Random(0), compat=exchange.compat)
            alone.bind(binding)
        return bool(alone.route(message))


def _message(event: Event) -> Message | None:
    """Return the message that an event routes, as it was published or dead-lettered."""
    from leveret.core.model.message import Message
    from leveret.trace import events

    if event.kind == events.PUBLISHED:
        return cast("Message", event.message)
    if event.kind not in events.DEATHS:
        return None
    dead = cast("Message", event.message)
    return Message(dead.id, event.exchange, event.routing_key, dead.properties, b"", b"", (event.routing_key,))
