"""What GitHub reads: workflows that are valid and ask for little, and forms that GitHub can show.

No test can run a workflow. These find what makes GitHub refuse one, and what must agree with other files.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.release.conftest import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("dependabot", [GITHUB / "dependabot.yml"]),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE/config.yml"]),
    ],
)
def test_files_follow_the_schema_that_github_publishes(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)]

    done = subprocess.run(command, capture_output=True, text=True)

    assert files
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_may_only_read_unless_a_job_needs_more() -> None:
    asked = {
        (path.stem, name): job["permissions"]
        for path in WORKFLOWS
        for name, job in read(path)["jobs"].items()
        if "permissions" in job
    }

    assert {path.stem: read(path)["permissions"] for path in WORKFLOWS} == {
        path.stem: {"contents": "read"} for path in WORKFLOWS
    }
    assert asked == {
        ("docs", "deploy"): {"pages": "write", "id-token": "write"},
        ("publish", "publish"): {"id-token": "write"},
    }


def test_workflows_know_no_secret() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)

    assert re.findall(r"secrets\s*[.\[]|password:|token:(?! write)", text) == []


def test_publishing_waits_for_the_tests_and_runs_no_code_of_ours() -> None:
    publish = read(GITHUB / "workflows/publish.yml")["jobs"]["publish"]

    assert set(publish["needs"]) == {"tests", "build"}
    assert publish["environment"]["name"] == "pypi"
    assert [step for step in publish["steps"] if "run" in step] == []


def test_tests_run_on_every_cpython_that_the_project_names() -> None:
    classifiers = pyproject()["project"]["classifiers"]
    supported = [found[1] for line in classifiers if (found := re.fullmatch(r"Programming .* :: (3\.\d+)", line))]
    matrix = read(GITHUB / "workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]

    assert matrix["python"] == supported
    assert f"PYTHONS = {supported}".replace("'", '"') in (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert {row["os"] for row in matrix["include"]} == {"macos-latest", "windows-latest"}
    assert {row["python"] for row in matrix["include"]} == {supported[0], supported[-1]}


def test_workflows_run_sessions_and_extras_that_exist() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE)
    extras = pyproject()["project"]["optional-dependencies"]

    used = read(GITHUB / "workflows/tests.yml")["jobs"]["sessions"]["strategy"]["matrix"]["session"]

    assert set(used) <= set(sessions)
    assert {name for group in re.findall(r"\.\[([\w,-]+)\]", text) for name in group.split(",")} <= set(extras)


def test_bug_form_asks_for_all_that_is_needed_to_see_the_bug() -> None:
    fields = {field["id"]: field for field in read(GITHUB / "ISSUE_TEMPLATE/bug.yml")["body"]}

    assert {"test", "leveret", "rabbitmq", "client"} <= {
        name for name, field in fields.items() if field.get("validations", {}).get("required")
    }


def pyproject() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))
