"""Ages as RabbitMQ writes them in x-max-age, in the policy key max-age and in x-stream-offset: "7D", "90s"."""

from __future__ import annotations

from typing import Final

_DAY_S: Final = 86_400
_UNIT_S: Final = {"Y": 365 * _DAY_S, "M": 30 * _DAY_S, "D": _DAY_S, "h": 3600, "m": 60, "s": 1}


def age_us(text: str) -> int | None:
    """Return an age in microseconds, None for an invalid one. An age is a positive integer and one of Y M D h m s."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNIT_S or not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        return None
    return int(digits) * _UNIT_S[unit] * 1_000_000
