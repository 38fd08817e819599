"""Settings of a node: what rabbitmq.conf says, as far as a client sees it, under its names.

Each version's own defaults stand in `compat`; what is set here comes before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from leveret.core.wire.constants import CHANNEL_MAX, FRAME_MAX_SIZE, HEARTBEAT_S

# What it calls itself.
NODE_NAME: Final = "rabbit@leveret"
_INTERCEPTORS: Final = "message_interceptors"
# The names that are no fields: those with dots.
_DOTTED: Final = {
    f"{_INTERCEPTORS}.incoming.set_header_timestamp.overwrite": "overwrites_timestamp",
    f"{_INTERCEPTORS}.incoming.set_header_routing_node.overwrite": "overwrites_routing_node",
}
_MINIMUM: Final = {"frame_max": 8192, "max_message_size": 1, "consumer_timeout": 1}


class NodeSettings(NamedTuple):
    """What one node is set to; None is RabbitMQ's default."""

    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX_SIZE
    heartbeat: int = HEARTBEAT_S
    max_message_size: int | None = None
    # Milliseconds.
    consumer_timeout: int = 1_800_000
    # Limits; None is none.
    connection_max: int | None = None
    channel_max_per_node: int | None = None
    consumer_max_per_channel: int | None = None
    cluster_queue_limit: int | None = None
    cluster_exchange_limit: int | None = None
    # Interceptors of what is published, off while None: whether they replace what is there.
    overwrites_timestamp: bool | None = None
    overwrites_routing_node: bool | None = None

    @classmethod
    def of(cls, lines: Mapping[str, object]) -> NodeSettings:
        """What lines of rabbitmq.conf say; raises ValueError for a value that is none, KeyError for an unknown name."""
        strange = next((name for name in lines if name not in names()), None)
        if strange is not None:
            raise KeyError(strange)
        numbers = {name: _number(name, value) for name, value in lines.items() if name not in _DOTTED}
        switches = {_DOTTED[name]: _boolean(name, value) for name, value in lines.items() if name in _DOTTED}
        given = {**cls._field_defaults, **numbers, **switches}
        return cls._make(given[name] for name in cls._fields)

    @property
    def intercepts_incoming(self) -> bool:
        """Whether messages are changed when they come in."""
        return self.overwrites_timestamp is not None or self.overwrites_routing_node is not None


def names() -> tuple[str, ...]:
    """What can be set."""
    plain = [name for name in NodeSettings._fields if name not in _DOTTED.values()]
    return (*plain, *_DOTTED)


def _number(name: str, value: object) -> int | None:
    if value == "infinity":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < _MINIMUM.get(name, 0):
        least = _MINIMUM.get(name, 0)
        raise ValueError(f"{name} is a whole number from {least} on, not {value!r}")
    return value


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is True or False, not {value!r}")
    return value
