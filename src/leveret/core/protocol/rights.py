"""What the user of one connection may do in its virtual host. Each method raises a refusal or returns."""

from __future__ import annotations

from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.operators.access import Kind, Right, TopicRight
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
        self._access.refuse_unless_permitted(self._user, self._vhost.name, kind, name, right)

    def require_any(self, kind: Kind, name: str) -> None:
        """Refuse a user who has no right at all on a queue or exchange, in versions that require one."""
        if self._compat.passive_declare_needs_a_right:
            self._access.refuse_unless_permitted_any(self._user, self._vhost.name, kind, name)

    def require_topic(self, right: TopicRight, exchange_name: str, routing_keys: tuple[str, ...]) -> None:
        """Refuse routing keys that the user's topic permissions do not cover. Hot: once per publish."""
        if not self._access.topic_permissions:
            return
        exchange = self._vhost.exchanges.get(exchange_name)
        if exchange is None or exchange.TYPE != "topic":
            return
        checked = routing_keys if self._compat.topic_permission_for_every_key else routing_keys[:1]
        for routing_key in checked:
            self._access.refuse_unless_topic_permitted(self._user, self._vhost.name, exchange_name, routing_key, right)

    def refuse_false_user_id(self, user_id: str) -> None:
        """Refuse a user-id property that names another user, unless the user may impersonate others."""
        if user_id != self._user and "impersonator" not in self._access.users[self._user].tags:
            text = f"user_id property set to '{user_id}' but authenticated user was '{self._user}'"
            raise PreconditionFailed(text)
