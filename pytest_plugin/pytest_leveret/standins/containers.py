"""leveret where testcontainers would start a RabbitMQ: `RabbitMqContainer`, and `DockerContainer` of such an image.

testcontainers reaches Docker through one class, `DockerClient`. `StandInDocker` takes its place: it serves images of
RabbitMQ itself, and asks the real one, which it makes at the first need, for all others.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final, NamedTuple
from unittest.mock import patch

from pytest_leveret.standins import configuration, rabbitmqctl
from pytest_leveret.standins.server import Fleet, StandIn, files_of, is_rabbitmq

_MODULES: Final = ("testcontainers.core.container", "testcontainers.core.docker_client")


def stand_in(fleet: Fleet) -> Callable[[], None]:
    """Stand in for testcontainers, and return what ends that."""
    from importlib import import_module

    from pytest_leveret.standins import compose

    docker = import_module("docker")
    container = import_module(_MODULES[0])
    reaper = getattr(container, "Reaper", None)
    client = type("DockerClient", (StandInDocker,), {"_fleet": fleet, "_new": staticmethod(container.DockerClient)})
    patches: list[Any] = [patch.object(import_module(name), "DockerClient", client) for name in _MODULES]
    unanswered = (docker.errors.DockerException, OSError)
    patches.append(patch.object(docker, "from_env", partial(_docker_or_none, docker.from_env, unanswered)))
    if reaper is not None:
        # It watches over containers in Docker, so it starts with the first of them. testcontainers asks for it before
        # each container but the reaper's own, unless the user has disabled it.
        patches.append(patch.object(reaper, "get_instance", partial(setattr, client, "_reaper", reaper.get_instance)))
    for each in patches:
        each.start()
    undo_compose = compose.stand_in_for_testcontainers(fleet)

    def undo() -> None:
        undo_compose()
        for each in reversed(patches):
            each.stop()

    return undo


class ExecResult(NamedTuple):
    """What a command printed, in the shape that Docker's SDK gives."""

    exit_code: int
    output: Any


class Container:
    """A container of RabbitMQ, in the shape of Docker's SDK."""

    def __init__(self, fleet: Fleet, image: str, options: Mapping[str, Any]) -> None:
        volumes: Mapping[Any, Any] = options.get("volumes") or {}
        mounts = {str(here): str(to["bind"] if isinstance(to, Mapping) else to) for here, to in volumes.items()}
        ports = {int(str(port).partition("/")[0]): host for port, host in (options.get("ports") or {}).items()}
        environment = configuration.of_command(options.get("command")) | (options.get("environment") or {})
        self.server = StandIn(fleet, fleet.new_name(), image, environment, files_of(mounts), ports)
        self.id = self.short_id = self.server.name
        self.name = options.get("name") or self.server.name

    @property
    def status(self) -> str:
        """The state of the container: "created", "running" or "exited"."""
        return "running" if self.server.is_running else "exited"

    @property
    def attrs(self) -> dict[str, Any]:
        """What `docker inspect` shows of its state."""
        return {"Id": self.id, "Name": self.name, "State": {"Status": self.status, "Health": {"Status": "healthy"}}}

    def start(self) -> None:
        """Start it."""
        self.server.start()

    def stop(self, **_: object) -> None:
        """Stop it."""
        self.server.stop()

    def restart(self, **_: object) -> None:
        """Restart RabbitMQ in it, on the same port: what is durable stays."""
        self.server.broker.restart()

    kill = remove = stop

    def reload(self) -> None:
        """Do nothing: what it shows is always new."""

    def wait(self, **_: object) -> dict[str, int]:
        """Return how it ended."""
        return {"StatusCode": 0}

    def logs(self, **streams: object) -> bytes:
        """Return what RabbitMQ's log would say of its start; it goes to stdout."""
        return self.server.logs().encode() if streams.get("stdout", True) else b""

    def exec_run(self, cmd: str | Iterable[str], *, demux: bool = False, **_: object) -> ExecResult:
        """Run a command of rabbitmqctl. `demux` keeps what it writes to stdout and to stderr apart."""
        code, output, errors = rabbitmqctl.run(self.server, cmd)
        streams = output.encode(), errors.encode()
        return ExecResult(code, streams if demux else b"".join(streams))

    def put_archive(self, path: str, data: Any) -> bool:
        """Take files from an archive."""
        content = data if isinstance(data, bytes) else data.read() if hasattr(data, "read") else b"".join(data)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    self.server.files[str(PurePosixPath("/", path, member.name))] = file.read()
        return True

    def get_archive(self, path: str) -> tuple[Iterator[bytes], dict[str, object]]:
        """Return a file in an archive."""
        content = self.server.files[path]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            member = tarfile.TarInfo(PurePosixPath(path).name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        return iter([packed.getvalue()]), {"name": member.name, "size": len(content)}


class _Unopened:
    """Docker's own client, which opens at the first need."""

    def __init__(self, docker: Callable[[], Any]) -> None:
        self._docker = docker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._docker().client, name)

    def close(self) -> None:
        """Do nothing."""


