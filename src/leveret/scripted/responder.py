"""The responder: a consumer that answers requests with the answers of a test, which become replies.

An answer that is not a function is sent in the broker's own turn, so it arrives at once and in order. A delay goes by
the broker's clock. A function of the test runs on a thread of its own, one request after another, because it may itself
call the broker or a client. Until it returns, the broker is not idle.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction, isfunction, signature
from typing import TYPE_CHECKING, Final, Unpack

from leveret.core.model.errors import AmqpError
from leveret.core.protocol import handlers
from leveret.core.wire.methods import BasicAck, BasicCancel
from leveret.engine.engine import Engine
from leveret.observe.calls.callers import calling_line
from leveret.observe.calls.hinting import Hinting, checks_calls
from leveret.observe.views.message_view import MessageView
from leveret.observe.views.names import find_vhost
from leveret.scripted.consumer import Subscription
from leveret.scripted.own_connection import OwnChannel, OwnConnection
from leveret.scripted.own_publisher import OwnPublisher, encoded, octets_of
from leveret.trace import events

if TYPE_CHECKING:
    from leveret.observe.assertions.keywords import BasicProperties


_NOTHING: Final = object()
_AWAITED: Final = (
    "respond(): the function that answers must be a plain one, not a coroutine function; it runs in a thread, where "
    "asyncio.run() can call a coroutine function"
)

# What a test can give as an answer; None means no reply.
Answer = object
Answerer = Callable[["MessageView"], Answer]


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """A reply with its own headers and properties."""

    body: bytes
    properties: Mapping[str, object] = field(default_factory=dict)

    def __init__(
        self,
        body: bytes | str = b"",
        *,
        json: object = _NOTHING,
        headers: Mapping[str, object] | None = None,
        **properties: Unpack[BasicProperties],
    ) -> None:
        """The body can be text, or a value for `json=`, which sets the content type. Keywords are basic properties."""
        __tracebackhide__ = True
        values: dict[str, object] = {**properties}
        if json is not _NOTHING:
            if body:
                raise TypeError("Reply(): body and json= were both given; give one of them")
            body = json_format.dumps(json)
            values = {"content_type": "application/json", "content_encoding": "utf-8", **values}
        elif isinstance(body, str):
            values = {"content_type": "text/plain", "content_encoding": "utf-8", **values}
        if headers is not None:
            values["headers"] = headers
        object.__setattr__(self, "body", octets_of("Reply()", body))
        object.__setattr__(self, "properties", values)


def reply_of(answer: Answer) -> Reply | None:
    """Return the reply for an answer: bytes and text are bodies, an exception is an error, anything else is JSON."""
    if answer is None or isinstance(answer, Reply):
        return answer
    if isinstance(answer, bytes | bytearray | str):
        return Reply(bytes(answer) if isinstance(answer, bytearray) else answer)
    if isinstance(answer, BaseException):
        return error_reply(answer)
    if isinstance(answer, type) and issubclass(answer, BaseException):
        return error_reply(answer())
    if isawaitable(answer):
        if isinstance(answer, Coroutine):
            answer.close()
        raise TypeError(_AWAITED)
    try:
        return Reply(json=answer)
    except (TypeError, ValueError) as error:
        raise TypeError(f"respond(): {error}; answer with bytes, text, a leveret.Reply, or what JSON has") from None


def error_reply(error: BaseException) -> Reply:
    """Return the reply for an error: its type is "error", and its body has the error's name and text as JSON."""
    name = type(error).__name__
    return Reply(json={"error": {"type": name, "message": str(error)}}, headers={"error": name}, type="error")


class Script:
    """The answers of a responder, in order, and how many there are."""

    def __init__(self, with_: Answer, times: int | None) -> None:
        """A list or a tuple gives one answer after another. If `times` exceeds its length, the last one is repeated."""
        self._answers: list[Answer] = list(with_) if isinstance(with_, list | tuple) else [with_]
        for answer in self._answers:
            _refuse_function(answer)
        if not self._answers:
            raise ValueError(f"with_={with_!r} is empty; give at least one answer, or None for no reply")
        if times is None and isinstance(with_, list | tuple):
            times = len(self._answers)
        if times is not None and times < 1:
            raise ValueError(f"times={times} must be 1 or more, or None for any number of requests")
        # None means any number.
        self.left = times

    def next(self) -> Answer:
        """Return the answer to the next request."""
        if self.left is not None:
            self.left -= 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def _refuse_function(answer: Answer) -> None:
    """Raise TypeError for a function that cannot answer a request."""
    if iscoroutinefunction(answer):
        raise TypeError(_AWAITED)
    if isfunction(answer):
        try:
            signature(answer).bind(None)
        except TypeError as error:
            raise TypeError(f"respond(): leveret calls with_ with one argument, the request; {error}") from None


