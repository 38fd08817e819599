"""A campaign outside CI that kills the driver of a warehouse again and again.

    python -m tests.pipeline.kills [--kills 100] [--seed 1]

A driver (a process with its JVM) keeps a warehouse up to date. It ingests traces that arrive late, in pieces, growing
and out of order, a few a round, and compacts now and then. The campaign watches the warehouse's folder and counts the
changes that Python and Spark make in it. After a random number of changes it kills both processes with SIGKILL. The
next driver goes on with the same folder. At the end of each history the tables must equal, row by row, those that one
batch makes of the same files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.pipeline.traces import header, lives, text, write

ROUNDS = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kills, histories, differing = 0, 0, 0
    while kills < options.kills:
        seed = options.seed + histories
        killed, is_same = history(random.Random(seed), options.kills - kills)
        kills, histories, differing = kills + killed, histories + 1, differing + (not is_same)
        said = "the same rows as one batch" if is_same else "DIFFERENT ROWS"
        print(f" history {seed}: killed {killed} times, {said}; {kills} kills so far", flush=True)
    print(f"{kills} kills in {histories} histories, {differing} of them with other rows than one batch")
    return 1 if differing else 0


def history(dice: random.Random, most: int) -> tuple[int, bool]:
    with tempfile.TemporaryDirectory(prefix="leveret-kills-") as name:
        folder = Path(name)
        (folder / "plan.json").write_text(json.dumps(plan(dice)))
        killed = 0
        while not is_done(folder):
            if killed < most:
                killed += drive(folder, 1 + int(dice.expovariate(1 / 150)))
            else:
                drive(folder, None)
        once = folder / "once"
        subprocess.run([sys.executable, "-m", __spec__.name, "compare", str(folder), str(once)], check=True)
        return killed, json.loads((folder / "compared.json").read_text())


def plan(dice: random.Random) -> list[list[dict[str, Any]]]:
    """Return the files that arrive, a few per round: pieces of runs, and files that grow."""
    comings = []
    for number in range(ROUNDS):
        lines = lives(dice.randrange(3, 15))
        cuts = sorted(dice.sample(range(1, len(lines)), dice.randrange(0, 3)))
        for piece, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
            name = f"run{number}-{piece}.jsonl{dice.choice(['', '.gz'])}"
            coming = {"name": name, "run": f"run{number}", "worker": "gw0", "from": start, "to": end, "of": len(lines)}
            comings.append(coming)
            if not name.endswith(".gz") and dice.random() < 0.3:
                # An earlier round saw it before it was complete.
                comings.append(coming | {"cut": True})
    dice.shuffle(comings)
    comings.sort(key=lambda coming: not coming.get("cut", False) and dice.random() < 0.5)
    return [comings[start : start + 2] for start in range(0, len(comings), 2)]


def drive(folder: Path, changes: int | None) -> int:
    """Run a driver until it is done or has changed the warehouse `changes` times; return 1 if it was killed, else 0."""
    process = subprocess.Popen(
        [sys.executable, "-m", __spec__.name, "drive", str(folder)], start_new_session=True, stdout=subprocess.DEVNULL
    )
    seen = names(folder / "warehouse")
    while process.poll() is None:
        now = names(folder / "warehouse")
        if changes is not None and (changes := changes - len(now ^ seen)) <= 0:
            # The JVM would end by itself, but only when it next reads its input.
            for pid in (process.pid, *children(process.pid)):
                os.kill(pid, signal.SIGKILL)
            process.wait()
            print(".", end="", flush=True)
            return 1
        seen = now
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.005)
    if process.returncode:
        raise SystemExit(f"the driver failed by itself: {process.returncode}")
    return 0


def names(folder: Path) -> set[str]:
    return {os.path.join(place, name) for place, _, files in os.walk(folder) for name in files}


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_done(folder: Path) -> bool:
    return (folder / "round").exists() and int((folder / "round").read_text()) == len(
        json.loads((folder / "plan.json").read_text())
    )


def driver(folder: Path) -> None:
    from leveret.pipeline import incremental
    from leveret.pipeline.spark_session import local_session
    from leveret.pipeline.warehouse import Warehouse
    from tests.pipeline.small_tables import SMALL_TABLES

    rounds = json.loads((folder / "plan.json").read_text())
    progress = folder / "round"
    begin = int(progress.read_text()) if progress.exists() else 0
    spark, warehouse = local_session("test"), Warehouse(folder / "warehouse")
    for number in range(begin, len(rounds)):
        for coming in rounds[number]:
            come(folder / "traces", coming)
        incremental.ingest(spark, [folder / "traces"], warehouse)
        incremental.update(spark, warehouse, tables=SMALL_TABLES)
        if number % 4 == 3:
            incremental.compact(spark, warehouse, tables=SMALL_TABLES)
            warehouse.vacuum(older_than_s=0)
        draft = folder / ".round"
        draft.write_text(str(number + 1))
        draft.replace(progress)
    spark.stop()


def come(folder: Path, coming: dict[str, Any]) -> None:
    lines = [header(coming["run"], coming["worker"]), *lives((coming["of"] - 2) // 4)[coming["from"] : coming["to"]]]
    place = folder / coming["name"]
    if coming.get("cut"):
        if not place.exists():
            folder.mkdir(exist_ok=True)
            place.write_text(text(lines)[:-5])
    else:
        write(place, lines)


def compare(folder: Path, once: Path) -> None:
    from leveret.pipeline import incremental
    from leveret.pipeline.spark_session import local_session
    from leveret.pipeline.warehouse import Warehouse
    from tests.pipeline.small_tables import SMALL_TABLES

    spark, batch = local_session("test"), Warehouse(once)
    incremental.ingest(spark, [folder / "traces"], batch)
    incremental.update(spark, batch, tables=SMALL_TABLES)

    def rows(warehouse: Warehouse, name: str) -> list[str]:
        return sorted(map(str, incremental.read_table(spark, warehouse, name, tables=SMALL_TABLES).collect()))

    same = all(
        rows(Warehouse(folder / "warehouse"), name) == rows(batch, name) for name in ("events", "runs", *SMALL_TABLES)
    )
    (folder / "compared.json").write_text(json.dumps(same))
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        driver(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["compare"]:
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main())
