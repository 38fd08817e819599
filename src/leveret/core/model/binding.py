"""A binding: from an exchange to a queue or another exchange, with a routing key and arguments.

A binding knows its two ends and its identity. The exchange type interprets its key and arguments.
"""

from __future__ import annotations

from typing import Literal, Protocol

from leveret.core.wire.values import Field, Table

DestinationKind = Literal["queue", "exchange"]
# Destination kind, destination name, routing key, arguments sorted by name.
BindingKey = tuple[DestinationKind, str, str, tuple[tuple[str, Field], ...]]


class Destination(Protocol):
    """The destination of a binding: a queue or an exchange."""

    @property
    def name(self) -> str:
        """Its name in the vhost."""

    @property
    def is_queue(self) -> bool:
        """Whether it is a queue rather than an exchange."""

    @property
    def type_name(self) -> str:
        """The type of the queue or exchange, such as "classic" or "topic"."""


def binding_key(destination: Destination, routing_key: str, arguments: Table) -> BindingKey:
    """Return the identity of a binding among those of its exchange.

    The order of the arguments does not matter. Their wire types do: `I` 1 and `l` 1 make two bindings (seen on 4.3).
    """
    kind: DestinationKind = "queue" if destination.is_queue else "exchange"
    return kind, destination.name, routing_key, tuple(sorted(arguments.entries, key=lambda entry: entry[0]))


class Binding:
    """One binding of an exchange to a destination."""

    __slots__ = ("arguments", "destination", "key", "routing_key", "source_name")

    def __init__(self, source_name: str, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.source_name = source_name
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        # Identifies it among the bindings of its source.
        self.key: BindingKey = binding_key(destination, routing_key, arguments)

    @property
    def destination_kind(self) -> DestinationKind:
        """The kind of its destination: "queue" or "exchange"."""
        return self.key[0]
