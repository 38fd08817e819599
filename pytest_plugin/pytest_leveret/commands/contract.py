"""The command `leveret contract`: whether the contracts of services fit together, how two differ, a lock as another
document, and locks of the runs in a warehouse."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_leveret.contract import FILE

if TYPE_CHECKING:
    from pytest_leveret.contract.lock import Lock

_FORMATS = ("asyncapi", "json-schema")
_CODES = "The exit code is 0 if nothing breaks, 1 if something does, and 2 if a file cannot be read."


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a parser."""
    contract = commands.add_parser(
        "contract",
        help="check whether services agree on their messages",
        description="Check whether services agree on their messages, from the locks that their tests have written and "
        "from AsyncAPI documents, and print a lock as such a document.",
    )
    actions = contract.add_subparsers(title="actions", dest="action", required=True)
    check = actions.add_parser(
        "check",
        help="check that publishers send what consumers need",
        description=f"Compare what the publishers in locks send with what the consumers in them need. {_CODES}",
    )
    check.add_argument(
        "locks", nargs="+", metavar="LOCK", type=Path, help="the lock or the AsyncAPI document of a service"
    )
    check.set_defaults(run=_check)
    diff = actions.add_parser(
        "diff",
        help="show how a lock differs from an older one, and what that breaks",
        description=f"Show how a lock differs from an older one, and what that breaks. {_CODES}",
    )
    diff.add_argument("old", metavar="OLD", type=Path, help="the older lock or document")
    diff.add_argument("new", metavar="NEW", type=Path, help="the newer lock or document")
    diff.set_defaults(run=_diff)
    stale = actions.add_parser(
        "stale",
        help="show in what a recording is not what the contract says",
        description="Show in what the messages of a recording of `leveret record` are not those of a lock. The exit "
        "code is 0 if they are, 1 if not, and 2 if a file cannot be read.",
    )
    stale.add_argument("recording", metavar="RECORDING", help="the recording, such as orders.rec")
    stale.add_argument("lock", metavar="LOCK", type=Path, help="the lock or the AsyncAPI document of a service")
    stale.set_defaults(run=_stale)
    export = actions.add_parser(
        "export",
        help="print a lock as an AsyncAPI document, or write it as JSON Schemas",
        description="Print a lock as an AsyncAPI 3.0 document, or write the JSON Schema of each message to a folder.",
    )
    export.add_argument("lock", metavar="LOCK", type=Path, help="the lock of a service")
    export.add_argument(
        "--format", choices=_FORMATS, default=_FORMATS[0], help=f"what to write (default: {_FORMATS[0]})"
    )
    export.add_argument(
        "--output",
        metavar="PATH",
        type=Path,
        help="the file to write, in YAML if its name ends in .yaml or .yml; with json-schema the folder, which has to "
        "be named (default: print it)",
    )
    export.add_argument(
        "--title", help="the title of the document (default: the name of the folder that the lock is in)"
    )
    export.add_argument("--version", default="1", help="the version of the document (default: 1)")
    export.set_defaults(run=_export)
    infer = actions.add_parser(
        "infer",
        help="write a lock of what the runs in a warehouse have shown",
        description="Write a lock of what the runs in a warehouse of `leveret pipeline` have shown. The traces need no "
        "bodies. What was measured of consumers stays in the file. The exit code is 2 if the warehouse cannot be read.",
    )
    infer.add_argument("warehouse", metavar="WAREHOUSE", help="the folder of the warehouse, or s3://BUCKET/PREFIX")
    infer.add_argument("--commit", metavar="COMMIT", help="only the runs of this commit (default: all runs)")
    infer.add_argument(
        "--lock", metavar="FILE", type=Path, default=Path(FILE), help=f"the file to write (default: {FILE})"
    )
    infer.set_defaults(run=_guarded(_infer))
    drift = actions.add_parser(
        "drift",
        help="show how messages differ between two commits, by the runs in a warehouse",
        description=f"Show how what the runs of a commit have shown differs from that of another commit. {_CODES}",
    )
    drift.add_argument("warehouse", metavar="WAREHOUSE", help="the folder of the warehouse, or s3://BUCKET/PREFIX")
    drift.add_argument("--from", dest="old", required=True, metavar="COMMIT", help="the older commit, or a run")
    drift.add_argument("--to", dest="new", required=True, metavar="COMMIT", help="the newer commit, or a run")
    drift.set_defaults(run=_guarded(_drift))


