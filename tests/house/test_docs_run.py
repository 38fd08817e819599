"""Every block of a page is run, is an excerpt of a file that is run, or says why it is not.

The comments that a page may hold are described in tests/house/blocks.py. pytest collects the blocks of Python and shell
as tests of the page (tests/house/pages.py): `pytest tests/house/test_docs_run.py -k time.md` runs those of time.md.
"""

from __future__ import annotations

import configparser
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.house.blocks import SHOWN, Block, blocks_of, excerpt_problem, pages
from tests.house.repository import SourceFile
from tests.house.shell import lines_of, problems_of

ROOT = Path(__file__).parents[2]
# Messages that a page quotes. They must be in the code in the same words.
QUOTED = {
    "reference/checks.md": (
        "lost: routed to no queue, unnoticed by the publisher",
        " no binding of ",
        "if you expect this: ",
    ),
    "how-to/exploring.md": (
        "Unlike the run without a fault:",
        "is lost after the broker has handled this; no answer arrives",
        " was never ",
        "How the scenario failed:",
        "Replay it:",
    ),
    "reference/faults.md": ("not in confirm mode", "held back by the fault"),
    "reference/upgrade-report.md": ("leveret: upgrade report", "passes on both, but: ", "passes only on "),
    "reference/failure-report.md": (
        "errors sent to clients:",
        "Ways out:",
        "declare the queue with durable=True (or exclusive=True)",
    ),
}
RUN: Final = ("python", "sh")


@pytest.mark.parametrize("page", pages())
def test_each_block_of_a_page_is_checked(page: str, pytestconfig: pytest.Config) -> None:
    problems = [problem for block in blocks_of(page) for problem in problems_in(block, pytestconfig)]

    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, texts in QUOTED.items() for text in texts])
def test_a_message_quoted_on_a_page_is_one_of_the_code(page: str, text: str, source_files: list[SourceFile]) -> None:
    assert text in (ROOT / "docs" / page).read_text(encoding="utf-8").replace("\n", " ")
    assert any(text in file.text for file in source_files), f"docs/{page} quotes {text!r}, which no source file has"


def problems_in(block: Block, config: pytest.Config) -> Iterator[str]:
    """Return what is wrong with a block as it is written, and what to do."""
    if block.not_run is not None and len(block.not_run.split()) < 3:
        yield f"{block.place}: <!-- not run: {block.not_run} --> gives no reason; say what the block lacks here"
    if block.title is not None and (problem := excerpt_problem(block)):
        yield problem
    if block.language in PARSED:
        try:
            yield from (f"{block.place}: {problem}" for problem in PARSED[block.language](block.code, config))
        except ValueError as error:
            if block.not_run is None:
                yield f"{block.place}: this is no {block.language}: {error}"
    elif not block.language:
        yield f"{block.place}: the block names no language; write ```python, ```sh ..., or ```text for what is shown"
    elif block.language not in (*RUN, *SHOWN) and block.not_run is None and block.title is None:
        yield (
            f"{block.place}: blocks in {block.language!r} are not run here; quote a file that is, with "
            '```language title="path", or say why on the line before: <!-- not run: REASON -->'
        )


def in_shell(code: str, config: pytest.Config) -> list[str]:
    return [problem for line in lines_of(code) for problem in problems_of(line, config)]


def in_ini(code: str, config: pytest.Config) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(code)
    return [problem for section in parser for problem in unknown_options(parser[section], config)]


def in_toml(code: str, config: pytest.Config) -> list[str]:
    tool = tomllib.loads(code).get("tool", {})
    pytest_table = tool.get("pytest", {})
    return unknown_options({**pytest_table, **pytest_table.get("ini_options", {})}, config)


def unknown_options(names: Any, config: pytest.Config) -> list[str]:
    """Return the options of leveret that are not among those of its plugin."""
    return [
        f"the plugin has no option {name}" for name in names if name.startswith("leveret") and not has(config, name)
    ]


def has(config: pytest.Config, name: str) -> bool:
    try:
        config.getini(name)
    except ValueError:
        return False
    return True


def in_json(code: str, config: pytest.Config) -> list[str]:
    """Read one document, or one on each line."""
    try:
        json.loads(code)
    except ValueError:
        for line in code.splitlines():
            json.loads(line)
    return []


def in_yaml(code: str, config: pytest.Config) -> list[str]:
    """Read the documents and check the commands of the steps in them, as CI runs them."""
    try:
        documents = list(yaml.safe_load_all(code))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    return [problem for command in commands_in(documents) for problem in in_shell(command, config)]


def commands_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("run", "script") and isinstance(inner, str):
                yield inner
            else:
                yield from commands_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from commands_in(inner)


PARSED: Final[dict[str, Callable[[str, pytest.Config], list[str]]]] = {
    "sh": in_shell,
    "ini": in_ini,
    "toml": in_toml,
    "json": in_json,
    "yaml": in_yaml,
}
