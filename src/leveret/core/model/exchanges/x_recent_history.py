"""The recent-history exchange: a fanout exchange that keeps its last messages for later bindings."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message
from leveret.core.model.queues.arguments import INTEGER_TAGS, integer_of, is_true
from leveret.core.wire.erlang import term
from leveret.core.wire.values import Table

LENGTH: Final = "x-recent-history-length"
NO_STORE: Final = "x-recent-history-no-store"
DEFAULT_LENGTH: Final = 20


class RecentHistoryExchange(Exchange):
    """An exchange that routes to all its bindings and remembers what it routed."""

    __slots__ = ("_kept",)

    type_name = "x-recent-history"
    routes_by_key_alone = False

    # Oldest first.
    _kept: deque[Message]

    @classmethod
    def check_arguments(cls, arguments: Table, compat: Compat) -> None:
        """Refuse a length that is not a positive integer."""
        field = arguments.get(LENGTH)
        if field is None:
            return
        if field.tag not in INTEGER_TAGS or not isinstance(field.value, int) or field.value < 1:
            raise PreconditionFailed(f"Invalid argument {term(field.value)}, '{LENGTH}' must be a positive integer")

    def _prepare(self) -> None:
        self._kept = deque(maxlen=integer_of(self.arguments, LENGTH) or DEFAULT_LENGTH)

    def route(self, message: Message) -> Sequence[Destination]:
        """Return all destinations; keep the message, even if there are none."""
        headers = message.headers
        if headers is None or not is_true(headers, NO_STORE):
            self._kept.append(message)
        return [binding.destination for binding in self.bindings.values()]

    def on_bound(self, binding: Binding) -> Sequence[Message]:
        """Return the kept messages, for the destination of the new binding."""
        return tuple(self._kept)
