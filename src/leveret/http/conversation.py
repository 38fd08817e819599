"""One HTTP/1.1 conversation, by h11: bytes in, requests out; responses in, bytes out.

It answers one request after the other. Bodies and heads are bounded, and a peer that takes too long over a request is
dropped, so no peer holds more than it may. All of it runs on the loop's thread under the server's lock.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import h11

from leveret.core.model.timers import Timer
from leveret.http.messages import Request, Response, refusal

if TYPE_CHECKING:
    from leveret.http.server import HttpServer
    from leveret.http.stream import EventStream


# The statuses whose responses have no body (RFC 9110, 6.4.1).
_WITHOUT_BODY: Final = (204, 304)
# The hint of h11 for a head that does not end within its limit.
_TOO_LARGE: Final = 431
_CONTINUE: Final = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")


class HttpConversation:
    """One client's connection."""

    def __init__(self, server: HttpServer, peer: str, local: str) -> None:
        self._server = server
        self._peer = peer
        self._local = local
        self._limits = server.limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes)
        self._output: list[bytes] = []
        self._is_dirty = False
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        # A request was passed on, and its response is still to come.
        self._is_answering = False
        # Nothing more is answered; what still comes is read and dropped until the client closes.
        self._is_discarding = False
        self._stream: EventStream | None = None
        self._timer: Timer | None = None
        self._has_begun = False
        self.is_closed = False
        self.is_reset = False
        self.is_half_closed = False
        self._limit(self._limits.idle_us)

    @property
    def is_reading_paused(self) -> bool:
        """Whether to stop reading for now: never, as only reading shows that a client has left."""
        return False

    def receive_data(self, data: bytes) -> None:
        """Handle bytes that arrived."""
        if self.is_closed or self.is_reset or self._is_discarding:
            return
        if not self._has_begun:
            self._has_begun = True
            self._limit(self._limits.request_us)
        if self._is_answering and len(data) + len(self._http.trailing_data[0]) > self._limits.head_bytes:
            # The client sends more requests than it waits for.
            self.reset()
            return
        self._http.receive_data(data)
        self._read_events()

    def _read_events(self) -> None:
        try:
            while not (self._is_answering or self._is_discarding or self.is_closed):
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        self._send(_CONTINUE)
                    return
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._add(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._pass_on()
                else:
                    return
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == _TOO_LARGE:
                self._refuse_head()
                return
            self._refuse(error.error_status_hint, "bad_request", f"not a valid HTTP/1.1 request: {error}")

    def _begin(self, head: h11.Request) -> None:
        self._head = head
        self._body, self._body_bytes = [], 0
        if _size_of(head) > self._limits.head_bytes:
            self._refuse_head()
            return
        length = dict(head.headers).get(b"content-length", b"0")
        if int(length) > self._limits.body_bytes:
            self._refuse_body()

    def _add(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes:
            self._refuse_body()
        else:
            self._body.append(data)

    def _refuse_head(self) -> None:
        limit = self._limits.head_bytes
        reason = f"the head of the request exceeds the limit of {limit} bytes; send a shorter URL or fewer headers"
        self._refuse(431, "head_too_large", reason)

    def _refuse_body(self) -> None:
        reason = f"the body exceeds the limit of {self._limits.body_bytes} bytes; send less"
        self._refuse(413, "payload_too_large", reason)

    def _pass_on(self) -> None:
        assert self._head is not None
        self._is_answering = True
        self._unlimit()
        target, authority = _divided(self._head.target.decode("latin-1"))
        path, _, query = target.partition("?")
        headers: dict[str, str] = {}
        for name, value in self._head.headers:
            word, text = name.decode("latin-1"), value.decode("latin-1")
            headers[word] = f"{headers[word]}, {text}" if word in headers else text
        if authority is not None:
            headers["host"] = authority
        method = self._head.method.decode("latin-1")
        body, self._body = b"".join(self._body), []
        self._server.answer(self, Request(method, path, query, headers, body, self._peer, self._local))

    def _refuse(self, status: int, error: str, reason: str) -> None:
        """Answer what is no complete request, read for a while what the client still sends, and close."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.reset()
            return
        response = refusal(status, error, reason, ("connection", "close"))
        assert isinstance(response.body, bytes)
        self._send(_head_of(response, len(response.body)))
        self._send(h11.Data(data=response.body))
        self._send(h11.EndOfMessage())
        self._end()

    def _end(self) -> None:
        """End this side, and wait for the client to close.

        Closing at once would reset the socket under a client that is still sending, and it would miss the answer.
        """
        self._is_discarding = True
        self.is_half_closed = True
        self._limit(self._limits.request_us)
        self._mark()

    def respond(self, response: Response) -> None:
        """Send the response of the request that was passed on."""
        body = response.body
        if self.is_closed or self.is_reset or not self._is_answering:
            if not isinstance(body, bytes):
                body.closed()
            return
        assert self._head is not None
        has_body = self._head.method != b"HEAD" and response.status not in _WITHOUT_BODY
        if isinstance(body, bytes):
            self._send(_head_of(response, len(body)))
            if has_body:
                self._send(h11.Data(data=body))
            self._finish()
        else:
            self._send(_head_of(response, None))
            if has_body:
                self._stream = body
                body.opened(self)
            else:
                body.closed()
                self._finish()

    def fail(self, reason: str) -> None:
        """Answer that the response could not be sent, and close."""
        self._refuse(500, "internal_error", reason)

    @property
    def is_full(self) -> bool:
        """Whether the client has yet to read much of what was sent."""
        return self._server.loop.unsent_bytes(self) > self._limits.unread_bytes // 4

    def send_part(self, body: EventStream, data: bytes) -> None:
        """Send a part of a streamed body soon, unless it has ended. Every thread may call this.

        A client that does not read is dropped.
        """
        self._server.run_on_loop(lambda: self._send_part(body, data))

    def end_stream(self, body: EventStream) -> None:
        """End a streamed body soon, unless it has ended. Every thread may call this."""
        self._server.run_on_loop(lambda: self._end_stream(body))

    def _send_part(self, body: EventStream, data: bytes) -> None:
        if self._stream is body and data:
            self._send(h11.Data(data=data))
        if self._server.loop.unsent_bytes(self) > self._limits.unread_bytes:
            self.reset()

    def _end_stream(self, body: EventStream) -> None:
        if self._stream is body:
            self._close_stream()
            self._finish()

    def _finish(self) -> None:
        self._send(h11.EndOfMessage())
        self._is_answering = False
        self._head = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._has_begun = bool(self._http.trailing_data[0])
            self._limit(self._limits.request_us if self._has_begun else self._limits.idle_us)
            self._read_events()
        else:
            self._end()

    def reset(self) -> None:
        """End the connection at once."""
        self.is_reset = True
        self._mark()

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._output.append(data)
            self._mark()

    def _mark(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            self._server.loop.dirty.append(self)

    def data_to_send(self) -> list[bytes]:
        """Return what is to be sent."""
        self._is_dirty = False
        output, self._output = self._output, []
        return output

    def connection_lost(self) -> None:
        """Handle the end of the socket."""
        self.is_closed = True
        self._unlimit()
        self._close_stream()
        self._server.conversations.discard(self)

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed()

    def _limit(self, span_us: int) -> None:
        self._unlimit()
        self._timer = self._server.after(span_us, self.reset)

    def _unlimit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _divided(target: str) -> tuple[str, str | None]:
    """Return the path and query of a request's target, and the host if it is a whole URL (RFC 9112, 3.2.2)."""
    if not target.startswith("http://"):
        return target, None
    authority, slash, rest = target.removeprefix("http://").partition("/")
    return f"{slash or '/'}{rest}", authority


def _size_of(head: h11.Request) -> int:
    """Return the bytes of a request's head. h11 limits only one that arrives in several parts."""
    lines = sum(len(name) + len(value) + len(b": \r\n") for name, value in head.headers)
    return len(head.method) + len(head.target) + lines


def _head_of(response: Response, length: int | None) -> h11.Response:
    headers = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in response.headers]
    if length is not None and response.status not in _WITHOUT_BODY:
        headers.append((b"content-length", str(length).encode()))
    return h11.Response(status_code=response.status, headers=headers, reason=HTTPStatus(response.status).phrase)
