"""Users, and their permissions in each vhost.

A permission is three patterns, each searched anywhere in a resource's name. The default exchange is checked and shown
as "amq.default". Topic permissions are checked after the permissions on the exchange, and only narrow them. Nearly
every test runs as guest with full permissions, so that case is answered before any pattern is matched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from leveret.core.compat import V4_3, Compat

if TYPE_CHECKING:
    from leveret.core.model.operators.passwords import PasswordHash

Kind = Literal["queue", "exchange"]
Right = Literal["configure", "write", "read"]
# Refuses if the user lacks this right on the queue or exchange with this name.
Rights = Callable[[Right, Kind, str], None]
TopicRight = Literal["write", "read"]
RIGHTS: Final[tuple[Right, ...]] = ("configure", "write", "read")
# The limits that an operator may set. A negative number means unlimited, 0 allows none.
USER_LIMITS: Final = ("max-connections", "max-channels")
VHOST_LIMITS: Final = ("max-connections", "max-queues")

_EVERYTHING: Final = ".*"
_GUEST: Final = "guest"


class User:
    """One user. A user with neither a password nor a password hash cannot log in."""

    __slots__ = ("limits", "name", "password", "password_hash", "tags")

    def __init__(
        self,
        name: str,
        password: str | None = None,
        tags: tuple[str, ...] = (),
        limits: dict[str, int] | None = None,
        password_hash: PasswordHash | None = None,
    ) -> None:
        self.name = name
        self.password = password
        self.tags = tags
        # By their names in `USER_LIMITS`.
        self.limits = {} if limits is None else limits
        # Replaces the password of a user that was imported from definitions.
        self.password_hash = password_hash

    def has_password(self, password: str) -> bool:
        """Return whether this is the user's password; an empty password never is."""
        if self.password is None and self.password_hash is not None:
            return bool(password) and self.password_hash.matches(password)
        return bool(password) and self.password == password

    def limit(self, name: str) -> int | None:
        """Return the limit with this name, None if unlimited."""
        number = self.limits.get(name, -1)
        return number if number >= 0 else None


class Permission(NamedTuple):
    """A user's permission on one vhost: three patterns as they were given, in the order of `RIGHTS`."""

    configure: str
    write: str
    read: str

    def allows(self, right: Right, name: str, *, is_pcre2: bool) -> bool:
        """Return whether the pattern of this right is found in the name."""
        return _is_match(self[RIGHTS.index(right)], name, is_pcre2=is_pcre2)


# The permission that nearly every user has. It allows everything, so no name needs to be matched.
FULL: Final = Permission(_EVERYTHING, _EVERYTHING, _EVERYTHING)


class TopicPermission(NamedTuple):
    """The routing keys that a user may publish and bind with on one topic exchange."""

    write: str
    read: str

    def allows(self, right: TopicRight, routing_key: str, values: Mapping[str, str], compat: Compat) -> bool:
        """Return whether the pattern of this right is found in the key; `values` replace "{username}" and the like."""
        pattern = self.write if right == "write" else self.read
        for name, value in values.items():
            pattern = pattern.replace(f"{{{name}}}", re.escape(value) if compat.escapes_topic_values else value)
        try:
            return _is_match(pattern, routing_key, is_pcre2=compat.has_pcre2)
        except re.error:
            # The values have made it invalid.
            return False


