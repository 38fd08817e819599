"""One RabbitMQ that leveret stands in for: its version, users, files and ports are those that the suite asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

import pytest

from pytest_leveret import brokers
from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.options import RUNNING, Settings, settings_for
from pytest_leveret.options.kinds import read_settings_of_node
from pytest_leveret.options.markers import NAME, failure_at, marked_settings, with_marked
from pytest_leveret.options.table import KEYWORDS
from pytest_leveret.rehearsals import rehearsal
from pytest_leveret.standins import configuration

if TYPE_CHECKING:
    from leveret import Broker

# An image of RabbitMQ, with or without a registry before and a tag or digest after.
_IMAGE: Final = re.compile(r"(?:.*/)?rabbitmq(?:-delayed-message-exchange)?(?::(?P<tag>[^@]*))?(?:@.*)?")
_NUMBERS: Final = re.compile(r"\d+(\.\d+)?")
# The user, password and virtual host of an image: the official one's names, then Bitnami's.
_USER: Final = ("RABBITMQ_DEFAULT_USER", "RABBITMQ_USERNAME")
_PASSWORD: Final = ("RABBITMQ_DEFAULT_PASS", "RABBITMQ_PASSWORD")
_VHOST: Final = ("RABBITMQ_DEFAULT_VHOST", "RABBITMQ_VHOST")
_PORT: Final = ("RABBITMQ_NODE_PORT", "RABBITMQ_NODE_PORT_NUMBER")
AMQP_PORT: Final = 5672
MANAGEMENT_PORT: Final = 15672
_LARGEST_FILE: Final = 10_000_000
_LOADS: Final = ("load_definitions", "management.load_definitions", "definitions.local.path")
# The variables with which RabbitMQ's image refuses to start.
_REMOVED: Final = re.compile(r"RABBITMQ_(DEFAULT_(USER|PASS)_FILE|VM_MEMORY_HIGH_WATERMARK|(MANAGEMENT_)?SSL_\w+)")
# The plugins whose names change nothing: tracing's firehose is in every broker.
_ACCEPTED: Final = ("rabbitmq_tracing", "rabbitmq_web_dispatch")
# What RabbitMQ starts with the plugins that serve HTTP.
_BESIDE_HTTP: Final = ("rabbitmq_web_dispatch", "rabbitmq_management_agent")
# The settings that only a server has: their names, the values that change nothing, and what they stand for.
_ONLY_OF_SERVERS: Final = (
    (r"cluster_formation\..*", (), "cluster"),
    (r"auth_backends\.\d+(\.\w+)?", ("internal", "rabbit_auth_backend_internal"), "authentication by {value}"),
    (r"default_(users|limits|policies)\..*", (), "setting {name}"),
    (r"default_queue_type", ("classic", "rabbit_classic_queue"), "setting {name} = {value}"),
    (r"queue_types\..*", ("true",), "setting {name} = {value}"),
    (r"proxy_protocol", ("false",), "setting {name} = {value}"),
    (r"definitions\.import_backend", ("local_filesystem",), "definitions of {value}"),
    (r"message_interceptors\.(?!incoming\.set_header_(timestamp|routing_node)\.overwrite).*", (), "setting {name}"),
)


def is_rabbitmq(image: str) -> bool:
    """Return whether a name of an image is one of RabbitMQ's."""
    return _IMAGE.fullmatch(image) is not None


def profile_of(image: str) -> str:
    """Return the version to behave as: that of the image's tag, or the newest profile that is not newer."""
    from leveret.core.compat import VERSIONS

    newest_first = sorted(VERSIONS, key=_series, reverse=True)
    return next((version for version in newest_first if is_older(version, image)), newest_first[-1])


def is_older(version: str, image: str) -> bool:
    """Return whether a version is the one of an image's tag, or an older one. A tag may have no numbers."""
    matched = _IMAGE.fullmatch(image)
    numbers = _NUMBERS.match((matched["tag"] if matched else None) or "")
    tagged = _series(numbers[0]) if numbers else ()
    return _series(version)[: len(tagged)] <= tagged


