"""A run of the same tests on a real RabbitMQ: `--leveret-real amqp://...`.

Each broker of a test is a virtual host of that server, created and deleted through the management API, behind a proxy
of leveret's own sockets (see the folder `real`). A test that uses what only leveret can do is skipped, and the reason
names what it used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.options import given
from pytest_leveret.real.server import Server, skip
from pytest_leveret.rehearsals.management import ManagementError

if TYPE_CHECKING:
    from leveret import Broker

_FLAG: Final = "--leveret-real"
_MANAGEMENT_FLAG: Final = "--leveret-real-management"
_WAIT_FLAG: Final = "--leveret-real-wait"
_WAIT_S: Final = 10.0
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


def add_options(parser: pytest.Parser) -> None:
    """Add the options that name the server."""
    group = parser.getgroup("leveret", "leveret, an AMQP broker for tests")
    group.addoption(
        _FLAG,
        dest="leveret_real",
        metavar="URL",
        default=os.environ.get("LEVERET_REAL"),
        help="run on this RabbitMQ, amqp://user:password@host:port, with a virtual host for each test",
    )
    group.addoption(
        _MANAGEMENT_FLAG,
        dest="leveret_real_management",
        metavar="URL",
        default=os.environ.get("LEVERET_REAL_MANAGEMENT"),
        help="the URL of its management API (default: the same host and user, at the AMQP port + 10000)",
    )
    group.addoption(
        _WAIT_FLAG,
        dest="leveret_real_wait",
        metavar="SECONDS",
        default=os.environ.get("LEVERET_REAL_WAIT"),
        help=f"how much time a test may move there, which is waited for (default: {_WAIT_S:g}); beyond, it is skipped",
    )


def prepare(config: pytest.Config) -> None:
    """Connect to the server of the run, if any. Raises UsageError if it cannot be used. A second call does nothing."""
    if _SERVER in config.stash:
        return
    url = given(config, "leveret_real")
    if url is None:
        for flag, name in ((_MANAGEMENT_FLAG, "leveret_real_management"), (_WAIT_FLAG, "leveret_real_wait")):
            if given(config, name) is not None:
                raise pytest.UsageError(f"{flag} has no effect without {_FLAG}; give both or neither")
        return
    try:
        config.stash[_SERVER] = Server(url, given(config, "leveret_real_management"), _wait_s(config))
    except ManagementError as error:
        hint = f"enable its management plugin, or give its URL with {_MANAGEMENT_FLAG}"
        raise pytest.UsageError(f"{_FLAG}: {error}; {hint}") from None


def _wait_s(config: pytest.Config) -> float:
    text = given(config, "leveret_real_wait")
    try:
        return _WAIT_S if text is None else float(str(text).removesuffix("s"))
    except ValueError:
        raise pytest.UsageError(f"{_WAIT_FLAG}={text!r} is not a number of seconds; write it as in 10") from None


def server_of(config: pytest.Config) -> Server | None:
    """Return the server of this run; None for a run on leveret."""
    return config.stash.get(_SERVER, None)


def place(config: pytest.Config) -> str | None:
    """Return the description of the server for the header of the run; None for a run on leveret."""
    server = server_of(config)
    return None if server is None else f"a real RabbitMQ {server.version} at {server.parts.hostname}"


def skip_marked(item: pytest.Item) -> None:
    """Skip a test with a marker that only leveret supports."""
    if server_of(item.config) is None:
        return
    for name, feature in (
        ("leveret_fault", "the marker leveret_fault"),
        ("leveret_explore", "the marker leveret_explore"),
    ):
        if item.get_closest_marker(name) is not None:
            skip(feature)


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
