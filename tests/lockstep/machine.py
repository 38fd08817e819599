"""Run a program: each step on leveret, then on the other server, until both show the same.

leveret goes first. It answers at once, and the other server gets time to reach the same state. The other server may
also be a recording: the answers of a real server when the program was recorded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.semantics.client import Event

from .answer import ENDINGS, Answer, Reader
from .side import OWN, Place, Side
from .steps import Program, Step
from .world import MISSING_QUEUE

# Longer than any RabbitMQ needs to come to rest when its state stays different.
REST_SECONDS = 5.0
# How long a program may run on a real server, besides elapse, before TTLs of a second become a matter of chance.
UNHURRIED_SECONDS = 0.65
DRAIN_CHANNEL = 8
_UNKNOWN_TAG = 9_999_999
# Steps that a server may still be working on before anything shows.
_SILENT = (
    "basic.publish",
    "basic.ack",
    "basic.nack",
    "basic.reject",
    "basic.recover-async",
    "connection.drop",
    "connection.close",
    "channel.close",
)
_SILENT_SECONDS = 0.006
# A quorum queue writes a new policy to its log before it applies it.
_POLICY_SECONDS = 0.05
# Longer than any RabbitMQ needs to refuse a method.
_CLOSE_SECONDS = 5.0


@dataclass
class Difference:
    """A difference between the two servers."""

    index: int
    step: Step
    expected: Answer
    got: Answer


@dataclass
class Outcome:
    """The outcome of a program."""

    answers: list[Answer] = field(default_factory=list)
    # The steps that ran, each with the type of its queue, if any. Steps with nothing to act upon are skipped.
    played: list[tuple[Step, str]] = field(default_factory=list)
    difference: Difference | None = None
    is_too_slow: bool = False
    # Deliveries from several queues came in different orders at some time, which is allowed.
    is_reordered: bool = False
    # The step at which events on the other server raced and the program ended.
    race: Difference | None = None
    # The program ended at a hard error that the other server did not get to see; see exclusions.
    is_cut: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the program ran to its end."""
        return not (self.is_cut or self.is_too_slow or self.difference or self.race)


@dataclass
class _Acting:
    """A side with its reader."""

    side: Side
    reader: Reader


