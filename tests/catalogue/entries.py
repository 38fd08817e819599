"""The services of the catalogue: each is a test file with a bug, and the same with its mended twin.

They are those on which the finders were built, a few of each corpus, and some whose bug is in their messages. No entry
says which finder it is for: every finder gets the same files.
"""

from __future__ import annotations

from textwrap import dedent
from typing import NamedTuple

from tests.catalogue.messages import MESSAGES
from tests.causes.bugs import BUGS

_CRASH = """
from tests.explore.crashes.{module} import {name}


def test_it(leveret, tmp_path):
    {name}.is_right({name}.{service}, leveret, tmp_path)
"""
_FLAKY = """
from tests.flaky.{module} import test_{name}_{service} as test_it
"""


class Entry(NamedTuple):
    """A service with a bug: what goes wrong, and the texts of its test files. A bug of a plain test has no twin."""

    what: str
    bug: str
    twin: str | None = None


def _crash(what: str, name: str, module: str = "connections") -> Entry:
    bug, twin = (_CRASH.format(module=module, name=name, service=service) for service in ("bug", "twin"))
    return Entry(what, bug, twin)


def _flaky(what: str, name: str, module: str = "patterns") -> Entry:
    bug, twin = (_FLAKY.format(module=module, name=name, service=service) for service in ("flaky", "mended"))
    return Entry(what, bug, twin)


ENTRIES: tuple[Entry, ...] = (
    _crash("a dual write, the database first", "DatabaseBeforeBroker"),
    _crash("the ack before the publish", "AckBeforePublish"),
    _crash("no idempotence behind the ack", "AckWithoutIdempotence"),
    _crash("`auto_ack=True`", "AutoAck"),
    _crash("ids of finished orders in memory", "DedupInMemory", "deaths"),
    _flaky("an assertion that does not wait", "looks_at_once"),
    _flaky("a wait for the delivery instead of the result", "waits_for_the_wrong_thing"),
    _flaky("a sleep instead of a wait", "sleeps"),
    *(
        Entry(name, dedent(BUGS[name].source))
        for name in (
            "a payment is rejected and there is no dead-letter exchange",
            "a queue of three drops its oldest",
            "a forgotten ack and a prefetch of one",
        )
    ),
    *(Entry(what, bug, twin) for what, (bug, twin) in MESSAGES.items()),
)
