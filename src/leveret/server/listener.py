"""The listening socket: binds a port, accepts whoever comes.

It knows addresses and nothing of what is said. A process without file descriptors left gets its connections later, not
never: they wait in the system's queue until `accept_again_at`.
"""

from __future__ import annotations

import _socket
import errno
import os
from collections.abc import Iterator

from leveret.server.native import READABLE, Poller, Socket, accept

BACKLOG = 1024
ACCEPTS_PER_TURN = 64
RETRY_US = 50_000

Address = tuple[str, int]
# The peer went away while it waited in the queue; the next may be fine (accept(2), "Error handling").
_PEER_GONE = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR, errno.ENETDOWN, errno.EHOSTUNREACH)


class Listener:
    """This accepts connections on one address."""

    def __init__(self, host: str, port: int) -> None:
        """This binds and listens; OSError, of the system's kind and with the address, when that cannot be had."""
        try:
            self._socket = _listening(host, port)
        except OSError as error:
            place = f"{host} port {port}" if port else host
            raise type(error)(error.errno, f"cannot listen on {place}: {error.strerror or error}") from None
        self.fd = self._socket.fileno()
        self.address: Address = self._socket.getsockname()[:2]
        # Wall time when accepting starts again after the process ran out of file descriptors.
        self.accept_again_at: int | None = None
        self._poller: Poller | None = None

    def watch(self, poller: Poller) -> None:
        """This lets the poller say when somebody comes."""
        self._poller = poller
        poller.watch(self.fd, READABLE)

    def accept(self, wall_now: int) -> Iterator[tuple[Socket, Address, Address]]:
        """This yields a bounded number of connections that wait: socket, the peer's address, ours."""
        if self.accept_again_at is not None:
            return
        for _ in range(ACCEPTS_PER_TURN):
            try:
                socket, peer = accept(self._socket)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _PEER_GONE:
                    continue
                self._rest(wall_now)
                return
            try:
                socket.setblocking(False)
                socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
                own = socket.getsockname()[:2]
            except OSError:
                socket.close()
                continue
            yield socket, peer[:2], own

    def _rest(self, wall_now: int) -> None:
        assert self._poller is not None
        self.accept_again_at = wall_now + RETRY_US
        self._poller.change(self.fd, 0)

    def resume(self, wall_now: int) -> None:
        """This accepts again when the rest is over."""
        if self.accept_again_at is not None and self.accept_again_at <= wall_now:
            assert self._poller is not None
            self.accept_again_at = None
            self._poller.change(self.fd, READABLE)

    def close(self) -> None:
        """This frees the port."""
        if self._poller is not None:
            self._poller.forget(self.fd)
            self._poller = None
        self._socket.close()

    def abandon(self) -> None:
        """This forgets the socket in a forked child: it goes on in the parent."""
        self._socket.close()


def _listening(host: str, port: int) -> Socket:
    # A text would be encoded as IDNA, whose tables take longer to import than all else that a start does.
    name = host.encode() if host.isascii() else host
    family, kind, protocol, _, address = _socket.getaddrinfo(name, port, 0, _socket.SOCK_STREAM)[0]
    listening = Socket(family, kind, protocol)
    try:
        if os.name == "posix":
            listening.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
