"""Policies of a vhost: settings for queues and exchanges whose name matches a pattern.

Of all matching user policies one applies to an object, and of all matching operator policies one: the one with the
highest priority, then the first by name. The two together are the object's effective definition; `settings` merges it
with a queue's arguments. The keys of a definition and their merge rules are in `policy_keys`, which is imported with
the first policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from leveret.core.model.operators.patterns import Pattern

Definition = Mapping[str, object]
NOTHING: Final[Definition] = MappingProxyType({})

_QUEUE_TARGETS: Final = {
    "classic": ("queues", "classic_queues", "all"),
    "quorum": ("queues", "quorum_queues", "all"),
    "stream": ("queues", "streams", "all"),
}
_EXCHANGE_TARGETS: Final = ("exchanges", "all")


class PolicyInvalid(ValueError):
    """A policy that RabbitMQ refuses; the message is its text without the leading "Validation failed"."""


class Policy(NamedTuple):
    """One policy, as it was given."""

    name: str
    pattern: str
    definition: Definition
    apply_to: str = "all"
    priority: float = 0

    def described(self) -> dict[str, object]:
        """Return what RabbitMQ shows of it besides its name."""
        return {
            "pattern": self.pattern,
            "apply-to": self.apply_to,
            "definition": dict(self.definition),
            "priority": self.priority,
        }


class _PolicySet:
    """The user policies, or the operator policies, of a vhost."""

    __slots__ = ("by_name", "ranked")

    def __init__(self) -> None:
        self.by_name: dict[str, Policy] = {}
        # In the order in which they are tried, each with the queue types to which it does not apply.
        self.ranked: list[tuple[Policy, Pattern, tuple[str, ...]]] = []

    def set(self, policy: Policy) -> None:
        self.by_name[policy.name] = policy
        self._rank()

    def clear(self, name: str) -> None:
        del self.by_name[name]
        self._rank()

    def _rank(self) -> None:
        from leveret.core.model.operators.patterns import compiled
        from leveret.core.model.operators.policy_keys import unsupported_by

        ranked = sorted(self.by_name.values(), key=lambda policy: (-policy.priority, policy.name))
        self.ranked = [(policy, compiled(policy.pattern), unsupported_by(policy.definition)) for policy in ranked]

    def match(self, name: str, targets: tuple[str, ...], queue_type: str = "") -> Policy | None:
        for policy, pattern, unsupported in self.ranked:
            if policy.apply_to not in targets or pattern.search(name) is None:
                continue
            if queue_type not in unsupported:
                return policy
        return None


class Policies:
    """All policies of one vhost. If there are none, a query costs two lookups in an empty list."""

    __slots__ = ("_has_mirroring", "_operator", "_pattern_bytes_max", "_user")

    def __init__(self, *, has_mirroring: bool = False, pattern_bytes_max: int | None = None) -> None:
        self._has_mirroring = has_mirroring
        self._pattern_bytes_max = pattern_bytes_max
        self._user = _PolicySet()
        self._operator = _PolicySet()

    @property
    def user_policies(self) -> Mapping[str, Policy]:
        """The user policies by name, in order of creation."""
        return self._user.by_name

    @property
    def operator_policies(self) -> Mapping[str, Policy]:
        """The operator policies by name, in order of creation."""
        return self._operator.by_name

    def check(self, policy: Policy) -> None:
        """Raise PolicyInvalid if RabbitMQ refuses a user policy."""
        from leveret.core.model.operators import policy_keys

        has_mirroring = self._has_mirroring
        self._refuse_invalid(policy, policy_keys.USER_KEYS_WITH_MIRRORING if has_mirroring else policy_keys.USER_KEYS)

    def set(self, policy: Policy) -> None:
        """Add a user policy or replace the one with its name. Raises PolicyInvalid if RabbitMQ refuses it."""
        self.check(policy)
        self._user.set(policy)

    def clear(self, name: str) -> None:
        """Remove a user policy. Raises KeyError if it does not exist."""
        self._user.clear(name)

    def check_operator(self, policy: Policy) -> None:
        """Raise PolicyInvalid if RabbitMQ refuses an operator policy."""
        from leveret.core.model.operators import policy_keys

        self._refuse_invalid(policy, policy_keys.OPERATOR_KEYS)

    def set_operator(self, policy: Policy) -> None:
        """Add an operator policy or replace the one with its name. Raises PolicyInvalid if RabbitMQ refuses it."""
        self.check_operator(policy)
        self._operator.set(policy)

    def clear_operator(self, name: str) -> None:
        """Remove an operator policy. Raises KeyError if it does not exist."""
        self._operator.clear(name)

    def for_queue(self, name: str, queue_type: str) -> tuple[Policy | None, Policy | None]:
        """Return the user policy and the operator policy that apply to a queue with this name and type."""
        targets = _QUEUE_TARGETS[queue_type]
        return self._user.match(name, targets, queue_type), self._operator.match(name, targets, queue_type)

    def for_exchange(self, name: str) -> tuple[Policy | None, Policy | None]:
        """Return the user policy and the operator policy that apply to an exchange with this name."""
        return self._user.match(name, _EXCHANGE_TARGETS), self._operator.match(name, _EXCHANGE_TARGETS)

    def effective_for_queue(self, name: str, queue_type: str) -> Definition:
        """Return the combined definition of the policies that apply to a queue."""
        return combined(*self.for_queue(name, queue_type))

    def effective_for_exchange(self, name: str) -> Definition:
        """Return the combined definition of the policies that apply to an exchange."""
        return combined(*self.for_exchange(name))

    def _refuse_invalid(self, policy: Policy, keys: frozenset[str]) -> None:
        """Raise PolicyInvalid with every fault that RabbitMQ reports, one per line."""
        from leveret.core.model.operators.policy_keys import faults

        texts = faults(
            pattern=policy.pattern,
            definition=policy.definition,
            apply_to=policy.apply_to,
            priority=policy.priority,
            keys=keys,
            pattern_bytes_max=self._pattern_bytes_max,
        )
        if texts:
            raise PolicyInvalid("\n".join(texts))


def combined(policy: Policy | None, operator_policy: Policy | None) -> Definition:
    """Return the combined definition of both; if both have a key, its merge rule decides."""
    if policy is None or operator_policy is None:
        only = policy or operator_policy
        return NOTHING if only is None else only.definition
    from leveret.core.model.operators.policy_keys import merged

    ours, theirs = policy.definition, operator_policy.definition
    common = {key: merged(key, ours[key], theirs[key]) for key in theirs if key in ours}
    return {**ours, **theirs, **common}
