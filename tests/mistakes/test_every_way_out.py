"""Every way out that an error names is taken by a test: a text with one that no test applies fails here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What an error tells its reader to do, after a semicolon: an instruction, or an example.
_INSTRUCTION = re.compile(
    r"(?:;|, or) (?:to [\w ]+, |for [\w ]+, )?(?:add|allow|ask|await|call|check|choose|close|connect|correct|create|"
    r"declare|define|delete|drop|enable|give|ingest|install|keep|leave|let|make|mount|name|open|pass|put|raise|read|"
    r"record|remove|rename|restore|run|save|set|start|stop|take|upgrade|use|wait|write)\b.*",
    re.DOTALL,
)
# What is taken in a test of its own subject, or cannot be taken in a test: the file, or why not.
ELSEWHERE = {
    "add it": "tests/mistakes/test_ways_out_of_calls.py",
    "install leveret[http]": "tests/mistakes/test_ways_out_of_commands.py",
    "install leveret[tls]": "tests/mistakes/test_ways_out_of_commands.py",
    "run one after the other": "tests/trials/test_treatment.py",
    "run it again with --yes": "tests/plugin/test_init.py",
    "run \0`leveret init --try`": "tests/plugin/test_init.py",
    "let only one process ingest a file": "tests/pipeline/test_two_jobs.py",
    "or correct the name": "tests/pipeline/test_storage.py",
    "use another checkpointLocation": "tests/spark/test_stream.py",
    "or set JAVA_HOME": "tests/pipeline/test_session_java.py",
    "pass a log of a trace that was added with the format JSON": "tests/trace/test_firehose.py",
    "pass only messages that were routed by the exchange amq.rabbitmq.trace": "tests/trace/test_firehose.py",
    "pass a log that the plugin wrote, complete but for its last line": "tests/trace/test_firehose.py",
    "leave the file out": "tests/trace/test_trace_file.py",
    "record one with --leveret-trace-dir, and ingest it": "tests/contract/test_drift.py",
    "leave the path out, or end it in \0": "tests/plugin/test_definitions_diff.py",
    "or name a .json file": "tests/contract/documents/test_exporting.py",
    "or give the file as JSON": "tests/contract/documents/test_exporting.py",
    "name it, as in pytest --leveret-flaky 'tests/test_shop.py::test_ship'": "tests/flaky/test_doctor.py",
    "start it first": "tests/plugin/test_standins.py",
    "use fewer processes (--processes 1), or a machine with more memory": "memory runs out",
    "or correct --master (spark://HOST:7077)": "a cluster of Spark",
    "or make a new warehouse from the traces": "a table of one's own on Spark",
    "check that the broker is not overloaded": "a broker with too much to do",
    "upgrade pyspark, or use read, write and writeStream, which work from 4.0": "an old pyspark",
    "close the connections that the test no longer needs, or start a second process with `python -m leveret serve`": (
        "Windows waits with select()"
    ),
}
# Less is in many texts.
_LEAST = 12


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the texts in an expression, with a NUL for each value in them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts_of(child)


def ways_out() -> dict[str, str]:
    """Return where each instruction is, by the instruction, of all that is raised."""
    found = {}
    for folder in ("src", "pytest_plugin"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    for text in texts_of(node.exc):
                        if (match := _INSTRUCTION.search(text)) is not None:
                            found[match[0]] = f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
    return found


def applied() -> str:
    """Return all texts of the tests that apply ways out."""
    files = [*(ROOT / "tests/mistakes").glob("test_ways_out*.py"), ROOT / "tests/spark/test_ways_out.py"]
    return "\n".join(text for file in files for text in texts_of(ast.parse(file.read_text(encoding="utf-8"))))


def is_in(way_out: str, texts: str) -> bool:
    """Return whether texts have an instruction, whatever its values are, or a part of it."""
    pattern = ".{1,80}?".join(re.escape(part) for part in way_out.strip(";, ").split("\0"))
    parts = [part.strip(";, .'`()") for value in way_out.split("\0") for part in re.split("[;,] ", value)]
    return any(part in texts for part in parts if len(part) >= _LEAST) or bool(
        len(pattern) >= _LEAST and re.search(pattern, texts)
    )


def test_every_way_out_that_an_error_names_is_taken_by_a_test() -> None:
    texts, ways = applied(), ways_out()

    untaken = {way: where for way, where in ways.items() if way.strip(";, ") not in ELSEWHERE and not is_in(way, texts)}

    assert untaken == {}, "do what it says in tests/mistakes/test_ways_out_of_*.py"


def test_a_way_out_that_is_taken_elsewhere_is_named_by_an_error() -> None:
    ways = {way.strip(";, ") for way in ways_out()}

    assert [way for way in ELSEWHERE if way not in ways] == []
    assert [place for place in ELSEWHERE.values() if "/" in place and not (ROOT / place).exists()] == []
