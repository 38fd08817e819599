"""The judge of one broker: it keeps what strict checks have found, and says it once.

It reads the trace when a test allows something, when it stops allowing it, when it checks and when it ends: what
happened in between is judged by what was allowed then. What is merely there, as an open connection, and what did not
happen, as a fault, is looked at when the test ends, and was allowed if its beginning was.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from leveret.errors import CheckFailedError, LeveretWarning
from leveret.observe.checks.finding import Allowance, Finding
from leveret.observe.checks.ledger import Ledger
from leveret.observe.checks.remains import Remains
from leveret.observe.checks.table import CHECKS, Levels
from leveret.observe.checks.telling import Publishers, blind_text, group_text, incomplete_text
from leveret.observe.checks.unused import Planned, Unused, unused_finding
from leveret.trace.events import printable

if TYPE_CHECKING:
    from leveret.observe.inquiry import Source
    from leveret.trace.events import RawEvent


class Verdict:
    """What there is to say."""

    __slots__ = ("errors", "warnings")

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def speak(self, place: tuple[str, int] | None = None) -> None:
        """Warn, then raise CheckFailedError; a warning that is an error by the user's own filter is raised with it.

        A warning is about `place`, a file and a line, where that is known better than by who calls.
        """
        __tracebackhide__ = True
        failures: list[Exception] = []
        for text in self.warnings:
            try:
                if place is None:
                    warnings.warn(printable(text), LeveretWarning, stacklevel=_stack_level())
                else:
                    warnings.warn_explicit(printable(text), LeveretWarning, *place)
            except LeveretWarning as warning:
                failures.append(warning)
        if self.errors:
            failures.append(CheckFailedError(printable("\n".join(self.errors))))
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("strict checks of leveret", failures)


class Judge:
    """This judges one broker."""

    def __init__(self, source: Source, levels: Levels, planned: Callable[[], Sequence[Planned]]) -> None:
        """It asks that broker for its trace and its state, and `planned` for the faults that the test has added."""
        self._source: Final = source
        self._planned: Final = planned
        self._levels: Final = levels
        self._last_seen: RawEvent | None = None
        self._has_gap = False
        self._is_over = False
        self._is_blind_told = False
        self._found: list[Finding] = []
        self._allowances: list[Allowance] = []
        # What assertions have returned: the test knows of it.
        self._known_messages: Final[dict[int, None]] = {}
        self._known_refusals: Final[dict[str, None]] = {}
        self._ledger = Ledger(source.node)
        self._remains = Remains()
        self._unused = Unused(planned)

    def begin_anew(self) -> None:
        """The broker has forgotten everything; what was found stays found."""
        self._last_seen = None
        self._ledger = Ledger(self._source.node)
        self._remains = Remains()
        self._unused = Unused(self._planned)

    def allow(self, allowance: Allowance) -> None:
        """Allow something from here on."""
        self.catch_up()
        self._allowances.append(allowance)

    def disallow(self, allowance: Allowance) -> None:
        """Allow it no longer."""
        self.catch_up()
        self._allowances = [one for one in self._allowances if one is not allowance]

    def knows_messages(self, message_ids: Iterable[int]) -> None:
        """An assertion was about these: they are not lost unseen."""
        self._known_messages.update(dict.fromkeys(message_ids))

    def knows_refusals(self, texts: Iterable[str]) -> None:
        """An assertion was about these refusals."""
        self._known_refusals.update(dict.fromkeys(texts))

    def catch_up(self) -> None:
        """Read what has happened since the last time, with the barrier before it."""
        if self._is_over:
            return
        self._source.sync()
        with self._source.lock:
            self._read()

    def read_on(self) -> None:
        """The same for who stands behind the barrier, with the lock."""
        if not self._is_over:
            self._read()

    def end(self) -> None:
        """The broker is going to stop: what that does to clients is not their doing, and is not read."""
        self.look_at_the_end()
        self._is_over = True

    def resume(self) -> None:
        """The broker has started, perhaps again."""
        if self._is_over:
            self._is_over = False
            self._last_seen = next(iter(self._source.recorder.raw()[-1:]), None)

    def look_at_the_end(self) -> None:
        """Read on, and look at what is left: the test ends here."""
        if self._is_over:
            return
        self._source.sync()
        with self._source.lock:
            self._read()
            self._note(self._remains.left(self._source.node, is_on=self._levels.is_on))

    def refuse_unused(self, fault: Planned) -> None:
        """A fault never happened and its block is left: say so at that line, unless it is allowed."""
        __tracebackhide__ = True
        self.catch_up()
        finding, verdict = unused_finding(fault), Verdict()
        if fault.is_unused and self._is_wanted(finding):
            fault.is_reported = True
            self._add(verdict, finding.check, [finding], Publishers(()))
        verdict.speak()

    def verdict(self) -> Verdict:
        """What was found and not said yet; it is said by that."""
        self._note(self._unused.left())
        found, self._found = self._found, []
        verdict = Verdict()
        groups: dict[str, list[Finding]] = {}
        for finding in found:
            if not self._is_known(finding):
                groups.setdefault(finding.check, []).append(finding)
        with self._source.lock:
            publishers = Publishers(self._source.recorder.raw() if groups else ())
        for name in CHECKS:
            if name in groups:
                self._add(verdict, name, groups[name], publishers)
        verdict.warnings += self._excuses()
        return verdict

    def _add(self, verdict: Verdict, name: str, findings: list[Finding], publishers: Publishers) -> None:
        text = group_text(name, findings, publishers)
        (verdict.errors if self._levels.of(name) == "error" else verdict.warnings).append(text)

    def forget(self) -> None:
        """Say nothing of what was found so far: the test has failed anyway."""
        self._unused.left()
        self._found = []
        self._has_gap = False

    def _read(self) -> None:
        self._unused.feed(self._allowances)
        recorder = self._source.recorder
        if not recorder.is_on:
            return
        new = recorder.raw_after(self._last_seen)
        if recorder.has_dropped and len(new) == len(recorder):
            self._has_gap = True
        if new:
            self._last_seen = new[-1]
            self._remains.feed(new, self._allowances)
            self._note(self._ledger.feed(new, self._source.node))

    def _note(self, findings: Iterable[Finding]) -> None:
        self._found += [finding for finding in findings if self._is_wanted(finding)]

    def _is_wanted(self, finding: Finding) -> bool:
        return self._levels.is_on(finding.check) and not any(one.covers(finding) for one in self._allowances)

    def _is_known(self, finding: Finding) -> bool:
        if finding.message is not None:
            return finding.message.id in self._known_messages
        return finding.refusal in self._known_refusals

    def _excuses(self) -> list[str]:
        """What is said about what could not be looked at."""
        texts = []
        if self._has_gap:
            self._has_gap = False
            names = [name for name, check in CHECKS.items() if check.needs_trace and self._levels.is_on(name)]
            texts += [incomplete_text(names, self._source.recorder.size)] if names else []
        if not self._source.recorder.is_on and not self._is_blind_told:
            self._is_blind_told = True
            names = [name for name in self._levels.asked_for if CHECKS[name].needs_trace]
            texts += [blind_text(names)] if names else []
        return texts


def _stack_level() -> int:
    """How far up the first line stands that is not leveret's, as `warnings.warn` in the caller counts."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("leveret."):
        level, frame = level + 1, frame.f_back
    return level
