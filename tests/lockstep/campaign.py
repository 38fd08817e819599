"""Run programs and count the results: on leveret and a vhost of a real server, or on leveret and a recording."""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.semantics import target

from . import conversations, generator, heartbeats
from .answer import Answer
from .machine import REST_SECONDS, Difference, Outcome, Player
from .recordings import Recording
from .shrink import shrink
from .side import Side
from .steps import Program, text

# How often a program that differed is run again. If RabbitMQ behaved by chance, one of the runs shows it.
REPEATS = 3
_SHRINKING_REST_SECONDS = 1.0


def play(program: Program, endpoint: target.Endpoint, version: str, rest: float = REST_SECONDS) -> Outcome:
    """Run the program once on leveret and on that server."""
    for _ in range(10):
        with target.leveret(version) as embedded:
            leveret, other = Side(embedded), Side(endpoint)
            player = Player(leveret, other, None, rest)
            try:
                outcome = player.play(program)
            finally:
                for side in (other, leveret):
                    side.close(player.queues, player.exchanges, player.policies)
        if not outcome.is_too_slow:
            break
    return outcome


def replay(program: Program, answers: list[Answer], version: str, start: target.Start = target.leveret) -> Outcome:
    """Run the program once on leveret, against the recorded answers of a server."""
    with start(version) as embedded:
        leveret = Side(embedded)
        player = Player(leveret, None, answers, 0)
        outcome = player.play(program)
        leveret.close(player.queues, player.exchanges, player.policies)
        return outcome


class Kind(NamedTuple):
    """A kind of program: how it is made from a seed and a length, and run against a server or a recording."""

    generate: Callable[[int, int], Program]
    play: Callable[[Program, target.Endpoint, str, float], Outcome]
    replay: Callable[..., Outcome]


KINDS = {
    "programs": Kind(generator.generate, play, replay),
    "conversations": Kind(conversations.generate, conversations.play, conversations.replay),
    "heartbeats": Kind(heartbeats.generate, heartbeats.play, heartbeats.replay),
}


@dataclass
class Tally:
    """The results of a campaign."""

    sequences: int = 0
    steps: int = 0
    # The steps that ran, by operation and type of the queue acted on ("" for none).
    played: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    # The replies: methods, with the reply code of errors.
    answered: collections.Counter[str] = field(default_factory=collections.Counter)
    reordered: int = 0
    # Programs that ended at an error which servers may meet at another point; see exclusions.
    cut: int = 0
    # Seeds of programs that ended at a race on the server.
    racing: list[int] = field(default_factory=list)
    # Seeds of programs that RabbitMQ does not always answer alike, and once as leveret does.
    by_chance: list[int] = field(default_factory=list)
    too_slow: list[int] = field(default_factory=list)
    differing: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a program."""
        self.sequences += 1
        self.steps += len(outcome.played)
        self.reordered += outcome.is_reordered
        self.cut += outcome.is_cut
        self.played.update((part.op, kind) for step, kind in outcome.played for part in step.parts)
        for answer in outcome.answers:
            for place, lines in answer.items():
                if place != "queues":
                    self.answered.update(map(_kind, lines))

    def merge(self, other: Tally) -> None:
        """Add another worker's counts."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, collections.Counter):
                mine.update(value)
            else:
                setattr(self, name, mine + value)

    def __str__(self) -> str:
        kinds = sorted({kind for _, kind in self.played})
        titles = [kind or "no queue" for kind in kinds]
        parts = [f"{self.sequences} sequences, {self.steps} steps played"]
        parts.append(f"  {'':24}" + "".join(f"{title:>10}" for title in titles))
        totals = [sum(count for (_, one), count in self.played.items() if one == kind) for kind in kinds]
        for op in sorted({op for op, _ in self.played}):
            parts.append(f"  {op:24}" + "".join(f"{self.played[op, kind]:10}" for kind in kinds))
        parts.append(f"  {'all':24}" + "".join(f"{total:10}" for total in totals))
        parts += ["answers"]
        parts += [f"  {name:24}{count:10}" for name, count in self.answered.most_common()]
        parts += [
            f"order between queues differed in {self.reordered}",
            f"cut short at an error: {self.cut}",
            f"ended in a race: {self.racing}",
            f"answered by chance (once as leveret): {self.by_chance}",
            f"too slow for their TTLs: {self.too_slow}",
            f"DIFFERENT: {self.differing}",
        ]
        return "\n".join(parts)


