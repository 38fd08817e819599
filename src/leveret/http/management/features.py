"""The feature flags and deprecated features of RabbitMQ's versions, as real servers list them, and the exchange types.

`features.json` holds what 4.3.6, 4.0.5 and 3.10.8 answer with only the management plugin's own flags added.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Final

Described = dict[str, object]

EXCHANGE_TYPE_TEXTS: Final[dict[str, str]] = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-delayed-message": "Delayed Message Exchange.",
    "x-local-random": "Picks one random local binding (queue) to route via (to).",
    "x-modulus-hash": "Modulus Hashing Exchange",
    "x-random": "Randomly picks a binding (queue) to route via (to).",
    "x-recent-history": "Recent History Exchange.",
}


@cache
def _recorded() -> dict[str, dict[str, list[Described]]]:
    text = files(__package__).joinpath("features.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, list[Described]]] = json.loads(text)
    return found


def feature_flags(version: str) -> list[Described]:
    """Return the feature flags of one of the recorded versions."""
    return _recorded()[version]["feature_flags"]


def deprecated_features(version: str) -> list[Described]:
    """Return the deprecated features of one of the recorded versions."""
    return _recorded()[version]["deprecated_features"]
