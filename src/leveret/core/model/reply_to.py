"""Direct reply-to: generated names that lead straight to a requester's channel, without a queue.

A requester consumes from `amq.rabbitmq.reply-to`. Its requests then carry a generated name, and replies are published
to that name through the default exchange. A generated name counts as a route even after its requester has gone (seen on
4.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from leveret.core.model.message import Message

if TYPE_CHECKING:
    from leveret.core.model.ports import ReplyTarget, VirtualHostPort
    from leveret.core.model.runtime import Runtime

NAME: Final = "amq.rabbitmq.reply-to"
PREFIX: Final = NAME + "."


class ReplyQueue:
    """The destination of replies to one requester. Replies that arrive after the requester has gone are lost."""

    is_queue = True
    type_name = "volatile"
    can_refuse_publishers = False
    settles_first_at_commit = False

    __slots__ = ("_vhost", "name", "target")

    def __init__(self, name: str, target: ReplyTarget, vhost: VirtualHostPort) -> None:
        self.name = name
        # The requester's virtual host.
        self._vhost = vhost
        # None once the requester has cancelled its consumer or closed its channel.
        self.target: ReplyTarget | None = target

    def refuses_publisher(self, publisher: object) -> bool:
        """Refuse no publisher."""
        return False

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Send a reply to the requester; replies are never stored and never refused."""
        if self.target is not None:
            self.target.deliver_reply(message)
        else:
            self._vhost.lost(message, "no requester", self.name)
        return True


class ReplyQueues:
    """The generated names of one node, including those whose requester has gone."""

    __slots__ = ("_by_name", "_node")

    def __init__(self, node: Runtime) -> None:
        self._node = node
        self._by_name: dict[str, ReplyQueue] = {}

    def open(self, target: ReplyTarget, vhost: VirtualHostPort) -> ReplyQueue:
        """Generate a name for a requester: a token for its channel, a dot, and a random key."""
        from base64 import b64encode

        channel = b64encode(self._node.random_octets(33)).decode()
        key = b64encode(self._node.random_octets(16)).decode()
        queue = ReplyQueue(f"{PREFIX}{channel}.{key}", target, vhost)
        self._by_name[queue.name] = queue
        return queue

    def find(self, name: str) -> ReplyQueue | None:
        """Return the queue with this generated name, None for a name that this node did not generate."""
        return self._by_name.get(name)

    def cannot_decode(self, name: str) -> bool:
        """Return whether RabbitMQ fails to find a channel in a name: its token is broken or, since 4.3, lacks a key."""
        token, dot, _ = name.removeprefix(PREFIX).partition(".")
        if not dot:
            return self._node.compat.crashes_on_reply_to_without_key
        return not any(known.startswith(f"{PREFIX}{token}.") for known in self._by_name)
