"""A virtual host: a namespace of exchanges, queues and bindings, and the way of a message through them.

Declaring, deleting and binding make RabbitMQ's checks in RabbitMQ's order. The caller checks permissions. `route` finds
the queues of a message, and `publish` enqueues it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.core.model import routing
from leveret.core.model.binding import Binding, BindingKey, Destination, binding_key
from leveret.core.model.dead_letters import dead_letter
from leveret.core.model.errors import (
    AccessRefused,
    InternalRefusal,
    NotFound,
    PreconditionFailed,
)
from leveret.core.model.exchanges import PREDECLARED, exchange_class, exchange_type
from leveret.core.model.exchanges.default import DefaultExchange
from leveret.core.model.exchanges.exchange import ALTERNATE_EXCHANGE, Exchange, ExchangeDeclaration
from leveret.core.model.message import Message
from leveret.core.model.operators.access import Rights
from leveret.core.model.operators.policy import Policies
from leveret.core.model.queues import arguments as queue_arguments
from leveret.core.model.queues.classic import ClassicQueue
from leveret.core.model.queues.queue_declaration import QueueDeclaration
from leveret.core.model.queues.settings import QueueSettings
from leveret.core.model.queues.stored_queue import QueueSpec, StoredQueue
from leveret.core.model.routing import AnyQueue
from leveret.core.wire import erlang
from leveret.core.wire.values import Table
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.core.model.firehose import FirehoseTracing, TracedChannel
    from leveret.core.model.node import Node
    from leveret.core.model.ports import ConnectionPort

# The numbers of the connection and channel that caused a change; None if the test or the broker itself caused it.
Origin = tuple[int | None, int | None]
NO_CLIENT: Final[Origin] = (None, None)


class Published(NamedTuple):
    """The outcome of a publish: whether it reached any queue, and whether a queue refused it."""

    is_routed: bool
    is_refused: bool


class VirtualHost:
    """One namespace of a node."""

    __slots__ = (
        "default_exchange",
        "default_queue_type",
        "description",
        "exchanges",
        "exclusive_queues",
        "firehose",
        "incoming",
        "is_protected",
        "limits",
        "lost_consumers",
        "maker",
        "name",
        "node",
        "policies",
        "queues",
        "tags",
    )

    def __init__(self, node: Node, name: str, *, default_queue_type: str = "classic") -> None:
        self.node = node
        self.name = name
        self.default_queue_type = default_queue_type
        # Informative only; nothing depends on them.
        self.description: str | None = ""
        # The user who added it over HTTP.
        self.maker: str | None = None
        # Whether the management API refuses to delete it; None if it never was protected.
        self.is_protected: bool | None = None
        self.tags: tuple[str, ...] = ()
        self.queues: dict[str, StoredQueue] = {}
        self.exchanges: dict[str, Exchange] = {}
        # The bindings that lead to a destination, so that deleting it can delete them.
        self.incoming: dict[Destination, dict[tuple[str, BindingKey], Binding]] = {}
        # By the number of the owning connection.
        self.exclusive_queues: dict[int, list[StoredQueue]] = {}
        # The consumers that lost their queue with their connection: their clients, by tag, until they come back.
        self.lost_consumers: dict[str, tuple[str, int]] = {}
        compat = node.compat
        self.policies = Policies(compat)
        # None unless tracing is on.
        self.firehose: FirehoseTracing | None = None
        # By their names in `access.VHOST_LIMITS`.
        self.limits: dict[str, int] = {}
        self.default_exchange = DefaultExchange(self.queues, dice=node.dice, compat=compat)
        self.exchanges[""] = self.default_exchange
        for predeclared in PREDECLARED:
            self._add_exchange(predeclared)
        if name == "/":
            self.add_system_exchange("amq.rabbitmq.log")

    def exchange(self, name: str) -> Exchange:
        """Return the exchange with this name. Raises NotFound if it does not exist."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise self.missing("exchange", name)
        return exchange

    def title_of(self, kind: str, name: str) -> str:
        """Return the description of a queue or exchange in this version's texts."""
        shown = erlang.shown(name) if self.node.compat.shows_octets_as_latin1 else name
        return f"{kind} '{shown}' in vhost '{self.name}'"

    def missing(self, kind: str, name: str) -> NotFound:
        """Return the refusal of a request that names a queue or exchange which does not exist."""
        subject = {"kind": kind, "name": name, "vhost": self.name}
        return NotFound(f"no {self.title_of(kind, name)}").about("missing", **subject)

    def queue(self, name: str, connection: ConnectionPort | None = None) -> StoredQueue:
        """Return the queue with this name for use by `connection`.

        Raises NotFound if it does not exist, and ResourceLocked if it is exclusive to another connection.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise self.missing("queue", name)
        queue.refuse_others(connection)
        return queue

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = Table.EMPTY,
        rights: Rights | None = None,
        origin: Origin = NO_CLIENT,
    ) -> Exchange:
        """Return the exchange with this name, creating it if needed. Raises AmqpError if RabbitMQ refuses this."""
        wanted = ExchangeDeclaration(name, type_name, durable, auto_delete, internal, arguments)
        exchange = self.exchanges.get(name)
        if exchange is not None:
            exchange.refuse_unless_equivalent(wanted, self.name)
        else:
            if name.startswith("amq."):
                raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
            new_type = exchange_type(type_name, self.node.compat)
            # RabbitMQ checks this before the permissions on the alternate exchange, and what the type wants after them.
            title = f"exchange '{name}' in vhost '{self.name}'"
            queue_arguments.refuse_unless_string(arguments, ALTERNATE_EXCHANGE, title)
            alternate = queue_arguments.string_of(arguments, ALTERNATE_EXCHANGE)
            if rights is not None and alternate is not None:
                rights("read", "exchange", name)
                rights("write", "exchange", alternate)
            new_type.check_arguments(arguments, self.node.compat)
            self.node.refuse_another_exchange(name, self.name)
            exchange = self._add_exchange(wanted)
        self._tap(events.EXCHANGE_DECLARE, origin, name, type_name, arguments)
        return exchange

    def _add_exchange(self, wanted: ExchangeDeclaration) -> Exchange:
        exchange = exchange_class(wanted.type_name)(wanted, dice=self.node.dice, compat=self.node.compat)
        self.node.topology_version += 1
        self.exchanges[exchange.name] = exchange
        exchange.apply_policy(self.policies.effective_for_exchange(exchange.name))
        return exchange

    def add_system_exchange(self, name: str) -> None:
        """Add a topic exchange to which only the broker publishes."""
        self._add_exchange(ExchangeDeclaration(name, "topic", internal=True))

    def delete_exchange(self, name: str, *, if_unused: bool = False, origin: Origin = NO_CLIENT) -> None:
        """Delete an exchange and its bindings, if it exists. Raises AmqpError if RabbitMQ refuses the deletion."""
        if name.startswith("amq."):
            raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        self._remove_exchange(exchange, origin)

    def _remove_exchange(self, exchange: Exchange, origin: Origin = NO_CLIENT) -> None:
        # An auto-delete exchange that loses its last binding is deleted too, and so on. The list avoids recursion.
        doomed = [exchange]
        while doomed:
            gone = doomed.pop()
            if self.exchanges.pop(gone.name, None) is None:
                continue
            self.node.topology_version += 1
            for binding in gone.bindings.values():
                self._forget_incoming(binding)
            doomed += self._drop_bindings_to(gone)
            self._tap(events.EXCHANGE_DELETE, origin, gone.name)

    def bind(
        self,
        source: Exchange,
        destination: Destination,
        routing_key: str,
        arguments: Table = Table.EMPTY,
        origin: Origin = NO_CLIENT,
    ) -> None:
        """Bind a queue or an exchange to an exchange. A binding that exists already stays as it is.

        Raises AmqpError if RabbitMQ refuses the binding.
        """
        source.check_binding(destination, routing_key, arguments, self.node.compat)
        binding = Binding(source.name, destination, routing_key, arguments)
        if source.bind(binding):
            self.node.topology_version += 1
            self.incoming.setdefault(destination, {})[(source.name, binding.key)] = binding
            kept = source.on_bound(binding)
            # A bound exchange gets the newest message first (rabbit_exchange_type_recent_history, seen on 4.3).
            for message in kept if isinstance(destination, StoredQueue) else reversed(kept):
                self._replay(message, binding)
        self._tap_binding(events.BIND, origin, binding)

    def unbind(
        self,
        source: Exchange,
        destination: Destination,
        routing_key: str,
        arguments: Table = Table.EMPTY,
        origin: Origin = NO_CLIENT,
    ) -> None:
        """Remove the binding with exactly this key and these arguments, if it exists."""
        binding = source.bindings.get(binding_key(destination, routing_key, arguments))
        if binding is None:
            return
        source.unbind(binding.key)
        self.node.topology_version += 1
        self._forget_incoming(binding)
        self._tap_binding(events.UNBIND, origin, binding)
        if source.is_due_for_deletion:
            self._remove_exchange(source)

    def _replay(self, kept: Message, binding: Binding) -> None:
        # A message that an exchange kept (x-recent-history) arrives as it was first published.
        destination = binding.destination
        if isinstance(destination, StoredQueue):
            self._enqueue_unpublished(destination, kept, None)
        elif isinstance(destination, Exchange):
            queues = self.route(destination, kept)
            if not queues:
                if self.node.compat.explains_replay_to_nowhere:
                    raise InternalRefusal("could not find queue/exchange ''")
                # The crash undoes the transaction that made the binding.
                self.exchanges[binding.source_name].unbind(binding.key)
                self._forget_incoming(binding)
                raise InternalRefusal().at(0)
            for queue in queues:
                self._enqueue_unpublished(queue, kept, None)

    def _enqueue_unpublished(self, queue: AnyQueue, message: Message, src_copy: int | None) -> None:
        """Enqueue what no channel publishes now, unless the version's streams lose that (seen on 3.10)."""
        if self.node.compat.streams_need_a_publisher and queue.type_name == "stream":
            self.lost(message)
        else:
            queue.enqueue(message, src_copy)

    def _drop_bindings_to(self, destination: Destination) -> list[Exchange]:
        """Remove all bindings to a destination; return the auto-delete exchanges that lost their last binding."""
        sources = []
        for binding in self.incoming.pop(destination, {}).values():
            source = self.exchanges[binding.source_name]
            source.unbind(binding.key)
            if source.is_due_for_deletion:
                sources.append(source)
        return sources

    def _forget_incoming(self, binding: Binding) -> None:
        incoming = self.incoming.get(binding.destination)
        if incoming is not None:
            incoming.pop((binding.source_name, binding.key), None)
            if not incoming:
                del self.incoming[binding.destination]

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table = Table.EMPTY,
        connection: ConnectionPort | None = None,
        rights: Rights | None = None,
        origin: Origin = NO_CLIENT,
    ) -> StoredQueue:
        """Return the queue with this name, creating it if needed. If `name` is empty, the node generates one.

        Raises AmqpError if RabbitMQ refuses the declaration.
        """
        wanted = QueueDeclaration(name, durable, exclusive, auto_delete, arguments).typed(self)
        queue = self.queues.get(name)
        if queue is None:
            queue = self._add_queue(wanted, connection, rights)
        else:
            queue.refuse_others(connection)
            wanted.refuse_unless_equivalent(queue)
        queue.on_declared()
        self._tap(events.QUEUE_DECLARE, origin, queue.name, queue.arguments)
        return queue

    def _add_queue(
        self, wanted: QueueDeclaration, connection: ConnectionPort | None, rights: Rights | None
    ) -> StoredQueue:
        queue_type = wanted.checked_type(self, rights)
        name = wanted.name or self.node.new_name("amq.gen-")
        definition = self.policies.effective_for_queue(name, queue_type.name)
        spec = QueueSpec(
            self,
            name,
            queue_type,
            # An exclusive queue is never durable, even if it was declared durable (seen on 4.3 and 3.10).
            durable=wanted.durable and not wanted.exclusive,
            auto_delete=wanted.auto_delete,
            exclusive_owner=connection if wanted.exclusive else None,
            arguments=wanted.arguments,
            settings=QueueSettings.effective(wanted.arguments, definition, queue_type, self.node.compat),
        )
        queue = _queue_class(queue_type.name)(spec)
        self.node.topology_version += 1
        self.queues[name] = queue
        if connection is not None and wanted.exclusive:
            self.exclusive_queues.setdefault(connection.number, []).append(queue)
        return queue

    def delete_queue(
        self,
        name: str,
        *,
        if_unused: bool = False,
        if_empty: bool = False,
        connection: ConnectionPort | None = None,
        origin: Origin = NO_CLIENT,
    ) -> int:
        """Delete a queue; return how many ready messages were lost, 0 for a missing queue.

        Raises AmqpError if RabbitMQ refuses the deletion.
        """
        queue = self.queues.get(name)
        if queue is None:
            return 0
        queue.refuse_others(connection)
        queue.refuse_delete(if_unused=if_unused, if_empty=if_empty)
        return self.remove_queue(queue, None, origin)

    def remove_queue(self, queue: StoredQueue, reason: str | None, origin: Origin = NO_CLIENT) -> int:
        """Remove a queue and its bindings; return how many ready messages were lost."""
        if queue.is_deleted:
            return 0
        self.node.topology_version += 1
        del self.queues[queue.name]
        for exchange in self._drop_bindings_to(queue):
            self._remove_exchange(exchange)
        count = queue.closed()
        self._tap(events.QUEUE_DELETE, origin, queue.name, reason)
        return count

    def connection_ended(self, connection: ConnectionPort) -> None:
        """Delete the exclusive queues of a connection."""
        for queue in self.exclusive_queues.pop(connection.number, ()):
            self.remove_queue(queue, "exclusive")

    def route(self, exchange: Exchange, message: Message) -> Sequence[AnyQueue]:
        """Return the queues of a message, each once. Hot: once per published message."""
        destinations = exchange.route(message)
        # A second key may name the requester of a direct reply, which no binding reaches.
        if len(destinations) == 1 and len(message.routing_keys) == 1 and isinstance(destinations[0], StoredQueue):
            return (destinations[0],)
        return routing.walk(self, self.node.reply_queues, exchange, destinations, message)

    def route_letter(self, exchange: Exchange, message: Message) -> Sequence[AnyQueue]:
        """Return the queues of a message that no channel publishes, each once."""
        queues = self.route(exchange, message)
        if self.node.compat.replies_need_a_publisher:
            return [queue for queue in queues if isinstance(queue, StoredQueue)]
        return queues

    def publish(self, exchange: Exchange, message: Message, publisher: TracedChannel | None = None) -> Published:
        """Route and enqueue a message; return whether it reached a queue and whether one refused it."""
        if exchange.can_delay and self._delay(exchange, message):
            if self.firehose is not None:
                self.firehose.published(message, (), publisher)
            # RabbitMQ's delayed-message exchange counts every message that it delays as routed.
            return Published(True, False)
        queues = self.route(exchange, message)
        if self.firehose is not None:
            self.firehose.published(message, queues, publisher)
        return self.put(message, queues, publisher)

    def put(self, message: Message, queues: Sequence[AnyQueue], publisher: object = None) -> Published:
        """Enqueue a routed message in all its queues. Hot: once per published message."""
        is_refused = False
        for queue in queues:
            if queue.can_refuse_publishers and queue.refuses_publisher(publisher):
                is_refused = True
                continue
            if not queue.enqueue(message):
                is_refused = True
        return Published(bool(queues), is_refused)

    def lost(self, message: Message, reason: str = events.NO_ROUTE, queue_name: str | None = None) -> None:
        """Record that a message entered no queue, or not the queue named, and was not returned to its publisher."""
        tap = self.node.hooks.tap
        if tap is not None:
            tap((events.DROPPED, self.node.now, self.name, queue_name, message, None, reason))

    def _delay(self, exchange: Exchange, message: Message) -> bool:
        delay_us = exchange.delay_us(message)
        if delay_us <= 0:
            return False
        from leveret.core.model.exchanges.x_delayed_message import headers_after_delay

        headers = headers_after_delay(message.headers or Table.EMPTY)
        late = message.with_properties(message.properties.replace(headers=headers))
        self.node.timers.add(self.node.now + delay_us, lambda: self._arrive(late, exchange, None, ""))
        return True

    def post(self, letter: Message, exchange: Exchange, src_copy: int, reason: str) -> None:
        """Route a dead letter once the current work is done."""
        self.node.work.append(lambda: self._arrive(letter, exchange, src_copy, reason))

    def _arrive(self, message: Message, exchange: Exchange, src_copy: int | None, reason: str) -> None:
        if reason and exchange.can_delay and self._delay(exchange, message):
            return
        for queue in self.route_letter(exchange, message):
            if reason and dead_letter.closes_cycle(message, queue.name, reason):
                self.lost(message, "cycle", queue.name)
                continue
            self._enqueue_unpublished(queue, message, src_copy)

    def refuse_another_queue(self, name: str) -> None:
        """Refuse a new queue beyond the limit of the vhost. Raises PreconditionFailed."""
        limit = self.limits.get("max-queues", -1)
        if 0 <= limit <= len(self.queues):
            text = f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is reached"
            raise PreconditionFailed(text)
        self.node.refuse_another_queue(name)

    def trace_on(self) -> None:
        """Copy everything published and delivered to amq.rabbitmq.trace."""
        from leveret.core.model.firehose import FirehoseTracing

        self.firehose = FirehoseTracing(self)
        self.node.topology_version += 1

    def trace_off(self) -> None:
        """Stop copying to amq.rabbitmq.trace."""
        self.firehose = None

    def restart(self) -> None:
        """Drop what does not survive a restart."""
        self.firehose = None
        for queue in list(self.queues.values()):
            if queue.durable:
                queue.forget_transient()
            else:
                self.remove_queue(queue, "restart")
        if not self.node.compat.keeps_transient_exchanges:
            for exchange in [exchange for exchange in self.exchanges.values() if not exchange.durable]:
                self._remove_exchange(exchange)

    def policies_changed(self) -> None:
        """Apply the policies again to every exchange and queue."""
        self.node.topology_version += 1
        for exchange in self.exchanges.values():
            exchange.apply_policy(self.policies.effective_for_exchange(exchange.name))
        for queue in list(self.queues.values()):
            definition = self.policies.effective_for_queue(queue.name, queue.type.name)
            queue.apply(QueueSettings.effective(queue.arguments, definition, queue.type, self.node.compat))

    def _tap(self, kind: str, origin: Origin, *fields: object) -> None:
        tap = self.node.hooks.tap
        if tap is not None:
            tap((kind, self.node.now, self.name, *origin, *fields))

    def _tap_binding(self, kind: str, origin: Origin, binding: Binding) -> None:
        self._tap(
            kind,
            origin,
            binding.source_name,
            binding.destination_kind,
            binding.destination.name,
            binding.routing_key,
            binding.arguments,
        )


def _queue_class(type_name: str) -> type[StoredQueue]:
    """Return the class of a queue type; quorum queues and streams are imported when the first one is declared."""
    if type_name == "classic":
        return ClassicQueue
    if type_name == "quorum":
        from leveret.core.model.queues.quorum import QuorumQueue

        return QuorumQueue
    from leveret.core.model.streams.stream import StreamQueue

    return StreamQueue
