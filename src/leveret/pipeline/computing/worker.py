"""A process that carries out tasks: it reads lines of JSON from its input, and writes a line for each to its output.

    python -m leveret.pipeline.computing.worker TASK

It ends when its input does, so it never outlives the process that started it. Unlike a worker of multiprocessing, it
does not import the program that started it; so an update needs no `if __name__ == "__main__"` around it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from contextlib import suppress
from threading import Lock
from typing import Final

# How often a piece may be lost with its process before the work fails; Spark's default for a task on a cluster, too.
ATTEMPTS: Final = 4


class TaskError(RuntimeError):
    """A task failed in another process; the message holds that process's traceback."""


class TaskWorker:
    """A running worker, seen from the process that gives it work."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._lock = Lock()
        self._is_closed = False
        self._process = self._started()

    def carry_out(self, piece: str) -> str | None:
        """Return the result of a piece, or None if the process died. Raises TaskError if the task failed."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(piece, file=process.stdin, flush=True)
            answer = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            return None
        kind, _, content = answer.partition(" ")
        if not answer.endswith("\n"):
            return None
        if kind == "failed":
            raise TaskError(json.loads(content))
        return content

    def restart(self) -> None:
        """Start another process instead of one that died."""
        with self._lock:
            if not self._is_closed:
                _end(self._process)
                self._process = self._started()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            self._is_closed = True
            _end(self._process)

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, self._task],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
            encoding="utf-8",
        )


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()


def main(task: str) -> None:
    """Carry out the pieces that come in."""
    from leveret.pipeline.computing.tasks import carry_out

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Whatever a library prints must not come between the answers.
    os.dup2(2, 1)
    for piece in sys.stdin:
        try:
            print("done", carry_out(task, piece), file=answers, flush=True)
        except Exception:
            print("failed", json.dumps(traceback.format_exc()), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
