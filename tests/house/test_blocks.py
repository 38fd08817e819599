"""How the blocks of a page are read, and what their failures say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.house import pages
from tests.house.blocks import Block, excerpt_problem, parse
from tests.house.shell import problems_of, run_shell
from tests.house.test_docs_run import problems_in

FENCE = "```"


def page(*lines: str) -> str:
    return "\n".join(line.replace("'''", FENCE) for line in lines) + "\n"


def test_a_block_has_its_line_and_its_comments() -> None:
    text = page(
        "# A page", "", "<!-- setup", "order = 7", "-->", "<!-- raises: ValueError -->", "'''python", "1", "'''"
    )

    (block,) = parse("docs/a.md", text)

    assert (block.line, block.language, block.code) == (8, "python", "1\n")
    assert (block.setup, block.setup_line, block.raises) == ("order = 7\n", 4, "ValueError")


def test_a_block_in_a_list_loses_its_indent() -> None:
    (block,) = parse("docs/a.md", page("- a list", "", "  '''python title=\"src/a.py\"", "  if 1:", "      2", "  '''"))

    assert (block.code, block.title) == ("if 1:\n    2\n", "src/a.py")


def test_a_comment_without_a_block_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"docs/a.md:1: no block follows `<!-- not run -->`"):
        parse("docs/a.md", page("<!-- not run: it needs a server -->", "The end."))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("'''", "1", "'''"), "docs/a.md:2: the block names no language"),
        (("'''ruby", "1", "'''"), "docs/a.md:2: blocks in 'ruby' are not run here"),
        (("<!-- not run: later -->", "'''ruby", "1", "'''"), "gives no reason"),
        (("'''json", "{", "'''"), "docs/a.md:2: this is no json"),
        (("'''ini", "[pytest]", "leveret_rabitmq = 4.3", "'''"), "the plugin has no option leveret_rabitmq"),
        (("'''toml", "[tool.pytest.ini_options]", "leveret_sed = 7", "'''"), "the plugin has no option leveret_sed"),
        (("'''yaml", "steps:", "  - run: leveret pipeline reprot", "'''"), "invalid choice: 'reprot'"),
        (("'''sh", "pytest --leveret-rabitmq=4.3", "'''"), "pytest has no option --leveret-rabitmq"),
        (("'''sh", "pip install 'leveret[pytst]'", "'''"), "has no extra 'pytst'"),
        (("'''python title=\"src/none.py\"", "1", "'''"), 'title="src/none.py" is no file of the repository'),
    ],
)
def test_a_block_that_cannot_be_right_is_reported(
    lines: tuple[str, ...], problem: str, pytestconfig: pytest.Config
) -> None:
    (block,) = parse("docs/a.md", page(*lines))

    (found,) = problems_in(block, pytestconfig)

    assert problem in found


def test_an_excerpt_has_the_lines_of_the_file_to_the_letter() -> None:
    here = Path(__file__).read_text(encoding="utf-8").splitlines()
    start = here.index("def page(*lines: str) -> str:")
    title = "tests/house/test_blocks.py"
    same = Block("docs/a.md", 5, "python", "\n".join(here[start : start + 2]), title)
    body = Block("docs/a.md", 5, "python", here[start + 1].strip(), title)
    other = Block("docs/a.md", 5, "python", f"{here[start]}\n    return lines\n", title)

    assert excerpt_problem(same) is None
    assert excerpt_problem(body) is None
    assert f"docs/a.md:6: differs from {title}:{start + 2}" in (excerpt_problem(other) or "")


def test_a_statement_that_fails_is_named_by_its_line_on_the_page(request: pytest.FixtureRequest) -> None:
    test = added(Block("README.md", 12, "python", "order = 7\nassert order == 8\n"))["test_block_at_line_12"]

    with pytest.raises(AssertionError) as error:
        test(request)

    assert (Path(error.traceback[-1].path).name, error.traceback[-1].lineno + 1) == ("README.md", 13)


def test_a_block_uses_a_broker_of_its_own_and_what_earlier_blocks_made(request: pytest.FixtureRequest) -> None:
    names = added(Block("README.md", 3, "python", "def name():\n    return 'orders'\n"))
    code = "found = [queue.name for queue in leveret.queues]\n"
    pages._add(names, Block("README.md", 9, "python", code, setup="leveret.declare_queue(name())", setup_line=7))

    names["test_block_at_line_9"](request)

    assert names["found"] == ["orders"]
    assert "leveret" not in names


def test_a_block_may_await(request: pytest.FixtureRequest) -> None:
    names = added(Block("README.md", 3, "python", "import asyncio\nresult = await asyncio.sleep(0, 7)\n"))

    names["test_block_at_line_3"](request)

    assert names["result"] == 7


def test_a_block_that_cannot_be_imported_fails_alone_and_says_what_to_do() -> None:
    names = added(Block("README.md", 3, "python", "def test_it(leveret: Brokr): ...\n"))

    with pytest.raises(NameError) as error:
        names["test_block_at_line_3"]()

    assert "README.md:3" in error.value.__notes__[0]
    assert "<!-- not run: REASON -->" in error.value.__notes__[0]


def test_a_name_for_two_tests_is_an_error() -> None:
    names = added(Block("README.md", 3, "python", "def test_it(): ...\n"))
    pages._add(names, Block("README.md", 7, "python", "def test_it(): ...\n"))

    with pytest.raises(ValueError, match="test_it is the name of two tests of this page"):
        names["test_block_at_line_7"]()


def test_a_command_that_fails_shows_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(pytest.fail.Exception, match=r"README.md:3: exit code 3 of `echo no; exit 3`.*\nno\n"):
        run_shell(Block("README.md", 3, "sh", "echo no; exit 3\n"))


def test_a_command_with_its_options_is_no_problem(pytestconfig: pytest.Config) -> None:
    line = "pip install 'leveret[http]' && leveret pipeline report traces --run abcd && pytest --leveret-rabbitmq=4.3"

    assert list(problems_of(line, pytestconfig)) == []


def added(block: Block) -> dict[str, Any]:
    """Return the namespace of a page that has one block."""
    names: dict[str, Any] = {"__name__": "page"}
    pages._add(names, block)
    return names
