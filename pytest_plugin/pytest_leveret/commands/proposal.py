"""What to write into a project: lines for pytest, one green test, and texts for programs that write tests."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from pytest_leveret.commands.addresses import AMQP_PORT, LOCAL, BrokerAddress, address_in, stated
from pytest_leveret.commands.project import SECTION, FoundConsumer, Project

_TEST: Final = "test_leveret.py"
# Where pip finds leveret before its first release.
_CLONE: Final = "git+https://github.com/leveret-broker/leveret"
_SKILL: Final = ".agents/skills/leveret/SKILL.md"
_AGENTS: Final = """\
## Tests with RabbitMQ

Tests run on leveret, a RabbitMQ in the test process: no Docker, no sleeps, no mocks of a client.
Read .agents/skills/leveret/SKILL.md before you write or mend a test that sends or receives messages.
"""
# How each kind of consumer runs for the time of a test.
_RUNNING: Final = {
    "celery": """\
from pytest_leveret.celery import running_worker

from {module} import {name}


def test_the_worker_consumes_from_its_queue(leveret_session):
    with running_worker({name}):
        leveret_session.wait_for_consumer("{queue}")
""",
    "faststream": """\
import asyncio

from {module} import {name}


def test_the_service_consumes_from_its_queue(leveret_session):
    async def scenario():
        async with {name}:
            await {name}.start()
            await asyncio.to_thread(leveret_session.wait_for_consumer, "{queue}")

    asyncio.run(scenario())
""",
    "pika": """\
import threading

from {module} import {name}


def test_the_worker_consumes_from_its_queue(leveret_session):
    threading.Thread(target={name}, args={arguments}, daemon=True).start()

    leveret_session.wait_for_consumer("{queue}")
""",
    "aio_pika": """\
import asyncio

from {module} import {name}


def test_the_worker_consumes_from_its_queue(leveret_session):
    async def scenario():
        worker = asyncio.create_task({name}({argument}))
        await asyncio.to_thread(leveret_session.wait_for_consumer, "{queue}")
        worker.cancel()
        await asyncio.wait([worker])

    asyncio.run(scenario())
""",
}
_WITHOUT_CONSUMER: Final = """\
def test_a_message_reaches_its_queue(leveret):
    leveret.declare_queue("orders")

    # Let your own code publish here: give it leveret.url.
    leveret.publish("", "orders", b"{}")

    leveret.assert_ready("orders", json={})
"""


class IniLine(NamedTuple):
    """A line of pytest's settings, and what in the project it comes from."""

    option: str
    value: str
    because: str


def lines_for(project: Project) -> list[IniLine]:
    """Return the lines with which the project's tests find leveret in the place of RabbitMQ."""
    if project.replaces:
        return [IniLine("leveret_replaces", " ".join(sorted(project.replaces)), "the tests start RabbitMQ with it")]
    from leveret.core.compat import DEFAULT_VERSION

    lines = [*(() if _at_the_port(project) else _variables(project)), *_ports(project), *_hosts(project)]
    if not lines and not project.requested & {"leveret", "make_leveret", "leveret_session"}:
        return []
    version = [it for it in _version(project) if it.value != DEFAULT_VERSION]
    return [*lines, *(_logins(project) if lines else ()), *version]


def _variables(project: Project) -> Iterator[IniLine]:
    """Yield the lines about variables: which hold a URL, and which a part of one."""
    held = project.addresses.variables()
    by_place: dict[str, list[str]] = {}
    login = {part: it.default for it in held.values() if (part := it.part) in ("user", "password", "vhost")}
    calls_api = any(it.part.startswith("management") for it in held.values())
    of_parts = BrokerAddress("", "", user=login.get("user") or "guest", vhost=login.get("vhost") or "/")
    if not login.get("password"):
        of_parts = of_parts._replace(user="guest")
    for name, it in sorted(held.items()):
        address = of_parts
        if it.part == "url":
            address = address_in(it.default or project.addresses.given.get(name, ""), "") or BrokerAddress("", "")
        # The management API is for administrators, as guest is one.
        address = address._replace(user="guest") if calls_api else address
        place = [f"{word}={value}" for word, value, usual in _places(address) if value != usual]
        by_place.setdefault(" ".join(place), []).append(name if it.part == "url" else f"{name}={it.part}")
    if by_place:
        text = "\n".join(" ".join(filter(None, [*names, place])) for place, names in sorted(by_place.items()))
        name, it = next(iter(held.items()))
        yield IniLine("leveret_url_env", text, f"{it.where} reads {name}{' and more' if len(held) > 1 else ''}")
    if calls_api:
        yield IniLine("leveret_management", "yes", "a variable has the address of its API")


def _places(address: BrokerAddress) -> Iterator[tuple[str, str, str]]:
    yield "vhost", address.vhost, "/"
    yield "user", address.user, "guest"


