"""The option `leveret_url_env`: environment variables that hold URLs of the broker of the run.

Some applications read the URL of their broker when they are imported, and keep it. So the broker starts, and the
variables are set, before pytest imports the first conftest. The fixture `leveret_session` is this broker, and it
belongs to every test in which something happens on it. Each worker of pytest-xdist has one of its own. When the run
ends, the variables get their former values.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret import brokers
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.options import Setting, Settings, general_settings, given, read_settings, settings_for
from pytest_leveret.options.kinds import Variable
from pytest_leveret.options.table import URL_ENV

if TYPE_CHECKING:
    from leveret import Broker


@dataclass(slots=True)
class RunBroker:
    """The broker of the run, and the variables with its URLs."""

    setting: Setting
    # None once the fixture `leveret_session` has ended.
    broker: Broker | None
    port: int
    urls: dict[str, str]


_RUN: Final = pytest.StashKey[RunBroker]()
_FIXTURE: Final = "leveret_session"


def prepare(config: pytest.Config) -> None:
    """Start the broker of the run and set the variables, if the option is set. A second call does nothing.

    Raises UsageError for an option that is invalid, or that names an unknown virtual host or user.
    """
    if _RUN in config.stash:
        return
    setting = read_settings(config, URL_ENV).get("url_env")
    if setting is None:
        return
    brokers.refuse_unusable(config)
    settings = settings_for(config, None)
    if given(config, "numprocesses") and "PYTEST_XDIST_WORKER" not in os.environ:
        # The controller of pytest-xdist runs no tests, so its broker is none of the brokers that the trace shows.
        settings.pop("trace_dir", None)
    try:
        broker = brokers.start_broker(config, settings, {})
        run = config.stash[_RUN] = RunBroker(setting, broker, broker.port, {})
        config.add_cleanup(lambda: _stop(run))
        for variable in setting.value:
            run.urls[variable.name] = _url(broker, variable)
        _name_variables(run)
    except (pytest.fail.Exception, pytest.skip.Exception, ValueError) as error:
        raise pytest.UsageError(f"{setting.origin}: {error}") from None
    from leveret.engine.urls import VARIABLES

    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for variable in setting.value:
        patch.setenv(variable.name, run.urls[variable.name])
        # A worker on any broker gets the URL of that broker there.
        patch.setitem(VARIABLES, variable.name, (variable.vhost, variable.user))


def begin_session(session: pytest.Session) -> None:
    """Let the broker of the run be among those of each test."""
    run = session.config.stash.get(_RUN, None)
    if run is not None and run.broker is not None:
        brokers.share(session, _FIXTURE, run.broker, with_all=True)


def _name_variables(run: RunBroker) -> None:
    if run.broker is not None:
        harness_of(run.broker).name_variables(list(run.urls))
        harness_of(run.broker).name_in_tests(_FIXTURE)


def _url(broker: Broker, variable: Variable) -> str:
    """Return the URL for a variable. Raises ValueError if its virtual host or user does not exist."""
    from leveret import BrokerError
    from leveret.errors import unknown

    known = broker.admin.list_vhosts()
    if variable.vhost not in known:
        text = unknown("virtual host", variable.vhost, known)
        raise ValueError(f"{variable.name}: {text}; to create it, set leveret_vhosts = {variable.vhost}")
    if (variable.vhost, variable.user) == ("/", "guest"):
        return broker.url
    try:
        return broker.url_for(variable.vhost, user=variable.user)
    except BrokerError as error:
        text = f"{variable.name}: {error}; to create it, set leveret_users = {variable.user}=PASSWORD"
        raise ValueError(text) from None


def _stop(run: RunBroker) -> None:
    if run.broker is not None:
        run.broker.stop()


def header(config: pytest.Config) -> list[str]:
    """Return what the header of the run says: each variable, its URL without the password, and where it was set."""
    run = config.stash.get(_RUN, None)
    if run is None:
        return []
    parts = [f"{name}={re.sub(r':[^:@/]*@', '@', url)} ({run.setting.origin})" for name, url in run.urls.items()]
    if config.getoption("tx", None):
        parts = [f"{name} for each worker ({run.setting.origin})" for name in run.urls]
    if run.broker is not None and not (brokers.STARTER in config.stash or "rabbitmq" in general_settings(config)):
        parts.append(f"as RabbitMQ {run.broker.rabbitmq} (the default; leveret_rabbitmq chooses another)")
    return parts


def hint(item: pytest.Item) -> str | None:
    """Return a line for the report of a test that failed on another broker than that of the run."""
    run = item.config.stash.get(_RUN, None)
    if run is None or all(broker is run.broker for broker in brokers.brokers_of(item)):
        return None
    names = ", ".join(run.urls)
    return (
        f"leveret_session is the broker at {names}; leveret and make_leveret are others. If the application read its "
        f"URL there, use leveret_session in this test."
    )


def take_broker(config: pytest.Config, settings: Settings) -> Broker | None:
    """Return the broker at the URL of the variables, for `leveret_session`; None if the option is not set.

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