@checks_calls
class Responder(AbstractContextManager["Responder"], Hinting):
    """A consumer that answers requests, as `broker.respond` returns it."""

    _called = "a responder"

    def __init__(self, engine: Engine, queue: str, script: Script, *, delay_us: int, vhost: str) -> None:
        """Consume from the queue, and declare it as durable if it is missing."""
        self.queue = queue
        self._engine = engine
        self._script = script
        self._delay_us = delay_us
        # Exceptions of the test's functions, and the errors of replies that cannot be sent.
        self._errors = engine.script_errors
        # The line of the test that started the responder, recorded before each reply.
        self._caller = calling_line()[1]
        self._requests: list[MessageView] = []
        # Requests that wait for a function of the test, with their delivery tags, and whether a thread works on them.
        self._pending: list[tuple[int, MessageView, Answerer]] = []
        self._is_working = False
        engine.refuse_not_running()
        with engine.acting() as node:
            self._vhost = find_vhost(node, vhost)
            if queue not in self._vhost.queues:
                self._vhost.declare_queue(queue)
            self._connection = OwnConnection(node, self._vhost, is_waited_for=True)
            self._channel = OwnChannel(self._connection, self._accept)
            self._channel.room = script.left
            try:
                self._tag = Subscription(queue, vhost).subscribe(node, self._channel)
            except BaseException:
                self._connection.end(None)
                raise

    @property
    def requests(self) -> list[MessageView]:
        """The requests it has taken, oldest first."""
        with self._engine.looking():
            return list(self._requests)

    @property
    def count(self) -> int:
        """The number of requests it has taken."""
        return len(self.requests)

    def remove(self) -> None:
        """Stop answering, and drop the replies that wait for their delay. Removing it twice is fine."""
        with self._engine.ending():
            self._pending.clear()
            self._connection.end(None)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        left = "" if self._script.left is None else f", {self._script.left} to come"
        return f"<Responder on {self.queue!r}: {len(self._requests)} requests{left}>"

    @property
    def _is_open(self) -> bool:
        return bool(self._connection.channels)

    def _accept(self, tag: int, request: MessageView) -> None:
        """Take a request, and answer it once the queue has finished delivering."""
        self._requests.append(request)
        self._connection.node.work.append(partial(self._answer, tag, request, self._script.next()))

    def _answer(self, tag: int, request: MessageView, answer: Answer) -> None:
        if not self._is_open:
            return
        if self._script.left == 0:
            handlers.basic.cancel(self._channel, BasicCancel(self._tag, True))
        if callable(answer) and not isinstance(answer, type):
            self._pending.append((tag, request, answer))
            if not self._is_working:
                self._is_working = True
                self._engine.loop.run_beside(self._work)
            return
        self._settle(tag, request, reply_of(answer))

    def _settle(self, tag: int, request: MessageView, reply: Reply | None) -> None:
        if not self._is_open:
            return
        node = self._connection.node
        if tag in self._channel.unacked:
            handlers.basic.ack(self._channel, BasicAck(tag, False))
        if reply is None or request.reply_to is None:
            return
        if self._delay_us:
            node.timers.add(node.now + self._delay_us, partial(self._send, request, reply))
        else:
            self._send(request, reply)

    def _send(self, request: MessageView, reply: Reply) -> None:
        if not self._is_open or request.reply_to is None:
            return
        node = self._connection.node
        values = dict(reply.properties)
        if request.correlation_id is not None:
            values.setdefault("correlation_id", request.correlation_id)
        if node.hooks.tap is not None:
            node.hooks.tap((events.CALLED, node.now, "respond", self._caller))
        # A reply to a requester that has given up is returned and so does not count as lost. A direct reply always
        # counts as routed, and before 4.3 a mandatory one would be returned although it arrived.
        is_mandatory = node.reply_queues.find(request.reply_to, self._vhost) is None
        try:
            octets = encoded("respond()", "", request.reply_to, reply.body, values)
            OwnPublisher(self._vhost).publish("", request.reply_to, reply.body, octets, is_mandatory=is_mandatory)
        except AmqpError as error:
            self._errors.append(self._engine.refusal(error))
        except (TypeError, ValueError) as error:
            self._errors.append(error)

    def _work(self) -> None:
        """Call the test's functions for the pending requests. It runs beside the broker."""
        while (job := self._next_job()) is not None:
            tag, request, answerer = job
            try:
                reply = reply_of(answerer(request))
            except BaseException as error:
                self._errors.append(error)
                reply = error_reply(error)
            # No line of the test makes this call, so none is recorded.
            self._engine.loop.ask(partial(self._settle, tag, request, reply))

    def _next_job(self) -> tuple[int, MessageView, Answerer] | None:
        with self._engine.lock:
            if self._pending and self._is_open:
                return self._pending.pop(0)
            self._is_working = False
            return None