def _ports(project: Project) -> Iterator[IniLine]:
    """Yield the lines about ports that stand in the code."""
    found = project.addresses
    local = found.local()
    if local:
        too = "".join(f", as {name} does by default" for name in _at_the_port(project))
        yield IniLine("leveret_port", str(local[0].port), f"{local[0].where} {stated(local[0])}{too}")
    elif (host := found.lonely_host()) is not None:
        yield IniLine("leveret_port", str(AMQP_PORT), f"{host} names the host, and no variable the port")
    if found.management and (local or found.variables()):
        where, port_there = next(iter(found.management.items()))
        yield IniLine("leveret_management_port", str(port_there), f"{where} calls the management API there")


def _at_the_port(project: Project) -> list[str]:
    """Return the variables if the code has the usual address, all their defaults lead there, and no file sets one."""
    held = project.addresses.variables()
    is_fixed = any(it.host in LOCAL and it.port == AMQP_PORT for it in project.addresses.local())
    is_same = all(it.is_usual and it.default and not it.part.startswith("management") for it in held.values())
    return sorted(held) if is_fixed and is_same and project.given.isdisjoint(held) else []


def _hosts(project: Project) -> Iterator[IniLine]:
    """Yield the line about the names of other machines in the code."""
    if led := project.addresses.of_docker():
        why = f"{led[0].where} {stated(led[0])}, of a network of Docker or a private one; in the tests it is leveret"
        yield IniLine("leveret_hosts", " ".join(sorted({it.host for it in led})), why)


def _logins(project: Project) -> Iterator[IniLine]:
    """Yield the lines about the users and virtual hosts that the project's addresses name."""
    users, vhosts = project.addresses.logins()
    odd = [user for user, password in users.items() if re.search(r"[\s,]", f"{user}{password}")]
    if users.keys() - odd:
        text = " ".join(f"{user}={password}" for user, password in sorted(users.items()) if user not in odd)
        yield IniLine("leveret_users", text, "the project logs in so")
    if vhosts:
        yield IniLine("leveret_vhosts", " ".join(sorted(vhosts)), "the project connects there")


def _version(project: Project) -> Iterator[IniLine]:
    """Yield the line with the version of an image, even if it is the default."""
    from pytest_leveret.standins.server import is_older, profile_of

    # What starts RabbitMQ for tests names the version that they were written for.
    ranked = sorted(project.images, key=lambda path: ("test" not in project.name(path), ".github" not in path.parts))
    for path in ranked:
        image = project.images[path]
        if ":" in image.rsplit("/", 1)[-1] and "$" not in image:
            version = profile_of(image)
            nearest = "the newest that is not newer" if is_older(version, image) else "the oldest that leveret has"
            is_same = re.search(rf":{re.escape(version)}\b", image)
            why = f"{project.name(path)} has {image}" + ("" if is_same else f"; {version} is {nearest}")
            yield IniLine("leveret_rabbitmq", version, why)
            return


def permitting(project: Project, denied: set[str]) -> IniLine | None:
    """Return the line that permits what the tests were denied; None if something names the RabbitMQ they are for."""
    # The newest image of RabbitMQ's own is 4.3; that of a plugin, without a number, may be of any version.
    names_version = any("-delayed-" not in it or re.search(r":\D*\d", it) for it in project.images.values())
    if not denied or names_version or "testcontainers" in project.replaces:
        return None
    because = "the tests use what RabbitMQ denies from 4.3 on, and no file says which RabbitMQ they are for"
    return IniLine("leveret_permit", " ".join(sorted(denied)), because)


def without_variables(project: Project) -> list[IniLine] | None:
    """Return the lines that lead tests to leveret if no variable is set, beyond those that there are.

    None if the defaults of the variables lead elsewhere, and no other line leads there.
    """
    if all(it.is_usual for it in project.addresses.variables().values()):
        because = "in place of leveret_url_env, because the variables lead there if nothing sets them"
        return [IniLine("leveret_port", str(AMQP_PORT), because)]
    others = [it.option for it in lines_for(project) if it.option in ("leveret_port", "leveret_hosts")]
    return [] if others else None


def with_lines(project: Project, lines: list[IniLine], without: IniLine | None) -> dict[Path, str]:
    """Return the file of pytest's settings with lines more, and without one that it has."""
    path = _settings_of(project)
    unwanted = _setting(without, is_toml=path.suffix == ".toml") if without is not None else ""
    return {path: _with_options(path.name, text_of(path).replace(unwanted, ""), lines)}


def _settings_of(project: Project) -> Path:
    return project.settings or project.root / "pytest.ini"


