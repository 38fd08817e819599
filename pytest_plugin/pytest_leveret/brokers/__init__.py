"""The brokers of a run: which test started which, and what is still to be raised or reported about them.

leveret is imported when the first broker starts, so a run without one pays nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EADDRINUSE
from inspect import signature
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers import recording
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.brokers.recording import attempt_of
from pytest_leveret.options import GENERAL, RUNNING, Setting, Settings, given, read_settings
from pytest_leveret.options.kinds import read_levels
from pytest_leveret.options.markers import marked_settings
from pytest_leveret.options.table import OPTIONS

if TYPE_CHECKING:
    from leveret import Broker

# What starts a broker in front of a real server, with these keywords.
STARTER: Final[pytest.StashKey[Callable[[dict[str, Any]], Broker]]] = pytest.StashKey()
# What wants to know of each broker that starts.
WATCHERS: Final = pytest.StashKey[list[Callable[["Broker"], None]]]()
# Whether something is done to a test's broker that strict checks and its contract are not about.
IS_FAULTY: Final = pytest.StashKey[bool]()


@dataclass(slots=True)
class SharedBrokers:
    """The brokers of a run that serve several tests."""

    # By fixture. An inner one may hide an outer one of the same name.
    by_fixture: dict[str, list[Broker]] = field(default_factory=dict)
    # The fixtures of those that serve all tests while they run.
    with_all: set[str] = field(default_factory=set)
    # By fixture of several tests: the brokers whose clock it has held while it was set up.
    holding: dict[object, list[Broker]] = field(default_factory=dict)
    # The test that runs.
    current: str = ""


_SHARED: Final = pytest.StashKey[SharedBrokers]()


def _shared(config: pytest.Config) -> SharedBrokers:
    return config.stash.setdefault(_SHARED, SharedBrokers())


def start_broker(config: pytest.Config, settings: Settings, overrides: dict[str, Any]) -> Broker:
    """Return a running broker, which stands in front of the real server if the run has one.

    A setting that it refuses fails the test, and the error names where it was set.
    """
    from leveret import Broker, BrokerError

    options = _complete({word: setting.value for word, setting in settings.items()} | overrides)
    if "checks" in settings and "checks" in overrides:
        options["checks"] = f"{settings['checks'].value} {read_levels(overrides['checks'])}"
    start = config.stash.get(STARTER, None)
    try:
        return Broker(**options).start() if start is None else start(options)
    except (ValueError, BrokerError) as error:
        origins = dict.fromkeys(setting.origin for word, setting in settings.items() if word not in overrides)
        if not origins:
            raise
        raise pytest.fail.Exception(f"{error} (from {', '.join(origins)})", pytrace=False) from None
    except OSError as error:
        if error.errno != EADDRINUSE or "port" not in settings or "port" in overrides:
            raise
        raise pytest.fail.Exception(
            f"{error.strerror} (from {settings['port'].origin}); one broker at a time can have this port, so start "
            "any other with make_leveret(port=0), or mark its test with @pytest.mark.leveret(port=0)",
            pytrace=False,
        ) from None


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of a broker with what they imply: a port for HTTP opens it."""
    return {"management": True, **options} if options.get("management_port") else options


def refuse_unusable(config: pytest.Config) -> None:
    """Raise UsageError for options of the whole run that cannot be read or that a broker refuses.

    A second call does nothing.
    """
    if GENERAL in config.stash:
        return
    settings = config.stash[GENERAL] = read_settings(config, OPTIONS)
    if not settings:
        return
    from leveret import Broker, BrokerError

    for word, setting in settings.items():
        # Definitions may name the users and virtual hosts of the other options, and must be there to match.
        beside = {"definitions": ("users", "vhosts"), "declare": ("users", "vhosts", "definitions")}.get(word, ())
        others: dict[str, Any] = {other: settings[other].value for other in beside if other in settings}
        for value in setting.value if isinstance(setting.value, tuple) else (setting.value,):
            try:
                Broker(**_complete({**others, word: value}))
            except (ValueError, BrokerError) as error:
                raise pytest.UsageError(f"{setting.origin}: {error}") from None
    if role_of(config) != "worker":
        _refuse_address({word: settings[word] for word in ("host", "port", "management_port") if word in settings})
    if "trace_dir" in settings:
        refuse_directory(settings["trace_dir"])


