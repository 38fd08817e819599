"""One run of the test: how long each step waits, and which steps came in which order.

The waits follow from the seed and the name of a step alone, not from when it comes, so a seed replays as well as
threads allow. A run that forces an order has no other waits: the step that is to come second waits for the first, up to
a limit.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dis import opname
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_leveret.flaky.steps import BEGINNING, LINE, Name, Naming, line_name
from pytest_leveret.reports.diagnosing import sentences_of
from pytest_leveret.trials.runner import Trial, unmarked_outcome

if TYPE_CHECKING:
    from types import CodeType, FrameType

    import pytest

    from leveret import Broker
    from leveret.faults import Occasion
    from pytest_leveret.flaky.delays import Delays, Wait

# All waits of a run together, and how long a forced step waits at most.
BUDGET_US: Final = 800_000
FORCED_US: Final = 1_500_000
# How long what a step causes may take, before the step or the line that was held back for it goes on.
_GRACE_US: Final = 100_000
_LINE_GRACE_US: Final = 300_000
# How long clients get nothing at most, while a line is to come.
_SHUT_US: Final = 2_000_000
_STEPS_MAX: Final = 3_000
# How often a line counts as a step, so that a loop that polls leaves room for the other steps.
_TIMES_MAX: Final = 50
# By seed: the chance that a step of some name waits at all, and the longest wait of it.
_MANNERS: Final = ((0.12, 300_000), (0.35, 10_000), (0.4, 50_000), (0.2, 120_000), (0.6, 3_000), (0.08, 400_000))
_SWITCH_S: Final = (0.005, 0.005, 0.0005, 0.00005, 0.000005)


@dataclass(frozen=True, slots=True)
class Order:
    """An order of two steps."""

    first: Name
    second: Name
    # If the second is a line: who gets what the broker sends, from the first step on until the line is done. "others"
    # are all but the client of the first step. If it is "none", the line follows at once. The first step waits for it,
    # or what its client has to receive before does.
    receivers: Literal["all", "others", "none"] = "all"
    received: Name | None = None

    @property
    def reverse(self) -> Order:
        """The other order. A line then sees the step and nothing that follows from it."""
        return Order(self.second, self.first, "none" if is_line(self.first) else "all")


@dataclass(slots=True)
class Outcome:
    """What became of a run."""

    seed: int
    outcome: str
    # The steps that have passed, in order; a step may stand there under two names.
    steps: list[Name] = field(default_factory=list)
    # The line of the test that failed, and what it failed with.
    line: int | None = None
    error: str = ""
    # What went wrong in it, a sentence each.
    causes: list[str] = field(default_factory=list)
    # Whether this line belongs to a coroutine.
    is_in_coroutine: bool = False
    # The queues in which a message expired.
    expired: frozenset[str] = frozenset()
    # How often its process had run the test before.
    turn: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether the test failed."""
        return self.outcome == "failed"


