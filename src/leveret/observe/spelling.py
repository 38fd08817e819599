"""Names that are not there, and what may have been meant: the nearest that are."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The known names a misspelt one may have meant, nearest first."""
    # Nobody needs it who makes no mistake.
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n=3, cutoff=0.6)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a complaint about a name: what it may have meant; nothing when nothing is near."""
    close = nearest(name, [one for one in known if one])
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
