"""The tests of each extra, with the oldest releases that the extra allows: are the lower bounds in pyproject.toml true?

    python tools/lowest.py [--keep FOLDER] [plugin] [pipeline]

For each group of extras, uv finds the oldest release of every library that the extras name. They go into an environment
of their own, beside the newest releases of what they need in turn, and of the tools and clients of the tests. `--keep`
keeps the environments in a folder, and takes them from there the next time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The oldest CPython that leveret supports: a newer one may have no wheels of old releases.
PYTHON = "3.11"
_FOR_ALL_TESTS = (
    "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis", "pika", "pamqp", "playwright",
    "axe-playwright-python",
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Extras that can stand in one environment, and the tests that show whether they work."""

    extras: tuple[str, ...]
    # What the tests import beside the extras, in its newest release.
    beside: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "plugin": Group(
        extras=("pytest", "tls", "http", "asyncapi"),
        beside=("aio-pika", "celery", "jsonschema", "openapi-spec-validator", "pyrabbit2", "amqpstorm", "anyio"),
        tests=(
            "tests/plugin", "tests/checks", "tests/explore/test_marker.py", "tests/http", "tests/management",
            "tests/admin/test_tls.py",
        ),
    ),
    "pipeline": Group(
        extras=("pytest", "pipeline", "s3", "sql", "delta", "spark-local"),
        beside=("moto[s3,server]", "boto3"),
        tests=(
            "tests/pipeline/test_kernel.py", "tests/pipeline/test_tidying.py", "tests/pipeline/test_storage.py",
            "tests/pipeline/test_sql.py", "tests/pipeline/test_readers.py", "tests/pipeline/test_report.py",
            "tests/pipeline/test_engines.py", "tests/pipeline/test_own_jvm.py", "tests/spark/test_batch.py",
            "tests/spark/test_rows.py",
        ),
    ),
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests of the named groups, and return the exit status."""
    parser = argparse.ArgumentParser(prog="tools/lowest.py", description="Test the lower bounds of the extras.")
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the environments here")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.groups if name not in GROUPS]:
        parser.error(f"unknown group {unknown[0]!r}; expected some of {', '.join(GROUPS)}")
    with tempfile.TemporaryDirectory(prefix="leveret-lowest-") as temporary:
        folder = options.keep or Path(temporary)
        failed = [name for name in options.groups or GROUPS if not passes(name, folder / name)]
    print(f"lower bounds that do not hold: {', '.join(failed)}" if failed else "all lower bounds hold")
    return 1 if failed else 0


def passes(name: str, folder: Path) -> bool:
    """Tell whether the tests of a group pass; print the releases they ran with."""
    group = GROUPS[name]
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        install(group, folder, python)
    # As users have it: pytest shows values in the failures of a plugin that it finds in an installed package.
    uv("pip", "install", "-q", "--python", str(python), "--no-deps", "--reinstall-package", "leveret", ".")
    print(f"{name}: {' '.join((folder / 'lowest.txt').read_text(encoding='utf-8').split())}", flush=True)
    command = [str(python), "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *group.tests]
    return subprocess.run(command, cwd=ROOT).returncode == 0


def install(group: Group, folder: Path, python: Path) -> None:
    """Make an environment with the oldest releases of the extras, but without leveret."""
    folder.mkdir(parents=True, exist_ok=True)
    oldest = folder / "lowest.txt"
    extras = [argument for extra in group.extras for argument in ("--extra", extra)]
    bounds = ["--resolution", "lowest-direct", "--no-deps", "--python-version", PYTHON, "--no-annotate", "--no-header"]
    uv("pip", "compile", "-q", "pyproject.toml", *extras, *bounds, "-o", str(oldest))
    uv("venv", "-q", "--python", PYTHON, str(folder / "venv"))
    uv("pip", "install", "-q", "--python", str(python), "-r", str(oldest), *_FOR_ALL_TESTS, *group.beside)


def uv(*arguments: str) -> None:
    """Run uv, which is installed beside this Python."""
    subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
