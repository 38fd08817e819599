"""Direct reply-to: generated names that lead straight to a requester's channel, without a queue.

A requester consumes from `amq.rabbitmq.reply-to`. Its requests then carry a generated name, and replies are published
to that name through the default exchange. A generated name counts as a route even after its requester has gone (seen on
4.3).

As on RabbitMQ, a name holds the requester's process in Erlang's external format: what a server answers to a name that
it never generated depends on how far it can decode that.
"""

from __future__ import annotations

from typing import Final

from leveret.core.model.message import Message
from leveret.core.model.ports import ReplyTarget, VirtualHostPort
from leveret.core.model.runtime import Runtime

NAME: Final = "amq.rabbitmq.reply-to"
PREFIX: Final = NAME + "."
# The tags of the format, of a process and of the node's name in it; then the name's length.
_PROCESS: Final = b"\x83Xv"
_SIZE_AT: Final = len(_PROCESS)
_NODE_AT: Final = _SIZE_AT + 2
# Two numbers of the process, and one of its node's start.
_NUMBERS_SIZE: Final = 12


class ReplyQueue:
    """The destination of replies to one requester. Replies that arrive after the requester has gone are lost."""

    is_queue = True
    type_name = "volatile"
    can_refuse_publishers = False
    settles_first_at_commit = False

    __slots__ = ("_vhost", "name", "target")

    def __init__(self, name: str, target: ReplyTarget | None, vhost: VirtualHostPort) -> None:
        self.name = name
        # The virtual host of the requester, or of the publisher to a name without one.
        self._vhost = vhost
        # None if there is no such requester, or once it has cancelled its consumer or closed its channel.
        self.target = target

    @property
    def process(self) -> str:
        """The part of the name that leads to the requester's process, with its dot."""
        return self.name[: self.name.rindex(".") + 1]

    def refuses_publisher(self, publisher: object) -> bool:
        """Refuse no publisher."""
        return False

    def enqueue(self, message: Message, src_copy: int | None = None) -> bool:
        """Send a reply to the requester; replies are never stored and never refused."""
        # A requester that answers itself confirms the reply first; then it finds it among its Erlang messages.
        self._vhost.node.work.append(lambda: self._deliver(message))
        return True

    def _deliver(self, message: Message) -> None:
        if self.target is not None:
            self.target.deliver_reply(message)
        else:
            self._vhost.lost(message, "no requester", self.name)


class ReplyQueues:
    """The generated names of one node, including those whose requester has gone."""

    __slots__ = ("_by_name", "_host", "_node")

    def __init__(self, node: Runtime) -> None:
        self._node = node
        # How names call the node: all of them end in the same hash.
        self._host = b""
        self._by_name: dict[str, ReplyQueue] = {}

    def open(self, target: ReplyTarget, vhost: VirtualHostPort) -> ReplyQueue:
        """Generate a name for a requester: its process, a dot, and a random key."""
        from base64 import b64encode

        random_octets = self._node.random_octets
        if not self._host:
            self._host = b"@%07d" % (int.from_bytes(random_octets(3)) % 10**7)
        host = b"reply" + self._host
        process = _PROCESS + len(host).to_bytes(2) + host + random_octets(_NUMBERS_SIZE)
        token, key = (b64encode(octets).decode() for octets in (process, random_octets(16)))
        queue = ReplyQueue(f"{PREFIX}{token}.{key}", target, vhost)
        self._by_name[queue.name] = queue
        return queue

    def find(self, name: str, vhost: VirtualHostPort) -> ReplyQueue | None:
        """Return the queue with this name as a user of `vhost` sees it; None if the name leads to none.

        Since 4.2 the process in a name is enough: whatever the key is, and even if the process has ended.
        """
        queue = self._by_name.get(name)
        if queue is None and self._node.compat.reply_names_are_queues and name.startswith(PREFIX):
            return None if self.cannot_decode(name) else ReplyQueue(name, None, vhost)
        return queue

    def cannot_decode(self, name: str) -> bool:
        """Return whether RabbitMQ fails to find a process in a name, or since 4.3 a key behind it."""
        from base64 import b64decode

        token, dot, _ = name.removeprefix(PREFIX).partition(".")
        if not token or not dot:
            return self._node.compat.crashes_on_reply_to_without_key
        try:
            process = b64decode(token, validate=True)
        except ValueError:
            return True
        end = _NODE_AT + int.from_bytes(process[_SIZE_AT:_NODE_AT])
        if self._node.compat.crashes_on_reply_to_of_another_node:
            is_exact = process.startswith(_PROCESS) and len(process) == end + _NUMBERS_SIZE
            return not (self._host and is_exact and process[:end].endswith(self._host))
        return process[:2] != _PROCESS[:2] or len(process) < end
