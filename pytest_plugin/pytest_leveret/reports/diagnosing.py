"""What went wrong in a test that failed, and the moment when it did.

An assertion or a wait of leveret notes the moment itself. For a plain `assert` and for pytest-timeout, the hooks here
run while the blocks of the test are still open. What happens later is its clean-up.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty
from time import time_ns
from traceback import walk_tb
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_leveret.brokers import brokers_of, shared_brokers
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.brokers.recording import failure_of
from pytest_leveret.guard import Guarded

if TYPE_CHECKING:
    from leveret import Broker
    from leveret.observe.calls.callers import Stack
    from leveret.observe.texts.report import Report
    from leveret.story.asked import Asked, TaskDeath
    from leveret.story.causes import Cause
    from leveret.story.diagnosis import Diagnosis

_MESSAGE_MAX: Final = 200
# In what a message differs that came near if it is the one that was asked for, and another way was expected for it.
_OF_THE_WAY: Final = frozenset({"outcome", "queue", "to", "reason", "times", "uncommitted"})
# The fixture with which a test makes its brokers.
_MAKES_BROKERS: Final = "make_leveret"
# The packages between an assert and the hook that pytest calls for it.
_BETWEEN: Final = ("_pytest", "pluggy", "pytest_leveret")


class Moment(NamedTuple):
    """When a test failed: in microseconds since the epoch, and how much each of its brokers had recorded."""

    wall: int
    recorded: list[tuple[Broker, int]]
    # What a plain comparison asked for, and the code that made it.
    asked: Asked | None = None
    code: CodeType | None = None
    # Where threads and tasks stood.
    stacks: Sequence[Stack] = ()

    def recorded_by(self, broker: Broker) -> int | None:
        """Return how much a broker had recorded; None if it is unknown."""
        return next((count for one, count in self.recorded if one is broker), None)


class Noted(NamedTuple):
    """An error that ended a thread or a task, or was logged, and how much each broker of the test had recorded then."""

    death: TaskDeath
    recorded: list[tuple[Broker, int]]

    @classmethod
    def now(cls, item: pytest.Item, death: TaskDeath) -> Noted:
        """Return it as something that has just happened in a test."""
        return cls(death, [(broker, harness_of(broker).recorded_count) for broker in brokers_of(item)])

    def place(self, broker: Broker) -> int | None:
        """Return how much a broker had recorded; None if it is unknown."""
        return next((count for one, count in self.recorded if one is broker), None)


@dataclass(slots=True)
class FailureNotes:
    """What is known of how a test fails."""

    deaths: list[Noted] = field(default_factory=list)
    # The errors that code has caught and logged.
    caught: list[Noted] = field(default_factory=list)
    # Where threads stood when its call raised.
    stacks: Sequence[Stack] = ()
    moment: Moment | None = None
    # The reports that its error carried, and what to use in place of a fixture that does not exist.
    taken: list[Report] = field(default_factory=list)
    missing: str | None = None
    # What it calls its brokers, and what went wrong as each shows it.
    names: dict[Broker, str] = field(default_factory=dict)
    diagnoses: list[tuple[Broker, Diagnosis]] = field(default_factory=list)


_NOTES: Final = pytest.StashKey[FailureNotes]()


def notes_of(item: pytest.Item) -> FailureNotes:
    """Return the notes on a test that is running or ending."""
    return item.stash.setdefault(_NOTES, FailureNotes())


def _note_logged(item: pytest.Item, record: logging.LogRecord) -> None:
    """Note an error that code logs: that of a task that nothing retrieves, or one that it has caught."""
    # asyncio logs what is no error with exc_info=False. A time limit of the test may end it within a task.
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, pytest.fail.Exception) or (error is None and not _is_of_code(record)):
        return
    is_task = record.name == "asyncio"
    if is_task and error is not None and _is_of_another(item, error):
        return
    death = _death_of_task(error) if is_task and error is not None else _logged(record, error)
    notes = notes_of(item)
    (notes.deaths if is_task else notes.caught).append(Noted.now(item, death))


class Diagnosing:
    """The part of the plugin that notes how and when a test fails."""

    def __init__(self) -> None:
        """Begin without a test."""
        self._item: pytest.Item | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note the errors that end threads and tasks while a test with a broker runs: a consumer is often one."""
        if not (brokers_of(item) or shared_brokers(item) or _MAKES_BROKERS in getattr(item, "fixturenames", ())):
            return (yield)
        from leveret.observe.calls.errors import errors_seen

        notes, earlier = notes_of(item), threading.enumerate()

        def note_logged(record: logging.LogRecord) -> None:
            with Guarded("note an error that was logged", item):
                _note_logged(item, record)

        def note(ended: threading.ExceptHookArgs) -> None:
            with Guarded("note the error of a thread", item):
                if ended.exc_value is not None and ended.thread not in earlier:
                    name = None if ended.thread is None else ended.thread.name
                    what = "a thread" if name is None else f"thread {name!r}"
                    notes.deaths.append(Noted.now(item, _death(what, name, ended.exc_value)))

        self._item = item
        try:
            with errors_seen(note_logged, note, passes_on=True):
                return (yield)
        except Exception:
            # Threads of the test's fixtures still run. The test's own blocks have ended.
            with Guarded("note where threads stood", item):
                from leveret.observe.calls.callers import stacks_of_users

                notes.stacks = stacks_of_users(but_for=threading.get_ident())
            raise
        finally:
            self._item = None

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        """Note the moment of a comparison that fails, while the blocks around it are open; say how a flow differs."""
        if self._item is not None and threading.current_thread() is threading.main_thread():
            with Guarded("compare the values", self._item):
                from leveret.observe.calls.asking import asked_by

                frame: FrameType | None = sys._getframe(1)
                while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
                    frame = frame.f_back
                asked = asked_by(op, left, right, frame)
                _note_moment(self._item, asked, None if frame is None else frame.f_code)
        if op != "==":
            return None
        uses_leveret = self._item is not None and bool(brokers_of(self._item))
        return _flow_difference(left, right) or (_never_equal(left, right) if uses_leveret else None)

    @pytest.hookimpl(optionalhook=True, wrapper=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> Generator[None, object, object]:
        """Let pytest-timeout's signal note the moment before it fails the test."""
        result = yield
        if settings.method == "signal" and threading.current_thread() is threading.main_thread():
            import signal

            before = signal.getsignal(signal.SIGALRM)

            def note(number: int, frame: FrameType | None) -> None:
                __tracebackhide__ = True
                if self._item is not None:
                    with Guarded("note the moment of the time-out", self._item):
                        from leveret.story.asked import Asked

                        _note_moment(self._item, Asked(is_timeout=True, is_wait=_is_waiting(frame)), None)
                if callable(before):
                    before(number, frame)

            signal.signal(signal.SIGALRM, note)
        return result


def note_failure(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Find out when a test failed, and what went wrong, with the reports that its error carried."""
    assert call.excinfo is not None
    notes, brokers = notes_of(item), brokers_of(item)
    moment, reports = notes.moment, notes.taken
    if moment is not None and moment.code is not None and not _is_raised_in(call.excinfo.value, moment.code):
        moment = None
    if reports:
        recorded = [
            (one, report.moment) for one in brokers for report in reports if harness_of(one).is_shown_by([report])
        ]
        moment = Moment(reports[0].wall, recorded, stacks=reports[0].stacks)
    if moment is None:
        moment = Moment(round(call.stop * 1_000_000), [], stacks=notes.stacks)
    notes.moment, notes.names = moment, names_of(brokers, call)
    notes.diagnoses = _diagnosed(item, call, moment, brokers)


def failed_at(item: pytest.Item) -> int | None:
    """Return when a test failed, in microseconds since the epoch."""
    moment = notes_of(item).moment
    return None if moment is None else moment.wall


def stacks_at_failure(item: pytest.Item) -> Sequence[Stack]:
    """Return where threads and tasks stood when a test failed."""
    moment = notes_of(item).moment
    return () if moment is None else moment.stacks


def variables_at_failure(item: pytest.Item) -> dict[str, str]:
    """Return the variables or fixtures of several brokers of a test that failed, by what their reports call these."""
    names = notes_of(item).names.items()
    return {harness_of(one).name: name for one, name in names if harness_of(one).given_name is None}


def later_count(item: pytest.Item, broker: Broker) -> int:
    """Return how much a broker has recorded since a test failed: what the test did to clean up."""
    moment = notes_of(item).moment
    count = None if moment is None else moment.recorded_by(broker)
    return 0 if count is None else harness_of(broker).moment - count


def diagnosis_of(item: pytest.Item, broker: Broker) -> Diagnosis | None:
    """Return what went wrong in a test and what else was noticed, as far as this broker shows it."""
    return next((known for one, known in notes_of(item).diagnoses if one is broker), None)


def brokers_with_causes(item: pytest.Item) -> list[Broker]:
    """Return the brokers that show what went wrong in a test."""
    return [broker for broker, known in notes_of(item).diagnoses if known.causes]


def sentences_of(item: pytest.Item) -> list[str]:
    """Return what went wrong in a test, a sentence each: never more than three."""
    return _sentences(known.causes for _, known in notes_of(item).diagnoses)


def noticed_in(item: pytest.Item) -> list[str]:
    """Return what else was noticed in a test, a sentence each: never more than three."""
    return _sentences(known.noticed for _, known in notes_of(item).diagnoses)


def _sentences(causes: Iterable[Sequence[Cause]]) -> list[str]:
    known = [cause for some in causes for cause in some]
    if not known:
        return []
    from leveret.story.causes import sentence

    return [sentence(cause) for cause in known]


def forget(item: pytest.Item) -> None:
    """Forget how a test failed that has ended, with its brokers, because its item exists until the run ends."""
    notes_of(item)
    del item.stash[_NOTES]


def _diagnosed(
    item: pytest.Item, call: pytest.CallInfo[None], moment: Moment, brokers: list[Broker]
) -> list[tuple[Broker, Diagnosis]]:
    found: list[tuple[Broker, Diagnosis]] = []
    for broker in brokers:
        asked = _asked(item, call, moment, broker)
        known = harness_of(broker).diagnosis(item.nodeid, asked, moment.recorded_by(broker))
        if known is not None:
            found.append((broker, known))
    if len(found) > 1:
        names = {broker: harness_of(broker).name for broker in brokers} | notes_of(item).names
        for part in ("causes", "noticed"):
            _keep_worst(found, part, names)
    return found


def _keep_worst(found: list[tuple[Broker, Diagnosis]], part: str, names: dict[Broker, str]) -> None:
    """Keep what is worst of all brokers, each with the name of its own."""
    from leveret.story.diagnosis import CAUSES_MAX

    known: list[tuple[Broker, Cause]] = [(broker, cause) for broker, one in found for cause in getattr(one, part)]
    worst = sorted(known, key=lambda one: one[1].rank)[:CAUSES_MAX]
    for broker, one in found:
        kept = [cause for other, cause in worst if other is broker]
        setattr(one, part, [cause._replace(names={**cause.names, "broker": names[broker]}) for cause in kept])


def _asked(item: pytest.Item, call: pytest.CallInfo[None], moment: Moment, broker: Broker) -> Asked:
    """Return what a failed test asked one of its brokers for."""
    from leveret.errors import CheckFailedError, WaitTimeoutError
    from leveret.observe.calls.asking import asked_by_error, raised_by
    from leveret.story.asked import Asked, Caught, values_of

    assert call.excinfo is not None
    error, failure = call.excinfo.value, failure_of(call)
    asked = asked_by_error(error) if moment.asked in (None, Asked()) else replace(moment.asked)
    if failure is not None:
        # What came near is what was asked for only if nothing but its way differs.
        near = [one for one in failure.nearest if all(it.what in _OF_THE_WAY for it in one.differs)]
        is_about_its_own = not failure.nearest and failure.expected in ("empty", "ready")
        asked.messages = [*(failure.messages if is_about_its_own else ()), *(one.message for one in near)]
        asked.queues = failure.queues
        asked.is_unpublished = failure.expected == "published" and not failure.seen
        asked.is_falsy = not failure.seen and failure.expected != "published"
        bodies = [one for near in failure.nearest for one in near.differs if one.what in ("json", "json_contains")]
        asked.replaced = [*values_of(*(one.expected for one in bodies))]
        if failure.expected == "published" and failure.times is not None:
            asked.amounts = [(failure.times, failure.seen)]
        keys = [one.expected for near in failure.nearest for one in near.differs if one.what == "routing_key"]
        asked.routing_key = next((key for key in keys if isinstance(key, str)), None)
    asked.is_check = isinstance(error, CheckFailedError)
    asked.is_wait = asked.is_wait or isinstance(error, WaitTimeoutError)
    asked.is_timeout = asked.is_timeout or (isinstance(error, TimeoutError | Empty) and not asked.is_wait)
    asked.raised = [*raised_by(error)]
    deaths = [*notes_of(item).deaths, *_deaths_of_tasks(call)]
    asked.deaths = [one.death._replace(place=one.place(broker)) for one in deaths]
    asked.caught = [
        Caught(one.death.error, one.death.line, place, one.death.text)
        for one in notes_of(item).caught
        if (place := one.place(broker)) is not None
    ]
    return asked


def names_of(brokers: list[Broker], call: pytest.CallInfo[None]) -> dict[Broker, str]:
    """Return what a test calls its brokers: by the name that it gave, or several by their variables or fixtures."""
    several = brokers if len(brokers) > 1 else []
    names = {broker: name for broker in several if (name := harness_of(broker).fixture) is not None}
    for entry in call.excinfo.traceback if call.excinfo is not None and several else ():
        held = entry.frame.f_locals.items()
        names.update({value: name for name, value in held if any(value is broker for broker in brokers)})
    return names | {broker: name for broker in brokers if (name := harness_of(broker).given_name) is not None}


def _flow_difference(left: object, right: object) -> list[str] | None:
    """Return how a flow differs from a text, or None for others. pytest would compare the indents of the lines too."""
    flows = sys.modules.get("leveret.story.flow")
    if flows is None or not (isinstance(left, str) and isinstance(right, str)):
        return None
    if isinstance(left, flows.Flow):
        flow, pinned = left, right
    elif isinstance(right, flows.Flow):
        flow, pinned = right, left
    else:
        return None
    # Imported here because only a failing test needs it.
    from difflib import ndiff

    compared = ndiff(flows.lines_of(pinned), flows.lines_of(flow))
    changed = [line.rstrip() for line in compared if not line.startswith("  ")]
    return ["the flow is as pinned: '-' is pinned, '+' is what flowed", *changed]


# No view equals a value of these types.
_PLAIN: Final = (bool, bytes, dict, float, int, list, str, tuple, type(None))


def _never_equal(left: object, right: object) -> list[str] | None:
    """Return why two values of these types are never equal and what to compare, if one is of leveret's; None else."""
    from leveret.observe.calls.hinting import Hinting
    from leveret.wording import with_article

    for one, other in ((left, right), (right, left)):
        owner, kind = getattr(one, "__self__", None), type(one).__name__
        if isinstance(owner, Hinting) and callable(one):
            name = getattr(one, "__name__", "")
            return [f"{name} is a method, and not what it returns: write {name}() == ..."]
        if isinstance(one, Hinting) and type(other) in _PLAIN:
            fields = ", ".join(getattr(type(one), "__dataclass_fields__", ()))
            return [f"a {kind} never equals {other!r}: compare one of its fields: {fields}"] if fields else None
        if isinstance(one, tuple) and all(isinstance(item, Hinting) for item in one) and type(other) in (int, list):
            # pytest reads the code of the comparison, and shows where an empty tuple comes from.
            way_out = f"len(...) == {other}" if type(other) is int else f"list(...) == {other!r}"
            return [f"a tuple never equals {with_article(type(other).__name__)}: compare {way_out}"]
    return None


def _is_waiting(frame: FrameType | None) -> bool:
    """Return whether the code that a time limit interrupts waits for a broker, or for a client."""
    from leveret.observe.calls.callers import is_of_client, is_of_user

    while frame is not None and not is_of_user(frame):
        if is_of_client(frame) or str(frame.f_globals.get("__name__")).partition(".")[0] == "leveret":
            return True
        frame = frame.f_back
    return False


def _note_moment(item: pytest.Item, asked: Asked | None, code: CodeType | None) -> None:
    from leveret.observe.calls.callers import stacks_of_users

    recorded = [(broker, harness_of(broker).moment) for broker in brokers_of(item)]
    notes_of(item).moment = Moment(time_ns() // 1_000, recorded, asked, code, stacks_of_users())


def _is_raised_in(error: BaseException, code: CodeType) -> bool:
    """Return whether an assert in this code raised an error."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return isinstance(error, AssertionError) and traceback is not None and traceback.tb_frame.f_code is code


def _deaths_of_tasks(call: pytest.CallInfo[None]) -> list[Noted]:
    """Return the tasks that an error has ended: those that the test itself holds, and those of which nothing has read.

    Of the latter, only those of open loops at work with a client: asyncio reports them once they are collected. An
    earlier test may have left one, so none is why this one failed.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or call.excinfo is None:
        return []
    frames = [entry.frame.raw for entry in call.excinfo.traceback]
    # By their types: isinstance() also asks a value for its class, at which a proxy may raise.
    values = [value for frame in frames for value in frame.f_locals.values() if issubclass(type(value), asyncio.Task)]
    errors = [(task.exception(), False) for task in dict.fromkeys(values) if task.done() and not task.cancelled()]
    # All clients whose tasks run a user's code on asyncio are built on aiormq.
    if "aiormq" in sys.modules:
        from leveret.observe.calls.insight import instances

        unread = [task for task in instances([asyncio.Task]) if task._log_traceback]
        # Task.exception() would keep asyncio from its report.
        errors += [(task._exception, True) for task in unread if not task.get_loop().is_closed()]
    deaths = [
        (_death_of_task(error), is_left)
        for error, is_left in errors
        if error is not None and error is not call.excinfo.value and not isinstance(error, pytest.fail.Exception)
    ]
    return [
        Noted(death._replace(is_client=death.is_client and not is_left), [])
        for death, is_left in deaths
        if death.is_client or not is_left
    ]


def _death_of_task(error: BaseException) -> TaskDeath:
    """Name a task by the outermost user code in it: a client's own task runs the user's handler."""
    from leveret.observe.calls.callers import is_of_user

    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    named = next(filter(is_of_user, frames), frames[0] if frames else None)
    return _death("a task" if named is None else f"task {named.f_code.co_name!r}", None, error)


def _is_of_another(item: pytest.Item, error: BaseException) -> bool:
    """Return whether a function of another test raised an error. asyncio reports a task once it is collected."""
    own = getattr(item, "originalname", item.name)
    functions = {frame.f_code.co_qualname.partition(".<locals>")[0] for frame, _ in walk_tb(error.__traceback__)}
    names = {name.rpartition(".")[2] for name in functions}
    return own not in names and any(getattr(one, "originalname", None) in names for one in item.session.items)


def _death(what: str, name: str | None, error: BaseException) -> TaskDeath:
    from leveret.observe.calls.callers import raising_line
    from leveret.story.asked import TaskDeath
    from leveret.wording import safe_text

    text = f"{type(error).__name__}: {safe_text(error, str, _MESSAGE_MAX)}".partition("\n")[0]
    return TaskDeath(what, name, text, raising_line(error), is_client=_is_of_client(error))


def _is_of_code(record: logging.LogRecord) -> bool:
    """Return whether the code under test, or a framework, has logged a warning: clients warn of their connections."""
    from leveret.observe.calls.callers import CLIENTS

    root = record.name.partition(".")[0]
    return record.levelno >= logging.WARNING and root not in (*CLIENTS, "asyncio", "leveret")


def _logged(record: logging.LogRecord, error: BaseException | None) -> TaskDeath:
    """Return an error or a warning that code has logged."""
    from leveret.story.asked import TaskDeath
    from leveret.wording import safe_text

    text = safe_text(record, lambda _: record.getMessage(), _MESSAGE_MAX).partition("\n")[0]
    if error is not None:
        return _death("", None, error)._replace(text=text)
    return TaskDeath("", None, f"{record.levelname.lower()} of {record.name}: {text}", None, text=text)


def _is_of_client(error: BaseException) -> bool:
    """Return whether an error was raised while a client of AMQP was at work, or by code that holds one."""
    from leveret.observe.calls.callers import CLIENTS, is_of_client

    for frame, _ in walk_tb(error.__traceback__):
        if is_of_client(frame):
            return True
        held = [*frame.f_locals.values()]
        held += [value for one in held for value in _attributes(one)]
        if any(type(value).__module__.partition(".")[0] in CLIENTS for value in held):
            return True
    return False


def _attributes(value: object) -> list[object]:
    """Return what an object of the user's holds, without asking it."""
    try:
        return list(object.__getattribute__(value, "__dict__").values())
    except AttributeError:
        return []
