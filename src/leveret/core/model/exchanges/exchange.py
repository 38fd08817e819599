"""The base of every exchange type: the bindings, the checks of declarations and bindings, and the signature of `route`.

An exchange knows its own bindings and their destinations. It does not know the vhost: `routing.walk` resolves alternate
exchanges, bound exchanges and duplicates. A type is a subclass that keeps an index of its bindings (`_prepare`, `_add`,
`_remove`) and implements `route`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, BindingKey, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.message import Message
from leveret.core.model.queues.arguments import refuse_inequivalent, string_of
from leveret.core.wire import erlang
from leveret.core.wire.values import Table

T = TypeVar("T")

ALTERNATE_EXCHANGE = "alternate-exchange"
NOWHERE: Sequence[Destination] = ()


class Dice(Protocol):
    """The seeded chance of the node; `random.Random` implements it."""

    def choice(self, seq: Sequence[T], /) -> T:
        """Return one element of `seq`, each equally likely."""

    def randbytes(self, n: int, /) -> bytes:
        """Return `n` random bytes."""


class ExchangeDeclaration(NamedTuple):
    """The fields of one exchange.declare."""

    name: str
    type_name: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = Table.EMPTY


class Exchange:
    """A named exchange with its bindings."""

    __slots__ = (
        "alternate_exchange",
        "arguments",
        "auto_delete",
        "bindings",
        "compat",
        "dice",
        "durable",
        "has_been_bound",
        "internal",
        "name",
    )

    # The type's name on the wire.
    type_name: ClassVar[str]
    is_queue: ClassVar[bool] = False
    # Whether `route` depends only on routing keys and bindings and has no side effects, so that its result may be
    # remembered until the bindings change.
    routes_by_key_alone: ClassVar[bool] = True
    # Whether `delay_us` must be called before routing.
    can_delay: ClassVar[bool] = False

    def __init__(self, wanted: ExchangeDeclaration, *, dice: Dice, compat: Compat) -> None:
        self.name = wanted.name
        self.durable = wanted.durable
        self.auto_delete = wanted.auto_delete
        self.internal = wanted.internal
        self.arguments = wanted.arguments
        self.dice = dice
        self.compat = compat
        # The bindings with this exchange as their source, in order of creation.
        self.bindings: dict[BindingKey, Binding] = {}
        # An auto-delete exchange is deleted with its last binding, so only after it has had one.
        self.has_been_bound = False
        # The destination of messages that no binding matches, looked up by name when it is needed.
        self.alternate_exchange: str | None = string_of(wanted.arguments, ALTERNATE_EXCHANGE)
        self._prepare()

    @property
    def is_due_for_deletion(self) -> bool:
        """Whether it is auto-delete and has lost its last binding as a source."""
        return self.auto_delete and self.has_been_bound and not self.bindings

    @classmethod
    def check_arguments(cls, arguments: Table, compat: Compat) -> None:
        """Refuse arguments of this type that RabbitMQ refuses in a new exchange."""

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse a new binding that this type does not accept."""

    def apply_policy(self, definition: Mapping[str, object]) -> None:
        """Apply the effective policy; an argument overrides it."""
        own = string_of(self.arguments, ALTERNATE_EXCHANGE)
        by_policy = definition.get(ALTERNATE_EXCHANGE)
        self.alternate_exchange = own if own is not None or not isinstance(by_policy, str) else by_policy

    def bind(self, binding: Binding) -> bool:
        """Add a binding; return False if it exists already."""
        if binding.key in self.bindings:
            return False
        self.bindings[binding.key] = binding
        self.has_been_bound = True
        self._add(binding)
        return True

    def unbind(self, key: BindingKey) -> bool:
        """Remove a binding; return False if it does not exist."""
        binding = self.bindings.pop(key, None)
        if binding is None:
            return False
        self._remove(binding)
        return True

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the destinations of a message by this exchange's own bindings; one may occur more than once.

        Hot: once per published message that is not a known repeat.
        """
        raise NotImplementedError

    def on_bound(self, binding: Binding) -> Sequence[Message]:
        """Return messages to deliver to the destination of a new binding, oldest first."""
        return ()

    def delay_us(self, message: Message) -> int:
        """Return how long to hold the message back before routing it; called only if `can_delay`."""
        return 0

    def refuse_unless_equivalent(self, wanted: ExchangeDeclaration, vhost_name: str) -> None:
        """Refuse a redeclaration that differs. Among the arguments, only the alternate exchange is compared."""
        title = f"exchange '{self.name}' in vhost '{vhost_name}'"
        for field, received, current in (
            ("type", erlang.atom(wanted.type_name), erlang.atom(self.type_name)),
            ("durable", _word(wanted.durable), _word(self.durable)),
            ("auto_delete", _word(wanted.auto_delete), _word(self.auto_delete)),
            ("internal", _word(wanted.internal), _word(self.internal)),
        ):
            if received != current:
                raise PreconditionFailed(
                    f"inequivalent arg '{field}' for {title}: received '{received}' but current is '{current}'"
                ).about("inequivalent", kind="exchange", name=self.name)
        refuse_inequivalent(
            title, (ALTERNATE_EXCHANGE,), wanted.arguments, self.arguments, "exchange", self.name, self.compat
        )

    def _prepare(self) -> None:
        """Make the type's index, empty. Called last in the constructor."""

    def _add(self, binding: Binding) -> None:
        """Add a new binding to the type's index. The binding is already in `bindings`."""

    def _remove(self, binding: Binding) -> None:
        """Remove a binding from the type's index. The binding is no longer in `bindings`."""


def _word(flag: bool) -> str:
    return "true" if flag else "false"
