"""What a run with a contract does around each test: read what its brokers have recorded, and judge it.

A test that does not pass shows nothing, and neither does one that explores faults.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import pytest

from pytest_leveret import explore
from pytest_leveret.brokers import WATCHERS, brokers_of, has_passed
from pytest_leveret.contract.observing import EventReader

if TYPE_CHECKING:
    from leveret import Broker

GAP: Final = (
    "a broker has not recorded all events, so some messages were not looked at; run these tests with record='recent'"
)
Shown = TypeVar("Shown")


class Watch(ABC, Generic[Shown]):
    """A part of the plugin that collects what tests show, and judges it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config: Final = config
        self._is_worker: Final = hasattr(config, "workerinput")
        self._readers: Final[WeakKeyDictionary[Broker, EventReader[Shown]]] = WeakKeyDictionary()
        # Two parts of what the test that is running has shown: the one that was judged, and the one that was not.
        self._judged = self._nothing()
        self._of_test = self._nothing()
        self._has_gap = False
        config.stash.setdefault(WATCHERS, []).append(self._watch)

    @abstractmethod
    def _nothing(self) -> Shown:
        """Return what a test has shown that has done nothing."""

    @abstractmethod
    def _reader(self, broker: Broker) -> EventReader[Shown]:
        """Return what reads the events of a broker."""

    @abstractmethod
    def _keep(self, shown: Shown) -> None:
        """Take what a test has shown that has passed."""

    @abstractmethod
    def _problem_of(self, shown: Shown) -> list[str]:
        """Return what is wrong with what a test has shown, as lines; nothing if it is right."""

    def _watch(self, broker: Broker) -> None:
        if broker not in self._readers:
            self._readers[broker] = self._reader(broker)

    def _observe(self, brokers: Iterable[Broker]) -> None:
        for broker in brokers:
            if broker in self._readers:
                self._has_gap |= not self._readers[broker].read(self._of_test)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check what a test has sent, once it has passed."""
        __tracebackhide__ = True
        result = yield
        self._observe(brokers_of(item))
        self._judge(item, self._of_test)
        self._judged, self._of_test = self._of_test, self._nothing()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Take what a test has shown, with what its fixtures have done at the end."""
        __tracebackhide__ = True
        brokers = brokers_of(item)
        # What a fixture resets would be lost.
        self._observe(brokers)
        try:
            result = yield
        finally:
            self._observe(brokers)
            judged, self._judged = self._judged, self._nothing()
            rest, self._of_test = self._of_test, self._nothing()
        if has_passed(item) and not explore.is_faulty(item):
            self._keep(judged)
            self._keep(rest)
            self._judge(item, rest)
        return result

    def _judge(self, item: pytest.Item, shown: Shown) -> None:
        """Raise an error at the line of a test if what it has shown is wrong."""
        __tracebackhide__ = True
        lines = [] if explore.is_faulty(item) else self._problem_of(shown)
        if lines:
            path, line, _ = item.location
            raise pytest.fail.Exception("\n".join([f"{path}:{(line or 0) + 1}: {lines[0]}", *lines[1:]]), pytrace=False)