class _NoDocker:
    """A Docker that does not answer. Suites ask for it before they start RabbitMQ, which needs none here."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def ping(self) -> bool:
        """Answer as Docker would."""
        return True

    def close(self) -> None:
        """Do nothing."""

    # All else needs Docker.
    def __getattr__(self, name: str) -> Any:
        raise self._error


def _docker_or_none(from_env: Callable[..., Any], unanswered: tuple[type[Exception], ...], **options: Any) -> Any:
    """Return Docker's own client; if Docker does not answer, one that knows no more than that question."""
    try:
        client = from_env(**options)
        client.ping()
    except unanswered as error:
        return _NoDocker(error)
    return client


class StandInDocker:
    """testcontainers' way to Docker, as far as RabbitMQ is concerned."""

    _fleet: ClassVar[Fleet]
    # What makes the real one.
    _new: ClassVar[Callable[..., Any]]
    # What starts the reaper, once testcontainers has asked for it.
    _reaper: ClassVar[Callable[[], object] | None] = None

    def __init__(self, **options: Any) -> None:
        self._new_client = partial(self._new, **options)
        self._real: Any = None
        self._containers: dict[str, Container] = {}

    def _docker(self) -> Any:
        if self._real is None:
            self._real = self._new_client()
        return self._real

    # What else there is, Docker has.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._docker(), name)

    @property
    def client(self) -> Any:
        """Docker's own client."""
        return _Unopened(self._docker) if self._real is None else self._real.client

    def _docker_for_container(self, image: str) -> Any:
        # Ryuk is testcontainers' own, and stops the others.
        if "/ryuk" not in image:
            self._fleet.other_images.add(image)
        start_reaper, type(self)._reaper = type(self)._reaper, None
        if start_reaper is not None:
            start_reaper()
        return self._docker()

    def create(self, image: str, **options: Any) -> Any:
        """Create a container, and do not start it yet."""
        if not is_rabbitmq(image):
            return self._docker_for_container(image).create(image, **options)
        container = Container(self._fleet, image, options)
        self._containers[container.id] = container
        return container

    def run(self, image: str, **options: Any) -> Any:
        """Create a container and start it, as testcontainers before 4.14 does."""
        if not is_rabbitmq(image):
            return self._docker_for_container(image).run(image, **options)
        container = self.create(image, **options)
        container.start()
        return container

    def start(self, container: Any) -> None:
        """Start a container."""
        container.start()

    def port(self, container_id: str, port: int) -> str:
        """Return the port on this machine for one of a container."""
        if container_id not in self._containers:
            return str(self._docker().port(container_id, port))
        return str(self._containers[container_id].server.port_of(int(port)))

    def host(self) -> str:
        """Return where containers are reached."""
        return "localhost" if self._containers else str(self._docker().host())

    def bridge_ip(self, container_id: str) -> str:
        """Return the address of a container as other containers reach it."""
        return "127.0.0.1" if container_id in self._containers else str(self._docker().bridge_ip(container_id))

    gateway_ip = bridge_ip

    def get_connection_mode(self) -> Any:
        """Return how containers are reached: by the ports of this machine."""
        if not self._containers:
            return self._docker().get_connection_mode()
        from testcontainers.core.config import ConnectionMode

        return ConnectionMode.docker_host