class Access:
    """The users of a node, their permissions, and the global parameters."""

    __slots__ = ("_compat", "global_parameters", "permissions", "topic_permissions", "users", "version")

    def __init__(self, compat: Compat = V4_3) -> None:
        self._compat = compat
        self.global_parameters: dict[str, object] = {"cluster_tags": []} if "cluster_tags" in compat.overview else {}
        # Counts changes, so that callers know when a remembered right is stale.
        self.version = 0
        self.users: dict[str, User] = {}
        # By vhost and user. Those that allow everything are `FULL` itself.
        self.permissions: dict[tuple[str, str], Permission] = {}
        # By vhost and user, then by exchange.
        self.topic_permissions: dict[tuple[str, str], dict[str, TopicPermission]] = {}
        self.users[_GUEST] = User(_GUEST, _GUEST, ("administrator",))
        self.permissions["/", _GUEST] = FULL

    def set_user(self, name: str, password: str | None = None, tags: tuple[str, ...] = ()) -> User:
        """Add a user, or replace the password and tags of an existing one; the limits stay."""
        self.version += 1
        previous = self.users.get(name)
        self.users[name] = User(name, password, tags, {} if previous is None else previous.limits)
        return self.users[name]

    def put_user(self, user: User) -> None:
        """Add a complete user, replacing any user with the same name."""
        self.version += 1
        self.users[user.name] = user

    def set_tags(self, name: str, tags: tuple[str, ...]) -> None:
        """Replace the tags of a user. Raises KeyError if the user does not exist."""
        self.version += 1
        self.users[name].tags = tags

    def delete_user(self, name: str) -> None:
        """Delete a user and all their permissions. Raises KeyError if the user does not exist."""
        self.version += 1
        del self.users[name]
        self._forget(lambda key: key[1] == name)

    def forget_vhost(self, vhost_name: str) -> None:
        """Drop all permissions on a deleted vhost."""
        self.version += 1
        self._forget(lambda key: key[0] == vhost_name)

    def _forget(self, is_gone: Callable[[tuple[str, str]], bool]) -> None:
        for key in filter(is_gone, list(self.permissions)):
            self.clear_permission(*key)
        for key in filter(is_gone, list(self.topic_permissions)):
            del self.topic_permissions[key]

    def set_permission(
        self,
        vhost_name: str,
        user: str,
        *,
        configure: str = _EVERYTHING,
        write: str = _EVERYTHING,
        read: str = _EVERYTHING,
    ) -> None:
        """Set a user's three patterns on a vhost. The caller has checked that they are valid."""
        self.version += 1
        permission = Permission(configure, write, read)
        self.permissions[vhost_name, user] = FULL if permission == FULL else permission

    def clear_permission(self, vhost_name: str, user: str) -> None:
        """Remove a user's permission on a vhost. Raises KeyError if there is none."""
        self.version += 1
        del self.permissions[vhost_name, user]

    def set_topic_permission(self, vhost_name: str, user: str, exchange: str, *, write: str, read: str) -> None:
        """Limit a user to some routing keys of a topic exchange. The caller has checked that the patterns are valid."""
        self.version += 1
        self.topic_permissions.setdefault((vhost_name, user), {})[exchange] = TopicPermission(write, read)

    def clear_topic_permission(self, vhost_name: str, user: str, exchange: str | None = None) -> None:
        """Remove a user's topic permission on one exchange, or on all exchanges of the vhost."""
        self.version += 1
        if exchange is None:
            self.topic_permissions.pop((vhost_name, user), None)
        else:
            self.topic_permissions.get((vhost_name, user), {}).pop(exchange, None)

    def authenticate(self, name: str, password: str) -> User | None:
        """Return the user with this name and password, None if they do not match. An empty password never matches."""
        user = self.users.get(name)
        return user if user is not None and user.has_password(password) else None

    def may_open(self, user: str, vhost_name: str) -> bool:
        """Return whether a user has a permission on a vhost, even one that allows nothing."""
        return (vhost_name, user) in self.permissions

    def may(self, user: str, vhost_name: str, kind: Kind, name: str, right: Right) -> bool:
        """Return whether a user has a right on a queue or exchange. Hot: once per publish."""
        permission = self.permissions.get((vhost_name, user))
        if permission is None or permission is FULL:
            return permission is FULL
        return permission.allows(right, checked_name(kind, name), is_pcre2=self._compat.has_pcre2)

    def may_use_topic(self, user: str, vhost_name: str, exchange: str, routing_key: str, right: TopicRight) -> bool:
        """Return whether a user may write or read a routing key of a topic exchange.

        A user without a topic permission may use all keys.
        """
        restricted = self.topic_permissions.get((vhost_name, user))
        permission = None if restricted is None else restricted.get(exchange)
        if permission is None:
            return True
        values = {"username": user, "vhost": vhost_name}
        return permission.allows(right, routing_key, values, self._compat)


def checked_name(kind: Kind, name: str) -> str:
    """Return the name by which permissions know a queue or exchange."""
    return name or "amq.default" if kind == "exchange" else name


def _is_match(pattern: str, name: str, *, is_pcre2: bool) -> bool:
    from leveret.core.model.operators.patterns import name_pattern, octets

    # RabbitMQ reads an empty pattern as "^$".
    return name_pattern(pattern or "^$", is_pcre2=is_pcre2).search(octets(name)) is not None
