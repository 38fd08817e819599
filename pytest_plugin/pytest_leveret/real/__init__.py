"""A run of the same tests on a real RabbitMQ: `--leveret-real amqp://...`.

Each broker of a test is a virtual host of that server, created and deleted through the management API, behind a proxy
of leveret's own sockets. A mirror shows what happens there as leveret's own events. A test that uses what only leveret
can do is skipped, and the reason names what it used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

from pytest_leveret.options import REAL, REAL_WAIT_S, Setting, read_settings
from pytest_leveret.real.management import ManagementError
from pytest_leveret.real.server import Server, skip

if TYPE_CHECKING:
    from leveret import Broker

_SERVER: Final = pytest.StashKey["Server"]()
# Options that a proxy in front of a server takes too.
_TAKEN: Final = frozenset(
    {
        *("seed", "record", "trace_dir", "trace_bodies", "trace_redact", "users", "vhosts", "definitions"),
        *("host", "port", "checks", "max_redeliveries", "declare"),
    }
)
# Those that have no meaning for a server, and hinder no test: the server is what it is.
_IGNORED: Final = frozenset({"permit", "plugins", "management", "management_port", "rabbitmq"})


def read_url(text: str) -> str:
    """Return a text that is the URL of a server. Raises ValueError if it is none."""
    # The port of a URL raises if it is no port.
    with suppress(ValueError):
        parts = urlsplit(text)
        if parts.scheme == "amqp" and parts.hostname and parts.port != 0:
            return text
    valid = "an amqp:// URL with a host and a port from 1 to 65535"
    raise ValueError(f"{_without_password(text)!r} is not {valid}; write it as in amqp://guest:guest@localhost:5672")


def _without_password(url: str) -> str:
    # What a run prints is often public.
    return re.sub(r"(//[^:@/]*):.*@", r"\1:***@", url)


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
        config.stash[_SERVER] = Server(given["real"], given.get("real_management"), given.get("real_wait", REAL_WAIT_S))
    except (OSError, UnicodeError) as error:
        hint = "start RabbitMQ there, or correct host and port"
        raise _unusable(settings["real"], f"reached: {error}; {hint}") from None
    except ManagementError as error:
        hint = "enable its management plugin, or give its URL with --leveret-real-management=http://localhost:15672"
        if error.status == 401:
            hint = "put the name and the password of an administrator into the URL"
        raise _unusable(settings.get("real_management", settings["real"]), f"used: {error}; {hint}") from None


def _unusable(setting: Setting, why: str) -> pytest.UsageError:
    return pytest.UsageError(f"{setting.origin}: {_without_password(setting.value)!r} cannot be {why}")


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
    for word, value in options.items():
        if word not in _TAKEN | _IGNORED and value:
            skip(f"{word}={value!r}, an option of leveret's own broker")
    return RealBroker(server, **{word: options[word] for word in options if word in _TAKEN}).start()
