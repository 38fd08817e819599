"""The check for a test that asked for a broker to which no client came.

Its code under test may use a fixed URL, and where something listens at that URL, the test passes. The check reports a
test that did nothing with the broker but read the URL, one whose process connected to another broker instead, and one
that asserts that something did not happen, although without a client nothing could.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Protocol

from leveret.observe.assertions.source import Source
from leveret.observe.calls.callers import calling_line, line_of
from leveret.observe.checks.finding import Finding
from leveret.observe.views.names import has_clients
from leveret.trace import events
from leveret.trace.caller import Caller

CHECK: Final = "no_client"
# The ports on which RabbitMQ usually listens for clients: with TLS, without, and beside another server.
_PORTS: Final = (5671, 5672, 5673)
# The modules of clients that connect to a broker, whatever its port.
_CLIENTS: Final = frozenset(
    {
        *("aiormq.connection", "amqp.transport", "amqpstorm.io", "rabbitpy.io"),
        *("pika.adapters.utils.io_services_utils", "pika.adapters.utils.connection_workflow"),
    }
)
_UNTOUCHED: Final = "the test did nothing with the broker: leave the argument out, or let the code under test connect"
_UNUSED: Final = "the test read the broker's url and did nothing else with the broker: does the code under test use it?"


class UsedSource(Source, Protocol):
    """What this check needs of a broker."""

    # How often the test read, changed or waited for something.
    call_count: int
    # Whether anything has asked where clients connect to.
    is_url_read: bool


class NoClient:
    """The wait of one test for the first client of its broker."""

    def __init__(self, broker: UsedSource, ports: Callable[[], Collection[int]]) -> None:
        """Begin to watch where this process connects to. `ports` returns those of its brokers, of stopped ones too."""
        self._broker = broker
        self._ports = ports
        self._call_count = broker.call_count
        # The other brokers to which this process connected, each with the line that did.
        self._elsewhere: dict[tuple[str, int], Caller | None] = {}
        # The assertions that have passed because something did not happen, each with its line.
        self._absences: list[str] = []
        broker.is_url_read = False
        self._ears = [_Ear(socket.socket, name, self) for name in ("connect", "connect_ex")]

    def end(self) -> Finding | None:
        """Return the finding if no client came. Call it before anything else looks at the broker."""
        for ear in reversed(self._ears):
            ear.close()
        broker = self._broker
        is_untouched = broker.call_count == self._call_count
        broker.sync()
        with broker.lock:
            recorder = broker.recorder
            if not recorder.is_on or recorder.has_dropped or has_clients(recorder.raw()):
                return None
            # Imported here because most tests have a client.
            from leveret.observe.texts.report import stranger_lines

            texts = stranger_lines(broker.node) or [_place(*connected) for connected in self._elsewhere.items()]
        if not texts and is_untouched:
            texts = [_UNUSED if broker.is_url_read else _UNTOUCHED]
        # What the test itself has published can have had consequences without a client.
        if not texts and not any(raw[0] == events.PUBLISHED for raw in recorder.raw()):
            texts = self._absences[:1]
        return Finding(CHECK, "/", {"place": "; ".join(texts)}) if texts else None

    def note_absence(self, call: str) -> None:
        """Note that an assertion has passed because something did not happen."""
        line = calling_line()[1]
        at = "" if line is None else f" at {line}"
        self._absences.append(f"{call}{at} passed, but without a client nothing could happen: does one connect?")

    def connects(self, address: tuple[Any, ...], frame: FrameType) -> None:
        """Note that a frame connects to an address, if that is another broker."""
        host, port = address[:2]
        if port not in self._ports() and (port in _PORTS or _is_call_of_client(frame)):
            self._elsewhere.setdefault((str(host), port), line_of(frame))


def _place(address: tuple[str, int], line: Caller | None) -> str:
    at = "" if line is None else f", at {line}"
    return f"instead, this process tried to connect to {address[0]}:{address[1]}{at}: give that code the broker's url"


def _is_call_of_client(frame: FrameType | None) -> bool:
    """Return whether a client of AMQP is among the callers of a frame."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _CLIENTS:
            return True
        frame = frame.f_back
    return False


class _Ear:
    """One of the two methods with which sockets of Python connect, and what stands in its place while a test waits.

    An audit hook would hear of connects too, but Python calls one for each `id`, and cannot remove it.
    """

    def __init__(self, kind: type[socket.socket], name: str, test: NoClient) -> None:
        self._kind = kind
        self._name = name
        # Something else, such as a test, may have put its own method there.
        self._own_before = vars(kind).get(name)
        before = getattr(kind, name)

        def connect(sock: socket.socket, address: Any) -> Any:
            __tracebackhide__ = True
            # An exception here would make the connect fail.
            with suppress(Exception):
                test.connects(address, sys._getframe(1))
            return before(sock, address)

        self._connect = connect
        setattr(kind, name, connect)

    def close(self) -> None:
        """Put the method back, unless something else has put its own there since."""
        if vars(self._kind).get(self._name) is not self._connect:
            return
        if self._own_before is None:
            delattr(self._kind, self._name)
        else:
            setattr(self._kind, self._name, self._own_before)
