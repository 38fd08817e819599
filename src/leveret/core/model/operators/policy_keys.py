"""The keys of a policy definition: their valid values, how two policies merge, and RabbitMQ's texts for faults.

Texts and merge rules are as seen on RabbitMQ 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.operators.patterns import is_too_long, name_pattern
from leveret.core.model.queues.arguments import QUEUE_ARGUMENTS, PolicyKey, integer_from, is_string
from leveret.core.wire import erlang

# Keys that match no queue argument. All others are in the rows of `arguments.QUEUE_ARGUMENTS`.
_FURTHER: Final = (
    PolicyKey("alternate-exchange", is_string, "alternate exchange name"),
    PolicyKey("target-group-size", integer_from(1), "qq target count value", "higher", ("classic", "stream")),
    # Its values have a check of their own.
    PolicyKey("queue-master-locator", lambda value: True, "master locator", None, ("quorum", "stream")),
)
_KEYS: Final[dict[str, PolicyKey]] = {
    key.name: key for key in (*_FURTHER, *(row.policy_key for row in QUEUE_ARGUMENTS.values())) if key is not None
}
# Mirroring of classic queues by policies of 3.x. A node on its own has nothing to mirror to, so the keys are checked
# and have no other effect (seen on 3.10).
_MIRRORING_KEYS: Final = (
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
    *("ha-promote-on-shutdown", "ha-promote-on-failure"),
)
# A policy with any of the keys does not apply to queues of these types.
_MIRRORING_UNSUPPORTED_BY: Final = ("quorum", "stream")
_MIRRORING_CHOICES: Final = {
    "ha-sync-mode": ("manual", "automatic"),
    "ha-promote-on-shutdown": ("always", "when-synced"),
    "ha-promote-on-failure": ("always", "when-synced"),
}
_QUEUE_TYPE_TARGETS: Final = ("classic_queues", "quorum_queues", "streams")
APPLY_TO: Final = ("queues", *_QUEUE_TYPE_TARGETS, "exchanges", "all")


def _known(kind: str, compat: Compat) -> list[str]:
    """Return the keys that policies of users, or of operators, may have."""
    if kind == "user":
        keys = [*_KEYS, *(_MIRRORING_KEYS if compat.has_mirroring else ())]
    else:
        keys = [key for key, row in _KEYS.items() if row.operator_merge and key not in compat.missing_operator_keys]
        keys += compat.further_operator_keys
    return [key for key in keys if key not in compat.missing_policy_keys]


def unsupported_by(definition: Mapping[str, object], compat: Compat) -> tuple[str, ...]:
    """Return the queue types that a policy with this definition does not apply to at all."""
    unsuited = {key: row.unsupported_by for key, row in _KEYS.items()} | dict(compat.types_unsuited_to_keys)
    types = [name for key in definition for name in unsuited.get(key, ())]
    if any(key in _MIRRORING_KEYS for key in definition):
        types += _MIRRORING_UNSUPPORTED_BY
    return tuple(dict.fromkeys(types))


def merged(key: str, ours: object, theirs: object) -> object:
    """Return the value that applies if a user policy and an operator policy both have a key.

    The rule of the key decides: the stricter value, or the operator's.
    """
    rule = _KEYS[key].operator_merge
    if rule == "operator" or not isinstance(ours, int) or not isinstance(theirs, int):
        return theirs
    # A negative delivery limit means unlimited, so the other value is the stricter one.
    if rule == "higher" or (rule == "limit" and min(ours, theirs) < 0):
        return max(ours, theirs)
    return min(ours, theirs)


def faults(
    *,
    pattern: object,
    definition: object,
    apply_to: object,
    priority: object,
    kind: str,
    compat: Compat,
) -> list[str]:
    """Return every fault that RabbitMQ reports in a policy, in RabbitMQ's order; `kind` is "user" or "operator"."""
    texts = (
        _definition_fault(definition, _known(kind, compat), compat),
        _target_fault(apply_to, compat),
        _pattern_fault(pattern, compat),
        _priority_fault(priority),
    )
    return [fault for fault in texts if fault]


def _priority_fault(priority: object) -> str:
    if isinstance(priority, (int, float)) and not isinstance(priority, bool):
        return ""
    return f"priority should be a number, actually was {printed(priority)}"


def _pattern_fault(pattern: object, compat: Compat) -> str:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {printed(pattern)}"
    if is_too_long(pattern, compat.max_pattern_bytes):
        return f"pattern must not exceed {compat.max_pattern_bytes} bytes"
    try:
        name_pattern(pattern, is_pcre2=compat.has_pcre2)
    except re.error as error:
        text = "pattern should be regular expression but is invalid: "
        return text + erlang.pair(erlang.string(error.msg.encode()), str(error.pos), len(text))
    return ""


