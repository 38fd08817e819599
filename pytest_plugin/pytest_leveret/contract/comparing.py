"""The differences between two locks, and which of them can break a consumer.

A message breaks a consumer if it is not as the consumer's needs say. Without measured needs, a consumer needs what it
has received: a field that always came, and of each field the types, formats and values that came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from leveret.trace.shapes import ANY_KEY, Shape, field_path
from leveret.trace.shapes.file_shapes import ROOT
from pytest_leveret.contract.lock import (
    ANY,
    PARTS,
    Arguments,
    Declared,
    Lock,
    LockedConsumer,
    LockedMessage,
    MessageKey,
    field_shape,
    field_text,
)

# Properties that the broker reads, or that only say who has sent a message: no consumer takes them for its content.
_NOT_READ: Final = frozenset(
    f"properties.{name}"
    for name in ("app_id", "cluster_id", "delivery_mode", "expiration", "priority", "timestamp", "user_id")
)


@dataclass(frozen=True, slots=True)
class LockChange:
    """One difference."""

    # What it is about: a message, an exchange, a queue or a binding.
    subject: str
    # What has changed.
    text: str
    # What it breaks, a sentence each; none if it can break nothing.
    breaks: tuple[str, ...] = ()
    # Whether it is that the new one does not show something, which a part of the messages may not.
    is_absence: bool = False

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}" + "".join(f"; {reason}" for reason in self.breaks)


@dataclass(frozen=True, slots=True)
class _Step:
    """A difference between two shapes at one place."""

    part: str
    # The path of the field in its part; empty is the whole body.
    path: str
    text: str
    # The shape before, or None for a new field.
    old: Shape | None
    # The shape now, or None for a missing field.
    new: Shape | None
    # Whether messages lack the field that had it always.
    is_missing: bool = False
    is_harmless: bool = False
    is_absence: bool = False

    @property
    def place(self) -> str:
        """The field as `LockedMessage.fields` names it."""
        return f"{self.part}.{self.path or ROOT}"


def message_changes(
    key: MessageKey, old: LockedMessage, new: LockedMessage, *, consumers: Iterable[LockedConsumer] | None = None
) -> Iterator[LockChange]:
    """Yield the differences of what is sent now to what the `consumers` receive; they are those of `old` by default."""
    readers = [*(old.consumers.values() if consumers is None else consumers)]
    if not old.shape.count or not new.shape.count:
        return
    for part in PARTS:
        before, after = old.shape.fields.get(part), new.shape.fields.get(part)
        if before is not None and after is not None:
            for step in _steps(before, after, part, ""):
                yield _judged(str(key), step, readers)


def _judged(subject: str, step: _Step, readers: list[LockedConsumer]) -> LockChange:
    breaks = {} if step.place in _NOT_READ else dict.fromkeys(filter(None, (_broken(each, step) for each in readers)))
    return LockChange(subject, step.text, tuple(breaks), step.is_absence)


def _broken(consumer: LockedConsumer, step: _Step) -> str | None:
    """Return what a consumer needs and does not get; None if it gets that."""
    name = named_field(step.part, step.path)
    need = consumer.needs.get(step.place)
    if need is not None:
        accepted = field_shape(need)
        is_met = ANY in accepted.types or (
            not (step.is_missing and not accepted.may_lack)
            and (step.new is None or not any(_uncovered(accepted, step.new)))
        )
        return None if is_met else f"{consumer.client} reads {name} as {need}"
    if step.is_harmless or step.old is None:
        return None
    return f"{consumer.client} has received {name} as {field_text(step.old)}" + (
        " in every message" if step.is_missing else ""
    )


def _steps(old: Shape, new: Shape, part: str, path: str) -> Iterator[_Step]:
    """Yield the differences at one place and below it."""
    reasons = [*_uncovered(old, new)]
    if reasons:
        yield _Step(part, path, f"{named_field(part, path)} {' and '.join(reasons)}", old, new)
    elif field_text(old) != field_text(new):
        text = f"{named_field(part, path)} was {field_text(old)} and is {field_text(new)}"
        yield _Step(part, path, text, old, new, is_harmless=True, is_absence=True)
    if "object" in old.types and "object" in new.types:
        yield from _field_steps(old, new, part, path)
    if old.items is not None and new.items is not None:
        yield from _steps(old.items, new.items, part, f"{path}[]")


def _field_steps(old: Shape, new: Shape, part: str, path: str) -> Iterator[_Step]:
    for name, before in sorted(old.fields.items()):
        place = field_path(path, name)
        if name not in new.fields and not (new.is_map or old.is_map or name.startswith("{")):
            rarely = old.is_optional(name)
            text = f"{named_field(part, place)}{', which was optional,' if rarely else ''} is missing"
            yield _Step(part, place, text, before, None, is_missing=True, is_harmless=rarely, is_absence=rarely)
    for name, after in sorted(new.fields.items()):
        place = field_path(path, name)
        named, known = named_field(part, place), old.fields.get(ANY_KEY if old.is_map else name)
        if known is None:
            text = f"{named} is new: {field_text(after, is_optional=new.is_optional(name))}"
            yield _Step(part, place, text, None, after, is_harmless=True)
            continue
        if name in old.fields and new.is_optional(name) and not old.is_optional(name):
            yield _Step(part, place, f"{named} is missing in some messages", known, None, is_missing=True)
        elif name in old.fields and old.is_optional(name) and not new.is_optional(name):
            text = f"{named} is in every message"
            yield _Step(part, place, text, known, after, is_harmless=True, is_absence=True)
        yield from _steps(known, after, part, place)


def _uncovered(old: Shape, new: Shape) -> Iterator[str]:
    """Yield what the new values are that the old ones were not."""
    if ANY in old.types or ANY in new.types:
        # A document that says nothing of a field says nothing wrong.
        return
    for name in new.types:
        if name == "string":
            if "string" not in old.types:
                yield f"is {_text_of(new)}, and was {field_text(old) or 'unknown'}"
            elif more := _new_texts(old, new):
                yield more
        elif name == "null" and "null" not in old.types:
            yield "is null"
        elif name not in old.types and not (name == "integer" and "number" in old.types):
            yield f"is {name}, and was {field_text(old) or 'unknown'}"


def _new_texts(old: Shape, new: Shape) -> str | None:
    """Return what texts are that the old ones were not; None if they are alike."""
    if old.words is None and not old.forms:
        return None
    if old.forms:
        if new.forms and set(new.forms) <= set(old.forms):
            return None
        return f"is {_text_of(new)}, and was {' or '.join(old.forms)}"
    if not old.enumeration:
        # Too few texts came before.
        return None
    if new.words is None:
        return f"is {_text_of(new)}, and was {_text_of(old)}"
    more = sorted(new.words - set(old.enumeration))
    return f"is {', '.join(map(repr, more))}, and was one of {', '.join(old.enumeration)}" if more else None


def _text_of(shape: Shape) -> str:
    """Return the text of the texts among the values of a field."""
    return field_text(Shape(1, {"string": shape.types["string"]}, shape.formats, shape.words))


def named_field(part: str, path: str) -> str:
    """Return a place in a message as users call it: `total`, the header `tenant`, the property `type`, or the body."""
    if part == "body":
        return f"`{path}`" if path else "the body"
    return f"the {'header' if part == 'headers' else 'property'} `{path}`" if path else f"the {part}"


def lock_changes(old: Lock, new: Lock) -> Iterator[LockChange]:
    """Yield the differences of a new lock to an old one."""
    for key in sorted({**old.messages, **new.messages}):
        yield from _message_entry_changes(key, old.messages.get(key), new.messages.get(key))
    for kind, before, after in (("exchange", old.exchanges, new.exchanges), ("queue", old.queues, new.queues)):
        for place in sorted({**before, **after}):
            yield from _declared_changes(f"{kind} {place[1]!r}", before.get(place), after.get(place))
    yield from _binding_changes(old, new)


def _message_entry_changes(
    key: MessageKey, old: LockedMessage | None, new: LockedMessage | None
) -> Iterator[LockChange]:
    subject = str(key)
    if old is None:
        assert new is not None
        yield LockChange(subject, "is new" + ("" if new.consumers else "; no consumer reads it"))
        return
    if new is not None:
        yield from message_changes(key, old, new)
    if new is None or (old.publishers and not new.publishers):
        clients = dict.fromkeys(consumer.client for _, consumer in sorted(old.consumers.items()))
        breaks = tuple(f"{client} receives it" for client in clients)
        yield LockChange(subject, "is no longer sent", breaks, is_absence=True)
    if new is None:
        return
    if old.publishers and new.publishers:
        for name in sorted(new.publishers - old.publishers):
            yield LockChange(subject, f"{name} sends it")
        for name in sorted(old.publishers - new.publishers):
            yield LockChange(subject, f"{name} no longer sends it", is_absence=True)
    for place, consumer in sorted(new.consumers.items()):
        before = old.consumers.get(place)
        if before is None:
            yield LockChange(subject, f"{consumer.client} reads it from {consumer.queue!r}")
        elif more := consumer.settled - before.settled:
            yield LockChange(subject, f"{consumer.client} has {' and '.join(sorted(more))} it")
    for queue, client in sorted({*old.consumers} - {*new.consumers}):
        yield LockChange(subject, f"{client} no longer reads it from {queue!r}", is_absence=True)


def _declared_changes(subject: str, old: Declared | None, new: Declared | None) -> Iterator[LockChange]:
    if old is None:
        yield LockChange(subject, "is new")
    elif new is None:
        yield LockChange(subject, "is no longer declared", is_absence=True)
    else:
        # A server that has it declared refuses another declaration.
        refused = ("RabbitMQ refuses to declare it anew",)
        if (more := new.types - old.types) and old.types:
            yield LockChange(
                subject, f"has the type {' and '.join(sorted(more))}, and had {_either(old.types)}", refused
            )
        # A document does not say which arguments there are.
        for arguments in sorted(new.arguments - old.arguments, key=repr) if old.arguments else ():
            same = set(arguments).intersection(*old.arguments)
            before = _either(_arguments_text(each, same) for each in old.arguments)
            yield LockChange(subject, f"has {_arguments_text(arguments, same)}, and had {before}", refused)
        if (old.types - new.types or old.arguments - new.arguments) and new.arguments <= old.arguments:
            yield LockChange(subject, "is declared in fewer ways", is_absence=True)


def _either(texts: Iterable[str]) -> str:
    return " or ".join(sorted(texts))


def _arguments_text(arguments: Arguments, same: Collection[tuple[str, object]]) -> str:
    """Return arguments as text, without those that all compared declarations have."""
    others = [f"{each[0]} = {each[1]!r}" for each in arguments if each not in same]
    return ", ".join(others) or ("no others" if same else "no arguments")


def _binding_changes(old: Lock, new: Lock) -> Iterator[LockChange]:
    for binding in sorted(new.bindings ^ old.bindings):
        subject = (
            f"binding of {binding.exchange!r} to {binding.kind} {binding.destination!r} by {binding.routing_key!r}"
        )
        if binding in new.bindings:
            yield LockChange(subject, "is new")
        else:
            clients = {
                consumer.client: None
                for key, message in sorted(old.messages.items())
                for consumer in message.consumers.values()
                if consumer.queue == binding.destination and key.vhost == binding.vhost
            }
            breaks = tuple(f"{client} receives messages from there" for client in clients)
            yield LockChange(subject, "is gone", breaks, is_absence=True)
