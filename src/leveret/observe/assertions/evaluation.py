"""The evaluation of an assertion: its answer from the trace, or the error that explains why it fails.

It reads the trace and the model under the broker's lock and changes neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from leveret.errors import EventsMissingError, NotDeclaredError, unknown
from leveret.observe.assertions.matching import Matcher
from leveret.observe.assertions.searching import HAPPENINGS, EventSearch, Question
from leveret.observe.texts.state import uncommitted
from leveret.observe.views.message_view import MessageView, entry_view
from leveret.observe.views.names import existing_queue, find_queue, require_known

if TYPE_CHECKING:
    from leveret.observe.assertions.keywords import AssertionOptions
    from leveret.observe.assertions.source import Source


def evaluate(
    source: Source,
    call: str,
    place: str | None,
    options: AssertionOptions,
    *,
    times: int | None,
    to: str | None,
    reason: object,
) -> MessageView | list[MessageView]:
    """Return the first message that `call` asks for, or with `times` a list of exactly that many.

    Raises AssertionError with the reasons if the trace does not hold them.
    """
    __tracebackhide__ = True
    if isinstance(reason, str) and reason not in _REASONS[call]:
        raise ValueError(f"{call}: {unknown('reason', reason, _REASONS[call])}")
    _refuse_keywords_of_others(call, options)
    timeout, vhost, matcher = _parts_of(options)
    happening = HAPPENINGS["published" if call == "assert_not_published" else call.removeprefix("assert_")]
    asked = {"to": to, "reason": reason, "times": None if call == "assert_not_published" else times}
    question = Question(
        call=_call_text(call, place, matcher, {name: value for name, value in asked.items() if value is not None}),
        happening=happening,
        vhost=vhost,
        place=place,
        matcher=matcher,
        reason=reason,
        to=to,
        times=times,
    )
    matches = _Evaluation(source, question).run(timeout)
    return matches[0] if times is None else matches


def evaluate_ready(
    source: Source, queue: str, options: AssertionOptions, *, times: int | None
) -> MessageView | list[MessageView]:
    """Return the first matching message that is ready in a queue, or with `times` a list of exactly that many.

    Raises AssertionError with what is ready there instead, and what became of the other messages.
    """
    __tracebackhide__ = True
    _refuse_keywords_of_others("assert_ready", options)
    timeout, vhost, matcher = _parts_of(options)
    matches: list[MessageView] = []

    def is_so() -> bool:
        declared = existing_queue(source.node, vhost, queue)
        # Views of a queue that is still too short would only cost time.
        if declared is None or len(declared.ready) < (1 if times is None else times):
            return False
        views = (entry_view(entry, declared) for entry in declared.ready)
        matches[:] = [view for view in views if matcher.matches(view)]
        return bool(matches) if times is None else len(matches) == times

    if timeout is not None:
        is_ready = source.wait_until(is_so, timeout)
    else:
        source.sync()
        with source.lock:
            is_ready = is_so()
    if is_ready:
        return matches[0] if times is None else matches
    from leveret.observe.assertions.failures import not_ready

    call = _call_text("assert_ready", queue, matcher, {} if times is None else {"times": times})
    with source.lock:
        # The reasons are of the moment of the verdict.
        if is_so():
            return matches[0] if times is None else matches
        declared = find_queue(source.node, vhost, queue, timeout=timeout)
        failure = not_ready(source, call, declared, matcher, times=times, timeout=timeout)
    raise failure.error(source.report(failure.messages, failure.queues))


def _parts_of(options: AssertionOptions) -> tuple[float | None, str, Matcher]:
    """Return the timeout, the virtual host and the criteria among the keywords of an assertion."""
    criteria = {name: value for name, value in options.items() if name not in ("timeout", "vhost")}
    return options.get("timeout"), options.get("vhost", "/"), Matcher(criteria)


# The valid texts of `reason`. Any other text is a typo; an object with its own `__eq__` passes.
_REASONS: Final = {f"assert_{name}": row.reasons for name, row in HAPPENINGS.items() if row.reasons}


# The keywords that only some assertions take.
_OWN_KEYWORDS: Final = {**dict.fromkeys(_REASONS, ("reason",)), "assert_dead_lettered": ("reason", "to")}


def _refuse_keywords_of_others(call: str, options: Iterable[str]) -> None:
    __tracebackhide__ = True
    for word in options:
        others = [other for other, own in _OWN_KEYWORDS.items() if word in own]
        if others:
            raise TypeError(f"{call}() has no keyword {word!r}; {', '.join(others)} take it")


class _Evaluation:
    """The evaluation of one question."""

    def __init__(self, source: Source, question: Question) -> None:
        self._source: Final = source
        self._question: Final = question
        self._search: Final = EventSearch(question)
        # How many events the search has seen.
        self._read_count = 0

    def run(self, timeout: float | None) -> list[MessageView]:
        """Return the messages found; raise AssertionError if they are not what the question asks for."""
        __tracebackhide__ = True
        source, question = self._source, self._question
        if not source.recorder.is_on:
            raise EventsMissingError(
                f"{question.call} needs a trace, but this broker records none; use Broker(record='recent')"
            )
        # A wait that timed out needs the barrier again: time has passed, even if no event came.
        if timeout is None or not source.wait_until(self._is_decided, timeout):
            source.sync()
        try:
            # The verdict and its reasons are of one moment: clients may act a moment later.
            with source.lock:
                if (matches := self._matches(timeout)) is not None:
                    return matches
                # Imported here because only a failing test needs it.
                from leveret.observe.assertions.failures import explain, look_here

                here = look_here(source, self._search, timeout)
        except NotDeclaredError as missing:
            raise NotDeclaredError(f"{missing}{self._known_elsewhere()}") from None
        with source.explaining:
            failure = explain(source, self._search, here, timeout)
            raise failure.error(source.report(failure.messages, failure.queues))

    def _matches(self, timeout: float | None) -> list[MessageView] | None:
        """Return the messages found, None if they are not what the question asks for. Call it under the lock."""
        __tracebackhide__ = True
        question, search = self._question, self._search
        self._catch_up()
        matching, times = search.matches(), question.times
        if times is None and matching:
            return [search.view(matching[0])]
        if times is None or len(matching) <= times:
            self._require_complete_trace()
        if not matching:
            self._require_known_names(self._source, timeout)
        return [search.view(occurrence) for occurrence in matching] if len(matching) == times else None

    def _known_elsewhere(self) -> str:
        """Return which other brokers of the test have the names that this one lacks, if any."""
        knowing = []
        for other in self._source.others():
            with other.lock, suppress(NotDeclaredError):
                self._require_known_names(other, None)
                knowing.append(other.name)
        return f"; {' and '.join(knowing)} has it, and this is {self._source.name}" if knowing else ""

    def _catch_up(self) -> None:
        recorder = self._source.recorder
        self._search.feed(recorder.raw_after(self._read_count))
        self._read_count = recorder.recorded_count
        self._search.uncommitted = uncommitted(self._source.node)

    def _is_decided(self) -> bool:
        # One message decides `times=0`. Surplus messages may still come, but the wait does not last for them.
        self._catch_up()
        return len(self._search.matches()) >= max(1, self._question.times or 1)

    def _require_complete_trace(self) -> None:
        __tracebackhide__ = True
        recorder = self._source.recorder
        # Events dropped before the test began do not count anyway.
        if recorder.has_dropped and not self._search.has_seen_start:
            raise EventsMissingError(
                f"{self._question.call} cannot be answered: the trace holds only the last {recorder.size} events and "
                "has dropped older ones; call broker.events.clear() before the part of the test that counts"
            )

    def _require_known_names(self, source: Source, timeout: float | None) -> None:
        __tracebackhide__ = True
        question, node, trace = self._question, source.node, source.recorder.raw()
        if question.place is not None:
            require_known(node, trace, question.vhost, question.happening.place, question.place, timeout=timeout)
        if question.to is not None:
            require_known(node, trace, question.vhost, "queue", question.to, timeout=timeout)


def _call_text(call: str, place: str | None, matcher: Matcher, asked: Mapping[str, object]) -> str:
    arguments = [] if place is None else [repr(place)]
    arguments += [f"{name}={value!r}" for name, value in asked.items()]
    arguments += [repr(matcher)] if matcher.criteria else []
    return f"{call}({', '.join(arguments)})"
