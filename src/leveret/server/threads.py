"""The activity of threads, in this process and in those that clients live in.

Linux reports it: `/proc` lists for each thread whether it runs, how long it has run, how long it has waited for a
processor, and which process has which socket. A thread that runs now, or was busy since the last look, is at work,
because it may only have handed over the interpreter. A thread that waits for something else has nothing to do until it
is woken. On other systems nothing is known.
"""

from __future__ import annotations

import _socket
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from io import FileIO

from leveret.clocks import SystemClock
from leveret.server import native

SELF = "self"
# Running, or waiting for a disk.
_AT_WORK = (b"R", b"D")

_REAL = SystemClock()
# Threads that belong to brokers, which are never clients.
_ours: set[str] = set()


def register_thread() -> None:
    """Register the calling thread as one of a broker's."""
    _ours.add(str(native.native_id()))


def unregister_thread() -> None:
    """Undo `register_thread`, because the system reuses the numbers of threads."""
    _ours.discard(str(native.native_id()))


class Threads:
    """The threads of some processes, except the calling one and those of brokers."""

    def __init__(self) -> None:
        self._are_listed = any(True for _ in _busy_times((SELF,)))
        # This process is always among them.
        self.processes: Collection[str] = (SELF,)
        self._before: dict[str, int] = {}
        self._looked_at = 0

    @property
    def can_tell(self) -> bool:
        """Whether clients can be seen at work. Greenlets cannot: they live on the very thread that looks."""
        return self._are_listed and native.hub() is None

    def look(self) -> None:
        """Remember how long each thread has been busy."""
        if self.can_tell:
            self._before = dict(_busy_times(self.processes))
            self._looked_at = _REAL.now()

    def busy_share(self) -> float:
        """Return the part of the time since the last look in which threads were busy, all added up.

        It is 0 if none was busy or nothing is known, and 1 if one is busy now.
        """
        if not self.can_tell:
            return 0.0
        idle = {str(native.native_id()), *_ours}
        # The states come first. Linux adds up the time of a running thread only at its next tick or when the thread
        # stops, so one that stopped after its time was read, and before its state was, would be missed.
        if any(_state(path) in _AT_WORK for path in _paths(self.processes) if _number(path) not in idle):
            return 1.0
        busy_ns = sum(
            busy_ns - self._before.get(path, 0)
            for path, busy_ns in _busy_times(self.processes)
            if _number(path) not in idle
        )
        return busy_ns / (1000 * max(1, _REAL.now() - self._looked_at))


def _paths(processes: Iterable[str]) -> Iterator[str]:
    """Yield the path in /proc of each thread."""
    for process in processes:
        tasks = f"/proc/{process}/task"
        for thread in _names(tasks):
            yield f"{tasks}/{thread}"


def _busy_times(processes: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield the nanoseconds each thread has run or waited for a processor, by its path in /proc."""
    for path in _paths(processes):
        words = _read(f"{path}/schedstat").split()
        if words:
            yield path, int(words[0]) + int(words[1])


def family_of(process: str) -> list[str]:
    """Return a process and its descendants."""
    family = [process]
    for member in family:
        for thread in _names(f"/proc/{member}/task"):
            family += _read(f"/proc/{member}/task/{thread}/children").decode().split()
    return family


def _number(path: str) -> str:
    return path.rpartition("/")[2]


def _state(path: str) -> bytes:
    # The second field is a name in brackets that may hold anything, even brackets.
    return _read(f"{path}/stat").rpartition(b") ")[2][:1]


def processes_of(pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], set[str]]:
    """Return the processes that have the sockets between these pairs of ports (the process's own port first), if known.

    Other processes are examined only for sockets that this one lacks: a child that merely inherited a socket is no
    client.
    """
    here = _own_pairs().intersection(pairs)
    inodes = _inodes({pair for pair in pairs if pair not in here})
    others = [name for name in _names("/proc") if name.isdigit() and name != str(os.getpid())] if inodes else []
    return {pair: {SELF} for pair in here} | _holders(inodes, others)


def _own_pairs() -> set[tuple[int, int]]:
    """Return the ports of this process's own sockets and of their peers."""
    pairs = set()
    for name in _names(f"/proc/{SELF}/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            twin = _socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        with suppress(OSError):
            own, peer = twin.getsockname(), twin.getpeername()
            if isinstance(own, tuple) and isinstance(peer, tuple):
                pairs.add((int(own[1]), int(peer[1])))
        twin.close()
    return pairs


def _inodes(pairs: Collection[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return the names that sockets between these ports have among the descriptors of a process."""
    inodes = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6") if pairs else ():
        for line in _read(table).splitlines()[1:]:
            words = line.split()
            pair = (_port(words[1]), _port(words[2]))
            if pair in pairs:
                inodes[f"socket:[{words[9].decode()}]"] = pair
    return inodes


def _holders(inodes: Mapping[str, tuple[int, int]], processes: Iterable[str]) -> dict[tuple[int, int], set[str]]:
    holders: dict[tuple[int, int], set[str]] = {}
    for process in processes:
        for descriptor in _names(f"/proc/{process}/fd"):
            pair = inodes.get(_link(f"/proc/{process}/fd/{descriptor}"))
            if pair is not None:
                holders.setdefault(pair, set()).add(process)
    return holders


def _port(address: bytes) -> int:
    return int(address.rpartition(b":")[2], 16)


def _names(folder: str) -> list[str]:
    """Return what a folder holds, or nothing if it is missing or unreadable."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: str) -> bytes:
    """Return what a file holds, or nothing if it is missing or no longer readable."""
    # Not `open`: the test may have replaced it for the code under test.
    with suppress(OSError), FileIO(path) as file:
        return file.readall()
    return b""
