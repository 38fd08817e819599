"""What this system has, for tests that need it: `@needs_proc`."""

from __future__ import annotations

import _socket
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest


def has_proc() -> bool:
    """Return whether the system shows its processes in /proc."""
    with suppress(OSError):
        return bool(os.listdir("/proc/self/task"))
    return False


@contextmanager
def files_up_to(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond this size, as on a disk that is full. Skip the test on a system without such limits."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # The limit would cut what an import caches, too.
    caches_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        sys.dont_write_bytecode = caches_nothing
        signal.signal(signal.SIGXFSZ, handler)


needs_proc = pytest.mark.skipif(not has_proc(), reason="looks into /proc")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_quickack = pytest.mark.skipif(not hasattr(_socket, "TCP_QUICKACK"), reason="only Linux acknowledges at once")
# Windows lets a new socket listen at once on a port that was in use.
needs_port_again = pytest.mark.skipif(
    os.name == "posix" and not hasattr(_socket, "SO_REUSEADDR"), reason="no port can be listened on again for a minute"
)
