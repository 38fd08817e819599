"""Mirroring of classic queues by policies of 3.x. A node on its own has nothing to mirror to.

RabbitMQ's checks and texts for the policy keys are copied. The keys have no effect that a client could see. Seen on
3.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leveret.core.model.erlang_terms import binary

KEYS: Final = (
    *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
    *("ha-promote-on-shutdown", "ha-promote-on-failure"),
)
# A policy with any of the keys does not apply to queues of these types.
UNSUPPORTED_BY: Final = ("quorum", "stream")
_CHOICES: Final = {
    "ha-sync-mode": ("manual", "automatic"),
    "ha-promote-on-shutdown": ("always", "when-synced"),
    "ha-promote-on-failure": ("always", "when-synced"),
}


def fault(definition: Mapping[str, object]) -> str:
    """Return RabbitMQ's complaint about the mirroring keys of a definition, an empty string if they are valid."""
    given = [key for key in KEYS if key in definition]
    if not given:
        return ""
    if "ha-mode" not in definition:
        return "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
    faults = [_mode_fault(definition["ha-mode"], definition.get("ha-params"))]
    faults += [_choice_fault(key, definition[key]) for key in _CHOICES if key in definition]
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
    first, second = _CHOICES[key]
    return "" if value in _CHOICES[key] else f'{key} must be "{first}" or "{second}", got {_shown(value)}'


def _batch_fault(size: object) -> str:
    return "" if _is_positive(size) else f"ha-sync-batch-size takes an integer greater than 0, {_shown(size)} given"


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return binary(value.encode()) if isinstance(value, str) else str(value)