def _refuse_address(settings: Settings) -> None:
    """Raise UsageError if a broker cannot listen on the host and port of the options."""
    if not settings:
        return
    from leveret import Broker

    try:
        Broker(**_complete({word: setting.value for word, setting in settings.items()})).start().stop()
    except OSError as error:
        origins = ", ".join(setting.origin for setting in settings.values())
        text = str(error.strerror or error)
        if error.errno == EADDRINUSE:
            text = f"{text.partition(';')[0]}; stop what listens there, such as a RabbitMQ, or choose another port"
        raise pytest.UsageError(f"{origins}: {text}") from None


def role_of(config: pytest.Config) -> str:
    """Return what a process is in a run of pytest-xdist: "controller" or "worker"; "" in any other run."""
    if not (given(config, "numprocesses") or given(config, "tx")):
        return ""
    return "worker" if "PYTEST_XDIST_WORKER" in os.environ else "controller"


def refuse_directory(setting: Setting) -> None:
    """Raise UsageError if no file can be created in a directory, or in the nearest parent that exists."""
    place = setting.value
    while not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        TemporaryFile(dir=place).close()
    except OSError as error:
        reason = error.strerror or error
        raise pytest.UsageError(f"{setting.origin}: cannot write a file to {setting.value!r}: {reason}") from None


def add_to_test(item: pytest.Item, broker: Broker, name: str | None = None) -> None:
    """Note that a broker was started for a test, which calls it by a name."""
    if name is not None:
        harness_of(broker).call(name)
    attempt_of(item).started.append(broker)
    harness_of(broker).belong_to(item.nodeid)
    recording.begin(item, broker)
    harness_of(broker).begin_test(item.nodeid)
    for watcher in item.config.stash.get(WATCHERS, ()):
        watcher(broker)


def report_instead(item: pytest.Item, broker: Broker, other: Broker) -> None:
    """Let the report of a test that has failed be about another broker than the one that was started for it."""
    harness_of(other).belong_to(item.nodeid)
    attempt_of(item).started = [other if each is broker else each for each in attempt_of(item).started]


def expect_client(item: pytest.Item, broker: Broker) -> None:
    """Expect a client of the broker for which the test itself asks. A fixture may ask for one that few tests need."""
    harness_of(broker).name_in_tests("leveret")
    if "leveret" in signature(getattr(item, "function", None) or (lambda: None)).parameters:
        harness_of(broker).expect_client()


def end_expecting(started: list[Broker]) -> None:
    """Look whether the clients have come that were expected. With several brokers, each may have a part of its own."""
    for broker in started:
        harness_of(broker).end_expecting(counts=len(started) == 1)


def share(session: pytest.Session, fixture: str, broker: Broker, *, with_all: bool = False) -> None:
    """Note the broker that a fixture gives to several tests, or to all tests while it runs."""
    shared = _shared(session.config)
    if with_all:
        shared.with_all.add(fixture)
    harness_of(broker).serve_many(None if with_all else fixture)
    known = shared.by_fixture.setdefault(fixture, [])
    known.append(broker)
    if broker in known[:-1]:
        return
    if (item := session.config.stash.get(RUNNING, None)) is not None:
        recording.begin(item, broker)
        harness_of(broker).judge_by(_levels_of(item))
    harness_of(broker).begin_test(shared.current)
    for watcher in session.config.stash.get(WATCHERS, ()):
        watcher(broker)


def unshare(session: pytest.Session, fixture: str) -> None:
    """Forget the broker of a fixture that ends."""
    _shared(session.config).by_fixture[fixture].pop()


def brokers_of(item: pytest.Item) -> list[Broker]:
    """Return the brokers of a test: its own, and those that it shares with other tests and has used."""
    return [*attempt_of(item).started, *used_brokers(item)]


def shared_brokers(item: pytest.Item) -> list[Broker]:
    """Return the brokers that this test shares with others, as far as they were started."""
    shared = _shared(item.config)
    fixtures = {*getattr(item, "fixturenames", ()), *shared.with_all}
    return [started[-1] for name, started in shared.by_fixture.items() if started and name in fixtures]


def used_brokers(item: pytest.Item) -> list[Broker]:
    """Return the shared brokers that this test asks for, and of those that serve all tests, the ones that it used."""
    return [broker for broker in shared_brokers(item) if _is_used(item, broker)]


