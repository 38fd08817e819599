"""What docs/pipeline.md promises under "Two commands", done on a machine that has next to nothing.

    python tools/two_commands.py [FOLDER]

A new virtual environment, no environment variables but HOME and PATH, and a PATH without Java. The commands are those
of the page, with this checkout in the place of the name on PyPI, and between them a run of the test in the README.
Ends with 1 when there is no report. Downloads Spark (460 MB) unless FOLDER has the environment from before.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(r"^## Two commands\n+```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_RECORD = "pytest --leveret-trace-dir=traces"
# A name of a queue in the example, which a report about it shows.
_QUEUE = "orders.failed"


def main(folder: Path) -> int:
    """Follow the page in this folder."""
    install, report = commands()
    if not (folder / "venv").exists():
        venv.create(folder / "venv", with_pip=True)
    (folder / "home").mkdir(exist_ok=True)
    environment = {"HOME": str(folder / "home"), "PATH": f"{folder / 'venv/bin'}:{path_without_java(folder)}"}
    (folder / "test_orders.py").write_text(example(), encoding="utf-8")
    for command in (install.replace("leveret[", f"{ROOT}["), _RECORD, report):
        print(f"$ {command}", flush=True)
        subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True)
    is_there = _QUEUE in (folder / "report.html").read_text(encoding="utf-8")
    print("the report is about the recorded run" if is_there else "the report does not know the recorded run")
    return 0 if is_there else 1


def commands() -> list[str]:
    """Those that the page names."""
    found = _SECTION.search((ROOT / "docs/pipeline.md").read_text(encoding="utf-8"))
    assert found is not None, "docs/pipeline.md has no commands under 'Two commands'"
    return found[1].splitlines()


def example() -> str:
    """The first test a reader of the README sees."""
    found = _EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "README.md has no example"
    return found[1]


def path_without_java(folder: Path) -> Path:
    """A folder that stands for PATH, with all there is but Java."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    for directory in os.get_exec_path():
        for program in Path(directory).glob("*"):
            link = place / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return place


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(main(Path(sys.argv[1]).resolve()))
    with tempfile.TemporaryDirectory(prefix="leveret-two-commands-") as name:
        sys.exit(main(Path(name)))
