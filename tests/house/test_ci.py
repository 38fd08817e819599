"""The script that checks a change, `.ci/run`: it runs each command once, and a command that fails ends it.

The commands here are stand-ins, which note that they were called and fail if they are named in `BROKEN`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# What the script needs of a system beside the commands that it checks with.
TOOLS = ("rm", "dirname", "cp", "mkdir")
STAND_IN = """#!{bash}
name=${{0##*/}}; echo "$name $*" >> {log}
if [[ $name == pytest ]]; then [[ -e .pytest_cache ]] && echo "an old cache" >> {log}; mkdir .pytest_cache; fi
if [[ $name == python3 ]]; then mkdir -p .venv; cp -r {commands} .venv/bin; fi
[[ "$name $*" != *"$BROKEN"* ]]
"""


class Checks:
    """A copy of the script in a folder of its own, with stand-ins for all that it runs."""

    def __init__(self, root: Path, folder: Path) -> None:
        bash = shutil.which("bash")
        if bash is None:
            pytest.skip("no bash here")
        self.bash = bash
        self.folder = folder
        self.log = folder / "log"
        self.tools = folder / "tools"
        commands = folder / "commands"
        for directory in (self.tools, commands, folder / ".ci"):
            directory.mkdir()
        shutil.copy(root / ".ci/run", folder / ".ci/run")
        for name in TOOLS:
            path = shutil.which(name)
            if path is None:
                pytest.skip(f"no {name} here")
            (self.tools / name).symlink_to(path)
        for where, names in ((self.tools, ["python3"]), (commands, ["pip", "python", "pytest", "mypy", "ruff"])):
            for name in names:
                file = where / name
                file.write_text(STAND_IN.format(bash=bash, log=self.log, commands=commands), encoding="utf-8")
                file.chmod(0o755)

    def run(self, broken: str) -> tuple[int, list[str]]:
        """Run the script while one command fails, and return its exit code and what it called."""
        environment = {"PATH": str(self.tools), "BROKEN": broken or "nothing is broken"}
        ran = subprocess.run(
            [self.bash, str(self.folder / ".ci/run")], env=environment, capture_output=True, text=True, timeout=60
        )
        return ran.returncode, self.log.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def checks(root: Path, tmp_path: Path) -> Checks:
    """The script among stand-ins."""
    return Checks(root, tmp_path)


def test_the_checks_run_the_tests_once_and_without_an_old_cache(checks: Checks) -> None:
    (checks.folder / ".pytest_cache").mkdir()

    code, called = checks.run(broken="")

    assert code == 0
    assert called.count("pytest -n auto") == 1
    assert "an old cache" not in called


@pytest.mark.parametrize(
    "broken",
    [
        "[examples]",
        "python -m examples",
        "[dev]",
        "pytest",
        "[dev-all]",
        "-m tests.extras",
        "mypy",
        "ruff check",
        "benchmarks/instructions.py",
    ],
)
def test_a_command_that_fails_ends_the_checks(checks: Checks, broken: str) -> None:
    code, called = checks.run(broken)

    assert code != 0
    assert broken in called[-1]


def test_a_test_that_fails_has_no_second_chance(checks: Checks) -> None:
    cache = checks.folder / ".pytest_cache/v/cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text('{"tests/test_old.py::test_flake": true}', encoding="utf-8")

    code, called = checks.run(broken="-n auto")

    assert code != 0
    assert [call for call in called if call.startswith("pytest")] == ["pytest -n auto"]
