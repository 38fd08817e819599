"""Policies of a vhost: settings for queues and exchanges whose name matches a pattern.

Of all matching user policies one applies to an object, and of all matching operator policies one: the one with the
highest priority, then the first by name. The two together are the object's effective definition; `settings` merges it
with a queue's arguments. The keys of a definition and their merge rules are in `policy_keys`, which is imported with
the first policy.

A policy that is set or cleared reaches `VirtualHost.policies_changed`, which gives each queue and exchange what applies
to it now: `QueueSettings.effective`, then `StoredQueue.apply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from leveret.core.compat import V4_3, Compat

if TYPE_CHECKING:
    from leveret.core.model.operators.patterns import NamePattern

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


class _Row(NamedTuple):
    """A policy among others: its place in the order in which they are tried, and the queue types it does not suit."""

    rank: int
    policy: Policy
    pattern: NamePattern
    unsupported_by: tuple[str, ...]


class PolicySet:
    """The user policies, or the operator policies, of a vhost."""

    __slots__ = ("_compat", "_is_changed", "_kind", "_lengths", "_rows", "by_name")

    def __init__(self, kind: Literal["user", "operator"], compat: Compat) -> None:
        self._kind = kind
        self._compat = compat
        # In order of creation.
        self.by_name: dict[str, Policy] = {}
        # By what a name has to begin with, and the lengths of that. Made anew at the first match after a change.
        self._rows: dict[str, list[_Row]] = {}
        self._lengths: list[int] = []
        self._is_changed = False

    def check(self, policy: Policy) -> None:
        """Raise PolicyInvalid, with a line for every fault that RabbitMQ reports, if RabbitMQ refuses a policy."""
        from leveret.core.model.operators.policy_keys import faults

        texts = faults(
            pattern=policy.pattern,
            definition=policy.definition,
            apply_to=policy.apply_to,
            priority=policy.priority,
            kind=self._kind,
            compat=self._compat,
        )
        if texts:
            raise PolicyInvalid("\n".join(texts))

    def set(self, policy: Policy) -> None:
        """Add a policy or replace the one with its name. Raises PolicyInvalid if RabbitMQ refuses it."""
        self.check(policy)
        self.keep(policy)

    def keep(self, policy: Policy) -> None:
        """Add a policy that a server has accepted, or replace the one with its name."""
        self.by_name[policy.name] = policy
        self._is_changed = True

    def clear(self, name: str) -> None:
        """Remove a policy. Raises KeyError if it does not exist."""
        del self.by_name[name]
        self._is_changed = True

    def _rank(self) -> None:
        from leveret.core.model.operators.patterns import name_pattern
        from leveret.core.model.operators.policy_keys import unsupported_by

        self._rows = {}
        ranked = sorted(self.by_name.values(), key=lambda policy: (-policy.priority, policy.name))
        for rank, policy in enumerate(ranked):
            pattern = name_pattern(policy.pattern, is_pcre2=self._compat.has_pcre2)
            row = _Row(rank, policy, pattern, unsupported_by(policy.definition, self._compat))
            self._rows.setdefault(pattern.beginning, []).append(row)
        self._lengths = sorted(dict.fromkeys(map(len, self._rows)))
        self._is_changed = False

    def match(self, name: str, targets: tuple[str, ...], queue_type: str = "") -> Policy | None:
        """Return the policy that applies to a queue or exchange with this name."""
        if not self.by_name:
            return None
        from leveret.core.model.operators.patterns import octets

        if self._is_changed:
            self._rank()
        text = octets(name)
        rows = [row for length in self._lengths for row in self._rows.get(text[:length], ())]
        for _, policy, pattern, unsupported in sorted(rows):
            if policy.apply_to not in targets or pattern.search(text) is None:
                continue
            if queue_type not in unsupported:
                return policy
        return None


class Policies:
    """All policies of one vhost. If there are none, a query costs two lookups in an empty list."""

    __slots__ = ("operator", "user")

    def __init__(self, compat: Compat = V4_3) -> None:
        self.user = PolicySet("user", compat)
        self.operator = PolicySet("operator", compat)

    def for_queue(self, name: str, queue_type: str) -> tuple[Policy | None, Policy | None]:
        """Return the user policy and the operator policy that apply to a queue with this name and type."""
        targets = _QUEUE_TARGETS[queue_type]
        return self.user.match(name, targets, queue_type), self.operator.match(name, targets, queue_type)

    def for_exchange(self, name: str) -> tuple[Policy | None, Policy | None]:
        """Return the user policy and the operator policy that apply to an exchange with this name."""
        return self.user.match(name, _EXCHANGE_TARGETS), self.operator.match(name, _EXCHANGE_TARGETS)

    def effective_for_queue(self, name: str, queue_type: str) -> Definition:
        """Return the combined definition of the policies that apply to a queue."""
        return combined(*self.for_queue(name, queue_type))

    def effective_for_exchange(self, name: str) -> Definition:
        """Return the combined definition of the policies that apply to an exchange."""
        return combined(*self.for_exchange(name))


def combined(policy: Policy | None, operator_policy: Policy | None) -> Definition:
    """Return the combined definition of both; if both have a key, its merge rule decides."""
    if policy is None or operator_policy is None:
        only = policy or operator_policy
        return NOTHING if only is None else only.definition
    from leveret.core.model.operators.policy_keys import merged

    ours, theirs = policy.definition, operator_policy.definition
    common = {key: merged(key, ours[key], theirs[key]) for key in theirs if key in ours}
    return {**ours, **theirs, **common}
