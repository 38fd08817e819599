"""The listening socket: it binds a port and accepts connections.

It knows addresses, but not what is sent. If the process runs out of file descriptors, new connections wait in the
system's queue until `accept_again_at`.
"""

from __future__ import annotations

import _socket
import errno
import sys
from collections.abc import Iterator

from leveret.server.native import Socket, accept
from leveret.server.pollers import READABLE, Poller

BACKLOG = 1024
ACCEPTS_PER_TURN = 64
RETRY_US = 50_000

Address = tuple[str, int]
# On Windows, another process could take over a port that is bound without SO_EXCLUSIVEADDRUSE, and SO_REUSEADDR would
# even ask for it. Elsewhere, SO_REUSEADDR frees a port as soon as it is closed.
_OPTIONS = [
    getattr(_socket, name)
    for name in (("SO_EXCLUSIVEADDRUSE",) if sys.platform == "win32" else ("SO_REUSEADDR",))
    if hasattr(_socket, name)
]
# The peer left while it waited in the queue. The next one may be fine (accept(2), "Error handling").
_PEER_GONE = (errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR, errno.ENETDOWN, errno.EHOSTUNREACH)


class Listener:
    """A socket that accepts connections on one address."""

    def __init__(self, host: str, port: int) -> None:
        """Bind and listen. Raises OSError with the address and the system's error number if that fails."""
        try:
            self._socket = _listening(host, port)
        except OSError as error:
            address = f"{host} port {port}" if port else host
            free = "; port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
            raise type(error)(error.errno, f"cannot listen on {address}: {error.strerror or error}{free}") from None
        self.fd = self._socket.fileno()
        self.address: Address = self._socket.getsockname()[:2]
        # Wall time at which accepting resumes after the process ran out of file descriptors.
        self.accept_again_at: int | None = None
        self._poller: Poller | None = None

    def watch(self, poller: Poller) -> None:
        """Have the poller report new connections."""
        poller.watch(self.fd, READABLE)
        self._poller = poller

    def accept(self, wall_now: int) -> Iterator[tuple[Socket, Address, Address]]:
        """Yield a bounded number of waiting connections: socket, the peer's address, the broker's address."""
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
        """Accept connections again if `accept_again_at` has passed."""
        if self.accept_again_at is not None and self.accept_again_at <= wall_now:
            assert self._poller is not None
            self.accept_again_at = None
            self._poller.change(self.fd, READABLE)

    def close(self) -> None:
        """Close the socket and free the port."""
        if self._poller is not None:
            self._poller.forget(self.fd)
            self._poller = None
        self._socket.close()

    def abandon(self) -> None:
        """Forget the socket in a forked child. It stays open in the parent."""
        self._socket.close()


def _listening(host: str, port: int) -> Socket:
    # A str would be encoded as IDNA, whose tables take longer to import than the rest of the start.
    name = host.encode() if host.isascii() else host
    family, kind, protocol, _, address = _socket.getaddrinfo(name, port, 0, _socket.SOCK_STREAM)[0]
    listening = Socket(family, kind, protocol)
    try:
        for option in _OPTIONS:
            listening.setsockopt(_socket.SOL_SOCKET, option, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
