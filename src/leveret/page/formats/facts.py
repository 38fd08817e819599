"""The facts of a failed test as JSON, beside its page: what a program reads instead of the page.

docs/reference/page-json.md has the schema. It holds what the failure is about, and of other messages only the latest.
"""

from __future__ import annotations

import json
from typing import Any, Final

from leveret.page.story import Story

FORMAT: Final = 1
# Of a larger test, the messages of its causes and of its failure come first, then the latest.
_MESSAGES_MAX: Final = 100
_OF_EVENT: Final = ("t", "wall", "kind", "text", "channel", "line")
_OF_QUEUE: Final = ("name", "vhost", "type", "durable", "arguments", "policy", "policy_keys", "deleted", "deleted_by")
_LEFT_OUT: Final = ("colour", "copies", "events")


def facts_of(story: Story, page: str = "") -> dict[str, Any]:
    """Return the facts of a story. `page` is the name of its page, which stands beside the file."""
    test = dict(story["test"])
    named = _named(story)
    rest = [message["number"] for message in reversed(story["messages"]) if message["number"] not in named]
    kept = {*named, *rest[: max(0, _MESSAGES_MAX - len(named))]}
    return {
        "format": FORMAT,
        "leveret": story["leveret"],
        "page": page,
        "test": {name: test[name] for name in ("id", "outcome", "phase", "seconds", "broker_seconds") if name in test},
        "error": test.get("error", {}).get("text"),
        "failed_at": test.get("failed_at"),
        "causes": [_cause(cause, story) for cause in story["causes"]],
        "noticed": [_cause(cause, story) for cause in story["noticed"]],
        "assertion": test.get("assertion"),
        "code": story.get("code"),
        "brokers": story["brokers"],
        "counts": {"events": len(story["events"]), "messages": len(story["messages"])},
        "messages": [_message(message, story) for message in story["messages"] if message["number"] in kept],
        # On a broker of several tests, an earlier one may have deleted others.
        "queues": [_queue(one, test.get("failed_at")) for one in story["queues"] if one.get("deleted_at", 0) >= 0],
    }


def written(facts: dict[str, Any]) -> str:
    """Return facts as text, in lines that a person can read too."""
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


def _named(story: Story) -> list[int]:
    of_causes = [number for cause in story["causes"] for number in cause["messages"]]
    return list(dict.fromkeys([*of_causes, *story["test"].get("error", {}).get("messages", ())]))[:_MESSAGES_MAX]


def _cause(cause: dict[str, Any], story: Story) -> dict[str, Any]:
    evidence = [_event(story["events"][index]) for index in cause["events"]]
    return {name: value for name, value in cause.items() if name not in ("events", "rank")} | {"evidence": evidence}


def _event(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("i", *_OF_EVENT) if name in event}


def _message(message: dict[str, Any], story: Story) -> dict[str, Any]:
    life = [_event(story["events"][index]) for index in message["events"]]
    return {name: value for name, value in message.items() if name not in _LEFT_OUT} | {"life": life}


def _queue(queue: dict[str, Any], failed_at: dict[str, int] | None) -> dict[str, Any]:
    """Return a queue, and what it held when the test failed."""
    points = [point for point in queue["series"] if failed_at is None or (point[0] or 0) <= failed_at["t"]]
    held = dict(zip(("ready", "unacked", "consumers"), points[-1][2:] if points else (0, 0, 0), strict=True))
    broker = queue["lane"].partition("/")[0]
    shown: dict[str, Any] = {name: queue[name] for name in _OF_QUEUE if name in queue}
    if failed_at is not None and queue.get("deleted_at", 0) > failed_at["t"]:
        shown = {name: value for name, value in shown.items() if name not in ("deleted", "deleted_by")}
    return {"broker": broker, **shown, **held}
