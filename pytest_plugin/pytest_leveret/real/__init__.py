"""A run of the same tests on a real RabbitMQ: `--leveret-real amqp://...`.

Each broker of a test is a virtual host of that server, created and deleted through the management API, behind a proxy
of leveret's own sockets. A mirror shows what happens there as leveret's own events. A test that uses what only leveret
can do is skipped, and the reason names what it used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from leveret.recording.management import ManagementError
from pytest_leveret.brokers import STARTER
from pytest_leveret.options import Setting, read_settings
from pytest_leveret.options.kinds import without_password
from pytest_leveret.options.table import KEYWORDS, REAL, REAL_WAIT_S
from pytest_leveret.real.server import Server, skip

if TYPE_CHECKING:
    from leveret import Broker

_SERVER: Final = pytest.StashKey["Server"]()


def prepare(config: pytest.Config) -> None:
    """Connect to the server of the run, if any. Raises UsageError if it cannot be used. A second call does nothing."""
    if _SERVER in config.stash:
        return
    settings = read_settings(config, REAL)
    if "real" not in settings:
        if settings:
            origin = next(iter(settings.values())).origin
            raise pytest.UsageError(f"{origin} has no effect without --leveret-real; give both or neither")
        return
    given = {word: setting.value for word, setting in settings.items()}
    try:
        server = Server(given["real"], given.get("real_management"), given.get("real_wait", REAL_WAIT_S))
    except (OSError, UnicodeError) as error:
        hint = "start RabbitMQ there, or correct host and port"
        raise _unusable(settings["real"], f"reached: {error}; {hint}") from None
    except ManagementError as error:
        hint = "enable its management plugin, or give its URL with --leveret-real-management=http://localhost:15672"
        if error.status == 401:
            hint = "put the name and the password of an administrator into the URL"
        raise _unusable(settings.get("real_management", settings["real"]), f"used: {error}; {hint}") from None
    config.stash[_SERVER] = server
    config.stash[STARTER] = lambda options: start_broker(server, options)


def _unusable(setting: Setting, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"{setting.origin}: {without_password(setting.value)!r} cannot be {why}")


def server_of(config: pytest.Config) -> Server | None:
    """Return the server of this run; None for a run on leveret."""
    return config.stash.get(_SERVER, None)


def place(config: pytest.Config) -> str | None:
    """Return the description of the server for the header of the run; None for a run on leveret."""
    server = server_of(config)
    if server is None:
        return None
    removed = f" (deleted what killed runs had left: {', '.join(server.removed)})" if server.removed else ""
    return f"a real RabbitMQ {server.version} at {server.parts.hostname}{removed}"


def skip_marked(item: pytest.Item) -> None:
    """Skip a test with a marker that only leveret supports."""
    if server_of(item.config) is None:
        return
    for name in ("leveret_fault", "leveret_explore"):
        if item.get_closest_marker(name) is not None:
            skip(f"the marker {name}")


def start_broker(server: Server, options: Mapping[str, Any]) -> Broker:
    """Return a running broker in front of the server. Skip a test with options that this server cannot satisfy."""
    from pytest_leveret.real.broker import RealBroker

    wanted = options.get("rabbitmq")
    if wanted is not None and server.version.split(".")[:2] != str(wanted).split(".")[:2]:
        skip(f"RabbitMQ {wanted}, and the server is {server.version}")
    taken = dict(options)
    for word in options.keys() & KEYWORDS.keys():
        reach = KEYWORDS[word].reach
        if reach == "leveret" and options[word]:
            skip(f"{word}={options[word]!r}, an option of leveret's own broker")
        if reach in ("leveret", "no server"):
            del taken[word]
    return RealBroker(server, **taken).start()
