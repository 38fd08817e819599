"""The fixtures: a fresh broker for each test, one for the session or any other scope, and a factory for any number.

They are plain functions, so they work in synchronous and asynchronous tests of every framework. A broker runs on a
thread of its own and does not belong to an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Unpack, get_args

import pytest

from pytest_leveret import use
from pytest_leveret.options import FIXTURE, RUNNING, settings_for
from pytest_leveret.options.markers import STATE_NAME, marked_settings, set_faults, with_marked

if TYPE_CHECKING:
    from leveret import Broker, BrokerOptions
    from pytest_leveret.options import Settings

Scope = Literal["session", "package", "module", "class"]
_SCOPES: Final = get_args(Scope)


class MakeLeveret(Protocol):
    """A function that starts another broker with each call and takes the keywords of `leveret.Broker`."""

    def __call__(self, *, name: str | None = None, **options: Unpack[BrokerOptions]) -> Broker:
        """Start a broker. Missing keywords come from the marker, the command line, the environment or the ini file.

        Reports and pages call it by its `name`; without one, by the variable of the test that holds it.
        """


@pytest.fixture(scope="session", name=FIXTURE)
def rehearsed_version(request: pytest.FixtureRequest) -> str | None:
    """Return the RabbitMQ version of this test in the rehearsal of an upgrade; None without a rehearsal."""
    # All fixtures of leveret ask for this one first, also if a test asks for them while it runs.
    use.begin(request.config)
    version: str | None = getattr(request, "param", None)
    return version


@pytest.fixture
def make_leveret(request: pytest.FixtureRequest, _leveret_rabbitmq: str | None) -> Iterator[MakeLeveret]:
    """Return a function that starts another broker with each call, such as `make_leveret(rabbitmq="4.0")`.

    It takes the keywords of `leveret.Broker`, and `name`, by which reports and pages call the broker. Missing keywords
    come from the marker, the command line, the environment or the ini file. At the end of the test all brokers stop,
    and an internal error of one of them fails the test.
    """
    __tracebackhide__ = True
    from pytest_leveret import brokers
    from pytest_leveret.brokers import run_broker
    from pytest_leveret.rehearsals import rehearsal

    settings = _settings_of(request)
    started: list[Broker] = []

    def make(*strays: object, name: str | None = None, **overrides: Unpack[BrokerOptions]) -> Broker:
        __tracebackhide__ = True
        if strays:
            raise TypeError(f"make_leveret takes keywords only, as in make_leveret(rabbitmq={strays[0]!r})")
        if name is not None and not (isinstance(name, str) and name.strip()):
            raise ValueError(f"name={name!r} is no name; expected a text such as 'paris', or leave it out")
        own = run_broker.lend_port(request, settings, overrides)
        broker = brokers.start_broker(request.config, own, {**overrides})
        started.append(broker)
        brokers.add_to_test(request.node, broker, name)
        return broker

    yield make
    brokers.end_expecting(started)
    is_faulty = brokers.is_faulty(request.node)
    if not is_faulty:
        rehearsal.note_traces(request.node, started)
    is_judged = brokers.has_passed(request.node) and not is_faulty
    try:
        brokers.stop_and_check(started, is_judged=is_judged, item=request.node)
    finally:
        run_broker.take_port_back(request)


def _settings_of(request: pytest.FixtureRequest) -> Settings:
    """Return the settings of a test's own brokers."""
    from pytest_leveret.rehearsals import rehearsal

    general = settings_for(request.config, rehearsal.version_of(request.node))
    return with_marked(general, marked_settings(request.node))


@pytest.fixture(name="leveret")
def fresh_broker(request: pytest.FixtureRequest, make_leveret: MakeLeveret) -> Broker:
    """Return a fresh, empty AMQP broker for this test, at `leveret.url`.

    Each test has a different port, so a client that one test leaves running cannot reconnect to the next one's broker.
    """
    from pytest_leveret import brokers, explore

    broker = make_leveret()
    if (mark := request.node.get_closest_marker(STATE_NAME)) is not None:
        from pytest_leveret.brokers import states

        states.begin(request, broker, mark, _settings_of(request))
    explore.watch(request.node, broker)
    set_faults(request.node, broker)
    brokers.expect_client(request.node, broker)
    return broker


@pytest.fixture(scope="session")
def leveret_session(request: pytest.FixtureRequest, _leveret_rabbitmq: str | None) -> Iterator[Broker]:
    """Return one AMQP broker for all tests of the run, for applications that start once and need a fixed URL.

    It keeps its state between tests, unless you call `leveret_session.reset()`, which also closes every connection.
    """
    from pytest_leveret.brokers import run_broker

    settings = settings_for(request.config, _leveret_rabbitmq)
    broker = run_broker.take_broker(request.config, settings)
    try:
        yield from _shared(request, settings, {}, broker)
    finally:
        run_broker.leave_broker(request.config)


def leveret_fixture(scope: Scope, **options: Unpack[BrokerOptions]) -> Callable[..., Broker]:
    """Return a fixture that gives all tests of a scope the same broker: `orders_broker = leveret_fixture("module")`.

    Its name is that of the variable. `options` are the keywords of `leveret.Broker`. Missing ones come from the command
    line, the environment or the ini file.
    """
    if scope not in _SCOPES:
        raise ValueError(f"scope={scope!r} is unknown; expected one of {', '.join(_SCOPES)}")

    def shared_broker(request: pytest.FixtureRequest, _leveret_rabbitmq: str | None) -> Iterator[Broker]:
        """One broker for all tests of a scope. It keeps its state from test to test."""

        settings = settings_for(request.config, _leveret_rabbitmq)
        yield from _shared(request, settings, {**options}, None)

    fixture: Callable[..., Broker] = pytest.fixture(scope=scope)(shared_broker)
    return fixture


def _shared(
    request: pytest.FixtureRequest, settings: Settings, overrides: dict[str, Any], started: Broker | None
) -> Iterator[Broker]:
    """Yield the broker of a fixture that serves several tests, and stop it at the end."""
    __tracebackhide__ = True
    from pytest_leveret import brokers
    from pytest_leveret.brokers import run_broker

    session, name = request.session, str(request.fixturename)
    own = settings if started else run_broker.lend_port(request, settings, overrides)
    broker = started or brokers.start_broker(request.config, own, overrides)
    brokers.share(session, name, broker)
    yield broker
    brokers.unshare(session, name)
    last = session.config.stash.get(RUNNING, None)
    is_excused = last is not None and name in getattr(last, "fixturenames", ()) and not brokers.has_passed(last)
    try:
        brokers.stop_and_check([broker], is_judged=not is_excused, item=last)
    finally:
        run_broker.take_port_back(request)
