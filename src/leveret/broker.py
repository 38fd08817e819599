"""The broker: the handle a test holds.

It opens a port for clients and lets the test look, act, assert, wait, and move time. Looking and acting need no client
and never wait for one. A wait ends after a time limit, and its error says what it waited for.

Views, waits and assertions are imported where they are first used, because a broker must start fast. So a process that
has no file descriptor left cannot use a call for the first time: Python reports that it cannot open the module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self, Unpack, get_args

from leveret.core.compat import CERTIFICATE_LOGINS, DEFAULT_VERSION, DENIABLE, Compat, RabbitMQVersion
from leveret.core.model.operators import node_settings
from leveret.core.model.operators.node_settings import NodeSettings
from leveret.engine.engine import EVENT_EXCHANGE, Engine
from leveret.engine.options import checked_count, checked_port, checked_seed, checked_users
from leveret.errors import BrokerError, expected, nearest, unknown, unknown_keyword
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.checks.checked_assertions import CheckedAssertions
from leveret.observe.checks.table import MAX_REDELIVERIES, DeclareRule, Levels, Wanted
from leveret.observe.views.names import find_exchange, find_queue
from leveret.scripted.actions import BrokerActions, Peers
from leveret.wording import names_in

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path
    from ssl import SSLContext

    from leveret.admin.admin import Admin
    from leveret.core.model.node import Node
    from leveret.engine.snapshots import Snapshot
    from leveret.faults import FaultPlan
    from leveret.http.server import HttpServer
    from leveret.observe.assertions.keywords import NoKeywords, ReplayOptions, WorkerOptions
    from leveret.observe.checks.judge import Judge
    from leveret.observe.recorder import Recorder
    from leveret.observe.views.views import (
        ConnectionView,
        ConsumerView,
        ExchangeView,
        QueueView,
    )
    from leveret.recording.replay import TrafficReplay
    from leveret.server.loop import Loop
    from leveret.server.tls import Authority, TlsEndpoint
    from leveret.story.flow import Flow
    from leveret.time.aio import Aio
    from leveret.time.clock import Clock
    from leveret.trace.ring import RecordLevel
    from leveret.trace.writer import TraceOptions
    from leveret.workers.worker import Worker

_PERMIT: Final = "deprecated_features.permit."
# The plugins of RabbitMQ that a broker enables by their names.
PLUGINS: Final = (EVENT_EXCHANGE, CERTIFICATE_LOGINS)
# Those that need not be enabled, with the exchange type that every broker has. Their names change nothing.
BUILT_IN: Final = {
    "rabbitmq_delayed_message_exchange": "x-delayed-message",
    "rabbitmq_consistent_hash_exchange": "x-consistent-hash",
    "rabbitmq_sharding": "x-modulus-hash",
    "rabbitmq_random_exchange": "x-random",
    "rabbitmq_recent_history_exchange": "x-recent-history",
}
# Those whose features come with the port for HTTP.
OVER_HTTP: Final = ("rabbitmq_management", "rabbitmq_management_agent", "rabbitmq_prometheus")


@checks_calls
class Broker(BrokerActions, Peers, CheckedAssertions, Hinting):
    """An AMQP 0-9-1 broker inside this process, empty when it starts.

    Use it as a context manager, plain or async. It starts at the beginning of the block and stops at the end. Then it
    raises errors inside the broker and the findings of the strict checks.
    """

    _parts = ("admin", "clock", "faults")
    # The plugin has an engine of its own for a real RabbitMQ.
    _engine_type: type[Engine] = Engine
    # The tags of `users`. Those of `serve` are administrators, since every right includes those over HTTP.
    _user_tags: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        rabbitmq: RabbitMQVersion = DEFAULT_VERSION,
        host: str = "127.0.0.1",
        port: int = 0,
        permit: str | Iterable[str] = (),
        seed: int = 0,
        record: RecordLevel = "recent",
        trace_dir: str | PathLike[str] | None = None,
        trace_bodies: bool = False,
        trace_redact: str | Iterable[str] = (),
        checks: Wanted = (),
        max_redeliveries: int = MAX_REDELIVERIES,
        users: Mapping[str, str] | None = None,
        vhosts: str | Iterable[str] = (),
        definitions: Mapping[str, object] | str | PathLike[str] | None = None,
        declare: DeclareRule = "freely",
        plugins: str | Iterable[str] = (),
        settings: Mapping[str, object] | None = None,
        tls: SSLContext | bool = False,
        tls_port: int = 0,
        management: bool = False,
        management_port: int = 0,
        inline: bool = False,
        **unknown: Unpack[NoKeywords],
    ) -> None:
        """Make a broker. `start` opens its port.

        - `rabbitmq` is the version it behaves as.
        - `host` is the address it listens on. `port` 0 takes a free port.
        - `permit` names deprecated features to allow although the version denies them.
        - `seed` is that of everything random. `record` "off" keeps no events.
        - `checks` sets levels of strict checks: "unroutable=error".
        - `max_redeliveries` is how often the check `redelivered_too_often` lets a message come back.
        - `users` adds users with full permissions on "/" and on `vhosts`, as a mapping of name to password.
        - `vhosts` names virtual hosts to create.
        - `definitions` is the path of a definitions.json of RabbitMQ, or its contents, to import.
        - `declare` is "must_match" if clients may declare only what `definitions` have: a refused declaration is an
          error of the test, and so is one that they lack.
        - `plugins` names plugins of RabbitMQ to enable.
        - `settings` holds lines of rabbitmq.conf that clients notice: {"channel_max": 100}.
        - `tls` opens a second port that speaks TLS, with the given SSLContext of a server. If it is True, the broker
          makes its own certificates (see `tls`). `tls_port` 0 takes a free port.
        - `management` opens a port for HTTP, with RabbitMQ's management API (see docs/reference/control-api.md). It
          needs h11, the extra leveret[http]. `management_port` 0 takes a free port.
        - `inline` serves clients that block, such as pika's `BlockingConnection`, on the thread of the test: without a
          thread, and in memory instead of over TCP.
        - `trace_dir` is a directory for the trace. All brokers of a process write everything that happens to one file
          there (see docs/how-to/recording.md). `trace_bodies` includes bodies, and `trace_redact` names more headers
          whose values are left out.
        """
        __tracebackhide__ = True
        for word in unknown:
            raise unknown_keyword("Broker()", word, KEYWORDS)
        given = {"host": host, "record": record, "trace_bodies": trace_bodies, "settings": settings}
        given |= {"definitions": definitions, "management": management, "inline": inline, "tls": tls}
        given |= {"permit": permit, "vhosts": vhosts, "plugins": plugins, "trace_redact": trace_redact}
        given |= {"checks": checks, "trace_dir": trace_dir}
        if any(value is not _USUAL[name] for name, value in given.items()):
            from leveret.observe.calls.calls import refuse_wrong

            refuse_wrong("Broker()", Broker.__init__.__annotations__, given)
        # The certificates for clients, if the broker made its own.
        self._certificates: Authority | None = None
        if tls is True:
            from leveret.server.tls import Authority

            self._certificates = Authority(host)
            tls = self._certificates.server_context()
        enabled = frozenset(names_in(plugins))
        for name in sorted(enabled - {*PLUGINS, *BUILT_IN, *(OVER_HTTP if management else ())}):
            raise BrokerError(_wrong_plugin_text(name))
        configured, denied, permitted = _configuration(settings or {})
        if CERTIFICATE_LOGINS not in enabled:
            configured = configured.without_external()
        self._engine = self._engine_type(
            compat=Compat.for_version(rabbitmq).denying(denied),
            seed=checked_seed(seed),
            permit=frozenset(names_in(permit)) | permitted,
            settings=configured,
            record=record,
            redact=trace_redact,
            trace=None if trace_dir is None else _trace_options(trace_dir, bodies=trace_bodies, redact=trace_redact),
            begin=_beginning(users, names_in(vhosts), definitions, self._user_tags),
            plugins=enabled,
            tls=tls or None,
            levels=Levels(
                checks,
                max_redeliveries=checked_count("max_redeliveries", max_redeliveries),
                must_match=_must_match(declare, definitions),
            ),
            # A browser has no threads.
            **_hosted(inline=inline or sys.platform == "emscripten", opens_ports=bool(tls or management)),
        )
        super().__init__(self._engine)
        # Made on first use, because many tests never use it.
        self._the_clock: Clock | None = None
        self.host = host
        self._wanted_port = checked_port("port", port)
        self._wanted_tls_port = checked_port("tls_port", tls_port)
        self._http: HttpServer | None = None
        self._wanted_management_port = checked_port("management_port", management_port)
        if management:
            self._http = _http_server(self._engine, host)
        elif management_port:
            raise BrokerError(f"management_port={management_port} opens no port without management=True; add it")

    # Hidden from type checkers, which refuse it by themselves. A client reads the URL that it is given by its parts.
    if not TYPE_CHECKING:

        def __getitem__(self, _: object) -> object:
            __tracebackhide__ = True
            raise TypeError("a Broker is not a URL; pass broker.url, as in pika.URLParameters(broker.url)")

    def start(self) -> Self:
        """Open the port. Raises OSError if it is not free, and ValueError if the trace directory is not writable."""
        if self._engine.loop.is_running:
            raise BrokerError(f"this broker is already running on port {self._engine.port}; call stop() first")
        tls_ports = [] if self._engine.tls is None else [self._wanted_tls_port]
        self._engine.start(self.host, self._wanted_port, *tls_ports)
        if self._http is not None:
            try:
                self._engine.management_port = self._http.start(self.host, self._wanted_management_port)[1]
            except OSError:
                self._engine.stop()
                raise
        self._engine.resume_judging()
        return self

    def stop(self) -> None:
        """Close every connection and the port. The test can still look at the state. A second call does nothing."""
        loop = self._engine.loop
        if loop.is_running and not loop.is_abandoned:
            self._judge.end()
        if self._http is not None:
            self._http.stop()
        self._engine.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            # The user has interrupted a wait and wants to know what it waited for.
            sys.stderr.write(f"{self._engine.report()}\n")
        elif isinstance(error, Exception):
            # Without the pytest fixture, the error is the only place for the report.
            self._add_report(error)
        self.stop()
        if error is None:
            self.check()

    def _add_report(self, error: Exception) -> None:
        from leveret.observe.texts.report import reports_of

        if self._engine.name not in [report.broker for report in reports_of(error)]:
            error.add_note(self._engine.report())

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        # At the end of the process the loop's thread is frozen already, and the process closes its sockets.
        if engine is not None and not sys.is_finalizing():
            http = getattr(self, "_http", None)
            if http is not None:
                http.stop()
            engine.stop()

    def __repr__(self) -> str:
        where = self.url if self._engine.loop.is_running else "not running"
        return f"<Broker {where} as RabbitMQ {self._engine.compat.version}>"

    @property
    def rabbitmq(self) -> RabbitMQVersion:
        """The RabbitMQ version that the broker behaves as: "4.3"."""
        return self._engine.compat.version

    @property
    def port(self) -> int:
        """The port clients connect to."""
        port = self._engine.port
        if port is None:
            raise BrokerError("this broker was not started; use it in a with statement, or call start()")
        self._engine.is_url_read = True
        return port

    @property
    def tls(self) -> TlsEndpoint:
        """The second port, which speaks TLS: its `port`, its `url`, and the `certificates` made for it."""
        if len(self._engine.addresses) < 2:
            raise BrokerError("this broker has no TLS port; start it with tls=True or with a server's SSLContext")
        self._engine.is_url_read = True
        from leveret.server.tls import TlsEndpoint

        port = self._engine.addresses[1][1]
        return TlsEndpoint(port, self._url_at(port, "/", "guest", scheme="amqps"), self._certificates)

    @property
    def url(self) -> str:
        """The URL of the virtual host "/" for the user guest."""
        return self.url_for()

    def url_for(self, vhost: str = "/", user: str = "guest", password: str | None = None, *, tls: bool = False) -> str:
        """Return the URL of a virtual host for a user, with the user's own password unless you give one.

        Raises BrokerError if the user does not exist.
        """
        scheme, port = ("amqps", self.tls.port) if tls else ("amqp", self.port)
        return self._url_at(port, vhost, user, password, scheme)

    def _url_at(
        self, port: int | None, vhost: str, user: str, password: str | None = None, scheme: str = "amqp"
    ) -> str:
        if password is None:
            known = self._engine.node.access.users.get(user)
            if known is None:
                raise BrokerError(unknown("user", user, self._engine.node.access.users))
            password = known.password or ""
        from leveret.engine.urls import amqp_url

        return amqp_url(self.host, port, user=user, password=password, vhost=vhost, scheme=scheme)

    @property
    def management_url(self) -> str:
        """The URL of the port for HTTP, without user and password: "http://127.0.0.1:15672"."""
        port = self._engine.management_port
        if port is None:
            raise BrokerError("this broker serves no HTTP; start it with management=True")
        from leveret.engine.urls import url_host

        return f"http://{url_host(self.host)}:{port}"

    def queue(self, name: str, *, vhost: str = "/") -> QueueView:
        """Return the frozen view of a queue. Raises NotDeclaredError, a LookupError, if it does not exist."""
        from leveret.observe.views.views import queue_view

        with self._engine.looking() as node:
            return queue_view(find_queue(node, vhost, name), node)

    def exchange(self, name: str, *, vhost: str = "/") -> ExchangeView:
        """Return the frozen view of an exchange. Raises NotDeclaredError, a LookupError, if it does not exist."""
        from leveret.observe.views.views import exchange_view

        with self._engine.looking() as node:
            return exchange_view(find_exchange(node, vhost, name), vhost)

    @property
    def queues(self) -> list[QueueView]:
        """The queues of all virtual hosts."""
        from leveret.observe.views.views import queue_view

        with self._engine.looking() as node:
            return [queue_view(queue, node) for vhost in node.vhosts.values() for queue in vhost.queues.values()]

    @property
    def exchanges(self) -> list[ExchangeView]:
        """The exchanges of all virtual hosts, including the predeclared ones."""
        from leveret.observe.views.views import exchange_view

        with self._engine.looking() as node:
            return [
                exchange_view(exchange, vhost.name)
                for vhost in node.vhosts.values()
                for exchange in vhost.exchanges.values()
            ]

    @property
    def connections(self) -> list[ConnectionView]:
        """The open connections, oldest first."""
        from leveret.observe.texts.state import connections
        from leveret.observe.views.views import connection_view

        with self._engine.looking() as node:
            return [connection_view(connection, node) for connection in connections(node)]

    @property
    def consumers(self) -> list[ConsumerView]:
        """The consumers of all connections."""
        return [consumer for one in self.connections for channel in one.channels for consumer in channel.consumers]

    @property
    def events(self) -> Recorder:
        """The recorded events: `broker.events.query("delivered", queue="orders")`."""
        from leveret.observe.recorder import Recorder

        self.sync()
        return Recorder(self._engine.recorder, self._engine.require_known)

    @property
    def faults(self) -> FaultPlan:
        """The faults that the test adds: `broker.faults.reset_peer(on="basic.ack")`, see docs/reference/faults.md."""
        return self._engine.faults

    @property
    def admin(self) -> Admin:
        """The commands of rabbitmqctl, by the same names: `broker.admin.add_user("shop", "secret")`."""
        from leveret.admin.admin import Admin

        return Admin(self._engine)

    @property
    def clock(self) -> Clock:
        """The clock, which the test can move: `broker.clock.advance(minutes=5)`, see docs/how-to/time.md."""
        if self._the_clock is None:
            from leveret.time.clock import Clock

            self._the_clock = Clock(self._engine)
        return self._the_clock

    @property
    def _judge(self) -> Judge:
        return self._engine.judge

    @property
    def aio(self) -> Aio:
        """The awaitable versions of all methods that wait, for use on a running event loop."""
        from leveret.time.aio import Aio

        return Aio(self, self.clock)

    def worker(
        self,
        run: Sequence[str] | Callable[..., object],
        *,
        vhost: str = "/",
        user: str = "guest",
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """Return a worker: a program, as the list of its command and arguments, or a function in a process of its own.

        Use it as a context manager, plain or async. It gets the URL of `vhost` for `user` in the environment variables
        `url_env`.

        - `args` are the arguments of a function, which must be at the top of a module.
        - `url_env` names one variable, or several (default: AMQP_URL, and those of the option `leveret_url_env` with
          its virtual hosts and users). `env` sets others, and `cwd` is its folder.
        - `ready` says when it is ready: a text in its output, or a function that returns True; without it, when it
          consumes. `timeout` is how long that may take, in seconds of real time (default: 30).
        - `name` is its name in reports.

        See docs/how-to/workers.md.
        """
        self._engine.refuse_inline("a worker")
        from leveret.workers.worker import Worker

        return Worker(self._engine, run, self._url_at, (vhost, user), **options)

    def replay(
        self,
        path: str | PathLike[str],
        *,
        definitions: Mapping[str, object] | str | Path | None = None,
        declare: bool = True,
        **options: Unpack[ReplayOptions],
    ) -> TrafficReplay:
        """Return the messages of a recording of `leveret record`, whose `play` publishes them to the code under test.

        The exchanges, queues and bindings of the recording are declared, or those of `definitions`; with
        `declare=False`, none. `where` is a function that chooses messages, `first` the number of the first one, and
        `limit` how many are published. `times` publishes them several times, with new UUIDs. `today` moves dates to
        today and makes new UUIDs. `vhost` is the virtual host to publish to.

        Raises UnreadableTraceError with one line if the file is damaged. See docs/how-to/replay.md.
        """
        from leveret.recording.replay import TrafficReplay

        replay = TrafficReplay(self._engine, path, **options)
        described = replay.file.definitions if definitions is None else definitions
        if declare and described:
            self.admin.import_definitions(described, vhost=options.get("vhost", "/"))
        return replay

    def flow(
        self,
        *,
        queue: str | None = None,
        client: str | None = None,
        bodies: bool | str | Iterable[str] = False,
        properties: bool | str | Iterable[str] = False,
    ) -> Flow:
        """Return what has flowed in this test, as lines of text that are the same in each run: pin them with `==`.

        With `queue` or `client`, only messages that it touched. `bodies` adds their bodies: True for whole ones, or the
        names of fields of JSON; `properties` adds properties and headers, all or by name. A flow that equals another
        one warns with the names of properties that neither shows and in which they differ. Call `wait_idle` before.

        Raises BrokerError if the broker records nothing, and NotDeclaredError if a queue or client of that name has
        never existed. See docs/how-to/flow.md.
        """
        from leveret.story.flow import FlowReader

        if not self._engine.recorder.is_on:
            raise BrokerError("flow() needs recorded events, but this broker has record='off'; use record='recent'")
        self._engine.sync()
        with self._engine.lock:
            raw, timeline = self._engine.recorder.raw(), self._engine.timeline()
        reader = FlowReader(timeline, queue=queue, client=client, bodies=bodies, properties=properties)
        if not self._engine.recorder.has_dropped:
            from leveret.observe.views.names import require_known_client, require_known_somewhere

            with self._engine.lock:
                require_known_somewhere(self._engine.node, raw, {"queue": queue})
            require_known_client(reader.client_names(), client)
        return reader.flow()

    def sync(self) -> None:
        """Handle what clients have sent, do the work that is due, and offer the output to the clients.

        Views and assertions do this first. It does not wait for a client to do anything.
        """
        self._engine.sync()

    def save_page(self, path: str | Path) -> str:
        """Write a page on what has happened in this test so far, and return its absolute path.

        See docs/how-to/page.md. The page is one HTML file. It shows every message, queue and event, and needs no
        network. Raises OSError if the file cannot be written, and BrokerError if the broker records nothing.
        """
        from leveret.page.formats.html import save
        from leveret.page.readings.live import test_of
        from leveret.page.story import story_of

        if not self._engine.recorder.is_on:
            raise BrokerError(
                "save_page() needs recorded events, but this broker has record='off'; use record='recent'"
            )
        self.sync()
        reading = self._engine.reading(None)
        return save(story_of([reading], test_of(self._engine.recorder.raw()), source="memory"), path)

    def check(self) -> None:
        """Raise what has gone wrong, as the end of a `with` block does.

        It raises, in this order: EndlessTimeError if time moved on without end and no wait has raised it yet; errors
        inside leveret and in the test's answering code; findings of the strict checks. The checks judge as if the test
        ended here, and report each finding once.
        """
        __tracebackhide__ = True
        self._engine.raise_time_error()
        errors = [*self._engine.node.internal_errors, *self._engine.script_errors]
        self._engine.script_errors.clear()
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise BaseExceptionGroup("errors inside leveret and in the test's answers", errors)
        loop = self._engine.loop
        if loop.is_abandoned:
            return
        if loop.is_running:
            self._judge.look_at_the_end()
        self._judge.verdict().speak()

    def reset(self) -> None:
        """Close every connection and forget all state. The port stays open."""
        self._engine.reset()

    def snapshot(self) -> Snapshot:
        """Return the state of the broker at this moment, for `restore`: in memory, and as often as needed.

        It has everything but the clients: queues with positions, deaths and deadlines, streams, users, policies, the
        events that explain them, and the clock's place. What clients held is back in its queue, to be redelivered.
        Rules for faults, responders and consumers of the test are not part of it.

        Raises BrokerError if the broker does not run.
        """
        from leveret.engine.snapshots import snapshot_of

        return snapshot_of(self._engine)

    def restore(self, snapshot: Snapshot) -> None:
        """Close every connection and go back to a snapshot of this broker, or of one like it. The port stays open.

        Rules for faults end, as with `reset()`.

        Raises BrokerError if the snapshot is of a broker with another version, other plugins or settings.
        """
        snapshot.restore(self._engine)

    def restart(self) -> None:
        """Restart as RabbitMQ does, on the same port: keep what is durable, and close all connections."""
        self._engine.restart()


# The keywords of `Broker`, as most brokers leave them.
_USUAL: Final[Mapping[str, object]] = Broker.__init__.__kwdefaults__ or {}
KEYWORDS: Final = tuple(_USUAL)


def _trace_options(directory: str | PathLike[str], *, bodies: bool, redact: str | Iterable[str]) -> TraceOptions:
    from leveret.trace.writer import TraceOptions

    return TraceOptions.of(directory, bodies=bodies, redact=redact)


def _must_match(declare: str, definitions: object) -> bool:
    """Return whether clients may declare only what the definitions have. Raises ValueError if there are none."""
    if declare not in get_args(DeclareRule):
        raise ValueError(f"declare={declare!r} is unknown{expected(str(declare), get_args(DeclareRule))}")
    if declare == "must_match" and definitions is None:
        raise ValueError("declare='must_match' has nothing to match; give definitions='definitions.json' too")
    return declare == "must_match"


def _hosted(*, inline: bool, opens_ports: bool) -> dict[str, type[Loop]]:
    """Return what makes an engine serve clients on their own thread. Raises BrokerError if it shall open ports too."""
    if not inline:
        return {}
    if opens_ports:
        raise BrokerError("inline=True opens no port, so that tls=True and management=True mean nothing; leave one out")
    from leveret.server.inline import InlineLoop

    return {"loop_type": InlineLoop}


def _beginning(
    users: Mapping[str, str] | None,
    vhosts: tuple[str, ...],
    definitions: Mapping[str, object] | str | PathLike[str] | None,
    tags: tuple[str, ...],
) -> Callable[[Node], None] | None:
    """Return what gives a new node what the broker begins with; None if that is nothing."""
    if users is None and not vhosts and definitions is None:
        return None
    from leveret.admin.beginning import beginning

    return beginning(checked_users("users", {} if users is None else users), vhosts, definitions, tags)


def _http_server(engine: Engine, host: str) -> HttpServer:
    """Return the server behind a broker's port for HTTP. Raises BrokerError without h11."""
    from importlib.util import find_spec

    if find_spec("h11") is None:
        raise BrokerError("management needs h11; install leveret[http]")
    from leveret.http.server import HttpServer
    from leveret.http.site import Site

    return HttpServer(Site(engine, host), internal_errors=engine.node.internal_errors)


