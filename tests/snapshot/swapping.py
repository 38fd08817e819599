"""A broker that goes on as its own copy after every turn of its loop.

If a part of the state cannot be copied, what clients get differs from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.engine.copying import copier
from leveret.server.tls import TlsConversation

if TYPE_CHECKING:
    from leveret import Broker


class Swapping:
    """Swaps the node of a broker, with its faults and connections, after each turn."""

    def __init__(self, broker: Broker) -> None:
        self.swap_count = 0
        self._engine = broker._engine
        loop = self._engine.loop
        self._tidy = loop.after_turn
        loop.after_turn = self._turned

    def _turned(self, timeout: float | None) -> float | None:
        self._swap()
        return timeout if self._tidy is None else self._tidy(timeout)

    def _swap(self) -> None:
        engine, loop = self._engine, self._engine.loop
        transports = loop.transports
        conversations = [getattr(transport.conversation, "inner", transport.conversation) for transport in transports]
        rules = [] if engine._faults is None else engine._faults.rules
        kept = [engine, engine.node.internal_errors, *rules]
        graph = engine.node, engine._faults, conversations, loop.dirty
        engine.node, engine._faults, conversations, loop.dirty = copier(graph, kept)(None)
        loop.host = engine.node
        for transport, conversation in zip(transports, conversations, strict=True):
            if isinstance(transport.conversation, TlsConversation):
                transport.conversation.inner = conversation
                transport.conversation._dirty = loop.dirty
            else:
                transport.conversation = conversation
        loop._by_conversation = {transport.conversation: transport for transport in transports}
        self.swap_count += 1
