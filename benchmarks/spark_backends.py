"""A check that the pipeline gives the same sorted rows on every kind of Spark that one machine can run.

    python -m benchmarks.spark_backends [--runs 40] [--only standalone ...]

It ingests random traces into a new warehouse and reads all tables, on each of these: a JVM that leveret starts;
`spark-submit` with `local-cluster[2,1,1024]`, whose executors are separate processes; Spark Connect; a standalone
cluster of a master and two workers. With `spark-submit`, leveret comes from `--py-files` only: the installed one is
hidden from Python. The program needs a Java on PATH with the module jdk.incubator.vector, and for Connect `pip install
'pyspark[connect]'`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BIND = "127.0.0.1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=list(BACKENDS), choices=BACKENDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leveret-backends-") as name:
        folder = Path(name)
        write_traces(folder / "traces", options.runs)
        told = {}
        for backend in options.only:
            began = time.perf_counter()
            told[backend] = BACKENDS[backend](folder)
            told[backend]["wall_s"] = time.perf_counter() - began
            print(said(backend, told[backend]), flush=True)
    first = told[options.only[0]]["tables"]
    differing = [
        f"{backend}: {table}"
        for backend, answer in told.items()
        for table in first
        if answer["tables"][table] != first[table]
    ]
    print("the same sorted rows everywhere" if not differing else f"differing: {', '.join(differing)}")
    return 1 if differing else 0


def said(backend: str, answer: dict[str, Any]) -> str:
    tables = answer["tables"]
    rows = sum(count for count, _ in tables.values())
    # The digest covers all rows, so you can also compare runs from different times.
    fingerprint = hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]
    return (
        f"{backend:13} Spark {answer['spark']} on {answer['master']}: "
        f"{len(tables)} tables, {rows} rows ({fingerprint}), {answer['wall_s']:.0f} s"
    )


def write_traces(folder: Path, runs: int) -> None:
    from tests.pipeline.random_traces import FAULTS, make

    folder.mkdir()
    for seed in range(runs):
        trace = make(seed, fault=FAULTS[seed % len(FAULTS)] if seed % 3 else None).trace
        head = {"leveret": "trace", "v": 1, "run": f"run{seed}", "worker": "gw0", "started": f"{trace.day}T10:00:00Z"}
        lines = [head, *trace.events]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (folder / f"run{seed}.jsonl").write_text(text)


def job(traces: str, place: str, target: str) -> None:
    """Run the job that every backend runs."""
    from leveret.pipeline.gold import TABLES

    from leveret.pipeline import incremental
    from leveret.pipeline.spark_session import local_session
    from leveret.pipeline.warehouse import Warehouse

    spark = local_session("small")
    warehouse = Warehouse(place)
    # Two updates, so that the tables have rows of both.
    files = sorted(Path(traces).iterdir())
    for part in (files[: len(files) // 2], files):
        incremental.ingest(spark, part, warehouse)
        incremental.update(spark, warehouse)
    tables = {name: digest(incremental.read_table(spark, warehouse, name)) for name in ("events", "runs", *TABLES)}
    master = os.environ.get("SPARK_REMOTE") or spark.sparkContext.master
    facts = {"spark": spark.version, "master": master, "leveret": incremental.__file__}
    Path(target).write_text(json.dumps({**facts, "tables": tables}))
    spark.stop()


def digest(table: Any) -> tuple[int, str]:
    rows = sorted(repr(ordered(row.asDict(recursive=True))) for row in table.collect())
    return len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, ordered(item)) for key, item in value.items())
    return [ordered(item) for item in value] if isinstance(value, list) else value


def classic(folder: Path) -> dict[str, Any]:
    return run([sys.executable, __file__, "job"], folder, "classic", {})


def local_cluster(folder: Path) -> dict[str, Any]:
    return submitted(folder, "local-cluster", "local-cluster[2,1,1024]")


def connect(folder: Path) -> dict[str, Any]:
    port = free_port()
    server = [
        *(
            str(spark_home() / "bin" / "spark-submit"),
            "--class",
            "org.apache.spark.sql.connect.service.SparkConnectServer",
        ),
        *("--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", f"spark.driver.bindAddress={BIND}", "--conf", f"spark.driver.host={BIND}", "spark-internal"),
    ]
    with running(server, folder / "connect.log", port):
        return run([sys.executable, __file__, "job"], folder, "connect", {"SPARK_REMOTE": f"sc://{BIND}:{port}"})


def standalone(folder: Path) -> dict[str, Any]:
    port = free_port()
    spark_class = str(spark_home() / "bin" / "spark-class")
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", BIND, "--port", str(port)]
    url = f"spark://{BIND}:{port}"
    worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--host", BIND]
    with running([*master, "--webui-port", "0"], folder / "master.log", port):
        places = [str(folder / f"worker{number}") for number in range(2)]
        ports = [free_port(), free_port()]
        commands = [
            [*worker, "--webui-port", "0", "--port", str(own), "--work-dir", place, url]
            for own, place in zip(ports, places, strict=True)
        ]
        first, second = folder / "worker0.log", folder / "worker1.log"
        with running(commands[0], first, ports[0]), running(commands[1], second, ports[1]):
            return submitted(folder, "standalone", url)


BACKENDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "classic": classic,
    "local-cluster": local_cluster,
    "connect": connect,
    "standalone": standalone,
}


def submitted(folder: Path, name: str, master: str) -> dict[str, Any]:
    """Run the job by spark-submit, with a Python that has all packages except leveret, which is in the zip."""
    from leveret.spark.bundle import write_bundle

    write_bundle(folder / "leveret.zip")
    python = folder / "python"
    # Without `site`, Python ignores packages that a .pth file installs in place.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    packages = str(spark_home().parent)
    command = [
        *(str(spark_home() / "bin" / "spark-submit"), "--master", master, "--py-files", str(folder / "leveret.zip")),
        *("--conf", f"spark.driver.host={BIND}", "--conf", f"spark.driver.bindAddress={BIND}"),
        *("--conf", "spark.executor.memory=1g", "--conf", "spark.sql.session.timeZone=UTC", __file__, "job"),
    ]
    answer = run(command, folder, name, {"PYSPARK_PYTHON": str(python), "PYTHONPATH": packages})
    if ".zip" not in answer["leveret"]:
        raise SystemExit(f"{name} did not use the zip but {answer['leveret']}: install leveret in place")
    if answer["master"] != master:
        raise SystemExit(f"{name} ran on {answer['master']}")
    return answer


def run(command: list[str], folder: Path, name: str, environment: dict[str, str]) -> dict[str, Any]:
    target = folder / f"{name}.json"
    command = [*command, str(folder / "traces"), str(folder / f"warehouse-{name}"), str(target)]
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{name} failed:\n{ran.stdout[-2000:]}\n{ran.stderr[-6000:]}")
    answer: dict[str, Any] = json.loads(target.read_text())
    return answer


@contextmanager
def running(command: list[str], log: Path, port: int) -> Iterator[None]:
    """Run a server during the block, once its port accepts connections."""
    with open(log, "wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"SPARK_NO_DAEMONIZE": "1"})
    try:
        while not answers(port):
            try:
                process.wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
            raise SystemExit(f"{command[0]} ended:\n{log.read_text()[-4000:]}")
        yield
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((BIND, port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((BIND, 0))
        return int(probe.getsockname()[1])


def spark_home() -> Path:
    from leveret.spark.jvm import spark_home as home

    return home()


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(*sys.argv[2:])
    else:
        sys.exit(main())
