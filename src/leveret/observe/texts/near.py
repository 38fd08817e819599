"""Why a binding nearly matches a routing key: what differs between the two, in a few words."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final

from leveret.core.model.exchanges.topic import ANY_WORDS, ONE_WORD, words

# How alike two keys must be to be worth a mention, and how many bindings are named.
_ALIKE_MIN: Final = 0.5
# How alike two words must be to be one with a typo.
_TYPO_MIN: Final = 0.6
NEAR_MAX: Final = 3


def nearest(key: str, bound: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return the binding keys nearest to a routing key, each with its destination and what differs.

    `bound` has binding keys and their destinations. A key that is the same is no near miss.
    """
    bound = [binding for binding in bound if binding[0] != key]
    ranked = sorted(((_likeness(key, pattern), index) for index, (pattern, _) in enumerate(bound)), reverse=True)
    near = [bound[index] for likeness, index in ranked[:NEAR_MAX] if likeness > _ALIKE_MIN]
    return [(pattern, destination, why_not(key, pattern)) for pattern, destination in near]


def why_not(key: str, pattern: str) -> str:
    """Return what differs between a routing key and the binding key that it does not match."""
    assert key != pattern
    if not key:
        return "the routing key is empty"
    if key.lower() == pattern.lower():
        return "only upper and lower case differ"
    if key.strip() == pattern.strip():
        return "one of them has white space around it"
    has, wants = words(key), words(pattern)
    if ANY_WORDS not in wants and len(has) != len(wants):
        return _counted(has, wants)
    for word, wanted in zip(has, wants, strict=False):
        if wanted == ANY_WORDS:
            break
        if wanted not in (ONE_WORD, word):
            return f"{word!r} is not {wanted!r}"
    return f"{key!r} is not {pattern!r}"


def slip(key: str, pattern: str) -> str:
    """Return what is easily overlooked between a routing key and a binding key: words, case, space or a typo."""
    has, wants = words(key), words(pattern)
    shorter, longer = (has, wants) if len(has) < len(wants) else (wants, has)
    rest = iter(longer)
    is_part = len(has) != len(wants) and all(any(_fits(word, other) for other in rest) for word in shorter)
    why = why_not(key, pattern)
    if len(has) == len(wants) > 1:
        differing = [pair for pair in zip(has, wants, strict=True) if not _fits(*pair)]
        is_part = len(differing) == 1 and SequenceMatcher(None, *differing[0]).ratio() > _TYPO_MIN
    return why if is_part or (" is not " not in why and len(has) == len(wants)) else ""


def _fits(word: str, other: str) -> bool:
    return word == other or ONE_WORD in (word, other)


def _counted(has: list[str], wants: list[str]) -> str:
    """Return which words are missing or too many."""
    for index in range(min(len(has), len(wants))):
        if wants[index] in (ONE_WORD, has[index]) and not _misplaced(has, wants, index):
            continue
        where = f"before {has[index]!r}" if len(has) < len(wants) else f"at {has[index]!r}"
        return _words_text(len(wants) - len(has), where)
    return _words_text(len(wants) - len(has), f"after {has[min(len(has), len(wants)) - 1]!r}")


def _misplaced(has: list[str], wants: list[str], index: int) -> bool:
    """Return whether a wildcard took the word that a later word of the pattern wants."""
    return wants[index] == ONE_WORD and len(has) < len(wants) and wants[index + 1 : index + 2] == [has[index]]


def _words_text(missing: int, where: str) -> str:
    count = "one word" if abs(missing) == 1 else f"{abs(missing)} words"
    verb = "is" if abs(missing) == 1 else "are"
    return f"{count} {verb} {'missing' if missing > 0 else 'too many'} {where}"


def _likeness(key: str, pattern: str) -> float:
    """Return how alike a routing key and a binding key are, from 0 to 1. A wildcard is as good as its word."""
    has = words(key)
    wanted = [
        has[index] if word == ONE_WORD and index < len(has) else word for index, word in enumerate(words(pattern))
    ]
    by_words = SequenceMatcher(None, has, wanted, autojunk=False).ratio()
    return max(by_words, SequenceMatcher(None, key.lower(), pattern.lower(), autojunk=False).ratio())
