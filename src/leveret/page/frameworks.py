"""Messages of frameworks read for what they are: Celery, taskiq, dramatiq, FastStream, nameko and kombu's mailboxes.

A framework is recognised by the headers, properties and bodies that its releases write, and by nothing a user chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from leveret.trace.events import task_of

Pairs = list[list[str]]

_CELERY: Final = (
    "id",
    "root_id",
    "parent_id",
    "argsrepr",
    "kwargsrepr",
    "retries",
    "eta",
    "expires",
    "group",
    "origin",
)
_DRAMATIQ: Final = ("actor_name", "queue_name", "args", "kwargs", "options", "message_id")
_FASTSTREAM: Final = "faststream"
_EVENTS_OF_CELERY: Final = ("celeryev", "celery.ev")
_MAILBOX: Final = (".pidbox", ".reply.celery.pidbox")


class Framework(NamedTuple):
    """What a framework says in one message: its name, the message in short, and the facts in order."""

    name: str
    label: str
    summary: Pairs


def framework_of(
    exchange: str, headers: Mapping[str, Any], properties: Mapping[str, Any], body: object
) -> Framework | None:
    """Return the framework that published a message, or None. `body` is its JSON, or None."""
    task = task_of(headers)
    if "task" in headers and "id" in headers:
        return Framework("Celery", str(task), [["task", str(task)], *_known(headers, _CELERY)])
    if "task_name" in headers:
        labels = {name: value for name, value in headers.items() if name != "task_name"}
        return Framework("taskiq", str(task), [["task", str(task)], *_known(labels, tuple(labels))])
    fields = body if isinstance(body, Mapping) else {}
    if "actor_name" in fields and "queue_name" in fields and "message_id" in fields:
        return Framework("dramatiq", str(fields["actor_name"]), _known(fields, _DRAMATIQ))
    if "nameko.call_id_stack" in headers:
        stack = headers["nameko.call_id_stack"]
        calls = stack if isinstance(stack, list) else [stack]
        return Framework("nameko", str(calls[-1] if calls else ""), [["calls", " > ".join(map(str, calls))]])
    if exchange in _EVENTS_OF_CELERY and "type" in fields:
        return Framework("Celery", str(fields["type"]), _known(fields, ("type", "hostname", "uuid", "name")))
    if exchange.endswith(_MAILBOX) and "method" in fields:
        return Framework("kombu", str(fields["method"]), _known(fields, ("method", "arguments", "destination")))
    if str(properties.get("app_id", "")).startswith(_FASTSTREAM):
        summary = _known(properties, ("app_id", "correlation_id", "reply_to", "content_type", "message_id"))
        return Framework("FastStream", "", summary)
    return None


def _known(values: Mapping[str, Any], names: tuple[str, ...]) -> Pairs:
    return [[name, str(values[name])] for name in names if values.get(name) not in (None, "", [], {})]
