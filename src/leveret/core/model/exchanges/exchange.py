"""What every exchange type shares: the bindings, who may declare and bind, and the shape of `route`.

An exchange knows its own bindings and where they lead. It does not know the vhost: alternate exchanges, bound
exchanges and duplicates are resolved by whoever walks the routes. A type is a subclass that keeps an index of its
bindings (`_prepare`, `_add`, `_remove`) and answers `route`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

from leveret.core.compat import Compat
from leveret.core.model.arguments import refuse_inequivalent, string_of
from leveret.core.model.binding import Binding, BindingKey, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.wire import erlang
from leveret.core.wire.properties import Properties
from leveret.core.wire.values import TYPE_NAMES, Table

T = TypeVar("T")

ALTERNATE_EXCHANGE = "alternate-exchange"
NOWHERE: Sequence[Destination] = ()


class Routable(Protocol):
    """What routing may look at."""

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """The publish key, then CC, then BCC."""

    @property
    def headers(self) -> Table | None:
        """The headers table, None when there is none."""

    @property
    def properties(self) -> Properties:
        """The message's properties."""


class Dice(Protocol):
    """The seeded chance of the node."""

    def choice(self, seq: Sequence[T], /) -> T:
        """One of `seq`, each equally likely."""


class Exchange:
    """A named place where messages are published and from which bindings lead on."""

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
    TYPE: ClassVar[str]
    is_queue: ClassVar[bool] = False
    # Whether `route` depends on nothing but routing keys and bindings, and changes nothing: its answers may be
    # remembered until the bindings change.
    routes_by_key_alone: ClassVar[bool] = True
    # Whether `delay_us` has to be asked before routing.
    can_delay: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        dice: Dice,
        compat: Compat,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.dice = dice
        self.compat = compat
        # Those with this exchange as their source, in order of binding.
        self.bindings: dict[BindingKey, Binding] = {}
        # An auto-delete exchange lives until its last binding goes, so it has to have had one.
        self.has_been_bound = False
        # Where a message goes that no binding matches; looked up by name when it is needed.
        self.alternate_exchange: str | None = string_of(arguments, ALTERNATE_EXCHANGE)
        self._prepare()

    @property
    def type_name(self) -> str:
        """The type's name on the wire."""
        return self.TYPE

    @property
    def is_due_for_deletion(self) -> bool:
        """Whether it is auto-delete and has lost its last binding as a source."""
        return self.auto_delete and self.has_been_bound and not self.bindings

    def __repr__(self) -> str:
        """Type, name and how many bindings it has."""
        return f"<Exchange {self.name!r} ({self.TYPE}), {len(self.bindings)} bindings>"

    @classmethod
    def check_arguments(cls, name: str, vhost_name: str, arguments: Table, compat: Compat) -> None:
        """Refuse arguments of a new exchange that RabbitMQ refuses. A type that overrides this calls it first."""
        refuse_invalid_alternate_exchange(name, vhost_name, arguments)

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse a new binding that this type does not take."""

    def apply_policy(self, definition: Mapping[str, object]) -> None:
        """Take the effective policy; an argument wins over it."""
        own = string_of(self.arguments, ALTERNATE_EXCHANGE)
        by_policy = definition.get(ALTERNATE_EXCHANGE)
        self.alternate_exchange = own if own is not None or not isinstance(by_policy, str) else by_policy

    def bind(self, binding: Binding) -> bool:
        """Add a binding; False when it was there already."""
        if binding.key in self.bindings:
            return False
        self.bindings[binding.key] = binding
        self.has_been_bound = True
        self._add(binding)
        return True

    def unbind(self, key: BindingKey) -> bool:
        """Remove a binding; False when there is none."""
        binding = self.bindings.pop(key, None)
        if binding is None:
            return False
        self._remove(binding)
        return True

    def route(self, message: Routable) -> Sequence[Destination]:
        """Where its own bindings send the message; a destination may be named more than once.

        Hot: once per published message that is not a known repeat.
        """
        raise NotImplementedError

    def on_bound(self, binding: Binding) -> Sequence[Routable]:
        """Messages to deliver to the destination of a new binding, oldest first."""
        return ()

    def delay_us(self, message: Routable) -> int:
        """How long to hold the message back before it is routed; asked only where `can_delay`."""
        return 0

    def refuse_unless_equivalent(
        self, type_name: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table, vhost_name: str
    ) -> None:
        """Refuse a redeclaration that differs; of the arguments only the alternate exchange counts."""
        place = f"exchange '{self.name}' in vhost '{vhost_name}'"
        for field, received, current in (
            ("type", erlang.atom(type_name), erlang.atom(self.TYPE)),
            ("durable", _word(durable), _word(self.durable)),
            ("auto_delete", _word(auto_delete), _word(self.auto_delete)),
            ("internal", _word(internal), _word(self.internal)),
        ):
            if received != current:
                raise PreconditionFailed(
                    f"inequivalent arg '{field}' for {place}: received '{received}' but current is '{current}'"
                )
        refuse_inequivalent(place, (ALTERNATE_EXCHANGE,), arguments, self.arguments)

    def _prepare(self) -> None:
        """Make the type's index, empty. Called last when the exchange is made."""

    def _add(self, binding: Binding) -> None:
        """Put a new binding into the type's index. Called with the binding already in `bindings`."""

    def _remove(self, binding: Binding) -> None:
        """Take a binding out of the type's index. Called with the binding already gone from `bindings`."""


def refuse_invalid_alternate_exchange(name: str, vhost_name: str, arguments: Table) -> None:
    """Refuse an alternate exchange that is not a string.

    RabbitMQ asks for the rights on the alternate exchange after this and before the type checks its own arguments.
    """
    field = arguments.get(ALTERNATE_EXCHANGE)
    if field is not None and field.tag != "S":
        raise PreconditionFailed(
            f"invalid type '{TYPE_NAMES[field.tag]}' for arg 'alternate-exchange' "
            f"in exchange '{name}' in vhost '{vhost_name}'"
        )


def _word(flag: bool) -> str:
    return "true" if flag else "false"
