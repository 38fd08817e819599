"""leveret in the place of a RabbitMQ that a suite starts in Docker or as a process: the option `leveret_replaces`.

`server` is one such RabbitMQ. `containers`, `compose` and `processes` put it where testcontainers, a compose file and
pytest-rabbitmq would start theirs; `rabbitmqctl` answers the commands that a suite runs inside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret import real
from pytest_leveret.options import RUNNING, read_settings
from pytest_leveret.options.kinds import PACKAGES
from pytest_leveret.options.table import STANDINS
from pytest_leveret.standins.server import Fleet

if TYPE_CHECKING:
    from leveret import Broker

_FLEET: Final = pytest.StashKey[Fleet]()


def prepare(config: pytest.Config) -> None:
    """Stand in for the packages of the option, if it is set. A second call does nothing."""
    if _FLEET in config.stash or real.server_of(config) is not None:
        return
    here, unserved = _wanted(config), read_settings(config, STANDINS).get("unserved")
    if not here:
        return
    fleet = config.stash[_FLEET] = Fleet(config, skips=unserved is not None and unserved.value == "skip")
    config.pluginmanager.register(fleet, "leveret-standins")
    for name in here:
        config.add_cleanup(_stand_in(name)(fleet))
    config.add_cleanup(fleet.stop)


def _wanted(config: pytest.Config) -> list[str]:
    """Return the packages of the option that are installed."""
    settings = read_settings(config, STANDINS)
    wanted = settings["replaces"].value if "replaces" in settings else ()
    return [name for name in wanted if find_spec(PACKAGES[name]) is not None]


def _stand_in(name: str) -> Callable[[Fleet], Callable[[], None]]:
    from pytest_leveret.standins import compose, containers, processes

    return {
        "testcontainers": containers.stand_in,
        "pytest-docker": compose.stand_in_for_pytest_docker,
        "pytest-rabbitmq": processes.stand_in,
    }[name]


def are_on(config: pytest.Config) -> bool:
    """Return whether leveret stands in for a package in this run."""
    return _FLEET in config.stash


def note_use(item: pytest.Item, used: Collection[Broker]) -> None:
    """Count a test that used a stand-in."""
    if fleet := item.config.stash.get(_FLEET, None):
        fleet.note_use(item.nodeid, used)


def summary(config: pytest.Config) -> list[str]:
    """Return the lines for the end of the run: how many tests ran on leveret, and what only a server has."""
    fleet = config.stash.get(_FLEET, None)
    if fleet is not None and (lines := fleet.summary()):
        return lines
    if real.server_of(config) is None:
        return _unused(config, fleet)
    wanted = _wanted(config)
    return [f"under --leveret-real, leveret replaces nothing: {name} starts its own RabbitMQ" for name in wanted]


def _unused(config: pytest.Config, fleet: Fleet | None) -> list[str]:
    """Return a line about an option that did nothing. A controller of pytest-xdist does not see what its workers do."""
    setting = read_settings(config, STANDINS).get("replaces")
    has_run = RUNNING in config.stash and not config.getoption("tx", None)
    if setting is None or not setting.value or not has_run or (fleet is not None and fleet.has_begun):
        return []
    names = " or ".join(_wanted(config) or setting.value)
    why = f"{names} is not installed" if fleet is None else f"no test started a RabbitMQ with {names}"
    if fleet is not None and fleet.other_images:
        why = f"{why}, only {', '.join(sorted(fleet.other_images))}"
    return [
        f"{setting.origin}: nothing was replaced, because {why}. If the tests connect to a server that already runs, "
        "give them leveret's URL with leveret_url_env"
    ]
