"""The files that are published: what is in them, what their page on PyPI shows, and that nothing else is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.release.conftest import ROOT, Distribution, build

PACKAGES = {"leveret": "src/leveret", "pytest_leveret": "pytest_plugin/pytest_leveret"}
# A private key, and the tokens of PyPI, GitHub and AWS.
SECRETS = re.compile(
    rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\n[A-Za-z0-9+/]{40}"
    rb"|pypi-AgEI[\w-]{20}|gh[pousr]_\w{36}|AKIA[A-Z0-9]{16}\b"
)
REPOSITORY = "https://github.com/leveret-broker/leveret"
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def test_wheel_holds_exactly_the_two_packages(wheel: Distribution) -> None:
    source = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    inside = {name for name in wheel.members if ".dist-info/" not in name}

    assert inside == source
    assert {name.rpartition("/")[2] for name in wheel.members if ".dist-info/" in name} == {
        "METADATA", "RECORD", "WHEEL", "LICENSE", "entry_points.txt",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "leveret/py.typed",
        "pytest_leveret/py.typed",
        "leveret/page/assets/app.js",
        "leveret/page/assets/style.css",
        "leveret/http/live/assets/live.js",
        "leveret/pipeline/report/assets/flow.js",
        "leveret/pipeline/report/templates/page.html",
    ],
)
def test_wheel_holds_what_python_does_not_import(wheel: Distribution, name: str) -> None:
    assert wheel.members[name] or name.endswith("py.typed")


def test_wheel_stays_small(wheel: Distribution) -> None:
    assert wheel.path.stat().st_size < 1_530_000
    assert len(wheel.members) < 600


def test_sdist_holds_everything_that_git_tracks(sdist: Distribution) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone, so there is no list of files to compare with")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).exists()}

    missing = tracked - set(sdist.members)

    assert missing == set(), "the section [tool.hatch.build.targets.sdist] in pyproject.toml leaves these out"


def test_sdist_stays_small(sdist: Distribution) -> None:
    assert sdist.path.stat().st_size < 4_500_000
    assert len(sdist.members) < 2_500


def test_neither_holds_caches_or_secrets(wheel: Distribution, sdist: Distribution) -> None:
    made = re.compile(
        r"(^|/)(__pycache__|\.\w+_cache|\.venv|\.git|node_modules)/|^(dist|site)/|\.(pyc|pem|key|env|pypirc)$"
    )
    members = {**wheel.members, **sdist.members}

    assert [name for name in members if made.search(name)] == []
    assert [name for name, content in members.items() if SECRETS.search(content)] == []


def test_sdist_builds_the_same_wheel(wheel: Distribution, sdist: Distribution, tmp_path: Path) -> None:
    with tarfile.open(sdist.path) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()

    build(source, tmp_path / "dist", "wheel")

    (again,) = (tmp_path / "dist").glob("*.whl")
    assert again.name == wheel.path.name
    assert again.read_bytes() == wheel.path.read_bytes()


def test_page_on_pypi_has_no_link_that_leads_nowhere(wheel: Distribution) -> None:
    metadata = metadata_of(wheel)
    text = re.sub(r"```.*?```", "", str(metadata.get_payload()), flags=re.DOTALL)
    tag = f"v{metadata['Version']}"

    links = [first or second for first, second in LINK.findall(text)]
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    files = [re.sub(r"^https://[^#]*?/v[\d.]+/", "", link).partition("#")[0] for link in links if f"/{tag}/" in link]

    assert relative == []
    assert files, "the README links to no file of the repository"
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_metadata_say_where_the_project_lives(wheel: Distribution) -> None:
    metadata = metadata_of(wheel)
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))

    assert set(urls) == {"Homepage", "Documentation", "Repository", "Changelog", "Issues"}
    assert urls["Repository"] == REPOSITORY
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"


def test_only_extras_need_anything(wheel: Distribution) -> None:
    needed = [Requirement(line) for line in metadata_of(wheel).get_all("Requires-Dist", [])]

    assert [str(one) for one in needed if one.marker is None or "extra" not in str(one.marker)] == []


def test_broker_runs_on_the_standard_library_alone(wheel: Distribution, empty: Path) -> None:
    program = (
        "import sys, leveret\n"
        "with leveret.Broker() as broker:\n"
        "    broker.declare_queue('q')\n"
        "    broker.publish('', 'q', b'hello')\n"
        "    broker.assert_published(routing_key='q')\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "print(leveret.__version__, sorted(roots - sys.stdlib_module_names - {'__main__', 'leveret'}))\n"
    )

    done = run(empty, "-I", "-c", program)

    assert done.stdout.strip() == f"{metadata_of(wheel)['Version']} []"


def test_command_runs_on_the_standard_library_alone(empty: Path) -> None:
    (command,) = empty.parent.glob("leveret*")

    done = run(command, "serve", "--help")

    assert "usage: leveret serve" in done.stdout


def test_first_test_passes_with_pytest_and_pika_only(wheel: Distribution, tmp_path: Path) -> None:
    python = environment_with(wheel, tmp_path, "pytest", "pika")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code, *_) = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / "test_first.py").write_text(code, encoding="utf-8")

    done = run(python, "-m", "pytest", "-q", "-W", "error", "test_first.py", cwd=tmp_path)

    assert "1 passed" in done.stdout


@pytest.fixture(scope="module")
def empty(wheel: Distribution, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment that has this wheel and nothing else."""
    return environment_with(wheel, tmp_path_factory.mktemp("empty"))


def metadata_of(wheel: Distribution) -> Message:
    """Return the metadata of a wheel."""
    (name,) = (name for name in wheel.members if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.members[name].decode())


def environment_with(wheel: Distribution, folder: Path, *names: str) -> Path:
    """Make a virtual environment with this wheel, and with libraries as they are installed here; return its Python.

    Copying what is installed needs no network. tools/release.py installs from PyPI instead.
    """
    home = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = next(path for path in (home / "bin/python", home / "Scripts/python.exe") if path.exists())
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-compile", str(wheel.path)], check=True, capture_output=True)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    for name in with_requirements(*names):
        copy_installed(name, packages)
    return python


def with_requirements(*names: str) -> set[str]:
    """Return these distributions and all that they require here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            required = map(Requirement, distribution(name).requires or ())
            waiting += [one.name for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def copy_installed(name: str, target: Path) -> None:
    """Copy the files of an installed distribution, without its commands."""
    for file in distribution(name).files or ():
        if ".." not in file.parts:
            destination = target / file
            destination.parent.mkdir(parents=True, exist_ok=True)
            # Python takes a compiled file only beside a source with the same time.
            shutil.copy2(str(file.locate()), destination)


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command, and show all that it printed if it fails."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done
