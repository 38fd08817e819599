"""mypy and pyright, run on a user's tests: what is right passes, and each mistake is reported where it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_leveret

import leveret

HERE = Path(__file__).parent
RIGHT, WRONG = "test_of_a_user.py", "mistakes.py"
# As a user has it who checks strictly. pika has no types.
MYPY_INI = "[mypy]\nstrict = True\n[mypy-pika.*]\nignore_missing_imports = True\n"
PYRIGHT_CONFIG = {"typeCheckingMode": "standard"}

TIMEOUT_S = 300

Errors = dict[str, dict[int, str]]


def mypy(folder: Path, cache: Path) -> Errors:
    (folder / "mypy.ini").write_text(MYPY_INI, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--no-error-summary", "--no-pretty"]
    said = run([*command, RIGHT, WRONG], folder)

    found: Errors = {RIGHT: {}, WRONG: {}}
    for name, line, text in re.findall(r"^([\w.]+):(\d+): error: (.*)$", said, re.MULTILINE):
        found[name][int(line)] = text
    assert "Traceback" not in said, said
    return found


def pyright(folder: Path, _cache: Path) -> Errors:
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT_CONFIG), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", RIGHT, WRONG]
    said = run(command, folder)

    found: Errors = {RIGHT: {}, WRONG: {}}
    for each in json.loads(said)["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).name][each["range"]["start"]["line"] + 1] = each["message"]
    return found


# Each takes seconds where nothing else runs, and minutes on a busy machine.
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_users_mistakes_are_reported_and_nothing_else(
    checker: Callable[[Path, Path], Errors], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    kept = getattr(pytestconfig, "cache", None)
    cache = tmp_path if kept is None else kept.mkdir("leveret-mypy")
    for name in (RIGHT, WRONG):
        (tmp_path / name).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")

    found = checker(tmp_path, cache)

    lines = (HERE / WRONG).read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(lines, 1) if re.search(r"\S  # ", line)]
    assert found[RIGHT] == {}
    assert {number: lines[number - 1] for number in marked if number not in found[WRONG]} == {}
    assert {number: text for number, text in found[WRONG].items() if number not in marked} == {}


@pytest.mark.parametrize("package", [leveret, pytest_leveret])
def test_checkers_are_told_that_the_packages_are_typed(package: object) -> None:
    assert Path(str(vars(package)["__file__"])).with_name("py.typed").exists()


def run(command: list[str], folder: Path) -> str:
    """Run a checker that sees the packages under test where this process found them; return what it prints."""
    homes = [str(Path(package.__file__).parents[1]) for package in (leveret, pytest_leveret)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*homes, os.environ.get("PYTHONPATH", "")])}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    return ran.stdout or ran.stderr
