"""The delayed-message exchange: it delays a message by its `x-delay` header, then routes it as another exchange type.

This is RabbitMQ's community plugin, written from its documentation. The exchange only computes the delay. The virtual
host waits and then routes a copy with the headers from `headers_after_delay`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model import exchanges
from leveret.core.model.binding import Binding, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.message import Message
from leveret.core.model.queues.arguments import INTEGER_TAGS, string_of
from leveret.core.wire.values import Field, Table

DELAYED_TYPE: Final = "x-delayed-type"
DELAY: Final = "x-delay"
MAX_DELAY_MS: Final = 4_294_967_295
_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")


class DelayedMessageExchange(Exchange):
    """An exchange that routes as the type named by `x-delayed-type`, after a delay."""

    __slots__ = ("_inner",)

    type_name = "x-delayed-message"
    routes_by_key_alone = False
    can_delay = True

    # It has the same bindings and does the routing.
    _inner: Exchange

    @classmethod
    def check_arguments(cls, arguments: Table, compat: Compat) -> None:
        """Refuse a missing or unknown inner type, and arguments that the inner type refuses."""
        word = string_of(arguments, DELAYED_TYPE)
        if word == cls.type_name:
            raise PreconditionFailed("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'")
        if word not in exchanges.EXCHANGE_TYPES or word in compat.missing_exchange_types:
            raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
        exchanges.exchange_class(word).check_arguments(arguments, compat)

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse bindings that the inner type refuses."""
        self._inner.check_binding(destination, routing_key, arguments, compat)

    def _prepare(self) -> None:
        word = string_of(self.arguments, DELAYED_TYPE)
        assert word is not None, "check_arguments lets no delayed exchange without a type pass"
        wanted = ExchangeDeclaration(self.name, word, arguments=self.arguments)
        self._inner = exchanges.exchange_class(word)(wanted, dice=self.dice, compat=self.compat)

    def _add(self, binding: Binding) -> None:
        self._inner.bind(binding)

    def _remove(self, binding: Binding) -> None:
        self._inner.unbind(binding.key)

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the destinations to which the inner type routes the message."""
        return self._inner.route(message)

    def on_bound(self, binding: Binding) -> Sequence[Message]:
        """Return the messages that the inner type has for a new binding."""
        return self._inner.on_bound(binding)

    def delay_us(self, message: Message) -> int:
        """Return the delay that the message asks for, 0 for none or an invalid one."""
        field = None if message.headers is None else message.headers.get(DELAY)
        delay_ms = None if field is None else _integer(field)
        if delay_ms is None or not 0 < delay_ms <= MAX_DELAY_MS:
            return 0
        return delay_ms * 1000


def headers_after_delay(headers: Table) -> Table:
    """Return the headers of a message after its delay: `x-delay` is negated."""
    field = headers.get(DELAY)
    delay_ms = None if field is None else _integer(field)
    assert delay_ms is not None, "only a message with a delay was delayed"
    tag = "I" if delay_ms <= 2**31 else "l"
    return headers.with_entry(DELAY, Field(tag, -delay_ms))


def _integer(field: Field) -> int | None:
    """Return a number in any of the forms that the plugin accepts, None for anything else."""
    value = field.value
    if field.tag in INTEGER_TAGS and isinstance(value, int):
        return value
    if isinstance(value, float):
        return round(value)
    if isinstance(value, bytes) and _INTEGER.fullmatch(value):
        return int(value)
    return None
