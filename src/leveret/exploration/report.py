"""The report of a schedule that failed: what happened in order, what was lost or done twice, and how to replay it.

Pure functions over runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from leveret.errors import did_you_mean
from leveret.exploration.kinds import KINDS, FaultMaker
from leveret.story.facts import CountedFact, Facts, noise_of, without_noise
from leveret.story.words import done
from leveret.trace import events
from leveret.trace.events import Event, content
from leveret.wording import count_text, masked, without_generated_end

if TYPE_CHECKING:
    from leveret.exploration.run import Run
    from leveret.exploration.schedule import Schedule, Seen
    from leveret.exploration.search import Exploration
    from leveret.faults import Fault

_BEFORE: Final = 8
_AFTER: Final = 16
_LISTED: Final = 10
_ERROR_LINES: Final = 4
_TIMES: Final = ("never", "once", "twice")

# The events whose counts are compared with the plain run.
_COMPARED: Final = (events.PUBLISHED, events.DELIVERED, events.ACKED)


def failure_text(exploration: Exploration, kinds: Mapping[str, FaultMaker], replay: str) -> str:
    """Return the report of an exploration that failed. It describes the first failed run in full."""
    first, smaller = exploration.failed_runs[0], exploration.smaller
    run, plain = (first, exploration.plain) if smaller is None else (smaller.failed, smaller.plain)
    count = len(plain.published)
    # Two runs without a fault may do something with different bodies, such as a process's number.
    noise = noise_of([_facts(it) for it in (exploration.plain, exploration.again) if it is not None])
    parts = [
        _title(first),
        _section(f"These of the {count} messages that the scenario publishes are enough:", _some(smaller.needed))
        if smaller is not None
        else "",
        _section("What happened:" if smaller is None else "What happened with these alone:", _story(run, kinds)),
        _section("Unlike the run without a fault:", _differences(run, plain, noise)),
        _section("Confirmed and lost:", run.losses),
        _section("Errors in other threads:", list(dict.fromkeys(run.thread_errors))[:_LISTED]),
        _section("How the scenario failed:", _outcome(run)),
        _section("Replay it:", [replay]),
        str(exploration),
        _section("Also failed:", _some(exploration.failed[1:])),
        _section("Diverged, because a step did not occur again:", _some(exploration.diverged)),
    ]
    return "\n\n".join(part for part in parts if part)


def plain_hang_text(run: Run) -> str:
    """Return the report of a scenario that hangs without a fault."""
    return f"the plain run, without a fault, failed: {run.hang}\n{run.state}"


def divergence_text(exploration: Exploration) -> str:
    """Return the report of the schedules that diverged."""
    count = len(exploration.diverged_runs)
    lines = [_missing(run) + _hint_at_step(run, exploration) for run in exploration.diverged_runs]
    return _section(
        f"{count_text(count, 'schedule')} of {exploration.run_count} diverged: a step did not occur again in two runs:",
        _some(lines),
    )


def skipped_text(exploration: Exploration) -> str:
    """Return the report of the schedules under which the scenario skipped itself."""
    count = count_text(len(exploration.skipped), "schedule")
    title = f"nothing was explored under {count} of {exploration.run_count}, because the test skipped itself:"
    return _section(title, _some(exploration.skipped))


def unrepeated_text(exploration: Exploration) -> str:
    """Return the report of the schedules that failed in another process only."""
    count = count_text(len(exploration.unrepeated), "schedule")
    title = f"{count} failed in another process, beside other runs, and passed when it ran again alone:"
    advice = "If runs share something, such as a database, pass processes=1."
    return f"{_section(title, _some(exploration.unrepeated))}\n{advice}"


def _hint_at_step(run: Run, exploration: Exploration) -> str:
    """Return the step that is nearest to one that no run without a fault has, because it may be misspelt."""
    step = str(run.schedule.placements[0].step)
    return "" if step in exploration.steps else did_you_mean(step, exploration.steps)


def _missing(run: Run) -> str:
    is_all = len(run.missing) == len(run.schedule.placements)
    return f"{run.schedule}" if is_all else f"{run.schedule} (without {', '.join(run.missing)})"


def _title(run: Run) -> str:
    if run.missing:
        return f"flaky without this fault: {run.missing[0]} never occurred, so it did not cause the failure"
    count = len(run.schedule.placements)
    return f"{'one fault is' if count == 1 else f'{count} faults are'} enough: {run.schedule}"


def _section(title: str, lines: Iterable[str]) -> str:
    shown = [f"  {line}" for text in lines for line in text.splitlines()]
    return "\n".join([title, *shown]) if shown else ""


def _some(lines: list[str]) -> list[str]:
    more = [f"... and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return lines[:_LISTED] + more


def _story(run: Run, kinds: Mapping[str, FaultMaker]) -> list[str]:
    """Return lines for the steps around the faults, and for what the faults did there."""
    shown = [seen for seen in run.seen if seen.applied is not None or _is_relevant(seen)]
    faulty = [index for index, seen in enumerate(shown) if seen.applied is not None]
    first, last = (faulty[0], faulty[-1]) if faulty else (len(shown), len(shown))
    start, end = max(0, first - _BEFORE), last + 1 + _AFTER
    lines = [f"... {count_text(start, 'step')} before"] if start else []
    for seen in shown[start:end]:
        lines += _lines_of(seen, kinds)
    rest = len(shown) - end
    return lines + ([f"... {count_text(rest, 'step')} more"] if rest > 0 else [])


def _is_relevant(seen: Seen) -> bool:
    """Return whether a step is worth a line. Replies that only say ok and the handshake are not."""
    step = seen.step
    if step.method.startswith("connection."):
        return step.method in ("connection.open", "connection.close")
    return step.method != "channel.open" and not (step.method.endswith("-ok") and not step.is_from_client)


def _lines_of(seen: Seen, kinds: Mapping[str, FaultMaker]) -> Iterator[str]:
    about = f"  {seen.about}" if seen.about else ""
    yield f"{seen.step}{about}{' (redelivered)' if seen.is_redelivered else ''}"
    if seen.applied is not None:
        yield f"    *** {kinds[seen.applied].describe(seen.step)} ***"


def _differences(run: Run, plain: Run, noise: set[CountedFact]) -> list[str]:
    """Return lines for what happened more or less often than in the plain run, whatever is made up anew in each."""
    now, before = without_noise(_facts(run), noise), without_noise(_facts(plain), noise)
    return _some(
        [
            _difference(fact, now[fact], before[fact])
            for fact in dict.fromkeys([*before, *now])
            if now[fact] != before[fact]
        ]
    )


def _difference(fact: CountedFact, count: int, plain_count: int) -> str:
    what = fact.value or fact.where
    if not count:
        return f"{what} was never {fact.what}"
    instead = f" instead of {_times(plain_count)}" if plain_count else ", and never without the fault"
    return f"{what} was {fact.what} {_times(count)}{instead}"


def _facts(run: Run) -> Facts:
    """Return how often what happened, in which each body is a value."""
    compared = [event for event in map(Event, run.raw_events) if event.kind in _COMPARED]
    return Facts(CountedFact(done(it.kind), masked(_what(it)), value=_what(it)) for it in compared)


def _what(event: Event) -> str:
    message = event.message
    if event.kind == events.PUBLISHED:
        key = without_generated_end(message.routing_key)
        return f"{content(message)} to {message.exchange or 'the default exchange'}, key {key!r},"
    return f"{content(message)} from {without_generated_end(str(event.queue))}"


def _times(count: int) -> str:
    return _TIMES[count] if count < len(_TIMES) else f"{count} times"


def _outcome(run: Run) -> list[str]:
    if run.hang is not None:
        return [run.hang, *run.state.splitlines()]
    if run.error is not None:
        text = f"{type(run.error).__name__}: {run.error}".rstrip(": ")
        # A few lines are enough: the error with this text is raised from the scenario's error, which has all of them.
        lines = text.splitlines()
        return lines[:_ERROR_LINES] + (["..."] if len(lines) > _ERROR_LINES else [])
    return []


def replay_line(name: str, schedule: Schedule, kinds: Mapping[str, FaultMaker]) -> str:
    """Return the line of code that runs one schedule again."""
    faults = [kinds[placement.kind].new() for placement in schedule.placements if placement.kind not in KINDS]
    own = f"faults=[{', '.join(map(_expression, faults))}], " if faults else ""
    return f'explore({name}, {own}only="{schedule}")'


def _expression(fault: Fault) -> str:
    """Return the code that makes a fault."""
    arguments, words = fault.made_with
    given = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in words.items())]
    return f"{type(fault).__name__}({', '.join(given)})"
