"""The doctor: a check of what Spark needs to start here, with advice on what is missing."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from leveret.errors import NoJavaError
from leveret.spark import jvm

Verdict = Literal["ok", "note", "wrong"]

INSTALL = "pip install 'leveret[spark-local]' (includes a Java), or 'leveret[spark]' if you have a Java"


@dataclass(frozen=True, slots=True)
class SparkFinding:
    """The result of one check. "wrong" keeps Spark from starting; you can ignore a "note"."""

    verdict: Verdict
    text: str


def examine() -> Iterator[SparkFinding]:
    """Check everything that decides whether and how Spark starts here, without starting it."""
    yield SparkFinding("ok", f"Python {platform.python_version()}")
    spark = _version_of("pyspark")
    if spark is None or find_spec("pyspark") is None:
        yield SparkFinding("wrong", f"pyspark is not installed: {INSTALL}")
        return
    yield from _packages(spark)
    if remote := os.environ.get("SPARK_REMOTE"):
        yield SparkFinding("ok", f"SPARK_REMOTE={remote}: Spark Connect is used, so this machine needs no Java")
        return
    if home := os.environ.get("SPARK_HOME"):
        yield SparkFinding("note", f"SPARK_HOME={home}: this Spark is used instead of the one in the pyspark package")
    yield from _javas()
    if shutil.which("rm") is None:
        yield SparkFinding("note", "rm is not on PATH: Spark will warn that it cannot delete its temporary folders")


def _packages(spark: str) -> Iterator[SparkFinding]:
    if (4, 2) <= _pair(spark) < (4, 4):
        yield SparkFinding("ok", f"pyspark {spark}")
    else:
        yield SparkFinding("wrong", f"pyspark {spark} is not supported, only 4.2 and 4.3 are: {INSTALL}")
    if _version_of("pyspark-client") is not None:
        yield SparkFinding(
            "wrong",
            "pyspark-client is installed in the same folder as pyspark: uninstall both, then install one of them",
        )
    for name, first, below in (("pandas", 2, 3), ("pyarrow", 18, None)):
        found = _version_of(name)
        if found is None:
            yield SparkFinding("wrong", f"{name} is not installed: {INSTALL}")
        elif _pair(found)[0] < first or (below is not None and _pair(found)[0] >= below):
            wanted = f"{first} or newer" + (f", below {below}" if below else "")
            yield SparkFinding("wrong", f"{name} {found} does not work with this pyspark: install {name} {wanted}")
        else:
            yield SparkFinding("ok", f"{name} {found}")


def _javas() -> Iterator[SparkFinding]:
    for java in jvm.javas():
        if java.feature < jvm.OLDEST_JAVA:
            needed = f"Spark needs {jvm.OLDEST_JAVA} or newer"
            yield SparkFinding("note", f"Java {java.version} ({java.found_by}) is too old: {needed}")
        else:
            yield SparkFinding("ok", f"Java {java.version} ({java.found_by})")
    try:
        chosen = jvm.find_java()
    except NoJavaError as error:
        yield SparkFinding("wrong", str(error))
        return
    yield SparkFinding("ok", f"Java {chosen.version} ({chosen.found_by}) is used")


def _version_of(package: str) -> str | None:
    # Every command imports this module, and few ask for a version.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _pair(text: str) -> tuple[int, int]:
    major, minor, *_ = [*text.split("."), "0"]
    return int(major), int(minor)
