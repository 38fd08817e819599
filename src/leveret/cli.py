"""The command line: `python -m leveret serve`, and the commands of recordings, traces, the pipeline and the plugin.

`serve` runs a broker in a process of its own. This module only reads options. What a command does is in the layer it
belongs to.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final

from leveret.core.compat import DEFAULT_VERSION
from leveret.engine.options import checked_port, settings_in, users_in
from leveret.errors import BrokerError
from leveret.page.command import add_to as add_trace_to
from leveret.pipeline.command import add_to as add_pipeline_to
from leveret.recording.command import add_to as add_record_to
from leveret.trace.version import __version__

if TYPE_CHECKING:
    from ssl import SSLContext

# Users for `serve`, in the syntax that the pytest plugin reads from the same variable.
_USERS_VARIABLE: Final = "LEVERET_USERS"
_EXAMPLES: Final = """\
examples:
  python -m leveret serve
      a RabbitMQ 4.3 for guest on port 5672, on this machine only
  python -m leveret serve --port 0
      on a free port, which the first line of output names
  python -m leveret serve --rabbitmq 3.13 --user shop:secret --vhost shop
      as RabbitMQ 3.13, with another user and another virtual host, on which both guest and that user have every right
  python -m leveret serve --host 0.0.0.0 --setting loopback_users=none
      for guest on other machines too, which RabbitMQ refuses by default
  LEVERET_USERS="app=secret auditor=other" python -m leveret serve
      with users whose passwords are not in the list of processes
  python -m leveret serve --permit transient_nonexcl_queues
      with a deprecated feature that RabbitMQ 4.3 denies by default
  python -m leveret serve --management-port 15672
      with RabbitMQ's management API, a control API for tests in any language, and a live page for a browser
  python -m leveret serve --definitions definitions.json --tls-cert server.pem --tls-key server.key
      with the definitions exported from a RabbitMQ, and with TLS on port 5671

The first line of output is the broker's URL. Clients can connect as soon as it appears. Ctrl-C or SIGTERM stops the
broker.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, or 2 if it cannot be done as asked."""
    for stream in (sys.stdout, sys.stderr):
        # Output to a file or a pipe on Windows has the encoding of a region, which lacks most letters.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = sys.argv[1:] if arguments is None else arguments
    options, strays = parser(given[0] if given else None).parse_known_args(given)
    try:
        if strays:
            raise ValueError(f"unknown argument {strays[0]!r}; leveret {given[0]} --help lists those that it takes")
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has seen enough, such as `head`. Python writes what is left at its end, which then goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, BrokerError) as error:
        # The number of the error does not help, but the name of a file does.
        reason = error.strerror if isinstance(error, OSError) else None
        name = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        way_out = "; correct the path" if isinstance(error, FileNotFoundError) and str(error.filename) in given else ""
        print(f"leveret: {name}{reason or error}{way_out}", file=sys.stderr)
        return 2


def parser(first: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with all commands.

    With the `first` word of a command line, it need not have those that this word is not about. The commands that know
    pytest import it, and `serve` should not.
    """
    top = argparse.ArgumentParser(
        prog="leveret", description="An AMQP 0-9-1 broker for test suites that behaves as RabbitMQ does."
    )
    top.add_argument("--version", action="version", version=f"leveret {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="run a broker until it is stopped",
        description="Run a broker until it is stopped. It keeps everything in memory.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    repeated = partial(serve.add_argument, action="append", default=[])
    serve.add_argument("--port", type=int, default=5672, help="port to listen on; 0 takes a free one (default: 5672)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1; ::1 works too)")
    serve.add_argument(
        "--rabbitmq",
        default=DEFAULT_VERSION,
        metavar="VERSION",
        help=f"version to behave as (default: {DEFAULT_VERSION})",
    )
    repeated("--permit", metavar="FEATURE", help="allow a deprecated feature; may be repeated")
    repeated(
        "--user",
        metavar="NAME:PASSWORD",
        help="add a user with every right, also over HTTP; may be repeated (guest:guest always exists). Other users of "
        "the machine can see the password in the list of processes; --user-file hides it",
    )
    serve.add_argument(
        "--user-file",
        metavar="FILE",
        help="add the users in a file, one NAME:PASSWORD in each line. The environment variable "
        f'{_USERS_VARIABLE} adds users, too: "app=secret auditor=other"',
    )
    repeated(
        "--vhost",
        metavar="NAME",
        help='add a virtual host; may be repeated ("/" always exists). guest and the users of this command have every '
        "right on it, except those whose rights --definitions sets there",
    )
    repeated(
        "--setting",
        metavar="NAME=VALUE",
        help="a setting of rabbitmq.conf, such as channel_max=100 (docs/reference/broker.md); may be repeated",
    )
    serve.add_argument("--definitions", metavar="FILE", help="load RabbitMQ's definitions.json before clients connect")
    repeated("--plugin", metavar="NAME", help="enable a plugin of RabbitMQ; may be repeated")
    _add_tls(serve)
    serve.add_argument(
        "--management-port",
        type=int,
        metavar="PORT",
        help="serve HTTP on this port: the management API, the control API and the live page; 0 takes a free one "
        "(RabbitMQ uses 15672). The last line of output is the URL of this port. For assertions, the broker then "
        "keeps the last 100,000 events",
    )
    serve.add_argument("--trace-dir", metavar="DIR", help="write a trace of everything that happens to this directory")
    serve.add_argument("--trace-bodies", action="store_true", help="write bodies too, not only their hashes")
    repeated(
        "--trace-redact",
        metavar="NAME",
        help="a header whose value is not written, in addition to those with secret-looking names; may be repeated",
    )
    serve.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of everything random: generated names, random routing, faults (default: 0)",
    )
    serve.set_defaults(run=_serve)
    add_record_to(commands)
    add_trace_to(commands)
    add_pipeline_to(commands)
    if first not in commands.choices and find_spec("pytest") is not None:
        for plugin in entry_points(group="leveret.commands"):
            plugin.load()(commands)
    return top


