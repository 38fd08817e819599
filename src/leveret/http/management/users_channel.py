"""The channel on which the management API declares, deletes, binds, purges and gets for a user.

RabbitMQ's management API does all this by methods of AMQP. So here, too, the handlers of these methods decide what is
refused, in which order, and what a name stands for.
"""

from __future__ import annotations

from leveret.core.model.message import Message
from leveret.core.model.operators.access import Kind, Right
from leveret.core.protocol.rights import UserRights
from leveret.core.wire.methods import BasicGetOk, Method
from leveret.scripted.own_connection import OwnChannel, OwnConnection


class UsersChannel(OwnChannel):
    """A channel of the API's own, with the permissions of a user."""

    __slots__ = ("got",)

    def __init__(self, connection: OwnConnection, rights: UserRights) -> None:
        super().__init__(connection, lambda tag, view: None)
        self.rights = connection.rights = rights
        self.is_limited = False
        # The answers to basic.get, with the messages.
        self.got: list[tuple[BasicGetOk, Message, bytes | None]] = []

    def require(self, right: Right, kind: Kind, name: str) -> None:
        """Refuse unless the user has the right."""
        self.rights.require(right, kind, name)

    def send_message(self, method: Method, message: Message, properties_octets: bytes | None = None) -> None:
        """Keep what a client would be sent."""
        assert isinstance(method, BasicGetOk)
        self.got.append((method, message, properties_octets))
