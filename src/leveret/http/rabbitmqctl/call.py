"""One command line on a broker: its words, the broker, and what a command must find before it acts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Final

from leveret.admin.admin import Admin
from leveret.admin.values import Item, WrongValue
from leveret.core.model.node import Node
from leveret.core.model.operators.access import User
from leveret.core.wire import erlang
from leveret.engine.engine import Engine
from leveret.http.management.calls import ManagementCall, ManagementState
from leveret.http.management.endpoints import health
from leveret.http.messages import Request
from leveret.http.rabbitmqctl.line import DATA, NO_USER, UNAVAILABLE, CommandLine, Stopped
from leveret.http.rabbitmqctl.printing import Result

_OPERATOR: Final = User("rmq-cli", tags=("administrator",))


class Call:
    """One command line on a broker."""

    def __init__(
        self, engine: Engine, line: CommandLine, files: MutableMapping[str, bytes], ports: Mapping[int, int]
    ) -> None:
        """`files` are those beside the broker, by path. `ports` are those that commands show for the broker's own."""
        self.engine, self.line, self.files, self._ports = engine, line, files, ports
        self.words, self.vhost_name = line.arguments, line.vhost
        self.admin: Final = Admin(engine)
        # What clients had sent before counts.
        engine.sync()

    def management(self, **values: str) -> ManagementCall:
        """Return a call of the management API by an administrator."""
        return ManagementCall(ManagementState(self.engine), Request("GET", "/"), _OPERATOR, values)

    @property
    def listeners(self) -> list[tuple[str, int]]:
        """The protocols and ports of the broker."""
        return [(name, self._ports.get(port, port)) for name, port in health.listeners(self.management())]

    @property
    def node(self) -> Node:
        """The node. What goes through it holds the broker's lock, as all commands that list do."""
        return self.engine.node

    def vhost(self, code: int = DATA, text: str = "Virtual host '{}' does not exist", name: str | None = None) -> str:
        """Return the name of a virtual host, by default that of the line. Raises Stopped if it does not exist."""
        wanted = self.vhost_name if name is None else name
        if wanted not in self.node.vhosts:
            raise Stopped(code, text.format(wanted))
        return wanted

    def user(self, code: int = NO_USER, text: str = 'Error:\nUser "{}" does not exist') -> str:
        """Return the user that the first word names. Raises Stopped if it does not exist."""
        if self.words[0] not in self.node.access.users:
            raise Stopped(code, text.format(self.words[0]))
        return self.words[0]

    def mapping(self, text: str) -> Any:
        """Return the value of a JSON text. Raises Stopped."""
        try:
            return json.loads(text)
        except ValueError:
            head, term = "Could not parse JSON document: {error,", f'{{failed_to_decode_json,<<"{text}">>}}'
            # Erlang begins a line for what would be too long.
            gap = "" if len(head) + len(term) < erlang.LINE_WIDTH else "\n" + " " * 35
            raise Stopped(UNAVAILABLE, f"Error:\n{head}{gap}{term}}}") from None

    def limits(self, text: str, known: tuple[str, ...], what: str, head: str = "") -> dict[str, int]:
        """Return the limits of a JSON text. Raises Stopped, with RabbitMQ's reason."""
        value = self.mapping(text)
        if not isinstance(value, dict):
            raise Stopped(UNAVAILABLE, f"Error:\n{head}{what} not a list {text}{head[-1:]}")
        try:
            return Item({"value": value}).limits("value", known, what)
        except WrongValue as error:
            raise Stopped(UNAVAILABLE, f"Error:\n{head}{error.reason}{head[-1:]}") from None


Action = Callable[[Call], Result]


NO_SUCH_USER: Final = (UNAVAILABLE, 'Error:\n{{:no_such_user, "{}"}}')


NO_SUCH_VHOST: Final = (UNAVAILABLE, "Error:\nVirtual host {} does not exist")


NO_GRANTEE: Final = (NO_USER, "Error:\nUser {} does not exist")


INVALID: Final = "Validation failed\n\n"


def compact(value: object) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def nothing(_: Call) -> None:
    """Do nothing: the broker runs, or nothing is left to do."""