def _add_tls(serve: argparse.ArgumentParser) -> None:
    tls = serve.add_argument_group("TLS", "A second port for amqps://. Its URL is the second line of output.")
    tls.add_argument(
        "--tls-cert", metavar="FILE", help="the broker's certificate (PEM); opens the port --tls-port for amqps://"
    )
    tls.add_argument(
        "--tls-key", metavar="FILE", help="its private key (PEM), unless the file of the certificate holds it"
    )
    tls.add_argument("--tls-ca", metavar="FILE", help="accept only clients with a certificate of this authority (PEM)")
    tls.add_argument(
        "--tls-optional",
        action="store_true",
        help="with --tls-ca: ask for a client's certificate, but accept clients without one too",
    )
    tls.add_argument("--tls-port", type=int, default=5671, help="port for TLS; 0 takes a free one (default: 5671)")


def _serve(options: argparse.Namespace) -> int:
    from leveret.broker import Broker
    from leveret.engine.harness import Harness

    checked_port("--port", options.port)
    checked_port("--tls-port", options.tls_port)
    has_management = options.management_port is not None
    management_port = checked_port("--management-port", options.management_port or 0)
    users = _users(options)
    settings = _settings(options)
    _warn_of_other_machines(options.host, is_guest_alone=not (users or any("loopback_users" in it for it in settings)))

    class ServedBroker(Broker):
        _user_tags = ("administrator",)

    broker = ServedBroker(
        rabbitmq=options.rabbitmq,
        host=options.host,
        port=options.port,
        permit=options.permit,
        seed=options.seed,
        users=users,
        vhosts=options.vhost,
        definitions=None if options.definitions is None else _definitions(options.definitions),
        # Only the control API reads events.
        record="recent" if has_management else "off",
        trace_dir=options.trace_dir,
        trace_bodies=options.trace_bodies,
        trace_redact=options.trace_redact,
        plugins=options.plugin,
        settings=settings,
        tls=_server_context(options),
        tls_port=options.tls_port,
        management=has_management,
        management_port=management_port,
    )
    wait_for_end = _end_of_signals()
    broker.start()
    try:
        print(broker.url, flush=True)
        if options.tls_cert is not None:
            print(broker.tls.url, flush=True)
        if has_management:
            print(broker.management_url, flush=True)
        wait_for_end()
    finally:
        broker.stop()
        # Findings of the strict checks are for the control API. There is no Python test to warn or to fail.
        Harness(broker).excuse()
    broker.check()
    if options.trace_dir is not None:
        from leveret.trace.run import close_files

        for path in close_files():
            print(path)
    return 0


