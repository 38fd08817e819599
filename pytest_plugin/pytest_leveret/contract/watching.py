"""What a run with a contract does around each test: read what its brokers have recorded, and judge it.

A test that does not pass shows nothing, and neither does one that explores faults.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

import pytest

from pytest_leveret.brokers import WATCHERS, brokers_of, has_passed, is_faulty
from pytest_leveret.contract.observing import EventReader
from pytest_leveret.guard import Guarded, note
from pytest_leveret.options.markers import failure_at

if TYPE_CHECKING:
    from leveret import Broker

_GAP: Final = (
    "a broker has not recorded all events, so some messages were not looked at; run these tests with record='recent'"
)


class _Shown(Protocol):
    """What tests have shown."""

    def merge(self, other: Self, /) -> None:
        """Add what other tests have shown."""


Shown = TypeVar("Shown", bound=_Shown)


class Watch(ABC, Generic[Shown]):
    """A part of the plugin that collects what tests show, and judges it.

    The workers of pytest-xdist hand what their tests have shown to the controller.
    """

    # What tests show, and the name under which a worker hands it over.
    _kind: ClassVar[type[Any]]
    _output: ClassVar[str]

    def __init__(self, config: pytest.Config, name: str) -> None:
        """Watch the tests of a run for the files of this name."""
        self._name: Final = name
        self._config: Final = config
        self._is_worker: Final = hasattr(config, "workerinput")
        # What the tests have shown, here and in the workers.
        self._seen: Shown = self._kind()
        self._readers: Final[WeakKeyDictionary[Broker, EventReader[Shown]]] = WeakKeyDictionary()
        # Two parts of what the test that is running has shown: the one that was judged, and the one that was not.
        self._judged: Shown = self._kind()
        self._of_test: Shown = self._kind()
        # The tests of which leveret could not read everything. They show nothing.
        self._unread: Final[set[str]] = set()
        # What the tests have shown that failed for it. A test that runs again begins anew.
        self._wrong: Final[dict[str, Shown]] = {}
        config.stash.setdefault(WATCHERS, []).append(self._watch)

    @abstractmethod
    def _reader(self, broker: Broker) -> EventReader[Shown]:
        """Return what reads the events of a broker."""

    @abstractmethod
    def _problem_of(self, shown: Shown) -> list[str]:
        """Return what is wrong with what a test has shown, as lines; nothing if it is right."""

    def _watch(self, broker: Broker) -> None:
        if broker not in self._readers:
            self._readers[broker] = self._reader(broker)

    def _observe(self, item: pytest.Item, brokers: Iterable[Broker]) -> None:
        with Guarded("read what the test has sent", item):
            for broker in brokers:
                if broker in self._readers and not self._readers[broker].read(self._of_test):
                    note(self._config, f"leveret: {self._name}: {_GAP}")
            return
        self._unread.add(item.nodeid)

    def _shows_something(self, item: pytest.Item) -> bool:
        return item.nodeid not in self._unread and not is_faulty(item)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check what a test has sent, once it has passed."""
        __tracebackhide__ = True
        self._wrong.pop(item.nodeid, None)
        result = yield
        self._observe(item, brokers_of(item))
        self._judge(item, self._of_test)
        self._judged, self._of_test = self._of_test, self._kind()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Take what a test has shown, with what its fixtures have done at the end."""
        __tracebackhide__ = True
        brokers = brokers_of(item)
        try:
            # What a fixture resets would be lost.
            self._observe(item, brokers)
        finally:
            try:
                result = yield
            finally:
                self._observe(item, brokers)
                judged, self._judged = self._judged, self._kind()
                rest, self._of_test = self._of_test, self._kind()
        if has_passed(item) and self._shows_something(item):
            self._seen.merge(judged)
            self._seen.merge(rest)
            self._judge(item, rest)
        return result

    def _judge(self, item: pytest.Item, shown: Shown) -> None:
        """Raise an error at the line of a test if what it has shown is wrong."""
        __tracebackhide__ = True
        lines: list[str] = []
        if self._shows_something(item):
            with Guarded("check what the test has sent", item):
                lines = self._problem_of(shown)
        if lines:
            self._wrong[item.nodeid] = deepcopy(shown)
            raise failure_at(item, "\n".join(lines))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand what the tests have shown to the controller, or end the run there."""
        if self._is_worker:
            output: dict[str, bytes] = self._config.workeroutput  # type: ignore[attr-defined]
            output[self._output] = pickle.dumps((self._seen, self._unread, self._wrong))
        else:
            self._end(session)

    def _end(self, session: pytest.Session) -> None:
        """Do what comes after all tests."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what the tests of a worker have shown."""
        output = getattr(node, "workeroutput", {}).get(self._output)
        if output is not None:
            seen, unread, wrong = pickle.loads(output)
            self._seen.merge(seen)
            self._unread.update(unread)
            self._wrong.update(wrong)


def write_lines(reporter: pytest.TerminalReporter, lines: Sequence[str], shown_max: int) -> None:
    """Write the first of some lines, indented, and how many more there are."""
    for line in lines[:shown_max]:
        reporter.write_line(f"  {line}")
    if len(lines) > shown_max:
        reporter.write_line(f"  and {len(lines) - shown_max} more")
