"""The rehearsal of an upgrade: every test with a broker runs once for each given version.

The version is a parameter of a fixture that ours depend on, so test ids show it. The scope of that fixture is the
session, so pytest runs all tests of one version before those of the next, and `leveret_session` lives as long as
possible. Methods of unittest classes cannot have parameters, so these classes are copied instead. The fingerprint of a
test is attached to its reports, which also come from workers of xdist. `upgrade_report` compares the fingerprints.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret.brokers.harness import harness_of
from pytest_leveret.options import FIXTURE, versions
from pytest_leveret.options.markers import WrongMarker, marked_settings
from pytest_leveret.options.scopes import shared_names

if TYPE_CHECKING:
    from leveret import Broker
    from pytest_leveret.rehearsals.fingerprint import Fingerprint

# The attribute of a test's reports that holds its version and fingerprint.
ATTRIBUTE: Final = "leveret_rehearsal"
_COPIED: Final = pytest.StashKey[str]()
_FINGERPRINT: Final[pytest.StashKey[Fingerprint]] = pytest.StashKey()


def version_of(item: pytest.Item) -> str | None:
    """Return the version of a test in the rehearsal; None if the test runs only once."""
    callspec = getattr(item, "callspec", None)
    version = callspec.params.get(FIXTURE) if callspec is not None else None
    if isinstance(version, str) or item.parent is None:
        return version
    return item.parent.stash.get(_COPIED, None)


def multiply(metafunc: pytest.Metafunc) -> None:
    """Give a test that uses a broker each version as a parameter, unless its marker names one."""
    rehearsed = versions(metafunc.config)
    if rehearsed and FIXTURE in metafunc.fixturenames and not _has_own_version(metafunc.definition):
        ids = [f"rabbitmq-{version}" for version in rehearsed]
        metafunc.parametrize(FIXTURE, rehearsed, ids=ids, indirect=True, scope="session")


def with_copies(collected: object, config: pytest.Config) -> object:
    """Return what was collected, with a copy of each unittest class for each version behind the class."""
    if not versions(config) or collected is None:
        return collected
    nodes = collected if isinstance(collected, list) else [collected]
    return [node for one in nodes for node in (one, *_copies(one, versions(config)))]


def _copies(node: object, rehearsed: tuple[str, ...]) -> Iterator[pytest.Class]:
    if not isinstance(node, pytest.Class) or not _is_of_unittest(node.obj):
        return
    assert node.parent is not None
    for version in rehearsed:
        copy = type(node).from_parent(node.parent, name=f"{node.name}[rabbitmq-{version}]")
        # The module has no class of this name, so set what pytest would have taken from there. It is a subclass
        # because pytest before 8.2 looks up the fixtures of a class only once.
        copy.obj = type(
            node.obj.__name__, (node.obj,), {"__module__": node.obj.__module__, "__doc__": node.obj.__doc__}
        )
        copy.own_markers.extend(node.own_markers)
        copy.keywords.update((mark.name, mark) for mark in node.own_markers)
        copy.stash[_COPIED] = version
        yield copy


def without_spares(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to run: each for every version, or once if it has no broker or its marker names a version."""
    rehearsed = versions(config)
    if not rehearsed:
        return items
    return [item for item in items if _is_wanted(item, rehearsed[-1])]


def _is_wanted(item: pytest.Item, last: str) -> bool:
    version = version_of(item)
    if isinstance(item, pytest.Function) and item.cls is not None and _is_of_unittest(item.cls):
        # Without parameters, pytest would not replace the broker of the session for the next version.
        names = set(item.fixturenames)
        is_for_each = FIXTURE in names and not shared_names(item) and not _has_own_version(item)
        return is_for_each == (version is not None)
    # A parameter can have a marker that names a version, which `multiply` could not see.
    return version in (None, last) or not _has_own_version(item)


def _is_of_unittest(kind: type) -> bool:
    unittest = sys.modules.get("unittest")
    return unittest is not None and issubclass(kind, unittest.TestCase)


def _has_own_version(item: pytest.Item) -> bool:
    try:
        return "rabbitmq" in marked_settings(item)
    except WrongMarker:
        return False


def note_traces(item: pytest.Item, brokers: Iterable[Broker]) -> None:
    """Add the traces of these brokers to the fingerprint of a test, before they are stopped."""
    if version_of(item) is None:
        return
    from pytest_leveret.rehearsals.fingerprint import Fingerprint

    fingerprint = item.stash.setdefault(_FINGERPRINT, Fingerprint())
    for broker in brokers:
        harness = harness_of(broker)
        harness.sync()
        fingerprint.add(harness.events_of(item.nodeid), is_complete=harness.is_complete)


def add_to_report(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the version to each report of a test, and the fingerprint to the last one."""
    version = version_of(item)
    if version is None:
        return
    attached: dict[str, object] = {"test": _name_without(version, item.nodeid), "version": version}
    fingerprint = item.stash.get(_FINGERPRINT, None)
    if report.when == "teardown" and fingerprint is not None:
        attached |= fingerprint.plain()
    vars(report)[ATTRIBUTE] = attached


def _name_without(version: str, node_id: str) -> str:
    """Return the name that a test has on every version. xdist may have appended the name of a group."""
    own = rf"rabbitmq-{re.escape(version)}\](?=$|@|::)"
    return re.sub(rf"-{own}", "]", re.sub(rf"\[{own}", "", node_id))
