"""From the runs in a warehouse to a lock: what their tests have shown, by the tables of the pipeline."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

from leveret.pipeline.reading import Read
from leveret.trace import events
from leveret.trace.events import Event
from leveret.trace.shapes import REPEATS_MIN, WORDS_MAX, client_pattern
from leveret.trace.shapes.file_shapes import ROOT
from pytest_leveret.contract.lock import PARTS, Lock, LockedConsumer, LockedMessage, MessageKey, shape_of, steps_of
from pytest_leveret.contract.observing import DECLARING, add_declared, is_of_monitoring, own_headers

_KIND: Final = ("vhost", "exchange", "routing_key", "name")
# What `type` in the table is besides a type.
_PRESENT: Final = "present"
_ABSENT: Final = "absent"
_WORD: Final = "word"
_PUBLISHED: Final = "published"


def infer(read: Read, runs: Collection[str]) -> Lock:
    """Return the lock of what these runs have shown. It has no messages if they have recorded no shapes."""
    lock = Lock()
    for key, rows in _by_kind(read("message_shapes", runs=runs).to_pylist()):
        lock.messages[key] = LockedMessage(shape=shape_of(_parts(rows)))
    for key, rows in _by_kind(read("run_clients", runs=runs).to_pylist()):
        message = lock.messages.setdefault(key, LockedMessage())
        for row in rows:
            place = (row["queue"] or "", row["client"])
            if row["action"] == _PUBLISHED:
                message.publishers.add(row["client"])
            elif not is_of_monitoring(place[0]):
                message.consumers.setdefault(place, LockedConsumer(*place)).settled.add(row["action"])
    _add_declared(lock, read, runs)
    return lock


def _by_kind(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[MessageKey, list[Mapping[str, Any]]]]:
    found: dict[MessageKey, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if not is_of_monitoring(row["exchange"], row["routing_key"]):
            found[MessageKey(*(row[name] or "" for name in _KIND))].append(row)
    return sorted(found.items())


def _parts(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the texts of the fields of a kind of message, by part and path, each after its parent."""
    fields: dict[str, dict[str, int]] = defaultdict(dict)
    words: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        if row["word"] is None:
            fields[row["field"]][row["type"]] = row["n"]
        else:
            words[row["field"]][row["word"]] = row["n"]
    headers = own_headers({steps_of(field)[1] for field in fields if field.startswith("headers.")})
    parts: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for field in sorted(fields, key=lambda field: len(steps_of(field))):
        part, path = field.split(".", 1)
        if part != "headers" or path == ROOT or steps_of(path)[0] in headers:
            parts[part][path] = _field_text(fields[field], words[field])
    return parts


def _field_text(types: Mapping[str, int], words: Mapping[str, int]) -> str:
    count, listed = types.get(_WORD, 0), sum(words.values())
    is_enumeration = count <= listed and len(words) <= WORDS_MAX and count - len(words) >= REPEATS_MIN
    word = f"enum({', '.join(sorted(words))})" if is_enumeration else _WORD
    others = [name for name in types if name not in (_WORD, _PRESENT, _ABSENT)]
    # A word among other texts is a text, which the order says.
    text = " | ".join([word, *others] if _WORD in types else others)
    return f"optional {text}" if _ABSENT in types else text


def _add_declared(lock: Lock, read: Read, runs: Collection[str]) -> None:
    columns = ("run", "worker", "seq", "kind", "vhost", "conn", "exchange", "routing_key", "queue", "attrs")
    rows = read("control", runs=runs, columns=columns, where={"kind": [events.CONN_OPEN, *DECLARING]}).to_pylist()
    # What each connection of a client declares. They count from one in each file.
    clients: dict[tuple[str, str, int], Lock] = {}
    for row in sorted(rows, key=lambda row: (row["run"], row["worker"], row["seq"])):
        attributes = json.loads(row["attrs"] or "{}")
        connection = (row["run"], row["worker"], row["conn"])
        if row["kind"] != events.CONN_OPEN and connection in clients:
            event = SimpleNamespace(**{"type": "", "arguments": {}, **row, **attributes})
            add_declared(cast("Event", event), clients[connection])
        elif row["kind"] == events.CONN_OPEN and client_pattern(attributes.get("client")) is not None:
            clients[connection] = Lock()
    for declared in clients.values():
        lock.merge(declared)
