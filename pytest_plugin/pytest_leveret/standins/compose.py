"""leveret where a compose file has a RabbitMQ: for testcontainers' `DockerCompose` and for pytest-docker.

Both give commands to `docker compose`. Here they are carried out for the services whose image is RabbitMQ's. For the
others, Docker gets the same command with their names.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest

from pytest_leveret.standins import configuration, rabbitmqctl
from pytest_leveret.standins.server import MANAGEMENT_PORT, Fleet, StandIn, files_of, is_rabbitmq

if TYPE_CHECKING:
    from leveret.http.rabbitmqctl.line import Printed

_FILES: Final = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
# Options before the command, with their values.
_VALUED: Final = ("-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory")
# What starts services, what ends them, what concerns those that run, and what concerns one of them.
_STARTING: Final = ("up", "start", "create")
_ENDING: Final = ("down", "stop", "kill", "rm")
_OF_RUNNING: Final = ("restart", "ps", "logs", "pull", "build", "wait", "pause", "unpause")
_OF_ONE: Final = ("port", "exec")
# ${NAME}, ${NAME:-default}, ${NAME-default} and $NAME.
VARIABLE: Final = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?[^}]*\}|(\w+))")


def stand_in_for_testcontainers(fleet: Fleet) -> Callable[[], None]:
    """Stand in for Docker below testcontainers' DockerCompose, and return what ends that."""
    try:
        from testcontainers.compose import DockerCompose
    except ImportError:
        return lambda: None
    projects = Projects(fleet)

    def run(self: Any, cmd: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        code, output, errors = projects.run(cmd[cmd.index("compose") + 1 :], Path(self.context))
        result = subprocess.CompletedProcess(cmd, code, output.encode(), errors.encode())
        result.check_returncode()
        return result

    patched = patch.object(DockerCompose, "_run_command", run)
    patched.start()
    return patched.stop


def stand_in_for_pytest_docker(fleet: Fleet) -> Callable[[], None]:
    """Stand in for Docker below pytest-docker, and return what ends that."""
    from pytest_docker.plugin import DockerComposeExecutor

    projects = Projects(fleet)

    def execute(self: Any, subcommand: str, **_: object) -> bytes:
        files = [word for file in self._compose_files for word in ("-f", str(file))]
        code, *streams = projects.run([*files, "-p", self._compose_project_name, *shlex.split(subcommand)], Path.cwd())
        output = "".join(streams)
        if code:
            raise RuntimeError(f"docker compose {subcommand} returned {code}: {output}")
        return output.encode()

    patched = patch.object(DockerComposeExecutor, "execute", execute)
    patched.start()
    return patched.stop


@dataclass
class ComposeProject:
    """What runs of one compose file: the services that leveret serves, and the names of Docker's."""

    ours: dict[str, StandIn] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


@dataclass
class Projects:
    """The compose projects of a run."""

    fleet: Fleet
    _projects: dict[tuple[str, ...], ComposeProject] = field(default_factory=dict)

    def run(self, arguments: list[str], folder: Path) -> Printed:
        """Carry out a command of `docker compose`, and return its exit code and what it prints.

        A command without names concerns the services that were started.
        """
        __tracebackhide__ = True
        options, command, words = _split(arguments)
        paths = [folder / value for name, value in options if name in ("-f", "--file")]
        paths = paths or [folder / name for name in _FILES if (folder / name).exists()][:1]
        if not paths:
            raise FileNotFoundError(f"no compose file in {folder}; expected one of {', '.join(_FILES)}")
        if command not in (*_STARTING, *_ENDING, *_OF_RUNNING, *_OF_ONE):
            return self._ask_docker(arguments, folder, f"docker compose {command}")
        services = _services(paths, _variables(options, folder))
        project = self._projects.setdefault(tuple(map(str, paths)), ComposeProject())
        named = [word for word in words if word in services]
        if command in _OF_ONE:
            named = named[:1]
        wanted = named or [*project.ours, *sorted(project.others)]
        if command in _STARTING:
            wanted = _with_dependencies(services, named or _usual(services, options))
        ours = [name for name in wanted if is_rabbitmq(str(services[name].get("image", "")))]
        others = [name for name in wanted if name not in ours]
        output = ""
        if others:
            head = arguments[: len(arguments) - len(words)]
            kept = words if command in _OF_ONE else [word for word in words if word not in services]
            alone = ["--no-deps"] if command in ("up", "create") else []
            names = [] if command in _OF_ONE else others
            what = f"service {', '.join(others)} of the compose file"
            asked = self._ask_docker([*head, *kept, *alone, *names], folder, what)
            (project.others.difference_update if command in _ENDING else project.others.update)(others)
            if not ours or asked.code:
                return asked
            output = asked.output
        folder = paths[0].parent
        done = self._carry_out(command, words, project.ours, {name: services[name] for name in ours}, folder)
        return done._replace(output=output + done.output)

    def _ask_docker(self, arguments: list[str], folder: Path, what: str) -> Printed:
        from leveret.http.rabbitmqctl.line import Printed

        if shutil.which("docker") is None:
            self.fleet.refuse(f"{what}, and there is no Docker for it")
        done = subprocess.run(["docker", "compose", *arguments], cwd=folder, capture_output=True)
        return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())

    def _carry_out(
        self, command: str, words: list[str], running: dict[str, StandIn], services: Mapping[str, Any], folder: Path
    ) -> Printed:
        from leveret.http.rabbitmqctl.line import Printed

        if command in _STARTING:
            for name, service in services.items():
                if name not in running:
                    running[name] = self._launch(service, folder)
        elif command in _ENDING:
            for name in services:
                if name in running:
                    running.pop(name).stop()
        elif command == "restart":
            for name in services:
                running[name].broker.restart()
        elif command == "port":
            name, port = [word for word in words if not word.startswith("-")][-2:]
            return Printed(0, f"0.0.0.0:{running[name].port_of(int(port))}\n" if name in running else "")
        elif command == "ps":
            return Printed(0, "".join(f"{json.dumps(_described(name, it))}\n" for name, it in running.items()))
        elif command == "logs":
            return Printed(0, "".join(it.logs() for name, it in running.items() if name in services))
        elif command == "exec":
            at = next(index for index, word in enumerate(words) if word in services)
            return rabbitmqctl.run(running[words[at]], words[at + 1 :])
        return Printed(0)

    def _launch(self, service: Mapping[str, Any], folder: Path) -> StandIn:
        mounts = dict(_mount(volume, folder) for volume in service.get("volumes", ()))
        ports = dict(map(_ports, service.get("ports", ())))
        environment = configuration.of_command(service.get("command")) | _environment(service, folder)
        return self.fleet.launch(service["image"], environment, files_of(mounts), ports)


