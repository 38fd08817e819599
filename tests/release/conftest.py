"""A wheel and an sdist of this checkout, built once for all tests, without the network."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Distribution:
    """A built file, and its members by their paths in the source tree."""

    path: Path
    members: dict[str, bytes]


@pytest.fixture(scope="session")
def sdist(built: Path) -> Distribution:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        members = {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}
    return Distribution(path, members)


@pytest.fixture(scope="session")
def wheel(built: Path) -> Distribution:
    (path,) = built.glob("*.whl")
    return Distribution(path, members_of_wheel(path.read_bytes()))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder, "sdist", "wheel")
    return folder


def build(source: Path, target: Path, *kinds: str) -> None:
    """Build with hatchling itself: `python -m build --no-isolation` does the same in more processes."""
    targets = [argument for kind in kinds for argument in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *targets]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def members_of_wheel(content: bytes) -> dict[str, bytes]:
    """Return the files of a wheel by their names."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
