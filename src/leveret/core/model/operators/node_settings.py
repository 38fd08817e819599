"""The settings of a node: the part of rabbitmq.conf that clients can observe, under RabbitMQ's names.

The defaults of each version are in `compat`; these settings override them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from leveret.core.compat import EXTERNAL
from leveret.core.wire.constants import CHANNEL_MAX, FRAME_MAX_SIZE, HEARTBEAT_S

# The name of the node.
NODE_NAME: Final = "rabbit@leveret"
_INTERCEPTORS: Final = "message_interceptors"
# The names with dots, which cannot be fields, and the fields that stand for them.
_DOTTED: Final = {
    f"{_INTERCEPTORS}.incoming.set_header_timestamp.overwrite": "overwrites_timestamp",
    f"{_INTERCEPTORS}.incoming.set_header_routing_node.overwrite": "overwrites_routing_node",
}
_LOOPBACK_USERS: Final = "loopback_users"
# The settings that are one of several words.
_WORDS: Final = {"ssl_cert_login_from": ("distinguished_name", "common_name")}
_MINIMUM: Final = {"frame_max": 8192, "max_message_size": 1, "consumer_timeout": 1}


class NodeSettings(NamedTuple):
    """The settings of one node; None means RabbitMQ's default."""

    channel_max: int = CHANNEL_MAX
    frame_max: int = FRAME_MAX_SIZE
    heartbeat: int = HEARTBEAT_S
    max_message_size: int | None = None
    # In milliseconds.
    consumer_timeout: int = 1_800_000
    # Limits; None means unlimited.
    connection_max: int | None = None
    channel_max_per_node: int | None = None
    consumer_max_per_channel: int | None = None
    cluster_queue_limit: int | None = None
    cluster_exchange_limit: int | None = None
    # Interceptors of published messages: whether they overwrite an existing value. None turns them off.
    overwrites_timestamp: bool | None = None
    overwrites_routing_node: bool | None = None
    # The users who may log in on this machine only.
    loopback_users: tuple[str, ...] = ("guest",)
    # The login mechanisms to offer, if the version and its plugins have them.
    auth_mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "ANONYMOUS")
    # What of a certificate is the name of the user.
    ssl_cert_login_from: str = "distinguished_name"

    @classmethod
    def from_lines(cls, lines: Mapping[str, object]) -> NodeSettings:
        """Return the settings for lines of rabbitmq.conf.

        Raises ValueError for an invalid value and KeyError for an unknown name.
        """
        groups = {group: {name: value for name, value in lines.items() if _group(name) == group} for group in _GROUPS}
        words = {name: _word(name, lines[name], known) for name, known in _WORDS.items() if name in lines}
        others = {name: value for name, value in lines.items() if _group(name) not in groups and name not in words}
        unknown = next((name for name in others if name not in names()), None)
        if unknown is not None:
            raise KeyError(unknown)
        numbers = {name: _number(name, value) for name, value in others.items() if name not in _DOTTED}
        switches = {_DOTTED[name]: _boolean(name, value) for name, value in others.items() if name in _DOTTED}
        lists = {group: _GROUPS[group](own) for group, own in groups.items() if own}
        given = {**cls._field_defaults, **numbers, **switches, **words, **lists}
        return cls._make(given[name] for name in cls._fields)

    def without_external(self) -> NodeSettings:
        """Return the same without EXTERNAL, which RabbitMQ offers only with its plugin."""
        return self._replace(auth_mechanisms=tuple(name for name in self.auth_mechanisms if name != EXTERNAL))

    @property
    def intercepts_incoming(self) -> bool:
        """Whether messages are changed when they arrive."""
        return self.overwrites_timestamp is not None or self.overwrites_routing_node is not None


def names() -> tuple[str, ...]:
    """Return the names of all settings."""
    plain = [name for name in NodeSettings._fields if name not in _DOTTED.values()]
    return (*plain, *_DOTTED)


def _loopback_users(lines: Mapping[str, object]) -> tuple[str, ...]:
    """Return the users that `loopback_users.NAME` names. As in RabbitMQ, such a line replaces the default."""
    marks = dict(lines)
    word = marks.pop(_LOOPBACK_USERS, "none")
    if word != "none":
        raise ValueError(f'{_LOOPBACK_USERS} must be "none", not {word!r}; name a user with {_LOOPBACK_USERS}.NAME')
    users = [name.partition(".")[2] for name, value in marks.items() if _boolean(name, value)]
    return () if _LOOPBACK_USERS in lines else tuple(users)


def _auth_mechanisms(lines: Mapping[str, object]) -> tuple[str, ...]:
    if "auth_mechanisms" in lines:
        raise ValueError("auth_mechanisms is a list; write a line for each, as in auth_mechanisms.1")
    return tuple(_word(name, value, (*NodeSettings().auth_mechanisms, EXTERNAL)) for name, value in lines.items())


def _group(name: str) -> str:
    return name.partition(".")[0]


def _word(name: str, value: object, known: Collection[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    return value


def _number(name: str, value: object) -> int | None:
    if value == "infinity":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < _MINIMUM.get(name, 0):
        least = _MINIMUM.get(name, 0)
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return value


# The settings that several lines with dots make up.
_GROUPS: Final = {_LOOPBACK_USERS: _loopback_users, "auth_mechanisms": _auth_mechanisms}