def _kind(line: str) -> str:
    """Return the part of a line that is counted: its method, and the code of an error."""
    method = line.split(" ", 1)[0]
    code = re.search(r"reply_code=(\d+)", line)
    return f"{method} {code[1]}" if code else method


def campaign(
    kind: str, version: str, url: str, seeds: list[int], length: int, *, is_shrinking: bool = True
) -> Iterator[Tally]:
    """Run the programs of these seeds; yield a tally after each."""
    with target.oracle(url, version) as endpoint:
        for seed in seeds:
            tally = Tally()
            _play_seed(KINDS[kind], seed, length, endpoint, tally, is_shrinking)
            yield tally


def record(kind: str, version: str, url: str, seeds: list[int], length: int) -> Iterator[Recording]:
    """Yield the server's answers to the programs of these seeds; skip programs whose outcome is uncertain."""
    with target.oracle(url, version) as endpoint:
        for seed in seeds:
            program = KINDS[kind].generate(seed, length)
            outcome = KINDS[kind].play(program, endpoint, version, REST_SECONDS)
            is_certain = not outcome.is_too_slow and not outcome.is_reordered
            if outcome.difference is None and is_certain:
                yield Recording(seed, program, outcome.answers, kind)
            else:
                print(f"seed {seed}: not recorded")


def _play_seed(kind: Kind, seed: int, length: int, endpoint: target.Endpoint, tally: Tally, is_shrinking: bool) -> None:
    program = kind.generate(seed, length)
    outcome = kind.play(program, endpoint, endpoint.version, REST_SECONDS)
    tally.add(outcome)
    if outcome.is_too_slow:
        tally.too_slow.append(seed)
    if outcome.race is not None:
        tally.racing.append(seed)
        print(f"seed {seed}: a race\n{explain(outcome.race)}", flush=True)
    if outcome.difference is None:
        return
    again = [kind.play(program, endpoint, endpoint.version, REST_SECONDS) for _ in range(REPEATS)]
    if any(it.difference is None for it in again):
        tally.by_chance.append(seed)
        print(f"seed {seed}: by chance\n{explain(outcome.difference)}", flush=True)
        return
    tally.differing.append(seed)
    report(kind, seed, program, endpoint, outcome.difference, is_shrinking)


def report(
    kind: Kind, seed: int, program: Program, endpoint: target.Endpoint, first: Difference, is_shrinking: bool
) -> None:
    """Shrink and print a program that differs."""

    def outcome(candidate: Program) -> Outcome:
        return kind.play(candidate, endpoint, endpoint.version, _SHRINKING_REST_SECONDS)

    def differs(candidate: Program) -> bool:
        return all(outcome(candidate).difference for _ in range(2))

    smallest = shrink(program, differs) if is_shrinking else program
    difference = outcome(smallest).difference
    note = "" if difference else "\n  (it did not differ when played once more; this is the whole program's difference)"
    print(f"seed {seed}: DIFFERENT\n{text(smallest)}{note}\n{explain(difference or first)}", flush=True)


def explain(difference: Difference) -> str:
    """Return the step and both answers as text."""
    lines = [f"  at answer {difference.index}: step{difference.step}"]
    for place in sorted({*difference.expected, *difference.got}):
        ours, theirs = difference.expected.get(place, []), difference.got.get(place, [])
        if ours != theirs:
            lines += [f"  {place} leveret:  {json.dumps(line)}" for line in ours]
            lines += [f"  {place} RabbitMQ: {json.dumps(line)}" for line in theirs]
    return "\n".join(lines)
