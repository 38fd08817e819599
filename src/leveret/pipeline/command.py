"""The commands `leveret pipeline ...` and `leveret spark ...`.

Parsing their options and printing their help works without PySpark. Each command imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Final

from leveret.errors import ConflictError, JavaStartError, NoJavaError
from leveret.pipeline import store_commands
from leveret.pipeline.progress import progress, say
from leveret.spark.doctor import INSTALL, examine
from leveret.spark.jvm import Profile
from leveret.trace.events import printable
from leveret.wording import count_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.pipeline.incremental import Ingested
    from leveret.pipeline.reading import Read
    from leveret.pipeline.report.subject import Subject
    from leveret.pipeline.warehouse.state import Contents
    from leveret.pipeline.warehouse.warehouse import Warehouse

    # The function of a step.
    Run = Callable[[argparse.Namespace, Warehouse], int]

# From this many events on, work goes to Spark if it is installed. While Spark starts, two cores compute as many without
# it.
_MANY_EVENTS: Final = 5_000_000

# The name of a warehouse that lasts as long as a report.
_FOLDER_PREFIX: Final = "leveret-report-"

_NO_SPARK: Final = f"this needs Spark, and pyspark is not installed: {INSTALL}"

# What to say without a module that a command needs.
_WITHOUT: Final = {
    "pyarrow": "the pipeline needs pyarrow and numpy: pip install 'leveret[pipeline]'",
    "jinja2": "the report needs Jinja2: pip install 'leveret[pipeline]'",
}

_PIPELINE: Final = """\
examples:
  leveret pipeline update traces/ --warehouse warehouse/
      ingest the new files in traces/, and bring all tables up to date
  leveret pipeline ingest traces/ run7.jsonl.gz --warehouse warehouse/
      ingest the events only
  leveret pipeline report traces/ --output report.html
      write a page on the newest run, compared with the run before it, in traces/ or in --warehouse
  leveret pipeline sql "select * from queue_stats where leaked > 0" --warehouse warehouse/
      query the tables
  leveret pipeline expire --keep 90d --always --warehouse warehouse/
      forget runs that began more than 90 days ago, now and at each update

A run may come in several files, late and in any order. Ingest a file again when it has grown. If a command was killed,
run it again.
"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both commands to the parser of the command line."""
    _add_pipeline(commands)
    _add_spark(commands)