def changes(project: Project, *, with_skill: bool) -> dict[Path, str]:
    """Return the files that would change, with their whole texts."""
    written: dict[Path, str] = {}
    settings = _settings_of(project)
    before = text_of(settings)
    if "leveret_" not in before and (lines := lines_for(project)):
        written[settings] = _with_options(settings.name, before, lines)
    tests = project.root / "tests" if (project.root / "tests").is_dir() else project.root
    if not (tests / _TEST).exists() and (test := _first_test(project)):
        written[tests / _TEST] = test
    if with_skill:
        written[project.root / _SKILL] = (
            files("pytest_leveret.commands").joinpath("skill.md").read_text(encoding="utf-8")
        )
        agents = project.root / "AGENTS.md"
        if "leveret" not in text_of(agents):
            written[agents] = f"{text_of(agents).rstrip()}\n\n{_AGENTS}".lstrip()
    return {path: text for path, text in written.items() if text != text_of(path)}


def diff(project: Project, written: dict[Path, str]) -> str:
    """Return what would change, as a unified diff."""
    lines: list[str] = []
    for path, text in written.items():
        name = project.name(path)
        before = text_of(path).splitlines(keepends=True)
        lines += difflib.unified_diff(before, text.splitlines(keepends=True), name if before else "/dev/null", name)
    # A file may end without a line break.
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def write(written: dict[Path, str]) -> None:
    """Write the files."""
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def advice(project: Project) -> Iterator[str]:
    """Yield the reason of each line, and what a reader should know and no file says."""
    lines = lines_for(project)
    for line in lines:
        yield f"{line.option}: {line.because}"
    # What is no line is the default.
    for line in [it for it in _version(project) if lines and it not in lines and not project.replaces]:
        yield f"{line.option}: {line.because}; that is the default, so no line sets it"
    if project.docker_py is not None and not project.replaces:
        yield (
            f"{project.name(project.docker_py)} starts RabbitMQ with docker-py, which leveret does not replace; start "
            "it with testcontainers, or leave that out"
        )
    # Beside the lines, an address may be an example of a test of URLs.
    for address in [it for it in project.addresses.fixed if not lines][:1]:
        if not address.is_local:
            yield (
                f"{address.where} {stated(address)}, which is another machine: let it read the address from a variable"
            )
        elif address.scheme == "amqps":
            yield f"{address.where} connects by TLS, for which a test needs a broker of make_leveret(tls=True)"
    if project.has_tests and lines:
        yield "your tests stay as they are"
    elif not project.has_tests and not project.consumers and not lines:
        yield f"no consumer was found that a test can start, so {_TEST} shows a publish; put your own code in its place"
    if project.requirements is not None:
        name, extras = project.name(project.requirements), ",".join(_extras(project).values())
        yield f"{name} lists pytest; add leveret[{extras}] there; until the first release, leveret[{extras}] @ {_CLONE}"
    for path, image in project.images.items():
        if "$" in image and not any(line.option == "leveret_rabbitmq" for line in lines):
            yield f"{project.name(path)} has {image}, and no file gives its version; name it with leveret_rabbitmq"
    for path in project.unread:
        yield f"{project.name(path)} could not be parsed, and was passed over"


def missing_extras(project: Project) -> list[str]:
    """Return the extras of leveret that the tests need and that are not installed here."""
    return [extra for module, extra in _extras(project).items() if find_spec(module) is None]


def _extras(project: Project) -> dict[str, str]:
    """Return the extras of leveret that the tests need, by a module that each installs."""
    needs_http = any("management" in line.option or line.option == "leveret_replaces" for line in lines_for(project))
    return {"pytest": "pytest"} | ({"h11": "http"} if needs_http else {})


def _with_options(name: str, before: str, lines: list[IniLine]) -> str:
    """Return the text of a file of settings with lines more, at the beginning of pytest's section."""
    block = "".join(_setting(line, is_toml=name.endswith(".toml")) for line in lines)
    section = SECTION.search(before)
    if section is None:
        return f"{before}[pytest]\n{block}"
    return before[: section.end()] + block + before[section.end() :]


def _setting(line: IniLine, *, is_toml: bool) -> str:
    if is_toml:
        quotes = '"""\n' if "\n" in line.value else '"'
        return f"{line.option} = {quotes}{line.value}{quotes.strip()}\n"
    value = "".join(f"\n    {each}" for each in line.value.split("\n")) if "\n" in line.value else f" {line.value}"
    return f"{line.option} ={value}\n"


def _first_test(project: Project) -> str:
    """Return the test to write; "" if the project's own tests have to do with a broker."""
    if project.has_tests:
        return ""
    leads_here = bool(lines_for(project)) and not project.replaces
    usable = [it for it in project.consumers if it.takes_url or leads_here]
    if usable:
        return _of(usable[0])
    return "" if project.replaces else _WITHOUT_CONSUMER


def _of(consumer: FoundConsumer) -> str:
    argument = "leveret_session.url" if consumer.takes_url else ""
    return _RUNNING[consumer.kind].format(
        module=consumer.module,
        name=consumer.name,
        queue=consumer.queue,
        argument=argument,
        arguments=f"({argument},)" if argument else "()",
    )


def text_of(path: Path) -> str:
    """Return the text of a file; "" if there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
