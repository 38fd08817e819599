"""Conversations: how a server answers a client that opens, uses and closes one connection, with mistakes on purpose.

A conversation is a program on a socket of its own. Its steps are protocol headers, methods and frames; a step that is
``with_next`` is written together with the one after it. Nothing is known before the connection is open, so there are no
barriers: leveret goes first, and the other server gets time to send as much. What arrived on each channel is compared,
and whether the socket has ended some seconds later.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.semantics import codec, render, target
from tests.semantics.client import Connection, Event, Log

from .answer import Answer
from .machine import Difference, Outcome
from .steps import Program, Step

# RabbitMQ closes the sockets of clients that it does not trust after three seconds.
LINGER_MS = 3500
# Longer than a server needs to answer at once.
_ANSWER_SECONDS = 1.0
_QUIET_SECONDS = 0.03
_HEADER_0_8 = "AMQP\1\1\x08\0"
_OPEN = {"capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True}}


class _Piece(NamedTuple):
    """Steps that are written together, and how much the server had sent when it had answered them."""

    steps: Program
    count: int


def generate(seed: int, length: int) -> Program:
    """Return the conversation of a seed, with at most this many steps."""
    return _Maker(seed).make()[:length]


def play(program: Program, endpoint: target.Endpoint, version: str, rest: float) -> Outcome:
    """Run the conversation once on leveret and on that server."""
    expected, pieces, is_cut = _on_leveret(program, version, target.leveret)
    if is_cut:
        return Outcome([expected], [(step, "") for step in program], is_cut=True)
    return _outcome(program, expected, _Talk(endpoint).run(pieces))


def replay(program: Program, answers: list[Answer], version: str, start: target.Start = target.leveret) -> Outcome:
    """Run the conversation once on leveret, against the recorded answer of a server."""
    expected, _, _ = _on_leveret(program, version, start)
    return _outcome(program, expected, answers[0])


def _on_leveret(program: Program, version: str, start: target.Start) -> tuple[Answer, list[_Piece], bool]:
    with start(version) as embedded:
        talk = _Talk(embedded)
        pieces = talk.explore(program)
        return talk.end(), pieces, talk.is_racing


def _outcome(program: Program, expected: Answer, got: Answer) -> Outcome:
    difference = None if got == expected else Difference(0, program[-1], expected, got)
    return Outcome([expected], [(step, "") for step in program], difference)


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.queue = f"c{seed}"
        # How often a conversation strays from what a client should do.
        self.error_rate = self.chance.choice((0.05, 0.15, 0.15, 0.3))
        self.steps: list[Step] = []

    def make(self) -> Program:
        """Return the steps: the handshake, some use of channels, and an end, with mistakes in between."""
        for act in (self._header, self._start_ok, self._tune_ok, self._open):
            self._take(act)
        self._take(lambda: Step("channel.open", 1, 1))
        for _ in range(self.chance.randint(0, 5)):
            self._take(self._use)
        for _ in range(self.chance.randint(0, 4)):
            self._take(self._closing)
        return tuple(self.steps)

    def _take(self, act: Callable[[], Step]) -> None:
        """Add the step, or stray: leave it out, do it twice, or do something else before or instead."""
        draw = self.chance.random() / self.error_rate
        steps = [act()]
        if draw < 0.1:
            steps = []
        elif draw < 0.25:
            steps *= 2
        elif draw < 0.8:
            steps.insert(self.chance.randint(0, 1), self._anything())
        elif draw < 1:
            steps = [self._anything()]
        for step in steps:
            self._add(step)

    def _add(self, step: Step) -> None:
        fields = {**step.fields, "with_next": True} if self.chance.random() < 0.15 else step.fields
        self.steps.append(Step(step.op, 1, step.channel, fields))

    def _pick(self, *choices: object) -> object:
        return self.chance.choice(choices)

    def _odd(self, usual: object, *odd: object) -> object:
        return self.chance.choice(odd) if self.chance.random() < self.error_rate else usual

    # What a client should do.

    def _header(self) -> Step:
        # No header of AMQP 1.0, which leveret does not speak.
        odd = (
            "AMQP\0\0\x08\0",
            "AMQP\1\1\0\x09",
            _HEADER_0_8,
            "HTTP/1.1",
            "amqp\0\0\x09\1",
        )
        return Step("header", 1, 0, {"octets": self._odd("AMQP\0\0\x09\1", *odd)})

    def _start_ok(self) -> Step:
        mechanism, responses = self.chance.choice(_LOGINS)
        is_good = self.chance.random() > self.error_rate * 2
        response = "\0guest\0guest" if is_good else self.chance.choice(responses)
        fields: dict[str, object] = {
            "client_properties": self._odd(_OPEN, {}, {"capabilities": 1}, {"capabilities": {}}),
            "mechanism": "PLAIN" if is_good else mechanism,
            "response": response,
            "locale": self._odd("en_US", "", "de_DE", "x" * 255),
        }
        return Step("connection.start-ok", 1, 0, fields)

    def _tune_ok(self) -> Step:
        fields = {
            "channel_max": self._odd(2047, 0, 1, 2, 2048, 65_535),
            "frame_max": self._odd(131_072, 0, 1, 4095, 4096, 8191, 8192, 131_073, 2**32 - 1),
            "heartbeat": self._odd(0, 600, 65_535),
        }
        return Step("connection.tune-ok", 1, 0, fields)

    def _open(self) -> Step:
        vhost = self._odd("<vhost>", "", "/none", "x" * 255)
        return Step("connection.open", 1, 0, {"virtual_host": vhost, "insist": self._odd(False, True)})

    def _use(self) -> Step:
        channel = self.chance.choice((1, 1, 1, 2))
        name, fields = self.chance.choice(self._uses())
        return Step(name, 1, channel, dict(fields))

    def _uses(self) -> tuple[tuple[str, dict[str, object]], ...]:
        return (
            ("channel.open", {}),
            ("channel.flow", {"active": self._odd(True, False)}),
            ("queue.declare", {"queue": self.queue, "exclusive": True}),
            ("queue.declare", {"queue": "none", "passive": True}),
            ("basic.get", {"queue": self.queue, "no_ack": self._pick(True, False)}),
            ("basic.qos", {"prefetch_count": 1}),
            ("confirm.select", {}),
            ("tx.select", {}),
            ("content", {"sizes": self._pick([3], [0], [2, 1], [4, 4])}),
            ("content", {"announced": self._pick(0, 2, 5), "sizes": self._pick([3], [3, 3], [6], [0, 3])}),
            ("basic.ack", {"delivery_tag": self._pick(1, 1, 0, 7), "multiple": self._pick(True, False)}),
        )

    def _closing(self) -> Step:
        name = self.chance.choice(_CLOSINGS)
        fields = {"reply_code": 200, "reply_text": "bye"} if name.endswith("close") else {}
        return Step(name, 1, self.chance.choice((1, 1, 2)) if name.startswith("channel") else 0, dict(fields))

    # What a client should not do.

    def _anything(self) -> Step:
        acts = (self._closing, self._closing, self._use, self._method, self._method, self._frame, self._content)
        early = (self._header, self._start_ok, self._tune_ok, self._open)
        return self.chance.choice((*acts, self.chance.choice(early)))()

    def _method(self) -> Step:
        """Return any method with plain fields, often on the wrong channel."""
        name = self.chance.choice(_METHODS)
        channel = 0 if name.startswith("connection.") else 1
        # No method means the queue declared last: there is none on a channel that is not open.
        has_queue = name != "queue.declare" and any(field == "queue" for field, _ in codec.METHODS[name].fields)
        fields: dict[str, object] = {"queue": "none"} if has_queue else {}
        if name in ("basic.publish", *codec.CONTENT_METHODS):
            return Step(name, 1, 1, fields)
        return Step(name, 1, self.chance.choice((channel, channel, channel, 0, 1, 2, 2047, 2048, 65_535)), fields)

    def _frame(self) -> Step:
        """Return a frame that no method of the specification has."""
        channel = self.chance.choice((0, 1, 1, 2))
        fields = {"kind": self.chance.choice((1, 1, 2, 3, 4, 8, 8, 0, 255)), "payload": self.chance.choice(_PAYLOADS)}
        if self.chance.random() < 0.15:
            fields["end"] = self.chance.choice((0, 0xCD))
        return Step("frame", 1, channel, fields)

    def _content(self) -> Step:
        announced = self._pick(0, 2, 5, 600 * 1024 * 1024)
        return Step("content", 1, 1, {"announced": announced, "sizes": self._pick([], [3], [3, 3], [6])})


_PLAIN = (
    "\0guest\0guest",
    "\0guest\0wrong",
    "\0nobody\0guest",
    "",
    "\0",
    "\0guest",
    "guest\0guest\0guest",
    "\0guest\0guest\0more",
    "\0guest\0guest\0",
    "\0\0",
    "\0guest\0",
    "guest\0guest",
    "other\0guest\0guest",
    "\0\0guest\0guest",
)
_AMQPLAIN = (
    codec.encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:].decode("latin-1"),
    codec.encode_table({"LOGIN": "guest", "PASSWORD": "wrong"})[4:].decode("latin-1"),
    codec.encode_table({"LOGIN": "guest"})[4:].decode("latin-1"),
    codec.encode_table({"login": "guest", "password": "guest"})[4:].decode("latin-1"),
    codec.encode_table({"LOGIN": "guest", "PASSWORD": "guest", "more": 1})[4:].decode("latin-1"),
    codec.encode_table({"LOGIN": True, "PASSWORD": "guest"})[4:].decode("latin-1"),
    "",
    "garbage",
    "\5LOGINS\0\0\0\5gue",
)
_LOGINS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("PLAIN", _PLAIN),
    ("PLAIN", _PLAIN),
    ("AMQPLAIN", _AMQPLAIN),
    ("EXTERNAL", ("", "guest")),
    ("", _PLAIN),
    ("plain", _PLAIN),
)
_CLOSINGS = (
    "connection.close",
    "connection.close",
    "connection.close-ok",
    "channel.close",
    "channel.close",
    "channel.close-ok",
)
# Every method that a client can encode; those with a meaning of their own above come with fields there.
_METHODS = tuple(codec.METHODS)
_PAYLOADS = (
    "",
    "\0",
    "\0\x0a\0",
    "\0\x0a\0\x63",
    "\0\x0a\0\x28",
    "\0\x14\0\x0a",
    "\0\x14\0\x0a\5abc",
    "\0\x14\0\x28\0\xc8\3bye\0\0\0\0more",
    "\0\x32\0\x0a\0\0\1q\0\0\0\0\5\1kF\0\0",
    "\0\x32\0\x0a\0\0\1q\0\0\0\0\3\1kZ",
    "\0\x3c\0\x28\0\0\0\0\0",
    "\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0",
    "\0\x3c\0\0\0\0\0\0\0\0\0\3\xff\xff\0\0",
    "\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0",
    "\x27\x0f\0\1",
    "x" * 40,
)


class _Talker(Connection):
    """A connection that takes a protocol header from the server as an event."""

    def _take_frame(self) -> bool:
        if self._buffer[:4] == b"AMQP" and len(self._buffer) >= 8:
            octets, self._buffer = self._buffer[:8], self._buffer[8:]
            self._add(Event(0, "header", {"octets": octets}))
            return True
        return super()._take_frame()


class _Talk:
    """One run of a conversation on one server."""

    def __init__(self, endpoint: target.Endpoint) -> None:
        self._endpoint = endpoint
        self._names = render.Names(endpoint.token)
        self._connection = _Talker(endpoint.address, Log(1, self._names, {}), _ANSWER_SECONDS, 1)
        self._connection.answers_close = False
        # Whether a server might answer otherwise, because of what was written together or of another AMQP; see
        # exclusions.
        self.is_racing = False

    def explore(self, program: Program) -> list[_Piece]:
        """Run the program on leveret; return what was sent."""
        pieces, waiting = [], list[Step]()
        for index, step in enumerate(program):
            if self._connection.is_ended:
                break
            if step.op == "content" and not self._is_open(step.channel):
                # The channel's process and the reader each find an error in it.
                continue
            waiting.append(step)
            if step.fields.get("with_next") and index + 1 < len(program):
                continue
            closed = self._is_closed()
            self._send(waiting)
            is_ending = any(it.op in ("connection.close", "connection.close-ok") for it in waiting)
            self.is_racing |= len(waiting) > 1 and (is_ending or (self._is_closed() and not closed))
            speaks_0_8 = waiting[0].fields.get("octets") == _HEADER_0_8 and self._has_arrived("connection.start")
            self.is_racing |= speaks_0_8
            pieces.append(_Piece(tuple(waiting), len(self._connection.events)))
            if any(it.op == "connection.start-ok" for it in waiting) and not self._has_arrived("connection.tune"):
                # A server that refused a login looks only seconds later at what else has come.
                break
            waiting = []
        return pieces

    def run(self, pieces: list[_Piece]) -> Answer:
        """Run those pieces on another server, and return what arrived."""
        for piece in pieces:
            if self._connection.is_ended:
                break
            self._send(piece.steps, piece.count)
        return self.end()

    def end(self) -> Answer:
        """Return what arrived, after waiting for the server to end the socket."""
        self._endpoint.elapse_liveness(LINGER_MS)
        self._connection.wait_end(LINGER_MS / 1000 if self._endpoint.real_time else 0.05)
        answer = self._answer()
        self._connection.drop()
        return answer

    def _is_open(self, channel: int) -> bool:
        names = [event.name for event in self._connection.events if event.channel == channel]
        return "channel.open-ok" in names and not {"channel.close", "channel.close-ok"} & set(names)

    def _has_arrived(self, name: str) -> bool:
        return any(event.name == name for event in self._connection.events)

    def _is_closed(self) -> bool:
        return any(event.name in ("connection.close", "closed", "reset") for event in self._connection.events)

    def _send(self, steps: Iterable[Step], expected: int = 0) -> None:
        self._connection.send_bytes(b"".join(map(self._octets, steps)))
        self._read(expected)

    def _octets(self, step: Step) -> bytes:
        fields = {name: value for name, value in step.fields.items() if name != "with_next"}
        if step.op == "header":
            return str(fields["octets"]).encode("latin-1")
        if step.op == "frame":
            kind, end = fields["kind"], fields.get("end", codec.FRAME_END)
            assert isinstance(kind, int)
            assert isinstance(end, int)
            return codec.frame(kind, step.channel, str(fields["payload"]).encode("latin-1"), end)
        if step.op == "content":
            return self._content(step)
        if "response" in fields:
            fields["response"] = str(fields["response"]).encode("latin-1")
        if fields.get("virtual_host") == "<vhost>":
            fields["virtual_host"] = self._endpoint.vhost
        return codec.frame(codec.METHOD, step.channel, codec.encode_method(step.op, **fields))

    def _content(self, step: Step) -> bytes:
        """Return a publish whose bodies may not be as long as its header says."""
        sizes = step.fields["sizes"]
        assert isinstance(sizes, list)
        announced = step.fields.get("announced", sum(sizes))
        assert isinstance(announced, int)
        method = codec.encode_method("basic.publish", routing_key="none")
        frames = [(codec.METHOD, method), (codec.HEADER, codec.encode_header(announced, b"\0\0"))]
        frames += [(codec.BODY, b"x" * size) for size in sizes]
        return b"".join(codec.frame(kind, step.channel, payload) for kind, payload in frames)

    def _read(self, expected: int) -> None:
        """Read until this much has arrived, and whatever arrives shortly after."""
        connection = self._connection
        if not self._endpoint.real_time:
            self._endpoint.elapse(0, [])
            connection.read_for(0.002)
            return
        deadline = time.monotonic() + _ANSWER_SECONDS
        while len(connection.events) < expected and not connection.is_ended and time.monotonic() < deadline:
            connection.read_for(0.004)
        connection.read_for(_QUIET_SECONDS)

    def _answer(self) -> Answer:
        answer: Answer = {}
        for event in self._connection.events:
            is_end = event.name in ("closed", "reset")
            line = "ended" if is_end else "connection.start" if event.name == "connection.start" else event.line()
            answer.setdefault(f"1.{event.channel}", []).append(self._names.clean(line))
        return answer