def _add_pipeline(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    pipeline = commands.add_parser(
        "pipeline",
        help="make tables from the traces of many runs",
        description="Make tables from the traces of many runs, on Spark or in processes on this machine.",
        epilog=_PIPELINE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = pipeline.add_subparsers(title="steps", dest="step", required=True)
    ingest = _step(steps, "ingest", "ingest the events of new and changed traces", _ingest)
    ingest.add_argument("places", nargs="+", metavar="TRACES", help="a folder of traces, or a trace file")
    update = _step(steps, "update", "bring all tables up to date", _update)
    update.add_argument(
        "places", nargs="*", metavar="TRACES", help="a folder of traces, or a trace file, to ingest first"
    )
    update.add_argument("--all", action="store_true", help="compute all runs again, not only those that have changed")
    _add_report(steps)
    difference = _step(
        steps,
        "diff",
        "show how two runs or commits differ",
        _diff,
        note="Say first what changed over the last runs up to the second one. The exit code is 1 if the two differ. "
        "Without --flaky, differences that come from flaky tests do not count.",
    )
    difference.add_argument(
        "--flaky", action="store_true", help="also list the differences that come from tests known to be flaky"
    )
    _add_rules(update)
    _add_rules(difference)
    difference.add_argument("left", metavar="LEFT", help="a run or a commit")
    difference.add_argument("right", metavar="RIGHT", help="a run or a commit, to compare with")
    store_commands.add_to(partial(_step, steps))
    compact = _step(steps, "compact", "merge the files of many updates", _compact, computes=False)
    _add_processes(compact)
    vacuum = _step(steps, "vacuum", "remove files that are no longer used", _vacuum, computes=False)
    vacuum.add_argument(
        "--older-than",
        type=_hours,
        default=24.0,
        metavar="HOURS",
        help="remove only files older than this (default: 24)",
    )


def _add_report(steps: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = _step(
        steps, "report", "write an HTML page on the messages of a run", _report, needs=("jinja2",), has_default=True
    )
    report.add_argument(
        "places", nargs="*", metavar="TRACES", help="a folder of traces, or a trace file, to ingest first"
    )
    report.add_argument(
        "--run", metavar="NAME", dest="name", help="the run or commit to report (default: the newest run)"
    )
    report.add_argument("--against", metavar="NAME", help="the run or commit to compare with (default: the one before)")
    report.add_argument(
        "--output", "-o", type=Path, default=Path("report.html"), metavar="FILE", help="the page (default: report.html)"
    )
    _add_rules(report)


def _add_rules(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="MODULE",
        help="import this module, which registers rules of your own (docs/reference/pipeline-tables.md)",
    )


def _add_spark(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    spark = commands.add_parser(
        "spark",
        help="check what Spark needs here, and bundle leveret for it",
        description="Check what Spark needs here, and bundle leveret for it.",
    )
    steps = spark.add_subparsers(title="steps", dest="step", required=True)
    doctor = steps.add_parser(
        "doctor",
        help="check what Spark needs to start here, and start it",
        description="Check what Spark needs to start here, and start it. The exit code is 1 if something is missing.",
    )
    doctor.add_argument("--master", metavar="URL", help="a Spark master, or sc://... (default: this machine)")
    doctor.set_defaults(run=guarded(_doctor))
    bundle = steps.add_parser(
        "bundle",
        help="write leveret into a zip for spark-submit --py-files",
        description="Write leveret into a zip for spark-submit --py-files.",
    )
    bundle.add_argument(
        "target", nargs="?", default="leveret.zip", metavar="FILE", help="the zip (default: leveret.zip)"
    )
    bundle.set_defaults(run=guarded(_bundle))


def _step(
    steps: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    purpose: str,
    run: Run,
    *,
    note: str = "",
    needs: tuple[str, ...] = (),
    computes: bool = True,
    has_default: bool = False,
) -> argparse.ArgumentParser:
    step = steps.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}. {note}".strip())
    place = "the folder of the tables, or s3://BUCKET/PREFIX" + (" (default: a temporary one)" if has_default else "")
    step.add_argument("--warehouse", "-w", required=not has_default, metavar="WAREHOUSE", help=place)
    many = f"{_MANY_EVENTS // 1_000_000} million events on"
    if computes:
        step.add_argument(
            "--engine",
            choices=("auto", "spark", "processes"),
            default="auto",
            help=f"where to compute (default: on Spark from {many}, if installed, else in processes)",
        )
        _add_processes(step)
        step.add_argument("--master", metavar="URL", help="a Spark master, or sc://... (default: this machine)")
        step.add_argument(
            "--memory", metavar="SIZE", help=f"memory of Spark's JVM, as in 4g (default: 1g, or 2g from {many})"
        )
    step.set_defaults(run=guarded(lambda options: _on_warehouse(options, run), "pyarrow", *needs))
    return step


def _add_processes(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--processes", type=_positive, metavar="N", help="number of processes (default: one for each CPU)"
    )


def _on_warehouse(options: argparse.Namespace, run: Run) -> int:
    """Run a step on the warehouse that was named, or else on a temporary one."""
    from leveret.pipeline.warehouse.warehouse import Warehouse

    if options.warehouse is not None:
        return run(options, Warehouse(options.warehouse))
    _remove_folders_of_killed()
    with TemporaryDirectory(prefix=_FOLDER_PREFIX) as folder:
        return run(options, Warehouse(folder))


def _remove_folders_of_killed() -> None:
    """Remove the temporary warehouses that reports left behind when they were killed, a day later."""
    from leveret.pipeline.warehouse.warehouse import GRACE_S

    for folder in Path(gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
        # Another user's folder stays.
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - GRACE_S:
                shutil.rmtree(folder, ignore_errors=True)


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of processes; give 1 or more")
    return int(text)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = -1
    if not 0 <= hours < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of hours; give 0 or more")
    return hours


def guarded(run: Callable[[argparse.Namespace], int], *needs: str) -> Callable[[argparse.Namespace], int]:
    """Wrap a command that needs some modules: print an expected error as one line, and return exit code 2."""

    def guard(options: argparse.Namespace) -> int:
        for name in needs:
            if find_spec(name) is None:
                return _refuse(_WITHOUT[name])
        try:
            for name in getattr(options, "rules", ()):
                _import(name)
            return run(options)
        except (ConflictError, NoJavaError, JavaStartError, OSError, ValueError, ModuleNotFoundError) as error:
            return _refuse(str(error))
        except Exception as error:
            # What Spark and its tasks raise is of many kinds, and holds the traces of Java and of Python.
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            return _refuse(f"Spark failed: {_reason(str(error))}; `leveret spark doctor` checks the installation")

    return guard


def _reason(text: str) -> str:
    """Return the line of an error of Spark that says why."""
    found = re.search(r"\[[A-Z_.]{5,}\] [^\n]+", text) or re.search(r"Caused by: [^\n]+", text)
    return found[0] if found else text.split("\n", 1)[0]


def _import(name: str) -> None:
    """Import a module from the working directory or from Python's path. Raises ValueError if it does not exist."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"--rules {name}: {error}; give a module in the working directory, or an installed one"
        ) from error
    except Exception as error:
        raise ValueError(f"--rules {name} cannot be imported: {type(error).__name__}: {error}") from error


def _refuse(text: str) -> int:
    print(f"leveret: {text}", file=sys.stderr)
    return 2


def _ingest(options: argparse.Namespace, warehouse: Warehouse) -> int:
    state = warehouse.state()
    with _spark(options, _new_events(options, state)) as spark:
        return _ingest_places(options, warehouse, state, spark)


def _update(options: argparse.Namespace, warehouse: Warehouse) -> int:
    state = warehouse.state() if options.places else warehouse.existing()
    with _spark(options, _events_to_compute(options, state)) as spark:
        return _bring_up_to_date(options, warehouse, state, spark)


def _bring_up_to_date(
    options: argparse.Namespace, warehouse: Warehouse, state: Contents, spark: SparkSession | None
) -> int:
    from leveret.pipeline.incremental import update

    code = _ingest_places(options, warehouse, state, spark) if options.places else 0
    if code and not any(run.events for run in state.runs.values()):
        return _refuse("no trace could be used; the reasons are listed above")
    everything = getattr(options, "all", False)
    answered = update(
        warehouse, spark=spark, processes=options.processes, everything=everything, state=state, progress=progress
    )
    if options.step == "update":
        # The run without a name only counts files that were refused.
        runs = len([name for name in answered if name])
        print(f"{count_text(runs, 'run')} brought up to date" if runs else "all runs were up to date")
    return code


def _report(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.report import report
    from leveret.story.whole_files import write

    if options.warehouse is None and not options.places:
        return _refuse("report needs traces or a warehouse: name a folder of traces, or give --warehouse")
    if options.output.is_dir():
        return _refuse(
            f"--output {options.output} is a folder; name a file in it, such as {options.output}/report.html"
        )
    state = warehouse.state() if options.places else warehouse.existing()
    with _spark(options, _events_to_compute(options, state)) as spark:
        code = _bring_up_to_date(options, warehouse, state, spark)
    read = _reader(warehouse, state)
    subject = _subject(options, state, read)
    # A refused file that is gone is of no interest any more.
    files = {path: file for path, file in state.files.items() if file.problem is None or Path(path).exists()}
    folder = options.output.absolute().parent
    page = report(read, files, subject.name, against=options.against, folder=folder)
    write(page, options.output)
    size_kb = options.output.stat().st_size / 1000
    print(f"{options.output}: {subject}, {size_kb:.0f} kB; open it in a browser")
    return code


def _subject(options: argparse.Namespace, state: Contents, read: Read) -> Subject:
    """Return the run or commit to report: the one with the name, or the newest run of the places, or of all."""
    from leveret.pipeline.report.subject import COLUMNS, choose
    from leveret.pipeline.sources import find, path_text

    if options.name is not None or not options.places:
        return choose(read("runs", columns=COLUMNS), options.name)
    paths = [path_text(str(path)) for path in find(options.places)]
    known = [state.files[path] for path in paths if path in state.files]
    runs = {file.run for file in known if file.problem is None and file.run in state.runs}
    if not runs:
        raise ValueError("the traces that you named have no run in the warehouse: they were refused, or have expired")
    return choose(read("runs", columns=COLUMNS, runs=runs), None)


def _diff(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.diff import diff, lines
    from leveret.pipeline.history import history
    from leveret.pipeline.incremental import update
    from leveret.pipeline.report.subject import COLUMNS, choose, up_to

    state = warehouse.existing()
    with _spark(options, _events_to_compute(options, state)) as spark:
        update(warehouse, spark=spark, processes=options.processes, state=state, progress=progress)
    read = _reader(warehouse, state)
    runs = read("runs", columns=COLUMNS)
    left, right = (choose(runs, name) for name in (options.left, options.right))
    for cause in history(read, up_to(runs, right)).causes:
        print(cause)
    compared = diff(read, left, right)
    for line in lines(compared, with_flaky=options.flaky):
        print(line)
    count = len(compared.all if options.flaky else compared.differences)
    without = ", without those of flaky tests" if compared.of_flaky and not options.flaky else ""
    print(f"{count} differences between {options.left} and {options.right}{without}")
    return 1 if count else 0


def _reader(warehouse: Warehouse, state: Contents) -> Read:
    from leveret.pipeline.warehouse.tables import read_table

    return partial(read_table, warehouse, state=state)


def _compact(options: argparse.Namespace, warehouse: Warehouse) -> int:
    from leveret.pipeline.warehouse.keeping import compact

    try:
        merged = compact(warehouse, processes=options.processes)
    except ConflictError as error:
        return _refuse(f"{error}; nothing is lost, so run the command again")
    print(f"{merged} parts merged" if merged else "nothing to merge")
    return 0


def _vacuum(options: argparse.Namespace, warehouse: Warehouse) -> int:
    files, size_bytes = warehouse.vacuum(older_than_s=options.older_than * 3600)
    print(f"{files} unused files removed, {size_bytes} bytes")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    is_well = True
    for finding in examine():
        print(f"{finding.verdict:5}  {finding.text}")
        is_well &= finding.verdict != "wrong"
    if not is_well:
        return 1
    from time import perf_counter

    from leveret.pipeline.computing.spark_session import session

    began = perf_counter()
    with session("small", master=options.master) as spark:
        # A task in Python shows whether executors have a Python that fits.
        spark.range(1).mapInArrow(lambda batches: batches, "id long").count()
        print(f"{'ok':5}  Spark {spark.version} started and answered after {perf_counter() - began:.1f} s")
    return 0


def _bundle(options: argparse.Namespace) -> int:
    from leveret.spark.bundle import write_bundle

    count = write_bundle(options.target)
    print(f"{options.target}: {count} files; spark-submit --py-files {options.target} ...")
    return 0


def _ingest_places(
    options: argparse.Namespace, warehouse: Warehouse, state: Contents, spark: SparkSession | None
) -> int:
    from leveret.pipeline.incremental import ingest

    done = ingest(warehouse, options.places, spark=spark, processes=options.processes, state=state, progress=progress)
    _print_ingested(done)
    return 2 if done.files and len(done.refused) == len(done.files) and not done.unchanged else 0


def _print_ingested(done: Ingested) -> None:
    from leveret.pipeline.report.subject import is_to_come

    for path, file in sorted(done.refused.items()):
        print(f"refused {printable(path)}: {file.problem}")
    for path in sorted(done.truncated):
        print(f"cut {printable(path)}: only its complete lines are used")
    for path, file in sorted(done.files.items()):
        if is_to_come(date.fromisoformat(file.since)):
            print(
                f"clock {printable(path)}: its run began on {file.since}, which is still to come; set the clock of "
                "that machine. It is not taken for the newest run"
            )
        if file.conflicts:
            events = f"{count_text(file.conflicts, 'event')} of worker {printable(file.worker)}"
            print(
                f"conflict {printable(path)}: another file says other things of {events} of run {printable(file.run)}, "
                "and one of both counts; give each job a run of its own"
            )
    for run, day in sorted(done.expired.items()):
        print(f"expired {run}: it began on {day}, and the warehouse has let such runs expire; its events are left out")
    used = len(done.files) - len(done.refused)
    before = f", of which {done.refused_before} were refused before" if done.refused_before else ""
    print(f"{used} files ingested, {len(done.refused)} refused, {done.unchanged} unchanged{before}")


@contextmanager
def _spark(options: argparse.Namespace, events: float) -> Iterator[SparkSession | None]:
    """Yield a session if this much work is for Spark, or None. Without work, nothing starts."""
    if not _is_for_spark(options, events):
        yield None
        return
    if find_spec("pyspark") is None:
        raise ValueError(_NO_SPARK)
    from leveret.pipeline.computing.spark_session import WITHOUT_CALL_SITES, session

    say("starting Spark")
    settings = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(), **WITHOUT_CALL_SITES}
    profile: Profile = "big" if events > _MANY_EVENTS else "small"
    with session(profile, master=options.master, memory=options.memory, settings=settings) as spark:
        yield spark


def _is_for_spark(options: argparse.Namespace, events: float) -> bool:
    if not events:
        return False
    if options.engine != "auto":
        return bool(options.engine == "spark")
    # The second one is set where spark-submit has started a JVM.
    is_given = any(name in os.environ for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"))
    is_asked_for = options.master is not None or bool(getattr(options, "rules", ()))
    return is_given or is_asked_for or (events > _MANY_EVENTS and find_spec("pyspark") is not None)


def _events_to_compute(options: argparse.Namespace, state: Contents) -> float:
    """Return about how many events are new, and how many the runs have that are not up to date; 0 if none."""
    from leveret.pipeline.computing.tasks import TABLE_NAMES

    stale = list(state.runs) if getattr(options, "all", False) else state.stale(TABLE_NAMES)
    # A run without events may be stale, too.
    known = sum(state.runs[name].events for name in stale) + bool(stale)
    return known + (_new_events(options, state) if getattr(options, "places", ()) else 0)


def _new_events(options: argparse.Namespace, state: Contents) -> float:
    from leveret.pipeline.incremental import new_files
    from leveret.pipeline.sources import guessed_events

    changed, _ = new_files(state, options.places)
    return sum(guessed_events(str(path), path.stat().st_size) + 1 for path in changed)
