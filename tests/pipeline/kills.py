"""A campaign outside CI that kills what keeps a warehouse up to date, again and again, with SIGKILL.

    python -m tests.pipeline.kills [--on processes local local-cluster] [--kills 100] [--seed 1]

A driver ingests random traces that arrive late, in pieces, growing and out of order, a few a round. It updates the
tables, and compacts now and then. Its tasks run in processes of this machine, in the Python workers of a local Spark,
or in those of executors, where Spark also runs slow tasks twice. The campaign watches the warehouse's folder. After a
random number of changes and a random time it kills the driver (with its JVM), an executor, or a process that carries
out tasks. If the driver was killed, or lost too many tasks, the next one goes on with the same folder. At the end of
each history, all tables must equal, row by row, those of one batch that nothing disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from leveret.pipeline import Warehouse, compact, ingest, read_frame, read_table, update
from leveret.pipeline.computing import work
from leveret.pipeline.computing.tasks import TABLE_NAMES
from leveret.pipeline.kernel.subjects.across import ACROSS
from tests.pipeline.random_traces import FAULTS, make
from tests.pipeline.traces import header, text, write
from tests.spark.crashes import kill

NAMES: Final = ("events", *TABLE_NAMES, *ACROSS)
RUNS: Final = 10
# After so many, a history may end.
KILLS_A_HISTORY: Final = 12
# Every process of a history inherits this variable, with the history's folder.
VARIABLE: Final = "LEVERET_KILLS"
# The processes of each kind, by what their command lines contain. The driver is the process that was started.
VICTIMS: Final = {
    "processes": {"driver": "", "worker": "leveret.pipeline.computing.worker"},
    "local": {"driver": "", "python": "pyspark.daemon"},
    "local-cluster": {"driver": "", "executor": "CoarseGrainedExecutorBackend", "python": "pyspark.daemon"},
}
MASTERS: Final = {"local": "local[2,4]", "local-cluster": "local-cluster[2,1,1024]"}
SETTINGS: Final = {
    # Pieces for three tasks.
    "spark.default.parallelism": "3",
    "spark.speculation": "true",
    "spark.speculation.interval": "10ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "10ms",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", nargs="+", choices=VICTIMS, default=list(VICTIMS))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kills: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    histories, differing = 0, 0
    while kills.total() < options.kills:
        kind, seed = options.on[histories % len(options.on)], options.seed + histories
        history = History(kind, random.Random(seed), min(options.kills - kills.total(), KILLS_A_HISTORY))
        began = time.monotonic()
        different = history.play()
        histories, differing = histories + 1, differing + bool(different)
        kills += Counter({f"{kind} {victim}": count for victim, count in history.kills.items()})
        rows += history.rows
        print(
            f"history {seed} on {kind}: killed {dict(history.kills)} in {history.drivers} drivers, "
            f"{history.failures} of them failed; {history.rows.total()} rows, "
            f"{'DIFFERENT in ' + ', '.join(different) if different else 'the same as one batch'}; "
            f"{kills.total()} kills so far; {time.monotonic() - began:.0f} s",
            flush=True,
        )
    print(f"{kills.total()} kills {dict(kills)} in {histories} histories, {differing} with other rows than one batch")
    print(f"rows of each table: {dict(rows)}; tables without rows: {[name for name in NAMES if not rows[name]]}")
    return 1 if differing else 0


class History:
    """The updates of one warehouse, and the kills meanwhile."""

    def __init__(self, kind: str, dice: random.Random, most: int) -> None:
        self.kind = kind
        self.dice = dice
        self.most = most
        self.kills: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.drivers = 0
        # Drivers that ended by themselves, because a task was killed too often.
        self.failures = 0

    def play(self) -> list[str]:
        """Play the history and return the tables that differ from those of one batch."""
        with tempfile.TemporaryDirectory(prefix="leveret-kills-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            (folder / "plan.json").write_text(json.dumps(plan(self.dice)))
            while not is_done(folder):
                self.drive(folder)
            return self.compare(folder)

    def drive(self, folder: Path) -> None:
        """Run a driver until it is done or killed, and kill the others while it runs."""
        command = [sys.executable, "-m", __spec__.name, "drive", str(folder), self.kind]
        environment = os.environ | {VARIABLE: str(folder)}
        with open(folder / "said", "w+") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
        self.drivers += 1
        before = self.kills.total()
        below: set[int] = set()
        while self.kills.total() < self.most and self.await_moment(process, folder / "warehouse"):
            kinds = list(VICTIMS[self.kind])
            # Another driver takes longest to start.
            (victim,) = self.dice.choices(kinds, [1, *[2 for _ in kinds[1:]]])
            found = processes_below(process.pid)
            below |= found.keys()
            if victim == "driver":
                # The JVM would end by itself, but only when it next reads its input.
                javas = [pid for pid, line in found.items() if "pyspark-shell" in line]
                self.kills[victim] += kill([process.pid, *javas][:1])
                kill(javas)
                break
            there = [pid for pid, line in found.items() if VICTIMS[self.kind][victim] in line]
            self.kills[victim] += kill([self.dice.choice(there)]) if there else 0
        process.wait()
        # What a killed driver leaves behind would end by itself a little later.
        kill([pid for pid in below if Path(f"/proc/{pid}/environ").exists() and is_of(pid, folder)])
        if process.returncode > 0:
            self.failures += 1
            if self.kills.total() == before:
                raise SystemExit(
                    f"the driver failed by itself: {process.returncode}\n{(folder / 'said').read_text()[-3000:]}"
                )

    def await_moment(self, process: subprocess.Popen[bytes], place: Path) -> bool:
        """Wait for some changes in a folder and a little longer; return False if the driver ends before."""
        changes = 1 + int(self.dice.expovariate(1 / 8))
        seen = names(place)
        while changes > 0:
            if has_ended(process, 0.005):
                return False
            now = names(place)
            changes -= len(now ^ seen)
            seen = now
        return not has_ended(process, self.dice.choice((0.0, 0.0, self.dice.random() * 0.5)))

    def compare(self, folder: Path) -> list[str]:
        """Count the rows of all tables, and return the tables that differ from those of one batch."""
        warehouse, batch = Warehouse(folder / "warehouse"), Warehouse(folder / "once")
        ingest(batch, [folder / "traces"], processes=1)
        update(batch, processes=1)
        different = []
        for name in NAMES:
            found = texts(warehouse, name)
            self.rows[name] += len(found)
            if found != texts(batch, name):
                different.append(name)
        if self.kind == "local":
            events = read_table(batch, "events", columns=["run", "worker", "kind"]).to_pylist()
            counted = Counter((event["run"], event["worker"], event["kind"]) for event in events)
            added = sorted([*key, count] for key, count in counted.items())
            self.rows["kinds"] += len(added)
            if json.loads((folder / "kinds.json").read_text()) != added:
                different.append("kinds")
        return different


def has_ended(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
    return process.poll() is not None


def plan(dice: random.Random) -> list[list[dict[str, Any]]]:
    """Return the files that arrive, a few per round: pieces of runs, and files that grow."""
    comings = []
    seed = dice.randrange(1 << 30)
    for number in range(RUNS):
        trace = {"run": f"run{number // 2}", "worker": f"gw{number % 2}", "seed": seed + number}
        length = len(lines_of(trace))
        cuts = sorted(dice.sample(range(1, length), dice.randrange(0, 3)))
        for piece, (start, end) in enumerate(zip([0, *cuts], [*cuts, length], strict=True)):
            name = f"run{number}-{piece}.jsonl{dice.choice(['', '.gz'])}"
            coming = {"name": name, "from": start, "to": end, **trace}
            comings.append(coming)
            if not name.endswith(".gz") and dice.random() < 0.3:
                # An earlier round saw it before it was complete.
                comings.append(coming | {"cut": True})
    dice.shuffle(comings)
    comings.sort(key=lambda coming: not coming.get("cut", False) and dice.random() < 0.5)
    return [comings[start : start + 3] for start in range(0, len(comings), 3)]


def lines_of(coming: dict[str, Any]) -> list[dict[str, Any]]:
    seed = coming["seed"]
    trace = make(seed, tests=6, fault=FAULTS[seed % len(FAULTS)], run=coming["run"], worker=coming["worker"]).trace
    return trace.events


def come(folder: Path, coming: dict[str, Any]) -> None:
    lines = [header(coming["run"], coming["worker"]), *lines_of(coming)[coming["from"] : coming["to"]]]
    place = folder / coming["name"]
    if not coming.get("cut"):
        write(place, lines)
    elif not place.exists():
        folder.mkdir(exist_ok=True)
        place.write_text(text(lines)[:-5])


def names(folder: Path) -> set[str]:
    return {os.path.join(place, name) for place, _, files in os.walk(folder) for name in files}


def processes_below(pid: int) -> dict[int, str]:
    """Return the processes that this one has started, and those that they have, with their command lines."""
    found = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                with suppress(FileNotFoundError, ProcessLookupError):
                    found[int(child)] = Path(f"/proc/{child}/cmdline").read_text(errors="replace").replace("\0", " ")
                    found |= processes_below(int(child))
    return found


def is_of(pid: int, folder: Path) -> bool:
    """Return whether a process has inherited this history's variable."""
    with suppress(OSError):
        return f"{VARIABLE}={folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def is_done(folder: Path) -> bool:
    return progress_of(folder) == len(json.loads((folder / "plan.json").read_text()))


