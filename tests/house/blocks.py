"""The fenced blocks of the pages: README.md, CONTRIBUTING.md and everything in docs.

A page reads as it stands on the site. What only the tests need is in HTML comments, each on a line before its block:

- `<!-- not run: REASON -->`: the block cannot run here, and why.
- `<!-- raises: NAME -->`: the tests of the block show a failure; NAME is what they raise, such as `AssertionError` or
  `leveret.ExplorationFailedError`.
- `<!-- setup`, then lines in the language of the block, then `-->`: lines that run before a block of Python or shell.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.house.repository import ROOT

# Blocks in these languages are output and diagrams: there is nothing to run.
SHOWN: Final = ("text", "mermaid")
# tests/house/test_tutorial.py follows the tutorial as a reader does: its titles name the reader's own files.
FOLLOWED: Final = "docs/tutorial/"
_COMMENT: Final = r"^[ \t]*<!--[ \t]*(?P<word>not run|raises|setup)\b:?(?P<said>.*?)-->"
_FENCE: Final = r"^(?P<indent>[ \t]*)(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<code>.*?)^[ \t]*(?P=fence)[ \t]*$"
_CHUNK: Final = re.compile(f"{_COMMENT}|{_FENCE}", re.DOTALL | re.MULTILINE)
_TITLE: Final = re.compile(r'\btitle="([^"]*)"')


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with what the comments before it say."""

    # The path of the page, from the root of the repository.
    page: str
    # The line of the page on which the code starts.
    line: int
    language: str
    code: str
    # The file of the repository that the block quotes.
    title: str | None = None
    not_run: str | None = None
    raises: str | None = None
    # Hidden lines, and the line of the page on which they start.
    setup: str = ""
    setup_line: int = 0

    @property
    def place(self) -> str:
        """Where the block stands, as an editor opens it."""
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        """True if the block itself is run, rather than a file that it quotes."""
        return self.not_run is None and self.title is None


def pages() -> list[str]:
    """Return the paths of the pages whose blocks are run one by one, from the root of the repository."""
    docs = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", "CONTRIBUTING.md", *sorted(page for page in docs if not page.startswith(FOLLOWED))]


@cache
def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return parse(page, (ROOT / page).read_text(encoding="utf-8"))


def parse(page: str, text: str) -> list[Block]:
    """Return the blocks in the text of a page. Raises ValueError if a comment has no block to speak of."""
    found: list[Block] = []
    said: dict[str, tuple[int, str]] = {}
    for match in _CHUNK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if (word := match["word"]) is not None:
            if word in said:
                raise ValueError(f"{page}:{line}: `<!-- {word} -->` twice before one block; join them, or remove one")
            said[word] = (line, match["said"])
            continue
        language, _, rest = match["info"].strip().partition(" ")
        title = _TITLE.search(rest)
        setup_line, setup = said.pop("setup", (0, ""))
        raises = said.pop("raises", None)
        not_run = said.pop("not run", None)
        found.append(
            Block(
                page,
                line + 1,
                language,
                re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE),
                title=title[1] if title else None,
                not_run=not_run[1].strip() if not_run else None,
                raises=raises[1].strip() if raises else None,
                setup=textwrap.dedent(setup.partition("\n")[2]),
                setup_line=setup_line + 1,
            )
        )
    for word, (line, _) in said.items():
        raise ValueError(
            f"{page}:{line}: no block follows `<!-- {word} -->`; put it on the line before one, or remove it"
        )
    return found


def excerpt_problem(block: Block) -> str | None:
    """Return how a block differs from the file that its title names, or None if its lines are there, at any margin."""
    path = ROOT / (block.title or "")
    if not block.title or not path.is_file():
        return f'{block.place}: title="{block.title}" is no file of the repository; name one, from its root'
    theirs = path.read_text(encoding="utf-8").splitlines()
    # A block may stand further to the left than its lines do in the file.
    ours = textwrap.dedent(block.code).rstrip("\n").splitlines()
    starts = [number for number, line in enumerate(theirs) if ours and line.lstrip() == ours[0].lstrip()]
    same = {start: _same(ours, _moved_left(theirs[start : start + len(ours)])) for start in starts}
    if len(ours) in same.values():
        return None
    if not starts:
        return f"{block.place}: {block.title} has no line {ours[0] if ours else ''!r}; copy the lines from the file"
    best = max(same, key=lambda start: same[start])
    count = same[best]
    there = theirs[best + count] if best + count < len(theirs) else "the end of the file"
    return (
        f"{block.page}:{block.line + count}: differs from {block.title}:{best + count + 1}; copy the lines from there\n"
        f"    the page: {ours[count]!r}\n    the file: {there!r}"
    )


def _moved_left(lines: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(lines)).splitlines()


def _same(ours: list[str], theirs: list[str]) -> int:
    """Return how many lines are the same before the first difference."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((count for count, (our, their) in pairs if our != their), min(len(ours), len(theirs)))
