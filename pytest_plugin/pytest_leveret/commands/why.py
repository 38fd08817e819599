"""The command `leveret why`: why the tests of the last run failed, from the JSON beside their pages.

It reads files and words nothing: the causes carry their sentences. What it prints of a test fits 500 tokens.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from leveret.wording import count_text

# The most characters that it prints of one test: about 500 tokens.
SHOWN_MAX: Final = 2_000
_PART_MAX: Final = 500
_LINE_MAX: Final = 160
# How lines begin that are sentences.
_UNCERTAIN: Final = "no cause is certain; noticed: "
_SENTENCES: Final = ("cause: ", "another broker: ", "also noticed: ", _UNCERTAIN)
_EVIDENCE_MAX: Final = 6
_IN_CACHE: Final = Path(".pytest_cache", "d", "leveret-pages")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    why = commands.add_parser(
        "why",
        help="print why the tests of the last run failed",
        description="Print why the tests of the last run failed: the causes, the error, the line, and what shows it. "
        "At most 500 tokens of each test.",
    )
    why.add_argument(
        "test", nargs="?", metavar="NODEID", help="a test, or a part of its name (default: all that failed)"
    )
    why.add_argument(
        "--pages-dir",
        metavar="DIR",
        type=Path,
        default=os.environ.get("LEVERET_PAGES_DIR") or None,
        help="where the pages are (default: LEVERET_PAGES_DIR, or else the last run in pytest's cache)",
    )
    why.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    folder = _newest_run() if options.pages_dir is None else Path(options.pages_dir)
    failed = [(path, facts) for path, facts in _facts_in(folder) if facts["test"].get("outcome") != "passed"]
    if not failed:
        raise ValueError(
            f"no failed test has a page in {folder}; run the test that fails, or name the folder of its run with "
            "--pages-dir"
        )
    chosen = [(path, facts) for path, facts in failed if options.test is None or options.test in facts["test"]["id"]]
    if not chosen:
        names = "\n".join(f"  {facts['test']['id']}" for _, facts in failed)
        raise ValueError(f"NODEID {options.test!r} is no test that failed; these are:\n{names}")
    print("\n\n".join(why_text(facts, str(path.with_suffix(".html"))) for path, facts in chosen))
    return 0


def _newest_run() -> Path:
    runs = [path for path in _IN_CACHE.glob("*") if path.is_dir()]
    return max(runs, key=lambda path: path.stat().st_mtime_ns, default=_IN_CACHE)


def _facts_in(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if "causes" in facts and "test" in facts:
            yield path, facts


def why_text(facts: dict[str, Any], page: str) -> str:
    """Return why a test failed, in at most `SHOWN_MAX` characters: the page comes last, whatever is left out."""
    test, last = facts["test"], f"page: {page}"
    lines = [f"{test.get('id')} {test.get('outcome')}"]
    causes, noticed = ([one["sentence"] for one in facts.get(name, ())] for name in ("causes", "noticed"))
    lines += [f"cause: {one}" for one in causes]
    if not causes:
        lines += [f"{_UNCERTAIN}{noticed.pop(0)}" if noticed else "cause: leveret knows none"]
    lines += [f"another broker: {facts['another_broker']}"] if "another_broker" in facts else []
    lines += [*_code(facts), *_error(facts)]
    lines += [f"also noticed: {one}" for one in noticed]
    faults = [fault for broker in facts["brokers"] for fault in broker["faults"]]
    lines += [f"fault {fault['text']} never fired" for fault in faults if not fault["fired"]]
    lines += [*_evidence(facts), *_messages(facts), *_queues(facts)]
    shown: list[str] = []
    room = SHOWN_MAX - len(last)
    for line in (_short(line) for line in lines):
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    return "\n".join([*shown, last])


def _short(line: str) -> str:
    most = _PART_MAX if line.startswith(_SENTENCES) else _LINE_MAX
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _code(facts: dict[str, Any]) -> list[str]:
    frames = (facts.get("code") or {}).get("traceback") or []
    # A test that times out stands within a client library.
    shown = [frame for frame in frames if frame["is_yours"]] or frames
    return [f"at {frame['file']}:{frame['line']} in {frame['function']}: {frame['code']}" for frame in shown[-2:]]


def _error(facts: dict[str, Any]) -> list[str]:
    text = str(facts.get("error") or "")[:_PART_MAX]
    lines = [line if index else f"error: {line}" for index, line in enumerate(text.splitlines()) if line.strip()]
    # An assertion that no message nearly fits lists all others there.
    is_listing = facts["causes"] and not (facts.get("assertion") or {"nearest": True})["nearest"]
    return lines[:1] if is_listing else lines


def _evidence(facts: dict[str, Any]) -> list[str]:
    shown = {event["i"]: event for cause in facts["causes"] for event in cause["evidence"]}
    events = [shown[index] for index in sorted(shown)][-_EVIDENCE_MAX:]
    if not events:
        return []
    failed_at = facts.get("failed_at")
    end = [] if failed_at is None else [f"  {_seconds(failed_at)} the test failed"]
    return ["seen:", *map(_event, events), *end]


def _event(event: dict[str, Any]) -> str:
    who = event.get("channel", "")
    named = "" if event["text"].startswith(who) else f"{who} "
    line = f" at {event['line']}" if "line" in event else ""
    return f"  {_seconds(event)} {named}{event['text']}{line}"


def _seconds(moment: dict[str, Any]) -> str:
    return f"{moment.get('t', 0) / 1_000_000:.3f} s"


def _messages(facts: dict[str, Any]) -> list[str]:
    # The error says what became of those that came nearest.
    about = [number for cause in facts["causes"] for number in cause["messages"]]
    known = {message["number"]: message for message in facts["messages"]}
    shown = [known[number] for number in dict.fromkeys(about) if number in known]
    names = [message.get("name", f"#{message['number']}") for message in shown]
    return [
        f"{name} {message.get('label', '')}: {message.get('outcome', '')}"
        for name, message in zip(names, shown, strict=True)
    ]


def _queues(facts: dict[str, Any]) -> list[str]:
    deleted = [queue for queue in facts["queues"] if queue.get("deleted")]
    lines = [_queue(queue) for queue in facts["queues"] if not queue.get("deleted")]
    return [*lines, f"deleted queues: {', '.join(queue['name'] for queue in deleted)}"] if deleted else lines


def _queue(queue: dict[str, Any]) -> str:
    consumers = count_text(queue["consumers"], "consumer")
    return f"queue {queue['name']}: {queue['ready']} ready, {queue['unacked']} unacked, {consumers}"
