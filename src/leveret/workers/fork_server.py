"""A process that starts the processes of workers, and ends them all when the test process ends, however it ends.

It has one thread and no socket of the test's, so its children are clean. The first worker starts it. Before it forks
for a function, it imports the installed packages that the function's module uses, so that a child has them at once.
The function's own module is imported in the child, with the child's environment.

It holds one end of a pipe. When the test process is gone, the pipe is closed, and it kills every process that has come
from it: on Linux it adopts those whose parents have ended, elsewhere it knows them by their groups.
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
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from time import monotonic
from types import ModuleType
from typing import Any, Final, NamedTuple

from leveret.server.threads import family_of
from leveret.workers.startup import sitecustomize

# How long the processes that were killed may take to be gone, and how long to wait for the end of one of them.
_KILLED_S: Final = 5.0
_TICK_S: Final = 0.05
# What Linux has no other call for, see prctl(2): the signal at the death of the parent, and to adopt orphans.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class Program(NamedTuple):
    """A program to run in a child, in a session of its own."""

    command: list[str]
    environment: dict[str, str]
    cwd: str


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


class ForkServer:
    """This process's side of the fork server. A server that is gone is replaced when the next child is wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # The exit codes of children, those that run, and the numbers or errors of starts that were not fetched.
        self._codes: dict[int, int] = {}
        self._running: set[int] = set()
        self._started: list[int | Exception] = []

    def start(self, order: Task | Program, *files: int) -> int:
        """Return the number of a new child. It prints to the first of these files, and may read from the second.

        Raises what starting a program raises, and ChildProcessError if the server ends each time.
        """
        with self._lock:
            started = self._asked(order, files) or self._asked(order, files)
        if started is None:
            code = None if self._process is None else self._process.returncode
            raise ChildProcessError(
                f"the process that starts workers ended with {code} before it had started this one, and so did the "
                "next; look at what it printed to stderr, or for what kills it"
            )
        if isinstance(started, Exception):
            raise started
        return started

    def code_of(self, pid: int) -> int | None:
        """Return the exit code of a child; None while it runs."""
        with self._lock:
            if self._control is not None and self._control.poll(0):
                self._receive(self._control)
        return self._codes.get(pid)

    def stop(self) -> None:
        """End the server, and with it its children."""
        with self._lock:
            self._lose()

    def forget(self) -> None:
        """Leave the server to the parent of this process, which is a fork: the server waits for its end only."""
        control, process = self._control, self._process
        vars(self).update(vars(ForkServer()))
        if control is not None and process is not None:
            control.close()
            # It is not this process's child, so its object has nothing to wait for.
            process.returncode = 0

    def _asked(self, order: Task | Program, files: Iterable[int]) -> int | Exception | None:
        """Return the number of a new child, or why there is none; None if the server has ended."""
        control = self._control or self._new_server()
        with suppress(OSError):
            control.send(order)
            with _socket_of(control) as pipe:
                socket.send_fds(pipe, [b"\0"], list(files))
        while self._control is not None and not self._started:
            self._receive(control)
        return self._started.pop() if self._started else None

    def _new_server(self) -> Connection:
        self._control, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "leveret.workers.fork_server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        return self._control

    def _receive(self, control: Connection) -> None:
        try:
            pid, outcome = control.recv()
        except (EOFError, OSError):
            self._lose()
            return
        if outcome is None:
            self._codes.pop(pid, None)
            self._running.add(pid)
            self._started.append(pid)
        elif pid is None:
            self._started.append(outcome)
        else:
            self._codes[pid] = outcome
            self._running.discard(pid)

    def _lose(self) -> None:
        """Note that the server has ended, and its children with it."""
        if self._control is None or self._process is None:
            return
        self._control.close()
        self._process.wait()
        self._control = None
        for pid in self._running:
            _kill_group(pid)
            self._codes[pid] = -signal.SIGKILL
        self._running.clear()


SERVER: Final = ForkServer()
# Registered before the exit of `worker`, so that this comes after it: the last workers are asked to end first.
atexit.register(SERVER.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SERVER.forget)


def _socket_of(control: Connection) -> socket.socket:
    """Return a socket of a connection, for a file.

    On macOS, multiprocessing acknowledges each file that it sends, with a byte that what else comes may overtake.
    """
    pipe = socket.socket(fileno=os.dup(control.fileno()))
    # The connection shares this with its sockets, and a test may have set a default timeout.
    pipe.setblocking(True)
    return pipe


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def end_with(parent: int) -> None:
    """Let Linux kill this process when its parent ends. Elsewhere, do nothing."""
    _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _control_process(option: int, value: int) -> None:
    if sys.platform == "linux":
        # Python may have been built without it.
        with suppress(ImportError):
            import ctypes

            ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