def _definitions(path: str) -> Mapping[str, object]:
    from leveret.admin.definitions_import import read

    with _readable("--definitions"):
        return read(path)


def _server_context(options: argparse.Namespace) -> SSLContext | bool:
    if options.tls_cert is None and (options.tls_key is not None or options.tls_ca is not None):
        raise ValueError("--tls-key and --tls-ca need --tls-cert")
    if options.tls_optional and options.tls_ca is None:
        raise ValueError("--tls-optional needs --tls-ca, the authority of the certificates to ask for")
    if options.tls_cert is None:
        return False
    from ssl import CERT_OPTIONAL, CERT_REQUIRED

    from leveret.server.tls import server_context

    files = {"--tls-cert": options.tls_cert, "--tls-key": options.tls_key, "--tls-ca": options.tls_ca}
    with _readable(" or ".join(f"{option} {path}" for option, path in files.items() if path)):
        verify = CERT_OPTIONAL if options.tls_optional else CERT_REQUIRED
        return server_context(options.tls_cert, options.tls_key, options.tls_ca, verify=verify)


@contextmanager
def _readable(option: str) -> Iterator[None]:
    """Add the option to the error about a file that cannot be read, so that it is not taken for a port."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"{option}: {error}") from None


def _end_of_signals() -> Callable[[], None]:
    """Return a call that waits until the process is asked to end.

    Python writes the number of each signal to a socket. A lock would miss a signal that arrives just before it blocks.
    """
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    ends = (signal.SIGINT, signal.SIGTERM)
    for number in ends:
        signal.signal(number, lambda *_: None)

    def wait() -> None:
        with ours, pythons:
            while ours.recv(1)[0] not in ends:
                pass
            signal.set_wakeup_fd(-1)

    return wait


def _users(options: argparse.Namespace) -> dict[str, str]:
    """Return passwords by name: from the environment, then from the file, then from the command line."""
    try:
        users = users_in(os.environ.get(_USERS_VARIABLE, ""))
    except ValueError as error:
        raise ValueError(f"{_USERS_VARIABLE}: {error}") from None
    if options.user_file is not None:
        with _readable("--user-file"):
            text = Path(options.user_file).read_text(encoding="utf-8-sig")
        origin = f"--user-file {options.user_file}"
        users |= dict(_name_and_password(origin, line) for line in text.splitlines() if line.strip())
    return users | dict(_name_and_password("--user", user) for user in options.user)


def _settings(options: argparse.Namespace) -> dict[str, int | bool | str]:
    try:
        return {name: value for line in options.setting for name, value in settings_in(line).items()}
    except ValueError as error:
        raise ValueError(f"--setting {error}") from None


def _name_and_password(origin: str, user: str) -> tuple[str, str]:
    name, colon, password = user.partition(":")
    if not (name and colon and password):
        # The text may be a password, so it is not shown.
        raise ValueError(f"{origin}: each user must have the form NAME:PASSWORD")
    return name, password


def _warn_of_other_machines(host: str, *, is_guest_alone: bool) -> None:
    from leveret.core.protocol.auth import is_loopback

    if host == "localhost" or is_loopback(host):
        return
    print(
        f"leveret: --host {host} lets other machines connect, to a broker for tests with known passwords; "
        "leave --host out to serve this machine only",
        file=sys.stderr,
        flush=True,
    )
    if is_guest_alone:
        print(
            f"leveret: guest can log in from this machine only, as on RabbitMQ; add a user with {_USERS_VARIABLE} or "
            "--user-file FILE, or let guest in from anywhere with --setting loopback_users=none",
            file=sys.stderr,
            flush=True,
        )
