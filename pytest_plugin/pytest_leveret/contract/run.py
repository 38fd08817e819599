"""A run with a contract: each test adds what it shows, or is checked against the lock.

A test that does not pass shows nothing, and neither does one that explores faults. The workers of pytest-xdist hand
what their tests have shown to the controller, which writes the file and prints the notes.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import pytest

from leveret.wording import count_text
from pytest_leveret import explore
from pytest_leveret.brokers import WATCHERS, brokers_of, has_passed
from pytest_leveret.contract.comparing import Change, lock_changes
from pytest_leveret.contract.fitting import MessageFits, message_fits
from pytest_leveret.contract.lock import Lock, MessageKey, parse, read
from pytest_leveret.contract.observing import Observer

if TYPE_CHECKING:
    from leveret import Broker

_OUTPUT: Final = "leveret_contract"
_SHOWN_MAX: Final = 50
# To make a function takes as long as to read this many messages in full.
_FAST_FROM: Final = 20
_WRITE: Final = "pytest --leveret-contract=write"
_GAP: Final = (
    "a broker has not recorded all events, so the contract lacks messages; run these tests with record='recent'"
)


class Contract:
    """The part of the plugin that writes or checks a lock."""

    def __init__(self, config: pytest.Config, mode: str, path: Path) -> None:
        self._config: Final = config
        self._mode: Final = mode
        self._path: Final = path
        self._is_worker: Final = hasattr(config, "workerinput")
        self._observers: Final[WeakKeyDictionary[Broker, Observer]] = WeakKeyDictionary()
        # What the tests have shown, here and in the workers, and two parts of what the test that is running has shown:
        # the one that was judged, and the one that was not.
        self._seen: Final = Lock()
        self._judged = Lock()
        self._of_test = Lock()
        # How many messages of a kind came, and the fast way for those that are many.
        self._counts: Final[dict[MessageKey, int]] = {}
        self._fast: Final[dict[MessageKey, MessageFits]] = {}
        self._has_gap = False
        self._problem = ""
        self._written: list[Change] = []
        self._locked = self._read()
        config.stash.setdefault(WATCHERS, []).append(self._watch)

    def _read(self) -> Lock:
        try:
            return read(self._path)
        except FileNotFoundError:
            if self._mode != "check":
                return Lock()
            raise pytest.UsageError(
                f"leveret_contract: {self._path} does not exist; write it with {_WRITE}, and keep it in git"
            ) from None
        except (OSError, ValueError) as error:
            if self._mode == "rewrite":
                return Lock()
            raise pytest.UsageError(f"leveret_contract: {error}") from None

    def _watch(self, broker: Broker) -> None:
        if broker not in self._observers:
            self._observers[broker] = Observer(broker, self._fits_of)

    def _fits_of(self, key: MessageKey) -> MessageFits | None:
        """Return the fast way for messages of a kind that the lock knows; None for the first few, and for others."""
        self._counts[key] = count = self._counts.get(key, 0) + 1
        if count == _FAST_FROM:
            known = self._locked.messages.get(key) if self._mode != "rewrite" else None
            if known is not None and known.shape.count:
                self._fast[key] = message_fits(known.shape)
        return self._fast.get(key)

    def _observe(self, brokers: list[Broker]) -> None:
        for broker in brokers:
            if broker in self._observers:
                self._has_gap |= not self._observers[broker].read(self._of_test)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check what a test has sent, once it has passed."""
        __tracebackhide__ = True
        result = yield
        self._observe(brokers_of(item))
        self._judge(item, self._of_test)
        self._judged, self._of_test = self._of_test, Lock()
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
            judged, self._judged = self._judged, Lock()
            rest, self._of_test = self._of_test, Lock()
        if has_passed(item) and not explore.is_faulty(item):
            self._seen.merge(judged)
            self._seen.merge(rest)
            self._judge(item, rest)
        return result

    def _judge(self, item: pytest.Item, shown: Lock) -> None:
        """Raise an error if a publisher of a test has sent what can break a consumer."""
        __tracebackhide__ = True
        if self._mode != "check" or explore.is_faulty(item):
            return
        changes = [change for change in self._changes(shown) if change.breaks]
        if changes:
            path, line, _ = item.location
            lines = [f"{path}:{(line or 0) + 1}: this test sends what can break a consumer, by {self._path.name}:"]
            lines += [
                f"  {line}" for change in changes for line in (f"{change.subject}: {change.text}", *_indented(change))
            ]
            lines.append(f"If that is intended, accept it with {_WRITE}, and look at the consumers first.")
            raise pytest.fail.Exception("\n".join(lines), pytrace=False)

    def _changes(self, shown: Lock) -> list[Change]:
        """Return the differences of what clients have sent and declared. What the test itself sends changes nothing."""
        sent = {key: message for key, message in shown.messages.items() if message.publishers}
        return [*lock_changes(self._locked, replace(shown, messages=sent), is_part=True)]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Hand what the tests have shown to the controller, or write the lock."""
        if self._is_worker:
            output: dict[str, str] = self._config.workeroutput  # type: ignore[attr-defined]
            output[_OUTPUT] = json.dumps({"seen": self._seen.to_data(), "has_gap": self._has_gap})
            return
        if self._mode == "check" or self._seen == Lock():
            return
        if self._mode == "rewrite" and exitstatus != pytest.ExitCode.OK:
            self._problem = f"{self._path.name} was not rewritten, because the run failed"
            return
        before, old_text = deepcopy(self._locked), self._locked.text()
        if self._mode == "rewrite":
            self._locked = _with_needs(self._seen, before)
        else:
            self._locked.merge(self._seen)
        text = self._locked.text()
        if text != old_text:
            # By the text, because the counts of what was seen are no difference.
            self._written = [*lock_changes(before, parse(text))]
        self._locked.write(self._path)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what the tests of a worker have shown."""
        text = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if text is not None:
            data = json.loads(text)
            self._seen.merge(Lock.from_data(data["seen"]))
            self._has_gap |= data["has_gap"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write what has changed."""
        if self._mode == "check":
            changes, word = [change for change in self._changes(self._seen) if not change.breaks], "not in it"
        else:
            changes, word = self._written, "changed"
        lines = [f"  {change}" for change in changes]
        if lines:
            terminalreporter.section(f"leveret: {self._path.name}, {count_text(len(lines), 'note')}: {word}")
        for line in lines[:_SHOWN_MAX]:
            terminalreporter.write_line(line)
        if len(lines) > _SHOWN_MAX:
            terminalreporter.write_line(f"  and {len(lines) - _SHOWN_MAX} more")
        if self._problem:
            terminalreporter.write_line(f"leveret: {self._problem}")
        if self._has_gap:
            terminalreporter.write_line(f"leveret: {self._path.name}: {_GAP}")


def _indented(change: Change) -> list[str]:
    return [f"  {reason}" for reason in change.breaks]


def _with_needs(seen: Lock, before: Lock) -> Lock:
    """Return what a run has shown, with what was measured before of consumers that are still there."""
    for key, message in seen.messages.items():
        known = before.messages.get(key)
        for place, consumer in message.consumers.items():
            if known is not None and place in known.consumers:
                consumer.needs = known.consumers[place].needs
    return seen
