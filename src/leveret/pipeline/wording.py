"""The words for numbers, outcomes and changes, which the report and the lines of `diff` share.

The tables keep short names for queries, such as `leaked`. Readers see one word for each of them, wherever it stands.
`change_text` makes the sentences on what changed over the last runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from leveret.pipeline.kernel.subjects.counts import OUTCOMES
from leveret.story import words
from leveret.trace.events import DEATHS
from leveret.wording import count_text, short_span_text

# Why a copy was dead-lettered.
REASONS: Final = {reason: why for kind in DEATHS for reason, why in words.REASONS[kind].items()}
# How a copy ended, or where it was when its test ended.
COPY_OUTCOMES: Final = {state: end.outcome for state, end in words.ENDS.items()}

# The numbers of a queue.
MEASURES: Final = {
    "redeliveries": "redelivered",
    "acked": "acknowledged",
    "leaked": "left over",
    "max_depth": "depth",
    "late": "out of order",
    **{f"dead_{reason}": f"dead-lettered ({why})" for reason, why in REASONS.items()},
}


def measure(difference: str) -> str:
    """Return the words for what differs: a number of a queue, `reason to queue` of dead letters, or the name itself."""
    reason, to, queue = difference.partition(" to ")
    return f"{REASONS[reason]}{to}{queue}" if to and reason in REASONS else MEASURES.get(difference, difference)


def label(row: Mapping[str, object]) -> str:
    """Return the name of a queue, with its virtual host in front unless that is "/"."""
    return str(row["queue"]) if row["vhost"] in (None, "/") else f"{row['vhost']}/{row['queue']}"


def copies(part: Mapping[str, Any]) -> str:
    """Return the words for copies with one outcome: an element of `parts` of a fingerprint."""
    n, requeues = part["n"], part["requeues"]
    after = f" after {count_text(requeues, 'requeue')}" if requeues else ""
    return f"{n:,} {COPY_OUTCOMES.get(str(part['outcome']), part['outcome'])}{after}"


# What a test does and did, by its outcome.
_ENDINGS: Final = {
    "passed": ("passes", "passed"),
    "xfailed": ("fails as expected", "failed as expected"),
    "skipped": ("is skipped", "was skipped"),
    "xpassed": ("passes unexpectedly", "passed unexpectedly"),
    "failed": ("fails", "failed"),
    "error": ("ends with an error", "ended with an error"),
}
# What changed, by its measure; "dropped" has no queue if none matched.
_NUMBERS: Final = {
    "redeliveries": "redeliveries in {queue}",
    "leaked": "messages left over in {queue}",
    "dropped": "messages dropped from {queue}",
    "published": "messages published to {queue}",
    "dead_letters": "dead letters from {queue} to {to_queue} ({reason})",
    "late": "messages delivered out of order from {queue}",
    "depth": "the depth of {queue}",
    "wait": "the time in {queue}",
    "refused": "refusals with code {reason}",
}
_LEAK: Final = "{queue} slowly leaks: run by run, messages left over grew from {before} to {after}"
_UNROUTED: Final = "unroutable messages"


def change_text(
    change: Mapping[str, Any],
    named: Callable[[str], str] = str,
    text: Callable[[str], str] = str,
    then: str = "before",
) -> str:
    """Return the sentence on a change of `history`, without its point.

    `named` returns how a name is shown, and `text` makes of a template what its slots are put into. `then` says when it
    was otherwise.
    """
    before, after = change["before"], change["after"]
    is_rate, rate = change["kind"] == "rate", ""
    if is_rate:
        rate = f" in {after} of {change['runs_after']} runs, and in {before} of {change['runs_before']} {then}"
    if change["measure"] == "outcome" and is_rate:
        return text(f"{{test}} fails{rate}").format(test=named(change["test"]))
    if change["measure"] == "outcome":
        template = f"{{test}} {_ENDINGS[OUTCOMES[after]][0]}, and {_ENDINGS[OUTCOMES[before]][1]} {then}"
        return text(template).format(test=named(change["test"]))
    if change["measure"] == "shape":
        return _shape_text(change, rate, named, text)
    is_unrouted = change["measure"] == "dropped" and change["queue"] is None
    number = _UNROUTED if is_unrouted else _NUMBERS[change["measure"]]
    if is_rate:
        template = number + rate + ("," if change["tests"] else "")
    elif change["kind"] == "growth":
        template = _LEAK if change["measure"] == "leaked" else f"run by run, {number} grew from {{before}} to {{after}}"
    elif change["measure"] == "dead_letters" and not before:
        template = "new path from {queue} to {to_queue}: " + count_text(after, "dead letter") + " ({reason})"
    else:
        template = number + (" rose" if after > before else " fell") + " from {before} to {after}"
    tests = change["tests"]
    template += " in {test}" if len(tests) == 1 else f" in {len(tests)} tests" if tests else ""
    values = {"queue": change["queue"], "to_queue": change["to_queue"], "test": tests[0] if tests else None}
    names = {name: "an unknown queue" if value is None else named(value) for name, value in values.items()}
    names["reason"] = REASONS.get(change["reason"], change["reason"])
    if change["measure"] == "wait":
        before, after = short_span_text(before), short_span_text(after)
    return text(template).format(**names, before=before, after=after)


def _shape_text(change: Mapping[str, Any], rate: str, named: Callable[[str], str], text: Callable[[str], str]) -> str:
    """Return the sentence on a type that a field of a kind of message has or no longer has."""
    names = {name: named(change[name] or "") for name in ("exchange", "routing_key", "name", "field")}
    kind = " of {exchange} {routing_key}" if change["exchange"] else " of {routing_key}"
    kind += " ({name})" if change["name"] else ""
    verb = "is" if rate or change["after"] else "is no longer"
    return text(f"{{field}}{kind} {verb} {{type}}{rate}").format(**names, type=change["reason"])
