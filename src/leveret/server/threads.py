"""What the threads of this process, and of processes that clients live in, are doing: whether one is still at work.

Linux tells: `/proc` says of each thread whether it runs, how long it has run and how long it had to wait for a
processor, and which process has which socket. A thread that runs now, or was busy since the last look (it may just have
had to hand over the interpreter), is at work; one that waits for something else has nothing to do until somebody wakes
it. Elsewhere nothing can be told.
"""

from __future__ import annotations

import _socket
import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from leveret.server import native
from leveret.time.sources import SystemClock

SELF = "self"
# Running, or waiting for a disk.
_AT_WORK = (b"R", b"D")

_REAL = SystemClock()
# Threads that belong to brokers: they are never clients.
_ours: set[str] = set()


def this_is_ours() -> None:
    """This says that the calling thread belongs to a broker."""
    _ours.add(str(native.native_id()))


def this_ends() -> None:
    """This takes it back, since the system gives numbers of threads again."""
    _ours.discard(str(native.native_id()))


class Threads:
    """This looks at the threads of some processes, except the one that looks."""

    def __init__(self) -> None:
        self.can_tell = not _is_shared_by_greenlets() and any(True for _ in _busy_times((SELF,)))
        # This process is always among them.
        self.processes: Collection[str] = (SELF,)
        self._before: dict[str, int] = {}
        self._looked_at = 0

    def look(self) -> None:
        """This remembers how long each thread has been busy."""
        if self.can_tell:
            self._before = dict(_busy_times(self.processes))
            self._looked_at = _REAL.now()

    def busy_share(self) -> float:
        """This says for which part of the time since the last look threads were busy, all together: 0 when nobody had
        anything to do or nobody can tell, and at least 1 when somebody is busy now.
        """
        if not self.can_tell:
            return 0.0
        idle = {str(native.native_id()), *_ours}
        times = [(path, busy_ns) for path, busy_ns in _busy_times(self.processes) if _number(path) not in idle]
        share = sum(busy_ns - self._before.get(path, 0) for path, busy_ns in times) / (
            1000 * max(1, _REAL.now() - self._looked_at)
        )
        return max(share, 1.0) if any(_state(path) in _AT_WORK for path, _ in times) else share


def _is_shared_by_greenlets() -> bool:
    """Under gevent, clients live on the very thread that looks."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def _busy_times(processes: Iterable[str]) -> Iterator[tuple[str, int]]:
    """How many nanoseconds each thread has run or waited for a processor, by its place in /proc."""
    for process in processes:
        tasks = f"/proc/{process}/task"
        for thread in _names(tasks):
            words = _read(f"{tasks}/{thread}/schedstat").split()
            if words:
                yield f"{tasks}/{thread}", int(words[0]) + int(words[1])


def _number(path: str) -> str:
    return path.rpartition("/")[2]


def _state(path: str) -> bytes:
    # The second field is a name in brackets that may hold anything, brackets too.
    return _read(f"{path}/stat").rpartition(b") ")[2][:1]


def processes_of(pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], set[str]]:
    """Which processes have the sockets between these pairs of ports, their own first; as far as the system tells.

    Others are asked only about what this process has not: a child that merely inherited a socket is no client.
    """
    here = _own_pairs().intersection(pairs)
    inodes = _inodes({pair for pair in pairs if pair not in here})
    others = [name for name in _names("/proc") if name.isdigit() and name != str(os.getpid())] if inodes else []
    return {pair: {SELF} for pair in here} | _holders(inodes, others)


def _own_pairs() -> set[tuple[int, int]]:
    """The ports of this process's own sockets, and of their peers."""
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
    """The names that sockets between these ports have among the descriptors of a process."""
    inodes = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6") if pairs else ():
        for line in _read(table).splitlines()[1:]:
            words = line.split()
            pair = (_port(words[1]), _port(words[2]))
            if pair in pairs:
                inodes[f"socket:[{words[9].decode()}]"] = pair
    return inodes


def _holders(inodes: Mapping[str, tuple[int, int]], processes: Iterable[str]) -> dict[tuple[int, int], set[str]]:
    found: dict[tuple[int, int], set[str]] = {}
    for process in processes:
        for descriptor in _names(f"/proc/{process}/fd"):
            pair = inodes.get(_link(f"/proc/{process}/fd/{descriptor}"))
            if pair is not None:
                found.setdefault(pair, set()).add(process)
    return found


def _port(address: bytes) -> int:
    return int(address.rpartition(b":")[2], 16)


def _names(folder: str) -> list[str]:
    """What a folder holds; nothing when there is none, or it is somebody else's."""
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
    """What a file holds; nothing when there is none, any more."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        chunks = []
        while chunk := os.read(fd, 65536):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:
        return b""
    finally:
        os.close(fd)