def _wrong_plugin_text(name: str) -> str:
    if name in OVER_HTTP:
        return f"plugin {name!r} needs the port for HTTP; pass management=True (leveret serve: --management-port=15672)"
    # All names begin alike, so compare what follows.
    prefix, known = "rabbitmq_", {plugin.removeprefix("rabbitmq_"): plugin for plugin in (*PLUGINS, *BUILT_IN)}
    close = nearest(name.removeprefix(prefix), known)
    return f"unknown plugin {name!r}{expected(known[close[0]] if close else '', known.values())}"


def _configuration(lines: Mapping[str, object]) -> tuple[NodeSettings, set[str], set[str]]:
    """Return what lines of rabbitmq.conf set, deny and permit. Raises BrokerError if a line is unknown or invalid."""
    features = {name: value for name, value in lines.items() if name.startswith(_PERMIT)}
    others = {name: value for name, value in lines.items() if name not in features}
    for name, value in features.items():
        if not isinstance(value, bool):
            raise BrokerError(f"{name} must be True or False, not {value!r}")
    permitted = {name.removeprefix(_PERMIT) for name, value in features.items() if value}
    denied = {name.removeprefix(_PERMIT) for name in features} - permitted
    if denied - DENIABLE:
        known, refused = ", ".join(sorted(DENIABLE)), sorted(denied - DENIABLE)[0]
        raise BrokerError(f"{_PERMIT}{refused} cannot be False; leveret can deny only {known}")
    try:
        return NodeSettings.from_lines(others), denied, permitted
    except ValueError as error:
        raise BrokerError(str(error)) from None
    except KeyError as error:
        name = str(error.args[0])
        raise BrokerError(unknown("setting", name, node_settings.names())) from None
