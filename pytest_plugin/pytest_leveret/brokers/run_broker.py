"""The broker of the run: at the port of `leveret_port`, behind the variables of `leveret_url_env` and `leveret_hosts`.

Some applications read the URL of their broker when they are imported, and keep it; others have it in their code. So
the broker starts, and the variables are set, before pytest imports the first conftest. The fixture `leveret_session` is
this broker, and it belongs to every test in which something happens on it. When the run ends, the variables get their
former values.

Each worker of pytest-xdist has a broker of its own. It is at a free port, because two processes cannot have the same,
and the port of the option leads there for what runs in the worker, and in each Python that it starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret import brokers
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.options import Setting, Settings, general_settings, read_settings, settings_for
from pytest_leveret.options.kinds import Variable
from pytest_leveret.options.table import OF_RUN

if TYPE_CHECKING:
    from leveret import Broker


@dataclass(slots=True)
class RunBroker:
    """The broker of the run, and the variables that lead to it."""

    # None once the fixture `leveret_session` has ended.
    broker: Broker | None
    port: int
    # Whether `leveret_port` has set the port.
    is_fixed: bool
    # Where the variables were set, and the value of each.
    origin: str = ""
    values: dict[Variable, str] = field(default_factory=dict)
    # The names of machines that lead to it, as the header shows them, by where they were set.
    led: dict[str, str] = field(default_factory=dict)
    # The request of the fixture whose broker has the port for a while.
    tenant: pytest.FixtureRequest | None = None


_RUN: Final = pytest.StashKey[RunBroker]()
_FIXTURE: Final = "leveret_session"
_HTTP: Final = "management_"
_HOSTS: Final = "hosts"
# The options to which each worker of pytest-xdist has an answer of its own.
PORTS: Final = ("port", "management_port")
_LOCAL: Final = ("localhost", "127.0.0.1", "0.0.0.0")
# The usual port for HTTP.
_HTTP_PORT: Final = "15672"


def prepare(config: pytest.Config) -> None:
    """Start the broker of the run and set the variables, if an option asks for it. A second call does nothing.

    Raises UsageError for an option that is invalid, or that names an unknown virtual host or user.
    """
    if _RUN in config.stash:
        return
    wanted = {word: setting for word, setting in read_settings(config, OF_RUN).items() if setting.value}
    if not wanted:
        return
    brokers.refuse_unusable(config)
    settings, setting = settings_for(config, None), wanted.get("url_env")
    role = brokers.role_of(config)
    led = {word: it for word, it in wanted.items() if word == _HOSTS or (role and word in PORTS)}
    if role == "controller":
        # It runs no tests, so its broker is none of the brokers that the trace shows.
        settings.pop("trace_dir", None)
    for word in led.keys() & PORTS:
        settings[word] = Setting(0, led[word].origin)
        if word != "port":
            settings["management"] = Setting(True, led[word].origin)
    origin = next(iter(wanted.values())).origin
    try:
        broker = brokers.start_broker(config, settings, {})
        run = config.stash[_RUN] = RunBroker(broker, broker.port, "port" in wanted)
        config.add_cleanup(lambda: _stop(run))
        if setting is not None:
            run.origin = setting.origin
            run.values.update((variable, _value(broker, variable)) for variable in setting.value)
        _name_variables(run)
    except (pytest.fail.Exception, pytest.skip.Exception, ValueError) as error:
        raise pytest.UsageError(f"{origin}: {error}") from None
    from leveret.engine.urls import VARIABLES

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for variable, value in run.values.items():
        patch.setenv(variable.name, value)
        if not variable.part.startswith(_HTTP):
            # A worker on any broker gets the URL of that broker there.
            patch.setitem(VARIABLES, variable.name, (variable.vhost, variable.user, variable.part))
    if led:
        _lead(config, run, broker, led, patch)


def _lead(
    config: pytest.Config, run: RunBroker, broker: Broker, led: Mapping[str, Setting], patch: pytest.MonkeyPatch
) -> None:
    """Lead names of machines, or ports of this one, to the broker, here and in each Python that starts from here."""
    from leveret import BrokerError
    from leveret.engine.urls import HOSTS, VARIABLES, part_of
    from leveret.workers.startup import sitecustomize

    host, own = part_of(broker.url, "host"), {"port": broker.port, "management_port": int(_HTTP_PORT)}
    with suppress(BrokerError):
        own["management_port"] = int(part_of(broker.management_url, "port"))
    names, http_ports = set[str](), {_HTTP_PORT: own["management_port"]}
    for word, setting in led.items():
        if word == _HOSTS:
            names |= setting.value
            HOSTS.update(setting.value)
            run.led[setting.origin] = ", ".join(sorted(setting.value))
            continue
        names |= {f"{name}:{setting.value}" for name in (*_LOCAL, host)}
        run.led[setting.origin] = f"localhost:{setting.value}"
        if word != "port":
            http_ports[str(setting.value)] = own[word]
        if brokers.role_of(config) == "worker":
            # A test's own broker takes the port of that of the run, as in any other run.
            general_settings(config)[word] = Setting(own[word], setting.origin)
    config.add_cleanup(HOSTS.clear)
    config.add_cleanup(sitecustomize.lead(names, host, broker.port, http_ports))
    patch.setenv(sitecustomize.NAMES, " ".join(sorted(names)))
    patch.setenv(sitecustomize.ADDRESS, part_of(broker.url, "address"))
    patch.setenv(sitecustomize.HTTP, " ".join(f"{wanted}={there}" for wanted, there in http_ports.items()))
    patch.setitem(VARIABLES, sitecustomize.ADDRESS, ("/", "guest", "address"))
    patch.setenv("PYTHONPATH", os.path.dirname(sitecustomize.__file__), prepend=os.pathsep)


def is_started(config: pytest.Config) -> bool:
    """Return whether the run has a broker of its own."""
    return _RUN in config.stash


def begin_session(session: pytest.Session) -> None:
    """Let the broker of the run be among those of each test."""
    run = session.config.stash.get(_RUN, None)
    if run is not None and run.broker is not None:
        brokers.share(session, _FIXTURE, run.broker, with_all=True)


def _name_variables(run: RunBroker) -> None:
    if run.broker is not None:
        harness_of(run.broker).name_variables([variable.name for variable in run.values])
        harness_of(run.broker).name_in_tests(_FIXTURE)


def _value(broker: Broker, variable: Variable) -> str:
    """Return the URL, or the part, for a variable. Raises ValueError if its virtual host or user does not exist."""
    from leveret import BrokerError
    from leveret.engine.urls import part_of
    from leveret.errors import unknown

    if variable.part.startswith(_HTTP):
        try:
            url = broker.management_url
        except BrokerError:
            text = f"{variable.name}={variable.part}: the broker serves no HTTP; set leveret_management = yes"
            raise ValueError(text) from None
        return url if variable.part == "management_url" else part_of(url, "port")
    known = broker.admin.list_vhosts()
    if variable.vhost not in known:
        text = unknown("virtual host", variable.vhost, known)
        raise ValueError(f"{variable.name}: {text}; to create it, set leveret_vhosts = {variable.vhost}")
    try:
        url = broker.url_for(variable.vhost, user=variable.user)
    except BrokerError as error:
        text = f"{variable.name}: {error}; to create it, set leveret_users = {variable.user}=PASSWORD"
        raise ValueError(text) from None
    return part_of(url, variable.part)


def _stop(run: RunBroker) -> None:
    if run.broker is not None:
        run.broker.stop()


def header(config: pytest.Config) -> list[str]:
    """Return what the header of the run says: each variable, its value without the password, and where it was set."""
    run = config.stash.get(_RUN, None)
    if run is None:
        return []
    is_spread = bool(brokers.role_of(config))
    values = {it.name: "***" if it.part == "password" else value for it, value in run.values.items()}
    shown = [name if is_spread else f"{name}={re.sub(r':[^:@/]*@', '@', text)}" for name, text in values.items()]
    what = " for each worker" if is_spread else ""
    parts = [f"{', '.join(shown)}{what} ({run.origin})"] if shown else []
    parts += [f"{names}{what or ' is this broker'} ({origin})" for origin, names in run.led.items()]
    if run.broker is not None and not (brokers.STARTER in config.stash or "rabbitmq" in general_settings(config)):
        parts.append(f"as RabbitMQ {run.broker.rabbitmq} (the default; leveret_rabbitmq chooses another)")
    return parts


def hint(item: pytest.Item) -> str | None:
    """Return a line for the report of a test that failed on another broker than that of the run.

    There is none if clients came to that other one, and none to the broker of the run.
    """
    run, used = item.config.stash.get(_RUN, None), brokers.brokers_of(item)
    if run is None or run.tenant is not None or _FIXTURE in getattr(item, "fixturenames", ()):
        return None
    others = [broker for broker in used if broker is not run.broker]
    if not others or (run.broker not in used and any(harness_of(broker).has_clients for broker in others)):
        return None
    names = ", ".join(variable.name for variable in run.values) or f"port {run.port}"
    return (
        f"leveret_session is the broker at {names}; leveret and make_leveret are others. If the application read its "
        f"URL there, use leveret_session in this test."
    )


def lend_port(request: pytest.FixtureRequest, settings: Settings, overrides: Mapping[str, object]) -> Settings:
    """Return the settings for a fixture's own broker, to which the broker of the run leaves its port if it wants it.

    If the test asks for the broker of the run as well, that one keeps the port.
    """
    run = request.config.stash.get(_RUN, None)
    if run is None:
        return settings
    port = overrides["port"] if "port" in overrides else settings["port"].value if "port" in settings else 0
    is_free = run.tenant is None and run.broker is not None and _FIXTURE not in request.fixturenames
    if run.is_fixed and port == run.port and is_free and run.broker is not None:
        run.tenant = request
        harness_of(run.broker).leave_port()
    general = general_settings(request.config).get("management_port")
    return {word: setting for word, setting in settings.items() if setting is not general}


def take_port_back(request: pytest.FixtureRequest) -> None:
    """Let the broker of the run have its port again, if it has left it to a broker of this fixture."""
    run = request.config.stash.get(_RUN, None)
    if run is not None and run.tenant is request:
        run.tenant = None
        if run.broker is not None:
            run.broker.admin.revive()


def take_broker(config: pytest.Config, settings: Settings) -> Broker | None:
    """Return the broker of the run, for `leveret_session`; None if no option has started it.

    In the rehearsal of an upgrade, the broker of another version takes over the port.
    """
    run = config.stash.get(_RUN, None)
    if run is None:
        return None
    wanted = settings["rabbitmq"].value if "rabbitmq" in settings else None
    if run.broker is not None and wanted not in (None, run.broker.rabbitmq):
        run.broker.stop()
        run.broker = None
    if run.broker is None:
        run.broker = brokers.start_broker(config, settings, {"port": run.port})
        _name_variables(run)
    return run.broker


def end_broker(config: pytest.Config) -> bool:
    """Stop the broker of the run, so that another process can have its port; return whether there is one."""
    run = config.stash.get(_RUN, None)
    if run is None:
        return False
    _stop(run)
    run.broker = None
    return True


def leave_broker(config: pytest.Config) -> None:
    """Note that `leveret_session` has stopped the broker of the run."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.broker = None
