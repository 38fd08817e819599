"""The brokers that are compared, each as a process of its own, and the C programs beside them.

The C sources stand in this folder and are compiled at first use, into a temporary folder that is theirs by content.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent
SERVE = (sys.executable, "-m", "leveret", "serve", "--port", "0")


class NoCompiler(Exception):
    """There is none."""


@dataclass(frozen=True)
class Server:
    """A broker that listens."""

    url: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 5672

    @property
    def vhost(self) -> str:
        return unquote(urlsplit(self.url).path[1:]) or "/"


def executable(name: str) -> str:
    """The program of a C source in this folder; NoCompiler where it cannot be made."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("there is no C compiler: install gcc, or name one by CC")
    sources = [HERE / f"{name}.c", HERE / "octets.h"]
    content = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"leveret-benchmarks-{content}")
    program = folder / name
    if not program.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        unfinished = folder / f"{name}.{os.getpid()}"
        subprocess.run([compiler, "-O3", "-o", str(unfinished), str(sources[0])], check=True)
        unfinished.replace(program)
    return str(program)


@contextmanager
def leveret() -> Iterator[Server]:
    """The command that serves a broker without recording."""
    with _started(SERVE) as url:
        yield Server(url)


@contextmanager
def ceiling() -> Iterator[Server]:
    """The broker that does the least there is to do."""
    with _started((executable("ceiling"),)) as port:
        yield Server(f"amqp://guest:guest@127.0.0.1:{port}/")


@contextmanager
def _started(command: tuple[str, ...]) -> Iterator[str]:
    """A process that says in its first line where it listens."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