class _Serving:
    """The server's side: it starts a child for each order, and reports each child's end."""

    def __init__(self, control: Connection) -> None:
        self._control = control
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._running: set[int] = set()
        # The children that ended, whose groups may live on.
        self._ended: set[int] = set()
        self._handlers: dict[int, Any] = {}

    def serve(self) -> None:
        """Serve until the test process closes its side or ends, or a signal asks this one to end."""
        _control_process(_PR_SET_CHILD_SUBREAPER, 1)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGCHLD:
                self._handlers[number] = signal.signal(number, lambda *_: None)
        try:
            while self._turn():
                pass
        finally:
            self._end_all()

    def _turn(self) -> bool:
        """Wait for something, deal with it, and return whether to go on."""
        readable = wait([self._control, self._woken])
        if self._woken in readable:
            if set(self._woken.recv(4096)) - {signal.SIGCHLD}:
                return False
            self._report()
        if self._control in readable:
            try:
                order = self._control.recv()
                with _socket_of(self._control) as pipe:
                    _, files, _, _ = socket.recv_fds(pipe, 1, 2)
            except (EOFError, OSError):
                return False
            self._start(order, files)
        return True

    def _report(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                # An orphan is adopted, and the test process has never heard of it.
                if pid in self._running:
                    self._running.remove(pid)
                    self._ended.add(pid)
                    self._send(pid, os.waitstatus_to_exitcode(status))

    def _send(self, pid: int | None, outcome: int | Exception | None) -> None:
        # The test process may end at any moment. The next turn notices it.
        with suppress(OSError):
            self._control.send((pid, outcome))

    def _start(self, order: Task | Program, files: list[int]) -> None:
        try:
            pid = self._fork(order, *files) if isinstance(order, Task) else self._spawn(order, *files)
        except Exception as error:
            self._send(None, error)
        else:
            self._running.add(pid)
            self._ended.discard(pid)
            self._send(pid, None)
        for file in files:
            os.close(file)

    def _spawn(self, program: Program, *files: int) -> int:
        started = spawn(program, *files, preexec_fn=partial(end_with, os.getpid()))
        # The server waits for all of its children at once.
        started.returncode = 0
        return started.pid

    def _fork(self, task: Task, output: int) -> int:
        for name in task.needs:
            with suppress(Exception):
                importlib.import_module(name)
        server = os.getpid()
        pid = os.fork()
        if pid:
            # The child does the same. Whichever is first, the group exists before a signal is sent to it.
            with suppress(PermissionError, ProcessLookupError):
                os.setpgid(pid, pid)
            return pid
        code = 1
        try:
            end_with(server)
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            for each in (self._control, self._woken, self._wake):
                each.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            code = run(task)
        finally:
            os._exit(code)

    def _end_all(self) -> None:
        """Kill what has come from this process, and wait until it is gone."""
        for pid in (*self._running, *self._ended):
            # If there is a process with the number of one that has ended, its group has ended too.
            if pid in self._running or not _exists(pid):
                _kill_group(pid)
        limit = monotonic() + _KILLED_S
        while monotonic() < limit:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            left = family_of(str(os.getpid()))[1:]
            if not left:
                return
            for pid in map(int, left):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if wait([self._woken], _TICK_S):
                self._woken.recv(4096)


def spawn(program: Program, output: int, given: int = subprocess.DEVNULL, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that prints to `output` and reads from `given`, with more options of Popen."""
    return subprocess.Popen(
        program.command,
        stdin=given,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=program.environment,
        cwd=program.cwd,
        start_new_session=True,
        **options,
    )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def run(task: Task) -> int:
    """Run a task in this process, and return its exit code."""
    try:
        os.environ.clear()
        os.environ.update(task.environment)
        sitecustomize.lead_as_told()
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
    # As multiprocessing does: what a script does if it is the main module is not done again.
    spec = importlib.util.spec_from_file_location("__mp_main__" if name == "__main__" else name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    # The class of a pickled order is that of the imported module, and this one runs as __main__.
    from leveret.workers import fork_server

    if sys.argv[1:]:
        fork_server._Serving(Connection(int(sys.argv[1]))).serve()
    else:
        sys.exit(fork_server.run(pickle.load(sys.stdin.buffer)))
