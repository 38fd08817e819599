"""The commands of docs/how-to/pipeline.md, "Two commands", run on a machine with almost nothing installed.

    python tools/two_commands.py [FOLDER]

It creates a new virtual environment, sets no environment variables but HOME and PATH, and leaves Java out of PATH. It
runs the commands of the page, with this checkout in place of the name on PyPI, and between them the test in the README.
It exits with 1 if there is no report. It downloads Spark (460 MB) unless FOLDER holds the environment of an earlier
run.
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
# A comment may stand before the commands: what the tests of the page need.
_SECTION = re.compile(r"^## Two commands\n+(?:<!--.*?-->\n)?```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_RECORD = "pytest --leveret-trace-dir=traces"
# A queue name in the example, which a report about it contains.
_QUEUE = "orders.failed"


def main(folder: Path) -> int:
    """Follow the page in this folder, and return the exit status."""
    install, report = commands()
    if not (folder / "venv").exists():
        venv.create(folder / "venv", with_pip=True)
    (folder / "home").mkdir(exist_ok=True)
    environment = {"HOME": str(folder / "home"), "PATH": f"{folder / 'venv/bin'}:{path_without_java(folder)}"}
    (folder / "test_orders.py").write_text(example(), encoding="utf-8")
    for command in (install.replace("leveret[", f"{ROOT}["), _RECORD, report):
        print(f"$ {command}", flush=True)
        subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True)
    is_in_report = _QUEUE in (folder / "report.html").read_text(encoding="utf-8")
    print("the report is about the recorded run" if is_in_report else "the report does not contain the recorded run")
    return 0 if is_in_report else 1


def commands() -> list[str]:
    """Return the commands that the page names."""
    found = _SECTION.search((ROOT / "docs/how-to/pipeline.md").read_text(encoding="utf-8"))
    assert found is not None, "docs/how-to/pipeline.md has no commands under 'Two commands'"
    return found[1].splitlines()


def example() -> str:
    """Return the first test in the README."""
    found = _EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "README.md has no example"
    return found[1]


def path_without_java(folder: Path) -> Path:
    """Return a folder to use as PATH, with everything on it except Java."""
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
