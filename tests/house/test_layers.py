"""Who imports whom, and what an import costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

# Each costs more than all of leveret, and a test suite that does not use it should not pay for it.
DEAR_MODULES = ("asyncio", "ssl", "logging")


def test_every_layer_imports_only_what_stands_below_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = lint_imports(config_filename=f"{root}/pyproject.toml", no_cache=True)

    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


@pytest.mark.parametrize("statement", ["import leveret", "from leveret import Broker", "Broker().start().stop()"])
def test_nothing_dear_is_imported_before_it_is_asked_for(statement: str) -> None:
    code = f"from leveret import Broker; {statement}" if statement.startswith("Broker") else statement

    imported = modules_after(code)

    assert [name for name in DEAR_MODULES if name in imported] == []


def test_pytest_loads_the_plugin_without_loading_the_broker() -> None:
    imported = modules_after("import pytest_leveret.plugin")

    assert [name for name in imported if name.split(".")[0] == "leveret"] == []


def modules_after(code: str) -> list[str]:
    """This returns the names in sys.modules of a fresh interpreter that ran `code`."""
    program = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.split()
