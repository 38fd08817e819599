"""Policies of a vhost: settings for queues and exchanges whose name matches a pattern.

Of all user policies that match an object one applies, and of all operator policies one: the highest priority, then the
first by name. What the two say together is its effective definition; how that meets a queue's own arguments is the
queue's business. What may stand in a definition, and how two of them meet, says `policy_keys`, which is imported with
the first policy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from leveret.core.model import mirroring
from leveret.core.model.arguments import QUEUE_ARGUMENTS

Definition = Mapping[str, object]
NOTHING: Final[Definition] = MappingProxyType({})

APPLY_TO: Final = ("queues", "classic_queues", "quorum_queues", "streams", "exchanges", "all")
_QUEUE_TARGETS: Final = {
    "classic": ("queues", "classic_queues", "all"),
    "quorum": ("queues", "quorum_queues", "all"),
    "stream": ("queues", "streams", "all"),
}
_EXCHANGE_TARGETS: Final = ("exchanges", "all")

# A policy with one of these keys does not apply to queues of that type at all. The rows of arguments name theirs; these
# are the keys without such a row.
_FURTHER_UNSUPPORTED: Final = {
    "classic": ("target-group-size",),
    "quorum": mirroring.KEYS,
    "stream": ("target-group-size", *mirroring.KEYS),
}
UNSUPPORTED: Final[dict[str, tuple[str, ...]]] = {
    queue_type: (
        *(
            row.policy_key.name
            for row in QUEUE_ARGUMENTS.values()
            if row.policy_key is not None and queue_type in row.policy_key.unsupported_by
        ),
        *further,
    )
    for queue_type, further in _FURTHER_UNSUPPORTED.items()
}


class PolicyInvalid(ValueError):
    """A policy that RabbitMQ refuses; the message is its text without the "Validation failed" before it."""


class Policy(NamedTuple):
    """One policy, as it was given."""

    name: str
    pattern: str
    definition: Definition
    apply_to: str = "all"
    priority: float = 0


class _PolicySet:
    """The user policies, or the operator policies, of a vhost."""

    __slots__ = ("by_name", "ranked")

    def __init__(self) -> None:
        self.by_name: dict[str, Policy] = {}
        # In the order in which they are tried.
        self.ranked: list[tuple[Policy, re.Pattern[str]]] = []

    def set(self, policy: Policy) -> None:
        self.by_name[policy.name] = policy
        self._rank()

    def clear(self, name: str) -> None:
        del self.by_name[name]
        self._rank()

    def _rank(self) -> None:
        ranked = sorted(self.by_name.values(), key=lambda policy: (-policy.priority, policy.name))
        self.ranked = [(policy, re.compile(policy.pattern)) for policy in ranked]

    def match(self, name: str, targets: tuple[str, ...], unsupported: tuple[str, ...]) -> Policy | None:
        for policy, pattern in self.ranked:
            if policy.apply_to not in targets or pattern.search(name) is None:
                continue
            if not any(key in policy.definition for key in unsupported):
                return policy
        return None


class Policies:
    """All policies of one vhost. Without any, asking costs two look-ups of an empty list."""

    __slots__ = ("_has_mirroring", "_operator", "_user")

    def __init__(self, *, has_mirroring: bool = False) -> None:
        self._has_mirroring = has_mirroring
        self._user = _PolicySet()
        self._operator = _PolicySet()

    @property
    def user_policies(self) -> Mapping[str, Policy]:
        """By name, in order of their first setting."""
        return self._user.by_name

    @property
    def operator_policies(self) -> Mapping[str, Policy]:
        """By name, in order of their first setting."""
        return self._operator.by_name

    def set(self, policy: Policy) -> None:
        """Add a user policy or replace the one of its name. Raises PolicyInvalid."""
        from leveret.core.model import policy_keys

        policy_keys.refuse_invalid(policy, has_mirroring=self._has_mirroring)
        self._user.set(policy)

    def clear(self, name: str) -> None:
        """Remove a user policy. Raises KeyError when there is none of that name."""
        self._user.clear(name)

    def set_operator(self, policy: Policy) -> None:
        """Add an operator policy or replace the one of its name. Raises PolicyInvalid."""
        from leveret.core.model import policy_keys

        policy_keys.refuse_invalid_operator_policy(policy)
        self._operator.set(policy)

    def clear_operator(self, name: str) -> None:
        """Remove an operator policy. Raises KeyError when there is none of that name."""
        self._operator.clear(name)

    def for_queue(self, name: str, queue_type: str) -> tuple[Policy | None, Policy | None]:
        """The user policy and the operator policy that apply to a queue of that name and type."""
        targets, unsupported = _QUEUE_TARGETS[queue_type], UNSUPPORTED[queue_type]
        return self._user.match(name, targets, unsupported), self._operator.match(name, targets, unsupported)

    def for_exchange(self, name: str) -> tuple[Policy | None, Policy | None]:
        """The user policy and the operator policy that apply to an exchange of that name."""
        return self._user.match(name, _EXCHANGE_TARGETS, ()), self._operator.match(name, _EXCHANGE_TARGETS, ())

    def effective_for_queue(self, name: str, queue_type: str) -> Definition:
        """What the policies of a queue say together."""
        return united(*self.for_queue(name, queue_type))

    def effective_for_exchange(self, name: str) -> Definition:
        """What the policies of an exchange say together."""
        return united(*self.for_exchange(name))


def united(policy: Policy | None, operator_policy: Policy | None) -> Definition:
    """The definitions of both; where both have a key, the stricter or the operator's value."""
    if policy is None or operator_policy is None:
        only = policy or operator_policy
        return NOTHING if only is None else only.definition
    from leveret.core.model.policy_keys import merged

    ours, theirs = policy.definition, operator_policy.definition
    common = {key: merged(key, ours[key], theirs[key]) for key in theirs if key in ours}
    return {**ours, **theirs, **common}
