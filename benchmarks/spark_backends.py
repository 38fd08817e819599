"""A check that the pipeline gives the same sorted rows on every kind of Spark that one machine can run, and without it.

    python -m benchmarks.spark_backends [--runs 40] [--only standalone ...]

It ingests random traces into a new warehouse in two updates and reads all tables (events, copies and the tables across
runs as DataFrames), on each of these: processes of this machine; a JVM that leveret starts; `local-cluster[2,1,1024]`,
whose executors are separate processes; a standalone cluster of a master and two workers; Spark Connect. Each of the
clusters is used in two ways. As `--master`, the driver has leveret and sends it. With `spark-submit`, leveret comes
from `--py-files` only. In both, Python on the executors and on the server has the installed packages except leveret.
On Spark, `format("leveret")` must read the rows of the table `events` from the same traces.
The program needs a Java on PATH with the module jdk.incubator.vector, and for Connect `pip install 'pyspark[connect]'`.
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
    differing += [
        f"{name}: traces" for name, of in told.items() if of.get("of_traces", first["events"]) != first["events"]
    ]
    print("the same sorted rows everywhere" if not differing else f"differing: {', '.join(differing)}")
    return 1 if differing else 0


def said(backend: str, answer: dict[str, Any]) -> str:
    tables = answer["tables"]
    rows = sum(count for count, _ in tables.values())
    # The digest covers all rows, so you can also compare runs from different times.
    fingerprint = hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()[:16]
    return (
        f"{backend:20} {answer['spark']}: {len(tables)} tables, {rows} rows ({fingerprint}), {answer['wall_s']:.0f} s"
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


def job(traces: str, place: str, target: str, engine: str, *package: str) -> None:
    """Run the job that every backend runs. `engine` is "processes", a master, or "" for the one in the environment.

    `package` is where leveret is, if no variable says so.
    """
    sys.path[:0] = package
    import leveret
    from leveret.pipeline import Warehouse, ingest, read_frame, read_table, update
    from leveret.pipeline.computing.tasks import TABLE_NAMES
    from leveret.pipeline.kernel.subjects.across import ACROSS
    from leveret.spark import register

    spark = None
    if engine != "processes":
        from leveret.pipeline.computing.spark_session import local_session

        spark = local_session("small", master=engine or None)
    warehouse = Warehouse(place)
    # Two updates, so that the tables have rows of both.
    files = sorted(Path(traces).iterdir())
    for part in (files[: len(files) // 2], files):
        ingest(warehouse, part, spark=spark)
        update(warehouse, spark=spark)
    by_spark = () if spark is None else ("events", "copies", *ACROSS)
    tables = {
        name: digest(read_table(warehouse, name).to_pylist(maps_as_pydicts="strict"))
        for name in ("events", *TABLE_NAMES, *ACROSS)
        if name not in by_spark
    }
    facts: dict[str, Any] = {"spark": "no Spark", "leveret": leveret.__file__, "leveret_of_tasks": leveret.__file__}
    if spark is not None:
        for name in by_spark:
            rows = read_frame(spark, warehouse, name).collect()
            tables[name] = digest([row.asDict(recursive=True) for row in rows])
        register(spark)
        read = spark.read.format("leveret").load(traces).collect()
        facts["of_traces"] = digest([row.asDict() for row in read])
        of_tasks = spark.range(0, 2, 1, 2).mapInArrow(place_of_leveret, "place string").distinct().collect()
        facts["leveret_of_tasks"] = " ".join(row.place for row in of_tasks)
        master = os.environ.get("SPARK_REMOTE") or spark.sparkContext.master
        facts["spark"] = f"Spark {spark.version} on {master}"
    Path(target).write_text(json.dumps({**facts, "tables": tables}))
    if spark is not None:
        spark.stop()


def place_of_leveret(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    import leveret

    for _ in batches:
        yield pyarrow.record_batch([pyarrow.array([leveret.__file__])], ["place"])


def digest(rows: list[dict[str, Any]]) -> tuple[int, str]:
    texts = sorted(repr(ordered(row)) for row in rows)
    return len(texts), hashlib.sha256("\n".join(texts).encode()).hexdigest()


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, ordered(item)) for key, item in value.items())
    return [ordered(item) for item in value] if isinstance(value, list) else value


def processes(folder: Path) -> dict[str, Any]:
    return run([sys.executable, __file__, "job"], folder, "processes", {}, "processes")


def classic(folder: Path) -> dict[str, Any]:
    return run([sys.executable, __file__, "job"], folder, "classic", {})


def local_cluster(folder: Path) -> dict[str, Any]:
    return sent(folder, "local-cluster", {}, LOCAL_CLUSTER)


def local_cluster_submit(folder: Path) -> dict[str, Any]:
    return submitted(folder, "local-cluster-submit", LOCAL_CLUSTER)


def standalone(folder: Path) -> dict[str, Any]:
    with a_cluster(folder) as url:
        return sent(folder, "standalone", {}, url)


def standalone_submit(folder: Path) -> dict[str, Any]:
    with a_cluster(folder) as url:
        return submitted(folder, "standalone-submit", url)


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
    with running(server, folder / "connect.log", port, bare(folder)):
        return sent(folder, "connect", {"SPARK_REMOTE": f"sc://{BIND}:{port}"}, "")


@contextmanager
def a_cluster(folder: Path) -> Iterator[str]:
    """Run a master and two workers during the block, which gets the master's URL."""
    port = free_port()
    spark_class = str(spark_home() / "bin" / "spark-class")
    master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", BIND, "--port", str(port)]
    url = f"spark://{BIND}:{port}"
    worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--host", BIND]
    environment = bare(folder)
    with running([*master, "--webui-port", "0"], folder / "master.log", port, environment):
        places = [str(folder / f"worker{number}") for number in range(2)]
        ports = [free_port(), free_port()]
        commands = [
            [*worker, "--webui-port", "0", "--port", str(own), "--work-dir", place, url]
            for own, place in zip(ports, places, strict=True)
        ]
        first, second = folder / "worker0.log", folder / "worker1.log"
        with running(commands[0], first, ports[0], environment), running(commands[1], second, ports[1], environment):
            yield url


