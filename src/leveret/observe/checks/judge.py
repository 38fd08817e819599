"""The judge of a broker: it collects the findings of the strict checks and reports each once.

The judge reads the trace when a test begins to allow something, stops allowing it, checks, and ends. It judges each
event by the allowances at the time of the event. At the end of the test it looks for leftovers, such as open
connections, and for faults that never happened. A leftover is allowed if it was allowed when it began.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from leveret.errors import CheckFailedError, LeveretWarning
from leveret.observe.checks.finding import Allowance, Finding
from leveret.observe.checks.leftovers import Leftovers
from leveret.observe.checks.never_awaited import NeverAwaited
from leveret.observe.checks.table import CHECKS, CheckLevel, Levels, Wanted
from leveret.observe.checks.texts import PublisherTexts, blind_text, group_text, incomplete_text
from leveret.observe.checks.trace_checks import TraceChecks
from leveret.observe.checks.trace_context import TraceContext
from leveret.observe.checks.unused_faults import Planned, UnusedFaults, unused_finding
from leveret.trace.events import RawEvent, printable

if TYPE_CHECKING:
    from leveret.core.model.node import Node
    from leveret.observe.assertions.source import Source
    from leveret.observe.checks.no_client import NoClient, UsedSource
    from leveret.observe.texts.handle import Handle


class Verdict:
    """The texts to report: errors and warnings."""

    __slots__ = ("errors", "warnings")

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def speak(self, where: tuple[str, int] | None = None) -> None:
        """Issue the warnings, then raise CheckFailedError if there are errors.

        If the user's filter turns a warning into an error, it raises too. `where`, a file and a line, is where the
        warnings point to; by default they point to the caller.
        """
        __tracebackhide__ = True
        failures: list[Exception] = []
        for text in self.warnings:
            try:
                if where is None:
                    warnings.warn(printable(text), LeveretWarning, stacklevel=stack_level())
                else:
                    warnings.warn_explicit(printable(text), LeveretWarning, *where)
            except LeveretWarning as warning:
                failures.append(warning)
        if self.errors:
            failures.append(CheckFailedError(printable("\n".join(self.errors))))
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("strict checks of leveret", failures)


class EventChecks:
    """The checks that read events, and what they know of those so far. A snapshot copies it with the node."""

    def __init__(self) -> None:
        self._trace: Final = TraceChecks()
        self._context: Final = TraceContext()
        self.leftovers: Final = Leftovers(self._trace.clients)

    def feed(
        self, raw_events: Sequence[RawEvent], node: Node, levels: Levels, allowances: Sequence[Allowance]
    ) -> list[Finding]:
        """Read the new events and return the findings in them."""
        found = self._trace.feed(raw_events, node, levels.max_redeliveries)
        self.leftovers.feed(raw_events, allowances)
        if levels.is_on("trace_context_lost"):
            found += self._context.feed(raw_events)
        return found


class Judge:
    """The strict checks of a broker and what they have found."""

    def __init__(self, source: Source, levels: Levels, planned: Callable[[], Sequence[Planned]]) -> None:
        """`source` has the broker's trace and state. `planned` returns the faults that the test has added."""
        self._source: Final = source
        self._planned: Final = planned
        self._levels = levels
        # How many events were read.
        self._read_count = 0
        self._has_gap = False
        self._is_over = False
        self._is_blindness_reported = False
        self._findings: list[Finding] = []
        self._allowances: list[Allowance] = []
        # What assertions have returned. The test expects these, so the checks do not report them.
        self._known_messages: Final[dict[int, None]] = {}
        self._known_refusals: Final[dict[str, None]] = {}
        self._of_events = EventChecks()
        self._unused_faults = UnusedFaults(planned)
        self.never_awaited: Final = NeverAwaited()
        # The findings about workers that were not started yet, or that had failed before the test ended them.
        self.lost_workers: Final[dict[object, Finding]] = {}
        self._no_client: NoClient | None = None
        self._usual_levels: Final = levels

    def expect_client(self, broker: UsedSource, ports: Callable[[], Collection[int]]) -> None:
        """Watch whether a client comes, if the check is on. `ports` returns those of the brokers in this process."""
        if self._levels.is_on("no_client"):
            # Imported here because few brokers belong to one test.
            from leveret.observe.checks.no_client import NoClient

            self._no_client = NoClient(broker, ports)

    def end_expecting(self, *, counts: bool) -> None:
        """Note that no client has come, if that `counts`."""
        if self._no_client is not None:
            finding = self._no_client.end()
            self._no_client = None
            self._note([finding] if finding is not None and counts else ())

    def note_absence(self, call: str) -> None:
        """Note that an assertion has passed because something did not happen."""
        if self._no_client is not None:
            self._no_client.note_absence(call)

    def read_to_the_reset(self) -> None:
        """Read what the broker is about to forget: the new events, who published, and the faults that never happened.

        The caller has passed the barrier and holds the lock.
        """
        if self._is_over:
            return
        self._read()
        self._note(self._unused_faults.left())
        publishers = PublisherTexts(self._source.recorder.raw() if self._findings else ())
        self._findings = [
            finding._replace(publisher=finding.publisher or publishers.publisher_of(finding.message.id))
            if finding.message is not None
            else finding
            for finding in self._findings
        ]

    def begin_anew(self, past: EventChecks | None = None) -> None:
        """Start again after the broker was reset, and keep the findings.

        `past` knows what a restored broker begins with, which was judged where it happened.
        """
        self._of_events = past or EventChecks()
        self._read_count = self._source.recorder.recorded_count
        self._unused_faults = UnusedFaults(self._planned)

    def past(self, raw_events: Sequence[RawEvent], node: Node) -> EventChecks:
        """Return what the checks know after these events, with which another broker begins."""
        past = EventChecks()
        past.feed(raw_events, node, self._levels, ())
        return past

    def judge_by(self, checks: Wanted | None) -> None:
        """Judge by these levels from here on, beside those of the broker; by the latter alone if there are none."""
        if checks is None and self._levels is self._usual_levels:
            return
        self.catch_up()
        self._levels = self._usual_levels if checks is None else self._usual_levels.with_levels(checks)

    def allow(self, allowance: Allowance) -> None:
        """Begin to allow something."""
        self.catch_up()
        self._allowances.append(allowance)

    def disallow(self, allowance: Allowance) -> None:
        """Stop allowing it."""
        self.catch_up()
        self._allowances = [kept for kept in self._allowances if kept is not allowance]

    def knows_messages(self, message_ids: Iterable[int]) -> None:
        """Do not report these messages: an assertion has returned them."""
        self._known_messages.update(dict.fromkeys(message_ids))

    def knows_refusals(self, texts: Iterable[str]) -> None:
        """Do not report these refusals: an assertion has returned them."""
        self._known_refusals.update(dict.fromkeys(texts))

    def catch_up(self) -> None:
        """Pass the barrier and read the new events. Call it without the lock."""
        if self._is_over:
            return
        self._source.sync()
        with self._source.lock:
            self._read()

    def read_on(self) -> None:
        """Read the new events. The caller has passed the barrier and holds the lock."""
        if not self._is_over:
            self._read()

    def end(self) -> None:
        """Judge the end before the broker stops, and ignore what stopping it does to clients."""
        self.look_at_the_end()
        self._is_over = True

    def resume(self) -> None:
        """Judge again from here on, after the broker has started."""
        if self._is_over:
            self._is_over = False
            self._read_count = self._source.recorder.recorded_count

    def look_at_the_end(self) -> None:
        """Read the new events and look for leftovers, as at the end of the test."""
        if self._is_over:
            return
        self._source.sync()
        with self._source.lock:
            self._read()
            for reaction in [finding.reaction for finding in self._findings]:
                if reaction is not None:
                    reaction.ended()
            self._note(self._of_events.leftovers.left(self._source.node, is_on=self._levels.is_on))

    def found_so_far(self, vhost: str | None = None, *, most: int | None = None) -> dict[str, list[Finding]]:
        """Return the findings of one virtual host, or of all, that were not reported yet, by check. They stay so.

        If there are `most` already, new events are not read. The caller holds the lock.
        """
        if most is None or len(self._findings) < most:
            self.read_on()
        return self._groups(vhost)

    def _groups(self, vhost: str | None = None) -> dict[str, list[Finding]]:
        groups: dict[str, list[Finding]] = {}
        for finding in chain(self._findings, filter(self._is_wanted, self.lost_workers.values())):
            if vhost in (None, finding.vhost) and not self._is_known(finding):
                groups.setdefault(finding.check, []).append(finding)
        return groups

    @property
    def handle(self) -> Handle:
        """How the tests can change the broker."""
        return self._source.handle

    def level_of(self, check_name: str) -> CheckLevel:
        """Return the level of a check."""
        return self._levels.level_of(check_name)

    def refuse_unused(self, fault: Planned) -> None:
        """Report a fault that never happened when its `with` block ends, unless it is allowed."""
        __tracebackhide__ = True
        self.catch_up()
        finding, verdict = unused_finding(fault), Verdict()
        if fault.is_unused and self._is_wanted(finding):
            fault.is_reported = True
            self._add(verdict, finding.check, [finding], PublisherTexts(()))
        verdict.speak()

    def verdict(self) -> Verdict:
        """Return the findings that were not reported yet, and count them as reported."""
        self._note(self._unused_faults.left())
        self._note(self.never_awaited.left())
        verdict = Verdict()
        if any(it.refusal is not None for it in self._findings):
            from leveret.observe.calls.asking import expects_error

            # Only a test that has passed gets here, so it has seen the error that it expects.
            self._findings = [it for it in self._findings if not (it.refusal and expects_error(it.names.get("line")))]
        groups = self._groups()
        self._findings = []
        self.lost_workers.clear()
        with self._source.lock:
            publishers = PublisherTexts(self._source.recorder.raw() if groups else ())
        for name in CHECKS:
            if name in groups:
                self._add(verdict, name, groups[name], publishers)
        verdict.warnings += self._gap_texts()
        return verdict

    def _add(self, verdict: Verdict, name: str, findings: list[Finding], publishers: PublisherTexts) -> None:
        text = group_text(name, findings, publishers, self.handle)
        (verdict.errors if self._levels.level_of(name) == "error" else verdict.warnings).append(text)

    def forget(self) -> None:
        """Drop the findings so far, because the test has failed anyway."""
        self._unused_faults.left()
        self.never_awaited.forget()
        self.lost_workers.clear()
        self._findings = []
        self._has_gap = False

    def _read(self) -> None:
        self._unused_faults.feed(self._allowances)
        recorder = self._source.recorder
        if not recorder.is_on:
            return
        new, count = recorder.raw_after(self._read_count), recorder.recorded_count
        if recorder.has_dropped and len(new) < count - self._read_count:
            self._has_gap = True
        self._read_count = count
        if new:
            self._note(self._of_events.feed(new, self._source.node, self._levels, self._allowances))

    def _note(self, findings: Iterable[Finding]) -> None:
        self._findings += [finding for finding in findings if self._is_wanted(finding)]

    def _is_wanted(self, finding: Finding) -> bool:
        return self._levels.is_on(finding.check) and not any(
            allowance.covers(finding) for allowance in self._allowances
        )

    def _is_known(self, finding: Finding) -> bool:
        if finding.reaction is not None and finding.reaction.is_seen:
            return True
        if finding.message is not None:
            return finding.message.id in self._known_messages
        return finding.refusal in self._known_refusals

    def _gap_texts(self) -> list[str]:
        """Return a text for each reason why checks could not see everything."""
        texts = []
        if self._has_gap:
            self._has_gap = False
            names = [name for name, check in CHECKS.items() if check.needs_trace and self._levels.is_on(name)]
            texts += [incomplete_text(names, self._source.recorder.size)] if names else []
        if not self._source.recorder.is_on and not self._is_blindness_reported:
            self._is_blindness_reported = True
            names = [name for name in self._levels.asked_for if CHECKS[name].needs_trace]
            texts += [blind_text(names)] if names else []
        return texts


def stack_level() -> int:
    """Return the `stacklevel`, for `warnings.warn` in the caller, of the first frame outside leveret."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("leveret."):
        level, frame = level + 1, frame.f_back
    return level
