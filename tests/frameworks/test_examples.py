"""Every project in examples/frameworks passes its tests, with the releases that are installed here.

`nox -s frameworks` does the same with the oldest and the newest releases, each in an environment of its own.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.frameworks.projects import PROJECTS, HungError, Project, parse, passed_count
from tests.systems import needs_proc

# A happy path, a retry or a delay, a poison message, a lost connection.
TESTS_MIN = 4
LEAVING = """
from subprocess import DEVNULL, Popen


def test_it():
    Popen(["sleep", "SECONDS"], stdout=DEVNULL, stderr=DEVNULL)
"""
LEVERET = "pytest_leveret.plugin"
# All tests of a process share a broker: one application reads its URL when a test imports it, and one when
# pytest-django sets up its settings. The other projects do as one of the two.
ON_TWO_WORKERS = [project for project in PROJECTS if project.name in ("celery", "django")]


@pytest.fixture(params=PROJECTS, ids=lambda project: project.name)
def project(request: pytest.FixtureRequest) -> Project:
    """A project whose framework is installed."""
    project: Project = request.param
    for requirement in project.requirements:
        try:
            version(requirement.name)
        except PackageNotFoundError:
            pytest.skip(f"needs {requirement.name}: pip install -e '.[dev]'")
    return project


def test_the_project_passes_its_tests_twice_in_one_process(project: Project) -> None:
    before = project.files

    # This environment has plugins of which a project asks for few, and loading all takes most of a short run.
    ran = project.run_tests(sys.executable, "-q", "--keep-duplicates", ".", ".", plugins=project.plugins)

    assert ran.returncode == 0, ran.stdout
    assert passed_count(ran.stdout) >= 2 * TESTS_MIN, ran.stdout
    assert project.files == before


@pytest.mark.parametrize("project", ON_TWO_WORKERS, ids=lambda project: project.name, indirect=True)
def test_the_project_passes_its_tests_on_two_workers(project: Project) -> None:
    ran = project.run_tests(sys.executable, "-q", "-n", "2", plugins=[*project.plugins, "xdist.plugin"])

    assert ran.returncode == 0, ran.stdout
    assert passed_count(ran.stdout) >= TESTS_MIN, ran.stdout


def test_a_run_that_does_not_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_hang.py").write_text("def test_it():\n    while True: pass\n", encoding="utf-8")

    with pytest.raises(HungError, match="did not end in 1 s"):
        Project(tmp_path).run_tests(sys.executable, "-q", plugins=[LEVERET], timeout=1)


@needs_proc
def test_a_process_that_the_tests_leave_behind_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_leave.py").write_text(LEAVING.replace("SECONDS", "600"), encoding="utf-8")

    with pytest.raises(HungError, match="left 1 processes running"):
        Project(tmp_path).run_tests(sys.executable, "-q", plugins=[LEVERET], patience=0)


@needs_proc
def test_a_process_that_ends_a_moment_after_the_tests_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "test_leave.py").write_text(LEAVING.replace("SECONDS", "1"), encoding="utf-8")

    assert Project(tmp_path).run_tests(sys.executable, "-q", plugins=[LEVERET]).returncode == 0


@pytest.mark.parametrize(
    ("line", "name", "oldest"),
    [
        ("pika>=1.0.0", "pika", "1.0.0"),
        ("leveret[pytest]", "leveret", None),
        ("taskiq-aio-pika >= 0.4", "taskiq-aio-pika", "0.4"),
        ("django>=4.2,<6", "django", "4.2"),
        ("celery[redis]>=5.3; python_version < '3.14'", "celery", "5.3"),
        ("eventlet<1", "eventlet", None),
    ],
)
def test_a_requirement_names_the_oldest_release(line: str, name: str, oldest: str | None) -> None:
    requirement = parse(line)

    assert (requirement.name, requirement.oldest) == (name, oldest)


def test_the_oldest_release_keeps_the_extras_of_a_requirement() -> None:
    assert parse("dramatiq[rabbitmq]>=1.11.0").pinned == "dramatiq[rabbitmq]==1.11.0"
    assert parse("pika>=1.0.0").pinned == "pika==1.0.0"
    assert parse("pytest-asyncio").pinned == "pytest-asyncio"
