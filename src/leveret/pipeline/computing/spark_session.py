"""The Spark session of the pipeline: the caller's if it has one, else a new one.

The first of these wins: an active session, `SPARK_REMOTE`, a JVM that `spark-submit` started, a new JVM at the given
master. A session that was not made here is neither configured nor stopped.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from leveret.pipeline.computing.worker import ATTEMPTS
from leveret.spark import jvm
from leveret.spark.jvm import Profile

if TYPE_CHECKING:
    from subprocess import Popen

# The settings of every session that is made here, on any master.
_ALWAYS: Final = {
    "spark.app.name": "leveret",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # An event takes about ten bytes, so with Spark's default of 128 MB one task would get ten million of them.
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # All tables together need more than the 100 classes that Spark caches by default. Otherwise each update of a
    # process would generate and compile all of them again.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
_LOCAL: Final = {
    # Without a name server, resolving this machine's name takes seconds.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_SMALL: Final = {"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1"}
# For many queries over little data: compiling them takes Java twice as long as running them uncompiled.
UNCOMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
# PySpark makes about four calls to Java for each column, so that an error can name the Python line that made it.
WITHOUT_CALL_SITES: Final = {"spark.python.sql.dataFrameDebugging.enabled": "false"}

# A master that takes longer to accept a connection is of no use.
_LONGEST_ANSWER_S: Final = 5.0

# The JVM that this process started. Later sessions share it.
_started: list[Popen[bytes]] = []


def local_session(
    profile: Profile = "small",
    *,
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the existing session, or else a new one: at `SPARK_REMOTE` or `master`, or on this machine.

    `profile` configures a new JVM. "test" and "small" start fast (one shuffle partition, one compiler), and "test"
    also runs queries without compiling them and tries a task only once. "big" is for millions of events.
    `memory` is the JVM's, in Java's notation ("4g").

    Raises ValueError if the profile does not exist, ConnectionError if no master answers, NoJavaError if a JVM is
    needed and no Java is usable, and JavaStartError if the JVM does not start.
    """
    if profile not in jvm.PROFILES:
        raise ValueError(f"profile {profile!r} does not exist; use one of {', '.join(jvm.PROFILES)}")
    if (existing := existing_session()) is not None:
        return existing
    remote = master if master is not None and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if remote:
        return SparkSession.builder.remote(remote).getOrCreate()
    _check_reachable(master or "")
    chosen = {**_of(profile, master), **(settings or {})}
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(chosen, master)
    if not _has_jvm():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        with jvm.announced():
            _started.append(jvm.start(profile, chosen, memory=memory))
            return _build(chosen)
    return _build(chosen)


def _check_reachable(master: str) -> None:
    """Raise ConnectionError unless one of the masters of a standalone cluster answers. Spark takes 90 s to say so."""
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), timeout=_LONGEST_ANSWER_S):
            return
    raise ConnectionError(f"no Spark master answers at {master}: start it, or correct --master (spark://HOST:7077)")


def existing_session() -> SparkSession | None:
    """Return the working session of the caller or of an earlier `local_session`, or None."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    from pyspark import SparkContext

    # The session may belong to another thread. getOrCreate without settings returns it unchanged.
    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context is not None else None


@contextmanager
def session(
    profile: Profile = "small",
    *,
    master: str | None = None,
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield the session of `local_session`, and stop it at the end if it was made for this."""
    is_ours = existing_session() is None
    spark = local_session(profile, master=master, memory=memory, settings=settings)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def _of(profile: Profile, master: str | None) -> dict[str, str]:
    # On one machine, Spark tries a task once unless the master says how often. In a test, an error should show at once.
    chosen = {**_ALWAYS, "spark.master": master or ("local[2]" if profile == "test" else f"local[*,{ATTEMPTS}]")}
    chosen["spark.sql.warehouse.dir"] = os.path.join(tempfile.gettempdir(), "leveret-spark-warehouse")
    if chosen["spark.master"].startswith("local"):
        chosen |= _LOCAL
    if profile != "big":
        chosen |= _SMALL
    return chosen | UNCOMPILED if profile == "test" else chosen


def _submitted(settings: Mapping[str, str], master: str | None) -> SparkSession:
    """Return a session in the JVM of `spark-submit`, whose own settings win; a given master wins over its master."""
    spark = _build({} if master is None else {"spark.master": master})
    submitted = spark.sparkContext.getConf()
    for name, value in settings.items():
        if spark.conf.isModifiable(name) and not submitted.contains(name):
            spark.conf.set(name, value)
    return spark


def _build(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _has_jvm() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None
