"""The cache of `leveret spark warm`, with which Spark starts in half the CPU time.

To make the cache, a JVM runs the whole pipeline on a trace of a few messages. It does so in a separate process, because
a JVM writes its cache when it ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from leveret.errors import NoJavaError
from leveret.spark import jvm

_MESSAGES = 50


def warm() -> Path:
    """Make the cache for the Java that small work uses, and return its path.

    Raises NoJavaError if no installed Java supports a cache.
    """
    java = next((java for java in jvm.javas() if java.feature >= jvm.OLDEST_JAVA_WITH_CACHE), None)
    if java is None:
        oldest = jvm.OLDEST_JAVA_WITH_CACHE
        raise NoJavaError(
            f"a cache needs Java {oldest} or newer, and none was found: pip install 'leveret[spark-local]' includes one"
        )
    cache = jvm.cache_path(java)
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
        fresh = Path(folder, "cache")
        subprocess.run([sys.executable, "-m", __name__, folder, java.executable, java.version, fresh], check=True)
        os.replace(fresh, cache)
    return cache


def _train(folder: Path, java: jvm.Java, cache: Path) -> None:
    from leveret.pipeline import incremental, spark_session
    from leveret.pipeline.kernel.schema import TABLES
    from leveret.pipeline.tables import read_table
    from leveret.pipeline.warehouse import Warehouse

    traces = folder / "traces"
    traces.mkdir()
    (traces / "training.jsonl").write_text(
        "".join(f"{line}\n" for line in _training_trace()), encoding="utf-8", newline="\n"
    )
    spark, process = spark_session.recording_session(java, cache)
    warehouse = Warehouse(folder / "warehouse")
    incremental.ingest(warehouse, [traces], spark=spark)
    incremental.update(warehouse, spark=spark)
    for name in TABLES:
        read_table(warehouse, name, spark=spark).toPandas()
    spark.stop()
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def _training_trace() -> list[str]:
    lines = [
        json.dumps({"leveret": "trace", "v": 1, "run": "training", "worker": "main", "started": "2026-01-01T00:00:00Z"})
    ]
    where = {"vhost": "/", "conn": 1, "chan": 1}
    for message in range(1, _MESSAGES):
        copy = {"msg": message, "copy": message, "queue": "training"}
        settled = "dead_lettered" if message % 7 == 0 else "acked"
        life = [
            {"kind": "published", **where, "msg": message, "exchange": "", "routing_key": "training"},
            {"kind": "enqueued", "vhost": "/", **copy},
            {
                "kind": "delivered",
                **where,
                **copy,
                "consumer": "ctag1",
                "tag": message,
                "redelivered": False,
                "count": 0,
            },
            {"kind": settled, **where, **copy, "tag": message, "reason": "rejected" if message % 7 == 0 else None},
        ]
        for event in life:
            fields = {name: value for name, value in event.items() if value is not None}
            lines.append(json.dumps({"seq": len(lines), "ts": len(lines) * 10, "test": "training", **fields}))
    return lines


if __name__ == "__main__":
    _folder, _executable, _version, _cache = sys.argv[1:]
    _train(Path(_folder), jvm.Java(Path(_executable), _version, "warm"), Path(_cache))
