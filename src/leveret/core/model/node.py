"""The whole broker without I/O: virtual hosts, users, connections, alarms and limits, on the runtime they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from leveret.core.compat import Compat
from leveret.core.hooks import Hooks
from leveret.core.model.errors import ConnectionForced, NotAllowed, PreconditionFailed, Shutdown
from leveret.core.model.exchanges.exchange import Dice
from leveret.core.model.operators.access import Access
from leveret.core.model.operators.node_settings import NODE_NAME, NodeSettings
from leveret.core.model.ports import ConnectionPort
from leveret.core.model.reply_to import ReplyQueues
from leveret.core.model.runtime import Runtime
from leveret.core.model.vhost import VirtualHost

if TYPE_CHECKING:
    from leveret.core.model.event_exchange import EventExchange
    from leveret.trace.caller import Caller


class Reacts(Protocol):
    """How a client reacts to an error of a publish."""

    @property
    def is_seen(self) -> bool:
        """Whether the code under test has seen the error, as far as the broker can know."""

    def ended(self) -> None:
        """Note that the connection or the test ends."""


class Node(Runtime):
    """The whole state of a broker."""

    def __init__(
        self,
        *,
        compat: Compat,
        dice: Dice,
        now: int = 0,
        hooks: Hooks | None = None,
        permit: frozenset[str] = frozenset(),
        settings: NodeSettings | None = None,
    ) -> None:
        super().__init__(compat=compat, dice=dice, now=now, hooks=hooks, permit=permit, settings=settings)
        # Add no attribute for what is rare: from the 30th on, CPython 3.11 reads each of a node's more slowly (1 % of a
        # message; see benchmarks/instructions.py).
        self.access = Access(compat)
        # Resources whose alarm is on ("memory", "disk"). An alarm blocks publishers.
        self.alarms: dict[str, None] = {}
        # The maximum size of a body in bytes.
        self.max_message_size = self.settings.max_message_size or compat.max_message_size
        self.reply_queues = ReplyQueues(self)
        # The open connections by number, oldest first.
        self.connections: dict[int, ConnectionPort] = {}
        # Bugs of leveret itself, kept for the test.
        self.internal_errors: list[BaseException] = []
        # The other protocols that peers spoke, each with the line of the user's code that waited for the last one.
        self.strangers: dict[str, Caller | None] = {}
        # How clients react to the errors of publishes, by connection, channel and time of the error.
        self.reactions: dict[tuple[int, int, int], Reacts] = {}
        # The messages that were returned to clients that are known to drop them.
        self.ignored_returns: dict[int, None] = {}
        self.vhosts: dict[str, VirtualHost] = {}
        # The parts of the definitions that it began with, None without any (see the check `not_in_definitions`).
        self.defined: frozenset[tuple[str, ...]] | None = None
        # The plugin's exchange amq.rabbitmq.event, None unless enabled.
        self.event_exchange: EventExchange | None = None
        self.add_vhost("/", description="Default virtual host")

    @property
    def global_parameters(self) -> dict[str, object]:
        """What an operator keeps for the cluster as a whole. Of these, leveret reads the name of the cluster."""
        return self.access.global_parameters

    @property
    def cluster_name(self) -> str:
        """The name of the cluster, by default that of the node."""
        return str(self.global_parameters.get("cluster_name", NODE_NAME))

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The login mechanisms that clients with TLS are offered, in this order."""
        return tuple(name for name in self.compat.mechanisms if name in self.settings.auth_mechanisms)

    def add_vhost(
        self,
        name: str,
        *,
        default_queue_type: str = "classic",
        description: str | None = "",
        tags: tuple[str, ...] = (),
    ) -> VirtualHost:
        """Return the virtual host with this name, creating it if needed."""
        if name not in self.vhosts:
            vhost = self.vhosts[name] = VirtualHost(self, name, default_queue_type=default_queue_type)
            vhost.description, vhost.tags = description, tags
            if self.event_exchange is not None:
                self.event_exchange.vhost_created(vhost)
        return self.vhosts[name]

    def set_global_parameter(self, name: str, value: object) -> None:
        """Keep a value of JSON. An empty object becomes an empty list, as in Erlang."""
        self.global_parameters[name] = [] if value == {} else value

    def announce(self, event: str, **details: object) -> None:
        """Publish what an operator or a login has changed to the event exchange, if it exists."""
        if self.event_exchange is not None:
            self.event_exchange.emit(event, details)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with its contents, and close its connections. Raises KeyError if it does not exist."""
        vhost = self.vhosts[name]
        for queue in list(vhost.queues.values()):
            vhost.remove_queue(queue, "vhost_deleted")
        # Clients hear that their consumers are cancelled before the end of the connection (seen on 3.10, 4.0 and 4.3).
        self.run_work()
        for connection in self.connections_of(vhost_name=name):
            connection.shut_down(ConnectionForced(f"vhost '{name}' is deleted"))
        del self.vhosts[name]
        self.access.forget_vhost(name)
        if self.event_exchange is not None:
            self.event_exchange.vhost_deleted(name)

    def connections_of(self, *, vhost_name: str | None = None, user: str | None = None) -> list[ConnectionPort]:
        """Return the open connections of a vhost, of a user, or of both."""
        return [
            connection
            for connection in self.connections.values()
            if vhost_name in (None, connection.vhost_name) and user in (None, connection.user)
        ]

    def refuse_beyond_limits(self, user_name: str, vhost_name: str) -> None:
        """Refuse a connection beyond the limit of its vhost or user. Raises NotAllowed."""
        user = self.access.users[user_name]
        limit = user.limit("max-connections")
        if limit is not None and len(self.connections_of(user=user_name)) >= limit:
            text = f"connection refused for user '{user_name}': user connection limit ({limit}) is reached"
            raise NotAllowed(text)
        limit = self.vhosts[vhost_name].limits.get("max-connections", -1)
        if 0 <= limit <= len(self.connections_of(vhost_name=vhost_name)):
            refusal = f"access to vhost '{vhost_name}' refused for user '{user_name}'"
            raise NotAllowed(f"{refusal}: connection limit ({limit}) is reached")

    def refuse_another_connection(self) -> None:
        """Refuse a connection beyond the limit of the node. Raises NotAllowed."""
        limit = self.settings.connection_max
        if limit is not None and len(self.connections) >= limit:
            raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")

    def refuse_another_queue(self, name: str) -> None:
        """Refuse a queue beyond the limit for all virtual hosts together. Raises PreconditionFailed."""
        limit = self.settings.cluster_queue_limit
        if limit is not None and sum(len(vhost.queues) for vhost in self.vhosts.values()) >= limit:
            text = f"cannot declare queue '{name}': queue limit in cluster ({limit}) is reached"
            raise PreconditionFailed(text)

    def refuse_another_exchange(self, name: str, vhost_name: str) -> None:
        """Refuse an exchange beyond the limit for all virtual hosts together. Raises PreconditionFailed."""
        limit = self.settings.cluster_exchange_limit
        if limit is not None and sum(len(vhost.exchanges) for vhost in self.vhosts.values()) >= limit:
            title = f"exchange '{name}' in vhost '{vhost_name}'"
            raise PreconditionFailed(f"cannot declare {title}: exchange limit of {limit} is reached")

    def refuse_another_channel(self, user_name: str) -> None:
        """Refuse a channel beyond the limit of a user or the node, over all connections. Raises NotAllowed."""
        limit = self.access.users[user_name].limit("max-channels")
        if (
            limit is not None
            and sum(connection.channel_count for connection in self.connections_of(user=user_name)) >= limit
        ):
            text = self.compat.user_channel_limit_text.format(user=user_name, node=NODE_NAME, limit=limit)
            raise NotAllowed(f"number of channels opened {text}").at(0)
        limit = self.settings.channel_max_per_node
        if limit is not None and sum(connection.channel_count for connection in self.connections.values()) >= limit:
            text = self.compat.node_channel_limit_text.format(node=NODE_NAME, limit=limit)
            raise NotAllowed(f"number of channels opened {text}").at(0)

    def set_alarm(self, resource: str) -> None:
        """Raise the alarm of a resource, "memory" or "disk": connections stop at their next publish."""
        if resource not in self.alarms:
            self.alarms[resource] = None
            self.announce("alarm.set", source=resource)

    def clear_alarm(self, resource: str) -> None:
        """Clear an alarm. When the last one is cleared, publishers continue."""
        if resource not in self.alarms:
            return
        del self.alarms[resource]
        self.announce("alarm.cleared", source=resource)
        if not self.alarms:
            for connection in list(self.connections.values()):
                connection.unblock()

    def alarm_reason(self) -> str:
        """Return the reason that connection.blocked gives."""
        return "low on " + " & ".join(sorted(self.alarms))

    def restart(self) -> None:
        """Stop and start: close the connections and drop what is not durable (as seen on a clean restart of 4.3)."""
        for connection in list(self.connections.values()):
            connection.shut_down(Shutdown())
        self.run_work()
        for vhost in self.vhosts.values():
            vhost.restart()
        self.reply_queues = ReplyQueues(self)