def _series(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@dataclass(eq=False)
class Fleet:
    """The RabbitMQs of a run that leveret stands in for, and the part of the plugin that knows which test runs."""

    config: pytest.Config
    # Whether a test is skipped, instead of failed, if it asks for what only a server has.
    skips: bool
    session: pytest.Session | None = None
    began_at: float = field(default_factory=monotonic)
    _running: list[StandIn] = field(default_factory=list)
    # The names of those that stopped in this test.
    _leaving: list[str] = field(default_factory=list)
    _tests: set[str] = field(default_factory=set)
    # What only a server has, and the tests that asked for it.
    _unserved: dict[str, list[str]] = field(default_factory=dict)
    has_begun: bool = False
    # The images of which Docker itself has started a container.
    other_images: set[str] = field(default_factory=set)
    # The test that runs, and whether one has started for it.
    _current: str = ""
    _has_started: bool = False
    _numbers: Callable[[], int] = field(default_factory=lambda: count(1).__next__)

    def new_name(self) -> str:
        """Return a name for one more RabbitMQ."""
        return f"rabbitmq-{self._numbers()}"

    def launch(
        self,
        image: str,
        environment: Mapping[str, str],
        files: Mapping[str, bytes],
        ports: Mapping[int, int | None],
    ) -> StandIn:
        """Return a running stand-in.

        `ports` maps the ports of the container to those wanted on this machine; None takes a free one.
        """
        stand_in = StandIn(self, self.new_name(), image, environment, files, ports)
        stand_in.start()
        return stand_in

    def settings(self) -> Settings:
        """Return the options of the run, and of the test that runs, for a RabbitMQ that starts now."""
        item = self.config.stash.get(RUNNING, None)
        general = settings_for(self.config, None if item is None else rehearsal.version_of(item))
        marked = {} if item is None else marked_settings(item)
        # The broker may serve other tests too, each of which is judged by its own marker.
        marked.pop("checks", None)
        return {word: it for word, it in with_marked(general, marked).items() if KEYWORDS[word].reach != "own"}

    def refuse(self, what: str) -> NoReturn:
        """Fail or skip the test that asks for something that only a server has."""
        __tracebackhide__ = True
        self._unserved.setdefault(what, []).append(self._current)
        text = f"leveret stands in for RabbitMQ here and has no {what}"
        if self.skips:
            pytest.skip(text)
        pytest.fail(
            f"{text}; run this test with --leveret-replaces= (empty) against a server, or skip such tests with "
            "leveret_unserved = skip",
            pytrace=False,
        )

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Let the brokers of the stand-ins be among those of each test from now on."""
        self.session, self.began_at = session, monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note which test runs."""
        self._current, self._has_started = item.nodeid, False
        while self._leaving and self.session is not None:
            brokers.unshare(self.session, self._leaving.pop())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a test whose marker has changed nothing."""
        result = yield
        words = sorted(marked_settings(item).keys() - {"checks"})
        is_marked = any(mark.name == NAME for mark in item.own_markers)
        if is_marked and words and not self._has_started and brokers.has_passed(item) and not brokers.has_own(item):
            options = ", ".join(f"leveret_{word}" for word in words)
            raise failure_at(
                item,
                f"marker leveret: {', '.join(words)} changed nothing, because no RabbitMQ started for this test; set "
                f"{options} for all tests",
            )
        return result

    def count_test(self) -> None:
        """Count the test that runs, if one does: it has asked a stand-in for something."""
        if self._current:
            self._tests.add(self._current)

    def note_use(self, node_id: str, used: Collection[Broker]) -> None:
        """Note which brokers a test has used: it ran on leveret if one of them stands in."""
        if any(stand_in.broker in used for stand_in in self._running):
            self._tests.add(node_id)

    def begin(self, stand_in: StandIn) -> None:
        """Note that a stand-in is up: its broker belongs to each test from now on."""
        self._running.append(stand_in)
        self.has_begun = self._has_started = True
        self.count_test()
        if self.session is not None:
            brokers.share(self.session, stand_in.name, stand_in.broker, with_all=True)
            harness_of(stand_in.broker).name_in_tests("")

    def end(self, stand_in: StandIn) -> None:
        """Note that a stand-in is down. Its broker stays among those of this test, which is still to be judged."""
        self._running.remove(stand_in)
        self._leaving.append(stand_in.name)

    def stop(self) -> None:
        """Stop what the suite has left running."""
        for stand_in in [*self._running]:
            stand_in.stop()

    def summary(self) -> list[str]:
        """Return the lines for the end of the run."""
        number = len(self._tests)
        if not number and not self._unserved:
            return []
        from leveret.wording import count_text

        lines = [f"{count_text(number, 'test')} on leveret in {monotonic() - self.began_at:.1f} s"]
        lines += [
            f"only a server has {what}: {', '.join(dict.fromkeys(tests))}" for what, tests in self._unserved.items()
        ]
        return lines


class StandIn:
    """One RabbitMQ of a suite, served by a broker of leveret."""

    def __init__(
        self,
        fleet: Fleet,
        name: str,
        image: str,
        environment: Mapping[str, str],
        files: Mapping[str, bytes],
        ports: Mapping[int, int | None],
    ) -> None:
        self.fleet = fleet
        self.name = name
        self.image = image
        self.environment = {key: str(value) for key, value in environment.items()}
        self.files = dict(files)
        self.ports = dict(ports)
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """The broker that serves. Raises RuntimeError before `start` and after `stop`."""
        if self._broker is None:
            raise RuntimeError(f"{self.name} ({self.image}) is not running; start it first")
        return self._broker

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._broker is not None

    def start(self) -> None:
        """Serve. A second call does nothing."""
        from leveret.broker import PLUGINS

        if self._broker is not None:
            return
        lines, enabled = self._lines, self.plugins()
        wants_http = bool(enabled) or "management" in self.image or MANAGEMENT_PORT in self.ports
        options: dict[str, Any] = {
            "rabbitmq": profile_of(self.image),
            "port": self.ports.get(self.amqp_port) or 0,
            "settings": self._settings(lines),
            "plugins": [name for name in enabled if name in PLUGINS],
        }
        options["management_port"] = 0
        if wants_http and find_spec("h11") is not None:
            options |= {"management": True, "management_port": self.ports.get(MANAGEMENT_PORT) or 0}
        settings = self.fleet.settings()
        self._broker = brokers.start_broker(self.fleet.config, settings, _beside(options, settings))
        self.let_in()
        self.fleet.begin(self)

    def stop(self) -> None:
        """Stop serving. A second call does nothing."""
        if self._broker is not None:
            broker, self._broker = self._broker, None
            self.fleet.end(self)
            broker.stop()

    @property
    def amqp_port(self) -> int:
        """The port of AMQP inside the container."""
        return int(self._setting(_PORT) or self._lines.get("listeners.tcp.default", str(AMQP_PORT)).rpartition(":")[2])

    def port_of(self, port: int) -> int:
        """Return the port on this machine for one of the container."""
        if port == self.amqp_port:
            return self.broker.port
        if port == MANAGEMENT_PORT:
            if find_spec("h11") is None:
                raise RuntimeError("the management port needs h11; install leveret[http]")
            return urlsplit(self.broker.management_url).port or 0
        return self.fleet.refuse(f"port {port}")

    @property
    def inside(self) -> dict[int, int]:
        """The container's ports, by those on this machine."""
        engine = self.broker._engine
        found = {self.broker.port: self.amqp_port}
        return found if engine.management_port is None else {**found, engine.management_port: MANAGEMENT_PORT}

    def logs(self) -> str:
        """Return what a suite waits for in RabbitMQ's log."""
        version = profile_of(self.image) if self._broker is None else self._broker.rabbitmq
        of_image = ["rabbitmq_prometheus", "rabbitmq_management"][: 2 if "management" in self.image else 1]
        enabled = self.plugins() or of_image
        beside = _BESIDE_HTTP if {"rabbitmq_prometheus", "rabbitmq_management"} & {*enabled} else ()
        plugins = dict.fromkeys([*enabled, *beside])
        return (
            f"  Starting broker... completed with {len(plugins)} plugins.\n"
            f" Starting RabbitMQ {version} as leveret\n started TCP listener on [::]:{self.amqp_port}\n"
            f" Time to start RabbitMQ: 1 ms\n Server startup complete; {len(plugins)} plugins started.\n"
            + "".join(f"  * {name}\n" for name in plugins)
        )

    def _setting(self, names: Iterable[str]) -> str | None:
        return next((self.environment[name] for name in names if self.environment.get(name)), None)

    @property
    def _lines(self) -> configuration.Lines:
        """What the container's files, environment and arguments configure. Raises WrongConfiguration."""
        old = [name for name in self.environment if _REMOVED.fullmatch(name)]
        if old and not self._is_bitnami:
            raise configuration.WrongConfiguration(f"error: {old[0]} is set but deprecated; the image does not start")
        return configuration.lines_of(self.environment, self.files)

    @property
    def _is_bitnami(self) -> bool:
        return "bitnami/" in self.image

    def plugins(self) -> list[str]:
        """Return the plugins that a file or a variable enables. One that leveret lacks is refused."""
        from leveret.broker import BUILT_IN, OVER_HTTP, PLUGINS

        path = self.environment.get("RABBITMQ_ENABLED_PLUGINS_FILE", "/etc/rabbitmq/enabled_plugins")
        texts = [self.files.get(path, b"").decode(), self.environment.get("RABBITMQ_PLUGINS", "")]
        enabled = configuration.plugins_in(texts)
        for name in enabled:
            if name not in {*PLUGINS, *BUILT_IN, *OVER_HTTP, *_ACCEPTED}:
                self.fleet.refuse(f"plugin {name}")
        return enabled

    def _settings(self, lines: Mapping[str, str]) -> dict[str, int | bool | str]:
        """Return the lines that leveret knows, of those that a client notices. What only a server has is refused."""
        from leveret.core.model.operators.node_settings import names

        for name, value in lines.items():
            for pattern, usual, what in _ONLY_OF_SERVERS:
                if re.fullmatch(pattern, name) and value not in usual:
                    self.fleet.refuse(what.format(name=name, value=value))
        groups = ("loopback_users", "auth_mechanisms", "deprecated_features")
        known = {name for name in lines if name in names() or name.partition(".")[0] in groups}
        return dict(read_settings_of_node("\n".join(f"{name} = {lines[name]}" for name in known)))

    def let_in(self) -> None:
        """Let in the users that the container was given, and no others."""
        admin, lines = self.broker.admin, self._lines
        definitions = self._definitions(lines)
        if definitions is not None:
            admin.import_definitions(definitions)
            users = {user["name"] for user in definitions.get("users", ())}
            vhosts = {vhost["name"] for vhost in definitions.get("vhosts", ())}
        else:
            usual = ("user", "bitnami") if self._is_bitnami else ("guest", "guest")
            user = self._setting(_USER) or lines.get("default_user", usual[0])
            password = self._setting(_PASSWORD) or lines.get("default_pass", usual[1])
            vhost = self._setting(_VHOST) or lines.get("default_vhost", "/")
            admin.add_vhost(vhost)
            if user == "guest":
                admin.change_password(user, password)
            else:
                admin.add_user(user, password, tags=["administrator"])
            if tags := [name.partition(".")[2] for name in lines if name.startswith("default_user_tags.")]:
                admin.set_user_tags(user, *(tag for tag in tags if lines[f"default_user_tags.{tag}"] == "true"))
            rights = {
                right: lines.get(f"default_permissions.{right}", ".*") for right in ("configure", "write", "read")
            }
            admin.set_permissions(user, vhost, **rights)
            users, vhosts = {user}, {vhost}
        if "guest" not in users:
            admin.delete_user("guest")
        if "/" not in vhosts:
            admin.delete_vhost("/")

    def _definitions(self, lines: Mapping[str, str]) -> Any:
        import json

        given = (
            self.environment.get("RABBITMQ_DEFINITIONS_FILE")
            if "RABBITMQ_LOAD_DEFINITIONS" in self.environment
            else None
        )
        path = next((lines[name] for name in _LOADS if name in lines), given)
        if path is None:
            return None
        if path not in self.files:
            raise FileNotFoundError(f"{self.name} loads definitions from {path}, which is no file of the container")
        return json.loads(self.files[path])


def _beside(options: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return what the container asks for beside the options of the run, which win."""
    own = {word: value for word, value in options.items() if word != "rabbitmq" or word not in settings}
    if "plugins" in settings:
        own["plugins"] = {*options["plugins"], *settings["plugins"].value}
    if "settings" in settings:
        own["settings"] = options["settings"] | settings["settings"].value
    return own


def files_of(mounts: Mapping[str, str]) -> dict[str, bytes]:
    """Return the files that mounts, from paths here to paths there, bring into a container, by their paths there.

    Of a folder, only what belongs to RabbitMQ's configuration is read.
    """
    files: dict[str, bytes] = {}
    for here, there in mounts.items():
        path = Path(here)
        if path.is_dir() and there.startswith("/etc/rabbitmq"):
            inside = [each for each in path.rglob("*") if each.is_file()]
            files |= {f"{there.rstrip('/')}/{each.relative_to(path).as_posix()}": each.read_bytes() for each in inside}
        elif path.is_file() and path.stat().st_size <= _LARGEST_FILE:
            files[there] = path.read_bytes()
    return files
