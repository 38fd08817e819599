"""What to write into a project: lines for pytest, one green test, and texts for programs that write tests."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pytest_leveret.commands.project import FoundConsumer, Project

_TEST: Final = "test_leveret.py"
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


def changes(project: Project, *, with_skill: bool) -> dict[Path, str]:
    """Return the files that would change, with their whole texts."""
    written: dict[Path, str] = {}
    settings = project.settings or project.root / "pytest.ini"
    before = _text_of(settings)
    if "leveret_" not in before and (lines := list(_options(project))):
        written[settings] = _with_options(settings.name, before, lines)
    tests = project.root / "tests" if (project.root / "tests").is_dir() else project.root
    if not (tests / _TEST).exists() and (test := _first_test(project)):
        written[tests / _TEST] = test
    if with_skill:
        written[project.root / _SKILL] = (
            files("pytest_leveret.commands").joinpath("skill.md").read_text(encoding="utf-8")
        )
        agents = project.root / "AGENTS.md"
        if "leveret" not in _text_of(agents):
            written[agents] = f"{_text_of(agents).rstrip()}\n\n{_AGENTS}".lstrip()
    return {path: text for path, text in written.items() if text != _text_of(path)}


def diff(project: Project, written: dict[Path, str]) -> str:
    """Return what would change, as a unified diff."""
    lines: list[str] = []
    for path, text in written.items():
        name = path.relative_to(project.root).as_posix()
        before = _text_of(path).splitlines(keepends=True)
        lines += difflib.unified_diff(before, text.splitlines(keepends=True), name if before else "/dev/null", name)
    return "".join(lines)


def write(written: dict[Path, str]) -> None:
    """Write the files."""
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def advice(project: Project) -> Iterator[str]:
    """Yield what a reader should know and no file says."""
    if project.compose is not None and not project.replaces:
        name = project.compose.relative_to(project.root)
        yield f"{name} has {project.image}; the tests need it no more, unless they start it by pytest-docker"
    if not project.variables and not project.replaces and not project.has_tests:
        yield "no environment variable with the broker's URL was found; give your code leveret.url in each test"
    if project.replaces:
        yield "your tests stay as they are; the last line of a run says how many were on leveret"
    elif project.has_tests:
        yield "your tests stay as they are"
    elif not project.consumers:
        yield f"no consumer was found that a test can start, so {_TEST} shows a publish; put your own code in its place"
    if project.requirements is not None:
        name = project.requirements.relative_to(project.root)
        yield f"{name} lists pytest; add leveret[{','.join(_extras(project).values())}] there"
    for path in project.unread:
        yield f"{path.relative_to(project.root)} could not be parsed, and was passed over"


def missing_extras(project: Project) -> list[str]:
    """Return the extras of leveret that the tests need and that are not installed here."""
    return [extra for module, extra in _extras(project).items() if find_spec(module) is None]


def _extras(project: Project) -> dict[str, str]:
    """Return the extras of leveret that the tests need, by a module that each installs."""
    return {"pytest": "pytest"} | ({"h11": "http"} if project.replaces else {})


def _options(project: Project) -> Iterator[tuple[str, str]]:
    if project.replaces:
        yield "leveret_replaces", " ".join(sorted(project.replaces))
    if project.variables:
        yield "leveret_url_env", " ".join(sorted(project.variables))
    series = re.match(r"\d+\.\d+", (project.image or "").partition(":")[2])
    if series and not project.replaces:
        from leveret.core.compat import VERSIONS

        if series[0] in VERSIONS:
            yield "leveret_rabbitmq", series[0]


def _with_options(name: str, before: str, lines: list[tuple[str, str]]) -> str:
    """Return the text of a file of settings with lines more, at the beginning of pytest's section."""
    is_toml = name.endswith(".toml")
    block = "".join(f'{key} = "{value}"\n' if is_toml else f"{key} = {value}\n" for key, value in lines)
    section = re.search(r"^\[(?:tool\.pytest(?:\.ini_options)?|tool:pytest|pytest)\][ \t]*\n", before, re.MULTILINE)
    if section is None:
        return f"{before}[pytest]\n{block}"
    return before[: section.end()] + block + before[section.end() :]


def _first_test(project: Project) -> str:
    """Return the test to write; "" if the project's own tests run on leveret as they are."""
    if project.has_tests:
        return ""
    usable = [it for it in project.consumers if it.takes_url or project.variables]
    if project.replaces:
        usable = [it for it in usable if it.takes_url]
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


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
