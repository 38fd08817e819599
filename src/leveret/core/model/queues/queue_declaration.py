"""The fields of a queue.declare, and the checks that RabbitMQ makes before it creates a queue.

The checks come in RabbitMQ's order: the dead-letter exchange and the permissions on it, the queue type, the arguments,
denied features, flags that the type does not support, and the vhost's limit. If the queue exists, the declaration is
only compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from leveret.core.model.errors import InternalRefusal, PreconditionFailed
from leveret.core.model.operators.access import Rights
from leveret.core.model.ports import VirtualHostPort
from leveret.core.model.queues import arguments as checks
from leveret.core.model.queues.queue_types import QUEUE_TYPES, QueueType, requested_type
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.core.wire.values import Field, Table

TRANSIENT_NONEXCL_QUEUES: Final = "transient_nonexcl_queues"
QUEUE_MASTER_LOCATOR: Final = "queue_master_locator"
# The arguments of a declaration that gave none, with the type filled in.
_TYPED: Final = {name: Table((("x-queue-type", Field("S", name.encode())),)) for name in QUEUE_TYPES}


class QueueDeclaration(NamedTuple):
    """The fields of one queue.declare. An empty name asks for a server-generated one."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table

    def typed(self, vhost: VirtualHostPort) -> QueueDeclaration:
        """Return the declaration with the vhost's default type filled in, if it names none and the flags allow it."""
        is_filled_in = vhost.node.compat.fills_in_queue_type or vhost.default_queue_type != "classic"
        if not is_filled_in or self.arguments.get("x-queue-type") is not None:
            return self
        default = QUEUE_TYPES[vhost.default_queue_type]
        fits = not default.is_always_durable or (self.durable and not self.exclusive and not self.auto_delete)
        name = default.name if fits else "classic"
        typed = self.arguments.with_entry("x-queue-type", Field("S", name.encode())) if self.arguments else _TYPED[name]
        return self._replace(arguments=typed)

    def type_in(self, vhost: VirtualHostPort) -> str:
        """Return the type that the declaration requests in this vhost, by default or explicitly; it may not exist."""
        name = self.typed(vhost).type_name
        return vhost.default_queue_type if name in vhost.node.compat.default_queue_type_words else name

    @property
    def type_name(self) -> str:
        """The type requested; it may not exist."""
        name = checks.string_of(self.arguments, "x-queue-type")
        return "classic" if name is None else name

    def refuse_unless_equivalent(self, queue: StoredQueue) -> None:
        """Refuse a declaration that differs from the existing queue; the text names the first difference."""
        if queue.is_exclusive != self.exclusive:
            queue.refuse_as_locked()
        flags = [("auto_delete", self.auto_delete, queue.auto_delete)]
        if not self.exclusive:
            flags.insert(0, ("durable", self.durable, queue.durable))
        for flag, new, old in flags:
            if new is not old:
                shown = f"received '{str(new).lower()}' but current is '{str(old).lower()}'"
                refusal = PreconditionFailed(f"inequivalent arg '{flag}' for {queue.title}: {shown}")
                raise refusal.about("inequivalent", kind="queue", name=queue.name)
        compat = queue.node.compat
        received, current = self.arguments, queue.arguments
        if compat.compares_ages_in_ms:
            received, current = checks.with_age_in_ms(received), checks.with_age_in_ms(current)
        names = queue.type.known_arguments(compat)
        if not compat.fills_in_queue_type and self.type_name == queue.type.name == "classic":
            # A missing type equals classic.
            names = tuple(name for name in names if name != "x-queue-type")
        checks.refuse_inequivalent(queue.title, names, received, current, "queue", queue.name, compat)

    def checked_type(self, vhost: VirtualHostPort, rights: Rights | None) -> QueueType:
        """Return the type of the new queue. Raises AmqpError if RabbitMQ refuses to create it."""
        compat, title = vhost.node.compat, vhost.title_of("queue", self.name)
        if compat.checks_queue_limit_first:
            vhost.refuse_another_queue(self.name)
        if rights is not None:
            checks.refuse_unless_string(self.arguments, "x-dead-letter-exchange", title)
        dead_letter_exchange = checks.string_of(self.arguments, "x-dead-letter-exchange")
        if rights is not None and dead_letter_exchange is not None:
            rights("read", "queue", self.name)
            rights("write", "exchange", dead_letter_exchange)
        queue_type = requested_type(self.arguments, title, compat, vhost.default_queue_type)
        supported = queue_type.known_arguments(compat)
        checks.refuse_invalid_values(self.arguments, title, supported, compat)
        checks.refuse_unknown_to_type(self.arguments, title, supported, queue_type.erlang_name, compat)
        self._refuse_denied_features(vhost, queue_type)
        vhost.refuse_another_queue(self.name)
        self._refuse_flags(queue_type, title)
        if queue_type.name == "stream":
            checks.refuse_unchecked_filter_size(self.arguments, compat)
        return queue_type

    def _refuse_flags(self, queue_type: QueueType, title: str) -> None:
        """Refuse flags that a queue of this type cannot have."""
        if not queue_type.is_always_durable:
            return
        if not self.name:
            raise PreconditionFailed(f"Cannot declare a server-named queue for type {queue_type.erlang_name}")
        flaws = (
            ("auto-delete", self.auto_delete),
            ("exclusive-owner", self.exclusive),
            ("non-durable", not self.durable),
        )
        for flaw, is_set in flaws:
            if is_set:
                raise PreconditionFailed(f"invalid property '{flaw}' for {title}").returned()

    def _refuse_denied_features(self, vhost: VirtualHostPort, queue_type: QueueType) -> None:
        if queue_type.is_always_durable:
            return
        compat = vhost.node.compat
        if "x-queue-master-locator" in self.arguments and compat.denies_queue_master_locator:
            raise _denied(denied_feature_text, QUEUE_MASTER_LOCATOR, self.name)
        if compat.denies_transient_nonexcl_queues and not self.durable and not self.exclusive:
            text = configured_denial_text if compat.denies_by_configuration else denied_feature_text
            cause = f"queue '{self.name}' in vhost '{vhost.name}' has durable=False and exclusive=False"
            raise _denied(text, TRANSIENT_NONEXCL_QUEUES, self.name).because(cause)


def _denied(text: Callable[[str], str], feature: str, queue: str) -> InternalRefusal:
    return InternalRefusal(text(feature)).about("denied_feature", feature=feature, kind="queue", name=queue).returned()


def configured_denial_text(feature: str) -> str:
    """Return RabbitMQ's explanation for a deprecated feature that its configuration turns off."""
    return (
        f"Feature `{feature}` is deprecated.\n"
        "Its use is not permitted per the configuration (overriding the default, which is permitted):\n"
        f'    "deprecated_features.permit.{feature} = false"\n'
        "Its use will not be permitted by default in a future minor RabbitMQ version and the feature will be removed "
        "from a future major RabbitMQ version; actual versions to be determined."
    )


def denied_feature_text(feature: str) -> str:
    """Return RabbitMQ's explanation for a deprecated feature that it denies by default."""
    return (
        f"Feature `{feature}` is deprecated.\n"
        "By default, this feature is not permitted anymore.\n"
        "The feature will be removed from a future major RabbitMQ version, regardless of the configuration; "
        "actual version to be determined.\n"
        "To continue using this feature when it is not permitted by default, set the following parameter in your "
        f'configuration:\n    "deprecated_features.permit.{feature} = true"'
    )
