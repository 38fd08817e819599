"""The changes on a newer version, by cause.

Each cause is one entry, for any number of tests: the same denied feature at the same line, the same refusal, the same
failing line, or the same difference between two fingerprints. Tests that fail on every version are not reported as
changes. Tests that fail on the oldest version and pass on a newer one are listed by the versions on which they pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from leveret.core.compat import PERMITTED
from leveret.observe.texts.advice import ways_out
from leveret.story.facts import Facts
from pytest_leveret.rehearsals.fingerprint import SHARED, X_DEATH, Refusal, normal


@dataclass(slots=True)
class VersionRun:
    """One test on one version."""

    # "passed", "failed", or "skipped" for every other outcome.
    outcome: str = "skipped"
    # The line and the message of its failure.
    place: str = ""
    message: str = ""
    facts: Facts = field(default_factory=Facts)
    refusals: list[Refusal] = field(default_factory=list)
    is_recorded: bool = False
    is_complete: bool = False
    published_count: int = 0


@dataclass(slots=True)
class VersionChange:
    """One cause, and the tests that met it."""

    lines: list[str]
    # The names of tests that fail, and of those that pass.
    failing: dict[str, None] = field(default_factory=dict)
    passing: dict[str, None] = field(default_factory=dict)


# Why x-death differs (docs/reference/broker.md).
_COUNT_RESTARTS: Final = [
    "From 4.0 on, RabbitMQ restarts the count when a client publishes a message with an x-death header. Up to 3.13, it",
    "continues the count. A way out: let the client count in a header of its own",
]

# From one version to a newer one.
Step = tuple[str, str]


def changes(runs: Mapping[str, Mapping[str, VersionRun]], versions: Sequence[str]) -> dict[Step, list[VersionChange]]:
    """Return the changes by step between versions, for runs by test and version."""
    found: dict[Step, dict[tuple[str, ...], VersionChange]] = {}
    for test, by_version in runs.items():
        for older, newer in steps(by_version, versions):
            causes = found.setdefault((older, newer), {})
            _compare(test, by_version[older], by_version[newer], (older, newer), causes)
    in_order = sorted(found, key=lambda step: (versions.index(step[1]), versions.index(step[0])))
    return {step: list(found[step].values()) for step in in_order if found[step]}


def late_passes(
    runs: Mapping[str, Mapping[str, VersionRun]], versions: Sequence[str]
) -> dict[tuple[str, ...], list[str]]:
    """Return the tests that fail on the oldest version and pass on a newer one, by the versions they pass on."""
    found: dict[tuple[str, ...], list[str]] = {}
    for test, by_version in runs.items():
        outcomes = {version: by_version[version].outcome for version in versions if version in by_version}
        first = next((outcome for outcome in outcomes.values() if outcome != "skipped"), None)
        if first == "failed" and "passed" in outcomes.values():
            passing = tuple(version for version, outcome in outcomes.items() if outcome == "passed")
            found.setdefault(passing, []).append(test)
    return found


def steps(by_version: Mapping[str, VersionRun], versions: Sequence[str]) -> Iterator[Step]:
    """Return the steps from each version on which a test passes to the next on which it passes or fails."""
    decided = [version for version in versions if version in by_version and by_version[version].outcome != "skipped"]
    return ((older, newer) for older, newer in pairwise(decided) if by_version[older].outcome == "passed")


def _compare(
    test: str, before: VersionRun, after: VersionRun, step: Step, causes: dict[tuple[str, ...], VersionChange]
) -> None:
    new_refusals = _missing(after.refusals, before.refusals)
    entries = [_refused(refusal) for refusal in new_refusals]
    if after.outcome == "failed":
        entries = entries or [_failed(after, _differences(before, after, step))]
    else:
        entries += [((line,), [line, *more]) for line, *more in _differences(before, after, step)]
        entries += [_not_refused(refusal, step) for refusal in _missing(before.refusals, after.refusals)]
    for key, lines in entries:
        change = causes.setdefault(key, VersionChange(lines))
        (change.failing if after.outcome == "failed" else change.passing)[test] = None


def _missing(refusals: list[Refusal], others: list[Refusal]) -> list[Refusal]:
    """Return the refusals that are not among the others, regardless of their lines."""
    known = {(refusal.client, refusal.code, refusal.text) for refusal in others}
    return [refusal for refusal in refusals if (refusal.client, refusal.code, refusal.text) not in known]


def _refused(refusal: Refusal) -> tuple[tuple[str, ...], list[str]]:
    summary = refusal.text.partition("\n")[0]
    line = refusal.line
    lines = [f"{refusal.client} is refused: {refusal.code} {summary}", *([f"  {line}"] if line else [])]
    if feature := refusal.feature:
        return ("denied", feature, line or refusal.client), [*lines, *_indented(ways_out(feature))]
    return ("refused", str(refusal.code), refusal.text, line or refusal.client), lines


def _not_refused(refusal: Refusal, step: Step) -> tuple[tuple[str, ...], list[str]]:
    older, newer = step
    summary = refusal.text.partition("\n")[0]
    line = f"on {newer} {refusal.client} is no longer refused; on {older} {refusal.code} {summary}"
    return (line,), [line]


def _failed(run: VersionRun, differences: list[list[str]]) -> tuple[tuple[str, ...], list[str]]:
    """Return the entry for a failure without a refused client. A call of the test itself may have been refused."""
    summary = run.message.strip().partition("\n")[0]
    # Of a failure, pytest keeps its message only.
    feature = next((name for name in PERMITTED if name in run.message), None)
    if feature is not None:
        lines = [f"the test is refused: {summary}", f"  during the call at {run.place}", *_indented(ways_out(feature))]
        return ("denied", feature, run.place), lines
    outcomes = [line for difference in differences for line in difference]
    return ("failed", run.place, normal(summary)), [f"{summary} at {run.place}", *_indented(outcomes)]


def _differences(before: VersionRun, after: VersionRun, step: Step) -> list[list[str]]:
    """Return the differences between two fingerprints, each as a sentence and lines that explain it."""
    subjects = dict.fromkeys((fact.what, fact.where) for fact in (*before.facts, *after.facts))
    are_complete = before.is_complete and after.is_complete
    are_countable = are_complete and before.published_count == after.published_count
    found = []
    for what, where in subjects:
        old, new = _values(before, what, where), _values(after, what, where)
        if "" in old or "" in new:
            if old != new and are_countable:
                found.append([f"on {step[1]} {new[''] or 'none'} {what} {where}; on {step[0]} {old[''] or 'none'}"])
        elif _look_different(old, new, are_complete=are_complete):
            sentence = f"on {step[1]} {_looks(what, where, new)}; on {step[0]} {_shown(old, short=True)}"
            is_denied = SHARED in old and SHARED not in new
            reasons = ways_out("global_qos") if is_denied else _COUNT_RESTARTS if what == X_DEATH else []
            found.append([sentence, *_indented(reasons)])
    # A difference with an explanation is more likely to be the cause of the others, so it comes first.
    return sorted(found, key=len, reverse=True)


def _values(run: VersionRun, what: str, where: str) -> Counter[str]:
    return Counter({fact.value: n for fact, n in run.facts.items() if (fact.what, fact.where) == (what, where)})


def _look_different(old: Counter[str], new: Counter[str], *, are_complete: bool) -> bool:
    if not old or not new:
        return False
    if not are_complete or old.total() != new.total():
        # Some facts may be missing in one of the two.
        return not set(old) & set(new)
    return old != new


def _looks(what: str, where: str, values: Counter[str]) -> str:
    is_one = values.total() == 1 or what.startswith("prefetch")
    subject = f"the {what} {where} is" if is_one else f"the {what}s {where} are"
    return f"{subject} {_shown(values)}"


def _shown(values: Counter[str], *, short: bool = False) -> str:
    if len(values) == 1:
        (value,) = values
        return value.partition("=")[2] or value if short else value
    return ", ".join(f"{count} {value}" for value, count in sorted(values.items()))


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
