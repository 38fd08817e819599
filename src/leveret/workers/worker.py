"""One worker: a process that gets the broker's URL, is ready when it consumes, and ends with the test."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from leveret.engine.elsewhere import Twins, elsewhere, twin, warn
from leveret.engine.engine import Engine, refuse_to_starve_clients
from leveret.engine.urls import VARIABLES, part_of, url_host
from leveret.errors import BrokerError, WaitTimeoutError
from leveret.observe.calls.callers import calling_line
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.checks.finding import Finding
from leveret.observe.texts.state import connections
from leveret.server import native
from leveret.server.threads import Threads, family_of
from leveret.time.stillness import IDLE_SHARE, SEEN_S
from leveret.wording import texts_in
from leveret.workers.processes import Process, forked, program

Ready = Callable[[], object] | str | None
K = TypeVar("K")

READY_S: Final = 30.0
# How long a process may take to end when it is asked to, before it is killed.
GRACE_S: Final = 5.0
# How long a process may be at work at the end of its block before it is asked to end.
REST_S: Final = 2.0
# How long a wait for a worker goes on before it looks whether its process is still there.
_LOOK_EVERY_S: Final = 0.02
_SHOWN_LINES: Final = 40
# The workers that run, by their ports. A fault finds the worker of a connection here.
RUNNING: Final[dict[int, Worker]] = {}


@checks_calls
class Worker(Hinting):
    """A process of the user's. Use it as a context manager, plain or async: it is ready at the beginning of the block.

    Its output is shown with a failed test. It ends with its block, or else with its broker, and all its children end
    with it. If it has ended by itself with an error, the end of the block raises BrokerError. Without a block, the
    check `lost_worker` fails the test, unless it has read the exit code. The check also reports a worker that is never
    started.
    """

    _called = "a Worker"

    def __init__(
        self,
        engine: Engine,
        run: Sequence[str] | Callable[..., object],
        url_at: Callable[[int, str, str], str],
        place: tuple[str, str],
        *,
        args: tuple[Any, ...] = (),
        url_env: str | Iterable[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | PathLike[str] | None = None,
        ready: Ready = None,
        name: str | None = None,
        timeout: float = READY_S,
    ) -> None:
        """`url_at` makes the URL of a port, for a virtual host and a user, and `place` are those of this worker.

        `Broker.worker` describes the other arguments.
        """
        __tracebackhide__ = True
        _refuse_wrong(run, args, env or {})
        self._engine = engine
        self._url_at = url_at
        self._place = place
        self._run = run
        self._args = args
        # None for the usual ones.
        self._url_env = None if url_env is None else texts_in(url_env)
        self._env = dict(env or {})
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._ready = ready
        self._timeout = timeout
        self.name = name or (run.__name__ if callable(run) else " ".join(map(os.fspath, run)))
        self._port: int | None = None
        self._process: Process | None = None
        # Held until a process that starts is known here: it may be at work before, and be killed by a fault.
        self._starting = threading.Lock()
        # What its processes have printed: the broker's time in microseconds since the epoch, and the line.
        self._lines: list[tuple[int, str]] = []
        # Whether the test has caused its end, or has heard of it.
        self._is_end_known = True
        # How often a fault has killed it.
        self.death_count = 0
        self._restart: threading.Thread | None = None
        # Whether it is ending with its block, so that a fault that kills it does not start it again.
        self._is_ending = False
        self._line = calling_line()[1]
        self._engine.judge.lost_workers[self] = self._finding("unstarted_worker")

    def __repr__(self) -> str:
        return f"<Worker {self.name!r}: {'running' if self.is_running else 'not running'}>"

    @property
    def port(self) -> int:
        """The port of the broker that is in this worker's URL only."""
        if self._port is None:
            raise BrokerError(f"worker {self.name!r} was not started; use it in a with statement, or call start()")
        return self._port

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.code() is None

    @property
    def returncode(self) -> int | None:
        """The exit code of its process, negative for a signal; None while it runs."""
        code = None if self._process is None else self._process.code()
        # A test that reads it has heard of the end.
        self._is_end_known = self._is_end_known or code is not None
        return code

    @property
    def end_code(self) -> int | None:
        """The exit code with which it has ended by itself; None if it has not."""
        return None if self._process is None or self._is_ending else self._process.code()

    @property
    def output(self) -> str:
        """What it has printed so far, to stdout and stderr."""
        return "".join(f"{line}\n" for _, line in self.lines)

    @property
    def lines(self) -> list[tuple[int, str]]:
        """What it has printed so far: the broker's time in microseconds since the epoch, and the line."""
        if self._process is not None:
            self._process.read_output()
        return list(self._lines)

    def start(self) -> Self:
        """Start the process, and do not wait until it is ready. Raises OSError if the program cannot be started."""
        if self.is_running:
            raise BrokerError(f"worker {self.name!r} is running already; call restart() for a new process")
        if self._port is None:
            self._port = self._engine.open_port()
            if self not in self._engine.workers:
                self._engine.workers.append(self)
        RUNNING[self._port] = self
        self._is_ending = False
        self._engine.judge.lost_workers.pop(self, None)
        urls = {
            name: part_of(self._url_at(self._port, vhost, user), part)
            for name, (vhost, user, part) in self._variables().items()
        }
        environment = self._led_here({**os.environ, "PYTHONUNBUFFERED": "1", **urls, **self._env})
        run = self._run
        with self._starting:
            if callable(run):
                args = tuple(self._led_here(dict(enumerate(self._args))).values())
                self._process = forked(run, args, environment, self._cwd, self._note)
            else:
                words = self._led_here(dict(enumerate(map(os.fspath, run))))
                self._process = program(list(words.values()), environment, self._cwd, self._note)
            self._is_end_known = False
        return self

    def _variables(self) -> dict[str, tuple[str, str, str]]:
        """Return the variables that hold its URL or a part, each with a virtual host, a user and the part."""
        if self._url_env is not None:
            return dict.fromkeys(self._url_env, (*self._place, "url"))
        is_usual = self._place == ("/", "guest")
        of_run = {name: it if is_usual else (*self._place, it[2]) for name, it in VARIABLES.items()}
        return {"AMQP_URL": (*self._place, "url"), **of_run}

    def _led_here(self, values: dict[K, Any]) -> dict[K, Any]:
        """Return what it gets, with its own port where a text has the address of the broker."""
        host, port = self._engine.addresses[0]
        address = re.compile(rf"{re.escape(url_host(host))}:{port}(?!\d)")
        own = f"{url_host(host)}:{self._port}"
        return {key: address.sub(own, value) if isinstance(value, str) else value for key, value in values.items()}

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until it is ready, in seconds of real time: by default until it consumes.

        Raises BrokerError if it ends before, and WaitTimeoutError if it takes longer; both show its output.
        """
        __tracebackhide__ = True
        refuse_to_starve_clients("worker.wait_ready()", "await worker.aio.wait_ready()")
        limit = monotonic() + (self._timeout if timeout is None else timeout)
        while not self._is_ready():
            if not self.is_running and self._restart in (None, threading.current_thread()):
                # Its last words may not have been read yet.
                process = self._running()
                process.close()
                # The test does not hear of this error if a fault has started the process again.
                self._is_end_known = self._restart is None
                why = f"{self._what()}{self._hint()}{self._said()}"
                raise BrokerError(f"worker {self.name!r} ended with {process.code()} before {why}")
            if monotonic() > limit:
                raise WaitTimeoutError(
                    f"worker {self.name!r} runs and has not come so far that {self._what()} within "
                    f"{self._timeout if timeout is None else timeout:g} s{self._hint()}{self._said()}"
                )

    def kill(self) -> None:
        """Kill it and its children at once: SIGKILL, TerminateProcess on Windows. Nothing of it is flushed."""
        self._end(self._running().kill)

    def terminate(self, timeout: float = GRACE_S) -> None:
        """Ask it to end, with SIGTERM, and kill it if it has not ended after `timeout` seconds of real time."""
        process = self._running()
        if not self._end(process.terminate, timeout):
            warn(
                f"worker {self.name!r} did not end within {timeout:g} s of SIGTERM, and was killed; let it end by "
                "SIGTERM, or call kill() instead"
            )

    def restart(self) -> None:
        """Kill it, start it again, and wait until it is ready."""
        __tracebackhide__ = True
        refuse_to_starve_clients("worker.restart()", "await worker.aio.restart()")
        if self.is_running:
            self.kill()
        self.start()
        self.wait_ready()

    def die(self) -> None:
        """Kill it and start it again, as a fault does: at once, on the loop's thread, without a wait."""
        with self._starting:
            if not self.is_running:
                return
            self.death_count += 1
            self._is_end_known = True
            self._running().kill()
            if not self._is_ending:
                self._restart = threading.Thread(target=self._revive, daemon=True, name=f"restart of {self.name}")
                self._restart.start()

    @property
    def is_restarting(self) -> bool:
        """Whether a fault has killed it, and it is not ready again yet."""
        return self._restart is not None

    def _revive(self) -> None:
        self._running().wait(GRACE_S)
        with suppress(BrokerError, OSError):
            self.start()
            self.wait_ready()
        if self._restart is threading.current_thread():
            self._restart = None
            # A turn of the loop, so that what waits for the broker looks again.
            with suppress(BrokerError):
                self._engine.sync()

    def _await_restart(self) -> None:
        if (restart := self._restart) is not None:
            restart.join(GRACE_S)

    @property
    def aio(self) -> AioWorker:
        """The awaitable versions of the methods that wait, for use on a running event loop."""
        return AioWorker(self)

    async def __aenter__(self) -> Self:
        __tracebackhide__ = True
        return await elsewhere(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        await elsewhere(partial(self.__exit__, kind, error, traceback))

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        refuse_to_starve_clients("with broker.worker(...)", "async with broker.worker(...)")
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._await_restart()
        if error is None and self.is_running:
            self._await_rest()
        is_by_itself = not self.is_running and not self._is_end_known
        code = self.returncode
        self.end()
        if error is None and is_by_itself and code:
            raise BrokerError(f"worker {self.name!r} ended by itself with {code} before its block did{self._said()}")

    def _await_rest(self) -> None:
        """Wait until it has nothing to do: what it does after its last ack, such as a commit, is not cut short."""
        threads = Threads()
        limit = monotonic() + REST_S
        while threads.can_tell and monotonic() < limit:
            threads.processes = family_of(str(self.pid))
            threads.look()
            native.pause(SEEN_S)
            if threads.busy_share() <= IDLE_SHARE:
                return

    def _finding(self, kind: str, code: int | None = None) -> Finding:
        return Finding("lost_worker", "/", {"worker": self.name, "line": self._line, "code": code}, kind=kind)

    def end(self) -> None:
        """End it, with all its children, and report it if it had ended by itself with an error, unseen by the test.

        A second call does nothing.
        """
        self._await_restart()
        self._is_ending = True
        if self.is_running:
            self.terminate()
        elif not self._is_end_known and (code := self.returncode):
            self._engine.judge.lost_workers[self] = self._finding("lost_worker", code)
        if self._process is not None:
            self._process.close()
        if self._port is not None:
            RUNNING.pop(self._port, None)
            self._engine.close_port(self._port)
            self._port = None

    def _end(self, ask: Callable[[], None], timeout: float = GRACE_S) -> bool:
        """End it, and return whether it ended when it was asked to."""
        self._is_end_known = True
        process = self._running()
        ask()
        if process.wait(timeout):
            return True
        process.kill()
        process.wait(GRACE_S)
        return False

    def _running(self) -> Process:
        if self._process is None:
            raise BrokerError(f"worker {self.name!r} was not started; use it in a with statement, or call start()")
        return self._process

    def _note(self, line: str) -> None:
        self._lines.append((self._engine.clock.now(), line))

    def _is_ready(self) -> bool:
        ready = self._ready
        if ready is None:
            return self._engine.wait_until(self._consumes, _LOOK_EVERY_S)
        if isinstance(ready, str):
            return ready in self.output or self._engine.wait_until(lambda: ready in self.output, _LOOK_EVERY_S)
        return bool(ready()) or self._engine.wait_until(lambda: False, _LOOK_EVERY_S)

    def _consumes(self) -> bool:
        ours = [it for it in connections(self._engine.node) if it.local[1] == self._port]
        return any(channel.consumers for connection in ours for channel in connection.channels.values())

    def _what(self) -> str:
        if self._ready is None:
            return "it consumes"
        return f"{self._ready!r} is in its output" if isinstance(self._ready, str) else "ready() is true"

    def _hint(self) -> str:
        if self._ready is not None:
            return ""
        names = [name for name, (*_, part) in self._variables().items() if part == "url"]
        urls = f"its URL is in {' and '.join(names)}" if names else "url_env names no variable"
        return f"; {urls}, and ready= is for a worker that only publishes"

    def _said(self) -> str:
        lines = self.output.splitlines()[-_SHOWN_LINES:]
        return "; it printed:\n" + "\n".join(f"  {line}" for line in lines) if lines else "; it printed nothing"


class AioWorker(Twins):
    """The awaitable form of a worker, `worker.aio`."""

    _called = "worker.aio"

    wait_ready = twin(Worker.wait_ready)
    restart = twin(Worker.restart)
    terminate = twin(Worker.terminate)
    kill = twin(Worker.kill)
    end = twin(Worker.end)


@atexit.register
def _end_workers() -> None:
    """End the workers of brokers that were never stopped."""
    for worker in list(RUNNING.values()):
        # A child of this process has a copy of them, and does not end them.
        if not worker._engine.loop.is_abandoned:
            worker.end()


def _refuse_wrong(run: object, args: object, env: Mapping[str, object]) -> None:
    """Raise TypeError for an argument that no process can have."""
    __tracebackhide__ = True
    if isinstance(run, str):
        words = run.split()
        with suppress(ValueError):
            # It fails if a quotation is not closed.
            words = shlex.split(run)
        raise TypeError(f"worker({run!r}): run must be a list of words, as in worker({words!r})")
    if callable(run):
        if not hasattr(run, "__qualname__"):
            raise TypeError(f"worker({run!r}): run must be a function itself; give its arguments with args=")
    elif not isinstance(run, list | tuple) or not run or not all(isinstance(word, str | PathLike) for word in run):
        raise TypeError(f"worker(): run must be a list of words or a function that is not called, not {run!r}")
    elif args:
        raise TypeError(f"worker(): args={args!r} is for a function; put the arguments of a program into its list")
    if not isinstance(args, list | tuple):
        raise TypeError(f"worker(): args must be a tuple, as in args=({args!r},), not {args!r}")
    for name, value in env.items():
        if not isinstance(value, str | PathLike):
            raise TypeError(f"worker(): env[{name!r}] must be a string, not {value!r}")