class Play(Trial):
    """One run while it goes on."""

    def __init__(self, seed: int, order: Order | None = None, page: str | None = None) -> None:
        """A seed of 0 delays nothing. `page` is where to write the page of the run, if anywhere."""
        self.steps: Final[list[Name]] = []
        self.outcome: Final = Outcome(seed, "passed", self.steps)
        self._page: Final = page
        self._seed: Final = seed
        self._order: Final = order
        self._naming: Final = Naming()
        self._names: Final[dict[Occasion, list[Name]]] = {}
        self._left_us = BUDGET_US
        self._delays: Final[list[Delays]] = []
        self._brokers: Final[list[Broker]] = []
        self._held: Final[list[tuple[Delays, Occasion]]] = []
        self._first_came: Final = threading.Event()
        # Whether the line that is to come second has begun, and whether the second step has come.
        self._is_at_line = False
        self._second_came = False
        self._lock: Final = threading.Lock()
        self._lines: Final[dict[int, int]] = {}
        # The lines that have begun, by the calls of functions that they stand in.
        self._open: Final[dict[FrameType, Name]] = {}
        self._before: float = sys.getswitchinterval()

    def watch(self, broker: Broker) -> None:
        """Delay what passes between a broker and its clients from now on."""
        from pytest_leveret.flaky.delays import Delays

        def wait_of(occasion: Occasion) -> Wait:
            return self._wait_of(occasion, delays, broker)

        delays = Delays(broker, wait_of, self._passed)
        self._delays.append(delays)
        self._brokers.append(broker)
        delays.start()

    def begin(self) -> None:
        """Change how often threads take turns."""
        if self._seed and self._order is None:
            sys.setswitchinterval(Random(f"{self._seed} turns").choice(_SWITCH_S))
        elif self._order is not None and self._order.received is not None:
            # A line that follows at once has to overtake what a client does meanwhile.
            sys.setswitchinterval(_SWITCH_S[-1])

    def note(self, item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Note how the run went."""
        outcome, how = self.outcome, unmarked_outcome(report, call)
        if how == "failed" and outcome.outcome != "failed":
            outcome.outcome = "failed"
            error = None if call.excinfo is None else call.excinfo.value
            if report.when == "call":
                outcome.line, outcome.is_in_coroutine = failed_at(item, error)
            outcome.error = "" if call.excinfo is None else call.excinfo.exconly().strip()
            outcome.causes = sentences_of(item)
        elif how == "skipped" and outcome.outcome == "passed":
            outcome.outcome = "skipped"
        if report.when == "call" and self._page is not None:
            _write_page(item, report, call, self._page)

    def finish(self) -> None:
        """End the waits, so that fixtures end as they always do."""
        self.outcome.expired = self.expired()
        self.end()

    def end(self) -> None:
        """End all waits."""
        sys.setswitchinterval(self._before)
        self._first_came.set()
        delays, self._delays[:] = list(self._delays), []
        for each in delays:
            each.stop()

    def _wait_of(self, occasion: Occasion, delays: Delays, broker: Broker) -> Wait:
        from pytest_leveret.flaky.delays import Wait

        names = self._names[occasion] = self._naming.names_of(occasion)
        if self._order is not None:
            with self._lock:
                is_held = self._is_too_early(names, self._order)
                if is_held:
                    self._held.append((delays, occasion))
            return Wait(FORCED_US, is_firm=True) if is_held else Wait(0)
        # A delivery without an ack is over once it is sent, so no wait of the test would cover its way.
        has_ack = occasion.subscription is not None and not occasion.subscription.no_ack
        # Autojump waits for deliveries that clients hold, and would jump while anything else is late.
        is_jumped_over = delays.harness.has_autojump and not has_ack and occasion.delivery is None
        span_us = self._span_us(names[0]) if self._seed and not is_jumped_over else 0
        # While time is held, a wait for consumers sees only what was sent, so nothing waits before that.
        is_sent_first = self._seed % 2 == 1 or broker.clock.is_held
        return Wait(span_us, is_on_its_way=has_ack and bool(span_us) and is_sent_first)

    def _is_too_early(self, names: list[Name], order: Order) -> bool:
        if order.second in names:
            return not self._first_came.is_set()
        is_awaited = order.receivers == "none" and order.received is None
        return is_awaited and order.first in names and not self._is_at_line

    def _span_us(self, name: Name) -> int:
        chance, longest_us = _MANNERS[self._seed % len(_MANNERS)]
        kind = Random(f"{self._seed} {name._replace(nth=0)}")
        if kind.random() > chance:
            return 0
        share = Random(f"{self._seed} {name}").random()
        span_us = min(self._left_us, int(longest_us * kind.random() * share))
        self._left_us -= span_us
        return span_us

    def _passed(self, occasion: Occasion) -> None:
        """Note a step that goes on, under the broker's lock."""
        names, order = self._names.pop(occasion, []), self._order
        if order is not None and order.receivers != "all" and not self._second_came:
            is_early = order.received in names and not self._is_at_line
            for delays in self._delays if is_early or order.first in names else ():
                delays.shut(occasion.connection if is_early or order.receivers == "others" else None)
                occasion.call_in_real_time(_SHUT_US, delays.open)
        self._note(names)

    def _note(self, names: list[Name]) -> None:
        order, is_first = self._order, False
        with self._lock:
            if len(self.steps) < _STEPS_MAX:
                self.steps.extend(names)
            if order is not None and order.first in names and not self._first_came.is_set():
                is_first = True
                self._first_came.set()
        if is_first:
            self._let_go(_GRACE_US)
        if order is not None and order.second in names and not self._second_came:
            self._second_came = True
            self._let_receive(order)

    def _let_receive(self, order: Order) -> None:
        for delays in self._delays if order.receivers != "all" else ():
            delays.open()

    def _let_go(self, span_us: int) -> None:
        """Let what is held back go on after so many microseconds."""
        for delays, occasion in self._held:
            delays.harness.call_in_real_time(span_us, partial(delays.release, occasion))

    @property
    def is_held(self) -> bool:
        """Whether a step was held back for the order."""
        return bool(self._held)

    def expired(self) -> frozenset[str]:
        """Return the queues in which a message has expired in this run."""
        return frozenset(
            str(event.queue)
            for broker in self._brokers
            for event in (*broker.events.query("expired"), *broker.events.query("dead_lettered", reason="expired"))
        )

    # The lines of the test.

    @contextmanager
    def calling(self, item: pytest.Item) -> Iterator[None]:
        """Note the lines of the test."""
        self.trace(item)
        try:
            yield
        finally:
            self.end_trace()

    def trace(self, item: pytest.Item) -> None:
        """Note the lines of the test, and of other functions in its file, as this thread runs them."""
        file = file_of(item)
        raising: FrameType | None = None

        def on_call(frame: FrameType, event: str, argument: object) -> Any:
            return on_line if frame.f_code.co_filename == file else None

        def on_line(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal raising
            # An await is a return too, and its line goes on later.
            if event == "line" or (event == "return" and (raising is frame or _has_ended(frame))):
                self._end_line(frame)
            if event == "line":
                self._begin_line(frame)
            raising = frame if event == "exception" else None
            return on_line

        sys.settrace(on_call)

    def end_trace(self) -> None:
        """Stop noting lines."""
        sys.settrace(None)
        for frame in list(self._open):
            self._end_line(frame)

    def _begin_line(self, frame: FrameType) -> None:
        number = frame.f_lineno
        nth = self._lines[number] = self._lines.get(number, 0) + 1
        if nth > _TIMES_MAX:
            return
        name = line_name(number, nth)
        order = self._order
        if order is not None and order.second == name:
            with self._lock:
                self._is_at_line = True
            self._let_go(0)
            if order.received is not None:
                self._let_receive(order)
            if self._first_came.wait(FORCED_US / 1_000_000) and order.receivers != "none":
                threading.Event().wait(_LINE_GRACE_US / 1_000_000)
        self._open[frame] = name
        self._note([name._replace(act=BEGINNING)])

    def _end_line(self, frame: FrameType) -> None:
        line = self._open.pop(frame, None)
        if line is not None:
            self._note([line])


def _write_page(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None], path: str) -> None:
    from leveret.page.formats.html import save
    from pytest_leveret.reports.pages import story_of_test

    story = story_of_test(item, report, call)
    if story is not None:
        save(story, path)


def file_of(item: pytest.Item) -> str:
    """Return the file of a test function, whose helpers mostly stand in the same file."""
    code: CodeType = inspect.unwrap(getattr(item, "function", None) or (lambda: None)).__code__
    return code.co_filename


def _has_ended(frame: FrameType) -> bool:
    return opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN_")


def failed_at(item: pytest.Item, error: BaseException | None) -> tuple[int | None, bool]:
    """Return the line of the test's file in which it failed, in the innermost call, and whether in a coroutine.

    The line is None if it failed elsewhere.
    """
    file = file_of(item)
    line, is_in_coroutine = None, False
    traceback = None if error is None else error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == file:
            line, is_in_coroutine = traceback.tb_lineno, bool(code.co_flags & inspect.CO_COROUTINE)
        traceback = traceback.tb_next
    return line, is_in_coroutine


def is_line(name: Name) -> bool:
    """Return whether a step is a line of the test."""
    return name.act == LINE
