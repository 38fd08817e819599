"""The default exchange: every queue is bound to it under its own name, and no other binding is possible.

It keeps no bindings. It looks queues up in the vhost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leveret.core.compat import Compat
from leveret.core.model.binding import Destination
from leveret.core.model.exchanges.exchange import Dice, Exchange, ExchangeDeclaration
from leveret.core.model.message import Message


class DefaultExchange(Exchange):
    """The exchange with the empty name; `queues` is the vhost's own mapping."""

    __slots__ = ("_queues",)

    type_name = "direct"

    def __init__(self, queues: Mapping[str, Destination], *, dice: Dice, compat: Compat) -> None:
        super().__init__(ExchangeDeclaration("", self.type_name), dice=dice, compat=compat)
        self._queues = queues

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the queues named by the message's routing keys."""
        queues = self._queues
        return [queues[key] for key in message.routing_keys if key in queues]