LOCAL_CLUSTER = "local-cluster[2,1,1024]"
BACKENDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "processes": processes,
    "classic": classic,
    "local-cluster": local_cluster,
    "local-cluster-submit": local_cluster_submit,
    "standalone": standalone,
    "standalone-submit": standalone_submit,
    "connect": connect,
}


def sent(folder: Path, name: str, environment: dict[str, str], master: str) -> dict[str, Any]:
    """Run the job with a driver that has leveret, and tasks that get it from there."""
    import leveret

    package = str(Path(leveret.__file__).parents[1])
    answer = run([sys.executable, __file__, "job"], folder, name, bare(folder) | environment, master, package)
    if ".zip" not in answer["leveret_of_tasks"]:
        raise SystemExit(f"the tasks of {name} did not use the zip but {answer['leveret_of_tasks']}")
    return answer


def submitted(folder: Path, name: str, master: str) -> dict[str, Any]:
    """Run the job by spark-submit, with a driver and tasks that have leveret from --py-files."""
    from leveret.spark.bundle import write_bundle

    write_bundle(folder / "leveret.zip")
    command = [
        *(str(spark_home() / "bin" / "spark-submit"), "--master", master, "--py-files", str(folder / "leveret.zip")),
        *("--conf", f"spark.driver.host={BIND}", "--conf", f"spark.driver.bindAddress={BIND}"),
        *("--conf", "spark.executor.memory=1g", "--conf", "spark.sql.session.timeZone=UTC", __file__, "job"),
    ]
    answer = run(command, folder, name, bare(folder), "")
    if not all(".zip" in answer[of] for of in ("leveret", "leveret_of_tasks")):
        raise SystemExit(f"{name} did not use the zip but {answer['leveret']} and {answer['leveret_of_tasks']}")
    if not answer["spark"].endswith(master):
        raise SystemExit(f"{name} ran on {answer['spark']}")
    return answer


def bare(folder: Path) -> dict[str, str]:
    """Return the environment in which Python has all packages except leveret."""
    python = folder / "python"
    # Without `site`, Python ignores packages that a .pth file installs in place.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(spark_home().parent)}


def run(command: list[str], folder: Path, name: str, environment: dict[str, str], *told: str) -> dict[str, Any]:
    target = folder / f"{name}.json"
    command = [*command, str(folder / "traces"), str(folder / f"warehouse-{name}"), str(target), *(told or ("",))]
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{name} failed:\n{ran.stdout[-2000:]}\n{ran.stderr[-6000:]}")
    answer: dict[str, Any] = json.loads(target.read_text())
    return answer


@contextmanager
def running(command: list[str], log: Path, port: int, environment: dict[str, str]) -> Iterator[None]:
    """Run a server during the block, once its port accepts connections."""
    with open(log, "wb") as said:
        environment = os.environ | environment | {"SPARK_NO_DAEMONIZE": "1"}
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
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
