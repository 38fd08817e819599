"""What this system has, for tests that need it: `@needs_proc`."""

from __future__ import annotations

import _socket
import os
from contextlib import suppress

import pytest


def has_proc() -> bool:
    """Return whether the system shows its processes in /proc."""
    with suppress(OSError):
        return bool(os.listdir("/proc/self/task"))
    return False


needs_proc = pytest.mark.skipif(not has_proc(), reason="looks into /proc")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_quickack = pytest.mark.skipif(not hasattr(_socket, "TCP_QUICKACK"), reason="only Linux acknowledges at once")
# Windows lets a new socket listen at once on a port that was in use.
needs_port_again = pytest.mark.skipif(
    os.name == "posix" and not hasattr(_socket, "SO_REUSEADDR"), reason="no port can be listened on again for a minute"
)
