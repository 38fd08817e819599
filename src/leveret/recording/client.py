"""A client that reads from a real server: it declares a queue of its own, and takes what arrives there.

It does one thing at a time on one channel and one blocking socket. It acknowledges nothing and publishes nothing. The
queue is exclusive, so it is gone with the connection, however that ends.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Self, TypeVar
from urllib.parse import unquote, urlsplit

from leveret.core.wire import methods as amqp
from leveret.core.wire.commands import Command, CommandReader
from leveret.core.wire.constants import PROTOCOL_HEADER
from leveret.core.wire.frames import method_frame
from leveret.core.wire.values import Table
from leveret.errors import BrokerError

M = TypeVar("M", bound=amqp.Method)
_ANSWER_S: Final = 30.0
_PIECE: Final = 1 << 18
_CHANNEL: Final = 1
_PORTS: Final = {"amqp": 5672, "amqps": 5671}


class RecordingClient:
    """The connection of `leveret record` to a server. Use it as a context manager."""

    def __init__(self, url: str, vhost: str | None = None) -> None:
        """`vhost` goes before that of the URL. Raises BrokerError if the server cannot be reached, or refuses."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise BrokerError(f"{url!r} is no URL of a server; give amqp://user:password@host:port, or amqps://")
        self.vhost: Final = vhost or unquote(parts.path[1:]) or "/"
        self.place: Final = f"{parts.hostname}:{parts.port or _PORTS[parts.scheme]}"
        self._reader: Final = CommandReader()
        self._deliveries: Final[deque[Command]] = deque()
        self._tag = ""
        # Why the server has ended the connection or the consumer; raised once all that came before is taken.
        self._end: BrokerError | None = None
        user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        try:
            plain = socket.create_connection((parts.hostname, parts.port or _PORTS[parts.scheme]), _ANSWER_S)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            is_secure = parts.scheme == "amqps"
            secure = ssl.create_default_context().wrap_socket if is_secure else None
            self._socket = plain if secure is None else secure(plain, server_hostname=parts.hostname)
        except (OSError, UnicodeError) as error:
            raise BrokerError(f"no server answers at {self.place}: {error}") from None
        self._open(f"\0{user}\0{password}".encode())

    def _open(self, login: bytes) -> None:
        self._socket.sendall(PROTOCOL_HEADER)
        self._await(amqp.ConnectionStart)
        capabilities = {"consumer_cancel_notify": True, "authentication_failure_close": True}
        facts = {"product": "leveret", "connection_name": "leveret record", "capabilities": capabilities}
        self._send(0, amqp.ConnectionStartOk(Table.from_python(facts), "PLAIN", login, "en_US"))
        tune = self._await(amqp.ConnectionTune)
        # Without heartbeats: a lost peer is noticed by TCP, and a slow disk here must not end the recording.
        self._send(0, amqp.ConnectionTuneOk(tune.channel_max, tune.frame_max, 0))
        self.ask(amqp.ConnectionOpen(self.vhost), amqp.ConnectionOpenOk, channel=0)
        self.ask(amqp.ChannelOpen(), amqp.ChannelOpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, BrokerError):
            self.ask(amqp.ConnectionClose(200, "", 0, 0), amqp.ConnectionCloseOk, channel=0)
        self._socket.close()

    def listen(self, bindings: list[tuple[str, str, Table]]) -> str:
        """Consume from a new queue with these bindings, an exchange, a key and arguments each; return its name.

        Raises BrokerError if the server refuses, as for an exchange that does not exist.
        """
        declare = amqp.QueueDeclare("", False, False, True, True, False, Table.EMPTY)
        queue = self.ask(declare, amqp.QueueDeclareOk).queue
        for exchange, key, arguments in bindings:
            self.ask(amqp.QueueBind(queue, exchange, key, False, arguments), amqp.QueueBindOk)
        consume = amqp.BasicConsume(queue, "", False, True, True, False, Table.EMPTY)
        self._tag = self.ask(consume, amqp.BasicConsumeOk).consumer_tag
        return queue

    def last_deliveries(self) -> list[Command]:
        """End the consumer, and return what had arrived before that."""
        if self._end is None:
            self.ask(amqp.BasicCancel(self._tag, False), amqp.BasicCancelOk)
        return self.deliveries(0.001)

    def ask(self, method: amqp.Method, answer: type[M], *, channel: int = _CHANNEL) -> M:
        """Send a method and return its answer. What is delivered meanwhile is kept."""
        self._send(channel, method)
        return self._await(answer)

    def deliveries(self, timeout: float) -> list[Command]:
        """Return what has arrived, in order; nothing if that takes longer than `timeout` seconds.

        Raises BrokerError once the server has ended the consumer or the connection.
        """
        if not self._deliveries and self._end is None:
            self._socket.settimeout(timeout)
            with suppress(TimeoutError):
                for command in self._commands():
                    self._keep(command)
        arrived = list(self._deliveries)
        self._deliveries.clear()
        if self._end is not None and not arrived:
            raise self._end
        return arrived

    def _send(self, channel: int, method: amqp.Method) -> None:
        self._socket.sendall(method_frame(channel, method))

    def _await(self, answer: type[M]) -> M:
        self._socket.settimeout(_ANSWER_S)
        found: M | None = None
        try:
            while found is None:
                for command in self._commands():
                    if isinstance(command.method, answer):
                        found = command.method
                    else:
                        self._keep(command)
                if found is None and self._end is not None:
                    raise self._end
        except TimeoutError:
            raise BrokerError(f"{self.place} has not answered for {_ANSWER_S:g} s") from None
        return found

    def _commands(self) -> Iterator[Command]:
        """Yield what the next bytes of the socket complete."""
        try:
            octets, lost = self._socket.recv(_PIECE), "the server has closed it"
        except TimeoutError:
            raise
        except OSError as error:
            octets, lost = b"", str(error)
        if not octets:
            self._end = self._end or BrokerError(f"the connection to {self.place} is lost: {lost}")
        yield from self._reader.feed(octets)

    def _keep(self, command: Command) -> None:
        method = command.method
        if isinstance(method, amqp.BasicDeliver):
            self._deliveries.append(command)
        elif isinstance(method, amqp.ConnectionClose | amqp.ChannelClose):
            self._end = BrokerError(f"{self.place} refuses: {method.reply_code} {method.reply_text}")
        elif isinstance(method, amqp.BasicCancel):
            self._end = BrokerError(f"{self.place} has ended the recording: its queue was deleted")