def _split(arguments: list[str]) -> tuple[list[tuple[str, str]], str, list[str]]:
    """Return the options before the command, the command, and what follows it."""
    options: list[tuple[str, str]] = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            return options, word, [*rest]
        options.append((name, value if equals or name not in _VALUED else next(rest)))
    return options, "", []


def _usual(services: Mapping[str, Any], options: list[tuple[str, str]]) -> list[str]:
    """Return the services that start without a name: those of no profile, and those of the profiles that are on."""
    on = {value for name, value in options if name == "--profile"} | {
        *os.environ.get("COMPOSE_PROFILES", "").split(",")
    }
    return [name for name, it in services.items() if not it.get("profiles") or on & {"*", *it["profiles"]}]


def _with_dependencies(services: Mapping[str, Any], names: list[str]) -> list[str]:
    """Return the services, and those that they depend on, without those that the file does not have."""
    found: dict[str, None] = {}
    rest = list(names)
    while rest:
        name = rest.pop(0)
        if name in services and name not in found:
            found[name] = None
            rest += services[name].get("depends_on") or ()
    return list(found)


def _variables(options: list[tuple[str, str]], folder: Path) -> Mapping[str, str]:
    """Return the variables that a compose file names: those of .env or of --env-file, then the environment."""
    files = [folder / value for name, value in options if name == "--env-file"] or [folder / ".env"]
    read = [env_file(file) for file in files if file.exists()]
    return {name: value for each in [*read, os.environ] for name, value in each.items()}


def env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file such as .env."""
    lines = [line.strip().removeprefix("export ") for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip().strip("\"'") for name, value in pairs}


def _services(paths: list[Path], variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the services of compose files; a later file adds to those of an earlier one."""
    try:
        import yaml
    except ImportError:
        raise pytest.UsageError("reading a compose file needs PyYAML; pip install pyyaml") from None
    services: dict[str, dict[str, Any]] = {}
    for path in paths:
        text = VARIABLE.sub(lambda it: variables.get(it[1] or it[3], it[2] or ""), path.read_text(encoding="utf-8"))
        for name, service in (yaml.safe_load(text).get("services") or {}).items():
            services[name] = services.get(name, {}) | (service or {})
    return services


def _environment(service: Mapping[str, Any], folder: Path) -> dict[str, str]:
    files = service.get("env_file") or ()
    environment: dict[str, str] = {}
    for file in [files] if isinstance(files, str | Mapping) else files:
        environment |= env_file(folder / (file["path"] if isinstance(file, Mapping) else file))
    given = service.get("environment") or {}
    if isinstance(given, list):
        given = dict(line.split("=", 1) if "=" in line else (line, os.environ.get(line, "")) for line in given)
    return environment | {name: str(value) for name, value in given.items()}


def _mount(volume: Any, folder: Path) -> tuple[str, str]:
    """Return where a volume comes from, and where it goes."""
    source, target = (
        (volume.get("source", ""), volume["target"]) if isinstance(volume, Mapping) else f"{volume}::".split(":")[:2]
    )
    return str(folder / source), target


def _ports(port: Any) -> tuple[int, int | None]:
    """Return a port of the container, and the one that it is published at; None for any."""
    if isinstance(port, Mapping):
        published = port.get("published")
        return int(port["target"]), int(published) if published else None
    *_, published, target = f":{port}".split("/")[0].rsplit(":", 2)[-2:]
    return int(target), int(published) if published else None


def _described(name: str, stand_in: StandIn) -> dict[str, object]:
    """Return what `docker compose ps --format json` shows of a service."""
    publishers = [
        {"URL": "0.0.0.0", "TargetPort": port, "PublishedPort": stand_in.port_of(port), "Protocol": "tcp"}
        for port in sorted({*stand_in.ports, stand_in.amqp_port})
        if port in (stand_in.amqp_port, MANAGEMENT_PORT)
    ]
    state = {"State": "running", "Health": "healthy", "ExitCode": 0}
    return {"ID": stand_in.name, "Name": stand_in.name, "Service": name, "Publishers": publishers, **state}