def _target_fault(target: object, compat: Compat) -> str:
    if not isinstance(target, str):
        # Erlang's empty list is an empty text.
        target = "" if target == [] else printed(target)
    is_offered = compat.policies_tell_queue_types_apart or target not in _QUEUE_TYPE_TARGETS
    if target in APPLY_TO and is_offered:
        return ""
    if not compat.policies_tell_queue_types_apart:
        return f"apply-to '{target}' unrecognised; should be 'queues', 'exchanges' or 'all'"
    # RabbitMQ's text has two spaces before 'quorum_queues'.
    words = "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
    return f"apply-to '{target}' unrecognised; should be one of: {words}"


def _definition_fault(definition: object, keys: list[str], compat: Compat) -> str:
    if not isinstance(definition, Mapping):
        return f"definition must be a dictionary: {printed(definition)}"
    if not definition:
        return "no policy provided"
    for key in sorted(definition.keys() & _KEYS.keys() & set(keys)):
        is_negative = key == "delivery-limit" and not compat.negative_delivery_limit_is_none
        if not _KEYS[key].is_valid(definition[key]) or (is_negative and definition[key] < 0):
            return f"{printed(definition[key])} is not a valid {_KEYS[key].title}"
    if "ha-mode" in keys and (fault := _mirroring_fault(definition)):
        return fault
    if "queue-master-locator" in keys and "queue-master-locator" in definition:
        locator = definition["queue-master-locator"]
        if compat.denies_queue_master_locator:
            return "use of deprecated queue-master-locator argument is not permitted"
        if locator not in compat.master_locators:
            return f"{printed(locator)} {compat.master_locator_fault}"
    unknown = sorted(key for key in definition if key not in keys)
    if unknown:
        pairs = (f"{{{printed(key)},{printed(definition[key])}}}" for key in unknown)
        return f"{erlang.listed(pairs, 0)} are not recognised policy settings"
    return _retry_fault(definition)


def _retry_fault(definition: Mapping[str, object]) -> str:
    kind = definition.get("delayed-retry-type", "disabled")
    lowest, highest = definition.get("delayed-retry-min"), definition.get("delayed-retry-max")
    if lowest is None and kind != "disabled":
        return f"delayed-retry-min is required when delayed-retry-type is {kind}"
    if isinstance(lowest, int) and isinstance(highest, int) and highest < lowest:
        return f"delayed-retry-max ({highest}) must not be smaller than delayed-retry-min ({lowest})"
    return ""


def _mirroring_fault(definition: Mapping[str, object]) -> str:
    """Return RabbitMQ's complaint about the mirroring keys of a definition, an empty string if they are valid."""
    given = [key for key in _MIRRORING_KEYS if key in definition]
    if not given:
        return ""
    if "ha-mode" not in definition:
        return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    faults = [_mode_fault(definition["ha-mode"], definition.get("ha-params"))]
    faults += [_choice_fault(key, definition[key]) for key in _MIRRORING_CHOICES if key in definition]
    faults.append(_batch_fault(definition.get("ha-sync-batch-size", 1)))
    return next(filter(None, faults), "")


def _mode_fault(mode: object, params: object) -> str:
    if mode == "all":
        return "" if params is None else 'ha-mode="all" does not take parameters'
    if mode == "exactly":
        return "" if _is_positive(params) else f'ha-mode="exactly" takes an integer, {_shown(params)} given'
    if mode == "nodes":
        if not isinstance(params, list):
            return f'ha-mode="nodes" takes a list, {_shown(params)} given'
        return "" if params else 'ha-mode="nodes" list must be non-empty'
    return f"{_shown(mode)} is not a valid ha-mode value"


def _choice_fault(key: str, value: object) -> str:
    first, second = _MIRRORING_CHOICES[key]
    return "" if value in _MIRRORING_CHOICES[key] else f'{key} must be "{first}" or "{second}", got {_shown(value)}'


def _batch_fault(size: object) -> str:
    return "" if _is_positive(size) else f"ha-sync-batch-size takes an integer greater than 0, {_shown(size)} given"


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return erlang.utf8_binary(value.encode()) if isinstance(value, str) else str(value)


def printed(value: object) -> str:
    """Return a JSON value as RabbitMQ prints it in these texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return erlang.utf8_binary(erlang.text(value))
    if isinstance(value, float):
        return erlang.float_text(value)
    if isinstance(value, Mapping):
        return f"#{{{','.join(f'{printed(key)} => {printed(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(printed, value))}]"
    return str(value)
