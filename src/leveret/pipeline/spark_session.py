"""The Spark session the pipeline works in: the caller's where there is one, else one of our own.

What comes first: a session that is active, `SPARK_REMOTE`, a JVM that `spark-submit` started, a JVM of our own at the
master that was given. A session that was not made here is neither configured nor stopped.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from leveret.spark import jvm
from leveret.spark.jvm import Profile

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import Popen

# Of sessions made here, on any master.
_ALWAYS: Final = {
    "spark.app.name": "leveret",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # Events take about ten bytes each: Spark's 128 MB would put ten million into one task.
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # All tables together have more code than the 100 classes that Spark keeps by itself: each update of one process
    # would generate and compile all of it anew.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
_LOCAL: Final = {
    # Asking a name server for this machine takes seconds where there is none.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_SMALL: Final = {"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1"}
# Many questions about little: to compile them takes Java twice as long as to work them out uncompiled.
UNCOMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
# PySpark asks Java some four things for each column, to say in an error where in Python it was made.
WITHOUT_CALL_SITES: Final = {"spark.python.sql.dataFrameDebugging.enabled": "false"}

# The JVM this process started, which later sessions of it share.
_started: list[Popen[bytes]] = []


def local_session(
    profile: Profile = "small",
    *,
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session there is, else a new one: at `SPARK_REMOTE` or `master`, or on this machine.

    `profile` is for a new JVM: "test" and "small" start fast (one shuffle partition, one compiler, the cache of
    `leveret spark warm`), and "test" works queries out without compiling them; "big" is for millions of events.
    `memory` is the JVM's, in Java's notation ("4g").
    Raises NoJavaError, when a JVM is needed and there is none, and JavaStartError.
    """
    if profile not in jvm.PROFILES:
        raise ValueError(f"profile {profile!r} is none of {', '.join(jvm.PROFILES)}")
    if (existing := existing_session()) is not None:
        return existing
    remote = master if master is not None and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if remote:
        return SparkSession.builder.remote(remote).getOrCreate()
    chosen = {**_of(profile, master), **(settings or {})}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(chosen, master)
    if not _jvm_is_there():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        with jvm.announced():
            _started.append(jvm.start(profile, chosen, memory=memory))
            return _build(chosen)
    return _build(chosen)


def existing_session() -> SparkSession | None:
    """The session of the caller, or of `local_session` before, if there is one that works."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    from pyspark import SparkContext

    # Of another thread: getOrCreate without a setting returns it as it is.
    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context is not None else None


def taught(java: jvm.Java, cache_output: Path) -> tuple[SparkSession, Popen[bytes]]:
    """A session in a JVM that writes its cache when it ends, and that JVM. For a process that has no other."""
    chosen = _of("small", None)
    with jvm.announced():
        process = jvm.start("small", chosen, java=java, cache_output=cache_output)
        return _build(chosen), process


@contextmanager
def session(
    profile: Profile = "small",
    *,
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """`local_session`, stopped at the end when it was made for this."""
    is_ours = existing_session() is None
    spark = local_session(profile, master=master, memory=memory, settings=settings)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def _of(profile: Profile, master: str | None) -> dict[str, str]:
    chosen = {**_ALWAYS, "spark.master": master or ("local[2]" if profile == "test" else "local[*]")}
    chosen["spark.sql.warehouse.dir"] = os.path.join(tempfile.gettempdir(), "leveret-spark-warehouse")
    if chosen["spark.master"].startswith("local"):
        chosen |= _LOCAL
    if profile != "big":
        chosen |= _SMALL
    return chosen | UNCOMPILED if profile == "test" else chosen


def _submitted(settings: Mapping[str, str], master: str | None) -> SparkSession:
    """A session in the JVM of `spark-submit`: where and how it runs was said there, unless a master is given."""
    spark = _build({} if master is None else {"spark.master": master})
    said = spark.sparkContext.getConf()
    for name, value in settings.items():
        if spark.conf.isModifiable(name) and not said.contains(name):
            spark.conf.set(name, value)
    return spark


def _build(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _jvm_is_there() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None
