"""The broker of the run: at the port of `leveret_port`, behind the variables of `leveret_url_env` and `leveret_hosts`.

Some applications read the URL of their broker when they are imported, and keep it; others have it in their code. So
the broker starts, and the variables are set, before pytest imports the first conftest. The fixture `leveret_session` is
this broker, and it belongs to every test in which something happens on it. When the run ends, the variables get their
former values.

Each worker of pytest-xdist has a broker of its own if variables or names of machines lead there. If there is a port
only, the broker of the controller serves all workers, as a server would.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
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
    # The names of machines that lead to it, and where they were set.
    hosts: Setting | None = None
    # The request of the fixture whose broker has the port for a while.
    tenant: pytest.FixtureRequest | None = None


_RUN: Final = pytest.StashKey[RunBroker]()
_FIXTURE: Final = "leveret_session"
_HTTP: Final = "management_"
_SHARED: Final = (
    "one broker for all workers of pytest-xdist, which judges and reports no test: for one in each worker, run with "
    "-n 0, or let the application read its address from a variable, and name that in leveret_url_env"
)


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
    settings, setting, hosts = settings_for(config, None), wanted.get("url_env"), wanted.get("hosts")
    role = brokers.role_of(config)
    if role and setting is None and hosts is None:
        # A port is the same in all processes.
        if role == "worker":
            return
    elif role == "controller":
        # It runs no tests, so its broker is none of the brokers that the trace shows.
        for word in ("trace_dir", "port", "management_port"):
            settings.pop(word, None)
    origin = next(iter(wanted.values())).origin
    try:
        broker = brokers.start_broker(config, settings, {})
        is_fixed = "port" in settings and bool(settings["port"].value)
        run = config.stash[_RUN] = RunBroker(broker, broker.port, is_fixed, hosts=hosts)
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
    if hosts is not None:
        _lead(config, broker, hosts.value, patch)


def _lead(config: pytest.Config, broker: Broker, names: Collection[str], patch: pytest.MonkeyPatch) -> None:
    """Lead names of machines to the broker, here and in each Python that starts from here."""
    from leveret import BrokerError
    from leveret.engine.urls import HOSTS, VARIABLES, part_of
    from leveret.workers.startup import sitecustomize

    ports = [broker.port]
    with suppress(BrokerError):
        ports.append(int(part_of(broker.management_url, "port")))
    config.add_cleanup(sitecustomize.lead(names, part_of(broker.url, "host"), *ports))
    HOSTS.update(names)
    config.add_cleanup(HOSTS.clear)
    patch.setenv(sitecustomize.NAMES, " ".join(sorted(names)))
    patch.setenv(sitecustomize.ADDRESS, part_of(broker.url, "address"))
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
    if config.getoption("tx", None):
        parts = [f"{', '.join(it.name for it in run.values)} for each worker ({run.origin})"] if run.values else []
        parts += [] if parts or run.hosts else [_SHARED]
    else:
        values = {it.name: "***" if it.part == "password" else value for it, value in run.values.items()}
        shown = ", ".join(f"{name}={re.sub(r':[^:@/]*@', '@', text)}" for name, text in values.items())
        parts = [f"{shown} ({run.origin})"] if shown else []
    if run.hosts is not None:
        parts.append(f"{', '.join(sorted(run.hosts.value))} is this broker ({run.hosts.origin})")
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