class Player:
    """One run of one program."""

    def __init__(self, leveret: Side, other: Side | None, recorded: list[Answer] | None, rest: float) -> None:
        self._leveret = _Acting(leveret, Reader(leveret))
        self._other = None if other is None else _Acting(other, Reader(other))
        self._recorded = recorded
        self._rest_seconds = rest
        self.outcome = Outcome()
        self._tags: dict[Place, dict[int, int]] = {}
        self._outstanding: dict[Place, list[int]] = {}
        self._held: dict[Place, list[int]] = {}
        self._transactional: set[Place] = set()
        self._without_ack: set[tuple[Place, str]] = set()
        self._last_declared: dict[Place, str] = {}
        # The queue of each delivery, and the type of each queue.
        self._origin: dict[tuple[Place, int], str] = {}
        self._types: dict[str, str] = {}
        # Queues that may exist, with the connection that may ask for them.
        self.queues: dict[str, int] = {}
        self._absent: set[str] = set()
        self.exchanges: set[str] = set()
        # Policies that are set.
        self.policies: set[str] = set()
        self._hurried = 0.0
        self._has_elapse = False
        self._has_dead_letters = False
        # Before 4.3, basic.qos with global is one limit for all consumers of a channel.
        self._has_shared_limit = False
        # A consumer of a quorum queue took the tag of an earlier one.
        self._has_reused_tag = False

    def play(self, program: Program) -> Outcome:
        """Run all steps, then drain; stop at the first difference."""
        self._has_elapse = any(step.op == "elapse" for step in program)
        for step in self._with_drain(program):
            if not self._take(step):
                break
        return self.outcome

    def _with_drain(self, program: Program) -> Iterator[Step]:
        yield from program
        yield from self._drain()
        for ordinal, connection in sorted(self._leveret.side.connections.items()):
            for number in sorted(connection.open_channels):
                if ordinal != OWN and number < DRAIN_CHANNEL:
                    yield Step("channel.close", ordinal, number)
        yield from self._drain()

    def _drain(self) -> Iterator[Step]:
        for name in sorted(self.queues):
            if self._types.get(name) == "stream":
                if name not in self._absent:
                    yield from self._read_through(name)
                continue
            while name not in self._absent:
                yield Step("basic.get", self.queues[name] or 1, DRAIN_CHANNEL, {"queue": name, "no_ack": True})
                if not any("get-ok" in line for lines in self.outcome.answers[-1].values() for line in lines):
                    break

    def _read_through(self, stream: str) -> Iterator[Step]:
        place = (1, DRAIN_CHANNEL)
        yield Step("basic.qos", *place, {"prefetch_count": 1000})
        yield Step(
            "basic.consume",
            *place,
            {"queue": stream, "consumer_tag": "drain", "arguments": {"x-stream-offset": "first"}},
        )
        yield Step("channel.close", *place)

    def _take(self, step: Step) -> bool:
        step = self._with_something_outstanding(step)
        place = (step.connection, step.channel)
        if not self._is_possible(step, place):
            return True
        acts = self._resolved(step, place)
        if acts is None:
            return True
        self._note(step, place)
        kind = self._queue_type(acts[0], place)
        channels_before = self._leveret.side.channel_count(step.connection)
        expected = self._act_on_leveret(step, acts, place)
        if channels_before > 1 and self._is_hard_error(step, expected):
            self.outcome.is_cut = True
            return False
        got = self._judge(step, acts, place, expected)
        self.outcome.answers.append(expected)
        self.outcome.played.append((step, kind))
        if got != expected:
            difference = Difference(len(self.outcome.answers) - 1, step, expected, got)
            if self._is_race(step, expected, got):
                self.outcome.race = difference
            else:
                self.outcome.difference = difference
            return False
        if self._has_elapse and self._hurried > UNHURRIED_SECONDS:
            self.outcome.is_too_slow = True
            return False
        self._finish(acts, place)
        return True

    def _with_something_outstanding(self, step: Step) -> Step:
        """Return the step, moved to a channel with deliveries if it settles "anywhere" and its own channel has none."""
        if not step.fields.get("anywhere"):
            return step
        place = (step.connection, step.channel)
        others = sorted(where for where, tags in self._outstanding.items() if tags)
        connection, channel = place if self._outstanding.get(place) or not others else others[0]
        fields = {name: value for name, value in step.fields.items() if name != "anywhere"}
        return Step(step.op, connection, channel, fields)

    def _queue_type(self, step: Step, place: Place) -> str:
        """Return the type of the queue that the step acts on, or an empty string."""
        fields = step.fields
        if "delivery_tag" in fields:
            return self._types.get(self._origin.get((place, self._number(step)), ""), "")
        if step.op == "basic.cancel":
            return self._types.get(self._leveret.reader.queues.get((place, str(fields["consumer_tag"])), ""), "")
        name = fields.get("queue") if step.op != "basic.publish" else fields.get("routing_key")
        return self._types.get(str(name or self._last_declared.get(place, "")), "") if name is not None else ""

    def _is_possible(self, step: Step, place: Place) -> bool:
        """Return whether the step has something to act upon."""
        if step.op == "channel.close":
            return self._leveret.side.is_open(place)
        if step.op in ("connection.close", "connection.drop"):
            return self._leveret.side.is_open((place[0], 9)) and self._ends_in_one_way(place[0])
        if step.op == "policy.clear":
            return step.fields["name"] in self.policies
        return True

    def _resolved(self, step: Step, place: Place) -> tuple[Step, ...] | None:
        """Return what is to be sent, with leveret's delivery tags, or None if a step has no delivery to settle."""
        outstanding = list(self._outstanding.get(place, ()))
        acts = []
        for part in step.parts:
            if "delivery" not in part.fields:
                acts.append(part)
                continue
            fields = {name: value for name, value in part.fields.items() if name != "delivery"}
            delivery = part.fields["delivery"]
            if delivery != "unknown" and not outstanding:
                return None
            tag = self._tag(delivery, outstanding)
            is_multiple = bool(fields.get("multiple"))
            if is_multiple and delivery != "unknown" and not self._covers_the_same(place, tag, outstanding):
                return None
            acts.append(Step(part.op, *place, {**fields, "delivery_tag": tag}))
            outstanding = [it for it in outstanding if not _covers(tag, is_multiple, it)]
        return tuple(acts)

    def _ends_in_one_way(self, ordinal: int) -> bool:
        """Return whether the connection's channels may end in any order: none holds what another could get."""
        is_holding = any(tags for where, tags in self._outstanding.items() if where[0] == ordinal)
        return self._leveret.side.channel_count(ordinal) < 2 or not is_holding

    def _covers_the_same(self, place: Place, tag: int, outstanding: list[int]) -> bool:
        tags = self._tags.get(place, {})
        limit = tags.get(tag, tag)
        return all((it <= tag) == (tags.get(it, it) <= limit) for it in outstanding) or tag == 0

    def _tag(self, delivery: object, outstanding: list[int]) -> int:
        if delivery == "unknown":
            return _UNKNOWN_TAG
        if delivery == "all":
            return 0
        assert isinstance(delivery, int)
        return outstanding[delivery % len(outstanding)]

    def _number(self, act: Step) -> int:
        tag = act.fields["delivery_tag"]
        assert isinstance(tag, int)
        return tag

    def _note(self, step: Step, place: Place) -> None:
        """Remember what later steps and the comparison need to know."""
        fields = step.fields
        queue = str(fields.get("queue") or self._last_declared.get(place, ""))
        if step.op == "basic.consume":
            tag = str(fields.get("consumer_tag", ""))
            key = (place, tag or f"ctag{1 + sum(label.startswith('ctag') for label in self._leveret.side.made_up)}")
            self._has_reused_tag |= key in self._leveret.reader.queues and self._types.get(queue) == "quorum"
            for acting in self._acting():
                acting.reader.queues[key] = queue
            if fields.get("no_ack"):
                self._without_ack.add(key)
            else:
                self._without_ack.discard(key)
        if step.op == "basic.qos" and fields.get("global_") and self._leveret.side.endpoint.version != "4.3":
            self._has_shared_limit = True
        if step.op == "policy.set":
            self.policies.add(str(fields["name"]))
            self._has_dead_letters |= "dead-letter-exchange" in str(fields["definition"])
        if step.op == "policy.clear":
            self.policies.discard(str(fields["name"]))
        if step.op == "exchange.declare":
            name = str(fields["exchange"])
            if name and not name.startswith("amq."):
                self.exchanges.add(name)
        if step.op == "queue.declare" and fields.get("queue") and not fields.get("passive"):
            self._last_declared[place] = queue
            arguments = fields.get("arguments")
            self._has_dead_letters |= isinstance(arguments, dict) and "x-dead-letter-exchange" in arguments
            kind = str(arguments.get("x-queue-type", "classic")) if isinstance(arguments, dict) else "classic"
            if queue in self._absent or queue not in self._types:
                self._types[queue] = kind
                for acting in self._acting():
                    acting.reader.types[queue] = kind
            if queue in self._absent or queue not in self.queues:
                self.queues[queue] = step.connection if fields.get("exclusive") else OWN
                self._absent.discard(queue)

    def _acting(self) -> list[_Acting]:
        return [self._leveret] if self._other is None else [self._leveret, self._other]

    def _act_on_leveret(self, step: Step, acts: tuple[Step, ...], place: Place) -> Answer:
        acting = self._leveret
        self._send(acting, step, acts, None)
        acting.side.settle(step.connection)
        acting.reader.read()
        self._note_made_up_queues(acting, step, place)
        return self._answer(acting, acting.side.counts(self._asked()))

    def _asked(self) -> dict[str, int]:
        return {name: ordinal for name, ordinal in self.queues.items() if name not in self._absent}

    def _answer(self, acting: _Acting, counts: dict[str, str]) -> Answer:
        acting.reader.read()
        shown = [f"{name}: {acting.reader.count_of(name, count)}" for name, count in sorted(counts.items())]
        return {**acting.reader.answer(), **({"queues": shown} if shown else {})}

    def _note_made_up_queues(self, acting: _Acting, step: Step, place: Place) -> None:
        for label in acting.side.made_up:
            if label.startswith("gen") and label not in self.queues:
                self.queues[label] = step.connection if step.fields.get("exclusive") else OWN
                self._last_declared[place] = label

    def _judge(self, step: Step, acts: tuple[Step, ...], place: Place, expected: Answer) -> Answer:
        if self._other is None:
            assert self._recorded is not None
            index = len(self.outcome.answers)
            return self._recorded[index] if index < len(self._recorded) else {}
        started = time.monotonic()
        self._send(self._other, step, acts, self._tags.setdefault(place, {}))
        if step.op == "elapse":
            started = time.monotonic()
        got = self._come_to_rest(self._other, step, expected)
        self._hurried += time.monotonic() - started
        return got

    def _come_to_rest(self, acting: _Acting, step: Step, expected: Answer) -> Answer:
        if all(part.op in _SILENT for part in step.parts) and self._shows_nothing(expected):
            acting.side.settle(step.connection)
            acting.side.read_for(_SILENT_SECONDS)
        if step.op.startswith("policy."):
            acting.side.read_for(_POLICY_SECONDS)
        deadline = time.monotonic() + self._rest_seconds
        asked = self._asked()
        acting.side.await_events(self._leveret.reader.event_counts(), deadline)
        pause = 0.001
        while True:
            acting.side.settle(step.connection)
            acting.reader.read()
            got = acting.reader.answer()
            if got == {place: lines for place, lines in expected.items() if place != "queues"}:
                got = self._answer(acting, acting.side.counts(asked))
            if got == expected:
                return got
            if time.monotonic() > deadline:
                return self._answer(acting, acting.side.counts(asked))
            acting.side.read_for(pause)
            pause = min(pause * 1.5, 0.008)

    def _is_race(self, step: Step, expected: Answer, got: Answer) -> bool:
        """Return whether the difference may be due to chance; see exclusions."""
        if step.parts[-1].op == "tx.commit" and "quorum" in self._types.values():
            return True
        arguments = step.fields.get("arguments")
        if step.op == "basic.consume" and isinstance(arguments, dict) and arguments.get("x-stream-offset") == "last":
            return True
        has_crashed = any("reply_code=541" in line for lines in got.values() for line in lines)
        if self._has_reused_tag and has_crashed and self._leveret.side.endpoint.version == "3.10":
            return True
        if self._delivers_oddly(step) or self._acks_after_a_return(step):
            return self._without_deliveries(expected) == self._without_deliveries(got)
        if self._shares_a_limit_among_queues() or self._requeues_beside_letters(step):
            return self._refusals(expected) == self._refusals(got)
        if step.op == "basic.publish" and self._has_dead_letters and "quorum" in self._types.values():
            return self._in_any_order(expected) == self._in_any_order(got)
        if self._is_hard_error(step, expected):
            is_left_alike = expected.get("queues") == got.get("queues")
            return is_left_alike and self._without_deliveries(expected) == self._without_deliveries(got)
        # What a channel did before it was closed in the middle of a segment reaches queues and consumers as it happens.
        if step.op == "segment" and self._refusals(expected) and self._refusals(expected) == self._refusals(got):
            return self._without_deliveries(expected) == self._without_deliveries(got)
        # Messages requeued by an ended channel may have died, and their dead letters may reach consumers about to end.
        is_ending = step.op in ("channel.close", "connection.close", "connection.drop")
        refusals = self._refusals(expected)
        return self._has_dead_letters and (is_ending or bool(refusals)) and refusals == self._refusals(got)

    def _shares_a_limit_among_queues(self) -> bool:
        """Return whether several queues delivered to a channel in this step, and one limit holds for its consumers."""
        queues: dict[Place, set[str]] = {}
        for acting in self._acting():
            for place in {where for where, _ in acting.reader.events()}:
                queues.setdefault(place, set()).update(acting.reader.deliveries(place))
        return self._has_shared_limit and any(len(found) > 1 for found in queues.values())

    def _delivers_oddly(self, step: Step) -> bool:
        """Return whether the step commits to a stream on 3.10, or publishes once a consumer was cancelled."""
        if self._leveret.side.endpoint.version != "3.10":
            return False
        if step.op == "basic.publish" and any(it.op == "basic.cancel" for it, _ in self.outcome.played):
            return "classic" in self._types.values()
        return step.parts[-1].op == "tx.commit" and "stream" in self._types.values()

    def _acks_after_a_return(self, step: Step) -> bool:
        """Return whether a segment acknowledges something after it has returned something else to a classic queue."""
        returns = [at for at, part in enumerate(step.parts) if part.fields.get("requeue")]
        is_segment = step.op == "segment" and "classic" in self._types.values()
        return is_segment and any(
            part.op == "basic.ack" for part in step.parts[min(returns, default=len(step.parts)) :]
        )

    def _requeues_beside_letters(self, step: Step) -> bool:
        """Return whether a segment requeues messages while others of it die."""
        kinds = {bool(part.fields["requeue"]) for part in step.parts if "requeue" in part.fields}
        return step.op == "segment" and self._has_dead_letters and len(kinds) > 1

    def _without_deliveries(self, answer: Answer) -> Answer:
        others = {
            place: [line for line in lines if not line.startswith(("basic.deliver", "tags "))]
            for place, lines in answer.items()
            if place != "queues"
        }
        return {place: lines for place, lines in others.items() if lines}

    def _in_any_order(self, answer: Answer) -> dict[str, list[str]]:
        """Return the answer without the order of its deliveries."""
        return {
            place: sorted(re.sub(r"delivery_tag=\d+ ", "", line) for line in lines) for place, lines in answer.items()
        }

    def _refusals(self, answer: Answer) -> list[tuple[str, str]]:
        return sorted((place, line) for place, lines in answer.items() for line in lines if "channel.close " in line)

    def _is_hard_error(self, step: Step, answer: Answer) -> bool:
        return any(line.startswith(ENDINGS) for line in answer.get(f"{step.connection}.0", ()))

    def _shows_nothing(self, expected: Answer) -> bool:
        """Return whether a step changes nothing that the machine could wait for."""
        before = self.outcome.answers[-1].get("queues") if self.outcome.answers else None
        return set(expected) <= {"queues"} and expected.get("queues") == before

    def _send(self, acting: _Acting, step: Step, acts: tuple[Step, ...], tags: dict[int, int] | None) -> None:
        acting.reader.begin()
        side = acting.side
        if step.op == "elapse":
            milliseconds = step.fields["ms"]
            assert isinstance(milliseconds, int)
            side.endpoint.elapse(milliseconds, list(side.connections.values()))
        elif step.op == "connection.drop":
            side.connections[step.connection].drop()
            self._forget_connection(acting, step.connection)
        elif step.op == "connection.close":
            side.connections[step.connection].close()
            self._forget_connection(acting, step.connection)
        elif step.op.startswith("policy."):
            self._set_policy(acting, step)
        elif step.op == "closing":
            self._close_slowly(acting, acts, tags)
        elif step.op == "segment" and not step.fields.get("is_split"):
            with side.channel((step.connection, step.channel)).connection.in_one_piece():
                self._send_methods(acting, acts, tags)
        else:
            self._send_methods(acting, acts, tags)

    def _send_methods(self, acting: _Acting, acts: tuple[Step, ...], tags: dict[int, int] | None) -> None:
        for act in acts:
            self._send_method(acting, act, tags, is_alone=len(acts) == 1)

    def _set_policy(self, acting: _Acting, step: Step) -> None:
        operator, vhost, name = acting.side.endpoint.operator, acting.side.endpoint.vhost, str(step.fields["name"])
        if step.op == "policy.clear":
            operator.clear_policy(vhost, name)
            return
        definition, priority = step.fields["definition"], step.fields["priority"]
        assert isinstance(definition, dict)
        assert isinstance(priority, int)
        operator.set_policy(vhost, name, str(step.fields["pattern"]), definition, priority)

    def _close_slowly(self, acting: _Acting, acts: tuple[Step, ...], tags: dict[int, int] | None) -> None:
        """Send a method that closes the channel, and close-ok only after the other methods and frames."""
        place = (acts[0].connection, acts[0].channel)
        connection = acting.side.channel(place).connection
        connection.answers_close = False
        self._send_method(acting, acts[0], tags, is_alone=True)
        acting.side.await_close(place, _CLOSE_SECONDS)
        with connection.in_one_piece():
            self._send_methods(acting, acts[1:], tags)
            connection.send(place[1], "channel.close-ok")
        connection.answers_close = True
        connection.forget_channel(place[1])

    def _forget_connection(self, acting: _Acting, ordinal: int) -> None:
        for number in range(DRAIN_CHANNEL + 1):
            acting.reader.forget((ordinal, number))

    def _send_method(self, acting: _Acting, step: Step, tags: dict[int, int] | None, *, is_alone: bool) -> None:
        place = (step.connection, step.channel)
        channel = acting.side.channel(place)
        fields = dict(step.fields)
        if step.op == "basic.publish":
            self._publish(acting, step, place, is_alone=is_alone)
            return
        if step.op == "frame":
            kind, payload = fields["kind"], str(fields["payload"])
            assert isinstance(kind, int)
            channel.connection.send_frame(kind, place[1], payload.encode("latin-1"))
            return
        if "delivery_tag" in fields and tags is not None:
            fields["delivery_tag"] = tags.get(self._number(step), fields["delivery_tag"])
        for name in ("queue", "consumer_tag", "routing_key"):
            if name in fields:
                fields[name] = acting.side.real_name(fields[name])
        channel.send(step.op, **fields)
        if step.op == "channel.close":
            channel.receive("channel.close-ok")
            channel.connection.forget_channel(place[1])
            acting.reader.forget(place)

    def _publish(self, acting: _Acting, step: Step, place: Place, *, is_alone: bool) -> None:
        fields = dict(step.fields)
        count, body, properties = fields.pop("count", 1), fields.pop("body", ""), fields.pop("properties", {})
        assert isinstance(count, int)
        assert isinstance(properties, dict)
        # Only where several publishes arrive together, the order of what follows them is compared.
        is_lost = not is_alone and not fields["exchange"] and fields["routing_key"] == MISSING_QUEUE
        fields["routing_key"] = acting.side.real_name(fields.get("routing_key", ""))
        channel = acting.side.channel(place)
        for number in range(count):
            acting.reader.note_publish(place, is_lost=is_lost)
            channel.publish(body=f"{body}.{number}" if count > 1 else str(body), **fields, **properties)

    def _finish(self, acts: tuple[Step, ...], place: Place) -> None:
        """Record the effect of a step that both servers answered alike on deliveries and queues."""
        if self._other is not None:
            self._pair_tags()
        # Settled deliveries first: a message may have been redelivered within the step.
        for act in acts:
            self._note_settled(act, place)
        for where, event in self._leveret.reader.events():
            self._note_event(acts[-1], where, event)
        for acting in self._acting():
            acting.reader.end()
        queues = self.outcome.answers[-1].get("queues", ())
        self._absent |= {line.split(":")[0] for line in queues if line.endswith(": 404")}

    def _pair_tags(self) -> None:
        assert self._other is not None
        for place in {where for where, event in self._leveret.reader.events() if event.name == "basic.deliver"}:
            ours, theirs = self._leveret.reader.deliveries(place), self._other.reader.deliveries(place)
            for queue, tags in ours.items():
                for our_tag, their_tag in zip(tags, theirs[queue], strict=True):
                    self._tags.setdefault(place, {})[our_tag] = their_tag
                    self.outcome.is_reordered |= our_tag != their_tag

    def _note_event(self, step: Step, place: Place, event: Event) -> None:
        if event.name == "basic.deliver":
            tag = event.fields["consumer_tag"]
            assert isinstance(tag, bytes)
            consumer = (place, self._leveret.side.label(tag))
            if consumer not in self._without_ack:
                self._note_outstanding(place, event, self._leveret.reader.queues.get(consumer, ""))
        elif event.name == "basic.get-ok" and not step.fields.get("no_ack"):
            self._note_outstanding(place, event, str(step.fields.get("queue") or self._last_declared.get(place, "")))
        elif event.name == "channel.close":
            self._forget(place)
        elif event.name in ENDINGS:
            self._forget_all(place[0])
        elif event.name == "tx.select-ok":
            self._transactional.add(place)

    def _note_outstanding(self, place: Place, event: Event, queue: str) -> None:
        tag = int(str(event["delivery_tag"]))
        self._outstanding.setdefault(place, []).append(tag)
        self._origin[(place, tag)] = queue

    def _forget(self, place: Place) -> None:
        for known in (self._outstanding, self._held, self._tags, self._last_declared):
            known.pop(place, None)
        self._transactional.discard(place)

    def _forget_all(self, ordinal: int) -> None:
        for number in range(DRAIN_CHANNEL + 1):
            self._forget((ordinal, number))
            for acting in self._acting():
                acting.reader.forget((ordinal, number))

    def _note_settled(self, step: Step, place: Place) -> None:
        outstanding = self._outstanding.get(place, [])
        if step.op in ("basic.ack", "basic.nack", "basic.reject"):
            is_multiple = bool(step.fields.get("multiple"))
            gone = [it for it in outstanding if _covers(self._number(step), is_multiple, it)]
            self._outstanding[place] = [it for it in outstanding if it not in gone]
            if place in self._transactional:
                self._held.setdefault(place, []).extend(gone)
        elif step.op in ("basic.recover", "basic.recover-async"):
            self._outstanding[place] = []
        elif step.op == "tx.commit":
            self._held.pop(place, None)
        elif step.op == "tx.rollback":
            self._outstanding[place] = sorted(outstanding + self._held.pop(place, []))
        elif step.op == "channel.close":
            self._forget(place)
        elif step.op in ("connection.close", "connection.drop"):
            self._forget_all(step.connection)


def _covers(tag: int, is_multiple: bool, delivery: int) -> bool:
    """Return whether a settlement of this tag covers that delivery."""
    return tag != _UNKNOWN_TAG and (delivery == tag or (is_multiple and (tag == 0 or delivery <= tag)))