def _guarded(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap a command that needs the pipeline."""

    def guard(options: argparse.Namespace) -> int:
        from leveret.pipeline.command import guarded

        return guarded(run, "pyarrow")(options)

    return guard


def _stale(options: argparse.Namespace) -> int:
    from leveret.recording.rec_file import read_recording
    from pytest_leveret.contract.documents.importing import read
    from pytest_leveret.contract.recordings import stale_fields

    lines = list(stale_fields(read_recording(options.recording), read(options.lock)))
    for line in lines:
        print(f"stale: {line}")
    return 1 if lines else 0


def _check(options: argparse.Namespace) -> int:
    from pytest_leveret.contract.documents.importing import read
    from pytest_leveret.contract.meeting import meet

    meeting = meet({str(path): read(path) for path in options.locks})
    _print("breaking", meeting.breaking)
    _print("not breaking", meeting.harmless)
    _print("may reach a consumer that it would break", meeting.uncertain)
    _print("may break a consumer that has received several kinds of messages", meeting.partial)
    _print("sent, and no consumer reads it", meeting.unread)
    _print("read, and no publisher sends it", meeting.unsent)
    if not meeting.breaking:
        is_open = meeting.uncertain or meeting.partial
        print(f"leveret: {'nothing breaks for certain' if is_open else 'the locks fit together'}")
    return 1 if meeting.breaking else 0


def _diff(options: argparse.Namespace) -> int:
    from pytest_leveret.contract.documents.importing import read

    return _print_changes(read(options.old), read(options.new))


def _infer(options: argparse.Namespace) -> int:
    from leveret.wording import count_text
    from pytest_leveret.contract.lock import read, update

    lock, runs = next(_locks(options.warehouse, options.commit))

    def renewed() -> Lock:
        if options.lock.exists():
            lock.keep_needs(read(options.lock))
        return lock

    update(options.lock, renewed)
    print(f"{options.lock}: {count_text(len(lock.messages), 'kind')} of messages, from {count_text(runs, 'run')}")
    return 0


def _drift(options: argparse.Namespace) -> int:
    (old, _), (new, _) = _locks(options.warehouse, options.old, options.new)
    return _print_changes(old, new)


def _locks(url: str, *commits: str | None) -> Iterator[tuple[Lock, int]]:
    """Yield the lock of the runs of each commit, or of all runs, and the number of these runs."""
    from functools import partial

    from leveret.pipeline.incremental import update
    from leveret.pipeline.report.subject import COLUMNS, choose
    from leveret.pipeline.warehouse.tables import read_table
    from leveret.pipeline.warehouse.warehouse import Warehouse
    from pytest_leveret.contract.inferring import infer

    warehouse = Warehouse(url)
    state = warehouse.existing()
    update(warehouse, state=state)
    read = partial(read_table, warehouse, state=state)
    every = read("runs", columns=COLUMNS)
    for commit in commits:
        runs = list(state.runs) if commit is None else choose(every, commit).runs
        lock = infer(read, runs)
        if not lock.messages:
            of_commit = "" if commit is None else f" of {commit}"
            raise ValueError(
                f"{url}: no run{of_commit} has shapes of messages of clients in tests that have passed; record one "
                "with --leveret-trace-dir, and ingest it"
            )
        yield lock, len(runs)


def _print_changes(old: Lock, new: Lock) -> int:
    from pytest_leveret.contract.comparing import lock_changes

    changes = [*lock_changes(old, new)]
    _print("breaking", [change for change in changes if change.breaks])
    _print("not breaking", [change for change in changes if not change.breaks])
    if not changes:
        print("no difference")
    return 1 if any(change.breaks for change in changes) else 0


def _export(options: argparse.Namespace) -> int:
    from pytest_leveret.contract import is_document
    from pytest_leveret.contract.documents import exporting
    from pytest_leveret.contract.lock import read

    if is_document(options.lock):
        raise ValueError(f"{options.lock} is a document already; name a lock")
    lock, output = read(options.lock), options.output
    if options.format == "asyncapi":
        title = options.title or options.lock.resolve().parent.name
        text = exporting.document_text(exporting.document_of(lock, title, options.version), output)
        if output is None:
            print(text, end="")
        else:
            output.write_text(text, encoding="utf-8", newline="\n")
        return 0
    if output is None:
        raise ValueError("--format=json-schema writes a file for each message; name a folder with --output=PATH")
    for name, schema in exporting.schemas_of(lock).items():
        file = output / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(exporting.document_text(schema, file), encoding="utf-8", newline="\n")
    return 0


def _print(title: str, lines: Iterable[object]) -> None:
    for index, line in enumerate(lines):
        print(f"{title}:\n  {line}" if index == 0 else f"  {line}")
