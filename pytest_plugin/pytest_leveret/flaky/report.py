"""What the doctor says: the lines of the terminal, and the page with a failed and a passed run beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise, zip_longest
from linecache import getline
from typing import TYPE_CHECKING

from leveret.wording import count_text
from pytest_leveret.flaky.play import Order, Outcome, is_line
from pytest_leveret.flaky.steps import BEGINNING, LINE, Name, act_of, text_of

if TYPE_CHECKING:
    from pytest_leveret.flaky.search import OrderFinding
    from pytest_leveret.flaky.steps import Name

_RULED_OUT_SHOWN = 3
# The share of later runs that fail if an earlier one has left something behind.
_NEARLY_ALL = 0.9
# The call of a test that waits for a step.
_WAITS = {
    "ack": "assert_acked",
    "delivery": "assert_delivered",
    "publish": "assert_published",
    "confirm": "assert_confirmed",
    "basic.consume": "wait_for_consumer",
    "basic.consume-ok": "wait_for_consumer",
}
_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:1em}table{border-collapse:collapse}td{padding:1px 12px}"
    ".first td{background:#fde68a}iframe{width:49%;height:80vh;border:1px solid #999}.cause{font-weight:bold}"
)


@dataclass(slots=True)
class FlakyDiagnosis:
    """All runs of a test, and what the search has made of them."""

    node_id: str
    path: str
    runs: list[Outcome]
    finding: OrderFinding | None = None
    # The address of the page that shows a failed and a passed run.
    page: str | None = None

    @property
    def failed(self) -> list[Outcome]:
        """The runs that failed."""
        return [run for run in self.runs if run.has_failed]

    @property
    def passed(self) -> list[Outcome]:
        """The runs that passed."""
        return [run for run in self.runs if run.outcome == "passed"]

    @property
    def leaves_something(self) -> bool:
        """Whether the test passes in a fresh process, and fails wherever it has run before."""
        again = [run for run in self.runs if run.turn]
        return (
            all(run.outcome == "passed" for run in self.runs if not run.turn)
            and len(again) > 1
            and sum(run.has_failed for run in again) >= _NEARLY_ALL * len(again)
        )

    @property
    def is_unseen(self) -> bool:
        """Whether no run had a step of a client or a broker, so that there was nothing to put in another order."""
        return all(_is_of_test(name) for run in self.runs for name in run.steps)

    @property
    def order_text(self) -> str:
        """How many different orders the runs have had that were not skipped."""
        if self.is_unseen:
            return "and orders were not examined: no client used a broker of leveret's fixtures"
        count = len({tuple(run.steps) for run in (*self.passed, *self.failed)})
        return "always in the same order" if count == 1 else f"in {count} different orders"

    @property
    def examples(self) -> tuple[tuple[Outcome, Order | None], tuple[Outcome, Order | None] | None]:
        """A run that fails and one that passes; by force, if the cause is known."""
        failed = min(self.failed, key=lambda run: len(run.steps))
        finding = self.finding
        if finding is not None and finding.is_forced_both_ways:
            return (Outcome(0, "failed"), finding.failing), (Outcome(0, "passed"), finding.passing)
        return (failed, None), (self.passed[0], None) if self.passed else None


def _is_of_test(name: Name) -> bool:
    return name.act in (LINE, BEGINNING)


def text_of_diagnosis(diagnosis: FlakyDiagnosis) -> list[str]:
    """Return the lines of the report."""
    count, failed = len(diagnosis.runs), diagnosis.failed
    in_orders = diagnosis.order_text
    if not failed and not diagnosis.passed:
        return [f"{diagnosis.node_id}: nothing was examined, because all {count} runs were skipped"]
    if not failed:
        skipped = count - len(diagnosis.passed)
        lines = [f"{diagnosis.node_id}: {len(diagnosis.passed)} of {count} passed, {in_orders}"]
        return [*lines, f"{skipped} were skipped"] if skipped else lines
    lines = [f"{diagnosis.node_id} fails {len(failed)} of {count}, {in_orders}"]
    if diagnosis.leaves_something:
        return [
            *lines,
            "It passes in a fresh process, and fails in one where it has run before: it leaves something behind, such "
            "as a module's variable. Clear that in the test or in a fixture. Orders were not examined.",
            *_error(failed[0]),
        ]
    if diagnosis.finding is None:
        every, skipped = "run" if diagnosis.is_unseen else "order", count - len(failed)
        verdict = f"It fails in every {every}, so it is not flaky:"
        if skipped:
            verdict = (
                f"No run passed: {len(failed)} failed, and {skipped} were skipped. Whether it is flaky is not known."
            )
        return [*lines, verdict, *_error(failed[0])]
    lines += _cause(diagnosis, diagnosis.finding)
    seed = next((run.seed for run in failed if run.seed), failed[0].seed)
    lines.append(f"Replay a run that fails: pytest '{diagnosis.node_id}' --leveret-flaky-seed={seed}")
    if diagnosis.page is not None:
        lines.append(f"A failed and a passed run side by side: {diagnosis.page}")
    return lines


def statement_of(order: Order) -> str:
    """Return an order as a clause: "line 31 is done before billing's ack of order.created"."""
    if is_line(order.first):
        return f"line {order.first.about} is done before {text_of(order.second)}"
    if is_line(order.second):
        return f"{text_of(order.first)} comes before line {order.second.about} is done"
    return f"{text_of(order.first)} comes before {text_of(order.second)}"


def _cause(diagnosis: FlakyDiagnosis, finding: OrderFinding) -> list[str]:
    order, count = finding.order, finding.run_count
    if order is None:
        return _no_cause(diagnosis, finding)
    if finding.kind in ("between", "after"):
        lines = _look(diagnosis, finding, order)
        return [*lines, *_way_out(diagnosis, finding, order), *_failing_line(diagnosis, finding)]
    there = _there(finding)
    exactly = " exactly" if not finding.mismatch_count else ""
    fails = f"It fails{there}{exactly} if" if finding.kind == "cause" else f"Perhaps it fails{there} if"
    lines = [f"{fails} {statement_of(order)}."]
    failed = finding.failing_runs.failed
    in_order = f"In {failed} new runs in this order it failed {failed} times{there}"
    if finding.mismatch_count:
        lines.append(f"{finding.mismatch_count} of {count} runs disagree.")
    if finding.kind == "cause":
        new = finding.passing_runs
        other = f"it passed {new.passed} times"
        if there:
            other = f"never there: {new.passed} passed, {new.known} failed in another line"
        lines.append(f"{in_order}, and in {new.total} runs in the other order {other}.")
        lines += _way_out(diagnosis, finding, order) if finding.passing == order.reverse else []
    elif finding.failing is not None:
        lines.append(f"{in_order}. The other order could not be forced, so both may follow from something else.")
    else:
        lines.append(
            f"All {count} runs agree, but the order could not be forced, so both may follow from something else."
        )
    return [*lines, *_failing_line(diagnosis, finding, order)]


def _no_cause(diagnosis: FlakyDiagnosis, finding: OrderFinding) -> list[str]:
    lines = [_ruled_out(finding)]
    expired = frozenset.intersection(*(run.expired for run in diagnosis.failed)).difference(
        *(run.expired for run in diagnosis.passed)
    )
    if expired:
        queues = ", ".join(map(repr, sorted(expired)))
        lines.append(
            f"In each failed run, and in no passed one, a message expired in {queues}. So the test depends on real "
            "time: hold the broker's clock with leveret.clock.hold(), and move it with advance()."
        )
        return [*lines, *_failing_line(diagnosis, finding)]
    if finding.nearest is not None:
        agreeing = finding.run_count - finding.nearest.mismatch_count
        clause = statement_of(finding.nearest.order)
        lines.append(f"The nearest is whether {clause}: {agreeing} of {finding.run_count} runs agree.")
    lines.append(f"Compared {finding.pair_count} pairs of events.")
    if finding.refuted:
        lines.append("Forced, and ruled out as the cause:")
        lines += [f"  {statement_of(it)}" for it in finding.refuted[:_RULED_OUT_SHOWN]]
        more = len(finding.refuted) - _RULED_OUT_SHOWN
        lines += [f"  and {more} more"] if more > 0 else []
    return [*lines, *_failing_line(diagnosis, finding)]


def _there(finding: OrderFinding) -> str:
    """Return in which line the cause lets the test fail, if it also fails elsewhere."""
    if not finding.elsewhere_count:
        return ""
    return " outside its own lines" if finding.line is None else f" in line {finding.line}"


def _ruled_out(finding: OrderFinding) -> str:
    """Return what was forced in vain, and what was only compared."""
    forced, unforced = finding.forced_count, finding.unforced_count
    if not forced and not unforced:
        return "No order of two events goes with its failures, so leveret forced none."
    others, were = count_text(unforced, "other order"), "was" if unforced == 1 else "were"
    more = f" {others} went with the failures, but {were} not forced." if unforced else ""
    if not forced:
        return f"leveret could force none of the {count_text(unforced, 'order')} that went with its failures."
    if forced == 1:
        return f"The one order that leveret could force does not explain it.{more}"
    return f"None of the {forced} orders that leveret could force explains it.{more}"


def _client(runs: list[Outcome], received: Name) -> str:
    """Return who received something: in its own words if the step or the name beside it says so in all runs."""
    names = {
        before.who
        for run in runs
        for before, step in pairwise(run.steps)
        if step == received and before.act == received.act
    }
    return received.who or (names.pop() if len(names) == 1 else "") or "its client"


def _look(diagnosis: FlakyDiagnosis, finding: OrderFinding, order: Order) -> list[str]:
    """Return what a line looks at that a client does by itself, and how that was shown."""
    step, received = order.second, finding.received
    assert received is not None
    line, client = f"line {order.first.about}", _client(diagnosis.runs, received)
    failed, new = finding.failing_runs.failed, finding.passing_runs
    passed = f"it passed {new.passed} times"
    if new.known:
        passed = f"it never failed there: {new.passed} passed, {new.known} failed in another line"
    came = text_of(received._replace(who=""))
    late = f"In {failed} new runs in which {came} reached {client} only after {line}, it failed {failed} times; in "
    if finding.kind == "after":
        return [
            f"Line {order.first.about} looks at what {client} does after {came}.",
            f"{late}{new.total} in which {client} had time between {came} and {line}, {passed}.",
        ]
    if step.about == received.about:
        came = f"the {act_of(received)}"
    own = f"{'its' if step.who else 'the'} {act_of(step)}"
    about = f" of {step.about}" if step.about else ""
    what = f"Line {order.first.about} looks at what {client} does between {came} and {own}{about}"
    call = _wait_for(step, finding.times)
    return [
        f"{what}: wait for {call}." if call else f"{what}.",
        f"{late}{new.total} in which {line} waited for {own}, {passed}."
        if finding.passing is not None
        else f"{late}runs in which {own} came before {line} by itself, it passed {finding.seen_count} times, and never "
        "failed there.",
    ]


def _way_out(diagnosis: FlakyDiagnosis, finding: OrderFinding, order: Order) -> list[str]:
    """Return the line of code that makes a test wait for the step that a line misses, if that settles the order."""
    if finding.kind == "after":
        return [
            "leveret found no event of the broker that shows when that is done. Let the code say so itself, such as "
            "with a threading.Event."
        ]
    call = _wait_for(order.second, finding.times, "timeout=5")
    if call is None or not is_line(order.first) or order.first.nth > 1:
        return []
    run = next(run for run in diagnosis.failed if run.line == finding.line)
    broker = "await leveret.aio" if run.is_in_coroutine else "leveret"
    return [f"Add before line {order.first.about}: {broker}.{call}"]


def _wait_for(step: Name, times: int | None, *more: str) -> str | None:
    """Return the call that waits for a step; None if there is none, or if another step meets it in some run."""
    arguments = [step.place or step.about]
    if step.act in ("publish", "confirm"):
        arguments = [step.place, step.about]
    if times is None or step.act not in _WAITS or "*" in "".join(arguments):
        return None
    key = [f"routing_key={it!r}" for it in arguments[1:] if it != step.place]
    counted = [f"times={times}"] if times > 1 else []
    return f"{_WAITS[step.act]}({', '.join([repr(arguments[0]), *key, *counted, *more])})"


def _failing_line(diagnosis: FlakyDiagnosis, finding: OrderFinding, order: Order | None = None) -> list[str]:
    """Return what the line that fails looked at, and what it takes for granted."""
    run = next(run for run in diagnosis.failed if run.line == finding.line)
    lines = []
    if finding.line is not None:
        code = getline(diagnosis.path, finding.line).strip()
        clause = ""
        if order is not None and order.first.about == str(finding.line):
            clause = f" looks before {text_of(order.second)}"
        elif order is not None and not is_line(order.first):
            clause = f" assumes {text_of(order.second)} before {text_of(order.first)}"
        lines += [f"Line {finding.line}{clause}:", f"  {code}"]
    lines += _error(run)
    if finding.elsewhere_count:
        lines.append(f"{count_text(finding.elsewhere_count, 'other run')} failed in another line.")
    return lines


def _error(run: Outcome) -> list[str]:
    """Return what a run failed with, and what went wrong in it."""
    first, _, _ = run.error.partition("\n")
    return [f"  {first[:300]}", *(f"  {cause}" for cause in run.causes)]


def page_of(diagnosis: FlakyDiagnosis, outcomes: list[Outcome], names: tuple[str, str]) -> str:
    """Return a page with two runs beside each other: their steps, the first difference marked, and their own pages."""
    columns = [[text_of(name) for name in run.steps if name.who or is_line(name)] for run in outcomes]
    rows, is_marked = [], False
    for left, right in zip_longest(*columns, fillvalue=""):
        mark = ""
        if left != right and not is_marked:
            mark, is_marked = ' class="first"', True
        rows.append(f"<tr{mark}><td>{escape(left)}</td><td>{escape(right)}</td></tr>")
    cause = "".join(f"<p>{escape(line)}</p>" for line in text_of_diagnosis(diagnosis)[:4])
    frames = "".join(f'<iframe src="{name}"></iframe>\n' for name in names)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(diagnosis.node_id)}</title>'
        f"<style>{_STYLE}</style><h1>Why is this test flaky?</h1>{cause}{frames}<h2>The steps</h2>"
        f"<table><tr><th>a run that fails</th><th>a run that passes</th></tr>\n{chr(10).join(rows)}</table></html>\n"
    )