def progress_of(folder: Path) -> int:
    return int((folder / "round").read_text()) if (folder / "round").exists() else 0


def texts(warehouse: Warehouse, name: str) -> list[str]:
    """Return the rows of a table as sorted texts, with all their columns."""
    rows = read_table(warehouse, name).to_pylist(maps_as_pydicts="strict")
    return sorted(repr(sorted((column, ordered(value)) for column, value in row.items())) for row in rows)


def ordered(value: Any) -> Any:
    return sorted(value.items()) if isinstance(value, dict) else value


def driver(folder: Path, kind: str) -> None:
    # Without these, work as small as here would be that of one task.
    work._FEW_EVENTS, work.EVENTS_A_TASK = 0, 300
    if kind in MASTERS:
        from leveret.pipeline.computing.spark_session import session
        from tests.pipeline.small_tables import SMALL_TABLES

        with session("test", master=MASTERS[kind], settings=SETTINGS) as spark:
            # Tables of a user's own take most of the time, and do not depend on where tasks run.
            keep_up_to_date(folder, {"spark": spark}, SMALL_TABLES if kind == "local" else {})
    else:
        keep_up_to_date(folder, {"processes": 3}, {})


def keep_up_to_date(folder: Path, engine: dict[str, Any], tables: dict[str, Any]) -> None:
    """Play the rounds that are left."""
    rounds, warehouse = json.loads((folder / "plan.json").read_text()), Warehouse(folder / "warehouse")
    for number in range(progress_of(folder), len(rounds)):
        for coming in rounds[number]:
            come(folder / "traces", coming)
        ingest(warehouse, [folder / "traces"], **engine)
        update(warehouse, tables=tables, **engine)
        is_last = number + 1 == len(rounds)
        if is_last or number % 3 == 2:
            compact(warehouse)
            warehouse.vacuum(older_than_s=0)
        if is_last and tables:
            kinds = read_frame(engine["spark"], warehouse, "kinds").collect()
            (folder / "kinds.json").write_text(
                json.dumps(sorted([row.run, row.worker, row.kind, row.n] for row in kinds))
            )
        draft = folder / ".round"
        draft.write_text(str(number + 1))
        draft.replace(folder / "round")


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        driver(Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
