"""What the user of one connection may do in its virtual host. Each method raises a refusal or returns."""

from __future__ import annotations

from leveret.core.model.errors import AccessRefused, PreconditionFailed
from leveret.core.model.operators.access import RIGHTS, Kind, Right, TopicRight, checked_name
from leveret.core.model.vhost import VirtualHost


class UserRights:
    """The rights of a user in a vhost.

    They are looked up each time, because they may change while the connection is open.
    """

    __slots__ = ("_access", "_compat", "_user", "_vhost")

    def __init__(self, user: str, vhost: VirtualHost) -> None:
        self._user = user
        self._vhost = vhost
        self._access = vhost.node.access
        self._compat = vhost.node.compat

    def require(self, right: Right, kind: Kind, name: str) -> None:
        """Refuse unless the user has a right on a queue or exchange. Hot: once per publish."""
        if not self._access.may(self._user, self._vhost.name, kind, name, right):
            refusal = self._refusal(right, f"{kind} '{checked_name(kind, name)}'")
            raise refusal.about("no_right", right=right, name=name, vhost=self._vhost.name, user=self._user)

    def require_any(self, kind: Kind, name: str) -> None:
        """Refuse a user who has no right at all on a queue or exchange, in versions that require one."""
        user, vhost_name = self._user, self._vhost.name
        if not self._compat.passive_declare_needs_a_right:
            return
        if not any(self._access.may(user, vhost_name, kind, name, right) for right in RIGHTS):
            self.require("configure", kind, name)

    def require_topic(self, right: TopicRight, exchange_name: str, routing_keys: tuple[str, ...]) -> None:
        """Refuse routing keys that the user's topic permissions do not cover. Hot: once per publish."""
        if not self._access.topic_permissions:
            return
        exchange = self._vhost.exchanges.get(exchange_name)
        if exchange is None or exchange.type_name != "topic":
            return
        checked = routing_keys if self._compat.topic_permission_for_every_key else routing_keys[:1]
        for routing_key in checked:
            if not self._access.may_use_topic(self._user, self._vhost.name, exchange_name, routing_key, right):
                raise self._refusal(right, f"topic '{routing_key}' in exchange '{exchange_name}'")

    def _refusal(self, right: Right, title: str) -> AccessRefused:
        access = f"{right} access" if self._compat.names_refused_right else "access"
        return AccessRefused(f"{access} to {title} in vhost '{self._vhost.name}' refused for user '{self._user}'")

    def refuse_false_user_id(self, user_id: str) -> None:
        """Refuse a user-id property that names another user, unless the user may impersonate others."""
        if user_id != self._user and "impersonator" not in self._access.users[self._user].tags:
            text = f"user_id property set to '{user_id}' but authenticated user was '{self._user}'"
            raise PreconditionFailed(text)
