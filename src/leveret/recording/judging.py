"""The judgement of a replay: its outcomes against those that the old code had, from a file in git or from another run.

`orders.expected` has a line of JSON for each kind of message: for each spot of its outcomes, how often which value
came, and in which messages, unless it is the most frequent one. Values of fields are in it only if they are one of a
few words; all others are digests, which have no key. Names of fields are in it unless they have the form of data. A
spot in which two runs of the same code differ is noise: it is named in the file, and compared no more.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from leveret.errors import BrokerError
from leveret.recording.outcomes import (
    ARRIVED,
    ENDED,
    ENDLESS,
    ERROR,
    FIELD,
    HELD,
    ITEM,
    LEFT,
    OF_ALL,
    SENT,
    TOGETHER,
    OutcomeWatcher,
    digest_of,
    kind_of,
    type_of_text,
)
from leveret.story.facts import CountedFact, Facts, noise_of
from leveret.trace.shapes import may_list
from leveret.wording import count_text, listed

if TYPE_CHECKING:
    from leveret.recording.rec_file import RecordedMessage, RecordingFile

VARIABLE: Final = "LEVERET_EXPECTED"
_MODES: Final = ("check", "write", "again")
_FORMAT: Final = "leveret expected outcomes"
# How many values of a spot are listed, how long the list of messages of one may be, and in how many parts the messages
# are digested if there are more.
_VALUES_MAX: Final = 8
_NUMBERS_MAX: Final = 4_000
_BLOCKS: Final = 16
_SENTENCES_MAX: Final = 40
# The properties whose values are no data.
_PUBLIC: Final = frozenset(f"properties.{name}" for name in ("content_type", "delivery_mode", "priority"))
# A place in the message that came. A name with other characters may be a datum.
_PLACE: Final = re.compile(
    r"\{(?:body|headers|properties)(?:[\w.\[\]$@:/-]|\{\w+\})*\}(?: as an?(?:other)? \w+)?(?: \(\w+\))?"
)
Json = dict[str, Any]


@dataclass(slots=True)
class Spread:
    """The values of one spot over the messages of a kind."""

    digest: str
    # How many messages have a value.
    count: int
    # The digests of the parts of the messages, in order.
    blocks: list[str]
    # The value of each message that has one, by its number; None if it is not known.
    values: dict[int, str] | None
    # The types of these values, as far as they are known.
    types: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[int, str], numbers: list[int]) -> Spread:
        """Return the spread of these values; `numbers` are those of all messages of the kind."""
        lines = [f"{number} {values.get(number, '')}" for number in numbers]
        blocks = [digest_of(lines[start:end])[:4] for start, end in _parts(len(numbers))]
        types = tuple(sorted(set(map(type_of_text, values.values()))))
        return cls(digest_of(lines), len(values), blocks, dict(values), types)

    def json(self, spot: CountedFact, numbers: list[int]) -> Json:
        """Return it as a file has it: values of customers only as digests."""
        assert self.values is not None
        by_value: dict[str, list[int]] = defaultdict(list)
        for number in numbers:
            by_value[self.values.get(number, "")].append(number)
        line: Json = {"digest": self.digest, "count": self.count}
        if len(by_value) <= _VALUES_MAX and all(_is_public(spot, value) for value in by_value):
            most = max(by_value, key=lambda value: len(by_value[value]))
            listed = {value: "" if value == most else _ranges(found) for value, found in by_value.items()}
            if all(len(text) <= _NUMBERS_MAX for text in listed.values()):
                counted = {value: [len(found), listed[value]] for value, found in sorted(by_value.items())}
                return line | {"values": counted}
        return line | {"blocks": "".join(self.blocks), "types": self.types}

    @classmethod
    def read(cls, line: Json, numbers: list[int]) -> Spread:
        """Return the spread of a file."""
        blocks = str(line.get("blocks", ""))
        pieces = [blocks[at : at + 4] for at in range(0, len(blocks), 4)]
        if "values" not in line:
            return cls(line["digest"], line["count"], pieces, None, tuple(line.get("types", ())))
        most = next(value for value, (_, text) in line["values"].items() if not text)
        values = dict.fromkeys(numbers, most)
        for value, (_, text) in line["values"].items():
            values.update(dict.fromkeys(_numbers(text), value))
        return cls(line["digest"], line["count"], pieces, {number: value for number, value in values.items() if value})


class Change(NamedTuple):
    """What is different in one spot: the value before and now, in which messages, and whether these are certain."""

    spot: CountedFact
    before: str | None
    now: str
    numbers: tuple[int, ...]
    # At least how many messages, and the last number at which the first of them may be, if that is not certain.
    least: int = 0
    until: int = 0
    # The only type that the values have now and had before, if these differ.
    types: tuple[str, str] | None = None


Kinds = dict[str, dict[CountedFact, Spread]]


class Outcomes:
    """What became of the messages of a replay."""

    def __init__(
        self,
        file: RecordingFile,
        kinds: Mapping[int, str],
        sent: Iterable[RecordedMessage],
        watcher: OutcomeWatcher,
    ) -> None:
        """`kinds` are those of what was published, by its numbers, and `sent` is what the recorded service had sent."""
        self._file: Final = file
        self._count: Final = len(kinds)
        self._recorded: Final = Counter(map(kind_of, sent))
        self._sent: Final = watcher.sent_counts
        outcomes = watcher.outcomes()
        self._outcomes: Final = outcomes
        # Where it is not certain for which message something was sent: there, all messages are judged together.
        self._uncertain: Final = watcher.uncertain
        self._numbers: Final[dict[str, list[int]]] = defaultdict(list)
        for number, kind in {**kinds, 0: OF_ALL}.items():
            self._numbers[kind].append(number)
        self._kinds: Final[Kinds] = {}
        for kind, numbers in self._numbers.items():
            spots = dict.fromkeys(spot for number in numbers for spot in outcomes.get(number, {}))
            self._kinds[kind] = {
                spot: Spread.of({it: outcomes[it][spot] for it in numbers if spot in outcomes.get(it, {})}, numbers)
                for spot in spots
            }

    def __repr__(self) -> str:
        return f"<Outcomes of {count_text(len(self._outcomes), 'message')}: {self.digest}>"

    @property
    def digest(self) -> str:
        """A short text that is the same for the same outcomes: how each message ended, and what was sent for all."""
        lines = [(kind, spot, it) for kind, spots in self._kinds.items() for spot, it in spots.items()]
        return digest_of(
            f"{kind} {spot} {it.digest}" for kind, spot, it in lines if kind == OF_ALL or spot.what == ENDED
        )

    def of(self, number: int) -> list[str]:
        """Return the outcome of the message with this number in the recording, as lines."""
        outcome = self._outcomes.get(number)
        if outcome is None:
            raise BrokerError(f"of({number}): message #{number} was not replayed")
        return sorted(f"{spot.what} {spot.where} {spot.path}".strip() + f": {value}" for spot, value in outcome.items())

    def differences(self, before: Outcomes) -> list[str]:
        """Return in what these outcomes differ from those of an earlier replay of the same messages, as sentences."""
        if self._numbers != before._numbers:
            raise BrokerError("differences(): the other outcomes are those of other messages")
        return self._sentences(before._kinds, set(), before._uncertain | self._uncertain)

    def assert_as_recorded(self) -> None:
        """Assert that the code sent what the service of the recording had sent: how many of each kind to each key.

        Raises BrokerError if the recording does not hold that, because it was not made with the firehose.
        """
        __tracebackhide__ = True
        file = self._file
        if not file.facts.get("firehose"):
            raise BrokerError(
                f"{file.path} does not hold what the service sent; record it with --firehose --queue NAME"
            )
        then, now = self._recorded, self._sent
        lines = [
            f"sends {where} {count_text(now[where], 'time')}, and {count_text(then[where], 'time')} in the recording"
            for where in sorted({**then, **now})
            if then[where] != now[where]
        ]
        if lines:
            raise AssertionError("\n".join([f"the code under test sends something else than in {file.path}:", *lines]))

    def assert_expected(self, path: str | PathLike[str]) -> None:
        """Assert that the outcomes are those in a file, which the code in production wrote.

        The environment variable LEVERET_EXPECTED says what to do with the file: check it (the default), `write` it, or
        compare it `again` with the same code, and mask what differs from run to run.

        Raises AssertionError with a sentence for each kind of difference, and BrokerError if the file does not belong
        to this replay.
        """
        __tracebackhide__ = True
        name, mode = fspath(path), os.environ.get(VARIABLE, "check")
        if mode not in _MODES:
            raise BrokerError(f"{VARIABLE}={mode} is unknown; expected one of {', '.join(_MODES)}")
        if mode == "write":
            self._write(name, {})
            return
        kinds, noise, uncertain = self._read(name)
        if mode == "again":
            runs = [_facts_of(kinds), _facts_of(self._kinds)]
            found = {(fact.where, fact.path) for fact in noise_of(runs)}
            for kind, key in found:
                noise.setdefault(kind, set()).add(_spot(key))
            self._write(name, noise)
            return
        masked = {(kind, spot) for kind, spots in noise.items() for spot in spots}
        uncertain |= self._uncertain
        sentences = self._sentences(kinds, masked, uncertain)
        if sentences:
            hidden = sorted(
                {
                    f"{spot.path or spot.what} of {spot.where}"
                    for kind, spot in masked
                    if _is_judged(kind, spot, uncertain)
                }
            )
            note = [f"not compared, because two runs of the old code differed: {listed(hidden)}"] if hidden else []
            hint = f"if that is intended, write the file anew: {VARIABLE}=write"
            raise AssertionError("\n".join([f"the outcomes are not those in {name}:", *sentences, *note, hint]))

    def _write(self, path: str, noise: Mapping[str, set[CountedFact]]) -> None:
        head = {"format": _FORMAT, "recording": self._file.digest, "messages": self._count}
        head["uncertain"] = sorted(self._uncertain)
        lines: list[Json] = [head]
        for kind in sorted(self._kinds):
            numbers = self._numbers[kind]
            line: Json = {"kind": kind, "messages": len(numbers)}
            for spot in sorted(self._kinds[kind]):
                below = line.setdefault(spot.what, {}).setdefault(spot.where, {})
                if spot not in noise.get(kind, ()):
                    below[spot.path] = self._kinds[kind][spot].json(spot, numbers)
            lines.append(line | {"noise": [_key(spot) for spot in sorted(noise.get(kind, ()))]})
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)

    def _read(self, path: str) -> tuple[Kinds, dict[str, set[CountedFact]], set[str]]:
        """Return what a file expects, the noise of each kind, and where the cause of what is sent is not certain."""
        try:
            with open(path, encoding="utf-8") as file:
                head, *lines = [json.loads(line) for line in file]
            uncertain = head["uncertain"]
            kinds: Kinds = {}
            noise: dict[str, set[CountedFact]] = {}
            for line in lines:
                kind = line["kind"]
                noise[kind] = set(map(_spot, line["noise"]))
                kinds[kind] = {
                    CountedFact(what, where, path_of): Spread.read(spread, self._numbers.get(kind, []))
                    for what in (ENDED, ARRIVED, SENT, FIELD, ERROR)
                    for where, paths in line.get(what, {}).items()
                    for path_of, spread in paths.items()
                }
        except FileNotFoundError:
            raise BrokerError(
                f"{path} does not exist; write it with the code in production: {VARIABLE}=write"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            raise BrokerError(f"{path} holds no outcomes, or is damaged; write it anew: {VARIABLE}=write") from None
        given = self._file.digest, self._count
        if (head.get("recording"), head.get("messages")) == given and kinds.keys() != self._numbers.keys():
            raise BrokerError(
                f"{path} has other kinds of messages than this test replays, or is damaged; write it anew: "
                f"{VARIABLE}=write"
            )
        if (head.get("recording"), head.get("messages")) != given:
            raise BrokerError(
                f"{path} is that of another recording, or of {head.get('messages')} of its messages, and this test "
                f"replays {given[1]}; write it anew: {VARIABLE}=write"
            )
        return kinds, noise, set(uncertain)

    def _sentences(self, before: Kinds, masked: set[tuple[str, CountedFact]], uncertain: set[str]) -> list[str]:
        changes: dict[tuple[str, Change], None] = {}
        for kind, numbers in self._numbers.items():
            old, new = before.get(kind, {}), self._kinds[kind]
            for change in _changes(old, new, numbers, {it for k, it in masked if k == kind}):
                if _is_judged(kind, change.spot, uncertain):
                    changes[kind, change] = None
        sentences = [_sentence(kind, alike) for kind, alike in _grouped(_without_consequences(changes))]
        more = len(sentences) - _SENTENCES_MAX
        return sentences[:_SENTENCES_MAX] + ([f"and {more} more"] if more > 0 else [])


def _is_judged(kind: str, spot: CountedFact, uncertain: set[str]) -> bool:
    """Return whether a spot is compared here: of what was sent, either each message is judged or all together."""
    is_of_all = spot.where in uncertain or spot.what not in (SENT, FIELD)
    return spot.what == ENDED or is_of_all == (kind == OF_ALL)


def _key(spot: CountedFact) -> str:
    return json.dumps([spot.what, spot.where, spot.path], ensure_ascii=False)


def _spot(key: str) -> CountedFact:
    return CountedFact(*json.loads(key))


def _facts_of(kinds: Kinds) -> Facts:
    """Return the spots of each kind, each with what its values have as a digest."""
    return Facts(
        CountedFact("spot", kind, _key(spot), it.digest) for kind, spots in kinds.items() for spot, it in spots.items()
    )


def _changes(
    before: dict[CountedFact, Spread], now: dict[CountedFact, Spread], numbers: list[int], masked: set[CountedFact]
) -> Iterator[Change]:
    """Yield what is different in each spot of the messages with these numbers."""
    absent = Spread.of({}, numbers)
    for spot in sorted({**before, **now}):
        old, new = before.get(spot, absent), now.get(spot, absent)
        if spot in masked or old.digest == new.digest:
            continue
        assert new.values is not None
        types = None
        if len(new.types) == len(old.types) == 1 and new.types != old.types and all(new.types + old.types):
            types = new.types[0], old.types[0]
        if old.values is None:
            places = [
                part
                for part, one, other in zip(_parts(len(numbers)), old.blocks, new.blocks, strict=True)
                if one != other
            ] or [(0, len(numbers))]
            first, end = numbers[places[0][0]], numbers[places[0][1] - 1]
            within = tuple(number for start, stop in places for number in numbers[start:stop])
            until = end if end != first else 0
            yield Change(spot, None, "other" if new.values else "", within, len(places), until, types)
            continue
        pairs: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number in numbers:
            pair = old.values.get(number, ""), new.values.get(number, "")
            if pair[0] != pair[1]:
                pairs[pair].append(number)
        for (one, other), found in pairs.items():
            yield Change(spot, one, other, tuple(found), types=types)


def _without_consequences(changes: Iterable[tuple[str, Change]]) -> Iterator[tuple[str, Change]]:
    """Yield changes, but not what follows from others.

    Of a message that is no longer sent, or sent anew, these are its fields and arrivals. If a client keeps a message or
    gives it back, what it sends for it is another matter, and so are the messages that it then never takes.
    """
    kept = _without_untaken(list(changes))
    moved: dict[str, set[int]] = defaultdict(set)
    changed: dict[str, set[int]] = defaultdict(set)
    for _, change in kept:
        if change.spot.what == SENT:
            moved[change.spot.where].update(change.numbers)
        elif change.spot.what == FIELD and change.spot.path != TOGETHER:
            changed[change.spot.where].update(change.numbers)
            changed[f"{change.spot.where} {ITEM}{change.spot.path}"].update(change.numbers)
    for kind, change in kept:
        caused = moved[change.spot.where] if change.spot.what == FIELD else set[int]()
        if change.spot.path == TOGETHER:
            # If a value changed, so did what it stands with.
            caused = caused | changed[change.spot.where]
        elif change.spot.path.startswith(ITEM):
            caused = caused | changed[f"{change.spot.where} {change.spot.path}"]
        left = tuple(number for number in change.numbers if number not in caused)
        is_caused = change.spot.what == ARRIVED and any(moved.values())
        if not is_caused and (left == change.numbers or (left and change.before is not None)):
            yield kind, change._replace(numbers=left)


def _without_untaken(changes: list[tuple[str, Change]]) -> list[tuple[str, Change]]:
    ended = [it for _, it in changes if it.spot.what == ENDED]
    untaken = {number for it in ended if it.now == LEFT for number in it.numbers}
    disturbed = {number for it in ended if HELD in it.now or "requeued" in it.now for number in it.numbers}
    if disturbed or any(it.spot.what == ERROR and it.now for _, it in changes):
        changes = [(kind, it) for kind, it in changes if it.spot.what != ENDED or it.now != LEFT]
    lost = untaken | disturbed | ({0} if untaken or disturbed else set())
    found = []
    for kind, it in changes:
        left = tuple(number for number in it.numbers if number not in lost)
        if it.spot.what in (ENDED, ERROR):
            found.append((kind, it))
        elif it.least and len(it.numbers) - len(left) < it.least:
            # Which messages differ is not known, but these are not all of them.
            found.append((kind, it))
        elif left and not it.least:
            found.append((kind, it._replace(numbers=left)))
    return found


def _grouped(changes: Iterable[tuple[str, Change]]) -> list[tuple[str, list[Change]]]:
    """Return the changes that one sentence says, most frequent first: of fields, those that changed in the same way."""
    groups: dict[tuple[object, ...], list[tuple[str, Change]]] = defaultdict(list)
    for kind, change in changes:
        if change.spot.what == FIELD:
            how = "gone" if not change.now else "new" if change.before == "" else "other"
            how = TOGETHER if change.spot.path == TOGETHER else how
            groups[kind, change.spot.where, how].append((kind, change))
        else:
            # However it ended before, it is one change if it all ends alike now.
            how = "requeued" if change.now.startswith("requeued") else change.now
            groups[kind, change.spot, not change.before, how].append((kind, change))
    found = [(group[0][0], [change for _, change in group]) for group in groups.values()]
    return sorted(found, key=lambda it: (min(it[1][0].numbers), it[1][0].spot))


def _sentence(kind: str, changes: list[Change]) -> str:
    by_path: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_path[change.spot.path].append(change)
    times = {path: _times(of_path) for path, of_path in sorted(by_path.items())}
    if len(set(times.values())) == 1:
        return f"{kind}: {_clause(changes, list(times))} ({_times(changes)})"
    return f"{kind}: {_clause(changes, [f'{path} ({when})' for path, when in times.items()])}"


def _times(changes: list[Change]) -> str:
    """Return how often something changed, and in which message first, as far as that is certain."""
    numbers = sorted({number for change in changes for number in change.numbers})
    uncertain = [change for change in changes if change.least]
    if uncertain and len(uncertain) == len(changes):
        first = uncertain[0]
        until = f"between #{numbers[0]} and #{first.until}" if first.until else f"#{numbers[0]}"
        return f"at least {count_text(max(it.least for it in uncertain), 'time')}, the first {until}"
    return f"{count_text(len(numbers), 'time')}, first #{numbers[0]}" if numbers[0] else "of all"


def _clause(changes: list[Change], all_paths: list[str]) -> str:
    (what, where, *_), before, now = changes[0].spot, changes[0].before, changes[0].now
    befores = listed(list(dict.fromkeys(str(change.before) for change in changes)), "or")
    if what == FIELD:
        paths = listed(all_paths[:5])
        if all_paths[0] == TOGETHER:
            return f"sends {where} several times, with its values combined in another way"
        if not now:
            return f"no longer sends {paths} in {where}"
        if before == "":
            return f"now also sends {paths} in {where}"
        pairs = {(change.before, change.now) for change in changes}
        certain = len(pairs) == 1 and before is not None and now[:1] != "#" and len(before) + len(now) < 120
        if certain:
            return f"sends {now} as {paths} in {where}, not {before}"
        types = {change.types for change in changes}
        if len(types) == 1 and (both := types.pop()) is not None:
            return f"sends {paths} as {both[0]} in {where}, not as {both[1]}"
        return f"sends another {paths} in {where}"
    if what == SENT:
        if not before or not now:
            how = f" {now}" if now == ENDLESS else ""
            return f"now sends {where}{how}" if now else f"no longer sends {where}"
        return f"sends {where} {now}, not {befores}"
    if what == ERROR:
        return f"{where} gets an error that it did not get: {now}" if now else f"{where} no longer gets: {before}"
    if not before or not now:
        subject = "what it sends " if what == ARRIVED else ""
        return (
            f"{subject}now reaches {where}: {now}" if now else f"{subject}no longer reaches {where} ({befores} there)"
        )
    subject = "what it sends is " if what == ARRIVED else ""
    nows = list(dict.fromkeys(change.now for change in changes))
    return f"{subject}in {where} now {listed(nows[:2], 'or')}{' or the like' * (len(nows) > 2)}, no longer {befores}"


def _is_public(spot: CountedFact, value: str) -> bool:
    """Return whether a value may stand in a file: it is no datum of a message."""
    if (
        spot.what != FIELD
        or spot.path in _PUBLIC
        or value in ("", "true", "false", "null", '"*"')
        or value[:1] == "#"
        or value[:3] == "now"
        or _PLACE.fullmatch(value)
    ):
        return True
    name = spot.path.rpartition(".")[2]
    return value[:1] == '"' and may_list(name, value[1:-1])


def _parts(count: int) -> list[tuple[int, int]]:
    """Return the beginnings and ends of at most `_BLOCKS` parts of a sequence, none of them empty."""
    edges = sorted({round(count * at / _BLOCKS) for at in range(_BLOCKS + 1)})
    return list(pairwise(edges))


def _ranges(numbers: list[int]) -> str:
    """Return rising numbers as text: "1-3,7"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _numbers(text: str) -> Iterator[int]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
