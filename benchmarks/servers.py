"""The brokers that are compared, each in a separate process, and the C programs that the benchmarks use.

The C sources are in this folder. They are compiled on first use, into a temporary folder named by a hash of their
content.
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
    """No C compiler is installed."""


@dataclass(frozen=True)
class Server:
    """A running broker."""

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
    """Return the program for a C source in this folder. Raises NoCompiler if it cannot be compiled."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("no C compiler was found: install gcc, or set CC")
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
    """Return the command that serves a broker without recording."""
    with _started(SERVE) as url:
        yield Server(url)


@contextmanager
def ceiling() -> Iterator[Server]:
    """Start the broker that does as little as possible."""
    with _started((executable("ceiling"),)) as port:
        yield Server(f"amqp://guest:guest@127.0.0.1:{port}/")


@contextmanager
def _started(command: tuple[str, ...]) -> Iterator[str]:
    """Start a process that prints its address in its first line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
