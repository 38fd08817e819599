"""Processes of workers: programs, and functions of the test's, in children of the fork server where there is fork.

Each has a process group of its own, so that it ends with all its children. Its output is read line by line on a thread.
"""

from __future__ import annotations

import codecs
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final

from leveret.server.pollers import READABLE, PollPoller
from leveret.workers import fork_server

# How long the rest of the output may take.
_READ_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.01
# More than a pipe holds, so that one read takes all that was printed before it.
_PIPE_BYTES: Final = 1 << 20
_HAS_FORK: Final = hasattr(os, "fork")
# The frameworks of macOS break in a fork that runs Python.
_CAN_FORK: Final = _HAS_FORK and sys.platform != "darwin"
Note = Callable[[str], None]


class Started:
    """A process that was started here, until its end."""

    pid: int

    def __init__(self, poll: Callable[[], int | None]) -> None:
        """`poll` returns the exit code, or None while it runs."""
        self._poll = poll
        self._code: int | None = None

    def code(self) -> int | None:
        """Return the exit code; None while it runs."""
        # Kept here, because a later process may get the same number.
        if self._code is None:
            self._code = self._poll()
        return self._code

    def wait(self, seconds: float) -> bool:
        """Wait for its end, and return whether it came."""
        limit = monotonic() + seconds
        while self.code() is None:
            if monotonic() > limit:
                return False
            threading.Event().wait(_LOOK_EVERY_S)
        return True


class Process(Started):
    """A process, its group and its output."""

    def __init__(self, pid: int, poll: Callable[[], int | None], output: int, note: Note) -> None:
        """`output` is the descriptor that its output is read from."""
        super().__init__(poll)
        self.pid = pid
        self._output = _Output(output, note)
        self._reader = threading.Thread(target=self._output.read_all, daemon=True, name=f"output of {self.pid}")
        self._reader.start()

    def read_output(self) -> None:
        """Note what it has printed by now, whether or not the thread that reads has had its turn."""
        # A pipe of Windows cannot be asked whether it holds anything.
        if sys.platform != "win32":
            self._output.read()

    def kill(self) -> None:
        """Kill the group at once."""
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(self.pid)], check=False, capture_output=True)
        else:
            self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the group to end."""
        if sys.platform == "win32":
            self.kill()
        else:
            self._signal(signal.SIGTERM)

    def close(self) -> None:
        """End what is left of the group, and read the rest of the output."""
        if sys.platform != "win32":
            self._signal(signal.SIGKILL)
        self._reader.join(_READ_S)

    def _signal(self, number: int) -> None:
        # A group lives as long as one of its processes does.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class Fork(Started):
    """A fork of this process that acts, and ends with it. It belongs to the group of this process."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(self._ended)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid:
            return
        try:
            fork_server.end_with(parent)
            act()
        finally:
            os._exit(0)

    def _ended(self) -> int | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def kill(self) -> None:
        """Kill it at once."""
        if self.code() is None:
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Do nothing: it has no output of its own."""


def program(
    command: Sequence[str | os.PathLike[str]], environment: Mapping[str, str], cwd: str | None, note: Note
) -> Process:
    """Start a program. Raises OSError with its name if there is none."""
    words = [os.fspath(word) for word in command]
    return _begun(fork_server.Program(words, dict(environment), cwd or os.getcwd()), note)


def forked(
    function: Callable[..., object], args: tuple[Any, ...], environment: Mapping[str, str], cwd: str | None, note: Note
) -> Process:
    """Run a function in a child of the fork server; where fork is not safe, in a fresh Python.

    Raises ValueError for a function that another process cannot import.
    """
    if "<" in function.__qualname__ or function.__module__ not in sys.modules:
        raise ValueError(
            f"worker({function.__name__}): its process imports the function; define it at the top of a module"
        )
    module = sys.modules[function.__module__]
    try:
        packed_args = pickle.dumps(args)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise TypeError(f"worker({function.__name__}): args cannot be sent to another process: {error}") from None
    task = fork_server.Task(
        module=module.__name__,
        file=getattr(module, "__file__", None) or "",
        function=function.__qualname__,
        args=packed_args,
        environment=dict(environment),
        cwd=cwd or os.getcwd(),
        path=list(sys.path),
        needs=fork_server.needs_of(module),
    )
    if _CAN_FORK:
        return _begun(task, note)
    # A command line is for all to read, and the environment of a task may hold secrets.
    with tempfile.TemporaryFile() as file:
        pickle.dump(task, file)
        file.seek(0)
        command = [sys.executable, "-m", "leveret.workers.fork_server"]
        return _begun(fork_server.Program(command, task.environment, task.cwd), note, file.fileno())


def _begun(order: fork_server.Task | fork_server.Program, note: Note, *given: int) -> Process:
    """Return a new process, which reads from the file that is given, if one is."""
    read_end, write_end = os.pipe()
    try:
        if isinstance(order, fork_server.Program) and not _HAS_FORK:
            started = fork_server.spawn(order, write_end, *given)
            return Process(started.pid, started.poll, read_end, note)
        pid = fork_server.SERVER.start(order, write_end, *given)
        return Process(pid, partial(fork_server.SERVER.code_of, pid), read_end, note)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)


class _Output:
    """The end of a pipe that a process prints to. Two threads may read it: each whole line is noted once, in order."""

    def __init__(self, descriptor: int, note: Note) -> None:
        self._descriptor = descriptor
        self._note = note
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._begun = ""
        self._has_ended = False
        self._lock = threading.Lock()

    def read_all(self) -> None:
        """Read until no process can write to it any more, and close it."""
        while not self._has_ended:
            self._holds_something(None)
            self.read()
        # The other thread may have read the end, but closing it there would pull it away from under a wait.
        os.close(self._descriptor)

    def read(self) -> None:
        """Read what it holds now."""
        with self._lock:
            if self._has_ended or not self._holds_something(0):
                return
            data = b""
            with suppress(OSError):
                data = os.read(self._descriptor, _PIPE_BYTES)
            *lines, self._begun = (self._begun + self._decoder.decode(data, final=not data)).split("\n")
            for line in lines:
                self._note(line)
            self._has_ended = not data
            if self._has_ended and self._begun:
                self._note(self._begun)

    def _holds_something(self, timeout: float | None) -> bool:
        """Whether a read would not wait; the end of the pipe counts."""
        if sys.platform == "win32":
            return True
        # An inline broker and eventlet hide `select.poll`, but not this.
        pipe = PollPoller()
        pipe.watch(self._descriptor, READABLE)
        return bool(pipe.wait(timeout))
