"""A process that forks: it has one thread and no socket of the test's, so its children are clean.

It is started with the first function that a worker runs, and ends with the test process. Before it forks, it imports
the installed packages that the function's module uses, so that a child has them at once. The function's own module is
imported in the child, with the child's environment.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import inspect
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from time import monotonic
from types import ModuleType
from typing import Any, Final

_LOOK_EVERY_S: Final = 0.005


@dataclass(frozen=True)
class Task:
    """A function to run in a child, by its module, file and name there."""

    module: str
    file: str
    function: str
    args: bytes
    environment: dict[str, str]
    cwd: str
    path: list[str]
    # Installed packages to import before the fork.
    needs: list[str]


def needs_of(module: ModuleType) -> list[str]:
    """Return the installed modules that a module of the user's uses, directly or through modules of the user's."""
    needs: dict[str, None] = {}
    seen = {module.__name__}
    waiting = [module]
    while waiting:
        for value in list(vars(waiting.pop()).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            used = sys.modules.get(name) if isinstance(name, str) else None
            if used is None or used.__name__ in seen:
                continue
            seen.add(used.__name__)
            package = used.__name__.partition(".")[0]
            # leveret is none of the user's modules, even if it is installed from its source.
            if package == "leveret" or "site-packages" in (getattr(used, "__file__", None) or ""):
                needs[used.__name__] = None
            elif package not in sys.stdlib_module_names:
                waiting.append(used)
    return list(needs)


class Child:
    """A child of the fork server."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        # Kept here, because a later child may get the same number.
        if self._code is None:
            self._code = self._server.code_of(self.pid)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        limit = monotonic() + (timeout or 0)
        while (code := self.poll()) is None:
            if timeout is not None and monotonic() > limit:
                raise subprocess.TimeoutExpired("a worker", timeout)
            self._server.listen(_LOOK_EVERY_S)
        return code


class ForkServer:
    """This process's side of the fork server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # The exit codes of children, and the numbers of those that were forked and not fetched.
        self._codes: dict[int, int] = {}
        self._forked: list[int] = []

    def fork(self, task: Task, output: int) -> Child:
        """Return a new child that runs a task and prints to `output`."""
        with self._lock:
            control = self._started()
            control.send(task)
            with _socket_of(control) as pipe:
                socket.send_fds(pipe, [b"\0"], [output])
            while not self._forked:
                self._receive(control)
            return Child(self, self._forked.pop())

    def code_of(self, pid: int) -> int | None:
        """Return the exit code of a child; None while it runs."""
        self.listen(0)
        return self._codes.get(pid)

    def listen(self, seconds: float) -> None:
        """Take in what the server says within this time."""
        with self._lock:
            if self._control is not None and self._control.poll(seconds):
                self._receive(self._control)

    def stop(self) -> None:
        """End the server, and with it its children."""
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.wait()
            self._control = None

    def _started(self) -> Connection:
        if self._control is None:
            ours, theirs = Pipe()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "leveret.workers.fork_server", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            self._control = ours
            atexit.register(self.stop)
        return self._control

    def _receive(self, control: Connection) -> None:
        try:
            pid, code = control.recv()
        except EOFError:
            text = "the fork server has ended; run the tests again, or pass a program to worker()"
            raise ChildProcessError(text) from None
        if code is None:
            self._codes.pop(pid, None)
            self._forked.append(pid)
        else:
            self._codes[pid] = code


SERVER: Final = ForkServer()


def _socket_of(control: Connection) -> socket.socket:
    """Return a socket of a connection, for a file.

    On macOS, multiprocessing acknowledges each file that it sends, with a byte that what else comes may overtake.
    """
    pipe = socket.socket(fileno=os.dup(control.fileno()))
    # The connection shares this with its sockets, and a test may have set a default timeout.
    pipe.setblocking(True)
    return pipe


def serve(control: Connection) -> None:
    """Fork a child for each task, and report each child's end, until the test process closes its side."""
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    while True:
        readable = wait([control, woken])
        if woken in readable:
            woken.recv(4096)
            _report(control, children)
        if control in readable:
            try:
                task = control.recv()
                with _socket_of(control) as pipe:
                    _, (output,), _, _ = socket.recv_fds(pipe, 1, 1)
            except (EOFError, OSError, ValueError):
                break
            children.add(_fork(task, output, control, woken, wake))
    for child in children:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)


def _report(control: Connection, children: set[int]) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        children.discard(pid)
        with suppress(OSError):
            control.send((pid, os.waitstatus_to_exitcode(status)))


def _fork(task: Task, output: int, control: Connection, *sockets: socket.socket) -> int:
    for name in task.needs:
        with suppress(Exception):
            importlib.import_module(name)
    pid = os.fork()
    if pid:
        # The child does the same. Whichever is first, the group exists before a signal is sent to it.
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        os.close(output)
        control.send((pid, None))
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        for each in sockets:
            each.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        code = run(task)
    finally:
        os._exit(code)


def run(task: Task) -> int:
    """Run a task in this process, and return its exit code."""
    try:
        os.environ.clear()
        os.environ.update(task.environment)
        os.chdir(task.cwd)
        sys.path[:] = task.path
        function: Any = load_module(task.module, task.file)
        for name in task.function.split("."):
            function = getattr(function, name)
        outcome = function(*pickle.loads(task.args))
        if inspect.iscoroutine(outcome):
            import asyncio

            asyncio.run(outcome)
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def load_module(name: str, file: str) -> ModuleType:
    """Import a module: by its name if that leads to its file, or else by the file."""
    with suppress(ImportError):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None and os.path.samefile(found.origin, file):
            return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    (given,) = sys.argv[1:]
    if given.isdecimal():
        serve(Connection(int(given)))
    else:
        # The class of a pickled task is that of the imported module, and this one runs as __main__.
        from leveret.workers import fork_server

        sys.exit(fork_server.run(pickle.loads(bytes.fromhex(given))))
