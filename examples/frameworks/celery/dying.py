"""The shop's worker with one more task, which ends its process as the kernel does when memory runs out."""

from __future__ import annotations

import os
import signal

from shop import app

__all__ = ["app", "run_out_of_memory"]


@app.task
def run_out_of_memory() -> None:
    """End this process."""
    os.kill(os.getpid(), signal.SIGKILL)
