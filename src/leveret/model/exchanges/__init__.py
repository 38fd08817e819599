"""The exchange types: one row each in `EXCHANGE_TYPES`. A new type is a file beside this one and its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leveret.compat import Compat
from leveret.model import absent
from leveret.model.binding import Destination
from leveret.model.errors import CommandInvalid, PreconditionFailed
from leveret.model.exchanges.default import DefaultExchange
from leveret.model.exchanges.direct import DirectExchange
from leveret.model.exchanges.exchange import Dice, Exchange, Routable, refuse_invalid_alternate_exchange
from leveret.model.exchanges.fanout import FanoutExchange
from leveret.model.exchanges.headers import HeadersExchange
from leveret.model.exchanges.topic import TopicExchange
from leveret.model.exchanges.x_consistent_hash import ConsistentHashExchange
from leveret.model.exchanges.x_delayed_message import DelayedMessageExchange, headers_after_delay
from leveret.model.exchanges.x_local_random import LocalRandomExchange
from leveret.model.exchanges.x_modulus_hash import ModulusHashExchange
from leveret.model.exchanges.x_random import RandomExchange
from leveret.model.exchanges.x_recent_history import RecentHistoryExchange
from leveret.wire.values import Table

EXCHANGE_TYPES: Final[dict[str, type[Exchange]]] = {
    each.TYPE: each
    for each in (
        DirectExchange,
        FanoutExchange,
        TopicExchange,
        HeadersExchange,
        ConsistentHashExchange,
        RandomExchange,
        LocalRandomExchange,
        ModulusHashExchange,
        RecentHistoryExchange,
        DelayedMessageExchange,
    )
}

# Every vhost begins with these: name, type, internal.
PREDECLARED: Final[tuple[tuple[str, str, bool], ...]] = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)

__all__ = [
    "EXCHANGE_TYPES",
    "PREDECLARED",
    "Dice",
    "Exchange",
    "Routable",
    "exchange_type",
    "headers_after_delay",
    "make_default_exchange",
    "make_exchange",
    "refuse_invalid_alternate_exchange",
]


def exchange_type(type_name: str, compat: Compat) -> type[Exchange]:
    """The class of a type; refuses a name that this version of RabbitMQ does not know."""
    if type_name in EXCHANGE_TYPES and type_name not in compat.missing_exchange_types:
        return EXCHANGE_TYPES[type_name]
    absent.refuse_exchange_type(type_name)
    # RabbitMQ says "invalid" for any word its runtime has met before; the empty one is the only word sure to be.
    explanation = f"{'unknown' if type_name else 'invalid'} exchange type '{type_name}'"
    if compat.unknown_exchange_type_is_hard:
        raise CommandInvalid(explanation)
    raise PreconditionFailed(explanation)


def make_exchange(
    type_name: str,
    name: str,
    *,
    durable: bool,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Table = Table.EMPTY,
    dice: Dice,
    compat: Compat,
) -> Exchange:
    """Make an exchange whose type and arguments were checked: `exchange_type`, then its `check_arguments`."""
    return EXCHANGE_TYPES[type_name](
        name,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
        dice=dice,
        compat=compat,
    )


def make_default_exchange(queues: Mapping[str, Destination], *, dice: Dice, compat: Compat) -> DefaultExchange:
    """Make the exchange with the empty name, over a vhost's queues."""
    return DefaultExchange(queues, dice=dice, compat=compat)
