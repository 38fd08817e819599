"""A binding: from an exchange to a queue or another exchange, under a routing key and arguments.

A binding knows its two ends and what identifies it. What its key and arguments mean is the exchange type's business.
"""

from __future__ import annotations

from typing import Literal, Protocol

from leveret.core.wire.values import Field, Table

DestinationKind = Literal["queue", "exchange"]
# Destination kind, destination name, routing key, arguments in order of their names.
BindingKey = tuple[DestinationKind, str, str, tuple[tuple[str, Field], ...]]


class Destination(Protocol):
    """Where a binding may lead: a queue or an exchange."""

    @property
    def name(self) -> str:
        """Its name in the vhost."""

    @property
    def is_queue(self) -> bool:
        """Whether it is a queue; otherwise it is an exchange."""

    @property
    def type_name(self) -> str:
        """A queue's or exchange's type, such as "classic" or "topic"."""


def binding_key(destination: Destination, routing_key: str, arguments: Table) -> BindingKey:
    """What tells a binding from the others of its exchange.

    The order of arguments is no part of it, their wire types are: `I` 1 and `l` 1 make two bindings (seen on 4.3).
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
    def destination_name(self) -> str:
        """The queue's or exchange's name."""
        return self.destination.name

    @property
    def destination_kind(self) -> DestinationKind:
        """What the destination is: "queue" or "exchange"."""
        return self.key[0]

    def __repr__(self) -> str:
        """Source, destination and key, as one reads them."""
        ends = f"{self.source_name!r} -> {self.destination_kind} {self.destination_name!r}"
        return f"<Binding {ends} by {self.routing_key!r}>"
