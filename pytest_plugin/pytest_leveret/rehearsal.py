"""The rehearsal of an upgrade: every test with a broker runs once for each version asked for.

A version is a parameter of a fixture behind ours, so test ids show it, and its scope is the session, so pytest runs
all tests of one version before those of the next and `leveret_session` stays while it can. Methods of unittest classes
cannot have parameters and are copied instead. What the traces of a test say travels on its reports, from the workers of
xdist too; `upgrade_report` compares it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pytest

from pytest_leveret.markers import WrongMarker, marked_settings
from pytest_leveret.options import Setting, general_settings

if TYPE_CHECKING:
    from leveret import Broker
    from pytest_leveret.fingerprint import Fingerprint

# The fixture that has the version as its parameter.
PARAMETER: Final = "_leveret_rabbitmq"
# The attribute of a test's reports that says what was rehearsed.
ATTRIBUTE: Final = "leveret_rehearsal"
_COPIED: Final = pytest.StashKey[str]()
_SEEN: Final[pytest.StashKey[Fingerprint]] = pytest.StashKey()


def versions(config: pytest.Config) -> tuple[str, ...]:
    """The versions to rehearse, oldest first; none when only one was asked for."""
    setting = general_settings(config).get("rabbitmq")
    return setting.value if setting is not None and isinstance(setting.value, tuple) else ()


def settings_for(config: pytest.Config, version: str | None) -> dict[str, Setting]:
    """The settings of the whole run, for one version of a rehearsal; for the last one when that is not known."""
    settings = dict(general_settings(config))
    rehearsed = versions(config)
    if rehearsed:
        settings["rabbitmq"] = Setting(version or rehearsed[-1], settings["rabbitmq"].origin)
    return settings


def version_of(item: pytest.Item) -> str | None:
    """The version a test is to run on; None when it was not multiplied."""
    callspec = getattr(item, "callspec", None)
    version = callspec.params.get(PARAMETER) if callspec is not None else None
    if isinstance(version, str) or item.parent is None:
        return version
    return item.parent.stash.get(_COPIED, None)


def multiply(metafunc: pytest.Metafunc) -> None:
    """Give a test that uses a broker each version as a parameter, unless its marker names one."""
    rehearsed = versions(metafunc.config)
    if rehearsed and PARAMETER in metafunc.fixturenames and not _has_own_version(metafunc.definition):
        ids = [f"rabbitmq-{version}" for version in rehearsed]
        metafunc.parametrize(PARAMETER, rehearsed, ids=ids, indirect=True, scope="session")


def with_copies(collected: object, config: pytest.Config) -> object:
    """What was collected, and behind each class of unittest, whose methods cannot have parameters, its copies."""
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
        # Nothing of this name is in the module, so what pytest would have taken from there is given. It is a class of
        # its own, because pytest before 8.2 looks for the fixtures of a class once.
        copy.obj = type(
            node.obj.__name__, (node.obj,), {"__module__": node.obj.__module__, "__doc__": node.obj.__doc__}
        )
        copy.own_markers.extend(node.own_markers)
        copy.keywords.update((mark.name, mark) for mark in node.own_markers)
        copy.stash[_COPIED] = version
        yield copy


def without_spares(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that are to run: each for every version, or once if it has no broker or names its version."""
    rehearsed = versions(config)
    if not rehearsed:
        return items
    return [item for item in items if _is_wanted(item, rehearsed[-1])]


def _is_wanted(item: pytest.Item, last: str) -> bool:
    version = version_of(item)
    if isinstance(item, pytest.Function) and item.cls is not None and _is_of_unittest(item.cls):
        # Without parameters there is no telling when the broker of the session has to be another.
        names = set(item.fixturenames)
        is_for_each = PARAMETER in names and "leveret_session" not in names and not _has_own_version(item)
        return is_for_each == (version is not None)
    # A parameter may have a marker, which nobody had seen when there were to be versions of the test.
    return version in (None, last) or not _has_own_version(item)


def _is_of_unittest(kind: type) -> bool:
    unittest = sys.modules.get("unittest")
    return unittest is not None and issubclass(kind, unittest.TestCase)


def _has_own_version(item: pytest.Item) -> bool:
    try:
        return "rabbitmq" in marked_settings(item)
    except WrongMarker:
        return False


def look_at(item: pytest.Item, brokers: Iterable[Broker]) -> None:
    """Note what the traces of these brokers say of a test, before they are stopped."""
    if version_of(item) is None:
        return
    from leveret.engine.harness import Harness
    from pytest_leveret.fingerprint import Fingerprint

    seen = item.stash.setdefault(_SEEN, Fingerprint())
    for broker in brokers:
        harness = Harness(broker)
        harness.settle()
        seen.add(harness.events_of(item.nodeid), is_complete=harness.is_complete)


def tell(item: pytest.Item, report: pytest.TestReport) -> None:
    """Write on a test's report which version it ran on, and on its last one what was seen."""
    version = version_of(item)
    if version is None:
        return
    told: dict[str, object] = {"test": _name_without(version, item.nodeid), "version": version}
    seen = item.stash.get(_SEEN, None)
    if report.when == "teardown" and seen is not None:
        told |= seen.plain()
    vars(report)[ATTRIBUTE] = told


def _name_without(version: str, node_id: str) -> str:
    """The name that a test has on every version; xdist may have put the name of a group behind it."""
    own = rf"rabbitmq-{re.escape(version)}\](?=$|@|::)"
    return re.sub(rf"-{own}", "]", re.sub(rf"\[{own}", "", node_id))
