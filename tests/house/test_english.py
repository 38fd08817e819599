"""Words that make English read as translated, and the few places where one of them is right.

The test reads what people read: pages, templates, docstrings, comments, and strings that contain a space, which are
messages. It skips names, code in backquotes and fenced blocks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.repository import SourceFile

# The word, and what to write instead.
WORDS = {
    "nobody|somebody|anybody|everybody|no one|someone|whoever|who asks": "the user, the test, the client, the consumer",
    "tell|tells|told|telling": "report, say, name, list, record or notify",
    "meant": "intend, select, match or refer to",
    "befall|befalls|befell": "affect or happen to",
    "strike|strikes|struck|striking": "apply, fire or affect",
    "is there|are there|was there|were there|is not there|are not there": "exist",
    "is called|are called": "is named",
    "comes about|come about|came about": "happen",
    "octet|octets": "byte, bytes",
}
# Where a word is the right one: part of a path, and the word.
EXEMPT: tuple[tuple[str, str], ...] = (
    # AMQP specifies the wire format in octets, and RabbitMQ's own texts count in them.
    ("src/leveret/core/wire/", "octet"),
    ("src/leveret/core/protocol/refusals.py", "octet"),
    # It lists the words.
    ("tests/house/test_english.py", ""),
)
PATTERN = re.compile(r"\b(" + "|".join(WORDS) + r")\b", re.IGNORECASE)


@pytest.mark.parametrize("folder", ["docs", "src", "pytest_plugin", "examples", "."])
def test_our_english_uses_none_of_the_words_that_read_as_translated(folder: str, text_files: list[SourceFile]) -> None:
    found = [
        f"{file.path}:{line}: {word!r} (better: {replacement_for(word)}): {text.strip()[:90]}"
        for file in text_files
        if is_in(file.path, folder)
        for line, word, text in offences(file)
    ]

    assert found == []


def replacement_for(word: str) -> str:
    """Return what to write instead of a forbidden word."""
    return next(better for words, better in WORDS.items() if word.lower() in words.split("|"))


def is_in(path: str, folder: str) -> bool:
    """Return whether a file belongs to a folder; "." is the pages at the top of the repository."""
    return "/" not in path if folder == "." else path.startswith(f"{folder}/")


def offences(file: SourceFile) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the word and the text of each forbidden word in a file."""
    for line, text in prose(file):
        for match in PATTERN.finditer(re.sub(r"`[^`]*`", "``", text)):
            if not is_exempt(file.path, match[0].lower()):
                yield line + text.count("\n", 0, match.start()), match[0], text


def is_exempt(path: str, word: str) -> bool:
    """Return whether a word may stand in this file."""
    return any(part in path and exempt in word for part, exempt in EXEMPT)


def prose(file: SourceFile) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file that people read, each with its first line."""
    if file.path.endswith(".md"):
        yield from paragraphs(file)
    elif file.path.endswith(".py"):
        yield from strings_and_comments(file)
    elif file.path.endswith(".html"):
        # Without names such as `fault.struck`.
        yield 1, re.sub(r"\w+(\.\w+)+", "", file.text)


def paragraphs(file: SourceFile) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside fenced blocks."""
    is_code = False
    for number, line in enumerate(file.lines, start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def strings_and_comments(file: SourceFile) -> Iterator[tuple[int, str]]:
    """Yield the comments, docstrings and messages of a module."""
    yield from file.comments
    for node in file.nodes(ast.Constant):
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value
