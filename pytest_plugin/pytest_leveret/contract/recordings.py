"""Whether a recording still is what the contract says: the fields of its messages against those of a lock.

Fields that the recorder has dropped are not compared, and a hashed value has kept its format.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import cast

from leveret.recording.privacy import FieldRule, rule_of
from leveret.recording.rec_file import RecordingFile
from leveret.trace.events import TracedMessage
from leveret.trace.shapes import Shape, add_message, message_name
from pytest_leveret.contract.comparing import message_changes
from pytest_leveret.contract.lock import Lock, LockedMessage, MessageKey
from pytest_leveret.contract.observing import name_pattern, own_properties


def stale_fields(file: RecordingFile, lock: Lock) -> Iterator[str]:
    """Yield in what the messages of a recording are not those of a lock, a sentence for each kind or field."""
    rules = [rule_of(text, is_hashed=False) for text in file.facts.get("dropped", ())]
    present: dict[MessageKey, LockedMessage] = {}
    for key, message in lock.messages.items():
        present.setdefault(_plain(key), LockedMessage()).merge(message)
    for key, recorded in sorted(_recorded(file).items()):
        if key not in present:
            yield f"{key}: the contract has no such message"
            continue
        now = deepcopy(present[key])
        _drop(now.shape, rules, ())
        changes = message_changes(key, now, recorded, consumers=())
        yield from (str(change) for change in changes if not change.is_absence)


def _recorded(file: RecordingFile) -> dict[MessageKey, LockedMessage]:
    found: dict[MessageKey, LockedMessage] = {}
    for message in file.messages:
        if message.queue is None:
            properties = own_properties(cast("TracedMessage", message))
            place = name_pattern(message.exchange), name_pattern(message.routing_key)
            key = MessageKey("/", *place, message_name(message.body, properties))
            add_message(found.setdefault(key, LockedMessage()).shape, message.body, properties)
    return found


def _plain(key: MessageKey) -> MessageKey:
    return key._replace(vhost="/", headers="")


def _drop(shape: Shape, rules: list[FieldRule], path: tuple[str, ...]) -> None:
    """Take the fields out of a shape that the recorder has taken out of messages."""
    for name, inner in list(shape.fields.items()):
        if any(rule.takes((*path, name)) for rule in rules):
            del shape.fields[name]
        else:
            _drop(inner, rules, (*path, name))
    if shape.items is not None:
        _drop(shape.items, rules, (*path, "[]"))
