"""The exchange types: one row each in `EXCHANGE_TYPES`. To add a type, add a file to this folder and a row."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from leveret.core.compat import Compat
from leveret.core.model.errors import CommandInvalid, PreconditionFailed
from leveret.core.model.exchanges.direct import DirectExchange
from leveret.core.model.exchanges.exchange import Exchange, ExchangeDeclaration
from leveret.core.model.exchanges.fanout import FanoutExchange
from leveret.core.model.exchanges.headers import HeadersExchange
from leveret.core.model.exchanges.topic import TopicExchange

# Every type, with the module in this folder and the class.
EXCHANGE_TYPES: Final[dict[str, str]] = {
    "direct": "direct.DirectExchange",
    "fanout": "fanout.FanoutExchange",
    "topic": "topic.TopicExchange",
    "headers": "headers.HeadersExchange",
    "x-consistent-hash": "x_consistent_hash.ConsistentHashExchange",
    "x-random": "x_random.RandomExchange",
    "x-local-random": "x_local_random.LocalRandomExchange",
    "x-modulus-hash": "x_modulus_hash.ModulusHashExchange",
    "x-recent-history": "x_recent_history.RecentHistoryExchange",
    "x-delayed-message": "x_delayed_message.DelayedMessageExchange",
}
# The types that every vhost uses. The others are imported when the first exchange of the type is declared.
_CLASSES: Final[dict[str, type[Exchange]]] = {
    each.type_name: each for each in (DirectExchange, FanoutExchange, TopicExchange, HeadersExchange)
}

# The exchanges of a new vhost.
PREDECLARED: Final = (
    ExchangeDeclaration("amq.direct", "direct"),
    ExchangeDeclaration("amq.fanout", "fanout"),
    ExchangeDeclaration("amq.topic", "topic"),
    ExchangeDeclaration("amq.headers", "headers"),
    ExchangeDeclaration("amq.match", "headers"),
    ExchangeDeclaration("amq.rabbitmq.trace", "topic", internal=True),
)


def exchange_class(type_name: str) -> type[Exchange]:
    """Return the class of an existing type."""
    loaded = _CLASSES.get(type_name)
    if loaded is None:
        module_name, _, class_name = EXCHANGE_TYPES[type_name].partition(".")
        loaded = cast("type[Exchange]", getattr(import_module(f"{__name__}.{module_name}"), class_name))
        _CLASSES[type_name] = loaded
    return loaded


def exchange_type(type_name: str, compat: Compat) -> type[Exchange]:
    """Return the class of a type. Raises AmqpError for a type that this version of RabbitMQ does not know."""
    if type_name in EXCHANGE_TYPES and type_name not in compat.missing_exchange_types:
        return exchange_class(type_name)
    from leveret.core.model import unsupported

    unsupported.refuse("exchange type", type_name, unsupported.EXCHANGE_TYPES)
    # RabbitMQ says "invalid" for any word that is already an atom in its runtime. Only the empty word always is.
    explanation = f"{'unknown' if type_name else 'invalid'} exchange type '{type_name}'"
    if compat.unknown_exchange_type_is_hard:
        raise CommandInvalid(explanation).about("unknown_type", type=type_name)
    raise PreconditionFailed(explanation).about("unknown_type", type=type_name)