def _is_used(item: pytest.Item, broker: Broker) -> bool:
    """Return whether a test asks for a shared broker, or anything has happened on it since the test began."""
    shared = _shared(item.config).by_fixture
    if any(broker in shared.get(name, ()) for name in getattr(item, "fixturenames", ())):
        return True
    return harness_of(broker).moment > attempt_of(item).recorded.get(id(broker), -1)


def _note_recorded(item: pytest.Item, brokers: Iterable[Broker]) -> None:
    attempt_of(item).recorded.update({id(broker): harness_of(broker).moment for broker in brokers})


def note_start(item: pytest.Item) -> None:
    """Record in the traces of shared brokers that a test begins. A test's own broker records it when it starts."""
    _shared(item.config).current = item.nodeid
    serving = shared_brokers(item)
    for shared in serving:
        recording.begin(item, shared)
        harness_of(shared).begin_test(item.nodeid)
        harness_of(shared).judge_by(_levels_of(item))
    _note_recorded(item, serving)


def _levels_of(item: pytest.Item) -> str | None:
    """Return the levels of checks that the markers of a test set; None if they set none."""
    setting = marked_settings(item).get("checks")
    return None if setting is None else setting.value


@contextmanager
def keeping_holds(config: pytest.Config, fixture: Any) -> Iterator[None]:
    """Let a fixture of several tests keep the clocks that it holds while it is set up, until it has ended."""
    before = _held_clocks(config)
    # It was the first to be added, so it runs after what the fixture does at its end.
    fixture.addfinalizer(lambda: release_clocks(config, fixture))
    yield
    _shared(config).holding[fixture] = [broker for broker in _held_clocks(config) if broker not in before]


def release_clocks(config: pytest.Config, ended: object = None) -> None:
    """Let time run on in shared brokers, except where a fixture of several tests holds the clock, but for one."""
    holding = _shared(config).holding
    holding.pop(ended, None)
    for broker in _held_clocks(config):
        if not any(broker in held for held in holding.values()):
            broker.clock.release()


def _held_clocks(config: pytest.Config) -> list[Broker]:
    return [it for started in _shared(config).by_fixture.values() for it in started if it.clock.is_held]


def note_end(item: pytest.Item, report: pytest.TestReport, error: str | None) -> None:
    """Record in the traces of a test's brokers how the test ended, and with which error, and remember that."""
    attempt_of(item).has_passed = report.passed
    used = brokers_of(item)
    unused = [broker for broker in shared_brokers(item) if broker not in used]
    for broker in (*used, *unused):
        harness_of(broker).end_test(item.nodeid, report.outcome, report.duration, error)
    _note_recorded(item, unused)


def has_passed(item: pytest.Item) -> bool:
    """Return whether the test's call phase has passed. Until then, it has not."""
    return attempt_of(item).has_passed


def has_own(item: pytest.Item) -> bool:
    """Return whether a test asks for a broker of its own."""
    return not {"leveret", "make_leveret", "request"}.isdisjoint(getattr(item, "fixturenames", ()))


def is_faulty(item: pytest.Item) -> bool:
    """Return whether this run of a test has a fault, so that strict checks do not apply to its broker."""
    return item.stash.get(IS_FAULTY, False)


def stop_and_check(brokers: Iterable[Broker], *, is_judged: bool, item: pytest.Item | None = None) -> None:
    """Stop brokers, raise their internal errors, and then apply strict checks if `is_judged`."""
    __tracebackhide__ = True
    stopped = list(brokers)
    for broker in stopped:
        harness_of(broker).sync()
        broker.stop()
    check(stopped)
    if is_judged:
        judge(stopped, item)


def judge(brokers: Iterable[Broker], item: pytest.Item | None) -> None:
    """Apply strict checks: warn at the test's own line, and raise findings whose level is error."""
    __tracebackhide__ = True
    for verdict in [harness_of(broker).judge() for broker in brokers]:
        verdict.speak(None if item is None else (str(item.path), (item.location[1] or 0) + 1))


def check(brokers: Iterable[Broker]) -> None:
    """Raise the internal errors of brokers, each error once."""
    errors = [error for broker in brokers for error in harness_of(broker).take_internal_errors()]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("errors inside leveret", errors)
