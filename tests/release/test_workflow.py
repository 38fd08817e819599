"""The workflow of docs/how-to/ci.md: its commands run in a project, as a CI service runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PAGE = Path(__file__).parents[2] / "docs/how-to/ci.md"
TESTS = """
import json

import pika

def place(url, total):
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": "shop"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", json.dumps({"total": TOTAL}).encode())

def test_an_order_is_billed(leveret):
    place(leveret.url, 7)
    parameters = pika.URLParameters(leveret.url)
    parameters.client_properties = {"connection_name": "billing"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        method, _, body = channel.basic_get("orders")
        channel.basic_ack(method.delivery_tag)
        assert json.loads(body)["total"]
"""


class Project:
    """A project with the ini file of the page, in which the commands of the workflow run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        page = PAGE.read_text(encoding="utf-8").partition("## One workflow with everything")[2]
        workflow, self.ini = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("yaml", "ini"))
        steps = yaml.safe_load(workflow)["jobs"]["test"]["steps"]
        self.commands = [step["run"] for step in steps if "run" in step]
        self.artifact = folder / next(step["with"]["path"] for step in steps if "artifact" in step.get("uses", ""))
        (folder / "pytest.ini").write_text(self.ini, encoding="utf-8")

    def send(self, total: str) -> None:
        """Let the shop send this total."""
        (self.folder / "test_shop.py").write_text(TESTS.replace("TOTAL", total), encoding="utf-8")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTEST_ADDOPTS": "-p no:pytest_nameko -p no:django"}
        return subprocess.run(
            command, shell=True, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.send('"12.50"')
    written = project.run("pytest --leveret-contract=write")
    assert written.returncode == 0, written.stdout
    return project


def test_the_workflow_installs_tests_and_reports(project: Project) -> None:
    install, test, report = project.commands

    assert install.startswith("pip install")
    tested, reported = project.run(test), project.run(report)

    assert (tested.returncode, reported.returncode) == (0, 0), tested.stdout + reported.stdout + reported.stderr
    assert (project.artifact / "report.html").stat().st_size > 10_000
    assert list((project.artifact / "traces").glob("*.gz"))


def test_the_workflow_fails_for_a_broken_contract_and_keeps_its_page(project: Project) -> None:
    _, test, report = project.commands
    project.send("12.5")

    tested, reported = project.run(test), project.run(report)

    assert tested.returncode == 1
    assert "`total` is number, and was decimal" in tested.stdout
    assert reported.returncode == 0, reported.stderr
    (page,) = (page for page in (project.artifact / "pages").rglob("*.html") if page.name != "index.html")
    assert "test_an_order_is_billed" in page.name
    assert "test_an_order_is_billed" in (project.artifact / "report.html").read_text(encoding="utf-8")
