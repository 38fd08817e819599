"""The effective settings of a queue, merged from its arguments and its policies.

They are computed again when the policies change. The merge rule of each key is in its row of
`arguments.QUEUE_ARGUMENTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, overload

from leveret.core.compat import Compat
from leveret.core.model.queues.arguments import QUEUE_ARGUMENTS, age_us, is_integer, is_true
from leveret.core.model.queues.queue_types import QueueType
from leveret.core.wire.values import Field, Table


class QueueSettings(NamedTuple):
    """The effective settings of one queue. None means "not set"."""

    message_ttl_us: int | None = None
    expires_us: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = "drop-head"
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: str = "at-most-once"
    # Classic only: 0 means without priorities.
    max_priority: int = 0
    is_single_active: bool = False
    # Quorum only.
    delivery_limit: int | None = None
    consumer_timeout_us: int | None = None
    delayed_retry_type: str = "disabled"
    delayed_retry_min_us: int = 0
    delayed_retry_max_us: int = 0
    # Stream only.
    max_age_us: int | None = None
    max_segment_bytes: int | None = None

    @property
    def is_refusing(self) -> bool:
        """Whether a full queue refuses new messages instead of dropping old ones."""
        return self.overflow != "drop-head" and self.is_limited

    @property
    def is_dropping(self) -> bool:
        """Whether a full queue drops from its head. A queue that refuses messages still keeps all that are requeued."""
        return self.overflow == "drop-head" and self.is_limited

    @property
    def is_limited(self) -> bool:
        """Whether the length is limited at all."""
        return self.max_length is not None or self.max_length_bytes is not None

    def are_exceeded_by(self, count: int, size_bytes: int) -> bool:
        """Return whether so many ready messages, with so many bytes in their bodies, exceed a limit of length.

        A message that goes straight to a waiting consumer does not count.
        """
        if self.max_length is not None and count > self.max_length:
            return True
        limit = self.max_length_bytes
        return limit is not None and size_bytes > limit

    @classmethod
    def effective(
        cls, arguments: Table, policy: Mapping[str, object], queue_type: QueueType, compat: Compat
    ) -> QueueSettings:
        """Merge a queue's arguments with the effective definition of its policies."""
        if not policy and all(name == "x-queue-type" for name, _ in arguments):
            return _PLAIN

        def merged(name: str, winner: str = "") -> object:
            if name in compat.unknown_queue_arguments:
                return None
            row = QUEUE_ARGUMENTS[name]
            key = row.policy_key
            ours = None if key is None else policy.get(key.name)
            winner = winner or row.winner
            if winner == "delivery_limit" and not compat.negative_delivery_limit_is_none:
                winner = "lower"
            return _winner(_plain(arguments.get(name)), ours, winner)

        def span_us(name: str) -> int | None:
            span_ms = merged(name)
            return span_ms * 1000 if is_integer(span_ms) else None

        overflow = _string_or(merged("x-overflow", queue_type.overflow_by), "drop-head")
        if overflow == "reject-publish-dlx" and not queue_type.has_reject_publish_dlx:
            overflow = "drop-head"
        max_priority = _integer_or_none(merged("x-max-priority"))
        if max_priority == 0 and compat.max_priority_of_zero_is_one:
            max_priority = 1
        retry_min_us = span_us("x-delayed-retry-min") or 0
        return cls(
            message_ttl_us=span_us("x-message-ttl"),
            expires_us=span_us("x-expires"),
            max_length=_integer_or_none(merged("x-max-length")),
            max_length_bytes=_integer_or_none(merged("x-max-length-bytes")),
            overflow=overflow,
            dead_letter_exchange=_string_or(merged("x-dead-letter-exchange"), None),
            dead_letter_routing_key=_string_or(merged("x-dead-letter-routing-key"), None),
            dead_letter_strategy=_string_or(merged("x-dead-letter-strategy"), "at-most-once"),
            max_priority=max_priority or 0,
            is_single_active=is_true(arguments, "x-single-active-consumer"),
            delivery_limit=_integer_or_none(merged("x-delivery-limit")),
            consumer_timeout_us=span_us("x-consumer-timeout"),
            max_age_us=age_us(_string_or(merged("x-max-age"), "")),
            max_segment_bytes=_integer_or_none(merged("x-stream-max-segment-size-bytes")),
            delayed_retry_type=_string_or(merged("x-delayed-retry-type"), "disabled"),
            delayed_retry_min_us=max(0, retry_min_us),
            delayed_retry_max_us=max(0, span_us("x-delayed-retry-max") or retry_min_us),
        )


# The settings of a queue with neither arguments nor policy, as most are.
_PLAIN = QueueSettings()


def _winner(argument: object, policy: object, winner: str) -> object:
    if argument is None or policy is None:
        return policy if argument is None else argument
    if winner == "argument":
        return argument
    if winner == "policy":
        return policy
    if winner == "shorter":
        return min(argument, policy, key=lambda age: age_us(str(age)) or 0)
    if not is_integer(argument) or not is_integer(policy):
        return policy if is_integer(policy) else argument
    if winner == "delivery_limit" and min(argument, policy) < 0:
        return max(argument, policy)
    return min(argument, policy)


def _plain(field: Field | None) -> object:
    if field is None:
        return None
    return field.value.decode("utf-8", "surrogateescape") if isinstance(field.value, bytes) else field.value


def _integer_or_none(value: object) -> int | None:
    return value if is_integer(value) else None


@overload
def _string_or(value: object, default: str) -> str: ...
@overload
def _string_or(value: object, default: None) -> str | None: ...
def _string_or(value: object, default: str | None) -> str | None:
    return value if isinstance(value, str) else default
