"""A replay: the messages of a recording, published to the code under test, and what became of each.

Messages are published one at a time. The next one follows as soon as the code has settled its copies of the last one;
a copy that a client still holds once it is still is a fact of its own. Time is held, and moves by the recorded spans,
so that a delay or a TTL ends between the same messages as it did. `order="as recorded"` publishes all at once.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from os import PathLike
from typing import Any, Final, Literal, NamedTuple, get_args

from leveret.core.wire.properties import Properties
from leveret.engine.elsewhere import Twins, twin
from leveret.engine.engine import Engine
from leveret.errors import BrokerError, expected
from leveret.observe.views.names import find_vhost
from leveret.recording.judging import Outcomes
from leveret.recording.outcomes import OutcomeWatcher, kind_of
from leveret.recording.privacy import mapped
from leveret.recording.rec_file import RecordedMessage, RecordingFile, read_recording
from leveret.scripted.own_publisher import OwnPublisher
from leveret.time.clock import Clock, Steps
from leveret.time.stillness import Stillness
from leveret.trace.shapes import FORMAT_PATTERNS
from leveret.wording import count_text

Order = Literal["one at a time", "as recorded"]
SETTLE_S: Final = 1.0
THEN_S: Final = 3600.0
# After how many messages of a kind clients must be still.
_AWAITED_OF_KIND: Final = 3
# How many times as long a client may take at the end.
_PATIENCE: Final = 3
# How many steps of time may bring nothing but what goes on in loops.
_QUIET_STEPS_MAX: Final = 100
_UUID: Final = re.compile(rf"(?<![\w-])(?:{FORMAT_PATTERNS['uuid'][0]})(?![\w-])")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_EPOCH: Final = re.compile(r"(?<![\w.-])\d{10}(?:\d{3})?(?![\w.])")


class Numbered(NamedTuple):
    """A message of a recording, and its number there among those that are published."""

    number: int
    message: RecordedMessage


class TrafficReplay:
    """The messages of a recording that a test publishes. `play` publishes them."""

    def __init__(
        self,
        engine: Engine,
        path: str | PathLike[str],
        *,
        vhost: str = "/",
        where: Callable[[RecordedMessage], object] | None = None,
        first: int = 1,
        limit: int | None = None,
        times: int = 1,
        today: bool = False,
    ) -> None:
        """`Broker.replay` describes the arguments."""
        self._engine = engine
        self._vhost = vhost
        self.file: Final[RecordingFile] = read_recording(path)
        published = [Numbered(*it) for it in enumerate((it for it in self.file.messages if it.queue is None), 1)]
        services = _services(self.file)
        # What the service itself has published, if the recording is that of a firehose.
        self._sent: Final = [it.message for it in published if it.message.client in services]
        chosen = [it for it in published if it.number >= first and it.message.client not in services]
        chosen = [it for it in chosen if where is None or where(it.message)][:limit]
        if not chosen:
            raise BrokerError(
                f"replay(): none of the {count_text(len(published), 'message')} of {path} is left to publish; "
                f"{'check where=, first= and limit=' if published else 'record again while messages are published'}"
            )
        now = engine.clock.now()
        moved = [_moved(it.message, now - chosen[0].message.at) for it in chosen] if today else [it[1] for it in chosen]
        self.messages: Final = [
            Numbered(it.number + turn * len(published), _with_new_ids(message, turn) if turn or today else message)
            for turn in range(times)
            for it, message in zip(chosen, moved, strict=True)
        ]

    def __repr__(self) -> str:
        return f"<Replay of {count_text(len(self.messages), 'message')} of {self.file.path}>"

    def play(self, *, order: Order = "one at a time", settle: float = SETTLE_S, then: float = THEN_S) -> Outcomes:
        """Publish the messages, wait for what the code under test makes of them, and return the outcomes.

        Clients get `settle` seconds of real time for each message, or ten times as long while code of theirs visibly
        works. At the end, time moves on by `then` seconds of the broker's clock, in which retries and TTLs end.
        """
        __tracebackhide__ = True
        self._engine.refuse_to_starve_clients("recording.play()", "await recording.aio.play()")
        if order not in get_args(Order):
            raise ValueError(f"play(): order={order!r} is unknown{expected(str(order), get_args(Order))}")
        if not self._engine.recorder.is_on:
            raise BrokerError("play() needs recorded events, but this broker has record='off'; use record='recent'")
        self._engine.refuse_not_running()
        player = _ReplayRun(self._engine, self._vhost, settle, is_one_at_a_time=order == "one at a time")
        kinds = {number: kind_of(message) for number, message in self.messages}
        player.play(self.messages, kinds, round(then * 1_000_000))
        return Outcomes(self.file, kinds, self._sent, player.watcher)

    @property
    def aio(self) -> AioTrafficReplay:
        """The awaitable versions of the methods that wait, for use on a running event loop."""
        return AioTrafficReplay(self)


class AioTrafficReplay(Twins):
    """The awaitable form of a replay, `recording.aio`."""

    _called = "recording.aio"

    play = twin(TrafficReplay.play)


class _ReplayRun:
    """One run of a replay."""

    def __init__(self, engine: Engine, vhost: str, settle: float, *, is_one_at_a_time: bool) -> None:
        self._engine = engine
        self._vhost = vhost
        self._settle_s = settle
        self._is_one_at_a_time = is_one_at_a_time
        self._stillness = Stillness(engine)
        self.watcher = OutcomeWatcher(is_one_at_a_time=is_one_at_a_time)
        self._seen_count = engine.recorder.recorded_count
        # The copies that clients still held when they were still, and the queues that these came from.
        self._kept: set[int] = set()
        # How many messages of each kind were published.
        self._counts: Counter[str] = Counter()
        self._holders: set[str] = set()

    def play(self, messages: list[Numbered], kinds: Mapping[int, str], then_us: int) -> None:
        """Publish the messages, each at its place in time, and let time go on for `then_us` after the last."""
        with Clock(self._engine).hold():
            at, before = self._engine.clock.now(), messages[0].message.at
            for number, message in messages:
                # A recording that is played several times goes on where it ended.
                at, before = at + max(0, message.at - before), message.at
                self._move_to(at)
                self._publish(number, message)
                if self._is_one_at_a_time:
                    self._await_settled(kinds[number])
            self._await_all()
            self._move_to(at + then_us)
            self._await_all()

    def _publish(self, number: int, message: RecordedMessage) -> None:
        octets = message.properties.encode()
        with self._engine.acting() as node:
            self._look()
            self.watcher.begin(number, message)
            publisher = OwnPublisher(find_vhost(node, self._vhost))
            publisher.publish(message.exchange, message.routing_key, message.body, octets, is_mandatory=False)

    def _move_to(self, at: int) -> None:
        """Move time to an instant; what is due before goes to clients, which settle it before time moves on."""
        engine = self._engine
        with engine.lock:
            deadline = engine.node.next_deadline()
            if deadline is None or deadline > at:
                engine.clock.jump(max(at, engine.clock.now()))
                return
        steps = Steps(engine, at, heartbeats=False)
        news_count, quiet_count = self.watcher.news_count, 0
        while quiet_count < _QUIET_STEPS_MAX and not engine.ask(steps.move_on):
            if steps.newcomers is not None:
                self._await_still()
                quiet_count = quiet_count + 1 if news_count == self.watcher.news_count else 0
                news_count = self.watcher.news_count
        with engine.lock:
            # A loop of retries goes on as long as time does.
            engine.clock.jump(max(at, engine.clock.now()))

    def _look(self) -> None:
        """Take what has happened. Call it under the lock."""
        recorder = self._engine.recorder
        count = recorder.recorded_count
        if count > self._seen_count:
            self.watcher.take(recorder.raw_after(self._seen_count))
            self._seen_count = count

    def _is_settled(self, *, all_held: bool = False) -> bool:
        self._look()
        kept, holders = (set[int](), set[str]()) if all_held else (self._kept, self._holders)
        return not self.watcher.is_busy(self._engine.node, kept, holders, with_loops=all_held)

    def _await_settled(self, kind: str) -> None:
        """Wait until the code under test has settled its copies of the last message, or holds them.

        After the first ones of a kind, what is sent once they are settled is waited for too: it shows that the client
        settles first, so that the cause of what it sends is not certain.
        """
        is_done = self._engine.wait_until(self._is_settled, self._settle_s)
        self._counts[kind] += 1
        if not is_done or self._counts[kind] <= _AWAITED_OF_KIND or self.watcher.held_anew(self._kept):
            self._await_still()

    def _await_all(self) -> None:
        """Wait until nothing is under way, or nothing has happened for some time: a slow client is not at its end.

        What goes on in a loop is nothing. A client that sent something once it held no message may wait for a timer
        before it does so again, and looks still meanwhile.
        """
        news_count = -1
        while news_count != self.watcher.news_count:
            news_count = self.watcher.news_count
            if self._engine.wait_until(lambda: self._is_settled(all_held=True), _PATIENCE * self._settle_s):
                break
        self._await_still()
        while self.watcher.uncertain and self._engine.wait_until(
            partial(self._is_news_since, news_count), self._settle_s
        ):
            news_count = self.watcher.news_count

    def _is_news_since(self, news_count: int) -> bool:
        self._look()
        return self.watcher.news_count > news_count

    def _await_still(self) -> None:
        """Wait until clients are still. What they hold then, they keep, and who has gone is not waited for."""
        self._stillness.wait(lambda: [] if self._is_settled() else ["messages are under way"], self._settle_s)
        with self._engine.lock:
            self._look()
            self.watcher.give_up_absent(self._engine.node)
            held = self.watcher.held_anew(self._kept)
        self._kept |= held.keys()
        self._holders |= set(held.values())


def _services(file: RecordingFile) -> set[int | None]:
    """Return the clients that consumed from the recorded queue, or from any: what they published is their answer."""
    queue = file.facts.get("queue")
    return {it.client for it in file.messages if it.queue is not None and it.queue in (queue or it.queue,)}


def _moved(message: RecordedMessage, shift_us: int) -> RecordedMessage:
    """Return a message with its instants moved by a span; a number counts as one if it is within a day of then."""
    # Whole seconds, so that fractions stay as they are.
    shift = timedelta(seconds=shift_us // 1_000_000)
    then = message.at / 1_000_000

    def instant(found: re.Match[str]) -> str:
        text = found[0]
        with suppress(ValueError):
            moved = datetime.fromisoformat(text) + shift
            size = 10 if len(text) == 10 else 19 if text[16:17] == ":" else 16
            return f"{moved.date()}{text[10:11]}{moved.time()}"[:size] + text[size:]
        return text

    def epoch(found: re.Match[str]) -> str:
        unit = 1000 if len(found[0]) > 10 else 1
        is_near = abs(int(found[0]) / unit - then) < 86_400
        return str(int(found[0]) + round(shift.total_seconds() * unit)) if is_near else found[0]

    return _changed(message, lambda text: _EPOCH.sub(epoch, _INSTANT.sub(instant, text)), shift)


def _with_new_ids(message: RecordedMessage, turn: int) -> RecordedMessage:
    """Return a message with another UUID for each of its own: the same for the same one."""
    return _changed(message, lambda text: _UUID.sub(partial(_new_id, turn), text), timedelta())


def _new_id(turn: int, found: re.Match[str]) -> str:
    made = uuid.uuid5(uuid.NAMESPACE_OID, f"{turn} {found[0]}")
    return str(made) if "-" in found[0] else made.hex


def _changed(message: RecordedMessage, change: Callable[[str], str], shift: timedelta) -> RecordedMessage:
    """Return a message with its texts changed: those of the body, of properties and of headers."""
    given = dict(vars(message.properties))
    changed: dict[str, Any] = {name: mapped(it, partial(_text, change)) for name, it in given.items()}
    if "timestamp" in changed:
        changed["timestamp"] = given["timestamp"] + round(shift.total_seconds())
    body = message.body
    with suppress(UnicodeDecodeError):
        body = change(body.decode()).encode()
    return message._replace(
        routing_key=change(message.routing_key), properties=Properties(**changed), body=body, at=message.at
    )


def _text(change: Callable[[str], str], value: Any) -> Any:
    return change(value) if isinstance(value, str) else value
